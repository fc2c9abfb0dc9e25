//! Well-formed segments that say wrong things: values, types, columns, numbers of rows, encodings.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow_array::cast::AsArray;
use arrow_array::types as adt;
use arrow_array::{
    ArrayRef, FixedSizeBinaryArray, ListArray, RecordBatch, StringArray, StructArray, UInt32Array,
    new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::column::{Value, column, is_dictionary_of};
use crate::{copy, one};

/// How a segment is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) compressed: bool,
    pub(crate) dictionary: bool,
    pub(crate) statistics: bool,
    pub(crate) old: bool,
    pub(crate) group_rows: usize,
    pub(crate) page_bytes: usize,
    pub(crate) dictionary_bytes: usize,
    /// Of byte arrays without a dictionary.
    pub(crate) deltas: bool,
}

impl Default for Shape {
    /// As ours.
    fn default() -> Shape {
        Shape {
            compressed: true,
            dictionary: true,
            statistics: false,
            old: false,
            group_rows: 131_072,
            page_bytes: 64 << 10,
            dictionary_bytes: 1 << 20,
            deltas: false,
        }
    }
}

impl Shape {
    fn draw(rng: &mut Pcg64Mcg) -> Shape {
        let mut odd = |n| rng.random_ratio(1, n);
        let (compressed, dictionary) = (!odd(4), !odd(4));
        let (statistics, old, deltas) = (odd(4), odd(4), odd(2));
        Shape {
            compressed,
            dictionary,
            statistics,
            old,
            deltas,
            group_rows: *one(rng, &[131_072, 131_072, 1_000_000, 100, 7]),
            page_bytes: *one(rng, &[64 << 10, 64 << 10, 1, 16 << 20]),
            dictionary_bytes: *one(rng, &[1 << 20, 1 << 20, 0, 256 << 20]),
        }
    }
}

/// The library writes groups by calling itself.
const MOST_GROUPS: usize = 500;

/// Writes a segment.
pub(crate) fn write(path: &Path, batches: &[RecordBatch], shape: Shape) -> Result<()> {
    let Some(first) = batches.first() else {
        bail!("no batch");
    };
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let mut properties = WriterProperties::builder()
        .set_writer_version(if shape.old {
            WriterVersion::PARQUET_1_0
        } else {
            WriterVersion::PARQUET_2_0
        })
        .set_compression(if shape.compressed {
            Compression::LZ4_RAW
        } else {
            Compression::UNCOMPRESSED
        })
        .set_statistics_enabled(if shape.statistics {
            EnabledStatistics::Page
        } else {
            EnabledStatistics::None
        })
        .set_dictionary_enabled(shape.dictionary)
        .set_dictionary_page_size_limit(shape.dictionary_bytes)
        .set_max_row_group_row_count(Some(shape.group_rows.max(rows / MOST_GROUPS)))
        .set_data_page_size_limit(shape.page_bytes);
    if shape.deltas {
        for field in first.schema().fields() {
            if matches!(field.data_type(), DataType::Dictionary(..)) {
                let encoding = Encoding::DELTA_BYTE_ARRAY;
                properties = properties.set_column_encoding(field.name().as_str().into(), encoding);
            }
        }
    }
    let file = File::create(path)?;
    let mut writer = ArrowWriter::try_new(file, first.schema(), Some(properties.build()))?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.close()?;
    Ok(())
}

/// Numbers that hurt.
const NUMBERS: &[u64] = &[
    0,
    1,
    u64::MAX,
    1 << 63,
    u32::MAX as u64,
    i64::MAX as u64,
    10_000_000_000,
];

/// Texts that hurt.
fn text(rng: &mut Pcg64Mcg) -> String {
    match rng.random_range(0..9) {
        0 => String::new(),
        1 => "\x1b[2J\x1b]0;x\x07".into(),
        2 => "<script>alert(1)</script>\"'&".into(),
        3 => "\u{202e}\u{2066}xcod\u{0}\u{9b}".into(),
        4 => "x".repeat(1_000_000),
        5 => "ä…".repeat(400_000),
        6 => "a\nb\r\nc".into(),
        7 => "--password=secret https://joe:secret@host/".into(),
        _ => "x".repeat(rng.random_range(1_000..1_100)),
    }
}

