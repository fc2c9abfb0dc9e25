//! What each thread did with its time, summed over the recording.

use std::cmp::Reverse;

use recording::tables::Thread as Row;
use recording::{Manifest, RowRef, Text};

use super::profile::{PARTS, in_parts};
use super::stats::ratio;
use crate::bounded::{BoundedTree, Interest};
use crate::{Microstate, Microstates};

/// Threads followed; a host has a few thousand.
const MAX_THREADS: usize = 65_536;

/// Every thread that did something, by process and id.
#[derive(Debug, Default)]
pub struct Threads {
    by_id: BoundedTree<(u32, u32), Thread, MAX_THREADS>,
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
    /// Where its time went.
    pub spent: Microstates,
    /// Time that it waited for a CPU, by parts of the recording, ns.
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
        self.waited_ns()
    }
    fn counted(&self) -> u64 {
        self.rows
    }
}

impl Threads {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_id.folded()
    }

    /// Takes a row of a recording.
    pub(crate) fn add(&mut self, at: RowRef, row: Row, manifest: &Manifest) {
        // A row may cover more than one part: it waited as much in each moment of it.
        let covered = in_parts(
            manifest,
            row.time_ns.saturating_sub(row.interval_ns),
            row.time_ns,
        );
        let whole = covered
            .iter()
            .map(|ns| u128::from(*ns))
            .sum::<u128>()
            .max(1);
        let spent = Microstates::of(&row);
        let thread = self.by_id.slot((row.pid, row.tid), || Thread {
            pid: row.pid,
            tid: row.tid,
            comm: row.comm,
            spent: Microstates::default(),
            waited_in: [0; PARTS as usize],
            switches: 0,
            longest: (0, at),
            last: at,
            rows: 0,
        });
        thread.rows += 1;
        let add = |sum: &mut u64, n: u64| *sum = sum.saturating_add(n);
        thread.spent.add(spent);
        for (waited, ns) in thread.waited_in.iter_mut().zip(covered) {
            let here = u128::from(row.runqueue_ns) * u128::from(ns) / whole;
            add(waited, here as u64);
        }
        add(&mut thread.switches, row.voluntary);
        add(&mut thread.switches, row.involuntary);
        if row.runqueue_ns > thread.longest.0 {
            thread.longest = (row.runqueue_ns, at);
        }
        thread.last = at;
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Thread> {
        self.by_id.values()
    }

    /// Process and id of the threads that did most, or were kept from it longest: at most this many.
    pub fn most_restless(&self, most: usize) -> Vec<(u32, u32)> {
        let ids = self.by_id.iter();
        let ids = ids.map(|(id, thread)| (Reverse(thread.spent.restless_ns()), *id));
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        ids.into_iter().take(most).map(|(_, id)| id).collect()
    }
}

impl Thread {
    /// Time that its rows cover, ns.
    pub fn seen_ns(&self) -> u64 {
        self.spent.over_ns()
    }

    /// Time on a CPU, ns.
    pub fn on_cpu_ns(&self) -> u64 {
        self.spent.on_cpu_ns()
    }

    /// Time that it was runnable and waited for a CPU, ns.
    pub fn waited_ns(&self) -> u64 {
        self.spent.ns(Microstate::Runqueue)
    }

    /// Share of the time that it waited for a CPU.
    pub fn waiting(&self) -> f64 {
        ratio(self.waited_ns() as f64, self.seen_ns() as f64).unwrap_or(0.0)
    }

    /// Mean wait for a CPU, each time that it wanted one, ns.
    pub fn mean_wait_ns(&self) -> u64 {
        self.waited_ns() / self.switches.max(1)
    }

    /// Its first and last row.
    pub fn rows(&self) -> [RowRef; 2] {
        [self.longest.1, self.last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: RowRef = RowRef {
        table: "thread",
        segment: 1,
        row: 0,
    };

    #[test]
    fn an_id_that_is_used_again_is_another_thread() {
        let row = |pid: u32, user_ns: u64| Row {
            interval_ns: 100,
            pid,
            tid: 7,
            user_ns,
            sleep_ns: 100 - user_ns,
            ..Row::default()
        };
        let mut threads = Threads::default();
        for row in [row(7, 5), row(3, 50), row(7, 5)] {
            threads.add(AT, row, &Manifest::default());
        }
        assert_eq!(threads.most_restless(9), [(3, 7), (7, 7)]);
        assert_eq!(threads.most_restless(1), [(3, 7)]);
        let of_7 = threads.all().find(|t| t.pid == 7).unwrap();
        assert_eq!((of_7.seen_ns(), of_7.on_cpu_ns()), (200, 10));
    }

    /// Rows come once a second, and a part of this recording is 1.025 s long: the middles of two lie in one part.
    #[test]
    fn a_row_that_covers_two_parts_waited_in_both() {
        let second = 1_000_000_000;
        let manifest = Manifest {
            start_ns: 5 * second,
            end_ns: 5 * second + 8_200_000_000,
            ..Manifest::default()
        };
        let mut threads = Threads::default();
        for i in 1..=8 {
            let row = Row {
                time_ns: manifest.start_ns + i * second,
                interval_ns: second,
                runqueue_ns: second / 2,
                ..Row::default()
            };
            threads.add(AT, row, &manifest);
        }
        let thread = threads.all().next().unwrap();
        assert_eq!(thread.waited_ns(), 4 * second);
        let (last, others) = thread.waited_in.split_last().unwrap();
        assert!(
            others
                .iter()
                .all(|ns| (512_400_000..512_600_000).contains(ns)),
            "{others:?}"
        );
        assert!((412_000_000..413_000_000).contains(last), "{last}");
    }
}
