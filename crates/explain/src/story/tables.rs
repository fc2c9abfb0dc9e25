//! The kernel's lookup structures: how full each was, at first and at its fullest.

use std::collections::BTreeMap;

use recording::tables::TableSize;
use recording::{Error, Recording, RowRef, Text};

/// Structures followed: 10,000 namespaces with ten of them.
const MAX_STRUCTURES: usize = 100_000;

/// Every structure, by its name and namespace; namespace 0 is the whole host.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    all: BTreeMap<(Text, u32), Structure>,
}

/// One structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Structure {
    pub(crate) first: Size,
    /// At its fullest.
    pub(crate) fullest: Size,
}

/// How full it was when it was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) row: RowRef,
    pub(crate) time_ns: u64,
    pub(crate) entries: u64,
    pub(crate) buckets: Option<u64>,
    pub(crate) longest_chain: Option<u64>,
}

impl Tables {
    pub(crate) fn read(recording: &Recording) -> Result<Tables, Error> {
        let mut tables = Tables::default();
        for batch in recording.scan::<TableSize>()? {
            for (at, row) in batch?.rows() {
                tables.add(at, row);
            }
        }
        Ok(tables)
    }

    fn add(&mut self, row: RowRef, size: TableSize) {
        let now = Size {
            row,
            time_ns: size.time_ns,
            entries: size.entries,
            buckets: size.buckets,
            longest_chain: size.longest_chain,
        };
        let key = (size.structure, size.netns);
        if self.all.len() >= MAX_STRUCTURES && !self.all.contains_key(&key) {
            return;
        }
        let known = self.all.entry(key).or_insert(Structure {
            first: now,
            fullest: now,
        });
        if now.entries > known.fullest.entries {
            known.fullest = now;
        }
    }

    /// Those of a name, by namespace.
    pub(crate) fn named(&self, structure: &str) -> impl Iterator<Item = (u32, &Structure)> {
        let from = (Text::from(structure), 0);
        let to = (Text::from(structure), u32::MAX);
        self.all.range(from..=to).map(|((_, netns), s)| (*netns, s))
    }
}

impl Size {
    /// Entries per bucket; `None` when it is no hash table.
    pub(crate) fn chain(&self) -> Option<f64> {
        super::stats::ratio(self.entries as f64, self.buckets? as f64)
    }
}
