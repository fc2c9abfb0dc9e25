//! Lookup structures of the kernel: how full each was at its fullest and at the end.

use ahash::AHashMap;
use recording::tables::{Resource, TableSize};
use recording::{Error, Recording, RowRef};

/// More than this do not come from a host of ours: 10,000 namespaces with 20 structures.
const MAX_STRUCTURES: usize = 200_000;

/// All structures that were counted.
#[derive(Debug, Default)]
pub(crate) struct Structures {
    sizes: AHashMap<(u32, Box<str>), Sized>,
    /// What conntrack counts as errors, per namespace and metric: its rise.
    conntrack: AHashMap<(u32, Box<str>), (f64, f64, RowRef)>,
}

#[derive(Clone, Copy, Debug)]
struct Sized {
    first: Size,
    fullest: Size,
    last: Size,
}

/// One count of a structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) time_ns: u64,
    pub(crate) entries: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) row: RowRef,
}

impl Structures {
    pub(crate) fn read(recording: &Recording) -> Result<Structures, Error> {
        let mut all = Structures::default();
        for batch in recording.scan::<TableSize>()? {
            for (at, row) in batch?.rows() {
                all.size(at, &row);
            }
        }
        for batch in recording.scan::<Resource>()? {
            for (at, row) in batch?.rows() {
                if &*row.instance == "conntrack" {
                    all.conntrack_error(at, &row);
                }
            }
        }
        Ok(all)
    }

    fn size(&mut self, at: RowRef, row: &TableSize) {
        let key = (row.netns, Box::from(&*row.structure));
        if self.sizes.len() >= MAX_STRUCTURES && !self.sizes.contains_key(&key) {
            return;
        }
        let size = Size {
            time_ns: row.time_ns,
            entries: row.entries,
            limit: row.limit,
            row: at,
        };
        let known = self.sizes.entry(key).or_insert(Sized {
            first: size,
            fullest: size,
            last: size,
        });
        known.last = size;
        if size.entries > known.fullest.entries {
            known.fullest = size;
        }
    }

    fn conntrack_error(&mut self, at: RowRef, row: &Resource) {
        let key = (row.netns, Box::from(&*row.metric));
        if self.conntrack.len() < MAX_STRUCTURES || self.conntrack.contains_key(&key) {
            let first = (row.value, row.value, at);
            let (_, last, place) = self.conntrack.entry(key).or_insert(first);
            (*last, *place) = (row.value, at);
        }
    }

    /// A structure of a namespace when it was fullest.
    pub(crate) fn fullest(&self, netns: u32, name: &str) -> Option<Size> {
        let known = self.sizes.get(&(netns, name.into()))?;
        Some(known.fullest)
    }

    /// The same at the first count.
    pub(crate) fn first(&self, netns: u32, name: &str) -> Option<Size> {
        let known = self.sizes.get(&(netns, name.into()))?;
        Some(known.first)
    }

    /// The same at the last count.
    pub(crate) fn last(&self, netns: u32, name: &str) -> Option<Size> {
        let known = self.sizes.get(&(netns, name.into()))?;
        Some(known.last)
    }

    /// By how much an error that conntrack counts rose in a namespace, and the last row; `None`
    /// when it is not counted there.
    pub(crate) fn conntrack(&self, netns: u32, metric: &str) -> Option<(u64, RowRef)> {
        let (first, last, row) = self.conntrack.get(&(netns, metric.into()))?;
        Some(((last - first).max(0.0) as u64, *row))
    }
}
