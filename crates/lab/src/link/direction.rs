//! One direction of an emulated path: which packets leave it, and when. No I/O and no clock of
//! its own, so that every rule is tested with numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::syn::{Syns, is_handshake, is_syn};
use super::{Wire, strip};

/// Packets that may be under way at once: of 1,500 bytes 50 MB, or 390 ms of 1 Gbit/s.
const MAX_PACKETS: usize = 32_768;

/// What happened to the packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Came in.
    pub packets: u64,
    /// Came in, bytes.
    pub bytes: u64,
    /// Lost at random, as SYN or for its size, as the scenario wants.
    pub lost: u64,
    /// Lost because the buffer in front of the bottleneck was full.
    pub queue_full: u64,
    /// Held back so that later ones overtook them.
    pub reordered: u64,
    /// Lost options to the middlebox.
    pub stripped: u64,
    /// The receiving side would not take them: the device was going down.
    pub refused: u64,
}

/// A packet in a buffer that is used again.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Packet {
    pub(super) buffer: Box<[u8]>,
    pub(super) len: usize,
}

impl Packet {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// The packets that are under way in one direction.
#[derive(Debug)]
pub(super) struct Direction {
    wire: Wire,
    rng: Pcg64Mcg,
    syns: Syns,
    /// By due time, then by arrival: equal times keep their order.
    under_way: BinaryHeap<Reverse<(u64, u64, Packet)>>,
    arrivals: u64,
    /// When the bottleneck will have sent all it holds, ns.
    free_at: u64,
    /// When the first SYN came, or the first answer to one, ns.
    first_syn: Option<u64>,
    /// The latest due time given to a packet that keeps its place, ns.
    last_due: u64,
    spare: Vec<Box<[u8]>>,
    pub(super) counters: Counters,
}

impl Direction {
    pub(super) fn new(wire: Wire, seed: u64) -> Direction {
        Direction {
            wire,
            rng: Pcg64Mcg::seed_from_u64(seed),
            syns: Syns::default(),
            under_way: BinaryHeap::new(),
            arrivals: 0,
            free_at: 0,
            first_syn: None,
            last_due: 0,
            spare: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// A buffer for the next packet.
    pub(super) fn buffer(&mut self) -> Box<[u8]> {
        let mtu = self.wire.mtu.into();
        self.spare.pop().unwrap_or_else(|| vec![0; mtu].into())
    }

    /// Takes back the buffer of a packet that has left.
    pub(super) fn recycle(&mut self, buffer: Box<[u8]>) {
        self.spare.push(buffer);
    }

    /// Whether it is so long since the first SYN, or its answer, came, and not yet over.
    fn is_cut(&mut self, now: u64, after: u64, packet: &Packet) -> bool {
        let lasts = self.wire.cut_for_ms.map_or(u64::MAX, ns);
        if self.first_syn.is_none() && is_handshake(packet.bytes()) {
            self.first_syn = Some(now);
        }
        let since = |first| now.saturating_sub(first).checked_sub(after);
        let cut = self.first_syn.and_then(since);
        cut.is_some_and(|since| since < lasts)
    }

    /// A packet comes in at the time `now`, ns.
    pub(super) fn offer(&mut self, now: u64, mut packet: Packet) {
        let wire = self.wire;
        self.counters.packets += 1;
        self.counters.bytes += packet.len as u64;
        if wire
            .cut_after_ms
            .is_some_and(|ms| self.is_cut(now, ns(ms), &packet))
        {
            self.counters.lost += 1;
            return self.recycle(packet.buffer);
        }
        if wire.lose_first_syn && self.syns.is_first(packet.bytes()) {
            self.counters.lost += 1;
            return self.recycle(packet.buffer);
        }
        if wire.syn_loss > 0.0 && is_syn(packet.bytes()) && self.rng.random_bool(wire.syn_loss) {
            self.counters.lost += 1;
            return self.recycle(packet.buffer);
        }
        if wire.loss > 0.0 && self.rng.random_bool(wire.loss) {
            self.counters.lost += 1;
            return self.recycle(packet.buffer);
        }
        if wire.hole.is_some_and(|most| packet.len > most.into()) {
            self.counters.lost += 1;
            return self.recycle(packet.buffer);
        }
        let Some(sent) = self.bottleneck(now, packet.len) else {
            self.counters.queue_full += 1;
            return self.recycle(packet.buffer);
        };
        if wire.strip_options && strip::strip(&mut packet.buffer[..packet.len]) {
            self.counters.stripped += 1;
        }
        let mut due = sent + ns(wire.delay_ms);
        if wire.jitter_ms > 0.0 {
            due += self.rng.random_range(0..=ns(wire.jitter_ms));
        }
        if wire.reorder > 0.0 && self.rng.random_bool(wire.reorder) {
            self.counters.reordered += 1;
            due += ns(wire.reorder_ms);
        } else {
            // A path varies its delay without changing the order: routers queue, first in,
            // first out. Without this, jitter would be reordering under another name.
            due = due.max(self.last_due);
            self.last_due = due;
        }
        self.arrivals += 1;
        self.under_way.push(Reverse((due, self.arrivals, packet)));
    }

    /// When the bottleneck has sent a packet that comes now, ns; `None` when it does not fit.
    fn bottleneck(&mut self, now: u64, len: usize) -> Option<u64> {
        if self.under_way.len() >= MAX_PACKETS {
            return None;
        }
        let Some(rate) = self.wire.rate_mbit else {
            return Some(now);
        };
        // 1 Mbit/s is one bit per 1000 ns.
        let ns_per_byte = 8.0 * 1000.0 / rate;
        let start = self.free_at.max(now);
        let waiting_bytes = (start - now) as f64 / ns_per_byte;
        if waiting_bytes + len as f64 > (self.wire.queue_kb * 1000) as f64 {
            return None;
        }
        self.free_at = start + (len as f64 * ns_per_byte) as u64;
        Some(self.free_at)
    }

    /// When the next packet leaves, ns.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse((due, ..))| *due)
    }

    /// The next packet that has to leave by `now`, ns.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Packet> {
        if self.next_due()? > now {
            return None;
        }
        self.under_way.pop().map(|Reverse((_, _, packet))| packet)
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn offer(direction: &mut Direction, now: u64, len: usize, mark: u8) {
        let mut buffer = direction.buffer();
        buffer.fill(mark);
        direction.offer(now, Packet { buffer, len });
    }

    /// Everything that leaves, as (time, mark).
    fn drain(direction: &mut Direction) -> Vec<(u64, u8)> {
        let mut left = Vec::new();
        while let Some(due) = direction.next_due() {
            let packet = direction.take_due(due).unwrap();
            left.push((due, packet.bytes()[0]));
            direction.recycle(packet.buffer);
        }
        left
    }

    #[test]
    fn delay_is_exact_and_keeps_order() {
        let wire = Wire {
            delay_ms: 5.0,
            ..Wire::default()
        };
        let mut d = Direction::new(wire, 1);
        for i in 0..4 {
            offer(&mut d, MS, 100, i);
        }
        assert_eq!(d.take_due(6 * MS - 1), None);
        assert_eq!(
            drain(&mut d),
            [(6 * MS, 0), (6 * MS, 1), (6 * MS, 2), (6 * MS, 3)]
        );
    }

    #[test]
    fn jitter_never_reorders() {
        let wire = Wire {
            delay_ms: 5.0,
            jitter_ms: 20.0,
            ..Wire::default()
        };
        let mut d = Direction::new(wire, 1);
        for i in 0..100 {
            offer(&mut d, u64::from(i) * MS, 100, i);
        }
        let left = drain(&mut d);
        assert!(left.is_sorted());
        assert!(left.iter().map(|l| l.1).eq(0..100));
        assert!(
            left.iter()
                .all(|(due, i)| { (5 * MS..=25 * MS).contains(&(due - u64::from(*i) * MS)) })
        );
    }

    #[test]
    fn a_held_back_packet_is_overtaken() {
        let wire = Wire {
            delay_ms: 1.0,
            reorder: 0.2,
            reorder_ms: 3.0,
            ..Wire::default()
        };
        let mut d = Direction::new(wire, 1);
        for i in 0..100 {
            offer(&mut d, u64::from(i) * MS, 100, i);
        }
        let marks: Vec<u8> = drain(&mut d).iter().map(|l| l.1).collect();
        assert!(!marks.is_sorted());
        assert!((5..40).contains(&d.counters.reordered));
        assert_eq!(marks.len(), 100);
    }

    #[test]
    fn the_bottleneck_spaces_packets_and_drops_at_the_tail() {
        // 8 Mbit/s: a byte per microsecond. The buffer holds three packets of 1000.
        let wire = Wire {
            rate_mbit: Some(8.0),
            queue_kb: 3,
            ..Wire::default()
        };
        let mut d = Direction::new(wire, 1);
        for i in 0..5 {
            offer(&mut d, 0, 1000, i);
        }
        assert_eq!(drain(&mut d), [(MS, 0), (2 * MS, 1), (3 * MS, 2)]);
        assert_eq!(d.counters.queue_full, 2);
        // Idle time is not saved up.
        offer(&mut d, 10 * MS, 1000, 9);
        assert_eq!(drain(&mut d), [(11 * MS, 9)]);
    }

    #[test]
    fn loss_is_the_share_asked_for_and_repeats_with_the_seed() {
        let lost = |seed| {
            let mut d = Direction::new(
                Wire {
                    loss: 0.1,
                    ..Wire::default()
                },
                seed,
            );
            for _ in 0..10_000 {
                offer(&mut d, 0, 100, 0);
            }
            (d.counters.lost, drain(&mut d).len() as u64)
        };
        let (first, left) = lost(7);
        assert!((850..1150).contains(&first), "{first}");
        assert_eq!(first + left, 10_000);
        assert_eq!(lost(7), lost(7));
        assert_ne!(lost(7), lost(8));
    }

    #[test]
    fn large_packets_fall_into_the_hole() {
        let wire = Wire {
            hole: Some(1_400),
            ..Wire::default()
        };
        let mut d = Direction::new(wire, 1);
        for (mark, len) in [(1, 1_400), (2, 1_401), (3, 40), (4, 1_500)] {
            offer(&mut d, 0, len, mark);
        }
        assert_eq!(drain(&mut d), [(0, 1), (0, 3)]);
        assert_eq!(d.counters.lost, 2);
    }

    #[test]
    fn nothing_passes_so_long_after_the_first_syn() {
        let wire = Wire {
            cut_after_ms: Some(2.0),
            ..Wire::default()
        };
        let mut d = Direction::new(wire, 1);
        offer(&mut d, 0, 100, 1);
        let mut buffer = d.buffer();
        // An IPv4 header, and the flags of a SYN.
        (buffer[0], buffer[9], buffer[32], buffer[33]) = (0x45, 6, 0x50, 2);
        d.offer(7_000_000, Packet { buffer, len: 40 });
        for (mark, ms) in [(2, 8), (3, 9), (4, 500)] {
            offer(&mut d, ms * 1_000_000, 100, mark);
        }
        let passed: Vec<_> = drain(&mut d).into_iter().map(|(_, mark)| mark).collect();
        assert_eq!((passed, d.counters.lost), (vec![1, 0x45, 2], 2));
        // And again when it is over.
        d.wire.cut_for_ms = Some(493.0);
        offer(&mut d, 501_000_000, 100, 5);
        offer(&mut d, 502_000_000, 100, 6);
        let passed: Vec<_> = drain(&mut d).into_iter().map(|(_, mark)| mark).collect();
        assert_eq!((passed, d.counters.lost), (vec![6], 3));
    }

    #[test]
    fn memory_is_bounded() {
        let mut d = Direction::new(
            Wire {
                delay_ms: 1000.0,
                ..Wire::default()
            },
            1,
        );
        for _ in 0..MAX_PACKETS + 10 {
            offer(&mut d, 0, 100, 0);
        }
        assert_eq!(d.counters.queue_full, 10);
    }
}
