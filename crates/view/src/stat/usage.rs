//! `stat use`: the USE checklist: utilisation, saturation and errors of every resource.

use std::collections::BTreeMap;
use std::io;

use recording::tables::Resource;
use recording::{Row, Text};
use serde::Serialize;

use super::rounds::{Rounds, per_s};
use crate::numbers::{or_dash, rounded, tenth};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// Lines of the checklist.
const MAX_ROWS: usize = 1 << 16;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("RESOURCE", -13),
    ("INSTANCE", -24),
    ("ASPECT", -11),
    ("METRIC", -26),
    ("VALUE", 14),
    ("UNIT", -7),
    ("LIMIT", 14),
    ("USED%", 6),
];

/// Resource, instance, namespace, aspect in the order of the checklist, metric.
type Key = (Text, Text, u32, u8, Text);

pub(super) struct Usage {
    rounds: Rounds<Key>,
    /// What this round holds; what counts up stays, as it is told only when it has changed.
    now: BTreeMap<Key, Resource>,
    /// What counts up: its values in the last report.
    shown: BTreeMap<Key, f64>,
    shown_ns: Option<u64>,
}

#[derive(Serialize)]
struct Line<'r> {
    r#type: &'static str,
    unix_ns: i64,
    #[serde(flatten)]
    row: &'r Resource,
    per_s: Option<f64>,
    limit_percent: Option<f64>,
}

fn key(r: &Resource) -> Key {
    let aspect = match &*r.aspect {
        "utilisation" => 0,
        "saturation" => 1,
        "errors" => 2,
        _ => 3,
    };
    (
        r.resource.clone(),
        r.instance.clone(),
        r.netns,
        aspect,
        r.metric.clone(),
    )
}

impl Usage {
    pub(super) fn new(every_ns: u64) -> Usage {
        Usage {
            rounds: Rounds::new(every_ns),
            now: BTreeMap::new(),
            shown: BTreeMap::new(),
            shown_ns: None,
        }
    }

    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = self.rounds.close() else {
            return Ok(());
        };
        // The first round has nothing to tell the speed of what counts up.
        let counts = self.now.values().any(|r| r.cumulative);
        let since_ns = self.shown_ns.replace(time_ns);
        let compares = since_ns.is_some() || !counts;
        for (key, row) in &mut self.now {
            row.time_ns = time_ns;
            let before = self.shown.get(key);
            let rate = before.zip(since_ns).and_then(|(before, since)| {
                // A counter that went back began anew.
                let grew = (row.value - before).max(0.0);
                per_s(grew, time_ns.saturating_sub(since))
            });
            if compares {
                line(row, rate.filter(|_| row.cumulative), screen)?;
            }
            if row.cumulative {
                self.shown.insert(key.clone(), row.value);
            }
        }
        self.now.retain(|_, row| row.cumulative);
        if compares {
            screen.end_report();
        }
        Ok(())
    }
}

fn line(r: &Resource, rate: Option<f64>, screen: &mut Screen) -> io::Result<()> {
    let limit = r.limit.filter(|limit| *limit > 0.0);
    let shown = if r.cumulative { rate } else { Some(r.value) };
    let percent = shown.zip(limit).map(|(value, limit)| value * 100.0 / limit);
    let percent = percent.filter(|p| p.is_finite());
    if screen.how.json {
        return screen.json(&Line {
            r#type: "resource",
            unix_ns: When::of(r.time_ns, screen.how).unix_ns,
            row: r,
            per_s: rate.map(rounded),
            limit_percent: percent.map(rounded),
        });
    }
    let unit = match r.cumulative {
        true => format!("{}/s", r.unit),
        false => r.unit.to_string(),
    };
    let instance = match r.netns {
        0 => r.instance.to_string(),
        netns => format!("{}@{}", r.instance, screen.how.netns(netns)),
    };
    let cells = [
        screen.how.time(r.time_ns),
        r.resource.to_string(),
        instance,
        r.aspect.to_string(),
        r.metric.to_string(),
        or_dash(shown.map(number)),
        unit,
        or_dash(limit.map(number)),
        or_dash(percent.map(tenth)),
    ];
    screen.line(COLUMNS, &cells)
}

/// Whole numbers as they are, others with a digit.
fn number(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => format!("{value:.0}"),
        false => tenth(value),
    }
}

impl View for Usage {
    fn tables(&self) -> Vec<&'static str> {
        vec!["resource"]
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        let Row::Resource(row) = row else {
            return Ok(());
        };
        if row.netns != 0 && !screen.how.filter.netns_ok(row.netns) {
            return Ok(());
        }
        let key = key(row);
        if self.rounds.begins(&key, row.time_ns) {
            self.close(screen)?;
        }
        self.rounds.add(key.clone(), row.time_ns);
        if self.now.len() < MAX_ROWS || self.now.contains_key(&key) {
            self.now.insert(key, (**row).clone());
        }
        Ok(())
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        match self.rounds.over(time_ns) {
            true => self.close(screen),
            false => Ok(()),
        }
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.close(screen)
    }
}
