//! Which port connect() tries next: in_pcbbind_setup() and ipport_tick() of FreeBSD 6.

use rand::{Rng, RngExt};

use super::params::Params;

/// Where the search for a port has come to.
#[derive(Debug)]
pub(super) struct Ports {
    last_port: u16,
    /// Seconds for which the search begins at the port after the last (ipport_stoprandom).
    sequential_s: u64,
    chosen: u64,
}

impl Ports {
    /// `last_port` is the one tried last. The host has been busy: it no longer begins at random ports.
    pub(super) fn new(p: &Params, last_port: u16) -> Ports {
        Ports {
            last_port,
            sequential_s: if p.outbound_rate() > p.randomcps as f64 {
                p.randomtime
            } else {
                0
            },
            chosen: 0,
        }
    }

    /// A search begins.
    pub(super) fn begin(&mut self, p: &Params, rng: &mut impl Rng) {
        self.chosen += 1;
        if p.randomized == 1 && self.sequential_s == 0 {
            self.last_port = p.first + rng.random_range(0..p.last - p.first);
        }
    }

    /// The next candidate.
    pub(super) fn next(&mut self, p: &Params) -> u16 {
        self.last_port = match self.last_port {
            port if port < p.first || port >= p.last => p.first,
            port => port + 1,
        };
        self.last_port
    }

    /// A second has passed.
    pub(super) fn tick(&mut self, p: &Params) {
        self.sequential_s = if self.chosen > p.randomcps {
            p.randomtime
        } else {
            self.sequential_s.saturating_sub(1)
        };
        self.chosen = 0;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::testing::Set;

    #[test]
    fn a_search_goes_around_the_range() {
        let p = Params::with(&["net.inet.ip.portrange.first=65533"]);
        let mut ports = Ports::new(&p, 65_534);
        let tried: Vec<_> = (0..4).map(|_| ports.next(&p)).collect();
        assert_eq!(tried, [65_535, 65_533, 65_534, 65_535]);
        // From outside the range, too.
        assert_eq!(Ports::new(&p, 1_024).next(&p), 65_533);
    }

    #[test]
    fn many_connects_per_second_end_the_random_choice_for_a_while() {
        let p = Params::with(&["outbound_rate=5", "net.inet.ip.portrange.randomtime=2"]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut ports = Ports::new(&p, 50_000);
        let mut second = |searches: u32| {
            let mut in_turn = 0;
            for _ in 0..searches {
                let before = ports.last_port;
                ports.begin(&p, &mut rng);
                in_turn += u32::from(ports.next(&p) == before + 1);
            }
            ports.tick(&p);
            in_turn
        };
        assert_eq!(second(11), 0, "begins at random");
        assert_eq!(
            (second(3), second(3)),
            (3, 3),
            "then in turn, for two seconds"
        );
        assert_eq!(second(3), 0, "and at random again");
    }
}
