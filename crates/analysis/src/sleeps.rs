//! In which system calls each process slept, summed over its threads.

use std::collections::BTreeMap;

use recording::tables::ThreadSleep;
use recording::{Error, Recording, RowRef, Text};

use crate::bounded::{BoundedMap, Interest};

/// Processes followed.
const MAX_PROCESSES: usize = 1 << 15;
/// Rows kept per system call.
const KEPT_ROWS: usize = 3;

/// What processes slept in.
#[derive(Debug, Default)]
pub struct Sleeps {
    by_pid: BoundedMap<u32, Calls, MAX_PROCESSES>,
}

/// The system calls of one process.
#[derive(Debug, Default)]
struct Calls(BTreeMap<Text, Slept>);

/// By how long it slept.
impl Interest for Calls {
    fn interest(&self) -> u64 {
        self.0.values().fold(0, |sum, s| sum.saturating_add(s.ns))
    }
    fn counted(&self) -> u64 {
        let counts = self.0.values().map(|s| s.count);
        counts.fold(0, u64::saturating_add)
    }
}

/// Sleep in one system call.
#[derive(Clone, Debug, Default)]
pub struct Slept {
    pub ns: u64,
    pub count: u64,
    pub rows: Vec<RowRef>,
}

impl Sleeps {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_pid.folded()
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
        let slept = calls.0.entry(row.syscall).or_default();
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
