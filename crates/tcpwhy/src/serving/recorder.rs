//! The recorder of `serve`: one recording after the other, into a store, and a closer look where a window looks sick.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use observe::{Options, Session};
use sd_notify::NotifyState;
use store::{Gap, Keeper};

use super::closer::Closer;
use super::helper::Helper;
use super::merger::Merger;
use super::now_ns;
use crate::disk::Disk;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked what the store and its disk have.
const CARE_EVERY: Duration = Duration::from_secs(1);
/// After an error, or on a full disk, it is tried again so often.
const TRY_EVERY: Duration = Duration::from_secs(10);
/// No recording is shorter: to begin one takes seconds of CPU.
const LEAST: Duration = Duration::from_secs(2);
/// The clock was set, or the host was suspended, where it runs ahead of the host's other clock by so much more.
const SET: Duration = Duration::from_millis(500);

/// Records one recording after the other.
pub struct Recorder {
    keeper: Keeper,
    options: Options,
    merger: Merger,
    /// Who explains what is recorded, in a process of its own; `None` where nobody does.
    helper: Option<Helper>,
    closer: Closer,
    /// `None` while nothing can be recorded.
    running: Option<Running>,
    /// When a recording was last begun, or could not be.
    tried: Instant,
    /// Since when nothing has been recorded, and why.
    stopped_ns: Option<(i64, String)>,
}

/// The recording that is being made.
struct Running {
    session: Session,
    path: PathBuf,
    /// All that explain can use is recorded.
    is_close: bool,
    /// The clock's lead on the other clock when it began, ns.
    offset_ns: i64,
}

impl Recorder {
    /// Begins to record into a store. What a killed one left there is merged when there is time.
    pub fn start(keeper: Keeper, options: Options, helper: Option<Helper>) -> Result<Recorder> {
        let merger = Merger::start()?;
        let unmerged = keeper.unmerged()?;
        unmerged.into_iter().for_each(|left| merger.take(left));
        let mut recorder = Recorder {
            closer: Closer::new(&store::findings(keeper.dir()), helper.is_some()),
            keeper,
            options,
            merger,
            helper,
            running: None,
            tried: Instant::now(),
            stopped_ns: None,
        };
        recorder.begin(false)?;
        Ok(recorder)
    }

    /// Records until `stop` is set. Whatever fails is tried again: what happens on a hurting host is wanted.
    pub fn run(&mut self, stop: &Arc<AtomicBool>) -> Result<()> {
        let mut cared = Instant::now();
        let watched = sd_notify::watchdog_enabled().is_some();
        while !stop.load(Ordering::Relaxed) {
            sleep(LOOK_EVERY);
            if let Err(why) = self.tick() {
                self.interrupt(&format!("{why:#}"));
            }
            if cared.elapsed() >= CARE_EVERY {
                cared = Instant::now();
                self.care();
                if watched {
                    let _ = sd_notify::notify(&[NotifyState::Watchdog]);
                }
                if let Some(helper) = &mut self.helper {
                    helper.care();
                }
            }
            if self.running.is_none() && self.tried.elapsed() >= TRY_EVERY {
                self.resume();
            }
        }
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        self.running.take().map_or(Ok(()), |last| self.end(last))
    }

    /// Begins a recording, of all that explain can use where it `is_close`; the one before it ends when this one has begun,
    /// so that nothing is missed.
    fn begin(&mut self, is_close: bool) -> Result<()> {
        self.tried = Instant::now();
        let now_ns = now_ns();
        self.keeper.keep_young(now_ns)?;
        let path = self.keeper.begin(now_ns);
        let options = if is_close {
            Closer::options(&self.options)
        } else {
            self.options.clone()
        };
        let session = Session::start(&path, &options)?;
        let offset_ns = session.manifest().clock_offset_ns;
        let begun = Running {
            session,
            path,
            is_close,
            offset_ns,
        };
        if let Some(before) = self.running.replace(begun) {
            self.end_or_say(before);
        }
        Ok(())
    }

    fn end(&mut self, running: Running) -> Result<()> {
        let ended = running.session.stop();
        self.keeper.changed(&running.path);
        self.merger.take(running.path);
        ended.map(drop).context("ending a recording")
    }

    /// The same where another one has begun, or cannot: what it holds is whole.
    fn end_or_say(&mut self, running: Running) {
        if let Err(why) = self.end(running) {
            cli::say(&format!("tcpwhy: {why:#}"));
        }
    }

    /// Looks after the recording that is being made.
    fn tick(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        if let Some(says) = running.session.tick()? {
            cli::say(&format!("tcpwhy: {says}"));
        }
        if running.session.failed() {
            let running = self.running.take().context("no recording")?;
            return self.end(running);
        }
        let manifest = running.session.manifest();
        let lead_ns = now_ns().saturating_sub_unsigned(recording::monotonic_ns());
        let was_set = lead_ns.abs_diff(running.offset_ns) >= SET.as_nanos() as u64;
        let lasts = Duration::from_nanos(manifest.end_ns.saturating_sub(manifest.start_ns));
        let was_close = running.is_close;
        let is_close = self.closer.is_wanted(was_close);
        let is_over = was_set || self.keeper.is_full(lasts, running.session.on_disk());
        if (is_over || is_close != was_close) && self.tried.elapsed() >= LEAST {
            if is_close && !was_close {
                cli::say("tcpwhy: recording all that explain can use for a while");
            }
            match self.begin(is_close) {
                Ok(()) if is_close != was_close => self.closer.turned(),
                Ok(()) => {}
                // This one goes on.
                Err(why) => {
                    let says = format!("the next recording could not begin: {why:#}");
                    self.say_unless_stopped(&says);
                }
            }
        }
        Ok(())
    }

    /// Keeps the store within its bounds, and stops where the disk is full.
    fn care(&mut self) {
        self.merger
            .merged
            .try_iter()
            .for_each(|path| self.keeper.changed(&path));
        let disk = Disk::new(false);
        let dir = self.keeper.dir().to_path_buf();
        let running = self.running.as_ref();
        let current = running.map(|r| (r.path.as_path(), r.session.on_disk()));
        if let Err(why) = self.keeper.keep_small(current, disk.is_short(&dir)) {
            cli::say(&format!("tcpwhy: {why}"));
        }
        if let Some(why) = running.and(disk.full(&dir, 0)) {
            self.interrupt(&why);
        }
    }

    /// Ends the recording, as no more can be recorded now.
    fn interrupt(&mut self, why: &str) {
        cli::say(&format!(
            "tcpwhy: nothing is recorded until it can be again: {why}"
        ));
        self.stopped_ns.get_or_insert((now_ns(), why.into()));
        self.tried = Instant::now();
        if let Some(running) = self.running.take() {
            self.end_or_say(running);
        }
    }

    /// A line, but for what only comes of being told to stop.
    fn say_unless_stopped(&self, says: &str) {
        if !self.options.stop.load(Ordering::Relaxed) {
            cli::say(&format!("tcpwhy: {says}"));
        }
    }

    /// Goes on where it can.
    fn resume(&mut self) {
        if Disk::new(false).full(self.keeper.dir(), 0).is_some() {
            return;
        }
        if let Err(why) = self.begin(false) {
            self.say_unless_stopped(&format!("still nothing is recorded: {why:#}"));
            return;
        }
        cli::say("tcpwhy: recording again");
        if let Some((from_ns, why)) = self.stopped_ns.take() {
            let gap = Gap {
                from_ns,
                to_ns: now_ns(),
                why,
            };
            if let Err(why) = self.keeper.gap(gap) {
                cli::say(&format!("tcpwhy: {why}"));
            }
        }
    }
}
