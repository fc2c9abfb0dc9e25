//! When a rate changed: the moment that best splits a series into two levels.

use crate::limits;

/// A moment at which a series went from one level to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// Index of the first value of the new level.
    pub(crate) at: usize,
    /// Mean before it.
    pub(crate) before: f64,
    /// Mean from it on.
    pub(crate) after: f64,
}

/// The change of level of a series (CUSUM with two means: the split where the sum of deviations
/// from the mean is farthest from zero); `None` when it has one level, or drifts.
pub(crate) fn change(series: &[f64]) -> Option<Change> {
    let n = series.len();
    if n < 2 * limits::A_FEW.as_usize() {
        return None;
    }
    let mean = mean(series);
    let mut sum = 0.0;
    let sums = series[..n - limits::A_FEW.as_usize()]
        .iter()
        .enumerate()
        .map(|(i, v)| {
            sum += v - mean;
            (i + 1, f64::abs(sum))
        });
    let (at, _) = sums
        .filter(|(i, _)| *i >= limits::A_FEW.as_usize())
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (early, late) = series.split_at(at);
    let (before, after) = (self::mean(early), self::mean(late));
    let (low, high) = (before.min(after), before.max(after));
    if high <= low * limits::TWICE.times() {
        return None;
    }
    // Rates differ by factors; a rate of zero has no middle but half of half.
    let middle = (low * high)
        .sqrt()
        .max(high * limits::LEVELS_MIDDLE.share());
    let apart = |level: &[f64], mean: f64| {
        let own = level.iter().filter(|v| (**v > middle) == (mean > middle));
        limits::NEARLY_ALL.reached(own.count(), level.len())
    };
    let last = self::mean(&early[early.len() - limits::A_FEW.as_usize()..]);
    let next = self::mean(&late[..limits::A_FEW.as_usize()]);
    let at_once = (last - next).abs() >= limits::MOST.share() * (high - low);
    let clear = apart(early, before) && apart(late, after) && at_once;
    clear.then_some(Change { at, before, after })
}

/// Counts per bin: the rate of events over time.
pub(crate) fn per_bin(times: impl Iterator<Item = u64>, from: u64, to: u64, bin: u64) -> Vec<f64> {
    // Bins beyond are of a recording that is made up: a day of seconds.
    const MAX_BINS: u64 = 86_400;
    let bins = (to.saturating_sub(from) / bin.max(1)).min(MAX_BINS) as usize;
    let mut counts = vec![0.0; bins];
    for time in times {
        let at = time.saturating_sub(from) / bin.max(1);
        if time >= from
            && let Some(count) = counts.get_mut(at as usize)
        {
            *count += 1.0;
        }
    }
    counts
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_breaks_down_is_found_where_it_did() {
        let rates = [
            4_939.0, 5_849.0, 5_100.0, 1_341.0, 1_006.0, 872.0, 932.0, 879.0,
        ];
        let found = change(&rates).unwrap();
        assert_eq!(found.at, 3);
        assert!((found.before - 5_296.0).abs() < 1.0 && (found.after - 1_006.0).abs() < 1.0);
        let up: Vec<f64> = rates.iter().rev().copied().collect();
        assert!(change(&up).is_some_and(|c| c.at == 5 && c.after > c.before));
    }

    #[test]
    fn a_steady_rate_a_drift_and_a_hiccup_are_no_change() {
        let steady = [100.0, 104.0, 98.0, 101.0, 99.0, 103.0, 97.0, 102.0];
        assert_eq!(change(&steady), None);
        let drift: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i) * 10.0).collect();
        assert_eq!(change(&drift), None);
        let mut hiccup = [100.0; 12];
        hiccup[6] = 0.0;
        assert_eq!(change(&hiccup), None);
        assert_eq!(change(&[]), None);
        assert_eq!(change(&[0.0; 10]), None);
    }

    #[test]
    fn a_rate_that_comes_in_bursts_has_a_level() {
        let mut rates = vec![1_000.0, 800.0, 2_300.0, 4_000.0, 3_800.0, 3_800.0];
        rates.extend([
            130.0, 50.0, 0.0, 0.0, 130.0, 15.0, 160.0, 0.0, 0.0, 0.0, 145.0,
        ]);
        assert_eq!(change(&rates).map(|c| c.at), Some(6));
    }

    #[test]
    fn times_become_counts_per_bin() {
        let times = [5, 10, 11, 19, 20, 99].into_iter();
        assert_eq!(per_bin(times, 10, 30, 10), [3.0, 1.0]);
        assert_eq!(per_bin([1].into_iter(), 10, 5, 0), [0.0; 0]);
    }
}
