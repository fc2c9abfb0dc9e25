//! The explainer of `serve`: explains the last seconds again and again, and says what comes and goes. It has no rights but
//! to read the store, and to write a directory of its own.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use alerts::{Alerts, Book, Change, Error, Told};
use anyhow::Result;
use explain::Explanation;
use store::{Pins, Store};

use super::closer::SICK;
use super::now_ns;
use super::receivers::Receivers;
use crate::confine::confine;
use crate::explainer::{Explainer, Job};

const NICE: i32 = 19;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Tables are sealed every second, so that what is this old can be read.
const HOLD: Duration = Duration::from_millis(1_500);
/// Of less nothing is said.
const LEAST: Duration = Duration::from_secs(3);
/// What looks sick again within this time is not said again.
const CALM: Duration = Duration::from_secs(60);
/// So much of what comes after a finding was raised is kept, ns.
const BEGINNING_NS: i64 = 120_000_000_000;
/// What holds is written down so often, though nothing changes: who reads it sees that it is not from yesterday.
pub const WRITE_EVERY: Duration = Duration::from_secs(60);

/// Explains what is recorded into a store until `stop` is set; of what was recorded around findings, `pinned` bytes at most
/// are kept when the rest has gone.
pub fn run(store: &Path, pinned: u64, journal: &Path, stop: &Arc<AtomicBool>) -> Result<()> {
    let own = store::findings(store);
    let receivers = Receivers::connect(journal);
    confine(&[store], &[&own]);
    // Nothing that anyone waits for is kept waiting.
    let _ = rustix::process::setpriority_process(None, NICE);
    let book = Book::new(&own);
    let alerts = match book.read() {
        Ok((alerts, _)) => alerts,
        Err(Error::Missing(_)) => Alerts::default(),
        Err(why) => {
            cli::say(&format!("tcpwhy: {why}; findings are counted from now on"));
            Alerts::default()
        }
    };
    let mut watch = Watch {
        own: &own,
        book,
        alerts,
        receivers,
        pins: Pins::open(store, pinned)?,
        written: Instant::now(),
        troubled: false,
        sick: None,
    };
    watch.write();
    let mut explainer = Explainer::start(explain::Options::default(), None)?;
    let mut looked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        sleep(LOOK_EVERY);
        if let Some(done) = explainer.done() {
            match done.explained {
                Ok(explanation) => watch.take(&explanation, done.span),
                Err(why) => cli::say(&format!("tcpwhy: explaining failed: {why}")),
            }
        }
        if explainer.is_due(watch.troubled) && looked.elapsed() >= HOLD {
            looked = Instant::now();
            if let Some(job) = job(store, explainer.length()) {
                explainer.begin(job, watch.troubled);
            }
        }
        watch.keep();
    }
    watch.write();
    Ok(())
}

/// What was recorded last; `None` where there is too little of it.
fn job(store: &Path, length: Duration) -> Option<Job> {
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let to_ns = now_ns().saturating_sub(ns(HOLD));
    // There may be none yet, or none of that time: then there is nothing to say.
    let window = Store::open(store)
        .ok()?
        .window(to_ns.saturating_sub(ns(length)), to_ns);
    let recording = window.ok()?.recording;
    let manifest = &recording.manifest;
    if manifest.length() < LEAST {
        return None;
    }
    Some(Job {
        span: (manifest.start_ns, manifest.end_ns),
        recording,
        remove: None,
    })
}

/// What is known, and who is told of it.
struct Watch<'d> {
    own: &'d Path,
    book: Book,
    alerts: Alerts,
    receivers: Receivers,
    pins: Pins,
    written: Instant,
    /// The last window looked sick.
    troubled: bool,
    /// When one looked sick last.
    sick: Option<Instant>,
}

impl Watch<'_> {
    /// What explain says of the time between two, ns of CLOCK_MONOTONIC.
    fn take(&mut self, explanation: &Explanation, (from_ns, to_ns): (u64, u64)) {
        let start_ns = explanation.summary.recording.start_unix_ns;
        let to_ns = start_ns.saturating_add_unsigned(to_ns.saturating_sub(from_ns));
        let changes = self.alerts.take(Told {
            explanation,
            to_ns,
            now_ns: now_ns(),
        });
        let sick = explanation.sick();
        if let Some(why) = &sick {
            // What is raised says so itself.
            if changes.is_empty() && self.sick.is_none_or(|at| at.elapsed() >= CALM) {
                cli::say(&format!("tcpwhy: this looks sick: {why}"));
            }
            self.sick = Some(Instant::now());
        }
        self.troubled = sick.is_some();
        if self.troubled {
            // The recorder looks at its time; where it cannot be written, nothing more is recorded.
            let _ = fs::write(self.own.join(SICK), "");
        }
        for change in &changes {
            self.receivers.tell(change);
            match change {
                // How it began is kept though it lasts for days.
                Change::Raised(alert) => {
                    self.pins.want(alert.began_unix_ns, now_ns() + BEGINNING_NS);
                }
                Change::Resolved(alert) => {
                    self.pins.want(alert.last_unix_ns, alert.last_unix_ns);
                }
            }
        }
        if !changes.is_empty() || self.written.elapsed() >= WRITE_EVERY {
            self.write();
        }
    }

    /// Keeps what was recorded around findings.
    fn keep(&mut self) {
        if let Err(why) = self.pins.copy(now_ns()) {
            cli::say(&format!(
                "tcpwhy: what was recorded around a finding is not kept: {why}"
            ));
        }
    }

    /// Writes down what is known. On a full disk it is told all the same.
    fn write(&mut self) {
        self.written = Instant::now();
        if let Err(why) = self.book.write(&self.alerts, now_ns()) {
            cli::say(&format!("tcpwhy: {why}"));
        }
    }
}
