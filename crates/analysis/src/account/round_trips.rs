//! How long a round trip to each destination is, from handshakes and samples of the connections to it.

use recording::tables::Socket;

use crate::bounded::{BoundedMap, Interest};
use crate::place::Endpoint;

/// The shortest round trips of connections, by their namespace and other end, for at most `MOST` destinations.
#[derive(Debug, Default)]
pub struct RoundTrips<const MOST: usize>(BoundedMap<(u32, Endpoint), Sum, MOST>);

/// How many samples, and their sum, µs.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    samples: u64,
    us: u64,
}

/// By how many connections were sampled.
impl Interest for Sum {
    fn interest(&self) -> u64 {
        self.samples
    }
    fn counted(&self) -> u64 {
        self.samples
    }
}

impl<const MOST: usize> RoundTrips<MOST> {
    /// A sample; its shortest round trip so far counts, because an acknowledgement that comes with an answer takes as
    /// long as the answer.
    pub fn add(&mut self, row: &Socket) {
        let shortest = row.min_rtt_us.filter(|us| *us > 0);
        if let Some(us) = shortest {
            let to = Endpoint::new(row.remote_addr, row.remote_port);
            self.slot((row.netns, to), 1, us.into());
        }
    }

    /// A handshake that took so long, ns, and in which nothing was retransmitted.
    pub fn handshake(&mut self, netns: u32, to: Endpoint, took_ns: u64) {
        self.slot((netns, to), 1, took_ns / 1_000);
    }

    /// Adds those of other seconds.
    pub fn follow(&mut self, later: &RoundTrips<MOST>) {
        for (key, sum) in later.0.iter() {
            self.slot(*key, sum.samples, sum.us);
        }
    }

    /// The average over the connections from a namespace to a destination, s; `None` when none was measured.
    pub fn to(&self, netns: u32, at: Endpoint) -> Option<f64> {
        let sum = self.0.get(&(netns, at))?;
        (sum.samples > 0).then(|| sum.us as f64 / sum.samples as f64 / 1e6)
    }

    fn slot(&mut self, key: (u32, Endpoint), samples: u64, us: u64) {
        let sum = self.0.slot(key, Sum::default);
        sum.samples = sum.samples.saturating_add(samples);
        sum.us = sum.us.saturating_add(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_connections_are_averaged() {
        let row = |us| Socket {
            netns: 7,
            remote_port: 80,
            min_rtt_us: us,
            ..Socket::default()
        };
        let at = Endpoint::new(row(None).remote_addr, 80);
        let mut first = RoundTrips::<4>::default();
        for us in [None, Some(0)] {
            first.add(&row(us));
        }
        assert_eq!(first.to(7, at), None);
        first.add(&row(Some(1_000)));
        let mut later = RoundTrips::<4>::default();
        later.add(&row(Some(3_000)));
        later.handshake(7, at, 5_000_000);
        first.follow(&later);
        assert_eq!(first.to(7, at), Some(0.003));
        assert_eq!(first.to(8, at), None);
    }
}
