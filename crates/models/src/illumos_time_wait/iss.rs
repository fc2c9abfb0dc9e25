//! Initial sequence numbers of one IP stack (tcp_iss_init).

use rand::{Rng, RngExt};

use super::params::{Params, S};

/// The counter of one stack and its clocks.
#[derive(Clone, Debug)]
pub(super) struct Iss {
    /// tcps_iss_incr_extra: one counter for all connections, opened and accepted.
    extra: u32,
    /// How long the host had been up when the simulation began, ns.
    uptime_ns: u64,
    /// tcp_strong_iss = 2: what the hash of a connection's ends is keyed with.
    secret: u64,
}

impl Iss {
    pub(super) fn new(rng: &mut impl Rng) -> Iss {
        Iss {
            extra: 0,
            // Up to 12 days: the phase of the clock does not matter, only that it is some phase.
            uptime_ns: rng.random_range(0..1 << 50),
            secret: rng.next_u64(),
        }
    }

    /// The ISS of the next connection with the ends `tuple`. Called for every connect() and for
    /// every connection accepted: half of tcp_iss_incr each.
    pub(super) fn next(&mut self, p: &Params, now_ns: u64, tuple: u64, rng: &mut impl Rng) -> u32 {
        self.extra = self.extra.wrapping_add(p.tcp_iss_incr / 2);
        let random = match p.tcp_strong_iss {
            0 => 0,
            // 17 random bits and 1. They are added to this ISS, not accumulated in the counter.
            _ => (rng.next_u32() >> 15) + 1,
        };
        self.extra
            .wrapping_add(self.clock(p, now_ns, tuple))
            .wrapping_add(random)
    }

    /// So many connections besides, each of which draws an ISS.
    pub(super) fn skip(&mut self, p: &Params, connections: u32) {
        let each = p.tcp_iss_incr / 2;
        self.extra = self.extra.wrapping_add(each.wrapping_mul(connections));
    }

    /// A SYN is taken over a TIME_WAIT that would have sent `sent_next`: the next ISS must lie
    /// beyond it, else the counter is raised by what is missing.
    pub(super) fn pass(&mut self, p: &Params, now_ns: u64, tuple: u64, sent_next: u32) {
        let next = self.extra.wrapping_add(self.clock(p, now_ns, tuple));
        let missing = sent_next.wrapping_sub(next) as i32;
        if missing > 0 {
            self.extra = self.extra.wrapping_add(missing as u32);
        }
    }

    /// The part that neither the counter nor chance gives.
    fn clock(&self, p: &Params, now_ns: u64, tuple: u64) -> u32 {
        let up_ns = self.uptime_ns + now_ns;
        match p.tcp_strong_iss {
            0 => ((up_ns / S) as u32).wrapping_mul(p.tcp_iss_incr),
            // ISS_NSEC_SHT: one per 4096 ns.
            1 => (up_ns >> 12) as u32,
            _ => ((up_ns >> 12) as u32).wrapping_add(hash(self.secret ^ tuple)),
        }
    }
}

/// Stands in for the kernel's MD5: what matters is that one connection's ends give one value.
fn hash(mut x: u64) -> u32 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as u32
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::testing::Set;

    /// How far an ISS is from the one before, with a second and `between` connections in between.
    fn distance(strong: u64, between: u32) -> u32 {
        let p = Params::with(&[&format!("tcp_strong_iss={strong}")]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut iss = Iss::new(&mut rng);
        let first = iss.next(&p, 0, 7, &mut rng);
        iss.skip(&p, between);
        iss.next(&p, S, 7, &mut rng).wrapping_sub(first)
    }

    #[test]
    fn every_call_adds_half_of_the_increment_and_the_clock_its_part() {
        // Strong 0: steps of a second, no chance.
        assert_eq!(distance(0, 0), 125_000 + 250_000);
        assert_eq!(distance(0, 3), 4 * 125_000 + 250_000);
        for strong in [1, 2] {
            let by = distance(strong, 9);
            let least = 10 * 125_000 + 244_140;
            assert!((least - 131_072..=least + 131_073).contains(&by), "{by}");
        }
    }

    #[test]
    fn the_hash_of_other_ends_is_another() {
        let p = Params::with(&["tcp_strong_iss=2"]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut iss = Iss::new(&mut rng);
        let near = |a: u32, b: u32| a.wrapping_sub(b).min(b.wrapping_sub(a)) < 1 << 20;
        let (a, b) = (iss.next(&p, 0, 7, &mut rng), iss.next(&p, 0, 8, &mut rng));
        assert!(!near(a, b) && near(a, iss.next(&p, 0, 7, &mut rng)));
    }

    #[test]
    fn the_next_iss_lies_beyond_the_connection_that_is_replaced() {
        let p = Params::with(&[]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut iss = Iss::new(&mut rng);
        let ahead = iss.next(&p, 0, 7, &mut rng).wrapping_add(1 << 30);
        iss.pass(&p, 0, 7, ahead);
        assert!(iss.next(&p, 0, 7, &mut rng).wrapping_sub(ahead) < 1 << 20);
        // One that is beyond already stays.
        let before = iss.extra;
        iss.pass(&p, 0, 7, ahead.wrapping_sub(1 << 20));
        assert_eq!(iss.extra, before);
    }
}
