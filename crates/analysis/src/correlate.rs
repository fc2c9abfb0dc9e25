//! How two series of intervals move together.

/// Correlation at whichever lag of -1, 0 and 1 it is strongest. A positive lag: the second series moves after the
/// first. `None` when one of them does not move.
pub fn strongest_correlation(a: &[f64], b: &[f64]) -> Option<(f64, i32)> {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    if n < 3 {
        return None;
    }
    let at = [
        (pearson(a, b), 0),
        (pearson(&a[..n - 1], &b[1..]), 1),
        (pearson(&a[1..], &b[..n - 1]), -1),
    ];
    let known = at.into_iter().filter_map(|(r, lag)| Some((r?, lag)));
    // Among equals, the one without a lag, which comes first.
    known.reduce(|best, next| {
        if next.0.abs() > best.0.abs() + 1e-9 {
            next
        } else {
            best
        }
    })
}

fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let sum = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    let (va, vb) = (sum(a, ma, a, ma), sum(b, mb, b, mb));
    let r = sum(a, ma, b, mb) / (va * vb).sqrt();
    r.is_finite().then(|| r.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_move_together_or_one_after_the_other() {
        let a = [0.0, 5.0, 1.0, 7.0, 0.0, 2.0];
        let twice: Vec<f64> = a.iter().map(|v| v * 2.0 + 3.0).collect();
        assert_eq!(strongest_correlation(&a, &twice), Some((1.0, 0)));
        let after = [9.0, 0.0, 5.0, 1.0, 7.0, 0.0];
        let (r, lag) = strongest_correlation(&a, &after).unwrap();
        assert!(r > 0.999 && lag == 1);
        let against: Vec<f64> = a.iter().map(|v| -v).collect();
        assert_eq!(strongest_correlation(&a, &against), Some((-1.0, 0)));
    }

    #[test]
    fn what_does_not_move_has_no_correlation() {
        assert_eq!(
            strongest_correlation(&[1.0, 2.0, 3.0], &[4.0, 4.0, 4.0]),
            None
        );
        assert_eq!(strongest_correlation(&[1.0], &[2.0]), None);
        let extreme = strongest_correlation(&[1.0, 2.0, f64::MAX], &[f64::MAX, 1.0, f64::MIN]);
        assert!(extreme.is_none_or(|(r, _)| r.abs() <= 1.0));
    }
}
