//! The rows of the socket table, one after the other, as far as a moment.

use recording::tables::Socket;
use recording::{Ahead, Batch, Error, RowRef, Scan};

/// Them, and the one that is due next.
pub(crate) struct Samples {
    batches: Ahead<Result<Batch<Socket>, Error>>,
    rows: std::vec::IntoIter<(RowRef, Socket)>,
    next: Option<(RowRef, Socket)>,
}

impl Samples {
    pub(crate) fn new(scan: Scan<Socket>) -> Result<Samples, Error> {
        let mut samples = Samples {
            batches: Ahead::new(scan),
            rows: Vec::new().into_iter(),
            next: None,
        };
        samples.advance()?;
        Ok(samples)
    }

    /// The next sample unless it is later than `time_ns`.
    pub(crate) fn before(&mut self, time_ns: u64) -> Result<Option<(RowRef, Socket)>, Error> {
        if !matches!(&self.next, Some((_, row)) if row.time_ns <= time_ns) {
            return Ok(None);
        }
        let due = self.next.take();
        self.advance()?;
        Ok(due)
    }

    fn advance(&mut self) -> Result<(), Error> {
        loop {
            if let Some(row) = self.rows.next() {
                self.next = Some(row);
                return Ok(());
            }
            match self.batches.next() {
                Some(batch) => self.rows = batch?.rows().collect::<Vec<_>>().into_iter(),
                None => return Ok(()),
            }
        }
    }
}
