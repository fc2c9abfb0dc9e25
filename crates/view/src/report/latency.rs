//! How long connecting took: its distribution, its clusters, and the heat map over time.

use std::collections::BTreeMap;

use analysis::timeline::Axis;
use explain::Reading;

use super::page::{Cluster, Latency};

/// Classes per factor of ten.
const PER_DECADE: f64 = 8.0;
/// The shortest latency that has a class of its own, ns.
const SHORTEST: f64 = 1e3;
/// The longest: a day, ns.
const LONGEST: f64 = 86.4e12;

/// The latencies of the connects that were seen to open; `None` if there were none.
pub(super) fn latency(reading: &Reading, axis: Axis) -> Option<Latency> {
    let mut took: Vec<u64> = reading.connects().map(|c| c.took_ns).collect();
    took.sort_unstable();
    let (first, last) = (class(*took.first()?), class(*took.last()?));
    let mut counts = vec![0.0; (last - first + 1) as usize];
    for ns in &took {
        counts[(class(*ns) - first) as usize] += 1.0;
    }
    let mut heat: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for connect in reading.connects() {
        if let Some(bin) = axis.bin(connect.start_ns) {
            let class = class(connect.took_ns) - first;
            *heat.entry((bin as u32, class)).or_default() += 1;
        }
    }
    let schedule = reading.syn_schedule();
    // SYNs sent later than any connect waited would only squeeze the picture.
    let longest = took.last().copied().unwrap_or(0);
    let told = schedule
        .iter()
        .filter(|ns| **ns <= longest.saturating_mul(2));
    let clusters = reading.clusters();
    Some(Latency {
        says: "From connect() to the established connection, for every connect of this host that \
               succeeded."
            .into(),
        count: took.len() as f64,
        percentiles: [
            ("p50", 0.5),
            ("p90", 0.9),
            ("p99", 0.99),
            ("p99.9", 0.999),
            ("max", 1.0),
        ]
        .map(|(name, share)| (name.into(), ms(at(&took, share))))
        .into(),
        bounds_ms: (first..=last).map(bound_ms).collect(),
        counts,
        heat: heat
            .into_iter()
            .map(|((bin, class), n)| (bin, class, n))
            .collect(),
        clusters: clusters
            .iter()
            .map(|c| Cluster {
                median_ms: ms(c.median_ns),
                count: c.count as f64,
                attempt: c.retries,
            })
            .collect(),
        schedule_ms: told.map(|ns| ms(*ns)).collect(),
    })
}

/// The value at a share of the sorted values, by the nearest rank.
fn at(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.clamp(1, sorted.len().max(1)) - 1)
        .copied()
        .unwrap_or(0)
}

/// The class of a latency; the first holds all that are shorter, the last all that are longer.
fn class(ns: u64) -> u32 {
    let share = (ns as f64).clamp(SHORTEST, LONGEST) / SHORTEST;
    (share.log10() * PER_DECADE).floor() as u32
}

/// The upper bound of a class, ms, to three digits.
fn bound_ms(class: u32) -> f64 {
    let bound = SHORTEST * 10_f64.powf((f64::from(class) + 1.0) / PER_DECADE) / 1e6;
    let scale = 10_f64.powf(2.0 - bound.log10().floor());
    (bound * scale).round() / scale
}

fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_within_its_class() {
        for ns in [
            0,
            1,
            999,
            1_000,
            1_334,
            40_000,
            1_000_000_000,
            86_400_000_000_000,
            u64::MAX,
        ] {
            let class = class(ns);
            let ms = (ns as f64 / 1e6).min(LONGEST / 1e6);
            assert!(ms <= bound_ms(class) * 1.01, "{ns}");
            assert!(class == 0 || ms >= bound_ms(class - 1) * 0.99, "{ns}");
        }
        assert!((0..80).all(|c| bound_ms(c) < bound_ms(c + 1)));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        assert_eq!(at(&[1, 2, 3, 4], 0.5), 2);
        assert_eq!(at(&[1, 2, 3, 4], 1.0), 4);
        assert_eq!(at(&[], 0.5), 0);
    }
}
