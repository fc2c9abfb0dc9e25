//! Writing a recording: rows become columns, columns become segments, segments appear by rename.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::take::take_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::feed::{Feed, Segment};
use crate::files::{make_dir, make_file};
use crate::mapping::Mapping;
use crate::table::{Table, Unit};
use crate::{Error, Manifest, Redactor, limits};

/// A crash loses at most this much.
const SEAL_EVERY: Duration = Duration::from_secs(3);
/// Someone watches a feed as it comes.
const FEED_EVERY: Duration = Duration::from_millis(100);
/// What is both kept and followed: a reader that looks once a second, and files that are few.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// Rows held in memory before they are compressed into the open segment. A snapshot of 65,000 sockets fits, so that
/// compressing does not stretch the time it is taken over. Several tables may be as full at once.
const GROUP_ROWS: usize = 65_536;
/// The same where rows come in batches: few enough that their columns stay in the CPU's cache.
const BATCH_ROWS: usize = 8192;

/// Bytes of a column that are compressed together: no more than LZ4 looks back, and than malloc keeps
/// to use again. Who picks a row decodes no more either.
const PAGE_BYTES: usize = 64 << 10;

/// A recording being written. Tables are written through [`TableWriter`]s, one owner each, so
/// that threads need no lock.
#[derive(Clone)]
pub struct Writer {
    place: Place,
    redactor: Option<Arc<Redactor>>,
    /// How often segments are sealed.
    every: Duration,
    /// Bytes of all segments that were sealed, and what they take on disk.
    written: Arc<Written>,
}

/// Bytes that were written.
#[derive(Debug, Default)]
struct Written {
    bytes: AtomicU64,
    on_disk: AtomicU64,
}

/// Where rows go: to segments on disk, straight to a reader in this process, or both.
#[derive(Clone)]
pub(crate) enum Place {
    Dir(Arc<PathBuf>),
    Feed(SyncSender<Segment>),
    Both(Arc<PathBuf>, SyncSender<Segment>),
}

impl Feed {
    /// A writer and where what it writes arrives.
    pub fn new() -> (Writer, Feed) {
        let (sender, feed) = Feed::channel();
        (Writer::to(Place::Feed(sender)), feed)
    }
}

impl Writer {
    /// Makes the directory `dir`, which only its owner can enter, and its first manifest.
    ///
    /// # Errors
    ///
    /// Something is there already, or the directory cannot be made.
    pub fn create(dir: &Path, manifest: &Manifest) -> Result<Writer, Error> {
        make(dir, manifest)?;
        Ok(Writer::to(Place::Dir(Arc::new(dir.to_path_buf()))))
    }

    /// The same with pseudonyms for addresses and names, in the manifest and in every row.
    ///
    /// # Errors
    ///
    /// Something is there already, or the directory cannot be made.
    pub fn redacted(dir: &Path, manifest: &Manifest) -> Result<Writer, Error> {
        let redactor = Redactor::of(manifest);
        make(dir, &redactor.manifest(manifest.clone()))?;
        Ok(Writer {
            redactor: Some(Arc::new(redactor)),
            ..Writer::to(Place::Dir(Arc::new(dir.to_path_buf())))
        })
    }

    /// As [`Writer::create`], and a feed that gets each segment once it is sealed, which is every second.
    ///
    /// # Errors
    ///
    /// Something is there already, or the directory cannot be made.
    pub fn followed(dir: &Path, manifest: &Manifest) -> Result<(Writer, Feed), Error> {
        make(dir, manifest)?;
        let (sender, feed) = Feed::channel();
        let place = Place::Both(Arc::new(dir.to_path_buf()), sender);
        Ok((Writer::to(place), feed))
    }

    /// The same with segments that are sealed so often: a crash loses no more than that of any table.
    #[must_use]
    pub fn sealing_every(self, every: Duration) -> Writer {
        Writer { every, ..self }
    }

    pub(crate) fn to(place: Place) -> Writer {
        let every = match place {
            Place::Dir(_) => SEAL_EVERY,
            Place::Feed(_) => FEED_EVERY,
            Place::Both(..) => FOLLOW_EVERY,
        };
        Writer {
            place,
            redactor: None,
            every,
            written: Arc::default(),
        }
    }

    /// Bytes of all segments that were sealed so far; a feed has none.
    pub fn written(&self) -> u64 {
        self.written.bytes.load(Ordering::Relaxed)
    }

    /// What they take on disk, bytes: of a small file that is more.
    pub fn on_disk(&self) -> u64 {
        self.written.on_disk.load(Ordering::Relaxed)
    }

