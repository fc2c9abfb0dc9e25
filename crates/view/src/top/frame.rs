//! One second of a recording, as far as the screen shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ahash::AHashMap;
use analysis::account::{RoundTrips, ServiceRequests};
use analysis::owners::Place;
use analysis::{Activity, Microstates, standing};
use recording::Text;
use recording::tables::{Thread, Wait};

use super::links::Link;
use super::state::SocketOrder;
use crate::stat::listeners::Listening;
use crate::stat::sockets::Sampled;

/// What is shown of connections: in a word or two, and what is counted.
pub const SHOWN: &[(Activity, &str, &str)] = &[
    (
        Activity::Opened,
        "opened",
        "connections that this host began",
    ),
    (
        Activity::Accepted,
        "accepted",
        "handshakes that completed at a listener of this host",
    ),
    (
        Activity::Failed,
        "failed",
        "connections begun here that were never established",
    ),
    (
        Activity::Closed,
        "closed",
        "ends of connections that were established",
    ),
    (
        Activity::SynRetransmitted,
        "SYN retrans",
        "SYNs that were retransmitted: the first got no answer",
    ),
    (
        Activity::SynAckRetransmitted,
        "SYN-ACK retrans",
        "SYN-ACKs that were retransmitted: the last ACK did not come",
    ),
    (
        Activity::Retransmitted,
        "data retrans",
        "segments of established connections that were retransmitted",
    ),
    (
        Activity::ResetSent,
        "resets sent",
        "resets that this host sent",
    ),
    (
        Activity::ResetReceived,
        "resets recv",
        "resets that came in",
    ),
    (
        Activity::Dropped,
        "drops",
        "TCP packets that the kernel dropped",
    ),
];

/// Its name, and what is counted.
pub(super) fn shown(activity: Activity) -> (&'static str, &'static str) {
    let of = SHOWN.iter().find(|(shown, ..)| *shown == activity);
    of.map_or(("", ""), |(_, name, says)| (name, says))
}

/// Listeners kept of a second.
const MAX_LISTENERS: usize = 1024;
/// Sockets looked at together, and kept of them for each order.
const SOCKETS_AT_ONCE: usize = 512;
const SOCKETS_KEPT: usize = 24;
/// Threads looked at together, and kept.
const THREADS_AT_ONCE: usize = 512;
const THREADS_KEPT: usize = 64;
/// Long waits kept, and different sleeps.
const WAITS_KEPT: usize = 64;
const SLEEPS_KEPT: usize = 4096;
/// Services whose requests are kept of a second, and destinations whose round trips are.
pub(super) const SERVICES_KEPT: usize = 64;
const DESTINATIONS_KEPT: usize = 512;
/// Different reasons kept.
const MAX_REASONS: usize = 64;
/// Different stacks kept of a second, and places that accept.
const MAX_STACKS: usize = 4096;
const MAX_PLACES: usize = 4096;

/// One second (or, in a long recording, several).
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) counts: [u64; Activity::COUNT],
    /// Why, for drops and resets; which kind, for retransmissions.
    pub(super) reasons: BTreeMap<(Activity, Text), u64>,
    pub(super) connects: Latencies,
    /// Connections accepted, by where.
    pub(super) accepted: AHashMap<Place, u64>,
    pub(super) listeners: Vec<Listening>,
    /// Listeners and others that found no room: what is shown is not all.
    pub(super) left_out: u64,
    sockets: Vec<Sampled>,
    threads: Vec<Thread>,
    pub(super) sleeps: BTreeMap<(u32, u32, Text), (u64, u64)>,
    waits: Vec<Wait>,
    pub(super) requests: ServiceRequests<SERVICES_KEPT>,
    /// What went through interfaces, by namespace and name.
    pub(super) links: BTreeMap<(u32, Text), Link>,
    pub(super) round_trips: RoundTrips<DESTINATIONS_KEPT>,
    /// Samples of the CPU profile by kernel stack.
    pub(super) stacks: AHashMap<u64, u64>,
    pub(super) samples: u64,
    pub(super) idle: u64,
}

/// What sockets are compared by, what weighs most first.
type Score = [u64; 4];

impl Sampled {
    /// Segments that it retransmitted since the sample before.
    pub(super) fn retrans(&self) -> u32 {
        self.since.map_or(0, |since| since.retrans)
    }

