//! Anonymous ports of one client address (tcp_update_next_port, tcp_random_anon_port).

use rand::Rng;

use super::params::Params;

/// Which ports are in use towards the server, and where the sequential search goes on.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    in_use: Vec<u64>,
    next_to_try: u16,
}

impl Ports {
    pub(super) fn new(p: &Params) -> Ports {
        Ports {
            in_use: vec![0; (1 << 16) / 64],
            next_to_try: p.tcp_smallest_anon_port,
        }
    }

    /// Takes a port for a connection; `None` when all are in use. Only the client's own connections
    /// make a port busy: of a TIME_WAIT at the server it knows nothing, on the same host either.
    pub(super) fn take(&mut self, p: &Params, rng: &mut impl Rng) -> Option<u16> {
        let (low, high) = (p.tcp_smallest_anon_port, p.tcp_largest_anon_port);
        let mut port = if p.random_ports() {
            let drawn = (rng.next_u32() >> 16) as u16;
            // The kernel's own: the modulus is one short of the number of ports.
            if drawn < low {
                low + drawn % (high - low)
            } else {
                drawn.min(high)
            }
        } else {
            self.next_to_try
        };
        for _ in 0..p.ports() {
            let next = if port == high { low } else { port + 1 };
            let (word, bit) = place(port);
            if self.in_use[word] & bit == 0 {
                self.in_use[word] |= bit;
                self.next_to_try = next;
                return Some(port);
            }
            port = next;
        }
        None
    }

    /// Gives a port back.
    pub(super) fn release(&mut self, port: u16) {
        let (word, bit) = place(port);
        self.in_use[word] &= !bit;
    }
}

fn place(port: u16) -> (usize, u64) {
    (usize::from(port) / 64, 1 << (port % 64))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::testing::Set;

    #[test]
    fn random_ports_cover_the_range_evenly() {
        let p = Params::with(&[]);
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let mut ports = Ports::new(&p);
        let mut halves = [0u32; 2];
        for _ in 0..20_000 {
            let port = ports.take(&p, &mut rng).unwrap();
            ports.release(port);
            assert!(port >= 32_768);
            halves[usize::from(port >= 49_152)] += 1;
        }
        assert!(
            halves.iter().all(|n| (9_700..=10_300).contains(n)),
            "{halves:?}"
        );
    }

    #[test]
    fn sequential_ports_come_in_turn() {
        let p = Params::with(&[
            "tcp_random_anon_port=0",
            "tcp_smallest_anon_port=65533",
            "clients=1",
        ]);
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let mut ports = Ports::new(&p);
        let mut take = || ports.take(&p, &mut rng);
        assert_eq!(
            [take(), take(), take()],
            [Some(65_533), Some(65_534), Some(65_535)]
        );
        assert_eq!(take(), None);
        ports.release(65_534);
        assert_eq!(ports.take(&p, &mut rng), Some(65_534));
    }

    #[test]
    fn a_busy_port_is_passed_over() {
        let p = Params::with(&["tcp_smallest_anon_port=65500", "clients=1"]);
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let mut ports = Ports::new(&p);
        let mut taken: Vec<_> = (0..36).map(|_| ports.take(&p, &mut rng).unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, (65_500..=65_535).collect::<Vec<u16>>());
        assert_eq!(ports.take(&p, &mut rng), None);
    }
}