    /// Replaces the manifest. A feed has none.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        match (&self.place, &self.redactor) {
            (Place::Dir(dir) | Place::Both(dir, _), None) => manifest.write(dir),
            (Place::Dir(dir) | Place::Both(dir, _), Some(redactor)) => {
                redactor.manifest(manifest.clone()).write(dir)
            }
            (Place::Feed(_), _) => Ok(()),
        }
    }

    /// Removes what was written: for a recording that failed before it began.
    pub fn discard(self) {
        if let Place::Dir(dir) | Place::Both(dir, _) = &self.place {
            // Threads that have not ended yet make directories of tables meanwhile: under another name they find none to
            // make more in, and what one was just making is gone with the second attempt. We made the directory; what
            // cannot be removed is the user's to see.
            let mut name = dir.file_name().unwrap_or_default().to_os_string();
            name.push(format!(".discarded-{}", std::process::id()));
            let aside = dir.with_file_name(name);
            let moved = fs::rename(&**dir, &aside).is_ok();
            let left = if moved { &aside } else { &**dir };
            let _ = fs::remove_dir_all(left).or_else(|_| fs::remove_dir_all(left));
        }
    }

    /// The writer of one table; ask once per table.
    ///
    /// # Errors
    ///
    /// The directory of the table cannot be made.
    pub fn table<T: Table>(&self) -> Result<TableWriter<T>, Error> {
        let of_table = |dir: &Path| {
            let dir = dir.join(T::INFO.name);
            make_dir(&dir).map_err(Error::io(&dir))?;
            Ok(Arc::new(dir))
        };
        let place = match &self.place {
            Place::Dir(dir) => Place::Dir(of_table(dir)?),
            Place::Both(dir, feed) => Place::Both(of_table(dir)?, feed.clone()),
            feed => feed.clone(),
        };
        Ok(self.writer(place))
    }

    /// The same with its segments in `dir`, which is made.
    pub(crate) fn table_in<T: Table>(&self, dir: &Path) -> Result<TableWriter<T>, Error> {
        make_dir(dir).map_err(Error::io(dir))?;
        Ok(self.writer(Place::Dir(Arc::new(dir.to_path_buf()))))
    }

    fn writer<T: Table>(&self, place: Place) -> TableWriter<T> {
        TableWriter {
            place,
            builder: T::Builder::default(),
            rows: 0,
            most_rows: GROUP_ROWS,
            last_ns: 0,
            sorted: true,
            next_segment: 1,
            open: None,
            opened: Instant::now(),
            asked: Instant::now(),
            sealing: Vec::new(),
            mapping: Mapping::of(&T::INFO, self.redactor.as_ref(), false),
            every: self.every,
            written: self.written.clone(),
        }
    }
}

fn make(dir: &Path, manifest: &Manifest) -> Result<(), Error> {
    make_dir(dir).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists(dir.to_path_buf()),
        _ => Error::io(dir)(e),
    })?;
    manifest.write(dir)
}

/// Appends rows to one table.
pub struct TableWriter<T: Table> {
    place: Place,
    builder: T::Builder,
    rows: usize,
    /// Rows held in memory before they are compressed.
    most_rows: usize,
    last_ns: u64,
    sorted: bool,
    next_segment: u32,
    open: Option<(PathBuf, ArrowWriter<File>)>,
    opened: Instant,
    /// When the producer asked last whether the segment is due.
    asked: Instant,
    /// What is in the open segment and a feed gets when it is sealed.
    sealing: Vec<RecordBatch>,
    mapping: Mapping,
    every: Duration,
    written: Arc<Written>,
}

impl<T: Table> TableWriter<T> {
    /// Holds no more than so many rows in memory before it compresses them.
    #[must_use]
    pub fn holding(self, rows: usize) -> TableWriter<T> {
        TableWriter {
            most_rows: rows.min(GROUP_ROWS),
            ..self
        }
    }

    /// Adds a row. Rows come roughly in order of time; small disorder is sorted away.
    ///
    /// # Errors
    ///
    /// A full disk, or nobody who reads the feed any more.
    pub fn push(&mut self, row: T) -> Result<(), Error> {
        let time = row.time_ns();
        self.sorted &= time >= self.last_ns;
        self.last_ns = time;
        row.append(&mut self.builder);
        self.rows += 1;
        if self.rows >= self.most_rows {
            self.write_rows()?;
        }
        Ok(())
    }

    /// Adds `rows` rows column by column, which costs a fraction of a row at a time: `fill` adds as
    /// many values to every column. They stay in the order in which they come: sorting them costs
    /// the recorded host a fifth of what writing them does, and [`Recording::events`] sorts anyway.
    ///
    /// [`Recording::events`]: crate::Recording::events
    #[doc(hidden)]
    pub fn extend(&mut self, rows: usize, fill: impl FnOnce(&mut T::Builder)) -> Result<(), Error> {
        self.rows += rows;
        fill(&mut self.builder);
        if self.rows >= BATCH_ROWS {
            self.write_rows()?;
        }
        Ok(())
    }

    /// Whether the open segment shall be sealed: it is old enough, or would be too old at the producer's
    /// next turn when that takes as long as this one did.
    pub fn is_due(&mut self) -> bool {
        let turn = std::mem::replace(&mut self.asked, Instant::now()).elapsed();
        let every = match self.place {
            Place::Dir(_) => self.every.saturating_sub(turn),
            // The first samples hold what is said only once, and get a segment of their own.
            Place::Both(..) if self.next_segment == 1 => Duration::ZERO,
            Place::Feed(_) | Place::Both(..) => self.every,
        };
        self.opened.elapsed() >= every
    }