    /// Bits a second, both directions, since the sample before.
    pub(super) fn bits_per_s(&self) -> Option<u64> {
        self.since?.bits_per_s
    }

    /// Segments that it has retransmitted lately, or is about to retransmit once more.
    pub(super) fn repairs(&self) -> u64 {
        u64::from(self.retrans()) + u64::from(self.row.rto_count.unwrap_or(0))
    }

    /// How far up it stands in an order; all 0 when it has no place in it.
    pub(super) fn score(&self, order: SocketOrder) -> Score {
        let s = &self.row;
        let count = |n: Option<u32>| u64::from(n.unwrap_or(0));
        let queued = count(s.recv_queue) + count(s.send_queue);
        let rtt = count(standing::round_trip_us(s));
        match order {
            // Sockets without trouble rank by their round trip, so each has a place.
            SocketOrder::Trouble => {
                let waiting = count(standing::waiting_ms(s));
                [self.repairs(), waiting, queued, rtt + 1]
            }
            SocketOrder::Rtt => [rtt, 0, 0, 0],
            SocketOrder::Retrans => [self.retrans().into(), count(s.total_retrans), 0, 0],
            // A socket with nothing to send is not slow.
            SocketOrder::Slow => {
                if count(s.send_queue) > 0 {
                    [
                        u64::MAX - self.bits_per_s().unwrap_or(u64::MAX - 1),
                        0,
                        0,
                        0,
                    ]
                } else {
                    [0; 4]
                }
            }
            SocketOrder::Queue => [queued, 0, 0, 0],
        }
    }
}

impl Frame {
    pub(super) fn count(&mut self, activity: Activity, why: Option<&Text>) {
        self.counts[activity as usize] += 1;
        if let Some(why) = why
            && (self.reasons.len() < MAX_REASONS
                || self.reasons.contains_key(&(activity, why.clone())))
        {
            *self.reasons.entry((activity, why.clone())).or_default() += 1;
        }
    }

    pub(super) fn accept(&mut self, place: Place) {
        if self.accepted.len() < MAX_PLACES || self.accepted.contains_key(&place) {
            *self.accepted.entry(place).or_default() += 1;
        }
    }

    pub(super) fn listener(&mut self, sample: Listening) {
        if self.listeners.len() < MAX_LISTENERS {
            self.listeners.push(sample)
        } else {
            self.left_out += 1
        }
    }

    pub(super) fn socket(&mut self, sample: Sampled) {
        self.sockets.push(sample);
        if self.sockets.len() >= SOCKETS_AT_ONCE {
            self.keep_sockets();
        }
    }

    /// Keeps the worst of each order; both samples of a socket that was sampled twice.
    fn keep_sockets(&mut self) {
        let mut kept = vec![false; self.sockets.len()];
        for order in SocketOrder::ALL {
            let mut by: Vec<usize> = (0..self.sockets.len()).collect();
            by.sort_by_key(|i| Reverse(self.sockets[*i].score(*order)));
            by.iter().take(SOCKETS_KEPT).for_each(|i| kept[*i] = true);
        }
        let mut kept = kept.into_iter();
        self.sockets.retain(|_| kept.next() == Some(true));
    }

    pub(super) fn thread(&mut self, row: Thread) {
        self.threads.push(row);
        if self.threads.len() >= THREADS_AT_ONCE {
            self.keep_threads();
        }
    }

    /// Those that did, or waited for, something other than sleep.
    fn keep_threads(&mut self) {
        self.threads
            .sort_by_key(|t| Reverse(Microstates::of(t).restless_ns()));
        self.threads.truncate(THREADS_KEPT);
    }

    pub(super) fn sleep(&mut self, key: (u32, u32, Text), ns: u64, count: u64) {
        if self.sleeps.len() < SLEEPS_KEPT || self.sleeps.contains_key(&key) {
            let sleep = self.sleeps.entry(key).or_default();
            sleep.0 = sleep.0.saturating_add(ns);
            sleep.1 = sleep.1.saturating_add(count);
        }
    }