/// All rows of a segment.
pub(crate) fn read(path: &Path) -> Result<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?;
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    let Some(first) = batches.first() else {
        bail!("{}: no rows", path.display());
    };
    Ok(concat_batches(&first.schema(), &batches)?)
}

/// Spoils a segment.
pub(crate) fn mutate(dir: &Path, rng: &mut Pcg64Mcg, most_rows: usize) -> Result<String> {
    let path = copy::segment(dir, rng)?;
    let batch = read(&path)?;
    let at = rng.random_range(0..batch.num_columns());
    let name = batch.schema().field(at).name().clone();
    let (new, what) = match rng.random_range(0..10) {
        0..=2 => values(&batch, at, rng)?,
        3 => nulls(&batch, at, rng)?,
        4 => (without(&batch, at)?, "dropped".into()),
        5 => renamed(&batch, at, rng)?,
        6 => typed(&batch, at, rng)?,
        7 | 8 => rows(&batch, rng, most_rows)?,
        _ => (batch, "written otherwise".into()),
    };
    let shape = Shape::draw(rng);
    write(&path, &[new], shape)?;
    let table = path.strip_prefix(dir)?.display().to_string();
    Ok(format!("{table} {name}: {what}, {shape:?}"))
}

/// The rows with another column in place of one.
pub(crate) fn replace(
    batch: &RecordBatch,
    at: usize,
    field: Field,
    array: ArrayRef,
) -> Result<RecordBatch> {
    let mut fields: Vec<Field> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| (**f).clone())
        .collect();
    let mut arrays = batch.columns().to_vec();
    (fields[at], arrays[at]) = (field, array);
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn values(batch: &RecordBatch, at: usize, rng: &mut Pcg64Mcg) -> Result<(RecordBatch, String)> {
    let schema = batch.schema();
    let field = schema.field(at);
    let n = batch.num_rows();
    let numbers = [*one(rng, NUMBERS), *one(rng, NUMBERS)];
    let (hostile, distinct) = (text(rng), rng.random_ratio(1, 3));
    // Distinct long texts would make files of gigabytes.
    let short: String = hostile.chars().take(2_000).collect();
    let width = *one(rng, &[0, 4, 15, 17, 16, 100_000]);
    let array = column(field.data_type(), n, |row| match field.data_type() {
        of if is_dictionary_of(of, &DataType::Utf8) && distinct => {
            Value::Text(format!("{short}{row}"))
        }
        of if is_dictionary_of(of, &DataType::Utf8) => Value::Text(hostile.clone()),
        of if is_dictionary_of(of, &DataType::Binary) => {
            Value::Addr(vec![row as u8; if row == 0 { width } else { 16 }])
        }
        _ => Value::Number(numbers[row as usize % 2].wrapping_add(if distinct { row } else { 0 })),
    })?;
    let what = match field.data_type() {
        DataType::Dictionary(..) => format!(
            "{:.20} ({}, {width})",
            hostile.escape_default().to_string(),
            hostile.len()
        ),
        _ => format!("{numbers:?}"),
    };
    Ok((
        replace(batch, at, field.clone(), array)?,
        format!("{what} distinct {distinct}"),
    ))
}

fn nulls(batch: &RecordBatch, at: usize, rng: &mut Pcg64Mcg) -> Result<(RecordBatch, String)> {
    let schema = batch.schema();
    let field = schema.field(at).clone().with_nullable(true);
    let n = batch.num_rows();
    let array = if rng.random_ratio(1, 2) {
        new_null_array(field.data_type(), n)
    } else {
        let order = UInt32Array::from_iter((0..n as u32).map(|i| (i % 3 != 0).then_some(i)));
        arrow_select::take::take(batch.column(at), &order, None)?
    };
    Ok((replace(batch, at, field, array)?, "nulls".into()))
}

fn without(batch: &RecordBatch, at: usize) -> Result<RecordBatch> {
    let kept: Vec<usize> = (0..batch.num_columns()).filter(|i| *i != at).collect();
    Ok(batch.project(&kept)?)
}

fn renamed(batch: &RecordBatch, at: usize, rng: &mut Pcg64Mcg) -> Result<(RecordBatch, String)> {
    let schema = batch.schema();
    let names = ["x", "", "time_ns", "a.b", "comm", "\u{1b}[31m"];
    let other = schema
        .field(rng.random_range(0..batch.num_columns()))
        .name()
        .clone();
    let name = if rng.random_ratio(1, 2) {
        other
    } else {
        one(rng, &names).to_string()
    };
    let field = schema.field(at).clone().with_name(&name);
    let what = format!("called {name:?}");
    Ok((replace(batch, at, field, batch.column(at).clone())?, what))
}

