//! The rows of a table, a batch at a time, one segment after the other.

use std::io::ErrorKind;
use std::marker::PhantomData;
use std::path::Path;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::guard::guarded;
use crate::leg::Wanted;
use crate::mapping::Mapping;
use crate::segment::{SegmentFile, wrong_column};
use crate::span::{Span, times};
use crate::table::Table;
use crate::{Error, RowRef, limits};

/// The batches of a table.
pub struct Scan<T> {
    wanted: std::vec::IntoIter<Wanted>,
    open: Option<OpenSegment>,
    /// Of the segments opened so far.
    rows: u64,
    bytes: u64,
    mapping: Mapping,
    row: PhantomData<T>,
}

struct OpenSegment {
    file: SegmentFile,
    /// What rows of it are named by.
    segment: u32,
    /// The time that is asked for; `None` for all of it.
    span: Option<Span>,
    next_group: usize,
    /// A group, and how many of its rows are still to come.
    group: Option<(ParquetRecordBatchReader, usize)>,
    next_row: u32,
}

/// Some rows of one segment, in its order.
pub struct Batch<T: Table> {
    pub(crate) reader: T::Reader,
    pub(crate) segment: u32,
    /// What its columns take, bytes; columns that share a dictionary each count it.
    pub(crate) bytes: usize,
    first_row: u32,
    len: usize,
    /// Which rows those are; `None` for all.
    kept: Option<Vec<u32>>,
    /// The time that was asked for; `None` for all of it.
    pub(crate) span: Option<Span>,
}

impl<T: Table> Batch<T> {
    /// Reads a batch; `path` is where it comes from, for the error.
    pub(crate) fn of(
        batch: RecordBatch,
        path: &Path,
        segment: u32,
        first_row: u32,
    ) -> Result<Batch<T>, Error> {
        let reader = T::reader(&batch).map_err(|column| wrong_column(path, column))?;
        Ok(Batch {
            reader,
            segment,
            bytes: batch.get_array_memory_size(),
            first_row,
            len: batch.num_rows(),
            kept: None,
            span: None,
        })
    }

    /// Of these rows, those that tell of something within `span`.
    pub(crate) fn within(
        batch: RecordBatch,
        path: &Path,
        segment: u32,
        first_row: u32,
        span: Option<Span>,
    ) -> Result<Batch<T>, Error> {
        let times = span.and_then(|span| Some((span, times(&batch)?)));
        let kept: Option<Vec<u32>> = times.map(|(span, times)| {
            let meets = times.map(|(first, last)| span.meets(first, last));
            let rows = (0u32..).zip(meets);
            rows.filter_map(|(row, meets)| meets.then_some(row))
                .collect()
        });
        let mut batch = Batch::of(batch, path, segment, first_row)?;
        batch.span = span;
        if let Some(kept) = kept.filter(|kept| kept.len() < batch.len) {
            (batch.len, batch.kept) = (kept.len(), Some(kept));
        }
        Ok(batch)
    }

    /// Where in its columns row `i` of the batch is.
    pub(crate) fn index(&self, i: usize) -> usize {
        self.kept.as_ref().map_or(i, |kept| kept[i] as usize)
    }

    /// The rows with where they are.
    pub fn rows(&self) -> impl Iterator<Item = (RowRef, T)> + '_ {
        (0..self.len).map(|i| self.row(i))
    }

    /// How many rows.
    #[allow(clippy::len_without_is_empty, reason = "a scan gives no empty batch")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Row `i` of the batch, which must be less than [`Batch::len`].
    pub fn row(&self, i: usize) -> (RowRef, T) {
        let i = self.index(i);
        let at = RowRef {
            table: T::INFO.name,
            segment: self.segment,
            row: self.first_row + i as u32,
        };
        (at, T::get(&self.reader, i))
    }
}

impl<T: Table> Scan<T> {
    /// Of these segments, one after the other.
    pub(crate) fn new(wanted: Vec<Wanted>, mapping: Mapping) -> Scan<T> {
        Scan {
            wanted: wanted.into_iter(),
            open: None,
            rows: 0,
            bytes: 0,
            mapping,
            row: PhantomData,
        }
    }

    fn advance(&mut self) -> Result<Option<Batch<T>>, Error> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(wanted) = self.wanted.next() else {
                    return Ok(None);
                };
                let file = self.open(&wanted)?;
                if let Some(span) = wanted.span
                    && !file.meets::<T>(span)?
                {
                    continue;
                }
                self.open = Some(OpenSegment {
                    segment: wanted.base.saturating_add(file.number),
                    span: wanted.span,
                    file,
                    next_group: 0,
                    group: None,
                    next_row: 0,
                });
                continue;
            };
            match open.batch::<T>(&mut self.mapping)? {
                Some(batch) if batch.len == 0 => {}
                Some(batch) => return Ok(Some(batch)),
                None => self.open = None,
            }
        }
    }

    /// Opens a segment.
    fn open(&mut self, wanted: &Wanted) -> Result<SegmentFile, Error> {
        let (dir, number) = (&wanted.dir, wanted.number);
        let gone = || Error::io(&dir.path(number))(ErrorKind::NotFound.into());
        let file = SegmentFile::open(dir, number)?.ok_or_else(gone)?;
        self.rows += file.rows();
        self.bytes += file.bytes();
        if self.rows > limits::ROWS_FREE + self.bytes * limits::ROWS_PER_BYTE {
            let (rows, bytes) = (file.rows(), file.bytes());
            let why = format!("claims {rows} rows in {bytes} bytes, more than can be in them");
            return Err(Error::damaged(&file.path, why));
        }
        Ok(file)
    }
}

impl<T: Table> Iterator for Scan<T> {
    type Item = Result<Batch<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            // After damage nothing further is read from this table.
            self.open = None;
            self.wanted = Vec::new().into_iter();
        }
        next.transpose()
    }
}

impl OpenSegment {
    /// The next rows; `None` at the end.
    fn batch<T: Table>(&mut self, mapping: &mut Mapping) -> Result<Option<Batch<T>>, Error> {
        let path = &self.file.path;
        loop {
            let Some((reader, left)) = &mut self.group else {
                let Some(rows) = self.file.groups().nth(self.next_group) else {
                    return Ok(None);
                };
                let reader = self.file.group::<T>(self.next_group, None)?;
                self.next_group += 1;
                self.group = Some((reader, rows));
                continue;
            };
            match guarded(path, || reader.next().transpose())? {
                Some(batch) if batch.num_rows() <= *left => {
                    *left -= batch.num_rows();
                    let first_row = self.next_row;
                    // A segment has no more rows than 32 bits can count.
                    self.next_row += batch.num_rows() as u32;
                    let batch = mapping.apply(batch);
                    return Batch::within(batch, path, self.segment, first_row, self.span)
                        .map(Some);
                }
                None if *left == 0 => self.group = None,
                _ => return Err(Error::damaged(path, "the numbers of its rows do not fit")),
            }
        }
    }
}
