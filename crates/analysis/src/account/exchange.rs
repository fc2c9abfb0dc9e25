//! One of the slowest exchanges: what its time was spent on, and what its thread waited for.

use recording::tables::{Exchange, RequestPart, Wait};
use recording::{RowRef, Waker};
use serde::{Deserialize, Serialize};

use super::parts::{Parts, Thinking};
use crate::place::Endpoint;
use crate::waits::{Waited, Waits};
use crate::words;

const NO_ROW: RowRef = RowRef {
    table: "wait",
    segment: 0,
    row: 0,
};
/// Waits reported per exchange.
const MAX_WAITS: usize = 3;

/// A slow exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slow {
    /// How long it took, s; of an open one, so far.
    pub took_s: f64,
    /// When it began, s after the start of the recording; below zero when before it.
    pub after_start_s: f64,
    /// It is not answered.
    pub open: bool,
    /// This end of its connection.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// The thread that read the request, or wrote it; null when none is known.
    pub tid: Option<u32>,
    /// Its command name.
    pub comm: Option<String>,
    /// What the time went with, s.
    pub spent_s: Parts,
    /// What the thread did while it thought.
    pub thinking: Thinking,
    /// The longest waits of the thread in that time, as far as they were recorded.
    pub waits: Vec<Slept>,
    /// The wait after which the thread answered; null when none was recorded that ended just before the answer.
    pub answered_after: Option<Slept>,
}

/// A wait of the thread that worked on an exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slept {
    /// How long, s.
    pub slept_s: f64,
    /// In which system call; null when in none.
    pub syscall: Option<String>,
    /// The connection whose packet ended it: the other end; null when no packet did.
    pub awaited: Option<Endpoint>,
    /// What ended it: the command name of a task, else `timer`, `softirq` or `irq`.
    pub woken_by: String,
    /// The kernel's letter for how it waited: `D` is a disk or a lock of the kernel's.
    pub state: String,
}

impl Slow {
    /// How many are kept per service.
    pub(super) const MOST: usize = 5;
    /// A wait that ended so shortly before the answer, ns, was the last: a later one would be recorded by itself (10 ms
    /// and more).
    pub const JUST_NS: u64 = 10_000_000;

    /// How long an exchange took, ns: all its parts.
    pub fn took_ns(x: &Exchange) -> u64 {
        let parts = RequestPart::ALL.into_iter();
        parts.fold(0, |sum, part| sum.saturating_add(x.part_ns(part)))
    }

    pub(super) fn of(start_ns: u64, x: &Exchange, waits: Slepts) -> Slow {
        let s = |ns: u64| words::rounded(ns as f64 / 1e9);
        Slow {
            took_s: s(Slow::took_ns(x)),
            after_start_s: words::rounded(x.began_ns as f64 / 1e9 - start_ns as f64 / 1e9),
            open: x.open,
            local: Endpoint::new(x.local_addr, x.local_port),
            remote: Endpoint::new(x.remote_addr, x.remote_port),
            tid: x.tid,
            comm: x.comm.as_ref().map(|c| c.to_string()),
            spent_s: Parts::of(|part| s(x.part_ns(part))),
            thinking: Thinking {
                alone: s(x.think_alone_ns),
                cpu: s(x.think_cpu_ns),
                runqueue: s(x.think_runqueue_ns),
            },
            waits: waits.longest,
            answered_after: waits.last,
        }
    }
}

/// The waits of the thread of an exchange, while it was under way.
#[derive(Debug, Default)]
pub struct Slepts {
    longest: Vec<Slept>,
    last: Option<Slept>,
}

impl Slepts {
    /// Those of a story.
    pub(super) fn during(waits: &Waits, x: &Exchange) -> Slepts {
        let (from_ns, to_ns) = Slepts::within(x);
        let waits = x.tid.map(|tid| waits.of(tid, from_ns, to_ns));
        Slepts::of(waits.into_iter().flatten(), x)
    }

    /// The same from rows that no story holds.
    pub fn among(waits: &[Wait], x: &Exchange) -> Slepts {
        let (from_ns, to_ns) = Slepts::within(x);
        let its = waits.iter().filter(|w| Some(w.tid) == x.tid);
        let its = its.filter(|w| w.time_ns > from_ns && w.time_ns <= to_ns);
        // Their rows are not reported.
        let its = its.map(|w| Waited::of(NO_ROW, w.clone()));
        Slepts::of(its.collect::<Vec<_>>().iter(), x)
    }

    /// Waits that ended between these moments belong to the exchange.
    fn within(x: &Exchange) -> (u64, u64) {
        (x.began_ns, x.began_ns.saturating_add(Slow::took_ns(x)))
    }

    fn of<'w>(waits: impl Iterator<Item = &'w Waited>, x: &Exchange) -> Slepts {
        let mut waits: Vec<&Waited> = waits.collect();
        let (_, to_ns) = Slepts::within(x);
        let last = waits.iter().max_by_key(|w| w.end_ns);
        let last = last.filter(|w| !x.open && to_ns.saturating_sub(w.end_ns) <= Slow::JUST_NS);
        let last = last.map(|w| Slept::of(w));
        waits.sort_by_key(|w| std::cmp::Reverse(w.waited_ns));
        Slepts {
            longest: waits.into_iter().take(MAX_WAITS).map(Slept::of).collect(),
            last,
        }
    }
}

impl Slept {
    fn of(wait: &Waited) -> Slept {
        Slept {
            slept_s: words::rounded(wait.waited_ns as f64 / 1e9),
            syscall: wait.syscall.as_ref().map(|c| c.to_string()),
            awaited: wait.cause.as_ref().map(|arrival| arrival.from),
            woken_by: match wait.waker {
                Waker::Task => wait.waker_comm.to_string(),
                // The task on that CPU is a bystander.
                _ => wait.waker.to_string(),
            },
            state: wait.state.to_string(),
        }
    }
}
