//! The USE checklist: by how much cumulative metrics rose, how high the others were at most, and against which
//! limits.

use recording::tables::Resource;
use recording::{RowRef, Text};

use crate::bounded::{BoundedTree, Interest};
use crate::stats::ratio;

/// Lines followed; a host has a few hundred.
const MAX_LINES: usize = 100_000;

/// Every line, by its name.
#[derive(Debug, Default)]
pub struct Resources {
    lines: BoundedTree<Name, Line, MAX_LINES>,
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Network namespace; 0 is the whole host.
    pub netns: u32,
    /// Kind of resource.
    pub resource: Text,
    /// Which one of its kind.
    pub instance: Text,
    /// Utilisation, saturation or errors.
    pub aspect: Text,
    /// What is measured.
    pub metric: Text,
}

/// One line: first, greatest and last value.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its value when it was first read.
    pub first: f64,
    /// Its greatest value.
    pub most: f64,
    /// Its value when it was last read.
    pub last: f64,
    /// What it cannot exceed, as last read.
    pub limit: Option<f64>,
    /// It counts up; a limit applies to its rise per second.
    pub cumulative: bool,
    /// The last row.
    pub row: RowRef,
    /// When the first and the last row were read.
    between_ns: (u64, u64),
    rows: u64,
}

/// What rose, and what has a limit, before what stood still.
impl Interest for Line {
    fn interest(&self) -> u64 {
        (self.rise() > 0.0 || self.limit.is_some()).into()
    }
    fn counted(&self) -> u64 {
        self.rows
    }
}

impl Resources {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.lines.folded()
    }

    /// Takes a row.
    pub(crate) fn add(&mut self, at: RowRef, row: Resource) {
        let name = Name {
            netns: row.netns,
            resource: row.resource,
            instance: row.instance,
            aspect: row.aspect,
            metric: row.metric,
        };
        let line = self.lines.slot(name, || Line {
            first: row.value,
            most: row.value,
            last: row.value,
            limit: row.limit,
            cumulative: row.cumulative,
            row: at,
            between_ns: (row.time_ns, row.time_ns),
            rows: 0,
        });
        line.rows += 1;
        line.most = line.most.max(row.value);
        line.between_ns.1 = row.time_ns;
        (line.last, line.limit, line.row) = (row.value, row.limit, at);
    }

    /// All of them, with their names.
    pub fn all(&self) -> impl Iterator<Item = (&Name, &Line)> {
        self.lines.iter()
    }

    /// The instances of a metric, with their lines.
    pub fn of<'a>(
        &'a self,
        resource: &'a str,
        metric: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Line)> {
        let of = self.lines.iter();
        let of = of.filter(move |(n, _)| &*n.resource == resource && &*n.metric == metric);
        of.map(|(name, line)| (&*name.instance, line))
    }
}

impl Line {
    /// By how much it rose.
    pub fn rise(&self) -> f64 {
        let rise = self.last - self.first;
        if rise.is_finite() { rise.max(0.0) } else { 0.0 }
    }

    /// Its greatest value; if it counts up, its rise.
    pub fn amount(&self) -> f64 {
        if self.cumulative {
            self.rise()
        } else {
            self.most
        }
    }

    /// Whether it was read more than once: before that, what counts up says nothing.
    pub fn compares(&self) -> bool {
        self.between_ns.1 > self.between_ns.0
    }

    /// How full it was at most, from 0 on; if it counts up, on average. `None` without a limit.
    pub fn share(&self) -> Option<f64> {
        let (first, last) = self.between_ns;
        let against = if self.cumulative {
            ratio(self.rise(), last.saturating_sub(first) as f64 / 1e9)?
        } else {
            self.most
        };
        share(against, self.limit)
    }
}

/// How much of a limit a value, or a rise per second, is: 1 is all. `None` without a limit.
pub fn share(value: f64, limit: Option<f64>) -> Option<f64> {
    ratio(value, limit?)
}
