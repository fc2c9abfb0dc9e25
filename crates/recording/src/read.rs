//! Reading a recording. Everything in it is hostile: damage gives an error that names the file.

use std::fs::{self, File};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};

use crate::events::Events;
use crate::table::Table;
use crate::{Error, Manifest};

/// Rows decoded at a time; bounds memory whatever the recording's size.
const BATCH_ROWS: usize = 8_192;
/// A row group we write holds 131,072 rows: a column that claims more than this is not ours.
const MAX_COLUMN_BYTES: i64 = 256 << 20;

/// Where a row is: the evidence behind a finding points to rows with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowRef {
    /// Table name.
    pub table: &'static str,
    /// Number of the segment file.
    pub segment: u32,
    /// Row within the segment, from 0.
    pub row: u32,
}

impl std::fmt::Display for RowRef {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}/{:06}#{}", self.table, self.segment, self.row)
    }
}

/// A recording opened for reading.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    /// What it is of.
    pub manifest: Manifest,
}

impl Recording {
    /// Opens the recording at `dir`.
    pub fn open(dir: &Path) -> Result<Recording, Error> {
        Ok(Recording::new(dir, Manifest::read(dir)?))
    }

    pub(crate) fn new(dir: &Path, manifest: Manifest) -> Recording {
        Recording {
            dir: dir.to_path_buf(),
            manifest,
        }
    }

    /// The recording's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The sealed segments of a table, in order. A table that was never written has none.
    pub fn segments(&self, table: &str) -> Result<Vec<(u32, PathBuf)>, Error> {
        let dir = self.dir.join(table);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io(&dir)(e)),
        };
        let mut segments = Vec::new();
        for entry in entries {
            let path = entry.map_err(Error::io(&dir))?.path();
            if path.extension().is_some_and(|e| e == "parquet") {
                let number = path.file_stem().and_then(|s| s.to_str());
                let number = number.and_then(|s| s.parse().ok());
                let number =
                    number.ok_or_else(|| Error::damaged(&path, "its name is not a number"))?;
                segments.push((number, path));
            }
        }
        segments.sort();
        Ok(segments)
    }

    /// All rows of a table, in batches, in order of time within each group of rows; of `event` only
    /// roughly ([`Recording::events`] puts them in order).
    pub fn scan<T: Table>(&self) -> Result<Scan<T>, Error> {
        Ok(Scan {
            segments: self.segments(T::INFO.name)?.into_iter(),
            open: None,
            row: PhantomData,
        })
    }

    /// All events in order of time, whole lives taken apart into the changes they were made of.
    pub fn events(&self) -> Result<Events, Error> {
        Ok(Events::new(self.scan()?))
    }

    /// How many rows a segment of a table has; `None` when there is no such segment.
    pub fn segment_rows(&self, table: &str, segment: u32) -> Result<Option<u64>, Error> {
        let path = self.segment_path(table, segment);
        if !path.exists() {
            return Ok(None);
        }
        let builder = open_segment(&path)?;
        Ok(u64::try_from(builder.metadata().file_metadata().num_rows()).ok())
    }
}

impl Recording {
    /// The rows of a segment with these numbers, which must rise; those beyond its end are left out.
    pub(crate) fn rows_at<T: Table>(
        &self,
        segment: u32,
        rows: &[u32],
    ) -> Result<Vec<(RowRef, T)>, Error> {
        let path = self.segment_path(T::INFO.name, segment);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let builder = open_segment(&path)?;
        let of = usize::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let there = rows.partition_point(|row| (*row as usize) < of);
        let wanted = &rows[..there];
        let ranges = wanted.iter().map(|row| *row as usize..*row as usize + 1);
        let selection = RowSelection::from_consecutive_ranges(ranges, of);
        let mut reader = guarded(&path, || {
            let builder = builder.with_batch_size(BATCH_ROWS);
            builder.with_row_selection(selection).build()
        })?;
        let mut found = Vec::with_capacity(wanted.len());
        while let Some(batch) = guarded(&path, || reader.next().transpose())? {
            let batch = Batch::<T>::of(&batch, &path, segment, 0)?;
            for i in 0..batch.len() {
                let Some(row) = wanted.get(found.len()) else {
                    return Err(Error::damaged(&path, "more rows than were asked for"));
                };
                let place = RowRef {
                    table: T::INFO.name,
                    segment,
                    row: *row,
                };
                found.push((place, batch.row(i).1));
            }
        }
        Ok(found)
    }

