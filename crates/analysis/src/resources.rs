//! The USE checklist: by how much what counts up rose, and the limits it is seen against.

use recording::tables::Resource;
use recording::{RowRef, Text};

use crate::bounded::{BoundedTree, Interest};

/// Lines followed; a host has some hundreds.
const MAX_LINES: usize = 100_000;

/// Every line, by resource, metric, instance and namespace.
#[derive(Debug, Default)]
pub struct Resources {
    lines: BoundedTree<Name, Line, MAX_LINES>,
}

type Name = (Text, Text, Text, u32);

/// One line, at first and at last.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub first: f64,
    pub last: f64,
    pub limit: Option<f64>,
    pub row: RowRef,
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
        let name = (row.resource, row.metric, row.instance, row.netns);
        let line = self.lines.slot(name, || Line {
            first: row.value,
            last: row.value,
            limit: row.limit,
            row: at,
            rows: 0,
        });
        line.rows += 1;
        (line.last, line.limit, line.row) = (row.value, row.limit, at);
    }

    /// The instances of a metric, with their lines.
    pub fn of<'a>(
        &'a self,
        resource: &'a str,
        metric: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Line)> {
        let of = self
            .lines
            .iter()
            .filter(move |((r, m, ..), _)| &**r == resource && &**m == metric);
        of.map(|((_, _, instance, _), line)| (&**instance, line))
    }
}

impl Line {
    /// By how much it rose.
    pub fn rise(&self) -> f64 {
        let rise = self.last - self.first;
        if rise.is_finite() { rise.max(0.0) } else { 0.0 }
    }
}
