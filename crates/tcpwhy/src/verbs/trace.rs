//! `tcpwhy trace`: one line per event, live or from a recording.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use observe::Part;
use recording::{CallKind, Recording, SourceName};
use view::trace::{What, view};

use crate::watch::{Need, Stop, WatchArgs, watch};

/// What to trace.
#[derive(Subcommand, Debug)]
pub enum TraceVerb {
    /// Retransmitted segments: their socket and owner, what sent them, which attempt
    Retransmits(WatchArgs),
    /// Resets: who sent them, why, from where in the kernel
    Resets(WatchArgs),
    /// SYNs that met a TIME_WAIT socket: accepted, or refused and why
    Timewait(WatchArgs),
    /// Threads woken from a long sleep: by what, with which stack, and the segment behind it
    Wakeups(WakeupArgs),
    /// Handshakes, completed or failed: duration, attempts, negotiated options
    Handshakes(WatchArgs),
    /// TCP packets that this host dropped: why and where
    Drops(WatchArgs),
    /// State changes, with the time spent in the old state
    States(WatchArgs),
    /// Everything that happened to connections, in order: packets with their options, states, resets, drops, calls
    Timeline(WatchArgs),
    /// connect() calls: duration, search for a local port, result
    Connects(WatchArgs),
    /// Accepted connections, and how long they waited for accept()
    Accepts(AcceptArgs),
    /// Delayed heartbeats: by how much, on which CPU, and how much of that time it was in softirq
    Gaps(WatchArgs),
}

/// Arguments of `trace wakeups`.
#[derive(Args, Debug)]
pub struct WakeupArgs {
    /// Sleeps at least this long; 0s means all
    #[arg(value_name = "THRESHOLD", default_value = "10ms", value_parser = crate::duration::parse)]
    least: Duration,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Arguments of `trace accepts`.
#[derive(Args, Debug)]
pub struct AcceptArgs {
    /// At the end, a histogram of the waits for each listener
    #[arg(long)]
    histogram: bool,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Owners of sockets that are older are looked up this often.
const OWNERS_EVERY: Duration = Duration::from_secs(5);

const EVENTS: Need = Need {
    parts: &[Part::Events, Part::Sockets],
    interval: OWNERS_EVERY,
    all_states: false,
    over: Duration::ZERO,
    calls: &[],
    owners: true,
    foretold: true,
};

/// What CPUs do is read this often: a gap is seldom shorter.
const CPUS_EVERY: Duration = Duration::from_millis(250);

/// In a time line, calls that took at least so long.
const CALL_OVER: Duration = Duration::from_millis(1);

/// Every call, not only the slow ones.
const CALLS: Need = Need {
    parts: &[Part::Events, Part::Sockets, Part::Calls],
    ..EVENTS
};

impl TraceVerb {
    fn watch(&self) -> &WatchArgs {
        match self {
            TraceVerb::Wakeups(args) => &args.watch,
            TraceVerb::Accepts(args) => &args.watch,
            TraceVerb::Retransmits(args)
            | TraceVerb::Resets(args)
            | TraceVerb::Timewait(args)
            | TraceVerb::Handshakes(args)
            | TraceVerb::Drops(args)
            | TraceVerb::States(args)
            | TraceVerb::Timeline(args)
            | TraceVerb::Connects(args)
            | TraceVerb::Gaps(args) => args,
        }
    }
}

/// Runs the verb.
pub fn run(verb: TraceVerb, out: &mut impl Write) -> Result<ExitCode> {
    let _held = verb.watch().hold()?;
    let recording = verb.watch().recording()?;
    let (what, need, args) = match verb {
        TraceVerb::Retransmits(args) => (What::Retransmits, EVENTS, args),
        TraceVerb::Resets(args) => (What::Resets, EVENTS, args),
        TraceVerb::Timewait(args) => (What::TimeWait, EVENTS, args),
        TraceVerb::Drops(args) => (What::Drops, EVENTS, args),
        TraceVerb::Wakeups(args) => {
            let least_ns = u64::try_from(args.least.as_nanos()).unwrap_or(u64::MAX);
            if let Some(says) = recording.as_ref().and_then(|r| shorter(r, least_ns)) {
                cli::say(&says);
            }
            let need = Need {
                parts: &[Part::Waits, Part::Sockets],
                // What is behind a descriptor of epoll is known as soon.
                interval: Duration::from_secs(1),
                owners: false,
                over: args.least,
                ..EVENTS
            };
            (What::Wakeups(least_ns), need, args.watch)
        }
        TraceVerb::Handshakes(args) => {
            let parts = &[Part::Events, Part::Sockets, Part::Packets];
            (What::Handshakes, Need { parts, ..EVENTS }, args)
        }
        TraceVerb::States(args) => {
            let all_states = true;
            (
                What::States,
                Need {
                    all_states,
                    ..EVENTS
                },
                args,
            )
        }
        TraceVerb::Timeline(args) => {
            let need = Need {
                parts: &[Part::Events, Part::Sockets, Part::Packets, Part::Calls],
                all_states: true,
                calls: CallKind::ALL,
                over: CALL_OVER,
                ..EVENTS
            };
            (What::Timeline, need, args)
        }
        TraceVerb::Connects(args) => {
            let calls = &[CallKind::Connect];
            (What::Connects, Need { calls, ..CALLS }, args)
        }
        TraceVerb::Gaps(args) => {
            let need = Need {
                parts: &[Part::Heartbeats, Part::Host],
                interval: CPUS_EVERY,
                ..EVENTS
            };
            (What::Gaps, need, args)
        }
        TraceVerb::Accepts(args) => {
            let what = match (args.histogram, has_calls(recording.as_ref())?) {
                (true, false) => bail!(
                    "the recording has no accept() calls: record with --with calls --call-over 0s"
                ),
                (true, true) => What::AcceptWaits,
                (false, calls) => What::Accepts(calls),
            };
            let calls = &[CallKind::Accept];
            (what, Need { calls, ..CALLS }, args.watch)
        }
    };
    let mut view = view(what);
    watch(&mut *view, &need, Stop::default(), recording, &args, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Sleeps that are asked for and are shorter than those that were recorded.
fn shorter(recording: &Recording, least_ns: u64) -> Option<String> {
    let sources = recording.manifest.sources.iter();
    let waits = sources.filter(|s| s.name == SourceName::Waits);
    let recorded = waits.filter_map(|s| s.least_ns).max()?;
    let least = Duration::from_nanos(recorded);
    (least_ns < recorded).then(|| {
        format!(
            "tcpwhy: sleeps shorter than {least:?} were not recorded (--wait-over of the recording): none of them \
             is shown"
        )
    })
}

/// Whether accept() calls are, or will be, recorded.
fn has_calls(recording: Option<&Recording>) -> Result<bool> {
    recording.map_or(Ok(true), |r| Ok(!r.segments("call")?.is_empty()))
}