fn typed(batch: &RecordBatch, at: usize, rng: &mut Pcg64Mcg) -> Result<(RecordBatch, String)> {
    let schema = batch.schema();
    let n = batch.num_rows();
    let item = || Arc::new(Field::new("item", DataType::Int32, true));
    let array: ArrayRef = match rng.random_range(0..9) {
        0 => column(&DataType::Int64, n, Value::Number)?,
        1 => column(&DataType::UInt8, n, Value::Number)?,
        2 => column(&DataType::Float64, n, Value::Number)?,
        3 => column(&DataType::Boolean, n, Value::Number)?,
        4 => Arc::new(StringArray::from_iter_values(
            (0..n).map(|i| format!("{i}")),
        )),
        5 => {
            let wide = vec![7; if n < 1_000 { 10_000 } else { 10 }];
            Arc::new(FixedSizeBinaryArray::try_from_iter(
                (0..n).map(|_| wide.clone()),
            )?)
        }
        6 => {
            let lists = (0..n).map(|i| Some((0..i as i32 % 50).map(Some)));
            Arc::new(ListArray::from_iter_primitive::<adt::Int32Type, _, _>(
                lists,
            ))
        }
        7 => Arc::new(StructArray::from(vec![(
            item(),
            column(&DataType::Int32, n, Value::Number)?,
        )])),
        _ => {
            let text = |_| Value::Text("x".into());
            column(
                &DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
                n,
                text,
            )?
        }
    };
    let field = Field::new(schema.field(at).name(), array.data_type().clone(), true);
    let what = format!("of type {}", array.data_type());
    Ok((replace(batch, at, field, array)?, what))
}

const MOST_CELLS: usize = 30_000_000;

fn rows(batch: &RecordBatch, rng: &mut Pcg64Mcg, most: usize) -> Result<(RecordBatch, String)> {
    let n = batch.num_rows().max(1) as u32;
    // Files of some ten megabytes: more is no small recording that hurts.
    let most = most.min(MOST_CELLS / batch.num_columns().max(1));
    let (order, what): (Vec<u32>, _) = match rng.random_range(0..5) {
        0 => (Vec::new(), "no rows".into()),
        1 => ((0..n).rev().collect(), "backwards".into()),
        2 => {
            let times = rng.random_range(2..50);
            (
                (0..n * times).map(|i| i % n).collect(),
                format!("{times} times"),
            )
        }
        3 => {
            let rows = most.min(*one(rng, &[100_000, 1_000_000, 3_000_000]));
            (vec![0; rows], format!("the first {rows} times"))
        }
        _ => {
            let rows = most.min(*one(rng, &[100_000, 400_000]));
            return Ok((risen(batch, rows)?, format!("{rows} risen")));
        }
    };
    Ok((take_record_batch(batch, &UInt32Array::from(order))?, what))
}

/// Many rows, each with a time, ids and ports of its own.
fn risen(batch: &RecordBatch, rows: usize) -> Result<RecordBatch> {
    let n = batch.num_rows().max(1) as u32;
    let order: UInt32Array = (0..rows as u32).map(|i| i % n).collect();
    let mut new = take_record_batch(batch, &order)?;
    for (i, field) in batch.schema().fields().iter().enumerate() {
        if matches!(field.data_type(), DataType::UInt64) {
            let array = column(field.data_type(), rows, Value::Number)?;
            new = replace(&new, i, (**field).clone(), array)?;
        }
    }
    // Of the addresses too.
    let dictionary = |a: &ArrayRef| a.as_dictionary_opt::<adt::Int32Type>().is_some();
    if let Some(at) = (0..new.num_columns())
        .find(|i| dictionary(new.column(*i)) && new.schema().field(*i).name().ends_with("addr"))
    {
        let schema = new.schema();
        let field = schema.field(at).clone();
        let of_row = |row: u64| {
            let mut bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0].to_vec();
            bytes[13..].copy_from_slice(&(row as u32).to_be_bytes()[1..]);
            Value::Addr(bytes)
        };
        let array = column(field.data_type(), rows, of_row)?;
        new = replace(&new, at, field, array)?;
    }
    Ok(new)
}
