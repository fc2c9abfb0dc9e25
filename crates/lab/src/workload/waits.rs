//! What a client waited for, as it saw it: how long, how often, how long nothing succeeded.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Ranges per doubling of the time.
const PER_OCTAVE: f64 = 8.0;
/// A failure costs its caller at least this: what tries again, tries again after it.
const LEAST_OUTAGE: Duration = Duration::from_secs(1);

/// Waits by how long they took: per range of a logarithmic scale how many, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The longest, ms.
    pub longest_ms: f64,
    /// By range: how many, and how long they took in all, ms.
    pub ranges: BTreeMap<u16, (u64, f64)>,
}

impl Waits {
    /// Counts one.
    pub fn add(&mut self, took_ms: f64) {
        let took_ms = took_ms.max(0.0);
        let range = ((took_ms * 1000.0 + 1.0).log2() * PER_OCTAVE) as u16;
        let (count, sum) = self.ranges.entry(range).or_default();
        *count += 1;
        *sum += took_ms;
        self.longest_ms = self.longest_ms.max(took_ms);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.ranges.values().map(|(count, _)| count).sum()
    }

    /// How long they took in all, ms.
    pub fn sum_ms(&self) -> f64 {
        self.ranges.values().map(|(_, sum)| sum).sum()
    }

    /// Half took at most about this, ms; `None` of none.
    pub fn median_ms(&self) -> Option<f64> {
        let half = self.count().div_ceil(2);
        let mut seen = 0;
        self.ranges.values().find_map(|(count, sum)| {
            seen += count;
            (seen >= half && *count > 0).then(|| sum / *count as f64)
        })
    }

    /// How many took longer than `limit_ms`, and how much longer in all, ms.
    pub fn beyond(&self, limit_ms: f64) -> (u64, f64) {
        let longer = self.ranges.values().filter_map(|(count, sum)| {
            let beyond = sum - *count as f64 * limit_ms;
            (beyond > 0.0).then_some((*count, beyond))
        });
        longer.fold((0, 0.0), |(n, ms), (count, beyond)| {
            (n + count, ms + beyond)
        })
    }
}

/// All that a client waited for. What was not over at its end counts as long as it had lasted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// For connections that stood in the end, or for which it still waits.
    pub connects: Waits,
    /// For answers that came, or for which it still waits.
    pub requests: Waits,
    /// From each connect that failed until the next one that stood, and from each request that failed until
    /// the next answer: at least a second each, overlaps counted once, s.
    pub outage_s: f64,
    /// From the first failure to the last, s.
    pub failing_s: f64,
    /// How long its endless transfers ran, all together, s.
    pub streaming_s: f64,
}

/// Stretches in which a client had no success after a failure.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// Those that are over.
    over: Vec<(Instant, Instant)>,
    /// Since when, and when the last attempt that failed began.
    failing: Option<(Instant, Instant)>,
    first_and_last: Option<(Instant, Instant)>,
}

impl Outages {
    /// An attempt that began then has failed.
    pub(super) fn failed(&mut self, began: Instant, now: Instant) {
        let since = self.failing.map_or(began, |(since, _)| since.min(began));
        self.failing = Some((since, began));
        let first = self.first_and_last.map_or(now, |(first, _)| first);
        self.first_and_last = Some((first, now));
    }

    /// An attempt has succeeded.
    pub(super) fn succeeded(&mut self, now: Instant) {
        let Some((since, last)) = self.failing.take() else {
            return;
        };
        let end = now.max(last + LEAST_OUTAGE);
        // So many as there are seconds at most: those that overlap are one.
        match self.over.last_mut() {
            Some((from, until)) if *until >= since => {
                (*from, *until) = (since.min(*from), end.max(*until));
            }
            _ => self.over.push((since, end)),
        }
    }

    /// How long those of both were, overlaps counted once, and how long it was from the first failure to the
    /// last, s.
    pub(super) fn sums(mut self, mut other: Outages, end: Instant) -> (f64, f64) {
        self.succeeded(end);
        other.succeeded(end);
        let mut over = [self.over, other.over].concat();
        over.sort_unstable();
        let mut outage = Duration::ZERO;
        let mut counted = None;
        for (from, to) in over {
            let from = counted.map_or(from, |until| from.max(until));
            outage += to.saturating_duration_since(from);
            counted = Some(counted.map_or(to, |until: Instant| until.max(to)));
        }
        let of_both = self.first_and_last.into_iter().chain(other.first_and_last);
        let failing = of_both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let failing = failing.map_or(Duration::ZERO, |(first, last)| last - first);
        (outage.as_secs_f64(), failing.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_a_limit_is_counted_and_summed() {
        let mut waits = Waits::default();
        for ms in [1.0, 1.0, 1.0, 10.0, 1000.0] {
            waits.add(ms);
        }
        assert_eq!((waits.count(), waits.sum_ms()), (5, 1013.0));
        assert_eq!(waits.median_ms(), Some(1.0));
        assert_eq!(waits.beyond(2.0), (2, 1006.0));
        assert_eq!(waits.beyond(2000.0), (0, 0.0));
        assert_eq!(waits.longest_ms, 1000.0);
        assert_eq!(Waits::default().median_ms(), None);
    }

    #[test]
    fn an_outage_lasts_until_the_next_success_and_a_second_at_least() {
        let start = Instant::now();
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut outages = Outages::default();
        outages.failed(at(1.0), at(1.1));
        outages.failed(at(2.0), at(2.1));
        outages.succeeded(at(4.0));
        // Begins while the least that the one before costs is not over: they are one.
        outages.failed(at(10.0), at(10.0));
        outages.succeeded(at(10.2));
        outages.failed(at(10.5), at(10.5));
        outages.succeeded(at(10.6));
        let mut last = Outages::default();
        last.failed(at(11.0), at(12.0));
        // Of the three seconds of the other kind half a one has been counted.
        let (outage, failing) = outages.sums(last, at(14.0));
        assert!((outage - (3.0 + 1.5 + 2.5)).abs() < 1e-6, "{outage}");
        assert!((failing - 10.9).abs() < 1e-6, "{failing}");
        let none = Outages::default().sums(Outages::default(), start);
        assert_eq!(none, (0.0, 0.0));
    }
}
