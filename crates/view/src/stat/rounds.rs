//! Rounds of samples: rows that were read together, told apart by what comes again and by pauses.

use std::hash::Hash;

use ahash::AHashSet;

/// After a pause of this length a round is over. Between two namespaces there may be a pause in a
/// round, too: a snapshot of 100,000 sockets takes 150 ms.
const PAUSE_NS: u64 = 900_000_000;

/// Groups rows into rounds.
#[derive(Debug)]
pub(super) struct Rounds<K> {
    keys: AHashSet<K>,
    last_ns: u64,
    /// Least time between two reports.
    every_ns: u64,
    shown_ns: Option<u64>,
}

impl<K: Hash + Eq> Rounds<K> {
    pub(super) fn new(every_ns: u64) -> Rounds<K> {
        Rounds {
            keys: AHashSet::new(),
            last_ns: 0,
            every_ns,
            shown_ns: None,
        }
    }

    /// Whether a row begins a new round: then [`close`](Rounds::close) the old one first.
    pub(super) fn begins(&self, key: &K, time_ns: u64) -> bool {
        self.keys.contains(key) || self.over(time_ns)
    }

    /// Adds a row to the round.
    pub(super) fn add(&mut self, key: K, time_ns: u64) {
        self.keys.insert(key);
        self.last_ns = self.last_ns.max(time_ns);
    }

    /// Whether the round is over.
    pub(super) fn over(&self, now_ns: u64) -> bool {
        self.is_open() && now_ns.saturating_sub(self.last_ns) > PAUSE_NS
    }

    /// Whether it has rows.
    pub(super) fn is_open(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Ends the round; when it shall be shown, its time.
    pub(super) fn close(&mut self) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        self.keys.clear();
        // Samples are never quite as far apart as was asked for.
        let least = self.every_ns - self.every_ns / 10;
        let since = |shown| self.last_ns.saturating_sub(shown);
        if self.shown_ns.is_some_and(|shown| since(shown) < least) {
            return None;
        }
        self.shown_ns = Some(self.last_ns);
        Some(self.last_ns)
    }
}

/// How many a second.
pub(super) fn per_s(count: f64, over_ns: u64) -> Option<f64> {
    (over_ns > 0).then(|| count * 1e9 / over_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_round_ends_with_a_key_that_comes_again_or_a_pause() {
        let mut rounds = Rounds::new(0);
        rounds.add(1, S);
        assert!(!rounds.begins(&2, S + 1_000));
        assert!(rounds.begins(&1, S + 1_000));
        assert!(rounds.begins(&2, 2 * S));
        assert!(rounds.over(2 * S));
        assert_eq!(rounds.close(), Some(S));
        assert_eq!(rounds.close(), None, "nothing came since");
        assert!(!rounds.over(9 * S));
    }

    #[test]
    fn reports_are_as_far_apart_as_was_asked_for() {
        let mut rounds = Rounds::new(2 * S);
        let mut shown = Vec::new();
        for i in 0..7 {
            rounds.add(1, S + i * S);
            shown.extend(rounds.close().map(|t| t / S));
        }
        assert_eq!(shown, [1, 3, 5, 7]);
    }

    #[test]
    fn rates() {
        assert_eq!(per_s(5.0, S / 2), Some(10.0));
        assert_eq!(per_s(5.0, 0), None);
    }
}