    /// Seals the open segment when it is due. Call it on every turn of the producer's loop.
    ///
    /// # Errors
    ///
    /// A full disk, or nobody who reads the feed any more.
    pub fn seal_if_due(&mut self) -> Result<(), Error> {
        if self.is_due() {
            self.seal()?;
        }
        Ok(())
    }

    /// Like [`seal_if_due`](Self::seal_if_due), but a reader that follows gets at once what was
    /// pushed: for rows that rows of other tables refer to.
    ///
    /// # Errors
    ///
    /// A full disk, or nobody who reads the feed any more.
    pub fn hand_over(&mut self) -> Result<(), Error> {
        match self.place {
            Place::Feed(_) => self.seal(),
            Place::Dir(_) | Place::Both(..) => self.seal_if_due(),
        }
    }

    /// Makes everything pushed so far readable. A segment without rows is not written.
    ///
    /// # Errors
    ///
    /// A full disk, or nobody who reads the feed any more.
    pub fn seal(&mut self) -> Result<(), Error> {
        self.opened = Instant::now();
        self.write_rows()?;
        let Some((open, writer)) = self.open.take() else {
            return Ok(());
        };
        writer.close().map_err(|e| write_error(&open, e))?;
        let sealed = open.with_extension("parquet");
        fs::rename(&open, &sealed).map_err(Error::io(&sealed))?;
        let bytes = fs::metadata(&sealed).map_or(0, |sealed| sealed.len());
        self.written.bytes.fetch_add(bytes, Ordering::Relaxed);
        let on_disk = bytes.next_multiple_of(limits::BLOCK);
        self.written.on_disk.fetch_add(on_disk, Ordering::Relaxed);
        if let Place::Both(_, feed) = &self.place {
            let mut first_row = 0;
            for batch in self.sealing.drain(..) {
                let rows = batch.num_rows() as u32;
                let segment = Segment::new(T::INFO.name, batch);
                send(feed, segment.of_file(self.next_segment - 1, first_row))?;
                first_row += rows;
            }
        }
        Ok(())
    }

    fn write_rows(&mut self) -> Result<(), Error> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let dir = match &self.place {
            Place::Dir(dir) | Place::Both(dir, _) => dir.as_path(),
            Place::Feed(_) => Path::new(T::INFO.name),
        };
        let mut batch = RecordBatch::try_new(T::schema(), T::finish(&mut self.builder))
            .map_err(|e| write_error(dir, e))?;
        if !std::mem::replace(&mut self.sorted, true) {
            batch = sort_by_time(&batch).map_err(|e| write_error(dir, e))?;
        }
        let batch = self.mapping.apply(batch);
        match &self.place {
            Place::Feed(feed) => return send(feed, Segment::new(T::INFO.name, batch)),
            Place::Both(..) => self.sealing.push(batch.clone()),
            Place::Dir(_) => {}
        }
        if self.open.is_none() {
            let path = dir.join(format!("{:06}.open", self.next_segment));
            self.next_segment += 1;
            let file = make_file(&path).map_err(Error::io(&path))?;
            let writer = ArrowWriter::try_new(file, T::schema(), Some(properties::<T>()))
                .map_err(|e| write_error(&path, e))?;
            self.open = Some((path, writer));
        }
        let Some((path, writer)) = &mut self.open else {
            return Ok(());
        };
        writer.write(&batch).map_err(|e| write_error(path, e))
    }
}

/// A slow reader makes the producer wait; what then finds no room in the kernel is counted there.
fn send(feed: &SyncSender<Segment>, segment: Segment) -> Result<(), Error> {
    feed.send(segment).map_err(|_| Error::Closed)
}

/// Sorts by the first column; rows of the same time keep the order in which they were pushed.
fn sort_by_time(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let times = batch.column(0).as_primitive::<UInt64Type>().values();
    let mut order: Vec<u32> = (0..batch.num_rows() as u32).collect();
    order.sort_by_key(|&row| times[row as usize]);
    take_record_batch(batch, &UInt32Array::from(order))
}

/// Chosen for the recorder's CPU time, which the recorded host pays: bytes are few either way.
fn properties<T: Table>() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::LZ4_RAW)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_encoding(Encoding::PLAIN)
        // What a group holds is in memory, compressed, until it is whole.
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_size_limit(PAGE_BYTES);
    for column in T::INFO.columns.iter().filter(|c| c.is_number()) {
        let name = || ColumnPath::from(column.name);
        // Looking each number up in a dictionary costs more than letting LZ4 find repetitions.
        properties = properties.set_column_dictionary_enabled(name(), false);
        if column.unit == Unit::Ns {
            properties = properties.set_column_encoding(name(), Encoding::DELTA_BINARY_PACKED);
        }
        if column.name == "sock" {
            // Random by making: nothing to find.
            properties = properties.set_column_compression(name(), Compression::UNCOMPRESSED);
        }
    }
    properties.build()
}

fn write_error(path: &Path, e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Io {
        path: path.to_path_buf(),
        why: std::io::Error::other(e),
    }
}
