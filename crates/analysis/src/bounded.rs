//! Bounded maps: at the bound they fold what tells least, and count what they folded.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Deref;

use ahash::AHashMap;

/// A map of at most `MOST` keys, so that memory is bounded whatever a recording holds. What found no room is counted,
/// and the result says so.
#[derive(Clone, Debug, Default)]
pub struct Bounded<M, const MOST: usize> {
    map: M,
    folded: u64,
}

/// One of a hash map.
pub type BoundedMap<K, V, const MOST: usize> = Bounded<AHashMap<K, V>, MOST>;
/// One of an ordered map.
pub type BoundedTree<K, V, const MOST: usize> = Bounded<BTreeMap<K, V>, MOST>;

/// What a map may forget in favour of something that tells more.
pub trait Interest {
    /// The more, the longer it is kept.
    fn interest(&self) -> u64;
    /// How many rows, or whatever its map counts, went into it.
    fn counted(&self) -> u64;
}

impl<T: Interest> Interest for Box<T> {
    fn interest(&self) -> u64 {
        T::interest(self)
    }
    fn counted(&self) -> u64 {
        T::counted(self)
    }
}

/// A plain count: the higher, the more it matters.
impl Interest for u64 {
    fn interest(&self) -> u64 {
        *self
    }
    fn counted(&self) -> u64 {
        *self
    }
}

impl<M, const MOST: usize> Bounded<M, MOST> {
    /// How much came for keys that it does not hold.
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

/// What both kinds of map can do.
pub trait Keyed {
    /// What it holds them by.
    type Key: Ord + Clone;
    /// What it holds.
    type Value;
    /// How many it holds.
    fn held(&self) -> usize;
    /// Whether it holds this one.
    fn holds(&self, key: &Self::Key) -> bool;
    /// The value of a key, made if it is new.
    fn entry_of(&mut self, key: Self::Key, make: impl FnOnce() -> Self::Value) -> &mut Self::Value;
    /// All of them, in any order.
    fn each(&self) -> impl Iterator<Item = (&Self::Key, &Self::Value)>;
    /// Keeps these only.
    fn keep(&mut self, wanted: impl FnMut(&Self::Key, &Self::Value) -> bool);
}

impl<K: Hash + Ord + Clone, V> Keyed for AHashMap<K, V> {
    type Key = K;
    type Value = V;
    fn held(&self) -> usize {
        self.len()
    }
    fn holds(&self, key: &K) -> bool {
        self.contains_key(key)
    }
    fn entry_of(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.entry(key).or_insert_with(make)
    }
    fn each(&self) -> impl Iterator<Item = (&K, &V)> {
        self.iter()
    }
    fn keep(&mut self, mut wanted: impl FnMut(&K, &V) -> bool) {
        self.retain(|k, v| wanted(k, v));
    }
}

impl<K: Ord + Clone, V> Keyed for BTreeMap<K, V> {
    type Key = K;
    type Value = V;
    fn held(&self) -> usize {
        self.len()
    }
    fn holds(&self, key: &K) -> bool {
        self.contains_key(key)
    }
    fn entry_of(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.entry(key).or_insert_with(make)
    }
    fn each(&self) -> impl Iterator<Item = (&K, &V)> {
        self.iter()
    }
    fn keep(&mut self, mut wanted: impl FnMut(&K, &V) -> bool) {
        self.retain(|k, v| wanted(k, v));
    }
}

impl<M: Keyed, const MOST: usize> Bounded<M, MOST> {
    /// The value of a key, made if it is new; `None`, and counted, when there is no room for it. For entries that all
    /// matter equally; see [`Bounded::slot`] for others.
    pub fn first_come(
        &mut self,
        key: M::Key,
        make: impl FnOnce() -> M::Value,
    ) -> Option<&mut M::Value> {
        if self.map.held() >= MOST && !self.map.holds(&key) {
            self.folded += 1;
            return None;
        }
        Some(self.map.entry_of(key, make))
    }

    /// The value of a key, made if it is new. Where there is no room for it, the half that tells least
    /// is folded first.
    pub fn slot(&mut self, key: M::Key, make: impl FnOnce() -> M::Value) -> &mut M::Value
    where
        M::Value: Interest,
    {
        if self.map.held() >= MOST && !self.map.holds(&key) {
            self.fold();
        }
        self.map.entry_of(key, make)
    }

    /// The same under other keys; an entry that gets none is accounted for elsewhere. No two may get the same.
    pub(crate) fn rekeyed(self, key: impl Fn(M::Key) -> Option<M::Key>) -> Self
    where
        M: IntoIterator<Item = (M::Key, M::Value)> + FromIterator<(M::Key, M::Value)>,
    {
        let all = self.map.into_iter();
        Bounded {
            map: all.filter_map(|(k, v)| Some((key(k)?, v))).collect(),
            folded: self.folded,
        }
    }

