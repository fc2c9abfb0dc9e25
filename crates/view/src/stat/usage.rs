//! `stat use`: the USE checklist: utilisation, saturation and errors of every resource; as a table of the
//! worst, or line by line.

use std::collections::BTreeMap;
use std::io;

use analysis::resources;
use recording::tables::Resource;
use recording::{Filter, Row, Text};

use super::checked::Checked;
use super::largest::{Largest, Ranked};
use super::pressure::Table;
use super::rounds::{Sampler, per_s};
use crate::screen::Screen;

/// Lines of the checklist.
const MAX_ROWS: usize = 1 << 16;

/// Resource, instance, namespace, aspect in the order of the checklist, metric.
type Key = (Text, Text, u32, u8, Text);

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

/// What is zero goes first, then what is far from its limit.
impl Ranked for Resource {
    fn rank(&self) -> f64 {
        let share = resources::share(self.value, self.limit);
        let share = share.map_or(0.0, |share| share.clamp(0.0, 1.0));
        share + f64::from(u8::from(self.value != 0.0))
    }
}

#[derive(Default)]
pub(super) struct Usage {
    /// What this round holds; what counts up stays, as its rows come only when it has changed.
    now: Largest<Key, Resource, MAX_ROWS>,
    /// What counts up: its values in the last report.
    shown: BTreeMap<Key, f64>,
    shown_ns: Option<u64>,
    lines: Lines,
    table: Table,
}

/// What is printed of the checklist. JSON has every line of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Every line.
    All,
    /// A table of each report.
    #[default]
    Reports,
    /// One table, with the worst of each resource.
    Worst,
}

impl Usage {
    pub(super) fn new(lines: Lines) -> Usage {
        Usage {
            lines,
            ..Usage::default()
        }
    }
}

impl Sampler for Usage {
    type Key = Key;

    fn tables(&self) -> Vec<&'static str> {
        vec!["resource"]
    }

    fn key(&mut self, row: &Row, filter: &Filter) -> Option<Self::Key> {
        let Row::Resource(row) = row else { return None };
        let asked = row.netns == 0 || filter.netns_ok(row.netns);
        asked.then(|| key(row))
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::Resource(row) = row {
            let key = key(&row);
            self.now.insert(key, *row);
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        // The first round cannot show the rate of what counts up.
        let (now, left_out) = self.now.take();
        let counts = now.values().any(|r| r.cumulative);
        let since_ns = self.shown_ns.replace(time_ns);
        let compares = since_ns.is_some() || !counts;
        let shown = std::mem::take(&mut self.shown);
        let each = self.lines == Lines::All || screen.is_json();
        if compares {
            self.table.sample(time_ns);
        }
        for (key, row) in now {
            let before = shown.get(&key).zip(since_ns);
            let rate = before.and_then(|(before, since)| {
                // A counter that went back was reset.
                let grew = (row.value - before).max(0.0);
                per_s(grew, time_ns.saturating_sub(since))
            });
            let cumulative = row.cumulative;
            let line = Checked {
                row: Resource { time_ns, ..row },
                per_s: rate.filter(|_| cumulative),
            };
            match compares {
                true if each => screen.show(&line)?,
                true => self.table.add(&line, screen.how),
                false => {}
            }
            if cumulative {
                self.shown.insert(key.clone(), line.row.value);
                self.now.insert(key, line.row);
            }
        }
        if compares {
            if self.lines == Lines::Reports && !each {
                self.table.show(screen)?;
            }
            left_out.show::<Checked>(time_ns, screen)?;
            screen.end_report();
        }
        Ok(())
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        match self.lines {
            Lines::Worst if !screen.is_json() => self.table.show(screen),
            _ => Ok(()),
        }
    }
}
