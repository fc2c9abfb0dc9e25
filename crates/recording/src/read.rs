//! A recording opened for reading. Everything in it is hostile: damage gives an error that names
//! the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowSelection;

use crate::events::Events;
use crate::files::TableDir;
use crate::guard::guarded;
use crate::mapping::Mapping;
use crate::scan::{Batch, Scan};
use crate::segment::SegmentFile;
use crate::span::Span;
use crate::table::Table;
use crate::unpack::Unpacked;
use crate::{Error, Filter, Manifest, Redactor, RowRef, Scratch, tables};

/// A recording opened for reading.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    /// What errors call it: of one that was unpacked the file that the user named.
    shown: PathBuf,
    /// Where it was unpacked: kept as long as it is read.
    unpacked: Option<Arc<Unpacked>>,
    /// What it is of.
    pub manifest: Manifest,
    redactor: Option<Arc<Redactor>>,
    /// Sentences are made of what is read.
    for_sentences: bool,
    /// The time that is read; `None` for all of it.
    span: Option<Span>,
    /// Segments at the ends of its tables that are passed over.
    torn: usize,
}

impl Recording {
    /// Opens the recording at `dir`. Of one that its recorder did not end, the last segments of tables may be empty
    /// or cut, as a host leaves them that loses power: they are passed over (see [`torn`](Self::torn)), and what is
    /// left ended with the last that is whole.
    ///
    /// # Errors
    ///
    /// There is no recording there, its manifest is damaged, or of a newer format.
    pub fn open(dir: &Path) -> Result<Recording, Error> {
        Ok(Recording::new(dir, Manifest::read(dir)?).without_torn())
    }

    pub(crate) fn new(dir: &Path, manifest: Manifest) -> Recording {
        Recording {
            dir: dir.to_path_buf(),
            shown: dir.to_path_buf(),
            unpacked: None,
            manifest,
            redactor: None,
            for_sentences: false,
            span: None,
            torn: 0,
        }
    }

    /// Passes over what never got to the disk.
    fn without_torn(mut self) -> Recording {
        if self.manifest.complete {
            return self;
        }
        let mut ends = Vec::new();
        for table in tables::ALL {
            // What cannot be read here is told by who reads the table.
            let Ok(Some(dir)) = TableDir::open(&self.dir, &self.shown, table.name) else {
                continue;
            };
            let (Ok(all), Ok(whole)) = (dir.numbers(), self.whole(&dir)) else {
                continue;
            };
            self.torn += all.len().saturating_sub(whole.len());
            ends.extend(whole.last().map(|last| (dir, *last)));
        }
        if self.torn > 0 {
            let ends = ends.iter();
            let ends = ends.filter_map(|(dir, number)| {
                let last = SegmentFile::open(dir, *number).ok()??;
                last.last_ns()
            });
            let manifest = &mut self.manifest;
            let end_ns = ends.max().unwrap_or(manifest.start_ns);
            manifest.end_ns = manifest.end_ns.min(end_ns).max(manifest.start_ns);
        }
        self
    }

    /// The numbers of the segments of a table that are read, in order.
    fn whole(&self, dir: &TableDir) -> Result<Vec<u32>, Error> {
        let mut numbers = dir.numbers()?;
        if !self.manifest.complete {
            while let Some(&last) = numbers.last()
                && SegmentFile::is_torn(dir, last)
            {
                numbers.pop();
            }
        }
        Ok(numbers)
    }

    /// Unpacks a recording that is one file (see [`pack`](crate::pack)), plain or gzip'ed, into `scratch`, which
    /// stays as long as it is read; errors call it `name`. The file is hostile: nothing but files of a
    /// recording is made, and no more than a bound. One that is cut short reads as far as it is whole.
    ///
    /// # Errors
    ///
    /// It is no recording, holds what no recording has, or is larger than there is room for.
    pub fn unpack(
        input: impl std::io::Read,
        name: &Path,
        scratch: Scratch,
    ) -> Result<Recording, Error> {
        let dir = scratch.path().to_path_buf();
        let unpacked = Unpacked::of(input, name, scratch)?;
        let mut manifest = Manifest::read_as(&dir, name)?;
        unpacked.cut(&mut manifest);
        Ok(Recording {
            shown: name.to_path_buf(),
            unpacked: Some(Arc::new(unpacked)),
            ..Recording::new(&dir, manifest)
        }
        .without_torn())
    }

    /// How many segments at the ends of its tables are passed over, as they are empty or cut.
    pub fn torn(&self) -> usize {
        self.torn
    }

    /// Whether the file that it was unpacked from ends too early.
    pub fn is_cut_short(&self) -> bool {
        self.unpacked.as_ref().is_some_and(|u| u.is_cut_short())
    }

