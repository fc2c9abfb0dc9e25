//! Shows a view: of a finished recording, or of the live host until its time is up, it has shown
//! as many reports as were asked for, or someone presses Ctrl-C.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use observe::{Options, Part, Session};
use recording::{Feed, Manifest, Next, Recording, Rows, Segment, monotonic_ns};
use view::{How, Reader, Screen, View};

use crate::at::AtArgs;
use crate::filters::{self, FilterArgs};
use crate::given::Held;
use crate::live::{ready_target, say_ready, tell_sources};
use crate::{given, looks, surroundings};

/// Options of every view.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// Read this recording instead of the live host; - is standard input
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["time", "ready_file"])]
    pub from: Option<PathBuf>,
    /// With --from: replace addresses and names by pseudonyms
    #[arg(long, requires = "from", hide_short_help = true)]
    pub redact: bool,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = crate::duration::parse, conflicts_with_all = ["at", "last"])]
    pub time: Option<Duration>,
    /// One JSON object per line; the last reports what was lost
    #[arg(long)]
    pub json: bool,
    /// Size of the ring buffer between kernel and recorder, in KiB; a power of two
    #[arg(long, value_name = "KIB", default_value_t = 16 << 10, hide_short_help = true)]
    pub ring_kib: u32,
    /// Create this file once watching has begun
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub ready_file: Option<PathBuf>,
    #[command(flatten)]
    pub at: AtArgs,
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// What a view needs of a live recording.
pub struct Need {
    /// The parts that it reads.
    pub parts: &'static [Part],
    /// Of waits and calls, those at least this long.
    pub over: Duration,
    /// Of calls, these families.
    pub calls: &'static [recording::CallKind],
    /// Time between samples.
    pub interval: Duration,
    /// All changes of state.
    pub all_states: bool,
    /// Owners are found by the view from rows of every socket, so the kernel may not leave out
    /// what the filter does not ask for.
    pub owners: bool,
    /// Whose connections are is told from the first sample on, also of what happened before it.
    pub foretold: bool,
}

/// When a view ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop {
    /// After so many reports.
    pub count: Option<u64>,
    /// Live, after this time, with the samples that ending takes.
    pub most: Option<Duration>,
}

/// How long rows are held back, so that rows of several tables come in order of time: a table is
/// drained every 50 ms and handed over every 100 ms.
const HOLD: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the first sample is waited for.
const FIRST_SAMPLE: Duration = Duration::from_millis(500);
const BUFFER: usize = 64 << 10;

impl WatchArgs {
    /// Gives up what reading takes no right for; goes with the verb.
    pub fn hold(&self) -> Result<Option<Held>> {
        let from = self.reads();
        from.map(|from| given::hold([from.as_path()], None))
            .transpose()
    }

    /// Opens the recording that is to be read, which is done once: it may come from standard input.
    pub fn recording(&self) -> Result<Option<Recording>> {
        let from = self.reads();
        from.map(|from| given::open_at(&from, &self.at)).transpose()
    }

    /// What is read, if not the live host.
    fn reads(&self) -> Option<PathBuf> {
        self.from.clone().or_else(|| self.at.store())
    }
}

/// Shows it, of a recording if there is one, until the end, or until it shall stop.
pub fn watch(
    view: &mut dyn View,
    need: &Need,
    stop: Stop,
    recording: Option<Recording>,
    args: &WatchArgs,
    out: &mut impl Write,
) -> Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    match recording {
        Some(recording) => replay(view, need, recording, stop.count, args, &mut out),
        None => live(view, need, stop, args, &mut out),
    }
}

fn replay(
    view: &mut dyn View,
    need: &Need,
    recording: Recording,
    count: Option<u64>,
    args: &WatchArgs,
    out: &mut impl Write,
) -> Result<()> {
    let filter = args.filters.of(&recording)?;
    let (recording, filter) = filters::redacted(args.redact, recording, filter)?;
    let how = how(args, &recording.manifest, filter);
    let mut screen = Screen::new(out, &how).at_most(count);
    let mut reader = Reader::new(view);
    let mut rows = Rows::of(&recording, &reader.tables())?;
    if need.foretold {
        rows.foretell()?;
    }
    reader
        .show(&mut rows, u64::MAX, &mut screen)
        .map_err(plain)?;
    reader.end(&mut screen).map_err(plain)?;
    finish(&reader, &mut screen)
}

