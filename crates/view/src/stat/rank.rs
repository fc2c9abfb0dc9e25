//! `stat counters --rank NAME`: all counters by how they move with one, interval by interval.

use std::collections::BTreeMap;
use std::io;

use recording::counter::{definition, is_gauge};
use recording::{Row, Text, strongest_correlation};
use serde::Serialize;

use super::counters::Samples;
use super::rounds::{Rounds, per_s};
use crate::numbers::rounded;
use crate::screen::{Column, Screen};
use crate::view::View;

/// With fewer intervals any two counters seem to move together.
const LEAST_INTERVALS: usize = 5;
/// Intervals kept: a day of seconds.
const MOST_INTERVALS: usize = 86_400;
/// Counters that are shown unless all are asked for.
const SHOWN: usize = 20;

const COLUMNS: &[Column] = &[
    ("COUNTER", -34),
    ("CORRELATION", 11),
    ("LAG", 3),
    ("TOTAL", 12),
    ("MEANING", -1),
];

pub(super) struct Rank {
    name: String,
    all: bool,
    rounds: Rounds<u32>,
    samples: Samples,
    intervals: usize,
    /// Rate in each interval, of all namespaces together; intervals at zero at the end left out.
    series: BTreeMap<(Text, Text), Series>,
}

#[derive(Debug, Default)]
struct Series {
    rates: Vec<f64>,
    total: i64,
}

#[derive(Serialize)]
struct Line<'r> {
    r#type: &'static str,
    name: &'r str,
    with: &'r str,
    correlation: f64,
    lag_intervals: i32,
    intervals: usize,
    total: i64,
    meaning: Option<&'static str>,
}

impl Rank {
    pub(super) fn new(name: String, all: bool, every_ns: u64) -> Rank {
        Rank {
            name,
            all,
            rounds: Rounds::new(every_ns),
            samples: Samples::default(),
            intervals: 0,
            series: BTreeMap::new(),
        }
    }

    fn close(&mut self) {
        if self.rounds.close().is_none() || self.intervals >= MOST_INTERVALS {
            return;
        }
        let compares = self.samples.has_begun();
        let (at, series) = (self.intervals, &mut self.series);
        self.samples.report(|(_, group, name), moved, over_ns| {
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
    }

    fn show(&mut self, screen: &mut Screen) -> io::Result<()> {
        let n = self.intervals;
        if n < LEAST_INTERVALS {
            return Err(io::Error::other(format!(
                "ranking takes at least {LEAST_INTERVALS} intervals, here are {n}; watch for longer"
            )));
        }
        for series in self.series.values_mut() {
            series.rates.resize(n, 0.0);
        }
        let full = |(group, name): &(Text, Text)| format!("{group}.{name}");
        let asked = |key: &&(Text, Text)| *key.1 == *self.name || full(key) == self.name;
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
        // The strongest first; of equals, those that move in the same interval, then the greatest.
        ranked.sort_by(|a, b| {
            let strength = |r: f64| (r.abs() * 1e3).round() as i64;
            let key = |x: &(String, f64, i32, i64)| (-strength(x.1), x.2.abs(), -x.3);
            key(a).cmp(&key(b)).then_with(|| a.0.cmp(&b.0))
        });
        let shown = if self.all { ranked.len() } else { SHOWN };
        for (name, r, lag, total) in ranked.iter().take(shown) {
            let known = definition(name);
            if screen.how.json {
                screen.json(&Line {
                    r#type: "rank",
                    name,
                    with: &full(asked),
                    correlation: rounded(*r),
                    lag_intervals: *lag,
                    intervals: n,
                    total: *total,
                    meaning: known.map(|d| d.says),
                })?;
                continue;
            }
            let cells = [
                name.clone(),
                format!("{r:+.3}"),
                format!("{lag:+}"),
                total.to_string(),
                known.map_or(String::new(), |d| d.says.to_string()),
            ];
            screen.line(COLUMNS, &cells)?;
        }
        if !screen.how.json {
            let says = format!(
                "with {}, over {n} intervals; lag +1: one interval after it. Moving together is no proof",
                full(asked)
            );
            screen.more(&says)?;
        }
        Ok(())
    }
}

impl View for Rank {
    fn tables(&self) -> Vec<&'static str> {
        vec!["counter"]
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        let Row::Counter(row) = row else {
            return Ok(());
        };
        if !screen.how.filter.netns_ok(row.netns) {
            return Ok(());
        }
        if self.samples.begins(row) && self.rounds.begins(&row.netns, row.time_ns) {
            self.close();
        }
        self.rounds.add(row.netns, row.time_ns);
        self.samples.add(row);
        Ok(())
    }

    fn passed(&mut self, time_ns: u64, _: &mut Screen) -> io::Result<()> {
        if self.rounds.over(time_ns) {
            self.close();
        }
        Ok(())
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.close();
        self.show(screen)
    }
}
