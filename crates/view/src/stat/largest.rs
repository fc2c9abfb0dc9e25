//! The rows of a report: where there are more than it shows, the largest, and how many others there are.

use std::collections::BTreeMap;
use std::io;

use crate::columns::Line;
use crate::screen::Screen;

/// What is left out of a report that would be too long.
pub(super) trait Ranked {
    /// The larger, the longer it is kept.
    fn rank(&self) -> f64;
}

/// At most `MOST` rows by what they are about, while a round lasts at most twice as many.
#[derive(Debug)]
pub(super) struct Largest<K, V, const MOST: usize> {
    rows: BTreeMap<K, V>,
    left_out: LeftOut,
}

impl<K, V, const MOST: usize> Default for Largest<K, V, MOST> {
    fn default() -> Self {
        Largest {
            rows: BTreeMap::new(),
            left_out: LeftOut::default(),
        }
    }
}

impl<K: Ord + Clone, V: Ranked, const MOST: usize> Largest<K, V, MOST> {
    /// The row of a key, made if it is new.
    pub(super) fn row(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.rows.len() >= 2 * MOST && !self.rows.contains_key(&key) {
            self.cut();
        }
        self.rows.entry(key).or_insert_with(make)
    }

    pub(super) fn insert(&mut self, key: K, row: V) {
        if self.rows.len() >= 2 * MOST && !self.rows.contains_key(&key) {
            self.cut();
        }
        self.rows.insert(key, row);
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.rows.get_mut(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn cut(&mut self) {
        let Some(least) = self.rows.len().checked_sub(MOST).filter(|n| *n > 0) else {
            return;
        };
        let ranks = self.rows.iter().map(|(key, row)| (row.rank(), key.clone()));
        let mut ranks: Vec<_> = ranks.collect();
        // Among equals, the first by key are kept.
        ranks.select_nth_unstable_by(least - 1, |a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        for (rank, key) in &ranks[..least] {
            self.rows.remove(key);
            self.left_out.rows += 1;
            self.left_out.zero += u64::from(*rank == 0.0);
        }
    }

    /// The largest of all, in order of their keys, and how many were left out; it is empty then.
    pub(super) fn take(&mut self) -> (BTreeMap<K, V>, LeftOut) {
        self.cut();
        let left_out = std::mem::take(&mut self.left_out);
        (std::mem::take(&mut self.rows), left_out)
    }
}

/// How many rows a report does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    rows: u64,
    /// Of these, those of rank 0.
    zero: u64,
}

impl LeftOut {
    /// This many rows.
    pub(super) fn of(rows: u64) -> LeftOut {
        LeftOut { rows, zero: 0 }
    }

    /// Both.
    pub(super) fn and(self, other: LeftOut) -> LeftOut {
        LeftOut {
            rows: self.rows.saturating_add(other.rows),
            zero: self.zero.saturating_add(other.zero),
        }
    }

    /// Without those of rank 0, which would not be shown anyway.
    pub(super) fn but_zero(self) -> LeftOut {
        LeftOut::of(self.rows - self.zero)
    }

    /// Says so below the lines of this kind.
    pub(super) fn show<L: Line>(self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        match self.rows {
            0 => Ok(()),
            rows => screen.left_out(time_ns, L::KIND, rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Ranked for f64 {
        fn rank(&self) -> f64 {
            *self
        }
    }

    proptest! {
        #[test]
        fn the_largest_are_kept_and_the_others_counted(ranks in prop::collection::vec(0u8..50, 0..100)) {
            let mut largest: Largest<usize, f64, 8> = Largest::default();
            for (key, rank) in ranks.iter().enumerate() {
                largest.insert(key, f64::from(*rank));
            }
            let (kept, left_out) = largest.take();
            prop_assert_eq!(kept.len() as u64 + left_out.rows, ranks.len() as u64);
            let zero = ranks.iter().filter(|r| **r == 0).count() - kept.values().filter(|r| **r == 0.0).count();
            prop_assert_eq!(left_out.but_zero().rows, left_out.rows - zero as u64);
            prop_assert_eq!(kept.len(), ranks.len().min(8));
            let mut sorted = ranks.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let mut kept: Vec<u8> = kept.values().map(|rank| *rank as u8).collect();
            kept.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(&kept[..], &sorted[..kept.len()]);
        }
    }
}
