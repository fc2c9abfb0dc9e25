//! Order statistics of small samples.

/// The value at `share` (0..1) of the sorted values, by the nearest rank; `None` if there are none.
pub fn quantile<T: Copy + PartialOrd>(values: &mut [T], share: f64) -> Option<T> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.clamp(1, values.len()) - 1).copied()
}

/// The median; of an even number of values, the lower of the middle two.
pub fn median<T: Copy + PartialOrd>(values: &mut [T]) -> Option<T> {
    quantile(values, 0.5)
}

/// `a ÷ b`, or `None` when that is not a finite number.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    let r = a / b;
    (b > 0.0 && r.is_finite()).then_some(r)
}

/// Kendall's tau of pairs, each given as its rise: 1 when all rise, -1 when all fall; `None` without pairs.
pub fn tau(rises: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut pairs = 0.0;
    let mut way = 0.0;
    for rose in rises {
        pairs += 1.0;
        way += if rose == 0.0 { 0.0 } else { rose.signum() };
    }
    ratio(way, pairs)
}

/// The most `times` that lie within one window of `width`.
pub fn most_within(times: &mut [u64], width: u64) -> u64 {
    times.sort_unstable();
    let mut first = 0;
    let mut most = 0;
    for last in 0..times.len() {
        while times[last] - times[first] > width {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(quantile::<u64>(&mut [], 0.5), None);
        assert_eq!(median(&mut [5]), Some(5));
        assert_eq!(median(&mut [4, 1, 3, 2]), Some(2));
        let mut hundred: Vec<u32> = (1..=100).rev().collect();
        assert_eq!(quantile(&mut hundred, 0.99), Some(99));
        assert_eq!(quantile(&mut hundred, 1.0), Some(100));
        assert_eq!(quantile(&mut [1.0, f64::NAN], 0.0), Some(1.0));
    }

    #[test]
    fn windows_are_counted_at_their_fullest() {
        assert_eq!(most_within(&mut [], 10), 0);
        assert_eq!(most_within(&mut [30, 0, 5, 9, 21], 10), 3);
        assert_eq!(most_within(&mut [0, u64::MAX], 1), 1);
    }

    #[test]
    fn tau_is_how_far_pairs_go_one_way() {
        assert_eq!(tau([]), None);
        assert_eq!(tau([2.0, 0.1, 9.0]), Some(1.0));
        assert_eq!(tau([-2.0, -1.0]), Some(-1.0));
        assert_eq!(tau([3.0, -1.0, 0.0, 0.0]), Some(0.0));
    }

    #[test]
    fn ratios_are_finite_or_nothing() {
        assert_eq!(ratio(1.0, 2.0), Some(0.5));
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(f64::MAX, f64::MIN_POSITIVE), None);
    }
}
