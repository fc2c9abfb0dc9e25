//! What grows from recording to recording: tables, load, memory, over the time at which each was made.

use std::collections::BTreeMap;

use analysis::stats::{median, ratio, tau};
use analysis::words::rounded;
use recording::tables::{Resource, TableSize};
use recording::{Error, Recording, Text};
use serde::Serialize;

use super::Run;

/// From the first to the last it must be so many times as long as each of them is: what goes on for less shows
/// within one.
const LEAST_SPAN: f64 = 10.0;
/// Two lie on any line.
const LEAST_RUNS: usize = 3;
/// Quantities followed per recording.
const MAX_GAUGES: usize = 4_096;
/// From the first recording to the last it must change so many times over.
pub(super) const LEAST_CHANGE: f64 = 1.5;
/// Of the pairs of recordings so many more must go one way than the other (Kendall's tau).
pub(super) const LEAST_TAU: f64 = 0.8;
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

/// One quantity of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauge {
    sum: f64,
    n: u64,
    unit: String,
    limit: Option<f64>,
}

impl Gauge {
    fn add(&mut self, value: f64, limit: Option<f64>) {
        self.sum += value;
        self.n += 1;
        self.limit = limit;
    }

    fn mean(&self) -> f64 {
        self.sum / self.n.max(1) as f64
    }
}

/// What stands for itself in a recording: of counters only the pace would tell.
pub(super) fn read(recording: &Recording) -> Result<BTreeMap<String, Gauge>, Error> {
    let mut gauges: BTreeMap<String, Gauge> = BTreeMap::new();
    let mut add = |name: String, unit: &str, value: f64, limit: Option<f64>| {
        if gauges.len() < MAX_GAUGES || gauges.contains_key(&name) {
            let gauge = gauges.entry(name).or_insert_with(|| Gauge {
                unit: unit.into(),
                ..Gauge::default()
            });
            gauge.add(value, limit);
        }
    };
    for batch in recording.scan::<Resource>()? {
        for (_, row) in batch?.rows() {
            // A process has another number next time.
            if row.cumulative || row.netns != 0 || row.instance.contains('/') {
                continue;
            }
            let name = match &*row.instance {
                "" => row.metric.to_string(),
                instance => format!("{} of {instance}", row.metric),
            };
            add(name, &row.unit, row.value, row.limit);
        }
    }
    let mut sizes: BTreeMap<Text, Size> = BTreeMap::new();
    for batch in recording.scan::<TableSize>()? {
        for (_, row) in batch?.rows() {
            if sizes.len() < MAX_GAUGES || sizes.contains_key(&row.structure) {
                sizes.entry(row.structure.clone()).or_default().add(&row);
            }
        }
    }
    let sizes = sizes.into_iter();
    gauges.extend(sizes.map(|(name, size)| (format!("entries of {name}"), size.whole())));
    Ok(gauges)
}

/// One lookup structure: as the host has it, and summed over the namespaces, round by round.
#[derive(Default)]
struct Size {
    host: Gauge,
    namespaces: Gauge,
    /// When, entries of all so far, and the limit, which is that of one namespace.
    round: Option<(u64, f64, Option<f64>)>,
}

impl Size {
    fn add(&mut self, row: &TableSize) {
        let (entries, limit) = (row.entries as f64, row.limit.map(|limit| limit as f64));
        if row.netns == 0 {
            self.host.add(entries, limit);
            return;
        }
        match &mut self.round {
            Some((time_ns, sum, of_one)) if *time_ns == row.time_ns => {
                *sum += entries;
                *of_one = None;
            }
            _ => {
                self.end_round();
                self.round = Some((row.time_ns, entries, limit));
            }
        }
    }

    fn end_round(&mut self) {
        if let Some((_, sum, limit)) = self.round.take() {
            self.namespaces.add(sum, limit);
        }
    }

    fn whole(mut self) -> Gauge {
        self.end_round();
        let gauge = match self.host.n {
            0 => self.namespaces,
            _ => self.host,
        };
        Gauge {
            unit: "count".into(),
            ..gauge
        }
    }
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
