//! connect() for which the kernel knew no route, or one that rejects: whose, where to, and with which error.

use std::collections::{BTreeMap, BTreeSet};

use recording::tables::{Call, Event};
use recording::{Addr, CallKind, RowRef, Text};

/// Callers followed.
const MAX_CALLERS: usize = 10_000;
/// Processes kept of each.
const MAX_PROCESSES: usize = 16;
/// Destinations kept of each.
const MAX_DESTINATIONS: usize = 16;
/// Moments kept per caller: with more calls those of every second one, with twice as many those of every fourth.
const MAX_MOMENTS: usize = 256;

/// One program in its network namespace, and the error that it met.
type Caller = (u32, Text, &'static str);

/// The calls that failed for want of a route, by caller.
#[derive(Debug, Default)]
pub struct Unrouted {
    callers: BTreeMap<Caller, NoWay>,
    /// Calls of further callers.
    pub folded: u64,
}

/// Those of one caller.
#[derive(Clone, Debug)]
pub struct NoWay {
    /// Its network namespace.
    pub netns: u32,
    /// Command name of its threads.
    pub comm: Text,
    /// Its processes: the first of many.
    pub pids: BTreeSet<u32>,
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
    /// The error.
    pub error: &'static str,
    /// Where they went to: the first of many.
    pub to: BTreeSet<Addr>,
    /// The first and the last.
    pub rows: [RowRef; 2],
}

/// One connect that failed.
struct Failed<'a> {
    at: RowRef,
    time_ns: u64,
    /// Network namespace and process.
    who: (u32, u32),
    comm: &'a Text,
    family: u8,
    to: Addr,
    error: &'static str,
}

impl Unrouted {
    /// Takes a call: without any route the kernel has no other word of it.
    pub(crate) fn add(&mut self, at: RowRef, call: &Call) {
        if call.call == CallKind::Connect && call.error.as_deref() == Some("ENETUNREACH") {
            self.take(Failed {
                at,
                time_ns: call.time_ns,
                who: (call.netns, call.pid),
                comm: &call.comm,
                family: call.family,
                to: call.remote_addr,
                error: "ENETUNREACH",
            });
        }
    }

    /// Takes a connect that a route rejected.
    pub(crate) fn rejected(&mut self, at: RowRef, row: &Event) {
        let error = match row.error.as_deref() {
            Some("EINVAL") => "EINVAL",
            Some("EACCES") => "EACCES",
            Some("EHOSTUNREACH") => "EHOSTUNREACH",
            _ => return,
        };
        let unknown = Text::default();
        self.take(Failed {
            at,
            time_ns: row.time_ns,
            who: (row.netns, row.pid.unwrap_or(0)),
            comm: row.comm.as_ref().unwrap_or(&unknown),
            family: row.family,
            to: row.remote_addr,
            error,
        });
    }

    fn take(&mut self, failed: Failed) {
        let Failed { at, error, .. } = failed;
        let (netns, pid) = failed.who;
        let key = (netns, failed.comm.clone(), error);
        if self.callers.len() >= MAX_CALLERS && !self.callers.contains_key(&key) {
            self.folded += 1;
            return;
        }
        let known = self.callers.entry(key).or_insert_with(|| NoWay {
            netns,
            comm: failed.comm.clone(),
            pids: BTreeSet::new(),
            count: 0,
            ipv4: 0,
            first_ns: failed.time_ns,
            last_ns: failed.time_ns,
            failed_ns: Vec::new(),
            one_in: 1,
            error,
            to: BTreeSet::new(),
            rows: [at, at],
        });
        known.note(failed.time_ns);
        known.count += 1;
        known.ipv4 += u64::from(failed.family == 4);
        known.last_ns = known.last_ns.max(failed.time_ns);
        known.rows[1] = at;
        if known.pids.len() < MAX_PROCESSES {
            known.pids.insert(pid);
        }
        if known.to.len() < MAX_DESTINATIONS {
            known.to.insert(failed.to);
        }
    }

    /// All of them, by network namespace, program and error.
    pub fn callers(&self) -> impl Iterator<Item = &NoWay> {
        self.callers.values()
    }
}

impl NoWay {
    /// The type of the route that rejects them, as `ip route` calls it; `None` where there is none at all.
    pub fn route(&self) -> Option<&'static str> {
        match self.error {
            "EINVAL" => Some("blackhole"),
            "EACCES" => Some("prohibit"),
            "EHOSTUNREACH" => Some("unreachable"),
            _ => None,
        }
    }

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
        let way = unrouted.callers().next().expect("a caller");
        assert_eq!((way.count, way.first_ns, way.last_ns), (5_000, 0, 4_999));
        let kept = &way.failed_ns;
        assert!((MAX_MOMENTS / 2..=MAX_MOMENTS).contains(&kept.len()));
        assert_eq!(kept.first(), Some(&0));
        assert!(kept.windows(2).all(|w| w[1] - w[0] == way.one_in));
    }
}
