//! What grows from recording to recording: tables, load, memory, over the time at which each was made.

use analysis::stats::{median, ratio, tau};
use analysis::words::rounded;
use serde::Serialize;

use super::gauge::Gauge;
use super::{LEAST_CHANGE, LEAST_TAU, Run};

/// From the first to the last it must be so many times as long as each of them is: what goes on for less shows
/// within one.
const LEAST_SPAN: f64 = 10.0;
/// Two lie on any line.
const LEAST_RUNS: usize = 3;
const DAY_S: f64 = 86_400.0;

/// A quantity that goes one way over several recordings.
#[derive(Clone, Debug, Serialize)]
pub struct Trend {
    /// What: `entries of dce`, `load5`.
    pub what: String,
    /// Its mean in the earliest recording.
    pub first: f64,
    /// Its mean in the latest.
    pub last: f64,
    /// Its unit.
    pub unit: String,
    /// Median of the slopes between any two of them, per day.
    pub per_day: f64,
    /// Kendall's tau: 1, each is higher than all before it; -1, each is lower.
    pub tau: f64,
    /// What it may come to; `None` when there is no such limit, or it is not known.
    pub limit: Option<f64>,
    /// When it comes to that if it goes on so, days after the latest.
    pub limit_in_days: Option<f64>,
}

/// What goes one way, the most changed first.
pub(super) fn trends(runs: &[Run]) -> Vec<Trend> {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by(|a, b| a.began_s.total_cmp(&b.began_s));
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Vec::new();
    };
    let longest = runs.iter().map(|run| run.lasted_s).fold(0.0, f64::max);
    if last.began_s - first.began_s < LEAST_SPAN * longest {
        return Vec::new();
    }
    let trends = first.gauges.keys().filter_map(|what| {
        let points = runs.iter();
        let points = points.filter_map(|run| Some((run.began_s, run.gauges.get(what)?)));
        trend(what, &points.collect::<Vec<_>>())
    });
    let mut trends: Vec<Trend> = trends.collect();
    let change = |t: &Trend| {
        let ratio = ratio(t.last, t.first).unwrap_or(f64::INFINITY);
        ratio.max(1.0 / ratio)
    };
    trends.sort_by(|a, b| change(b).total_cmp(&change(a)));
    trends
}

fn trend(what: &str, points: &[(f64, &Gauge)]) -> Option<Trend> {
    let (first, last) = (points.first()?.1, points.last()?.1);
    let (from, to) = (first.mean(), last.mean());
    let changed = to.max(from) >= LEAST_CHANGE * to.min(from);
    if points.len() < LEAST_RUNS || !changed {
        return None;
    }
    let (mut slopes, mut ways) = (Vec::new(), Vec::new());
    for (n, (at, gauge)) in points.iter().enumerate() {
        for (before, earlier) in &points[..n] {
            let rose = gauge.mean() - earlier.mean();
            // Made at the same time they tell nothing of a trend.
            let per_s = ratio(rose, at - before)?;
            slopes.push(per_s * DAY_S);
            ways.push(rose);
        }
    }
    let tau = tau(ways)?;
    let per_day = median(&mut slopes)?;
    let limit = last.limit;
    let limit_in_days = limit.and_then(|limit| ratio(limit - to, per_day));
    (tau.abs() >= LEAST_TAU).then(|| Trend {
        what: what.into(),
        first: rounded(from),
        last: rounded(to),
        unit: first.unit.clone(),
        per_day: rounded(per_day),
        tau: rounded(tau),
        limit,
        limit_in_days: limit_in_days.filter(|days| *days > 0.0).map(rounded),
    })
}
