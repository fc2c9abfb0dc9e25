//! Records the live host until its time is up, its command ends, or someone presses Ctrl-C.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use cli::Target;
use indicatif::{ProgressBar, ProgressStyle};
use observe::{Filter, Options, Part, ProfileOptions, Session};
use recording::{Manifest, Verdict};
use rustix::process::{Pid, Signal, kill_process};

use crate::caller::Caller;
use crate::disk::Disk;
use crate::filters::FilterArgs;
use crate::kept::Kept;
use crate::surroundings;

/// What is recorded, and how closely.
#[derive(Args, Debug)]
#[command(next_help_heading = "Recording")]
pub struct WhatArgs {
    /// Time between samples of sockets and counters
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = crate::duration::parse)]
    pub interval: Duration,
    /// Size of the ring buffer between kernel and recorder, in KiB; a power of two
    #[arg(long, value_name = "KIB", default_value_t = 16 << 10)]
    pub ring_kib: u32,
    /// Record every state change, including the steps of an orderly close
    #[arg(long)]
    pub all_states: bool,
    /// Also record these parts: calls, packets, waits, threads, requests, heartbeats, profile. `explain` = the last
    /// five, as explain records by default
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = parts)]
    pub with: Vec<Parts>,
    /// Do not record these parts: waits, threads, requests, heartbeats, profile, ports, ...
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = part)]
    pub without: Vec<Part>,
    /// Turn off profile, then requests, then waits and threads if recording takes more than this share of one CPU;
    /// sockets are sampled as often as it allows
    #[arg(long, value_name = "PERCENT")]
    pub max_cpu: Option<f64>,
    /// With calls: those that take at least this long; 0s means all
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = crate::duration::parse)]
    pub call_over: Duration,
    /// With waits: those that last at least this long; 0s means all
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = crate::duration::parse)]
    pub wait_over: Duration,
    /// With profile: samples per second and CPU [default: 997, fewer where a timer tick is expensive: see doctor]
    #[arg(long, value_name = "HZ", help_heading = "Profile")]
    pub profile_hz: Option<u32>,
    /// With profile: only these CPUs
    #[arg(
        long,
        value_name = "CPU",
        value_delimiter = ',',
        help_heading = "Profile"
    )]
    pub profile_cpus: Vec<u32>,
    /// With profile: only the kernel
    #[arg(long, help_heading = "Profile")]
    pub kernel_only: bool,
    /// With profile: only softirqs
    #[arg(long, help_heading = "Profile")]
    pub softirq_only: bool,
}

/// Options of every verb that records.
#[derive(Args, Debug)]
pub struct LiveArgs {
    #[command(flatten)]
    pub what: WhatArgs,
    /// Create this file once recording has begun
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Name shown by compare: a version, a host, a change
    #[arg(long = "label", value_name = "TEXT")]
    pub labels: Vec<String>,
    /// Replace addresses and names by pseudonyms, in the recording and in the output
    #[arg(long)]
    pub redact: bool,
    /// Run COMMAND as root, not as the user who called sudo
    #[arg(long, requires = "command")]
    pub as_root: bool,
    /// Run this command and record until it ends; under sudo, it runs as the user who called sudo
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    // Last, as its heading would go on over what follows.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// What was recorded.
pub struct Recorded {
    /// Not redacted, whatever is kept.
    pub manifest: Manifest,
    /// Why it ended before its time, if an error ended it: what came before is whole.
    pub cut_by: Option<anyhow::Error>,
    /// It ended as it has the size that was asked for.
    pub is_full: bool,
}

/// When a recording ends by itself; with neither, when its command ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    pub time: Option<Duration>,
    pub bytes: Option<u64>,
}

impl Bounds {
    /// After so long.
    pub fn of_time(time: Option<Duration>) -> Bounds {
        Bounds {
            time,
            ..Bounds::default()
        }
    }
}

/// What ended a recording before its time.
enum Cut {
    Failed(observe::Error),
    /// The disk is as full as it may be: why.
    Disk(String),
    /// It has the size that was asked for.
    Size,
}

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// It is looked so often at how full the disk is: segments are sealed every three seconds.
const DISK_EVERY: Duration = Duration::from_secs(1);
/// How long a command may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
/// Who waits so long for a recording to begin wants to know: the time that is asked for counts from then on.
const LONG: Duration = Duration::from_secs(1);

/// What all of `explain` records is called so.
const EXPLAIN: &str = "explain";

/// A part, or those that `explain` records.
#[derive(Clone, Debug)]
pub struct Parts(Vec<Part>);

fn parts(name: &str) -> Result<Parts, String> {
    match name {
        EXPLAIN => Ok(Parts(Part::to_explain().collect())),
        _ => part(name).map(|p| Parts(vec![p])),
    }
}

fn part(name: &str) -> Result<Part, String> {
    let names: Vec<_> = Part::ALL.iter().map(|p| p.1).collect();
    Part::named(name).ok_or_else(|| format!("the parts are {}", names.join(", ")))
}

