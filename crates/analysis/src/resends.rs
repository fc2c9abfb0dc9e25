//! What a socket retransmitted, and the round trips that were measured then.

use recording::RowRef;

/// Round trips kept per connection and kind, evenly over time.
pub(super) const KEPT_RTTS: usize = 32;

/// Segments that one socket retransmitted.
#[derive(Clone, Debug, Default)]
pub struct Resends {
    /// On ACKs or on the reordering timer.
    pub fast: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// On the retransmission timer.
    pub timeouts: u64,
    /// For a reason that is not known.
    pub other: u64,
    /// Segments that had to wait for a timer (probes and first timeouts), on connections over which both ends had
    /// spoken before: the last of what was sent, as nothing after them revealed the loss.
    pub waited: u64,
    /// The same until the last sample, which shows which of them the peer already had.
    pub waited_sampled: u64,
    /// The one counted last.
    pub(super) waited_seq: Option<u32>,
    /// Round trips when they were retransmitted, µs.
    pub rtts: Rtts,
    /// Parts of the recording with one, as bits.
    pub slots: u32,
    /// Some of the rows.
    pub rows: Vec<RowRef>,
}

/// Some round trips of many, evenly over time.
#[derive(Clone, Debug, Default)]
pub struct Rtts {
    kept: Vec<u32>,
    every: u32,
    seen: u32,
}

impl Rtts {
    pub(super) fn add(&mut self, rtt_us: u32) {
        self.every = self.every.max(1);
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == KEPT_RTTS {
                let mut nth = 0;
                self.kept.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                self.every = self.every.saturating_mul(2);
            }
            self.kept.push(rtt_us);
        }
        self.seen = self.seen.saturating_add(1);
    }

    /// Those kept, µs, in order of time.
    pub fn all(&self) -> &[u32] {
        &self.kept
    }
}

impl Resends {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.fast + self.probes + self.timeouts + self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_kept_are_few_and_from_all_times() {
        let mut rtts = Rtts::default();
        (0..10_000).for_each(|i| rtts.add(i));
        assert!(rtts.all().len() <= KEPT_RTTS);
        assert!(rtts.all().first() == Some(&0) && rtts.all().last() > Some(&9_000));
    }
}
