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
    let too_many = alerts.too_many();
    let mut watch = Watch {
        own: &own,
        book,
        alerts,
        receivers,
        pins: Pins::open(store, pinned)?,
        written: Instant::now(),
        troubled: false,
        sick: None,
        blind: None,
        too_many,
    };
    watch.write();
    let mut explainer = Explainer::start(explain::Options::default(), None)?;
    let mut looked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        sleep(LOOK_EVERY);
        if let Some(done) = explainer.done() {
            match done.explained {
                Ok(explanation) => watch.take(&explanation, done.span),
                Err(why) => watch.blind(&why),
            }
        }
        if explainer.is_due(watch.troubled) && looked.elapsed() >= HOLD {
            looked = Instant::now();
            match job(store, explainer.length()) {
                Ok(Some(job)) => explainer.begin(job, watch.troubled),
                Ok(None) => {}
                Err(why) => watch.blind(&why.to_string()),
            }
        }
        watch.keep();
    }
    watch.write();
    Ok(())
}

/// What was recorded last; `None` where there is too little of it.
fn job(store: &Path, length: Duration) -> Result<Option<Job>, store::Error> {
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let to_ns = now_ns().saturating_sub(ns(HOLD));
    let opened = Store::open(store);
    let window = opened.and_then(|s| s.window(to_ns.saturating_sub(ns(length)), to_ns));
    let recording = match window {
        Ok(window) => window.recording,
        // There may be none yet, or none of that time: then there is nothing to say.
        Err(store::Error::Missing(_) | store::Error::Nothing { .. }) => return Ok(None),
        Err(why) => return Err(why),
    };
    let manifest = &recording.manifest;
    let job = (manifest.length() >= LEAST).then(|| Job {
        span: (manifest.start_ns, manifest.end_ns),
        recording: recording.clone(),
        remove: None,
    });
    Ok(job)
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
    /// When it was last said that nothing can be.
    blind: Option<Instant>,
    /// Findings that were not raised, as far as was said.
    too_many: u64,
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
        if self.alerts.too_many() > self.too_many {
            self.too_many = self.alerts.too_many();
            let n = self.too_many;
            cli::say(&format!(
                "tcpwhy: too many findings hold at a time: {n} were not raised"
            ));
        }
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

    /// Nothing can be said of this window: why, where that was not said a short time ago.
    fn blind(&mut self, why: &str) {
        if self.blind.is_none_or(|at| at.elapsed() >= CALM) {
            self.blind = Some(Instant::now());
            cli::say(&format!("tcpwhy: findings cannot be looked for: {why}"));
        }
    }

    /// Keeps what was recorded around findings.
    fn keep(&mut self) {
        let before = self.pins.removed;
        let copied = self.pins.copy(now_ns());
        if self.pins.removed > before {
            let mb = (self.pins.removed - before) / 1_000_000;
            cli::say(&format!(
                "tcpwhy: {mb} MB that were kept around old findings went: --pins keeps more"
            ));
        }
        if let Err(why) = copied {
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
