//! A recording that is read while it is written, without touching the disk: what live views show.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;

use crate::table::Table;
use crate::{Batch, Error};

/// Segments that may wait for the reader; a producer that finds them all taken waits.
const WAITING: usize = 256;

/// Where the segments of a live recording arrive.
pub struct Feed(Receiver<Segment>);

/// Some rows of one table.
pub struct Segment {
    table: &'static str,
    batch: RecordBatch,
    /// The file that holds them, too; 0 for none.
    number: u32,
    /// Where they begin in that file.
    first_row: u32,
}

/// What came of waiting for a segment.
pub enum Next {
    /// A segment.
    Segment(Segment),
    /// None came in time.
    Nothing,
    /// The recording has ended and everything was read.
    End,
}

impl Feed {
    /// Where a writer sends segments, and where they arrive.
    pub(crate) fn channel() -> (SyncSender<Segment>, Feed) {
        let (sender, receiver) = sync_channel(WAITING);
        (sender, Feed(receiver))
    }

    /// The next segment, waiting for it at most so long.
    pub fn next(&self, within: Duration) -> Next {
        match self.0.recv_timeout(within) {
            Ok(segment) => Next::Segment(segment),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }
}

impl Segment {
    /// Rows of a table that no file holds.
    pub(crate) fn new(table: &'static str, batch: RecordBatch) -> Segment {
        Segment {
            table,
            batch,
            number: 0,
            first_row: 0,
        }
    }

    /// The same rows, which file `number` holds, too, from `first_row` on.
    pub(crate) fn of_file(self, number: u32, first_row: u32) -> Segment {
        Segment {
            number,
            first_row,
            ..self
        }
    }

    /// The number of the file that holds its rows, too; `None` when none does.
    pub fn number(&self) -> Option<u32> {
        (self.number > 0).then_some(self.number)
    }

    /// The time of its latest row, ns of CLOCK_MONOTONIC.
    pub fn last_ns(&self) -> Option<u64> {
        let times = self.batch.columns().first()?;
        let times = times.as_primitive_opt::<UInt64Type>()?;
        times.values().iter().max().copied()
    }

    /// Its table's name.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Its rows; `None` when it is of another table.
    pub fn rows<T: Table>(&self) -> Option<Result<Batch<T>, Error>> {
        (self.table == T::INFO.name).then(|| {
            Batch::of(
                self.batch.clone(),
                self.table.as_ref(),
                self.number,
                self.first_row,
            )
        })
    }
}
