//! `tcpwhy stat`: what is and how fast it changes, live or from a recording.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use jiff::SignedDuration;
use observe::Part;
use recording::Recording;
use view::stat::{Lines, What, view};

use crate::duration;
use crate::watch::{Need, Stop, WatchArgs, watch};

/// What to show.
#[derive(Subcommand, Debug)]
pub enum StatVerb {
    /// Counters of the network stack: their rates and what they mean
    Counters(CounterArgs),
    /// Where each CPU's time goes, and its softnet counters
    Cpus(CpuArgs),
    /// What threads do with their time
    Threads(ThreadArgs),
    /// Connections, with all that the kernel reports (tcp_info)
    Sockets(SocketArgs),
    /// Listeners: their queues, drops and owners
    Listeners(StatArgs),
    /// Local ports in use, per destination
    Ports(StatArgs),
    /// Requests and their answers, by listener and destination: how long they took, and where the time went
    Requests(StatArgs),
    /// The kernel's lookup structures on the TCP path: entries, chains, limits
    Tables(StatArgs),
    /// The USE checklist: utilisation, saturation and errors of every resource, worst first
    Use(UseArgs),
}

/// Arguments of every `stat`.
#[derive(Args, Debug)]
pub struct StatArgs {
    /// Time between reports: 500ms, 2s, or a number of seconds; without it, one report
    #[arg(value_name = "INTERVAL", value_parser = interval)]
    interval: Option<Duration>,
    /// Stop after N reports
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Arguments of `stat counters`.
#[derive(Args, Debug)]
pub struct CounterArgs {
    /// Also counters that did not change
    #[arg(long)]
    all: bool,
    /// Only counters of failures: drops, retransmits, resets, refusals, timeouts
    #[arg(long, conflicts_with = "rank")]
    errors_only: bool,
    /// At the end, rank all counters by their correlation with this one
    #[arg(long, value_name = "NAME")]
    rank: Option<String>,
    #[command(flatten)]
    stat: StatArgs,
}

/// Arguments of `stat sockets`.
#[derive(Args, Debug)]
pub struct SocketArgs {
    /// List TIME_WAIT sockets individually instead of as counts per listener and destination
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    stat: StatArgs,
}

/// Arguments of `stat use`.
#[derive(Args, Debug)]
pub struct UseArgs {
    /// Every line of every sample, zeros included, instead of the table
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    stat: StatArgs,
}

/// Arguments of `stat cpus`.
#[derive(Args, Debug)]
pub struct CpuArgs {
    /// Interrupts and softirqs by line and CPU, instead of CPU time
    #[arg(long)]
    interrupts: bool,
    #[command(flatten)]
    stat: StatArgs,
}

/// Arguments of `stat threads`.
#[derive(Args, Debug)]
pub struct ThreadArgs {
    /// All threads, not only the twenty that ran or wanted to run most
    #[arg(long)]
    all: bool,
    /// The system calls in which each thread slept, and on what; for epoll, the sockets and other descriptors behind
    /// it (all of them with --json)
    #[arg(long)]
    sleeps: bool,
    #[command(flatten)]
    stat: StatArgs,
}

const SECOND: Duration = Duration::from_secs(1);

const HOST: Need = Need {
    parts: &[Part::Host],
    interval: SECOND,
    all_states: false,
    over: Duration::ZERO,
    calls: &[],
    owners: false,
    foretold: false,
};
const SOCKETS: Need = Need {
    parts: &[Part::Sockets],
    owners: true,
    ..HOST
};

impl StatVerb {
    fn watch(&self) -> &WatchArgs {
        match self {
            StatVerb::Counters(args) => &args.stat.watch,
            StatVerb::Cpus(args) => &args.stat.watch,
            StatVerb::Threads(args) => &args.stat.watch,
            StatVerb::Sockets(args) => &args.stat.watch,
            StatVerb::Use(args) => &args.stat.watch,
            StatVerb::Listeners(args)
            | StatVerb::Ports(args)
            | StatVerb::Requests(args)
            | StatVerb::Tables(args) => &args.watch,
        }
    }
}

/// Runs the verb.
pub fn run(verb: StatVerb, out: &mut impl Write) -> Result<ExitCode> {
    let _held = verb.watch().hold()?;
    let recording = verb.watch().recording()?;
    let tasks: &[&str] = &["--pid", "--comm", "--cgroup"];
    let netns: &[&str] = &["--netns"];
    let ends: &[&str] = &["--netns", "--port", "--addr"];
    let all = [tasks, ends].concat();
    let ports = Need {
        parts: &[Part::Ports],
        ..HOST
    };
    let (what, need, known, args) = match verb {
        StatVerb::Counters(args) => {
            let what = match args.rank {
                Some(name) => What::Rank {
                    name,
                    all: args.all,
                },
                None => What::Counters {
                    all: args.all,
                    errors_only: args.errors_only,
                },
            };
            (what, SOCKETS, netns, args.stat)
        }
        StatVerb::Cpus(args) => {
            if args.interrupts {
                (What::Interrupts, HOST, &[] as &[&str], args.stat)
            } else {
                (What::Cpus, HOST, &[] as &[&str], args.stat)
            }
        }
        StatVerb::Threads(args) => {
            let what = What::Threads {
                all: args.all,
                sleeps: args.sleeps,
            };
            // What is behind a descriptor of epoll is mostly sockets.
            let parts: &[Part] = if args.sleeps {
                &[Part::Threads, Part::Sockets]
            } else {
                &[Part::Threads]
            };
            (what, Need { parts, ..HOST }, tasks, args.stat)
        }
        StatVerb::Sockets(args) => {
            let what = What::Sockets { all: args.all };
            (what, SOCKETS, &all[..], args.stat)
        }
        StatVerb::Listeners(args) => {
            let parts = &[Part::Events, Part::Sockets];
            let events = has_events(recording.as_ref())?;
            let what = What::Listeners { events };
            (what, Need { parts, ..SOCKETS }, &all[..], args)
        }
        StatVerb::Ports(args) => (What::Ports, ports, ends, args),
        StatVerb::Requests(args) => {
            let parts = &[Part::Requests];
            (What::Requests, Need { parts, ..HOST }, ends, args)
        }
        StatVerb::Tables(args) => (What::Tables, ports, netns, args),
        StatVerb::Use(args) => {
            // Of a recording that is read as a whole, what was worst.
            let lines = match (args.all, recording.is_some(), args.stat.interval) {
                (true, _, _) => Lines::All,
                (false, true, None) => Lines::Worst,
                _ => Lines::Reports,
            };
            (What::Use(lines), HOST, netns, args.stat)
        }
    };
    args.watch.filters.only("this view", known)?;
    show(what, need, recording, &args, out)?;
    Ok(ExitCode::SUCCESS)
}

fn show(
    what: What,
    need: Need,
    recording: Option<Recording>,
    args: &StatArgs,
    out: &mut impl Write,
) -> Result<()> {
    let live = recording.is_none();
    let ranks = matches!(what, What::Rank { .. });
    let interval = args.interval.unwrap_or(need.interval);
    let need = Need { interval, ..need };
    // A recording was sampled as it was: an interval can only leave samples out.
    let every = args.interval.filter(|_| !live).unwrap_or_default();
    let every_ns = u64::try_from(every.as_nanos()).map_err(|_| anyhow!("too long an interval"))?;
    if let (Some(recording), Some(from)) = (&recording, &args.watch.from) {
        fits(recording, from, every)?;
    }
    // As vmstat: without an interval, one report. Of a recording, and for a rank, all there is.
    let once = live && args.interval.is_none() && !ranks && args.watch.time.is_none();
    let count = args.count.or(once.then_some(1));
    let most = match (once, count) {
        (true, _) if what.is_state() => Some(Duration::ZERO),
        (true, _) => Some(interval),
        // Samples in which nothing is to be shown are no reports: end all the same.
        (false, Some(count)) if live => {
            let count = u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
            Some(interval.saturating_mul(count).saturating_mul(2))
        }
        _ => None,
    };
    watch(
        &mut *view(what, every_ns),
        &need,
        Stop { count, most },
        recording,
        &args.watch,
        out,
    )
}

/// An interval longer than the recording would show nothing.
fn fits(recording: &Recording, from: &Path, every: Duration) -> Result<()> {
    let length = recording.manifest.length();
    if every > length {
        bail!(
            "{}: {:.1} s long; ask for a shorter interval than {}",
            from.display(),
            length.as_secs_f64(),
            SignedDuration::try_from(every).map_or("that".into(), |d| format!("{d:#}"))
        );
    }
    Ok(())
}

/// Whether state changes are, or will be, recorded.
fn has_events(recording: Option<&Recording>) -> Result<bool> {
    recording.map_or(Ok(true), |r| Ok(!r.segments("event")?.is_empty()))
}

/// Time between two reports.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    if interval < Duration::from_millis(10) {
        Err("the least interval is 10ms".into())
    } else {
        Ok(interval)
    }
}
