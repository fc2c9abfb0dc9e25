//! What threads waited for, for the summary: how their waits ended, and the longest ones walked.

use std::borrow::Cow;
use std::collections::BTreeMap;

use analysis::words;
use analysis::{Waited, Waits};
use recording::Waker;
use serde::{Deserialize, Serialize};

use crate::{limits, name_waits};

/// Calls that wait for descriptors of any kind.
pub(crate) const POLLS: &[&str] = &[
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
];
/// Walks that are shown; the others are in the counts.
const SHOWN_WALKS: usize = 3;

/// How waits ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitSummary {
    /// Waits recorded.
    pub count: u64,
    /// What ended them, the commonest first.
    pub ended_by: Vec<EndedBy>,
    /// The longest waits that a retransmitted segment ended, at whatever distance, one per thread.
    pub walks: Vec<Walk>,
}

/// One kind of end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedBy {
    /// `retransmission`, `packet`, `timer`, `task`, `softirq` or `irq`.
    pub what: Cow<'static, str>,
    /// How many waits.
    pub count: u64,
    /// Their longest, ms.
    pub longest_ms: f64,
}

/// A wait walked to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Walk {
    /// How long the first thread waited, ms.
    pub waited_ms: f64,
    /// Each hop in words: who waited, in what, and what ended it.
    pub hops: Vec<WalkHop>,
}

/// One hop.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkHop {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Command name.
    pub comm: String,
    /// In words.
    pub says: String,
    /// The row of `wait` that says so.
    pub row: String,
}

/// `None` when no waits were recorded.
pub(crate) fn summary(waits: &Waits) -> Option<WaitSummary> {
    let mut kinds: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    // The longest wait per thread that a retransmission ended.
    let mut longest: BTreeMap<u32, &Waited> = BTreeMap::new();
    for wait in &waits.all {
        let hops = waits.walk(wait);
        let end = hops.last().map_or(wait, |last| last);
        let kind = kinds.entry(what(end)).or_default();
        *kind = (kind.0 + 1, kind.1.max(wait.waited_ns));
        if is_retransmission(end) {
            let of_thread = longest.entry(wait.tid).or_insert(wait);
            if wait.waited_ns > of_thread.waited_ns {
                *of_thread = wait;
            }
        }
    }
    let mut ended_by: Vec<EndedBy> = kinds
        .into_iter()
        .map(|(what, (count, longest_ns))| EndedBy {
            what: what.into(),
            count,
            longest_ms: ms(longest_ns),
        })
        .collect();
    ended_by.sort_by_key(|e| std::cmp::Reverse(e.count));
    let mut longest: Vec<&Waited> = longest.into_values().collect();
    longest.sort_by_key(|w| std::cmp::Reverse(w.waited_ns));
    let walk = |wait: &&Waited| Walk {
        waited_ms: ms(wait.waited_ns),
        hops: waits.walk(wait).into_iter().map(hop).collect(),
    };
    (!waits.all.is_empty()).then(|| WaitSummary {
        count: waits.all.len() as u64 + waits.folded,
        ended_by,
        walks: longest.iter().take(SHOWN_WALKS).map(walk).collect(),
    })
}

fn is_retransmission(wait: &Waited) -> bool {
    wait.cause.as_ref().is_some_and(|c| c.attempt > 0)
}

fn what(end: &Waited) -> &'static str {
    match (&end.cause, &end.waker) {
        (Some(_), _) if is_retransmission(end) => "retransmission",
        (Some(_), _) => "packet",
        (None, Waker::Softirq) => "softirq",
        (None, Waker::Irq) => "irq",
        (None, Waker::Timer) => "timer",
        (None, _) => "task",
    }
}

/// A wait as a hop of a walk.
pub(crate) fn hop(wait: &Waited) -> WalkHop {
    let place = match (&wait.syscall, &*wait.state) {
        (Some(syscall), _) => format!("in {syscall}"),
        (None, "T" | "t") => "stopped".into(),
        (None, _) => "in no system call".into(),
    };
    let names = wait.name_server.map(|server| {
        let answer = if name_waits::is_unanswered(wait) {
            "which did not answer"
        } else {
            "until it answered"
        };
        let at = name_waits::at(server);
        format!("{place} for {at} (UDP, a name server), {answer}")
    });
    let by = match (&wait.cause, &wait.waker) {
        (Some(arrival), _) => arrival.says(),
        (None, Waker::Softirq) => "a softirq".into(),
        (None, Waker::Irq) => "an interrupt".into(),
        (None, Waker::Timer) => "a timer".into(),
        (None, _) => wait.waker_comm.to_string(),
    };
    let late = match wait.runqueue_ns {
        Some(ns) if ns >= limits::SCHEDULERS_TURN.ns() => {
            format!(", and then waited {} for a CPU", words::duration(ns))
        }
        _ => String::new(),
    };
    WalkHop {
        pid: wait.pid,
        tid: wait.tid,
        comm: wait.comm.to_string(),
        says: format!(
            "{}/{} waited {} {}{late}",
            wait.comm,
            wait.tid,
            words::duration(wait.waited_ns),
            names.unwrap_or_else(|| format!("{place}, woken by {by}")),
        ),
        row: wait.row.to_string(),
    }
}

fn ms(ns: u64) -> f64 {
    words::rounded(ns as f64 / 1e6)
}