    /// A part of it: what a recording would hold that began at `from_ns` and ended at `to_ns`, ns of
    /// CLOCK_MONOTONIC. Rows keep their places, so what rests on them rests on the whole, too. What is
    /// said once ([settings](crate::tables::Setting), [holders](crate::tables::Holder)) was said before, and
    /// of what is sampled the value at the beginning counts as well.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> Recording {
        let mut manifest = self.manifest.clone();
        manifest.start_ns = from_ns.max(manifest.start_ns);
        manifest.end_ns = to_ns.min(manifest.end_ns);
        Recording {
            dir: self.dir.clone(),
            shown: self.shown.clone(),
            unpacked: self.unpacked.clone(),
            redactor: self.redactor.clone(),
            for_sentences: self.for_sentences,
            torn: self.torn,
            span: Some(Span { from_ns, to_ns }),
            manifest,
        }
    }

    /// The same recording as sentences are made of it: none of its texts, in the manifest and in every row that is
    /// read, has a [backquote](without_backquotes). In a sentence these enclose commands, and a name must not make one.
    pub fn for_sentences(&self) -> Recording {
        Recording {
            dir: self.dir.clone(),
            shown: self.shown.clone(),
            unpacked: self.unpacked.clone(),
            redactor: self.redactor.clone(),
            for_sentences: true,
            torn: self.torn,
            span: self.span,
            manifest: self.manifest.for_sentences(),
        }
    }

    /// The same recording with pseudonyms for addresses and names, in the manifest and in every row
    /// that is read; and `filter`, which names them, with the same pseudonyms. One that was redacted
    /// when it was recorded stays as it is. The error says what of the filter cannot be redacted.
    ///
    /// # Errors
    ///
    /// What the filter names that cannot be redacted.
    pub fn redacted(mut self, filter: Filter) -> Result<(Recording, Filter), String> {
        if self.manifest.redacted {
            return Ok((self, filter));
        }
        let redactor = Redactor::of(&self.manifest);
        let filter = redactor.filter(filter)?;
        self.manifest = redactor.manifest(self.manifest);
        self.redactor = Some(Arc::new(redactor));
        Ok((self, filter))
    }

    /// The recording's directory, or where it was unpacked.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The numbers of the sealed segments of a table, in order. One that was never written has none.
    ///
    /// # Errors
    ///
    /// The directory of the table cannot be read.
    pub fn segments(&self, table: &str) -> Result<Vec<u32>, Error> {
        let dir = TableDir::open(&self.dir, &self.shown, table)?;
        dir.map_or(Ok(Vec::new()), |dir| self.whole(&dir))
    }

    /// All rows of a table, in batches, in order of time within each group of rows; of `event` only
    /// roughly ([`Recording::events`] puts them in order). A table that was never written has none.
    ///
    /// # Errors
    ///
    /// The directory of the table cannot be read. What is wrong with a segment comes with its batch.
    pub fn scan<T: Table>(&self) -> Result<Scan<T>, Error> {
        let dir = TableDir::open(&self.dir, &self.shown, T::INFO.name)?;
        let segments = dir.as_ref().map(|dir| self.whole(dir)).transpose()?;
        let mapping = self.mapping::<T>();
        Ok(Scan::new(
            dir,
            segments.unwrap_or_default(),
            mapping,
            self.span,
        ))
    }

    fn mapping<T: Table>(&self) -> Mapping {
        Mapping::of(&T::INFO, self.redactor.as_ref(), self.for_sentences)
    }

    /// All events in order of time, whole lives taken apart into the changes they were made of.
    ///
    /// # Errors
    ///
    /// The directory of the table cannot be read. What is wrong with a segment comes with its events.
    pub fn events(&self) -> Result<Events, Error> {
        Ok(Events::new(self.scan()?, self.span))
    }

    /// How many rows a segment of a table has; `None` when there is no such segment.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn segment_rows(&self, table: &str, segment: u32) -> Result<Option<u64>, Error> {
        Ok(self.segment(table, segment)?.map(|s| s.rows()))
    }

    fn segment(&self, table: &str, number: u32) -> Result<Option<SegmentFile>, Error> {
        match TableDir::open(&self.dir, &self.shown, table)? {
            Some(dir) => SegmentFile::open(&dir, number),
            None => Ok(None),
        }
    }

    /// The rows of a segment with these numbers, which must rise; those beyond its end are left out.
    pub(crate) fn rows_at<T: Table>(
        &self,
        segment: u32,
        rows: &[u32],
    ) -> Result<Vec<(RowRef, T)>, Error> {
        let mut found = Vec::with_capacity(rows.len());
        let Some(file) = self.segment(T::INFO.name, segment)? else {
            return Ok(found);
        };
        let mut mapping = self.mapping::<T>();
        let (mut before, mut left) = (0, rows);
        for (index, of_group) in file.groups().enumerate() {
            let (here, later) =
                left.split_at(left.partition_point(|row| (*row as usize) < before + of_group));
            left = later;
            if !here.is_empty() {
                let ranges = here.iter().map(|row| *row as usize - before);
                let ranges = ranges.map(|row| row..row + 1);
                let selection = RowSelection::from_consecutive_ranges(ranges, of_group);
                let mut reader = file.group::<T>(index, Some(selection))?;
                let mut here = here.iter();
                while let Some(batch) = guarded(&file.path, || reader.next().transpose())? {
                    let batch = Batch::<T>::of(mapping.apply(batch), &file.path, segment, 0)?;
                    for i in 0..batch.len() {
                        let row = here.next().ok_or_else(|| {
                            Error::damaged(&file.path, "more rows than were asked for")
                        })?;
                        let (at, cells) = batch.row(i);
                        found.push((RowRef { row: *row, ..at }, cells));
                    }
                }
            }
            before += of_group;
        }
        Ok(found)
    }
}