impl WhatArgs {
    /// For the recorder: `parts`, and what is asked for.
    pub fn options(&self, filter: Filter, parts: impl Iterator<Item = Part>) -> Options {
        Options {
            parts: parts
                .chain(self.with.iter().flat_map(|p| p.0.iter().copied()))
                .filter(|part| !self.without.contains(part))
                .collect(),
            filter,
            interval: self.interval.max(Duration::from_millis(10)),
            ring_bytes: self.ring_kib.saturating_mul(1024),
            all_states: self.all_states,
            call_over: self.call_over,
            wait_over: self.wait_over,
            profile: ProfileOptions {
                hz: self.profile_hz,
                cpus: self.profile_cpus.clone(),
                kernel_only: self.kernel_only,
                softirq_only: self.softirq_only,
            },
            max_cpu: self.max_cpu,
            command_line: surroundings::command_line(),
            ..Options::default()
        }
    }
}

/// Records `parts` and what is asked for into `kept` within its bounds, or, when there is a command and no time, until it
/// ends; or until `stop` is set.
pub fn record(
    stop: &Arc<AtomicBool>,
    kept: &Kept,
    bounds: Bounds,
    filter: Filter,
    parts: impl Iterator<Item = Part>,
    args: &LiveArgs,
) -> Result<Recorded> {
    let ready = ready_target(args.ready_file.as_ref())?;
    let options = Options {
        redact: args.redact,
        labels: args.labels.clone(),
        stop: stop.clone(),
        ..args.what.options(filter, parts)
    };
    // Attaching may take seconds, and would be for nothing.
    if let Some(program) = args.command.first().filter(|program| !is_there(program)) {
        bail!("{program}: command not found");
    }
    let disk = Disk::new(kept.is_twice());
    if let Some(why) = disk.full(kept.beside(), 0) {
        bail!("{why}; record elsewhere with -o, or make room");
    }
    let mut session = Session::start(kept.dir(), &options)?;
    kept.begun();
    let attaching = session.attaching();
    if attaching >= LONG {
        cli::say(&format!("tcpwhy: {}", took(attaching, bounds.time)));
    }
    let begun = say_ready(ready).and_then(|()| start(args, kept.takes_stdout()));
    let running = match begun {
        Ok(running) => running,
        Err(e) => {
            // Nothing worth keeping was recorded.
            session.stop()?;
            let _ = std::fs::remove_dir_all(kept.dir());
            return Err(e);
        }
    };
    if let Some(running) = &running {
        session.runs(running.child.id());
    }
    let cut = wait(&mut session, running, bounds, stop, |written| {
        disk.full(kept.dir(), written)
    })?;
    let manifest = session.stop()?;
    tell_sources(&manifest);
    cli::detail(&format!(
        "tcpwhy: attaching took {attaching:.2?}, the recording holds {:.2?}",
        manifest.length()
    ));
    let lasted = manifest.length().as_secs_f64();
    let is_full = matches!(cut, Some(Cut::Size));
    let cut_by = match cut {
        Some(Cut::Failed(why)) => Some(anyhow::Error::new(why).context(format!(
            "an error ended the recording after {lasted:.1} s; what it holds is whole"
        ))),
        Some(Cut::Disk(why)) => Some(anyhow!(
            "the recording ended after {lasted:.1} s, and what it holds is whole: {why}"
        )),
        Some(Cut::Size) | None => None,
    };
    Ok(Recorded {
        manifest,
        cut_by,
        is_full,
    })
}

/// How long attaching took, and what is recorded after that.
fn took(attaching: Duration, time: Option<Duration>) -> String {
    let attaching = attaching.as_secs_f64();
    match time.map(|time| time.as_secs_f64()) {
        Some(time) => {
            format!("attaching took {attaching:.1} s; the recording holds {time} s from then on")
        }
        None => format!("attaching took {attaching:.1} s; the recording begins now"),
    }
}

/// Every source with its verdict, and what was lost of it, where details are asked for.
pub fn tell_sources(manifest: &Manifest) {
    for source in &manifest.sources {
        let verdict = match &source.verdict {
            Verdict::Attached => "yes".to_string(),
            Verdict::Unsupported(why) => format!("no: {why}"),
            Verdict::Failed(why) => format!("FAILED: {why}"),
        };
        let lost = match source.lost {
            0 => String::new(),
            n => format!(", {n} records lost"),
        };
        cli::detail(&format!("tcpwhy: source {}: {verdict}{lost}", source.name));
    }
}

/// Where to say that recording has begun.
pub fn ready_target(file: Option<&PathBuf>) -> Result<Option<Target>> {
    file.map(|file| Target::of(file)).transpose()
}

/// Creates the file that says that recording has begun.
pub fn say_ready(target: Option<Target>) -> Result<()> {
    match target {
        Some(target) => target.write(|_| Ok(())).map(drop),
        None => Ok(()),
    }
}

