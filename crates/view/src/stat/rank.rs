//! `stat counters --rank NAME`: all counters by how they move with one, interval by interval.

use std::collections::BTreeMap;
use std::io;

use analysis::strongest_correlation;
use recording::counter::{definition, is_gauge};
use recording::{Filter, Row, Text};

use super::counters::Samples;
use super::largest::LeftOut;
use super::rounds::{Sampler, per_s};
use crate::columns::{Unit, Value, columns, json, left, right};
use crate::numbers::rounded;
use crate::screen::Screen;

/// With fewer intervals any two counters seem to move together.
const LEAST_INTERVALS: usize = 5;
/// Intervals kept: a day of seconds.
const MOST_INTERVALS: usize = 86_400;
/// Counters that are shown unless all are asked for.
const SHOWN: usize = 20;

/// A counter that moves with another one.
pub(crate) struct Ranked {
    name: String,
    with: String,
    correlation: f64,
    lag: i32,
    intervals: usize,
    total: i64,
}

columns! {
    Ranked = "rank" {
        text COUNTER CORRELATION LAG TOTAL MEANING;
        json COUNTER WITH CORRELATION LAG INTERVALS TOTAL MEANING;
    }
    /// Name of the counter.
    COUNTER: left("COUNTER", 34, &["name"], Unit::Name) => |l, _| (&*l.name).into();
    /// Pearson's, of the rates interval by interval: -1 to 1.
    CORRELATION: right("CORRELATION", 11, &["correlation"], Unit::Ratio) => |l, _| {
        let correlation = rounded(l.correlation);
        Value::Told(correlation.into(), format!("{:+.3}", l.correlation))
    };
    /// 1: it moves one interval after the counter that was asked for.
    LAG: right("LAG", 3, &["lag_intervals"], Unit::Change) => |l, _| l.lag.into();
    /// By how much it moved in all.
    TOTAL: right("TOTAL", 12, &["total"], Unit::Count) => |l, _| l.total.into();
    /// What it counts, where that is known.
    MEANING: left("MEANING", 1, &["meaning"], Unit::Words)
        => |l, _| definition(&l.name).map(|d| d.says).into();
    /// The counter that was asked for.
    WITH: json(&["with"], Unit::Name) => |l, _| (&*l.with).into();
    /// How many intervals were compared.
    INTERVALS: json(&["intervals"], Unit::Count) => |l, _| (l.intervals as u64).into();
}

pub(super) struct Rank {
    name: String,
    all: bool,
    samples: Samples,
    intervals: usize,
    /// Rate in each interval, over all namespaces together; trailing intervals at zero are left out.
    series: BTreeMap<(Text, Text), Series>,
    /// What moved least and was not compared, and when the last report ended.
    left_out: LeftOut,
    last_ns: u64,
}

#[derive(Debug, Default)]
struct Series {
    rates: Vec<f64>,
    total: i64,
}

impl Rank {
    pub(super) fn new(name: String, all: bool) -> Rank {
        Rank {
            name,
            all,
            samples: Samples::default(),
            intervals: 0,
            left_out: LeftOut::default(),
            last_ns: 0,
            series: BTreeMap::new(),
        }
    }

    fn show(&mut self, screen: &mut Screen) -> io::Result<()> {
        let n = self.intervals;
        if n < LEAST_INTERVALS {
            return Err(io::Error::other(format!(
                "ranking needs at least {LEAST_INTERVALS} intervals, got {n}; watch longer"
            )));
        }
        for series in self.series.values_mut() {
            series.rates.resize(n, 0.0);
        }
        let full = |(group, name): &(Text, Text)| format!("{group}.{name}");
        // `RetransSegs`, `Tcp.RetransSegs`, and `TcpRetransSegs` as nstat and explain write it.
        let asked = |key: &&(Text, Text)| {
            let (group, name) = (&*key.0, &*key.1);
            let rest = self.name.strip_prefix(group);
            let rest = rest.map_or(&*self.name, |rest| rest.strip_prefix('.').unwrap_or(rest));
            rest == name
        };
        let Some(asked) = self.series.keys().find(asked) else {
            return Err(io::Error::other(format!(
                "no counter {:?} moved in these {n} intervals",
                self.name
            )));
        };
        let with = &self.series[asked].rates;
        let others = self.series.iter().filter(|(key, _)| *key != asked);
        let ranked = others.filter_map(|(key, series)| {
            let name = full(key);
            let (r, lag) =
                strongest_correlation(with, &series.rates).filter(|_| !is_gauge(&name))?;
            Some((name, r, lag, series.total))
        });
        let mut ranked: Vec<_> = ranked.collect();
        // The strongest first; among equals, those that move in the same interval, then the greatest.
        ranked.sort_by(|a, b| {
            let strength = |r: f64| (r.abs() * 1e3).round() as i64;
            let key = |x: &(String, f64, i32, i64)| (-strength(x.1), x.2.abs(), -x.3);
            key(a).cmp(&key(b)).then_with(|| a.0.cmp(&b.0))
        });
        let shown = if self.all { ranked.len() } else { SHOWN };
        for (name, correlation, lag, total) in ranked.into_iter().take(shown) {
            screen.show(&Ranked {
                name,
                with: full(asked),
                correlation,
                lag,
                intervals: n,
                total,
            })?;
        }
        screen.more(&format!(
            "with {}, over {n} intervals; lag +1: one interval after it. Correlation is not proof",
            full(asked)
        ))?;
        self.left_out.show::<Ranked>(self.last_ns, screen)
    }
}

impl Sampler for Rank {
    /// Namespace.
    type Key = u32;

    fn tables(&self) -> Vec<&'static str> {
        vec!["counter"]
    }

    fn key(&mut self, row: &Row, filter: &Filter) -> Option<u32> {
        self.samples.key(row, filter)
    }

    fn continues(&self, row: &Row) -> bool {
        self.samples.continues(row)
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        self.samples.add(&row);
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, _: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = shown_ns.filter(|_| self.intervals < MOST_INTERVALS) else {
            return Ok(());
        };
        self.last_ns = time_ns;
        let compares = self.samples.has_begun();
        let (at, series) = (self.intervals, &mut self.series);
        let left_out = self.samples.report(|(_, group, name), moved, over_ns| {
            let delta = moved.delta.unwrap_or(0);
            let Some(rate) = over_ns.and_then(|ns| per_s(delta as f64, ns)) else {
                return;
            };
            if delta != 0 {
                let known = series.entry((group.clone(), name.clone())).or_default();
                known.rates.resize(at + 1, 0.0);
                known.rates[at] += rate;
                known.total = known.total.saturating_add(delta);
            }
        });
        self.intervals += usize::from(compares);
        self.left_out = self.left_out.and(left_out.but_zero());
        Ok(())
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.show(screen)
    }
}
