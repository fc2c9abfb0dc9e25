//! connect() calls for which the kernel knew no way: of whom, where to, and with which error.

use std::collections::{BTreeMap, BTreeSet};

use recording::tables::Call;
use recording::{Addr, CallKind, RowRef, Text};

/// Callers followed.
const MAX_CALLERS: usize = 10_000;
/// Destinations kept of each.
const MAX_DESTINATIONS: usize = 16;

/// The calls that failed for want of a route, by network namespace and process.
#[derive(Debug, Default)]
pub struct Unrouted {
    callers: BTreeMap<(u32, u32), NoWay>,
    /// Calls of further callers.
    pub folded: u64,
}

/// Those of one caller.
#[derive(Clone, Debug)]
pub struct NoWay {
    /// Command name of the thread that called last.
    pub comm: Text,
    /// How many.
    pub count: u64,
    /// Of these, to IPv4 addresses.
    pub ipv4: u64,
    /// When the first and the last returned, ns.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// The error of the last.
    pub error: &'static str,
    /// Where they went to: the first of many.
    pub to: BTreeSet<Addr>,
    /// The first and the last.
    pub rows: [RowRef; 2],
}

impl Unrouted {
    /// Takes a call.
    pub(crate) fn add(&mut self, at: RowRef, call: &Call) {
        if call.call != CallKind::Connect {
            return;
        }
        let error = match call.error.as_deref() {
            Some("ENETUNREACH") => "ENETUNREACH",
            // Of an `unreachable` route: before a local port was chosen. Where the next hop does not answer it
            // comes later.
            Some("EHOSTUNREACH") if call.local_port == 0 => "EHOSTUNREACH",
            _ => return,
        };
        let key = (call.netns, call.pid);
        if self.callers.len() >= MAX_CALLERS && !self.callers.contains_key(&key) {
            self.folded += 1;
            return;
        }
        let known = self.callers.entry(key).or_insert_with(|| NoWay {
            comm: call.comm.clone(),
            count: 0,
            ipv4: 0,
            first_ns: call.time_ns,
            last_ns: call.time_ns,
            error,
            to: BTreeSet::new(),
            rows: [at, at],
        });
        known.count += 1;
        known.ipv4 += u64::from(call.family == 4);
        known.last_ns = known.last_ns.max(call.time_ns);
        known.comm.clone_from(&call.comm);
        (known.error, known.rows[1]) = (error, at);
        if known.to.len() < MAX_DESTINATIONS {
            known.to.insert(call.remote_addr);
        }
    }

    /// All of them, by network namespace and process.
    pub fn callers(&self) -> impl Iterator<Item = ((u32, u32), &NoWay)> {
        self.callers.iter().map(|(key, way)| (*key, way))
    }
}