/// Whether execvp(3) would find a program.
fn is_there(program: &str) -> bool {
    let within = std::env::var_os("PATH");
    let found = |dirs| std::env::split_paths(&dirs).any(|dir| dir.join(program).exists());
    if program.contains('/') {
        Path::new(program).exists()
    } else {
        within.is_none_or(found)
    }
}

/// Runs the command; its output goes to standard error where that is not to be mixed with ours.
fn start(args: &LiveArgs, no_stdout: bool) -> Result<Option<Running>> {
    let Some((program, words)) = args.command.split_first() else {
        return Ok(None);
    };
    let caller = Caller::find().filter(|_| !args.as_root);
    let mut command = Command::new(program);
    if no_stdout {
        let stderr = io::stderr().as_fd().try_clone_to_owned();
        command.stdout(stderr.context("giving the command its output")?);
    }
    let mut command = observe::with_own_limits(command.args(words));
    if let Some(caller) = &caller {
        command = caller.run(command);
    }
    // This thread ends with the process.
    let child = observe::ends_with_us(command).spawn();
    let child = child.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => anyhow!("{program}: command not found"),
        _ => anyhow!("{program}: {e}"),
    })?;
    Ok(Some(Running {
        child,
        r#as: caller.map(|caller| caller.name),
    }))
}

/// The command that is recorded.
struct Running {
    child: Child,
    /// Whose rights it has, where they are not ours.
    r#as: Option<String>,
}

/// Waits for the end; what brought it, if that is neither time nor command nor the user. `full` says why no more than so
/// many bytes may be recorded.
fn wait(
    session: &mut Session,
    mut running: Option<Running>,
    Bounds { time, bytes }: Bounds,
    stop: &AtomicBool,
    full: impl Fn(u64) -> Option<String>,
) -> Result<Option<Cut>> {
    let began = Instant::now();
    let mut ended_itself;
    let mut cut = None;
    let mut looked = began;
    let bar = progress(time);
    loop {
        if !bar.is_hidden() {
            bar.set_position(session.lasts().as_millis() as u64);
        }
        ended_itself = match &mut running {
            Some(running) => running
                .child
                .try_wait()
                .context("waiting for the command")?
                .is_some(),
            None => false,
        };
        if ended_itself {
            session.has_run();
        }
        let time_is_up = time.is_some_and(|time| session.lasts() >= time);
        if ended_itself || time_is_up || stop.load(Ordering::Relaxed) || session.failed() {
            break;
        }
        match session.tick() {
            Ok(says) => says.iter().for_each(|says| tell(&bar, says)),
            // It may have passed when the recording is ended, which then tells of none.
            Err(e) => {
                cut = Some(Cut::Failed(e));
                break;
            }
        }
        if bytes.is_some_and(|most| session.written() >= most) {
            cut = Some(Cut::Size);
            break;
        }
        if looked.elapsed() >= DISK_EVERY {
            looked = Instant::now();
            cut = full(session.written()).map(Cut::Disk);
            if cut.is_some() {
                break;
            }
        }
        sleep(LOOK_EVERY);
    }
    bar.finish_and_clear();
    if let Some(mut running) = running {
        let took = began.elapsed();
        let status = end(&mut running.child)?;
        let user = match running.r#as {
            Some(user) if !status.success() => {
                format!(" (as {user}, who called sudo; --as-root runs it as root)")
            }
            _ => String::new(),
        };
        let how = if ended_itself {
            format!("ended after {took:.2?}: {status}{user}")
        } else {
            format!("was ended by tcpwhy after {took:.2?}")
        };
        // What it printed last need not have ended a line.
        cli::say("");
        cli::say(&format!("tcpwhy: the command {how}"));
    }
    Ok(cut)
}

/// Ends the command we started, by pid, if it still runs.
fn end(child: &mut Child) -> Result<ExitStatus> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let signal = if since.elapsed() < GRACE {
            Signal::TERM
        } else {
            Signal::KILL
        };
        if let Some(pid) = Pid::from_raw(child.id() as i32) {
            // It may have ended in between.
            let _ = kill_process(pid, signal);
        }
        sleep(LOOK_EVERY);
    }
}

/// A line above the bar, if there is one.
fn tell(bar: &ProgressBar, says: &str) {
    bar.suspend(|| cli::say(&format!("tcpwhy: {says}")));
}

/// A bar on a terminal; nothing in a pipe.
fn progress(time: Option<Duration>) -> ProgressBar {
    if cli::is_quiet() {
        return ProgressBar::hidden();
    }
    match time {
        Some(time) => {
            let style = ProgressStyle::with_template(
                "recording [{bar:30}] {elapsed}/{msg}  Ctrl-C ends it early",
            );
            let bar = ProgressBar::new(time.as_millis() as u64);
            bar.set_message(format!("{}s", time.as_secs_f32()));
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        }
        None => ProgressBar::new_spinner().with_message("recording; Ctrl-C ends it"),
    }
}
