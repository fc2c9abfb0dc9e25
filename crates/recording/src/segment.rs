//! One segment opened for reading. Its footer and the headers of its pages are looked over first:
//! what is then decoded takes bounded memory, whatever the file claims.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::arrow::arrow_reader::RowGroups;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::column::page::PageIterator;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::chunks::Chunks;
use crate::files::TableDir;
use crate::guard::guarded;
use crate::pages::{self, Pages};
use crate::span::{self, Span, TIMES};
use crate::table::Table;
use crate::thrift::{Compact, Kind};
use crate::{Error, limits};

/// Rows decoded at a time; bounds memory whatever the recording's size.
pub(crate) const BATCH_ROWS: usize = 8_192;

/// The end of a file: the footer's length, and who is to read it.
const TAIL: u64 = 8;
const MAGIC: [u8; 4] = *b"PAR1";

/// A segment, its footer read.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    /// Where it is, for errors.
    pub(crate) path: PathBuf,
    /// Its number.
    pub(crate) number: u32,
    chunks: Chunks,
    metadata: Arc<ParquetMetaData>,
    rows: u64,
}

impl SegmentFile {
    /// Opens a segment; `None` when there is none.
    pub(crate) fn open(dir: &TableDir, number: u32) -> Result<Option<SegmentFile>, Error> {
        let path = dir.path(number);
        let Some((file, length)) = dir.file(number)? else {
            return Ok(None);
        };
        let chunks = Chunks::of(file, length);
        let metadata = footer(&chunks, &path)?;
        let rows = rows(&metadata).map_err(|why| Error::damaged(&path, why))?;
        let schema = metadata.file_metadata().schema_descr();
        let is_flat = |c: &ColumnDescPtr| c.path().parts().len() == 1 && c.max_rep_level() == 0;
        if !schema.columns().iter().all(is_flat) {
            return Err(Error::damaged(&path, "columns within columns"));
        }
        Ok(Some(SegmentFile {
            path,
            number,
            chunks,
            metadata: Arc::new(metadata),
            rows,
        }))
    }

    /// Whether a segment ends as none does that was written to its end: it is empty, cut, or was never filled. What
    /// else is wrong with it is told when it is read.
    pub(crate) fn is_torn(dir: &TableDir, number: u32) -> bool {
        let Ok(Some((file, length))) = dir.file(number) else {
            return false;
        };
        let end = tail(&Chunks::of(file, length));
        end.is_ok_and(|end| end.is_none_or(|[_, _, _, _, magic @ ..]| magic != MAGIC))
    }

