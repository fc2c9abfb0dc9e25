//! bind() calls that were refused because the port was taken: who asked for what, and for how long.

use std::collections::BTreeMap;

use recording::tables::Call;
use recording::{CallKind, RowRef, Text};

use super::place::Endpoint;

/// Places asked for and programs that ask, followed.
const MAX_ASKERS: usize = 10_000;
/// Calls kept of each; those beyond are counted.
const KEPT_CALLS: usize = 1 << 14;
/// Processes of one name kept: a supervisor starts a new one for each attempt.
const KEPT_PIDS: usize = 1_000;

/// In which namespace, for which place, by which command name.
type Asker = (u32, Endpoint, Text);

/// Every call that was refused.
#[derive(Debug, Default)]
pub struct Binds {
    by_asker: BTreeMap<Asker, Attempts>,
    /// Calls of further askers.
    pub folded: u64,
}

/// The refused calls of one program for one place.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    /// In order of time.
    pub calls: Vec<Attempt>,
    /// All calls, also those not kept.
    pub count: u64,
    /// What all of them took, ns.
    pub total_ns: u64,
    /// Processes and their calls.
    pub pids: BTreeMap<u32, u64>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The last such call.
    pub row: RowRef,
    /// When it returned.
    pub time_ns: u64,
    /// How long it took, ns.
    pub took_ns: u64,
}

impl Binds {
    /// Takes a call.
    pub(crate) fn add(&mut self, row: RowRef, call: &Call) {
        // Without a port the call searches for one, and asks for none in particular.
        let refused = call.call == CallKind::Bind && call.error.as_deref() == Some("EADDRINUSE");
        if !refused || call.local_port == 0 {
            return;
        }
        let place = Endpoint::new(call.local_addr, call.local_port);
        let asker = (call.netns, place, call.comm.clone());
        if self.by_asker.len() >= MAX_ASKERS && !self.by_asker.contains_key(&asker) {
            self.folded += 1;
            return;
        }
        let known = self.by_asker.entry(asker).or_default();
        known.count += 1;
        known.total_ns = known.total_ns.saturating_add(call.duration_ns);
        if known.pids.len() < KEPT_PIDS || known.pids.contains_key(&call.pid) {
            *known.pids.entry(call.pid).or_default() += 1;
        }
        if known.calls.len() < KEPT_CALLS {
            known.calls.push(Attempt {
                row,
                time_ns: call.time_ns,
                took_ns: call.duration_ns,
            });
        }
    }

    /// All calls were taken.
    pub(crate) fn finish(&mut self) {
        for asker in self.by_asker.values_mut() {
            asker.calls.sort_by_key(|c| c.time_ns);
        }
    }

    /// Who asked for which ports, and what came of it.
    pub fn all(&self) -> impl Iterator<Item = (&Asker, &Attempts)> {
        self.by_asker.iter()
    }
}