    pub(super) fn wait(&mut self, row: Wait) {
        self.waits.push(row);
        if self.waits.len() >= 2 * WAITS_KEPT {
            self.waits.sort_by_key(|w| Reverse(w.waited_ns));
            self.waits.truncate(WAITS_KEPT);
        }
    }

    pub(super) fn stack(&mut self, stack: u64) {
        if self.stacks.len() < MAX_STACKS || self.stacks.contains_key(&stack) {
            *self.stacks.entry(stack).or_default() += 1;
        }
    }

    pub(super) fn sockets(&self) -> &[Sampled] {
        &self.sockets
    }

    pub(super) fn threads(&self) -> &[Thread] {
        &self.threads
    }

    pub(super) fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// Nothing more is expected of this second: keeps what is shown of it.
    pub(super) fn settle(&mut self) {
        self.keep_sockets();
        self.keep_threads();
    }
}

/// How long connects took: a histogram with two classes to each doubling.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    classes: [u64; 64],
    most_ns: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            classes: [0; 64],
            most_ns: 0,
        }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, ns: u64) {
        // Classes begin at a microsecond.
        let us = (ns / 1000).max(1);
        let log = us.ilog2();
        let upper_half = log > 0 && us >> (log - 1) & 1 == 1;
        let class = (2 * log + u32::from(upper_half)) as usize;
        self.classes[class.min(63)] += 1;
        self.most_ns = self.most_ns.max(ns);
    }

    pub(super) fn merge(&mut self, other: &Latencies) {
        for (a, b) in self.classes.iter_mut().zip(other.classes) {
            *a += b;
        }
        self.most_ns = self.most_ns.max(other.most_ns);
    }

    /// The upper end, ns, of the class that this percentile lies in, but no more than the longest.
    pub(super) fn percentile(&self, percent: u64) -> Option<u64> {
        let all: u64 = self.classes.iter().sum();
        let at = (all * percent).div_ceil(100);
        let mut seen = 0;
        let class = self.classes.iter().position(|n| {
            seen += n;
            *n > 0 && seen >= at
        })?;
        let (log, half) = (class as u32 / 2, class as u32 % 2);
        // From 2^log µs, halfway to the next power, or that one.
        let ns_of_us = if half == 0 { 1_500 } else { 2_000 };
        let upper = (1u64 << log).saturating_mul(ns_of_us);
        Some(upper.min(self.most_ns.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::owners::Owner;
    use recording::tables::Socket;

    #[test]
    fn each_activity_is_shown_once_but_the_success_of_connect() {
        let mut shown: Vec<_> = SHOWN.iter().map(|(activity, ..)| activity).collect();
        shown.dedup();
        assert_eq!(shown.len(), Activity::COUNT - 1);
        assert!(!shown.contains(&&Activity::Connected));
    }

    #[test]
    fn latencies_are_told_by_the_upper_end_of_their_class() {
        let mut l = Latencies::default();
        assert_eq!(l.percentile(50), None);
        let mut one = Latencies::default();
        one.add(9_000_000_000);
        assert_eq!(one.percentile(99), Some(9_000_000_000), "not 12.6 s");
        (0..98).for_each(|_| l.add(110_000)); // 96 to 128 µs
        l.add(1_004_000_000); // 0.79 to 1.05 s
        l.add(u64::MAX);
        assert_eq!(l.percentile(50), Some(128_000));
        assert_eq!(l.percentile(99), Some(1_048_576_000));
        assert!(l.percentile(100).is_some());
        l.add(0);
        assert_eq!(l.percentile(0), Some(1_500));
    }

    #[test]
    fn the_worst_sockets_of_each_order_are_kept() {
        let mut frame = Frame::default();
        for i in 0..10_000_u32 {
            let row = Box::new(Socket {
                rtt_us: Some(i),
                total_retrans: Some(10_000 - i),
                ..Socket::default()
            });
            let owner = Owner::default();
            frame.socket(Sampled {
                row,
                owner,
                since: None,
                unaccepted: false,
            });
        }
        frame.settle();
        assert!(frame.sockets.len() <= SOCKETS_KEPT * SocketOrder::ALL.len());
        let has = |f: fn(&Socket) -> bool| frame.sockets.iter().any(|s| f(&s.row));
        assert!(has(|s| s.rtt_us == Some(9_999)) && has(|s| s.total_retrans == Some(10_000)));
    }
}
