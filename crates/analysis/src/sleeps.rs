//! In which system calls each process slept, summed over its threads.

use recording::tables::ThreadSleep;
use recording::{Error, Recording, RowRef, Text};

use crate::bounded::{BoundedMap, BoundedTree, Interest};

/// Processes followed.
const MAX_PROCESSES: usize = 1 << 15;
/// System calls kept apart per process: programs sleep in a dozen, kernels have a few hundred.
const MAX_CALLS: usize = 64;
/// Rows kept per system call.
const KEPT_ROWS: usize = 3;

/// What processes slept in.
#[derive(Debug, Default)]
pub struct Sleeps {
    by_pid: BoundedMap<u32, Calls, MAX_PROCESSES>,
}

/// The system calls of one process.
#[derive(Debug, Default)]
struct Calls(BoundedTree<Text, Slept, MAX_CALLS>);

/// By how long it slept.
impl Interest for Calls {
    fn interest(&self) -> u64 {
        self.0.values().fold(0, |sum, s| sum.saturating_add(s.ns))
    }
    fn counted(&self) -> u64 {
        let counts = self.0.values().map(|s| s.count);
        counts.fold(self.0.folded(), u64::saturating_add)
    }
}

/// Sleep in one system call.
#[derive(Clone, Debug, Default)]
pub struct Slept {
    pub ns: u64,
    pub count: u64,
    pub rows: Vec<RowRef>,
}

/// By how long it was.
impl Interest for Slept {
    fn interest(&self) -> u64 {
        self.ns
    }
    fn counted(&self) -> u64 {
        self.count
    }
}

impl Sleeps {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        let calls = self.by_pid.values().map(|calls| calls.0.folded());
        calls.fold(self.by_pid.folded(), u64::saturating_add)
    }

    pub(crate) fn read(recording: &Recording) -> Result<Sleeps, Error> {
        let mut sleeps = Sleeps::default();
        for batch in recording.scan::<ThreadSleep>()? {
            for (at, row) in batch?.rows() {
                sleeps.add(at, row);
            }
        }
        Ok(sleeps)
    }

    fn add(&mut self, at: RowRef, row: ThreadSleep) {
        let calls = self.by_pid.slot(row.pid, Calls::default);
        let slept = calls.0.slot(row.syscall, Slept::default);
        slept.ns = slept.ns.saturating_add(row.sleep_ns);
        slept.count = slept.count.saturating_add(row.count);
        if slept.rows.len() < KEPT_ROWS {
            slept.rows.push(at);
        }
    }

    /// The system call in which a process slept longest.
    pub fn longest(&self, pid: u32) -> Option<(&str, &Slept)> {
        let calls = self.by_pid.get(&pid)?.0.iter();
        let (call, slept) = calls.max_by_key(|(_, slept)| slept.ns)?;
        Some((call, slept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_number_of_calls_the_longest_are_kept_and_the_others_counted() {
        let at = RowRef {
            table: "thread_sleep",
            segment: 1,
            row: 0,
        };
        const ALL: u64 = 1_000;
        let mut sleeps = Sleeps::default();
        for nth in 0..ALL {
            let row = ThreadSleep {
                pid: 7,
                syscall: format!("call-{nth}").into(),
                sleep_ns: if nth == 300 { 1_000_000 } else { nth },
                count: 2,
                ..ThreadSleep::default()
            };
            sleeps.add(at, row);
        }
        let calls = &sleeps.by_pid.get(&7).expect("followed").0;
        assert!(calls.len() <= MAX_CALLS);
        assert_eq!(calls.len() as u64 * 2 + sleeps.folded(), ALL * 2);
        let (longest, slept) = sleeps.longest(7).expect("followed");
        assert_eq!((longest, slept.ns), ("call-300", 1_000_000));
    }
}
