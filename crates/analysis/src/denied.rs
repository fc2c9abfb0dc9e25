//! System calls that found no descriptor left: whose, how many, and with which error.

use std::collections::BTreeMap;

use recording::tables::Call;
use recording::{CallKind, RowRef};

/// Processes followed.
const MAX_PROCESSES: usize = 10_000;

/// The calls that failed for want of a descriptor, by process.
#[derive(Debug, Default)]
pub struct Denied {
    by_pid: BTreeMap<u32, Denials>,
    /// Calls of further processes.
    pub folded: u64,
}

/// Those of one process.
#[derive(Clone, Copy, Debug)]
pub struct Denials {
    /// Calls for which the process had none left (EMFILE).
    pub of_process: u64,
    /// Calls for which the host had none left (ENFILE).
    pub of_host: u64,
    /// accept() calls among all these.
    pub accepts: u64,
    /// Network namespace of the socket of the last one.
    pub netns: u32,
    /// The last one.
    pub row: RowRef,
}

impl Denials {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.of_process.saturating_add(self.of_host)
    }
}

impl Denied {
    /// Takes a call.
    pub(crate) fn add(&mut self, row: RowRef, call: &Call) {
        let (of_process, of_host) = match call.error.as_deref() {
            Some("EMFILE") => (1, 0),
            Some("ENFILE") => (0, 1),
            _ => return,
        };
        if self.by_pid.len() >= MAX_PROCESSES && !self.by_pid.contains_key(&call.pid) {
            self.folded += 1;
            return;
        }
        let known = self.by_pid.entry(call.pid).or_insert(Denials {
            of_process: 0,
            of_host: 0,
            accepts: 0,
            netns: call.netns,
            row,
        });
        known.of_process += of_process;
        known.of_host += of_host;
        known.accepts += u64::from(call.call == CallKind::Accept);
        (known.netns, known.row) = (call.netns, row);
    }

    /// Those of a process.
    pub fn of(&self, pid: u32) -> Option<&Denials> {
        self.by_pid.get(&pid)
    }

    /// Every process with such calls.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Denials)> {
        self.by_pid.iter().map(|(pid, denials)| (*pid, denials))
    }
}
