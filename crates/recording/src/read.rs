//! A recording opened for reading. Everything in it is hostile: damage gives an error that names
//! the file.

use std::path::Path;
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowSelection;

use rustix::fs::{FlockOperation, flock};

use crate::events::Events;
use crate::files::open_given_dir;
use crate::guard::guarded;
use crate::leg::{self, Leg};
use crate::mapping::Mapping;
use crate::scan::{Batch, Scan};
use crate::segment::SegmentFile;
use crate::span::Span;
use crate::table::Table;
use crate::unpack::Unpacked;
use crate::{Error, Filter, Manifest, Redactor, RowRef, Scratch, tables};

/// A recording opened for reading.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where it is: one directory, or several that follow each other. There is at least one.
    legs: Vec<Leg>,
    /// Where it was unpacked: kept as long as it is read.
    unpacked: Option<Arc<Unpacked>>,
    /// What it is of.
    pub manifest: Manifest,
    redactor: Option<Arc<Redactor>>,
    /// Sentences are made of what is read.
    for_sentences: bool,
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
        let leg = Leg {
            dir: dir.to_path_buf(),
            shown: dir.to_path_buf(),
            complete: manifest.complete,
            span: None,
            held: None,
        };
        Recording {
            legs: vec![leg],
            unpacked: None,
            manifest,
            redactor: None,
            for_sentences: false,
            torn: 0,
        }
    }

    /// Passes over what never got to the disk.
    fn without_torn(mut self) -> Recording {
        let leg = &self.legs[0];
        if leg.complete {
            return self;
        }
        let mut ends = Vec::new();
        for table in tables::ALL {
            // What cannot be read here is told by who reads the table.
            let Ok(Some(dir)) = leg.table(table.name) else {
                continue;
            };
            let (Ok(all), Ok(whole)) = (dir.numbers(), leg.whole(&dir)) else {
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
        let mut recording = Recording::new(&dir, manifest);
        recording.legs[0].shown = name.to_path_buf();
        recording.unpacked = Some(Arc::new(unpacked));
        Ok(recording.without_torn())
    }

    /// Opens the recording at `dir`, which somebody may replace by a copy of it while it is read: what was opened is read on,
    /// and a lock says as long that it is read.
    ///
    /// # Errors
    ///
    /// As of [`Recording::open`].
    pub fn hold(dir: &Path) -> Result<Recording, Error> {
        let held = open_given_dir(dir).map_err(Error::io(dir))?;
        // Where there are no locks, it is read without one.
        let _ = flock(&held, FlockOperation::NonBlockingLockShared);
        let manifest = Manifest::read_in(&held, dir)?;
        let mut recording = Recording::new(dir, manifest);
        recording.legs[0].held = Some(Arc::new(held));
        Ok(recording.without_torn())
    }

    /// Recordings of one host since it was started, in order of time, as one: each is read up to where the next begins.
    ///
    /// # Errors
    ///
    /// There is none, or they are of several hosts or starts of one.
    pub fn joined(parts: Vec<Recording>) -> Result<Recording, Error> {
        let starts: Vec<u64> = parts.iter().map(|r| r.manifest.start_ns).collect();
        let ends = starts.iter().skip(1).map(|next| next.saturating_sub(1));
        let ends = ends.chain([u64::MAX]);
        let parts = parts.iter().zip(ends);
        let mut parts = parts.map(|(part, end)| part.within(part.manifest.start_ns, end));
        let Some(mut joined) = parts.next() else {
            return Err(Error::Apart("no recordings"));
        };
        for part in parts {
            joined.manifest.follow(part.manifest)?;
            joined.legs.extend(part.legs);
            joined.torn += part.torn;
        }
        Ok(joined)
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
        let mut part = self.clone();
        let manifest = &mut part.manifest;
        manifest.start_ns = from_ns.max(manifest.start_ns);
        manifest.end_ns = to_ns.min(manifest.end_ns);
        for leg in &mut part.legs {
            let all = Span {
                from_ns: 0,
                to_ns: u64::MAX,
            };
            let span = leg.span.unwrap_or(all);
            leg.span = Some(Span {
                from_ns: from_ns.max(span.from_ns),
                to_ns: to_ns.min(span.to_ns),
            });
        }
        part
    }

    /// The same recording as sentences are made of it: none of its texts, in the manifest and in every row that is
    /// read, has a [backquote](without_backquotes). In a sentence these enclose commands, and a name must not make one.
    pub fn for_sentences(&self) -> Recording {
        Recording {
            for_sentences: true,
            manifest: self.manifest.for_sentences(),
            ..self.clone()
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

    /// The recording's directory, or where it was unpacked; the first where there are several.
    pub fn dir(&self) -> &Path {
        &self.legs[0].dir
    }

    /// The numbers of the sealed segments of a table, in order. One that was never written has none.
    ///
    /// # Errors
    ///
    /// The directory of the table cannot be read.
    pub fn segments(&self, table: &str) -> Result<Vec<u32>, Error> {
        let mut segments = Vec::new();
        for (at, leg) in self.legs.iter().enumerate() {
            if let Some(dir) = leg.table(table)? {
                let whole = leg.whole(&dir)?.into_iter();
                segments.extend(whole.map(|number| leg::base(at).saturating_add(number)));
            }
        }
        Ok(segments)
    }

    /// All rows of a table, in batches, in order of time within each group of rows; of `event` only
    /// roughly ([`Recording::events`] puts them in order). A table that was never written has none.
    ///
    /// # Errors
    ///
    /// The directory of the table cannot be read. What is wrong with a segment comes with its batch.
    pub fn scan<T: Table>(&self) -> Result<Scan<T>, Error> {
        let mut wanted = Vec::new();
        for (at, leg) in self.legs.iter().enumerate() {
            wanted.extend(leg.wanted(&T::INFO, at)?);
        }
        Ok(Scan::new(wanted, self.mapping::<T>()))
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
        Ok(Events::new(self.scan()?))
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
        let (at, number) = leg::place(number, self.legs.len());
        match self.legs[at].table(table)? {
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
