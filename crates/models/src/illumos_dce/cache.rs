//! The destination cache: buckets with chains, of which only the addresses that return are known.
//!
//! An entry goes to the head of its chain and stays where it is among the others; nothing but a
//! reclaim takes it away. Of an entry that nobody asks for again only the number counts, so that a
//! chain is a number, and each address that returns knows how many entries of its chain are older.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::params::Params;
use crate::draws::binomial;

/// The cache of one stack.
#[derive(Debug)]
pub(super) struct Cache {
    /// Entries of each bucket.
    chains: Vec<u32>,
    entries: u64,
    returning: Vec<Returning>,
}

/// An address that returns.
#[derive(Clone, Copy, Debug)]
struct Returning {
    bucket: u32,
    /// Entries of its chain that are older; `None` when it is not in the cache.
    older: Option<u32>,
}

/// Whom a lookup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// An address that returns, by number.
    Returning(u32),
    /// A new one, of this bucket.
    New(u32),
}

impl Cache {
    /// An empty cache; where the addresses that return will go is decided.
    pub(super) fn new(p: &Params, rng: &mut Pcg64Mcg) -> Cache {
        let returning = (0..p.returning_destinations).map(|_| Returning {
            bucket: any_bucket(p, rng),
            older: None,
        });
        Cache {
            returning: returning.collect(),
            chains: vec![0; p.ip_dce_hash_size as usize],
            entries: 0,
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn longest(&self) -> u32 {
        self.chains.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn chain(&self, bucket: u32) -> u32 {
        self.chains[bucket as usize]
    }

    pub(super) fn bucket(&self, whom: Whom) -> u32 {
        match whom {
            Whom::New(bucket) => bucket,
            Whom::Returning(nth) => self.returning[nth as usize].bucket,
        }
    }

    /// Entries that a lookup passes: to the one that it finds, else the whole chain.
    pub(super) fn passes(&self, whom: Whom) -> u32 {
        let chain = self.chain(self.bucket(whom));
        let older = match whom {
            Whom::New(_) => None,
            Whom::Returning(nth) => self.returning[nth as usize].older,
        };
        chain - older.unwrap_or(0)
    }

    /// The same on average over all lookups.
    pub(super) fn mean_passes(&self, p: &Params) -> f64 {
        let chain = self.entries as f64 / self.chains.len() as f64;
        let all = 0..self.returning.len() as u32;
        let sum: f64 = all
            .map(|nth| f64::from(self.passes(Whom::Returning(nth))))
            .sum();
        let found = match self.returning.len() {
            0 => chain,
            n => sum / n as f64,
        };
        p.new_share() * chain + (1.0 - p.new_share()) * found
    }

    /// After a lookup: who was not there is now, at the head. Whether it was not.
    pub(super) fn add(&mut self, whom: Whom) -> bool {
        let bucket = self.bucket(whom) as usize;
        if let Whom::Returning(nth) = whom {
            let returning = &mut self.returning[nth as usize];
            if returning.older.is_some() {
                return false;
            }
            returning.older = Some(self.chains[bucket]);
        }
        self.grow(bucket as u32, 1);
        true
    }

    /// So many new addresses come to a bucket.
    pub(super) fn grow(&mut self, bucket: u32, by: u32) {
        self.chains[bucket as usize] += by;
        self.entries += u64::from(by);
    }

    /// The addresses that return and are not there, each by number.
    pub(super) fn missing(&self) -> Vec<u32> {
        let all = self.returning.iter().zip(0..);
        all.filter(|(r, _)| r.older.is_none())
            .map(|(_, nth)| nth)
            .collect()
    }

    /// The addresses that return, by bucket.
    pub(super) fn by_bucket(&self) -> Vec<(u32, u32)> {
        let mut all: Vec<_> = self.returning.iter().map(|r| r.bucket).zip(0..).collect();
        all.sort_unstable();
        all
    }

    /// Deletes a share of all entries, each with the same probability, and of a bucket that is still
    /// too full the oldest. How many.
    pub(super) fn reclaim(&mut self, p: &Params, rng: &mut Pcg64Mcg) -> u64 {
        let (before, stays) = (self.entries, p.stays());
        let mut known: Vec<(u32, u32, usize)> = Vec::with_capacity(self.returning.len());
        for (nth, returning) in self.returning.iter().enumerate() {
            known.extend(returning.older.map(|older| (returning.bucket, older, nth)));
        }
        known.sort_unstable();
        let mut known = known.into_iter().peekable();
        let mut here = Vec::new();
        self.entries = 0;
        for (bucket, chain) in self.chains.iter_mut().enumerate() {
            // From the oldest on: those between two that are known, then one that is.
            let (mut seen, mut kept) = (0, 0);
            here.clear();
            while let Some((_, older, nth)) = known.next_if(|(b, ..)| *b as usize == bucket) {
                kept += binomial(rng, u64::from(older - seen), stays) as u32;
                seen = older + 1;
                let stays = rng.random::<f64>() < stays;
                self.returning[nth].older = stays.then_some(kept);
                kept += u32::from(stays);
                here.push(nth);
            }
            kept += binomial(rng, u64::from(*chain - seen), stays) as u32;
            let most = p.most_kept().unwrap_or(u32::MAX);
            let cut = kept.saturating_sub(most);
            for nth in &here {
                let older = &mut self.returning[*nth].older;
                *older = older.and_then(|older| older.checked_sub(cut));
            }
            *chain = kept - cut;
            self.entries += u64::from(*chain);
        }
        before - self.entries
    }
}

/// Addresses spread evenly: the kernel's hash is the exclusive or of their bytes.
pub(super) fn any_bucket(p: &Params, rng: &mut Pcg64Mcg) -> u32 {
    rng.random::<u32>() & (p.ip_dce_hash_size - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;
    use crate::testing::Set;

    /// Every address that returns is at a place of its own in its chain.
    fn sound(cache: &Cache) -> bool {
        let mut places: Vec<_> = cache
            .returning
            .iter()
            .filter_map(|r| r.older.map(|older| (r.bucket, older)))
            .collect();
        let within = places.iter().all(|(b, older)| *older < cache.chain(*b));
        places.sort_unstable();
        let n = places.len();
        places.dedup();
        let sum: u64 = cache.chains.iter().map(|c| u64::from(*c)).sum();
        within && places.len() == n && sum == cache.entries
    }

    proptest! {
        #[test]
        fn entries_are_conserved_and_keep_their_order(
            does in prop::collection::vec((0u32..12, 0u32..30), 1..300),
            threshold in 1u32..6,
        ) {
            let threshold = format!("_dce_reclaim_threshold={threshold}");
            let set = ["ip_dce_hash_size=4", "returning_destinations=12",
                "ip_dce_reclaim_interval=60", &threshold];
            let p = Params::with(&set);
            let mut rng = Pcg64Mcg::seed_from_u64(7);
            let mut cache = Cache::new(&p, &mut rng);
            for (nth, what) in does {
                let before = cache.entries();
                match what {
                    0 => {
                        let deleted = cache.reclaim(&p, &mut rng);
                        prop_assert_eq!(cache.entries() + deleted, before);
                        prop_assert!(Some(cache.longest()) <= p.most_kept());
                    }
                    1..15 => {
                        let missing = cache.missing().contains(&nth);
                        prop_assert_eq!(cache.add(Whom::Returning(nth)), missing);
                        prop_assert!(cache.passes(Whom::Returning(nth)) >= 1);
                    }
                    _ => prop_assert!(cache.add(Whom::New(nth % 4))),
                }
                prop_assert!(sound(&cache));
            }
        }
    }

    #[test]
    fn the_oldest_is_found_last_and_the_newest_at_once() {
        let p = Params::with(&["ip_dce_hash_size=1", "returning_destinations=2"]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut cache = Cache::new(&p, &mut rng);
        assert_eq!(cache.passes(Whom::New(0)), 0);
        cache.add(Whom::Returning(0));
        cache.grow(0, 98);
        cache.add(Whom::Returning(1));
        let passes = |whom| cache.passes(whom);
        assert_eq!(passes(Whom::Returning(0)), 100);
        assert_eq!(passes(Whom::Returning(1)), 1);
        assert_eq!(passes(Whom::New(0)), 100);
    }

    #[test]
    fn one_reclaim_takes_a_third() {
        let p = Params::with(&["returning_destinations=300"]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut cache = Cache::new(&p, &mut rng);
        for nth in 0..300 {
            cache.add(Whom::Returning(nth));
        }
        (0..256).for_each(|bucket| cache.grow(bucket, 10_000));
        cache.reclaim(&p, &mut rng);
        let left = cache.entries() as f64 / 2_560_300.0;
        assert!((left - 2.0 / 3.0).abs() < 0.002, "{left}");
        assert!((70..130).contains(&cache.missing().len()));
    }
}
