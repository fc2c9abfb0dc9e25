//! How long the exchanges of a service took: counts by steps, and percentiles of them.

use recording::tables::RequestTime;
use serde::{Deserialize, Serialize};

use crate::bounded::BoundedTree;
use crate::words;

/// Steps of a histogram: more than any recorder writes, and few enough for a recording that was made to hurt.
const MAX_STEPS: usize = 1024;

/// How long something took, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Half took no longer.
    pub p50_s: f64,
    /// 90 in 100 took no longer.
    pub p90_s: f64,
    /// 99 in 100 took no longer.
    pub p99_s: f64,
}

/// How many took how long, by steps.
#[derive(Clone, Debug, Default)]
pub struct Histogram(BoundedTree<(u64, u64), u64, MAX_STEPS>);

impl Histogram {
    /// Counts those of a row.
    pub fn add(&mut self, row: &RequestTime) {
        let step = (row.at_least_ns, row.below_ns.unwrap_or(row.at_least_ns));
        self.count(step, row.count);
    }

    pub(super) fn absorb(&mut self, other: &Histogram) {
        for (step, count) in other.0.iter() {
            self.count(*step, *count);
        }
    }

    fn count(&mut self, step: (u64, u64), count: u64) {
        if let Some(n) = self.0.first_come(step, || 0) {
            *n = n.saturating_add(count);
        }
    }

    /// How many took this long or longer, and how long all of them together, ns.
    pub(super) fn beyond(&self, ns: u64) -> (u64, u64) {
        let beyond = self.0.iter().filter(|((from, _), _)| *from >= ns);
        beyond.fold((0, 0), |(count, sum): (u64, u64), ((from, to), n)| {
            let middle = from + to.saturating_sub(*from) / 2;
            (
                count.saturating_add(*n),
                sum.saturating_add(middle.saturating_mul(*n)),
            )
        })
    }

    /// How many took this long or longer, those of the same step included.
    pub(super) fn as_long(&self, ns: u64) -> u64 {
        let as_long = self.0.iter().filter(|((_, to), _)| *to > ns);
        as_long.fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// None is above the longest, where that is known. `None` when nothing was timed.
    pub fn percentiles(&self, longest_ns: Option<u64>) -> Option<Percentiles> {
        let longest_s = longest_ns.map_or(f64::INFINITY, |ns| words::rounded(ns as f64 / 1e9));
        let quantile = |share| Some(self.quantile(share)?.min(longest_s));
        Some(Percentiles {
            p50_s: quantile(0.5)?,
            p90_s: quantile(0.9)?,
            p99_s: quantile(0.99)?,
        })
    }

    /// What a share of all is at or below, s: within a step as if they were spread evenly over it.
    fn quantile(&self, share: f64) -> Option<f64> {
        let all: f64 = self.0.values().map(|n| *n as f64).sum();
        let (wanted, mut below) = (share * all, 0.0);
        for ((from, to), n) in self.0.iter() {
            let n = *n as f64;
            if below + n >= wanted && n > 0.0 {
                let (from, to) = (*from as f64, *to as f64);
                let ns = from + (to - from).max(0.0) * ((wanted - below) / n).clamp(0.0, 1.0);
                return Some(words::rounded(ns / 1e9));
            }
            below += n;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timed(steps: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for (ns, count) in steps {
            histogram.add(&RequestTime {
                at_least_ns: *ns,
                below_ns: Some(ns * 2),
                count: *count,
                ..RequestTime::default()
            });
        }
        histogram
    }

    #[test]
    fn percentiles_are_where_so_many_are_at_or_below() {
        assert_eq!(Histogram::default().percentiles(None), None);
        let p = timed(&[(1_000_000, 98), (800_000_000, 2)]);
        assert_eq!(p.percentiles(Some(900_000_000)).unwrap().p99_s, 0.9);
        let p = p.percentiles(None).unwrap();
        assert!((0.001..0.002).contains(&p.p50_s), "{p:?}");
        assert!((0.8..1.6).contains(&p.p99_s), "{p:?}");
    }

    #[test]
    fn several_together_have_no_more_steps_than_one() {
        let mut all = timed(&[(1, 7)]);
        for nth in 0..5u64 {
            let steps = (0..800).map(|i| (1 + nth * 800 + i, 1));
            all.absorb(&timed(&steps.collect::<Vec<_>>()));
        }
        assert_eq!(all.0.len(), MAX_STEPS);
        assert_eq!(all.0.get(&(1, 2)), Some(&8));
    }

    #[test]
    fn what_took_longer_is_counted_with_its_time() {
        let all = timed(&[(1_000_000, 98), (800_000_000, 2)]);
        assert_eq!(all.beyond(800_000_000), (2, 2 * 1_200_000_000));
        assert_eq!(all.beyond(800_000_001), (0, 0));
        assert_eq!(all.beyond(0).0, 100);
    }

    proptest! {
        #[test]
        fn percentiles_rise_and_stay_within_what_was_timed(
            steps in prop::collection::vec((10..40u32, 1..1_000u64), 1..40),
        ) {
            let steps: Vec<_> = steps.iter().map(|(power, n)| (1 << power, *n)).collect();
            let p = timed(&steps).percentiles(None).unwrap();
            let least = steps.iter().map(|s| s.0).min().unwrap() as f64 / 1e9;
            let most = steps.iter().map(|s| s.0 * 2).max().unwrap() as f64 / 1e9;
            prop_assert!(p.p50_s <= p.p90_s && p.p90_s <= p.p99_s);
            prop_assert!(p.p50_s >= least * 0.99 && p.p99_s <= most * 1.01);
        }
    }
}