    fn segment_path(&self, table: &str, segment: u32) -> PathBuf {
        self.dir.join(table).join(format!("{segment:06}.parquet"))
    }
}

/// The batches of a table.
pub struct Scan<T> {
    segments: std::vec::IntoIter<(u32, PathBuf)>,
    open: Option<OpenSegment>,
    row: PhantomData<T>,
}

struct OpenSegment {
    number: u32,
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    next_row: u32,
}

/// Some consecutive rows of one segment.
pub struct Batch<T: Table> {
    pub(crate) reader: T::Reader,
    pub(crate) segment: u32,
    first_row: u32,
    len: usize,
}

impl<T: Table> Batch<T> {
    /// Reads a batch; `path` is where it comes from, for the error.
    pub(crate) fn of(
        batch: &RecordBatch,
        path: &Path,
        segment: u32,
        first_row: u32,
    ) -> Result<Batch<T>, Error> {
        let reader = T::reader(batch).map_err(|column| {
            Error::damaged(
                path,
                format!("column {column} is missing or of another type"),
            )
        })?;
        Ok(Batch {
            reader,
            segment,
            first_row,
            len: batch.num_rows(),
        })
    }

    /// The rows with where they are.
    pub fn rows(&self) -> impl Iterator<Item = (RowRef, T)> + '_ {
        (0..self.len).map(|i| self.row(i))
    }

    /// How many rows.
    #[allow(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Row `i` of the batch, which must be less than [`Batch::len`].
    pub fn row(&self, i: usize) -> (RowRef, T) {
        let at = RowRef {
            table: T::INFO.name,
            segment: self.segment,
            row: self.first_row + i as u32,
        };
        (at, T::get(&self.reader, i))
    }
}

impl<T: Table> Iterator for Scan<T> {
    type Item = Result<Batch<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.open.is_none() {
                let (number, path) = self.segments.next()?;
                match open_segment(&path).and_then(|b| {
                    let reader = b.with_batch_size(BATCH_ROWS).build();
                    reader.map_err(|e| Error::damaged(&path, e))
                }) {
                    Ok(reader) => {
                        self.open = Some(OpenSegment {
                            number,
                            path,
                            reader,
                            next_row: 0,
                        });
                    }
                    Err(e) => return Some(Err(e)),
                }
            }
            let open = self.open.as_mut()?;
            match next_batch(open) {
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) => self.open = None,
                Err(e) => {
                    // After damage nothing further is read from this table.
                    self.open = None;
                    self.segments = Vec::new().into_iter();
                    return Some(Err(e));
                }
            }
        }
    }
}

fn next_batch<T: Table>(open: &mut OpenSegment) -> Result<Option<Batch<T>>, Error> {
    let path = &open.path;
    let reader = &mut open.reader;
    let Some(batch) = guarded(path, || reader.next().transpose())? else {
        return Ok(None);
    };
    let first_row = open.next_row;
    open.next_row = u32::try_from(batch.num_rows())
        .ok()
        .and_then(|len| first_row.checked_add(len))
        .ok_or_else(|| Error::damaged(path, "more rows than a segment can have"))?;
    Batch::of(&batch, path, open.number, first_row).map(Some)
}

fn open_segment(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    let builder = guarded(path, || ParquetRecordBatchReaderBuilder::try_new(file))?;
    for group in builder.metadata().row_groups() {
        for column in group.columns() {
            if !(0..=MAX_COLUMN_BYTES).contains(&column.uncompressed_size()) {
                return Err(Error::damaged(path, "a column claims an impossible size"));
            }
        }
    }
    Ok(builder)
}

/// Runs a call into the Parquet library. It reports damage as errors, but a panic on some input
/// nobody thought of must not end a diagnosis either: it becomes the same error.
fn guarded<T, E: ToString>(path: &Path, call: impl FnOnce() -> Result<T, E>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|e| Error::damaged(path, e)),
        Err(_) => Err(Error::damaged(path, "the Parquet reader gave up on it")),
    }
}
