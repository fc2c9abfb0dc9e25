//! `stat counters`: which counters of the network stack moved, how fast, and what they mean.

use std::collections::BTreeMap;
use std::io;

use recording::counter::{definition, is_gauge, is_setting};
use recording::tables::Counter;
use recording::{Row, Text};
use serde::Serialize;

use super::rounds::{Rounds, per_s};
use crate::numbers::{or_dash, rounded, tenth};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// Counters followed; a kernel has some 400 per namespace.
const MAX_COUNTERS: usize = 1 << 18;
/// Both files of a namespace are read within this time.
const SAMPLE_NS: u64 = 100_000_000;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("NETNS", -10),
    ("GROUP", -8),
    ("COUNTER", -26),
    ("DELTA", 10),
    ("PER-S", 11),
    ("MEANING", -1),
];

/// A counter of a namespace.
pub(super) type Name = (u32, Text, Text);

/// What the samples of a namespace since the last report say.
#[derive(Debug, Default)]
pub(super) struct Samples {
    moved: BTreeMap<Name, Moved>,
    spans: BTreeMap<u32, Span>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// `None` until there was something to compare with.
    pub(super) delta: Option<i64>,
    pub(super) value: i64,
}

/// When a namespace was sampled.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Of the sample that the last report ended with.
    from_ns: Option<u64>,
    /// When /proc/net/snmp was read for the current sample, which comes first.
    sample_ns: u64,
}

/// Groups of /proc/net/snmp, which is read first; /proc/net/netstat has the others.
fn read_first(group: &str) -> bool {
    !matches!(group, "TcpExt" | "IpExt" | "MPTcpExt")
}

impl Samples {
    /// Whether a row is of a new sample of its namespace.
    pub(super) fn begins(&self, row: &Counter) -> bool {
        self.spans.get(&row.netns).is_none_or(|span| {
            let apart = row.time_ns.saturating_sub(span.sample_ns);
            apart > SAMPLE_NS || (read_first(&row.group) && apart > 0)
        })
    }

    pub(super) fn add(&mut self, row: &Counter) {
        if self.begins(row) {
            let span = self.spans.entry(row.netns).or_default();
            span.sample_ns = row.time_ns;
        }
        let name = (row.netns, row.group.clone(), row.name.clone());
        if self.moved.len() >= MAX_COUNTERS && !self.moved.contains_key(&name) {
            return;
        }
        let moved = self.moved.entry(name).or_default();
        moved.value = row.value;
        if let Some(delta) = row.delta {
            moved.delta = Some(moved.delta.unwrap_or(0).saturating_add(delta));
        }
    }

    /// Hands out every counter with the time over which it moved, and begins anew. What was only
    /// sampled once has no time, and nothing is said of it.
    pub(super) fn report(&mut self, mut each: impl FnMut(&Name, Moved, Option<u64>)) {
        for (name, moved) in &mut self.moved {
            let span = self.spans.get(&name.0).copied().unwrap_or_default();
            let over = span
                .from_ns
                .and_then(|from| span.sample_ns.checked_sub(from));
            if over.is_some() || moved.delta.is_some() {
                each(name, *moved, over.filter(|ns| *ns > 0));
            }
            moved.delta = Some(0);
        }
        for span in self.spans.values_mut() {
            span.from_ns = Some(span.sample_ns);
        }
    }

    /// Whether there is a sample to compare the next one with.
    pub(super) fn has_begun(&self) -> bool {
        self.spans.values().any(|s| s.from_ns.is_some())
    }
}

pub(super) struct Counters {
    all: bool,
    rounds: Rounds<u32>,
    samples: Samples,
}

#[derive(Serialize)]
struct Line<'r> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    netns: u32,
    netns_name: Option<String>,
    group: &'r str,
    name: &'r str,
    delta: i64,
    interval_ns: Option<u64>,
    per_s: Option<f64>,
    value: i64,
    meaning: Option<&'static str>,
    source: Option<&'static str>,
}

impl Counters {
    pub(super) fn new(all: bool, every_ns: u64) -> Counters {
        Counters {
            all,
            rounds: Rounds::new(every_ns),
            samples: Samples::default(),
        }
    }

    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = self.rounds.close() else {
            return Ok(());
        };
        let compares = self.samples.has_begun();
        let mut result = Ok(());
        let mut shown = 0;
        let all = self.all;
        self.samples.report(|name, moved, over_ns| {
            let delta = moved.delta.unwrap_or(0);
            let moved_at_all = delta != 0 && !is_setting(&format!("{}.{}", name.1, name.2));
            if result.is_ok() && compares && (all || moved_at_all) {
                shown += 1;
                result = line(time_ns, name, moved.value, delta, over_ns, screen);
            }
        });
        if compares {
            if shown == 0 && !screen.how.json {
                let time = screen.how.time(time_ns);
                screen.more(&format!("{time} no counter moved"))?;
            }
            screen.end_report();
        }
        result
    }
}

fn line(
    time_ns: u64,
    (netns, group, name): &Name,
    value: i64,
    delta: i64,
    over_ns: Option<u64>,
    screen: &mut Screen,
) -> io::Result<()> {
    let full = format!("{group}.{name}");
    let rate = over_ns.filter(|_| !is_gauge(&full));
    let rate = rate.and_then(|ns| per_s(delta as f64, ns));
    let known = definition(&full);
    if screen.how.json {
        return screen.json(&Line {
            r#type: "counter",
            when: When::of(time_ns, screen.how),
            netns: *netns,
            netns_name: screen.how.names.get(netns).cloned(),
            group,
            name,
            delta,
            interval_ns: over_ns,
            per_s: rate.map(rounded),
            value,
            meaning: known.map(|d| d.says),
            source: known.map(|d| d.source),
        });
    }
    let cells = [
        screen.how.time(time_ns),
        screen.how.netns(*netns),
        group.to_string(),
        name.to_string(),
        format!("{delta:+}"),
        or_dash(rate.map(tenth)),
        known.map_or(String::new(), |d| d.says.to_string()),
    ];
    screen.line(COLUMNS, &cells)
}

impl View for Counters {
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
            self.close(screen)?;
        }
        self.rounds.add(row.netns, row.time_ns);
        self.samples.add(row);
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
