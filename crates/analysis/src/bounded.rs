//! Maps that hold no more keys than they may, and count what found no room.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Deref;

use ahash::AHashMap;

/// A map of at most `MOST` keys. Whatever a recording holds, its memory is bounded; what it turned away
/// is counted, for whoever reads the result to be told.
#[derive(Clone, Debug, Default)]
pub struct Bounded<M, const MOST: usize> {
    map: M,
    folded: u64,
}

/// One of a hash map.
pub type BoundedMap<K, V, const MOST: usize> = Bounded<AHashMap<K, V>, MOST>;
/// One of an ordered map.
pub type BoundedTree<K, V, const MOST: usize> = Bounded<BTreeMap<K, V>, MOST>;

impl<M, const MOST: usize> Bounded<M, MOST> {
    /// How often something of a key that it does not hold was turned away.
    pub fn folded(&self) -> u64 {
        self.folded
    }
}

impl<M, const MOST: usize> Deref for Bounded<M, MOST> {
    type Target = M;
    fn deref(&self) -> &M {
        &self.map
    }
}

impl<K: Hash + Eq, V, const MOST: usize> Bounded<AHashMap<K, V>, MOST> {
    /// The value of a key, made if it is new; `None`, and counted, when there is no room for it.
    pub fn slot(&mut self, key: K, make: impl FnOnce() -> V) -> Option<&mut V> {
        if self.map.len() >= MOST && !self.map.contains_key(&key) {
            self.folded += 1;
            return None;
        }
        Some(self.map.entry(key).or_insert_with(make))
    }
}

impl<K: Ord, V, const MOST: usize> Bounded<BTreeMap<K, V>, MOST> {
    /// The value of a key, made if it is new; `None`, and counted, when there is no room for it.
    pub fn slot(&mut self, key: K, make: impl FnOnce() -> V) -> Option<&mut V> {
        if self.map.len() >= MOST && !self.map.contains_key(&key) {
            self.folded += 1;
            return None;
        }
        Some(self.map.entry(key).or_insert_with(make))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_beyond_the_bound_are_counted_and_known_ones_still_found() {
        let mut map: BoundedTree<u32, u32, 2> = Bounded::default();
        for key in [1, 2, 3, 1, 4] {
            if let Some(n) = map.slot(key, || 0) {
                *n += 1;
            }
        }
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&1, &2), (&2, &1)]);
        assert_eq!(map.folded(), 2);
    }
}
