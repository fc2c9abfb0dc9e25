//! connect() calls that took long, and how long each searched for a local port.

use std::collections::BTreeMap;

use recording::tables::Call;
use recording::{CallKind, RowRef, Text};

/// Programs followed, and calls kept of each; those beyond are counted.
const MAX_CALLERS: usize = 10_000;
const KEPT_CALLS: usize = 1 << 14;

/// Every slow connect(), by namespace and command name.
#[derive(Debug, Default)]
pub struct Searches {
    by_caller: BTreeMap<(u32, Text), Vec<Connecting>>,
    /// Calls beyond the bounds.
    pub folded: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Connecting {
    /// The call.
    pub row: RowRef,
    /// Process that called connect().
    pub pid: u32,
    /// When it was called, and when it returned.
    pub called_ns: u64,
    /// When the call returned.
    pub returned_ns: u64,
    /// The part of it that the search took; the search ends with the call.
    pub search_ns: u64,
    /// The port that it found; 0 when it found none.
    pub port: u16,
}

impl Connecting {
    /// How long it took, ns.
    pub fn took_ns(&self) -> u64 {
        self.returned_ns.saturating_sub(self.called_ns)
    }

    /// When the search began.
    pub fn search_began_ns(&self) -> u64 {
        self.returned_ns.saturating_sub(self.search_ns)
    }
}

impl Searches {
    /// Takes a call.
    pub(crate) fn add(&mut self, row: RowRef, call: &Call) {
        let searched = call
            .port_search_ns
            .filter(|_| call.call == CallKind::Connect);
        let Some(search_ns) = searched else { return };
        let caller = (call.netns, call.comm.clone());
        let is_new = !self.by_caller.contains_key(&caller);
        if is_new && self.by_caller.len() >= MAX_CALLERS {
            self.folded += 1;
            return;
        }
        let calls = self.by_caller.entry(caller).or_default();
        if calls.len() >= KEPT_CALLS {
            self.folded += 1;
            return;
        }
        calls.push(Connecting {
            row,
            pid: call.pid,
            called_ns: call.time_ns.saturating_sub(call.duration_ns),
            returned_ns: call.time_ns,
            search_ns,
            port: call.local_port,
        });
    }

    /// All calls were taken.
    pub(crate) fn finish(&mut self) {
        for calls in self.by_caller.values_mut() {
            calls.sort_by_key(|c| c.called_ns);
        }
    }

    /// The calls to each destination.
    pub fn all(&self) -> impl Iterator<Item = (&(u32, Text), &[Connecting])> {
        self.by_caller.iter().map(|(by, calls)| (by, &calls[..]))
    }
}
