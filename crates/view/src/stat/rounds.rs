//! Views of what is sampled in rounds: rows that were read together. What comes again, or a pause, begins a new
//! round.

use std::hash::Hash;
use std::io;

use ahash::AHashSet;
use recording::{Filter, Row};

use crate::screen::Screen;
use crate::view::View;

/// After a pause of this length a round is over. Between two namespaces there may be a pause in a
/// round, too: a snapshot of 100,000 sockets takes 150 ms.
const PAUSE_NS: u64 = 900_000_000;

/// What a view does with rows of rounds.
pub(super) trait Sampler {
    /// What a row is about: when it comes again, a new round has begun.
    type Key: Hash + Eq;

    /// The tables that it reads.
    fn tables(&self) -> Vec<&'static str>;
    /// Learns from a row; returns what the row is about, when it is asked for and part of a round.
    fn key(&mut self, row: &Row, filter: &Filter) -> Option<Self::Key>;
    /// Whether a row is of the sample that came before it, whatever it is about.
    fn continues(&self, _row: &Row) -> bool {
        false
    }
    /// Adds a row that has a key to the round.
    fn add(&mut self, row: Row, screen: &mut Screen) -> io::Result<()>;
    /// The round is over: shows it as of this time, or, without one, leaves it out.
    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()>;
    /// No round will follow.
    fn end(&mut self, _screen: &mut Screen) -> io::Result<()> {
        Ok(())
    }
}

/// A view of rounds.
pub(super) struct InRounds<S: Sampler> {
    rounds: Rounds<S::Key>,
    sampler: S,
}

impl<S: Sampler + 'static> InRounds<S> {
    /// A view of this sampler; reports are at least `every_ns` apart.
    pub(super) fn boxed(sampler: S, every_ns: u64) -> Box<dyn View> {
        let rounds = Rounds::new(every_ns);
        Box::new(InRounds { rounds, sampler })
    }
}

impl<S: Sampler> InRounds<S> {
    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        if !self.rounds.is_open() {
            return Ok(());
        }
        let shown_ns = self.rounds.close();
        self.sampler.close(shown_ns, screen)
    }
}

impl<S: Sampler> View for InRounds<S> {
    fn tables(&self) -> Vec<&'static str> {
        self.sampler.tables()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        let Some(key) = self.sampler.key(&row, &screen.how.filter) else {
            return Ok(());
        };
        let time_ns = row.time_ns();
        if self.rounds.begins(&key, time_ns) && !self.sampler.continues(&row) {
            self.close(screen)?;
        }
        self.rounds.add(key, time_ns);
        self.sampler.add(row, screen)
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        if self.rounds.over(time_ns) {
            self.close(screen)
        } else {
            Ok(())
        }
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.close(screen)?;
        self.sampler.end(screen)
    }
}

/// Groups rows into rounds.
#[derive(Debug)]
struct Rounds<K> {
    keys: AHashSet<K>,
    last_ns: u64,
    /// Least time between two reports.
    every_ns: u64,
    shown_ns: Option<u64>,
}

impl<K: Hash + Eq> Rounds<K> {
    fn new(every_ns: u64) -> Rounds<K> {
        Rounds {
            keys: AHashSet::new(),
            last_ns: 0,
            every_ns,
            shown_ns: None,
        }
    }

    /// Whether a row begins a new round: then [`close`](Rounds::close) the old one first.
    fn begins(&self, key: &K, time_ns: u64) -> bool {
        self.keys.contains(key) || self.over(time_ns)
    }

    /// Adds a row to the round.
    fn add(&mut self, key: K, time_ns: u64) {
        self.keys.insert(key);
        self.last_ns = self.last_ns.max(time_ns);
    }

    /// Whether the round is over.
    fn over(&self, now_ns: u64) -> bool {
        self.is_open() && now_ns.saturating_sub(self.last_ns) > PAUSE_NS
    }

    /// Whether it has rows.
    fn is_open(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Ends the round; returns its time when it is to be shown.
    fn close(&mut self) -> Option<u64> {
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
        assert!(!rounds.is_open(), "nothing came since");
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
