//! Headers of pages and footers that claim what is not there: sizes, numbers of values, lengths.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, bail};
use parquet::file::reader::{FileReader, SerializedFileReader};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::semantic::{Shape, read, write};
use crate::{copy, one};

/// Varints that hurt: all of them claim more than there is, or less.
const VARINTS: &[&[u8]] = &[
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xfe, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x10],
    &[0x80, 0x80, 0x04],
    &[0],
    &[1],
];

/// Spoils a header.
pub(crate) fn mutate(dir: &Path, rng: &mut Pcg64Mcg) -> Result<String> {
    let path = copy::segment(dir, rng)?;
    let mut bytes = fs::read(&path)?;
    let what = if rng.random_ratio(1, 3) {
        footer(&mut bytes, rng)?
    } else {
        page(&path, &mut bytes, rng)?
    };
    fs::write(&path, bytes)?;
    Ok(format!("{}: {what}", path.strip_prefix(dir)?.display()))
}

/// Writes a segment anew without compression, and tells where the first page of a column begins that
/// holds data.
pub fn data_page(segment: &Path, column: &str) -> Result<usize> {
    let shape = Shape {
        compressed: false,
        ..Shape::default()
    };
    write(segment, &[read(segment)?], shape)?;
    let reader = SerializedFileReader::new(File::open(segment)?)?;
    let group = reader.metadata().row_group(0);
    let found = group
        .columns()
        .iter()
        .find(|c| c.column_path().string() == column);
    let found = found.with_context(|| format!("{column}: no such column"))?;
    Ok(usize::try_from(found.data_page_offset())?)
}

/// The header of a page: in place, so that all else is where the footer says.
fn page(path: &Path, bytes: &mut [u8], rng: &mut Pcg64Mcg) -> Result<String> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let metadata = reader.metadata();
    if metadata.num_row_groups() == 0 {
        bail!("{}: no group", path.display());
    }
    let group = metadata.row_group(rng.random_range(0..metadata.num_row_groups()));
    let column = group.column(rng.random_range(0..group.num_columns()));
    let (start, length) = column.byte_range();
    let header = 3 + rng.random_range(0..30.min(length as usize));
    let at = start as usize + rng.random_range(0..header);
    let with = if rng.random_ratio(1, 2) {
        one(rng, VARINTS).to_vec()
    } else {
        (0..rng.random_range(1..4)).map(|_| rng.random()).collect()
    };
    let end = (at + with.len()).min(bytes.len());
    bytes[at..end].copy_from_slice(&with[..end - at]);
    Ok(format!(
        "{} +{}: {with:x?}",
        column.column_path(),
        at - start as usize
    ))
}

/// The footer: bytes exchanged for others, and its length put right.
fn footer(bytes: &mut Vec<u8>, rng: &mut Pcg64Mcg) -> Result<String> {
    let Some(end) = bytes.len().checked_sub(8) else {
        bail!("no footer");
    };
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into()?) as usize;
    let Some(start) = end.checked_sub(length).filter(|_| length > 0) else {
        bail!("no footer");
    };
    let at = rng.random_range(start..end);
    let upto = (at + rng.random_range(1..4)).min(end);
    let with = if rng.random_ratio(1, 2) {
        one(rng, VARINTS).to_vec()
    } else {
        (0..rng.random_range(0..6)).map(|_| rng.random()).collect()
    };
    let new = length - (upto - at) + with.len();
    bytes.splice(at..upto, with.iter().copied());
    let end = bytes.len() - 8;
    bytes[end..end + 4].copy_from_slice(&(new as u32).to_le_bytes());
    Ok(format!("footer +{}: {with:x?}", at - start))
}
