//! One directory of segments, and which part of its time is read. A recording has one; what is read of a store has several.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::fstat;

use crate::files::TableDir;
use crate::segment::SegmentFile;
use crate::span::Span;
use crate::table::TableInfo;
use crate::{Error, limits};

/// Rows lie about in order of time: a life that ended is told a second later, a wait when its thread runs again. Who looks
/// for a time by the times of segments looks so much further, ns.
const DISORDER_NS: u64 = 10_000_000_000;
/// Looking for a time opens some files; of so few all are read.
const FEW: usize = 8;

/// A directory with a directory of segments for each table.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    pub(crate) dir: PathBuf,
    /// What errors call it: of one that was unpacked the file that the user named.
    pub(crate) shown: PathBuf,
    /// Its recorder ended it: no segment is torn.
    pub(crate) complete: bool,
    /// The time that is read; `None` for all of it.
    pub(crate) span: Option<Span>,
    /// Its directory, where that may get another name while it is read.
    pub(crate) held: Option<Arc<OwnedFd>>,
}

/// A segment to read: where it is, how rows of it are named, and what of its time is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) dir: Arc<TableDir>,
    pub(crate) number: u32,
    /// What is added to its number to name it.
    pub(crate) base: u32,
    pub(crate) span: Option<Span>,
}

/// What is added to the numbers of segments of this leg.
pub(crate) fn base(leg: usize) -> u32 {
    u32::try_from(leg.saturating_mul(limits::SEGMENTS)).unwrap_or(u32::MAX)
}

/// The leg of a segment that is named so, of so many, and its number there.
pub(crate) fn place(segment: u32, legs: usize) -> (usize, u32) {
    let leg = (segment as usize / limits::SEGMENTS).min(legs.saturating_sub(1));
    (leg, segment - base(leg))
}

impl Leg {
    /// The directory of a table; `None` when it was never written.
    pub(crate) fn table(&self, table: &str) -> Result<Option<TableDir>, Error> {
        match &self.held {
            Some(dir) => {
                let found = TableDir::within(dir, &self.shown, table)?;
                // What was removed meanwhile is not a recording without that table.
                let is_gone = fstat(dir).is_ok_and(|stat| stat.st_nlink == 0);
                if found.is_none() && is_gone {
                    return Err(Error::Missing(self.shown.clone()));
                }
                Ok(found)
            }
            None => TableDir::open(&self.dir, &self.shown, table),
        }
    }

    /// The numbers of the segments of a table that are read, in order.
    pub(crate) fn whole(&self, dir: &TableDir) -> Result<Vec<u32>, Error> {
        let mut numbers = dir.numbers()?;
        if !self.complete {
            while let Some(&last) = numbers.last()
                && SegmentFile::is_torn(dir, last)
            {
                numbers.pop();
            }
        }
        Ok(numbers)
    }

    /// Those of them that can hold something of the time that is read.
    pub(crate) fn wanted(&self, table: &TableInfo, at: usize) -> Result<Vec<Wanted>, Error> {
        let Some(dir) = self.table(table.name)? else {
            return Ok(Vec::new());
        };
        let mut numbers = self.whole(&dir)?;
        let span = self.span.map(|span| span.of(table));
        if let Some(span) = span.filter(|_| numbers.len() > FEW) {
            // A segment that cannot be read is wanted: reading it says what is wrong.
            let last = |number: &u32| SegmentFile::open(&dir, *number).ok()??.last_ns();
            let ends_before = |number: &u32, ns: u64| last(number).is_some_and(|last| last < ns);
            let from = span.from_ns.saturating_sub(DISORDER_NS);
            let to = span.to_ns.saturating_add(DISORDER_NS);
            let end = numbers.partition_point(|n| ends_before(n, to)) + 1;
            numbers.truncate(end);
            numbers.drain(..numbers.partition_point(|n| ends_before(n, from)));
        }
        let dir = Arc::new(dir);
        let wanted = numbers.into_iter().map(|number| Wanted {
            dir: dir.clone(),
            number,
            base: base(at),
            span,
        });
        Ok(wanted.collect())
    }
}
