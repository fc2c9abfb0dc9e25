//! What each thread did with its time, summed over the recording.

use recording::tables::Thread as Row;
use recording::{Manifest, RowRef, Text};

use super::profile::{PARTS, part_of};
use super::stats::ratio;
use crate::bounded::{BoundedTree, Interest};

/// Threads followed; a host has some thousands.
const MAX_THREADS: usize = 65_536;

/// Every thread that did something, by its id.
#[derive(Debug, Default)]
pub struct Threads {
    by_tid: BoundedTree<u32, Thread, MAX_THREADS>,
}

/// One thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its command name.
    pub comm: Text,
    /// Time that its rows cover, ns.
    pub seen_ns: u64,
    /// Time on a CPU, ns.
    pub on_cpu_ns: u64,
    /// Runnable, waiting for a CPU.
    pub waited_ns: u64,
    /// The same by parts of the recording.
    pub waited_in: [u64; PARTS as usize],
    /// Times that it left a CPU, and so came back to one.
    pub switches: u64,
    /// The row with the longest wait for a CPU, and the last.
    longest: (u64, RowRef),
    last: RowRef,
    rows: u64,
}

/// By how long it waited for a CPU.
impl Interest for Thread {
    fn interest(&self) -> u64 {
        self.waited_ns
    }
    fn counted(&self) -> u64 {
        self.rows
    }
}

impl Threads {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_tid.folded()
    }

    /// Takes a row of a recording.
    pub(crate) fn add(&mut self, at: RowRef, row: Row, manifest: &Manifest) {
        let part = part_of(manifest, row.time_ns.saturating_sub(row.interval_ns / 2));
        let thread = self.by_tid.slot(row.tid, || Thread {
            pid: row.pid,
            tid: row.tid,
            comm: row.comm,
            seen_ns: 0,
            on_cpu_ns: 0,
            waited_ns: 0,
            waited_in: [0; PARTS as usize],
            switches: 0,
            longest: (0, at),
            last: at,
            rows: 0,
        });
        thread.rows += 1;
        let add = |sum: &mut u64, n: u64| *sum = sum.saturating_add(n);
        add(&mut thread.seen_ns, row.interval_ns);
        add(&mut thread.on_cpu_ns, row.user_ns);
        add(&mut thread.on_cpu_ns, row.system_ns);
        add(&mut thread.waited_ns, row.runqueue_ns);
        add(&mut thread.waited_in[usize::from(part)], row.runqueue_ns);
        add(&mut thread.switches, row.voluntary);
        add(&mut thread.switches, row.involuntary);
        if row.runqueue_ns > thread.longest.0 {
            thread.longest = (row.runqueue_ns, at);
        }
        thread.last = at;
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Thread> {
        self.by_tid.values()
    }
}

impl Thread {
    /// Share of the time that it waited for a CPU.
    pub fn waiting(&self) -> f64 {
        ratio(self.waited_ns as f64, self.seen_ns as f64).unwrap_or(0.0)
    }

    /// Mean wait for a CPU, each time that it wanted one, ns.
    pub fn mean_wait_ns(&self) -> u64 {
        self.waited_ns / self.switches.max(1)
    }

    /// Its first and last row.
    pub fn rows(&self) -> [RowRef; 2] {
        [self.longest.1, self.last]
    }
}
