//! Random counts: how many of many come, or stay.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// From here on a count is drawn from the normal distribution: it is wide enough.
const MANY: f64 = 16.0;

/// How many come of those of which `mean` come on average, independently of each other.
pub(crate) fn poisson(rng: &mut Pcg64Mcg, mean: f64) -> u64 {
    if mean <= 0.0 {
        return 0;
    }
    if mean > MANY {
        return normal(rng, mean, mean.sqrt()).round().max(0.0) as u64;
    }
    let least = (-mean).exp();
    let mut left: f64 = rng.random();
    let mut count = 0;
    while left > least {
        left *= rng.random::<f64>();
        count += 1;
    }
    count
}

/// How many of `n` stay, each with probability `share`.
pub(crate) fn binomial(rng: &mut Pcg64Mcg, n: u64, share: f64) -> u64 {
    if share <= 0.0 || share >= 1.0 {
        return if share > 0.0 { n } else { 0 };
    }
    let variance = n as f64 * share * (1.0 - share);
    if variance > MANY {
        let count = normal(rng, n as f64 * share, variance.sqrt()).round();
        return (count.max(0.0) as u64).min(n);
    }
    (0..n).filter(|_| rng.random::<f64>() < share).count() as u64
}

/// Box and Muller's.
fn normal(rng: &mut Pcg64Mcg, mean: f64, deviation: f64) -> f64 {
    let (radius, turn): (f64, f64) = (rng.random(), rng.random());
    let radius = (-2.0 * (1.0 - radius).ln()).sqrt();
    mean + deviation * radius * (std::f64::consts::TAU * turn).cos()
}

/// Until the next of events that come at random at such a rate, ns.
pub(crate) fn gap_ns(rng: &mut Pcg64Mcg, per_s: f64) -> u64 {
    if per_s <= 0.0 {
        return u64::MAX;
    }
    let share: f64 = rng.random();
    (-(1.0 - share).ln() / per_s * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Mean and variance of so many draws.
    fn moments(mut draw: impl FnMut(&mut Pcg64Mcg) -> u64) -> (f64, f64) {
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let all: Vec<f64> = (0..20_000).map(|_| draw(&mut rng) as f64).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let square = |v: &f64| (v - mean) * (v - mean);
        (mean, all.iter().map(square).sum::<f64>() / all.len() as f64)
    }

    #[test]
    fn counts_have_the_mean_and_the_variance_of_their_law() {
        let near = |got: f64, want: f64, by: f64| (got - want).abs() <= by * want;
        for mean in [0.3, 8.0, 15.0, 20.0, 400.0] {
            let (m, v) = moments(|rng| poisson(rng, mean));
            assert!(
                near(m, mean, 0.03) && near(v, mean, 0.06),
                "{mean}: {m} {v}"
            );
        }
        for (n, share) in [(5, 0.5), (200, 2.0 / 3.0), (90_000, 2.0 / 3.0)] {
            let (m, v) = moments(|rng| binomial(rng, n, share));
            let mean = n as f64 * share;
            let variance = mean * (1.0 - share);
            assert!(
                near(m, mean, 0.03) && near(v, variance, 0.06),
                "{n}: {m} {v}"
            );
        }
    }

    #[test]
    fn none_come_of_none_and_all_stay_of_all() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        assert_eq!(poisson(&mut rng, 0.0), 0);
        assert_eq!(binomial(&mut rng, 1_000_000, 1.0), 1_000_000);
        assert_eq!(binomial(&mut rng, 1_000_000, 0.0), 0);
        assert_eq!(gap_ns(&mut rng, 0.0), u64::MAX);
    }
}
