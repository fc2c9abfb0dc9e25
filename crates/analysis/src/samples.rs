//! The rows of the socket table, one after the other, as far as a moment.

use recording::tables::Socket;
use recording::{Ahead, Error, RowRef, Scan};

/// Them, and the one that is due next.
pub(crate) struct Samples {
    rows: Ahead<Result<(RowRef, Socket), Error>>,
    next: Option<(RowRef, Socket)>,
}

impl Samples {
    pub(crate) fn new(scan: Scan<Socket>) -> Result<Samples, Error> {
        let rows = scan.flat_map(|batch| match batch {
            Ok(batch) => batch.rows().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        let mut rows = Ahead::new(rows);
        let next = rows.next().transpose()?;
        Ok(Samples { rows, next })
    }

    /// The next sample unless it is later than `time_ns`.
    pub(crate) fn before(&mut self, time_ns: u64) -> Result<Option<(RowRef, Socket)>, Error> {
        if !matches!(&self.next, Some((_, row)) if row.time_ns <= time_ns) {
            return Ok(None);
        }
        let due = self.next.take();
        self.next = self.rows.next().transpose()?;
        Ok(due)
    }
}
