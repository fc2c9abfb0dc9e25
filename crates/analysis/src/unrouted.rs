//! connect() calls for which the kernel knew no route: whose, where to, and with which error.

use std::collections::{BTreeMap, BTreeSet};

use recording::tables::Call;
use recording::{Addr, CallKind, RowRef, Text};

/// Callers followed.
const MAX_CALLERS: usize = 10_000;
/// Destinations kept of each.
const MAX_DESTINATIONS: usize = 16;
/// Moments kept per caller: with more calls those of every second one, with twice as many those of every fourth.
const MAX_MOMENTS: usize = 256;

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
    /// When they returned, ns, in order: the first, and where there are many an even selection of the others.
    pub failed_ns: Vec<u64>,
    /// One call in this many is among those.
    one_in: u64,
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
            // With an `unreachable` route, before a local port was chosen. Where the next hop does not answer, it
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
            failed_ns: Vec::new(),
            one_in: 1,
            error,
            to: BTreeSet::new(),
            rows: [at, at],
        });
        known.note(call.time_ns);
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

impl NoWay {
    /// Keeps the moment of the next call, if it is one of those that are kept.
    fn note(&mut self, time_ns: u64) {
        if self.failed_ns.len() >= MAX_MOMENTS && self.count.is_multiple_of(self.one_in) {
            let mut nth = 0u64;
            self.failed_ns.retain(|_| {
                nth += 1;
                !nth.is_multiple_of(2)
            });
            self.one_in = self.one_in.saturating_mul(2);
        }
        if self.count.is_multiple_of(self.one_in) {
            self.failed_ns.push(time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_calls_moments_are_kept_evenly() {
        let at = RowRef {
            table: "call",
            segment: 1,
            row: 0,
        };
        let mut unrouted = Unrouted::default();
        for time_ns in 0..5_000 {
            let call = Call {
                time_ns,
                call: CallKind::Connect,
                error: Some("ENETUNREACH".into()),
                family: 4,
                ..Call::default()
            };
            unrouted.add(at, &call);
        }
        let (_, way) = unrouted.callers().next().expect("a caller");
        assert_eq!((way.count, way.first_ns, way.last_ns), (5_000, 0, 4_999));
        let kept = &way.failed_ns;
        assert!((MAX_MOMENTS / 2..=MAX_MOMENTS).contains(&kept.len()));
        assert_eq!(kept.first(), Some(&0));
        assert!(kept.windows(2).all(|w| w[1] - w[0] == way.one_in));
    }
}
