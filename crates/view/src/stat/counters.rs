//! `stat counters`: which counters of the network stack moved, how fast, and what they mean.

use std::collections::BTreeMap;
use std::io;

use recording::counter::{Definition, definition, is_error, is_gauge, is_setting};
use recording::tables::Counter;
use recording::{Filter, Row, Text};

use super::largest::{Largest, LeftOut, Ranked};
use super::rounds::{Sampler, per_s};
use crate::columns::{Unit, Value, columns, heads, json, left, right};
use crate::screen::Screen;

/// Counters followed; a kernel has some 400 per namespace.
const MAX_COUNTERS: usize = 1 << 18;
/// Both files of a namespace are read within this time.
const SAMPLE_NS: u64 = 100_000_000;

/// A counter that moved.
pub(crate) struct Moving {
    time_ns: u64,
    name: Name,
    value: i64,
    delta: i64,
    over_ns: Option<u64>,
}

columns! {
    Moving = "counter" {
        text TIME NETNS GROUP COUNTER DELTA PER_S MEANING;
        json TIME NETNS GROUP COUNTER DELTA INTERVAL PER_S VALUE MEANING SOURCE;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.time_ns);
    NETNS: heads::NETNS => |l, _| Value::Netns(l.name.0);
    /// Group of the counter, as `nstat` and /proc/net name it.
    GROUP: left("GROUP", 8, &["group"], Unit::Name) => |l, _| (&l.name.1).into();
    /// Its name.
    COUNTER: left("COUNTER", 26, &["name"], Unit::Name) => |l, _| (&l.name.2).into();
    /// By how much it moved since the report before.
    DELTA: right("DELTA", 10, &["delta"], Unit::Change) => |l, _| l.delta.into();
    /// How fast; nothing for gauges.
    PER_S: right("PER-S", 11, &["per_s"], Unit::PerSecond) => |l, _| l.per_s().into();
    /// What it counts, where that is known.
    MEANING: left("MEANING", 1, &["meaning"], Unit::Words) => |l, _| l.definition().map(|d| d.says).into();
    /// The time in which it moved.
    INTERVAL: json(&["interval_ns"], Unit::Ns) => |l, _| l.over_ns.into();
    /// Its value now.
    VALUE: json(&["value"], Unit::Count) => |l, _| l.value.into();
    /// Where the meaning is from.
    SOURCE: json(&["source"], Unit::Words) => |l, _| l.definition().map(|d| d.source).into();
}

impl Moving {
    fn full(&self) -> String {
        format!("{}.{}", self.name.1, self.name.2)
    }

    fn per_s(&self) -> Option<f64> {
        let over_ns = self.over_ns.filter(|_| !is_gauge(&self.full()))?;
        per_s(self.delta as f64, over_ns)
    }

    fn definition(&self) -> Option<Definition> {
        definition(&self.full())
    }
}

/// A counter of a namespace.
pub(super) type Name = (u32, Text, Text);

/// What the samples of a namespace since the last report say.
#[derive(Debug, Default)]
pub(super) struct Samples {
    moved: Largest<Name, Moved, MAX_COUNTERS>,
    spans: BTreeMap<u32, Span>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// `None` until there was something to compare with.
    pub(super) delta: Option<i64>,
    pub(super) value: i64,
}

/// By how far it moved.
impl Ranked for Moved {
    fn rank(&self) -> f64 {
        self.delta.unwrap_or(0).unsigned_abs() as f64
    }
}

/// When a namespace was sampled.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// When the sample was taken that the last report ended with.
    from_ns: Option<u64>,
    /// When /proc/net/snmp was read for the current sample, which comes first.
    sample_ns: u64,
}

/// Groups of /proc/net/snmp, which is read first; /proc/net/netstat has the others.
fn read_first(group: &str) -> bool {
    !matches!(group, "TcpExt" | "IpExt" | "MPTcpExt")
}

impl Samples {
    /// The namespace that a counter is of, if it is asked for.
    pub(super) fn key(&self, row: &Row, filter: &Filter) -> Option<u32> {
        match row {
            Row::Counter(row) => filter.netns_ok(row.netns).then_some(row.netns),
            _ => None,
        }
    }

    /// Whether a row is of the sample of its namespace that was begun.
    pub(super) fn continues(&self, row: &Row) -> bool {
        matches!(row, Row::Counter(row) if !self.begins(row))
    }

    fn begins(&self, row: &Counter) -> bool {
        self.spans.get(&row.netns).is_none_or(|span| {
            let apart = row.time_ns.saturating_sub(span.sample_ns);
            apart > SAMPLE_NS || (read_first(&row.group) && apart > 0)
        })
    }

    pub(super) fn add(&mut self, row: &Row) {
        let Row::Counter(row) = row else { return };
        if self.begins(row) {
            let span = self.spans.entry(row.netns).or_default();
            span.sample_ns = row.time_ns;
        }
        let name = (row.netns, row.group.clone(), row.name.clone());
        let moved = self.moved.row(name, Moved::default);
        moved.value = row.value;
        if let Some(delta) = row.delta {
            moved.delta = Some(moved.delta.unwrap_or(0).saturating_add(delta));
        }
    }

    /// Hands out every counter with the time over which it moved, and starts over. A counter that was sampled only
    /// once has no time, and nothing is said of it. Returns how many there was no room for.
    pub(super) fn report(&mut self, mut each: impl FnMut(&Name, Moved, Option<u64>)) -> LeftOut {
        let (all, left_out) = self.moved.take();
        for (name, mut moved) in all {
            let span = self.spans.get(&name.0).copied().unwrap_or_default();
            let over = span
                .from_ns
                .and_then(|from| span.sample_ns.checked_sub(from));
            if over.is_some() || moved.delta.is_some() {
                each(&name, moved, over.filter(|ns| *ns > 0));
            }
            moved.delta = Some(0);
            self.moved.insert(name, moved);
        }
        for span in self.spans.values_mut() {
            span.from_ns = Some(span.sample_ns);
        }
        left_out
    }

    /// Whether there is a sample to compare the next one with.
    pub(super) fn has_begun(&self) -> bool {
        self.spans.values().any(|s| s.from_ns.is_some())
    }
}

pub(super) struct Counters {
    all: bool,
    errors_only: bool,
    samples: Samples,
}

impl Counters {
    pub(super) fn new(all: bool, errors_only: bool) -> Counters {
        Counters {
            all,
            errors_only,
            samples: Samples::default(),
        }
    }
}

impl Sampler for Counters {
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

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        let compares = self.samples.has_begun();
        let mut result = Ok(());
        let mut shown = 0;
        let (all, errors_only) = (self.all, self.errors_only);
        let left_out = self.samples.report(|name, moved, over_ns| {
            let line = Moving {
                time_ns,
                name: name.clone(),
                value: moved.value,
                delta: moved.delta.unwrap_or(0),
                over_ns,
            };
            let moved_at_all = line.delta != 0 && !is_setting(&line.full());
            let asked = !errors_only || is_error(&line.full());
            if result.is_ok() && compares && asked && (all || moved_at_all) {
                shown += 1;
                result = screen.show(&line);
            }
        });
        if compares {
            if shown == 0 {
                let time = screen.how.time(time_ns);
                let of = if errors_only { " of what fails" } else { "" };
                screen.more(&format!("{time} no counter{of} moved"))?;
            }
            let left_out = if all { left_out } else { left_out.but_zero() };
            left_out.show::<Moving>(time_ns, screen)?;
            screen.end_report();
        }
        result
    }
}