    /// How many rows it says it has; no more than 32 bits can count.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.len()
    }

    /// How many rows each of its groups says it has.
    pub(crate) fn groups(&self) -> impl Iterator<Item = usize> + '_ {
        let groups = self.metadata.row_groups().iter();
        groups.map(|group| usize::try_from(group.num_rows()).unwrap_or(0))
    }

    /// Reads a group of rows, or of it what is selected.
    pub(crate) fn group<T: Table>(
        &self,
        index: usize,
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader, Error> {
        self.columns(&T::schema(), index, selection)
    }

    /// Whether any row tells of something within the span; only times are read for it.
    pub(crate) fn meets<T: Table>(&self, span: Span) -> Result<bool, Error> {
        let schema = T::schema();
        let fields = schema.fields().iter();
        let times = fields.filter(|f| TIMES.contains(&f.name().as_str()));
        let times = Schema::new(times.cloned().collect::<Vec<_>>());
        for (index, _) in self.groups().enumerate() {
            let mut reader = self.columns(&times, index, None)?;
            while let Some(batch) = guarded(&self.path, || reader.next().transpose())? {
                // Without times, the columns are wrong: reading the rows says so.
                let meets = span::times(&batch)
                    .is_none_or(|mut rows| rows.any(|(first, last)| span.meets(first, last)));
                if meets {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// When the last row of its last group happened; `None` where that cannot be read.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        let time = Schema::new(vec![Field::new(TIMES[0], DataType::UInt64, false)]);
        let group = self.metadata.num_row_groups().checked_sub(1)?;
        let mut reader = self.columns(&time, group, None).ok()?;
        let mut last: Option<u64> = None;
        while let Some(batch) = guarded(&self.path, || reader.next().transpose()).ok()? {
            last = last.max(span::times(&batch)?.map(|(_, last)| last).max());
        }
        last
    }

    /// Reads columns of a group of rows, or of it what is selected.
    fn columns(
        &self,
        ours: &Schema,
        index: usize,
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let schema = self.metadata.file_metadata().schema_descr();
        let names: Vec<&str> = schema.columns().iter().map(|c| c.name()).collect();
        let is_ours = |i: &usize| ours.index_of(names[*i]).is_ok();
        let columns: Vec<usize> = (0..names.len()).filter(is_ours).collect();
        if columns.len() > ours.fields().len() {
            return Err(Error::damaged(&self.path, "a column several times"));
        }
        guarded(&self.path, || {
            pages::check(&self.chunks, self.metadata.row_group(index), &columns)
        })?;
        // Our own types, not those that the file says it has; what others it has is not read.
        let field = |name: &&str| match ours.field_with_name(name) {
            Ok(field) => field.clone(),
            Err(_) => Field::new(*name, DataType::Null, true),
        };
        let types: Fields = names.iter().map(field).collect();
        let reader = guarded(&self.path, || {
            let mask = ProjectionMask::leaves(schema, columns.iter().copied());
            let levels = parquet_to_arrow_field_levels(schema, mask, Some(&types))?;
            let group = Group {
                chunks: Arc::new(self.chunks.clone()),
                metadata: self.metadata.clone(),
                index,
            };
            // Room for a batch is made at once, for each column.
            let rows = BATCH_ROWS.min(group.num_rows()).max(1);
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, rows, selection)
        })?;
        for field in reader.schema().fields() {
            let of_ours = ours.field_with_name(field.name()).map(|f| f.data_type());
            if of_ours.is_ok_and(|ours| ours != field.data_type()) {
                return Err(wrong_column(&self.path, field.name()));
            }
        }
        Ok(reader)
    }
}

/// A column that is not as its table's declaration has it.
pub(crate) fn wrong_column(path: &Path, column: &str) -> Error {
    Error::damaged(
        path,
        format!("column {column} is missing or of another type"),
    )
}

/// Reads the end; `None` of what is too short to have one.
fn tail(chunks: &Chunks) -> std::io::Result<Option<[u8; TAIL as usize]>> {
    let Some(at) = chunks.len().checked_sub(TAIL) else {
        return Ok(None);
    };
    let mut tail = [0; TAIL as usize];
    chunks.read_at(&mut tail, at)?;
    Ok(Some(tail))
}

/// Reads the footer.
fn footer(chunks: &Chunks, path: &Path) -> Result<ParquetMetaData, Error> {
    let damaged = |why: &str| Error::damaged(path, why);
    let tail = tail(chunks).map_err(Error::io(path))?;
    let [a, b, c, d, magic @ ..] = tail.ok_or_else(|| damaged("too short for a segment"))?;
    if magic != MAGIC {
        return Err(damaged("it does not end as a Parquet file does"));
    }
    let end = chunks.len().saturating_sub(TAIL);
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if length > end || length > limits::FOOTER {
        return Err(damaged("the footer claims an impossible size"));
    }
    let mut bytes = vec![0; length as usize];
    let at = end - length;
    chunks.read_at(&mut bytes, at).map_err(Error::io(path))?;
    if few_groups(&bytes).is_none() {
        return Err(damaged("the footer cannot be read"));
    }
    guarded(path, || ParquetMetaDataReader::decode_metadata(&bytes))
}

/// Whether the footer can be read and claims no more groups than a segment may have.
fn few_groups(footer: &[u8]) -> Option<()> {
    const ROW_GROUPS: i16 = 4;
    let mut compact = Compact::of(footer);
    let mut last = 0;
    while let Some((number, kind)) = compact.field(&mut last)? {
        if (number, kind) == (ROW_GROUPS, Kind::List) {
            let mut ahead = Compact::of(&footer[compact.read()..]);
            ahead.list().filter(|(_, n)| *n <= limits::GROUPS)?;
        }
        compact.skip(kind)?;
    }
    Some(())
}

/// How many rows there are, if the groups and the footer agree.
fn rows(metadata: &ParquetMetaData) -> Result<u64, &'static str> {
    let mut rows: u64 = 0;
    for group in metadata.row_groups() {
        let of_group = u64::try_from(group.num_rows()).map_err(|_| "fewer than no rows")?;
        rows = rows.saturating_add(of_group);
    }
    if u32::try_from(rows).is_err() {
        return Err("more rows than a segment can have");
    }
    let said = u64::try_from(metadata.file_metadata().num_rows());
    if said == Ok(rows) {
        Ok(rows)
    } else {
        Err("the numbers of its rows do not fit")
    }
}

/// One group of rows, as the Parquet library asks for it.
struct Group {
    chunks: Arc<Chunks>,
    metadata: Arc<ParquetMetaData>,
    index: usize,
}

impl Group {
    fn meta(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        usize::try_from(self.meta().num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let meta = self.meta().column(column);
        let pages = SerializedPageReader::new(self.chunks.clone(), meta, self.num_rows(), None)?;
        Ok(Box::new(Pages::of(meta, pages)))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.meta()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}