fn live(
    view: &mut dyn View,
    need: &Need,
    stop: Stop,
    args: &WatchArgs,
    out: &mut impl Write,
) -> Result<()> {
    let filter = args.filters.live()?;
    let mut options = options(need, args, &filter)?;
    let ready = ready_target(args.ready_file.as_ref())?;
    let pressed = surroundings::begin()?;
    options.stop = pressed.clone();
    let (session, feed) = Session::live(&options)?;
    for failed in session.manifest().failures() {
        cli::say(&format!("tcpwhy: {failed}; what it gives is not shown"));
    }
    let how = how(args, session.manifest(), filter);
    let mut screen = Screen::new(out, &how).at_most(stop.count);
    let mut reader = Reader::new(view);
    let mut rows = Rows::live(&reader.tables())?;
    say_ready(ready)?;

    let began = Instant::now();
    let mut foretold = !need.foretold;
    loop {
        take(&feed, &mut rows)?;
        if !foretold {
            foretold = rows.foretell()? || began.elapsed() >= FIRST_SAMPLE;
            if !foretold && !pressed.load(Ordering::Relaxed) && !session.failed() {
                continue;
            }
        }
        let until = monotonic_ns().saturating_sub(HOLD.as_nanos() as u64);
        reader.show(&mut rows, until, &mut screen).map_err(plain)?;
        screen.flush()?;
        let most = [args.time, stop.most].into_iter().flatten().min();
        let time_is_up = most.is_some_and(|time| session.lasts() >= time);
        if screen.is_full() || time_is_up || pressed.load(Ordering::Relaxed) || session.failed() {
            break;
        }
    }
    let stopped = stop_session(session, &feed, |segment| Ok(rows.add(&segment)?))?;
    if let Ok(manifest) = &stopped {
        tell_sources(manifest);
    }
    reader
        .show(&mut rows, u64::MAX, &mut screen)
        .map_err(plain)?;
    reader.end(&mut screen).map_err(plain)?;
    reader.only_health(&mut rows)?;
    finish(&reader, &mut screen)?;
    stopped?;
    Ok(())
}

/// Ends a live recording, whose last segments `take` gets; within, how the recorder ended.
pub fn stop_session(
    session: Session,
    feed: &Feed,
    mut take: impl FnMut(Segment) -> Result<()>,
) -> Result<Result<Manifest>> {
    // Stopping seals the last segments into the feed, which must be read meanwhile.
    let stopping = thread::spawn(move || session.stop());
    loop {
        match feed.next(LOOK_EVERY) {
            Next::Segment(segment) => take(segment)?,
            Next::Nothing => {}
            Next::End => break,
        }
    }
    let stopped = stopping.join();
    let stopped =
        stopped.map_err(|_| anyhow!("the recorder ended unexpectedly; this is a bug in tcpwhy"));
    Ok(stopped.and_then(|ended| Ok(ended?)))
}

/// Takes what has come, waiting a moment for the first of it.
fn take(feed: &Feed, rows: &mut Rows) -> Result<()> {
    let mut wait = LOOK_EVERY;
    while let Next::Segment(segment) = feed.next(wait) {
        rows.add(&segment)?;
        wait = Duration::ZERO;
    }
    Ok(())
}

/// The filter for the kernel when owners are found by who reads, from rows of every socket.
pub fn without_tasks(filter: &observe::Filter) -> observe::Filter {
    let mut filter = filter.clone();
    let asks = filter.asks_for_tasks();
    (filter.pids, filter.comms, filter.cgroups) = Default::default();
    if asks {
        (filter.ports, filter.addrs) = Default::default();
    }
    filter
}

fn options(need: &Need, args: &WatchArgs, filter: &observe::Filter) -> Result<Options> {
    let filter = if need.owners {
        without_tasks(filter)
    } else {
        filter.clone()
    };
    Ok(Options {
        parts: need.parts.iter().copied().collect(),
        filter,
        interval: need.interval.max(Duration::from_millis(10)),
        ring_bytes: args.ring_kib.saturating_mul(1024),
        all_states: need.all_states,
        call_over: need.over,
        calls_only: need.calls,
        wait_over: need.over,
        command_line: surroundings::command_line(),
        ..Options::default()
    })
}

fn how(args: &WatchArgs, manifest: &Manifest, filter: observe::Filter) -> How {
    How {
        json: args.json,
        width: looks::terminal_columns(),
        ascii: looks::ascii(),
        filter,
        ..How::of(manifest).zoned(looks::zone(), manifest)
    }
}

fn finish(reader: &Reader, screen: &mut Screen) -> Result<()> {
    if screen.is_json() {
        reader.health.print(screen)?;
    }
    screen.flush()?;
    if let Some(says) = reader.health.says() {
        cli::say(&format!("tcpwhy: {says}"));
    }
    Ok(())
}

fn plain(e: view::Error) -> anyhow::Error {
    match e {
        view::Error::Recording(e) => e.into(),
        view::Error::Output(e) => e.into(),
    }
}
