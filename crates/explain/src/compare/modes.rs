//! Whether numbers fall into one group or two.

use serde::Serialize;

/// Distance of the means in units of the groups' spread (Ashman's D) from which on there are two.
/// A normal distribution cut at its mean gives 2.6, a uniform one 3.5.
const MIN_DISTANCE: f64 = 4.0;
/// Means that differ by less than this share are one mode to any user.
const MIN_DIFFERENCE: f64 = 0.03;
/// The spread of a group is never less than this share of its mean: two equal runs are luck.
const MIN_SPREAD: f64 = 0.01;
/// Of a thousand normal numbers the extreme one lies some 0.3 spreads from the next.
const MIN_GAP: f64 = 1.0;
/// Fewer numbers say nothing about modes.
const MIN_NUMBERS: usize = 4;

/// One group of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mode {
    /// How many numbers.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// Two groups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Split {
    /// The lower group.
    pub low: Mode,
    /// The upper group.
    pub high: Mode,
    /// Distance of their means ÷ their spread.
    pub distance: f64,
}

impl Split {
    /// Whether a number is of the lower group.
    pub(super) fn is_low(&self, value: f64) -> bool {
        value <= self.low.max
    }
}

/// All numbers as one group; `None` of nothing.
pub(super) fn whole(values: &[f64]) -> Option<Mode> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| mode(&sorted).0)
}

/// The two groups that numbers fall into; `None` when they are one.
pub(super) fn split(values: &[f64]) -> Option<Split> {
    let sorted = sorted(values)?;
    cut(&sorted, least_squares(&sorted)?)
}

/// The same where one group may be a few beside hundreds that vary: a gap tells them too.
pub(super) fn split_few(values: &[f64]) -> Option<Split> {
    let sorted = sorted(values)?;
    let cuts = [least_squares(&sorted), widest_gap(&sorted)];
    let splits = cuts.into_iter().flatten();
    let splits = splits.filter_map(|at| cut(&sorted, at));
    splits.max_by(|a, b| a.distance.total_cmp(&b.distance))
}

/// The numbers in order; `None` when they are too few.
fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    (sorted.len() >= MIN_NUMBERS).then_some(sorted)
}

/// The groups below and from `at` on, if they are two modes.
fn cut(sorted: &[f64], at: usize) -> Option<Split> {
    let (low, low_spread) = mode(&sorted[..at]);
    let (high, high_spread) = mode(&sorted[at..]);
    let spread = ((low_spread.powi(2) + high_spread.powi(2)) / 2.0).sqrt();
    let distance = (high.mean - low.mean) / spread.max(f64::MIN_POSITIVE);
    let differs = high.mean - low.mean >= MIN_DIFFERENCE * high.mean.abs();
    (distance >= MIN_DISTANCE && differs).then_some(Split {
        low,
        high,
        distance: analysis::words::rounded(distance),
    })
}

/// Where the sum of squares within the groups is least.
fn least_squares(sorted: &[f64]) -> Option<usize> {
    let n = sorted.len() as f64;
    let (sum, squares) = sorted
        .iter()
        .fold((0.0, 0.0), |(s, q), v| (s + v, q + v * v));
    let mut best: Option<(f64, usize)> = None;
    // Running sums keep it linear.
    let (mut low_sum, mut low_squares) = (0.0, 0.0);
    for at in 1..sorted.len() {
        let v = sorted[at - 1];
        (low_sum, low_squares) = (low_sum + v, low_squares + v * v);
        if sorted[at] <= v {
            continue;
        }
        let low_n = at as f64;
        let within = |s: f64, q: f64, n: f64| q - s * s / n;
        let total = within(low_sum, low_squares, low_n)
            + within(sum - low_sum, squares - low_squares, n - low_n);
        if best.is_none_or(|(least, _)| total < least) {
            best = Some((total, at));
        }
    }
    best.map(|(_, at)| at)
}

/// Where the widest gap is, if it is wider than the spread of either side.
fn widest_gap(sorted: &[f64]) -> Option<usize> {
    let gap = |at: &usize| sorted[*at] - sorted[*at - 1];
    let at = (1..sorted.len()).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let (_, low_spread) = mode(&sorted[..at]);
    let (_, high_spread) = mode(&sorted[at..]);
    (gap(&at) > low_spread.max(high_spread) * MIN_GAP).then_some(at)
}

/// A sorted group and its spread (standard deviation).
fn mode(sorted: &[f64]) -> (Mode, f64) {
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let variance = sorted.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    let mode = Mode {
        count: sorted.len(),
        mean: analysis::words::rounded(mean),
        min: sorted[0],
        max: sorted[sorted.len() - 1],
    };
    (mode, variance.sqrt().max(MIN_SPREAD * mean.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_groups_are_two() {
        let runs = [558.0, 491.0, 509.0, 579.0, 567.0, 512.0];
        let split = split(&runs).unwrap();
        assert_eq!((split.low.count, split.high.count), (3, 3));
        assert!(split.is_low(512.0) && !split.is_low(558.0));
    }

    #[test]
    fn one_bad_run_of_twenty_is_a_mode() {
        let mut runs: Vec<f64> = (0..19).map(|i| 550.0 + f64::from(i)).collect();
        runs.push(480.0);
        assert_eq!(split(&runs).unwrap().low.count, 1);
    }

    #[test]
    fn a_few_beside_many_that_vary_are_a_mode() {
        // Ten at 17 ± 1, five hundred between 37 and 90; in logarithms.
        let few = (0..10).map(|i| 16.0 + f64::from(i) * 0.2);
        let many = (0..500).map(|i| 37.0 + f64::from(i) * 0.1);
        let values: Vec<f64> = few.chain(many).map(f64::ln).collect();
        assert_eq!(split_few(&values).unwrap().low.count, 10);
    }

    #[test]
    fn one_group_is_one() {
        assert_eq!(split(&[]), None);
        assert_eq!(split(&[5.0; 20]), None);
        assert_eq!(split(&[500.0, 600.0, 400.0]), None);
        assert_eq!(split(&[f64::NAN, f64::INFINITY, 1.0, 2.0, 3.0]), None);
        // Even, and bell-shaped.
        assert_eq!(split(&(0..100).map(f64::from).collect::<Vec<_>>()), None);
        let bell = [-2.0, -1.3, -0.8, -0.5, -0.2, 0.0, 0.2, 0.5, 0.8, 1.3, 2.0];
        let bell: Vec<f64> = bell.iter().map(|v| 550.0 + 10.0 * v).collect();
        assert_eq!((split(&bell), split_few(&bell)), (None, None));
    }
}