    /// Half at once, so that each new key pays for a fixed number of others that are looked at.
    fn fold(&mut self)
    where
        M::Value: Interest,
    {
        let ranks = self.map.each().map(|(k, v)| (v.interest(), k.clone()));
        let mut ranks: Vec<_> = ranks.collect();
        let half = ranks.len() / 2;
        // Ties go by key: what is kept must not depend on the order of a hash map.
        let (_, most_folded, _) = ranks.select_nth_unstable(half);
        let bound = most_folded.clone();
        let mut folded = 0u64;
        self.map.keep(|key, value| {
            let goes = (value.interest(), key) <= (bound.0, &bound.1);
            if goes {
                folded = value.counted().saturating_add(folded);
            }
            !goes
        });
        self.folded = self.folded.saturating_add(folded);
    }
}

/// The same for a list, which keeps its order: folds the half that tells least, the earlier first among equals;
/// returns the sum of what that half counted.
pub fn fold_list<T: Interest>(all: &mut Vec<T>) -> u64 {
    let ranks = all.iter().map(Interest::interest).zip(0usize..);
    let mut ranks: Vec<_> = ranks.collect();
    let half = ranks.len() / 2;
    let (_, most_folded, _) = ranks.select_nth_unstable(half);
    let (bound, mut index, mut folded) = (*most_folded, 0, 0u64);
    all.retain(|one| {
        let goes = (one.interest(), index) <= bound;
        index += 1;
        if goes {
            folded = one.counted().saturating_add(folded);
        }
        !goes
    });
    folded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Seen {
        rows: u64,
        worst: u64,
    }

    impl Interest for Seen {
        fn interest(&self) -> u64 {
            self.worst
        }
        fn counted(&self) -> u64 {
            self.rows
        }
    }

    fn tell<M, const MOST: usize>(map: &mut Bounded<M, MOST>, rows: &[(u32, u64)])
    where
        M: Keyed<Key = u32, Value = Seen>,
    {
        for (key, worst) in rows {
            let seen = map.slot(*key, Seen::default);
            seen.rows += 1;
            seen.worst = seen.worst.max(*worst);
        }
    }

    #[test]
    fn what_is_alike_is_kept_as_it_comes() {
        let mut map: BoundedTree<u32, u32, 2> = Bounded::default();
        for key in [1, 2, 3, 1, 4] {
            if let Some(n) = map.first_come(key, || 0) {
                *n += 1;
            }
        }
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&1, &2), (&2, &1)]);
        assert_eq!(map.folded(), 2);
    }

    #[test]
    fn the_trouble_that_comes_last_is_kept_whatever_came_before_it() {
        let mut rows: Vec<_> = (0..1_000).map(|key| (key, 0)).collect();
        rows.insert(1, (5_000, 7));
        rows.push((5_001, 9));
        rows.extend((1_000..2_000).map(|key| (key, 0)));
        let mut map: BoundedMap<u32, Seen, 16> = Bounded::default();
        tell(&mut map, &rows);
        assert!(map.contains_key(&5_000) && map.contains_key(&5_001));
    }

    proptest! {
        #[test]
        fn what_is_kept_and_what_is_folded_is_all_that_was_seen(
            rows in prop::collection::vec((0u32..100, 0u64..5), 0..500)
        ) {
            let mut tree: BoundedTree<u32, Seen, 8> = Bounded::default();
            let mut map: BoundedMap<u32, Seen, 8> = Bounded::default();
            tell(&mut tree, &rows);
            tell(&mut map, &rows);
            let kept: u64 = tree.values().map(|s| s.rows).sum();
            prop_assert_eq!(kept + tree.folded(), rows.len() as u64);
            prop_assert!(tree.len() <= 8);
            let sorted: BTreeMap<_, _> = map.iter().map(|(k, v)| (*k, v.clone())).collect();
            prop_assert_eq!(&sorted, &*tree);
            prop_assert_eq!(map.folded(), tree.folded());
            let mut list: Vec<Seen> = rows.iter().map(|(_, worst)| Seen { rows: 1, worst: *worst }).collect();
            let most = list.iter().map(|s| s.worst).max();
            list.push(Seen { rows: 1, worst: 9 });
            prop_assert_eq!(fold_list(&mut list) as usize + list.len(), rows.len() + 1);
            prop_assert!(rows.len() < 2 || list.iter().any(|s| Some(s.worst) >= most));
        }
    }
}
