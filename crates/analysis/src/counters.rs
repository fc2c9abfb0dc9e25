//! Counters per namespace: what each was, by how much it rose, and the rows that say so.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use recording::RowRef;
use recording::tables::Counter;

/// More series than this do not come from a real host: 1,000 namespaces with 300 counters.
const MAX_SERIES: usize = 300_000;

/// Every counter of every namespace.
#[derive(Debug, Default)]
pub struct Counters {
    series: AHashMap<(u32, Box<str>), Series>,
    namespaces: AHashSet<u32>,
    /// Rows of series beyond the bound.
    pub folded: u64,
}

#[derive(Clone, Copy, Debug)]
struct Series {
    last_value: i64,
    rise: u64,
    last_row: RowRef,
    /// The row with the largest rise, and that rise.
    steepest: Option<(RowRef, i64)>,
}

/// A counter's rise during the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rise {
    /// By how much it rose.
    pub by: u64,
    /// Its value at the end, since the namespace was made.
    pub value: u64,
    rows: [Option<RowRef>; 2],
}

impl Rise {
    /// The row where it rose most, and the last.
    pub fn rows(self) -> impl Iterator<Item = RowRef> {
        self.rows.into_iter().flatten()
    }
}

impl Counters {
    /// Takes a row.
    pub(crate) fn add(&mut self, at: RowRef, row: &Counter) {
        let key = (row.netns, name_of(&row.group, &row.name));
        if self.series.len() >= MAX_SERIES && !self.series.contains_key(&key) {
            self.folded += 1;
            return;
        }
        self.namespaces.insert(row.netns);
        let series = self.series.entry(key).or_insert(Series {
            last_value: row.value,
            rise: 0,
            last_row: at,
            steepest: None,
        });
        series.last_value = row.value;
        series.last_row = at;
        let delta = row.delta.unwrap_or(0);
        // A gauge (CurrEstab) also falls; only rises are summed.
        series.rise = series.rise.saturating_add(delta.max(0) as u64);
        if delta > 0 && series.steepest.is_none_or(|(_, most)| delta > most) {
            series.steepest = Some((at, delta));
        }
    }

    /// The rise of `TcpExt.ListenOverflows` and the like; zero when it was never seen.
    pub fn rise(&self, netns: u32, name: &str) -> Rise {
        match self.series.get(&(netns, name.into())) {
            Some(s) => Rise {
                by: s.rise,
                value: u64::try_from(s.last_value).unwrap_or(0),
                rows: [s.steepest.map(|(row, _)| row), Some(s.last_row)],
            },
            None => Rise::default(),
        }
    }

    /// The rise of a counter in each namespace that has it, in a fixed order.
    pub fn rises(&self, name: &str) -> BTreeMap<u32, Rise> {
        let with = self.series.keys().filter(|(_, known)| &**known == name);
        with.map(|(netns, _)| (*netns, self.rise(*netns, name)))
            .collect()
    }

    /// How fast each counter rose, over all namespaces, per second.
    pub fn per_second(&self, seconds: f64) -> BTreeMap<String, f64> {
        let mut rates: BTreeMap<String, f64> = BTreeMap::new();
        for ((_, name), series) in &self.series {
            *rates.entry(name.to_string()).or_default() += series.rise as f64 / seconds;
        }
        rates
    }

    /// How many there are, over all namespaces.
    pub fn count(&self) -> u64 {
        self.series.len() as u64
    }

    /// Whether any counter of the namespace was read: if none was, a zero says nothing.
    pub fn covers(&self, netns: u32) -> bool {
        self.namespaces.contains(&netns)
    }

    /// The named counters that rose, with their rise over all namespaces, by name.
    pub fn risen<'a>(&self, names: &[&'a str]) -> BTreeMap<&'a str, u64> {
        let mut risen = BTreeMap::new();
        for ((_, name), series) in &self.series {
            if let Some(known) = names.iter().find(|n| **n == &**name)
                && series.rise > 0
            {
                let sum: &mut u64 = risen.entry(*known).or_default();
                *sum = sum.saturating_add(series.rise);
            }
        }
        risen
    }
}

fn name_of(group: &str, name: &str) -> Box<str> {
    format!("{group}.{name}").into()
}
