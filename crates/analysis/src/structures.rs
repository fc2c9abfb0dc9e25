//! The kernel's lookup structures: how full each was, at first, at its fullest and at the end.

use recording::tables::{Resource, TableSize};
use recording::{RowRef, Text};

use crate::bounded::{BoundedMap, BoundedTree, Interest};
use crate::stats::ratio;

/// Structures followed: 10,000 namespaces with twenty of them.
const MAX_STRUCTURES: usize = 200_000;

/// Every structure, by its name and namespace; namespace 0 is the whole host.
#[derive(Debug, Default)]
pub struct Structures {
    all: BoundedTree<(Text, u32), Structure, MAX_STRUCTURES>,
    /// What conntrack counts as errors, per namespace and metric.
    conntrack: BoundedMap<(u32, Text), Errors, MAX_STRUCTURES>,
}

/// One structure.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// When first looked at.
    pub first: Size,
    /// At its fullest.
    pub fullest: Size,
    /// When last looked at.
    pub last: Size,
    /// The fewest entries that it had.
    pub least: u64,
    /// How often it was looked at.
    times: u64,
}

/// By how full it was.
impl Interest for Structure {
    fn interest(&self) -> u64 {
        self.fullest.entries
    }
    fn counted(&self) -> u64 {
        self.times
    }
}

/// What conntrack counts as one kind of error: first, last, where.
#[derive(Clone, Copy, Debug)]
struct Errors {
    first: f64,
    last: f64,
    row: RowRef,
    rows: u64,
}

impl Errors {
    fn rise(&self) -> u64 {
        (self.last - self.first).max(0.0) as u64
    }
}

/// By how many there were.
impl Interest for Errors {
    fn interest(&self) -> u64 {
        self.rise()
    }
    fn counted(&self) -> u64 {
        self.rows
    }
}

/// How full it was when it was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The row.
    pub row: RowRef,
    /// When it was read.
    pub time_ns: u64,
    /// Entries.
    pub entries: u64,
    /// Buckets; `None` when it is not a hash table or that is not known.
    pub buckets: Option<u64>,
    /// Entries at which the kernel refuses or throws away.
    pub limit: Option<u64>,
    /// Longest chain, entries; `None` when the chains were not walked.
    pub longest_chain: Option<u64>,
}

impl Structures {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.all.folded() + self.conntrack.folded()
    }

    /// Takes a row.
    pub(crate) fn size(&mut self, row: RowRef, size: TableSize) {
        let now = Size {
            row,
            time_ns: size.time_ns,
            entries: size.entries,
            buckets: size.buckets,
            limit: size.limit,
            longest_chain: size.longest_chain,
        };
        let key = (size.structure, size.netns);
        let known = self.all.slot(key, || Structure {
            first: now,
            fullest: now,
            last: now,
            least: now.entries,
            times: 0,
        });
        known.times += 1;
        known.last = now;
        known.least = known.least.min(now.entries);
        let fullest = &mut known.fullest;
        // The first of equals, but a sample with its buckets before one without.
        let tells_more = now.buckets.is_some() && fullest.buckets.is_none();
        if now.entries > fullest.entries || now.entries == fullest.entries && tells_more {
            *fullest = now;
        }
    }

    /// Takes a row of the checklist.
    pub(crate) fn resource(&mut self, at: RowRef, row: &Resource) {
        if &*row.instance != "conntrack" {
            return;
        }
        let key = (row.netns, row.metric.clone());
        let errors = self.conntrack.slot(key, || Errors {
            first: row.value,
            last: row.value,
            row: at,
            rows: 0,
        });
        (errors.last, errors.row) = (row.value, at);
        errors.rows += 1;
    }

    /// All of them, by name and namespace.
    pub fn all(&self) -> impl Iterator<Item = (&(Text, u32), &Structure)> {
        self.all.iter()
    }

    /// Those of a name, by namespace.
    pub fn named(&self, structure: &str) -> impl Iterator<Item = (u32, &Structure)> {
        let from = (Text::from(structure), 0);
        let to = (Text::from(structure), u32::MAX);
        self.all.range(from..=to).map(|((_, netns), s)| (*netns, s))
    }

    /// That of a name in a namespace.
    pub fn get(&self, netns: u32, structure: &str) -> Option<&Structure> {
        self.all.get(&(Text::from(structure), netns))
    }

    /// By how much an error that conntrack counts rose in a namespace, and the last row; `None`
    /// when it is not counted there.
    pub fn conntrack(&self, netns: u32, metric: &str) -> Option<(u64, RowRef)> {
        let errors = self.conntrack.get(&(netns, Text::from(metric)))?;
        Some((errors.rise(), errors.row))
    }
}

impl Structure {
    /// By how many entries it grew and shrank.
    pub fn range(&self) -> u64 {
        self.fullest.entries - self.least
    }
}

impl Size {
    /// Entries per bucket; `None` when it is not a hash table.
    pub fn chain(&self) -> Option<f64> {
        chain(self.entries, self.buckets)
    }

    /// How full it is, from 0 on; `None` without a limit.
    pub fn share(&self) -> Option<f64> {
        share(self.entries, self.limit)
    }
}

/// The chain that a lookup walks on average: entries per bucket.
pub fn chain(entries: u64, buckets: Option<u64>) -> Option<f64> {
    ratio(entries as f64, buckets? as f64)
}

/// How full a structure is, from 0 on; 1 is full.
pub fn share(entries: u64, limit: Option<u64>) -> Option<f64> {
    ratio(entries as f64, limit? as f64)
}
