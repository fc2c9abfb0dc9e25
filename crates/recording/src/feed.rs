//! A recording that is read while it is written, without touching the disk: what live views show.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use arrow::array::RecordBatch;

use crate::table::Table;
use crate::write::Place;
use crate::{Batch, Error, Writer};

/// Segments that may wait for the reader; a producer that finds them all taken waits.
const WAITING: usize = 256;

/// Where the segments of a live recording arrive.
pub struct Feed(Receiver<Segment>);

/// Some rows of one table.
pub struct Segment {
    table: &'static str,
    batch: RecordBatch,
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
    /// A writer and where what it writes arrives.
    pub fn new() -> (Writer, Feed) {
        let (sender, receiver) = sync_channel(WAITING);
        (Writer::to(Place::Feed(sender)), Feed(receiver))
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
    pub(crate) fn new(table: &'static str, batch: RecordBatch) -> Segment {
        Segment { table, batch }
    }

    /// Its table's name.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Its rows; `None` when it is of another table.
    pub fn rows<T: Table>(&self) -> Option<Result<Batch<T>, Error>> {
        (self.table == T::INFO.name).then(|| Batch::of(&self.batch, self.table.as_ref(), 0, 0))
    }
}
