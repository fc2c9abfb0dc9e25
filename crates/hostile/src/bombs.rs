//! Small recordings that once took gigabytes or minutes, one for each bound.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::DataType;
use arrow_select::take::take_record_batch;
use serde_json::json;

use crate::column::{Value, column, is_dictionary_of};
use crate::semantic::{Shape, read, replace, write};

/// A way to hurt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bomb {
    /// A text of a megabyte to which every row points.
    LongTexts,
    /// The same, and pages that give up the dictionary half way: then the text is copied for each row.
    SpilledTexts,
    /// A page that claims two gigabytes.
    Page,
    /// A footer that claims two thousand million groups of rows.
    Groups,
    /// Two million rows in some kilobytes.
    Rows,
    /// Hundreds of thousands of namespaces.
    Namespaces,
    /// The texts of each row are long and its own.
    DistinctTexts,
    /// Each value has a page of its own.
    Pages,
}

impl Bomb {
    /// All of them.
    pub const ALL: &[Bomb] = &[
        Bomb::LongTexts,
        Bomb::SpilledTexts,
        Bomb::Page,
        Bomb::Groups,
        Bomb::Rows,
        Bomb::Namespaces,
        Bomb::DistinctTexts,
        Bomb::Pages,
    ];

    /// Puts it into a recording made by [`base`](crate::base()).
    pub fn plant(self, dir: &Path) -> Result<()> {
        let events = dir.join("event/000001.parquet");
        match self {
            Bomb::LongTexts => texts(&events, |_| "B".repeat(1_000_000), Shape::default()),
            Bomb::SpilledTexts => {
                let shape = Shape {
                    dictionary_bytes: 2_000_000,
                    ..Shape::default()
                };
                // The first rows share one; the others, short, fill the dictionary.
                let text = |row| match row {
                    0..1_000 => "B".repeat(1_000_000),
                    _ => format!("{row:01000}"),
                };
                many(&events, 8_000, Shape::default())?;
                texts(&events, text, shape)
            }
            Bomb::Page => page(&events),
            Bomb::Groups => groups(&events),
            Bomb::Rows => many(&events, 2_000_000, Shape::default()),
            Bomb::Namespaces => namespaces(&dir.join("manifest.json")),
            Bomb::DistinctTexts => {
                many(&events, 40_000, Shape::default())?;
                let long = "x".repeat(1_000);
                texts(&events, |row| format!("{row} {long}"), Shape::default())
            }
            Bomb::Pages => {
                let shape = Shape {
                    page_bytes: 1,
                    ..Shape::default()
                };
                many(&events, 50_000, shape)
            }
        }
        .with_context(|| format!("planting {self:?}"))
    }
}

/// Puts one text into a column of a segment, as if no writer had looked at it.
pub fn set_texts(segment: &Path, name: &str, text: &str) -> Result<()> {
    let text = |_| text.to_string();
    set(segment, name, text, Shape::default())
}

/// Puts texts into the column `comm`.
fn texts(segment: &Path, text: impl Fn(u64) -> String, shape: Shape) -> Result<()> {
    set(segment, "comm", text, shape)
}

fn set(segment: &Path, name: &str, text: impl Fn(u64) -> String, shape: Shape) -> Result<()> {
    let batch = read(segment)?;
    let at = batch.schema().index_of(name)?;
    let field = batch.schema().field(at).clone();
    if !is_dictionary_of(field.data_type(), &DataType::Utf8) {
        bail!("{name}: no column of texts");
    }
    let of_row = |row| Value::Text(text(row));
    let array = column(field.data_type(), batch.num_rows(), of_row)?;
    write(segment, &[replace(&batch, at, field, array)?], shape)
}

/// Repeats the first row.
fn many(path: &Path, rows: usize, shape: Shape) -> Result<()> {
    let batch: RecordBatch = read(path)?;
    let order = UInt32Array::from(vec![0; rows]);
    let many = take_record_batch(&batch, &order)?;
    write(path, &[many], shape)
}

/// Makes the first page claim as much as its header can say, in a segment that is not compressed, so
/// that it is found by its size.
fn page(path: &Path) -> Result<()> {
    let mut bytes = fs::read(path)?;
    // After the magic: a struct with the page's type and its size, each one field on from the last.
    let [_, _, _, _, 0x15, kind, 0x15, rest @ ..] = &bytes[..] else {
        bail!("another header than ours");
    };
    let size = rest.iter().take_while(|b| **b & 0x80 != 0).count() + 1;
    let header = [
        &b"PAR1"[..],
        &[0x15, *kind, 0x15],
        &[0xfe, 0xff, 0xff, 0xff, 0x0f],
    ]
    .concat();
    let tail = bytes.split_off(7 + size);
    // The header is longer now: what comes after it moves into its own page's place.
    let moved = header.len() - (7 + size);
    bytes = [
        header,
        tail[..tail.len().min(1_000)].to_vec(),
        tail[1_000 + moved..].to_vec(),
    ]
    .concat();
    Ok(fs::write(path, bytes)?)
}

/// Makes the list of groups claim as many as its header can say.
fn groups(path: &Path) -> Result<()> {
    let mut bytes = fs::read(path)?;
    let end = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into()?) as usize;
    // The field before is the number of rows, an i64; a list of one struct is 0x1c.
    let footer = &bytes[end - length..end];
    let at = footer.windows(2).rposition(|w| w == [0x19, 0x1c]);
    let at = end - length + at.context("no list of groups")? + 1;
    let claim = [0xfc, 0xff, 0xff, 0xff, 0xff, 0x07];
    bytes.splice(at..=at, claim);
    let end = bytes.len() - 8;
    let longer = (length + claim.len() - 1) as u32;
    bytes[end..end + 4].copy_from_slice(&longer.to_le_bytes());
    Ok(fs::write(path, bytes)?)
}

fn namespaces(path: &Path) -> Result<()> {
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(path)?)?;
    let all = (0..240_000).map(|i| json!({"inode": i, "name": "x"}));
    manifest["namespaces"] = all.collect();
    Ok(fs::write(path, manifest.to_string())?)
}
