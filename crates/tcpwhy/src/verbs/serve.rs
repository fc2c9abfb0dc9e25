//! `tcpwhy serve`: records the live host for good, into a store.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use jiff::Timestamp;
use observe::{Options, Part, Session};
use store::{Bounds, Gap, Keeper};

use crate::at::STORE;
use crate::disk::Disk;
use crate::filters::FilterArgs;
use crate::live::{WhatArgs, ready_target, say_ready};
use crate::surroundings;

/// Arguments of `tcpwhy serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Directory of the store; made if there is none
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store: PathBuf,
    /// Remove what is older
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = crate::duration::parse)]
    keep: Duration,
    /// Remove the oldest when the store takes more: 500M, 4G
    #[arg(long = "max", value_name = "SIZE", default_value = "4G", value_parser = crate::size::parse)]
    most: u64,
    /// Create this file once recording has begun
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    filters: FilterArgs,
}

/// A crash loses no more of any table.
const SEAL_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked what the store and its disk have.
const CARE_EVERY: Duration = Duration::from_secs(1);
/// After an error, or on a full disk, it is tried again so often.
const TRY_EVERY: Duration = Duration::from_secs(10);
/// No recording is shorter: to begin one takes seconds of CPU.
const LEAST: Duration = Duration::from_secs(2);
/// The clock was set, or the host was suspended, where it runs ahead of the host's other clock by so much more.
const SET: Duration = Duration::from_millis(500);
/// Recordings that wait to be merged; more are merged when it starts again.
const MAX_WAITING: usize = 64;

/// Runs the verb.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let ready = ready_target(args.ready_file.as_ref())?;
    let filter = args.filters.live()?;
    let stop = surroundings::begin()?;
    let bounds = Bounds {
        keep: args.keep,
        most: args.most,
    };
    let keeper = Keeper::open(&args.store, bounds)?;
    let options = Options {
        stop: stop.clone(),
        seal_every: Some(SEAL_EVERY),
        sock_key: Some(observe::sock_key()?),
        ..args.what.options(filter, Part::by_default())
    };
    let merger = Merger::start()?;
    keeper
        .unmerged()?
        .into_iter()
        .for_each(|left| merger.take(left));
    let mut recorder = Recorder {
        keeper,
        options,
        merger,
        running: None,
        tried: Instant::now(),
        stopped_ns: None,
    };
    recorder.begin()?;
    say_ready(ready)?;
    cli::say(&format!(
        "tcpwhy: recording into {}; `tcpwhy explain {} --last 5m` says what it shows",
        args.store.display(),
        args.store.display()
    ));
    recorder.run(&stop)?;
    Ok(ExitCode::SUCCESS)
}

/// Records one recording after the other.
struct Recorder {
    keeper: Keeper,
    options: Options,
    merger: Merger,
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
    /// The clock's lead on the other clock when it began, ns.
    offset_ns: i64,
}

impl Recorder {
    /// Records until `stop` is set. Whatever fails is tried again: what happens on a hurting host is wanted.
    fn run(&mut self, stop: &Arc<AtomicBool>) -> Result<()> {
        let mut cared = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            sleep(LOOK_EVERY);
            if let Err(why) = self.tick() {
                self.interrupt(&format!("{why:#}"));
            }
            if cared.elapsed() >= CARE_EVERY {
                cared = Instant::now();
                self.care();
            }
            if self.running.is_none() && self.tried.elapsed() >= TRY_EVERY {
                self.resume();
            }
        }
        self.running.take().map_or(Ok(()), |last| self.end(last))
    }

    /// Begins a recording; the one before it ends when this one has begun, so that nothing is missed.
    fn begin(&mut self) -> Result<()> {
        self.tried = Instant::now();
        let now_ns = now_ns();
        self.keeper.keep_young(now_ns)?;
        let path = self.keeper.begin(now_ns);
        let session = Session::start(&path, &self.options)?;
        let offset_ns = session.manifest().clock_offset_ns;
        let begun = Running {
            session,
            path,
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
        let is_over = was_set || self.keeper.is_full(lasts, running.session.on_disk());
        if is_over && self.tried.elapsed() >= LEAST {
            // Where the next cannot begin, this one goes on.
            if let Err(why) = self.begin() {
                self.say_unless_stopped(&format!("the next recording could not begin: {why:#}"));
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
        if let Err(why) = self.begin() {
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

/// Now, ns since 1970.
fn now_ns() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

/// A thread that merges recordings that have ended, when the host has nothing better to do.
struct Merger {
    ended: SyncSender<PathBuf>,
    /// Those that have another size now.
    merged: Receiver<PathBuf>,
}

impl Merger {
    fn start() -> Result<Merger> {
        let (ended, to_merge) = sync_channel::<PathBuf>(MAX_WAITING);
        let (done, merged) = channel();
        let merge = move || {
            // It is this thread's alone, on Linux.
            let _ = rustix::process::nice(19);
            for path in to_merge {
                if let Err(why) = store::merge(&path) {
                    let why = anyhow!(why).context(path.display().to_string());
                    cli::say(&format!("tcpwhy: {why:#}"));
                }
                // Nobody asks any more when the process ends.
                let _ = done.send(path);
            }
        };
        let thread = thread::Builder::new().name("tcpwhy:merger".into());
        thread.spawn(merge).context("starting a thread")?;
        Ok(Merger { ended, merged })
    }

    /// Merges it when there is time. What finds no place waits for the next start.
    fn take(&self, ended: PathBuf) {
        let _ = self.ended.try_send(ended);
    }
}
