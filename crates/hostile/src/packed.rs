//! Recordings as one file, with what no recording has in them: ways out, links, bombs, wrong sums.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use tar::{Builder, EntryType, Header};

use crate::one;

const BLOCK: usize = 512;
/// Where a header holds its parts: name, mode, owner, size, time, sum, kind, link and the rest.
const PARTS: &[(usize, usize)] = &[
    (0, 100),
    (100, 24),
    (124, 12),
    (136, 12),
    (148, 8),
    (156, 1),
    (157, 100),
    (257, 255),
];
const NAMES: &[&str] = &[
    "/etc/passwd",
    "../../etc/cron.d/x",
    "recording.tcpwhy/../../x/000001.parquet",
    "recording.tcpwhy/event/1.parquet",
    "recording.tcpwhy/event/000001.parquet",
    "recording.tcpwhy/manifest.json",
    "elsewhere/event/000009.parquet",
    "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z",
    "recording.tcpwhy/\u{1b}[31m\u{202e}",
];
const KINDS: &[u8] = b"123456SLKxgVDMN7\0A";

/// Packs it, and spoils the file, which takes the directory's place.
pub(crate) fn mutate(dir: &Path, rng: &mut Pcg64Mcg) -> Result<String> {
    let mut bytes = packed(dir)?;
    let headers = headers(&bytes);
    let at = *one(rng, &headers);
    let what = match rng.random_range(0..8) {
        0 => {
            let (from, length) = *one(rng, PARTS);
            let place = at + from + rng.random_range(0..length);
            bytes[place] = rng.random();
            format!("byte {place}")
        }
        1 => {
            let to = *one(rng, NAMES);
            let mut name = [0; 100];
            name[..to.len()].copy_from_slice(to.as_bytes());
            bytes[at..at + 100].copy_from_slice(&name);
            format!("called {to:?}")
        }
        2 => {
            bytes[at + 156] = *one(rng, KINDS);
            format!("kind {:?}", bytes[at + 156])
        }
        3 => {
            let size = *one(rng, &[0, 1, 511, 513, 1 << 20, 1 << 33, u64::MAX >> 1]);
            let mut header = header(&bytes, at);
            header.set_size(size);
            bytes[at..at + BLOCK].copy_from_slice(header.as_bytes());
            format!("size {size}")
        }
        4 => {
            let again = bytes[at..].to_vec();
            bytes.splice(at..at, again);
            "again".into()
        }
        5 => {
            bytes.truncate(rng.random_range(0..bytes.len()));
            format!("cut at {}", bytes.len())
        }
        6 => {
            let place = rng.random_range(0..bytes.len());
            bytes[place] ^= 1 << rng.random_range(0..8);
            format!("bit of byte {place}")
        }
        _ => {
            bytes.drain(..at);
            format!("from byte {at}")
        }
    };
    // Mostly the sums are right, so that what is behind them is reached.
    if rng.random_ratio(3, 4) {
        let fits = |at: &&usize| **at + BLOCK <= bytes.len();
        let fixed: Vec<usize> = headers.iter().filter(fits).copied().collect();
        for at in fixed {
            let mut header = header(&bytes, at);
            header.set_cksum();
            bytes[at..at + BLOCK].copy_from_slice(header.as_bytes());
        }
    }
    let zipped = rng.random_ratio(1, 3);
    if zipped {
        bytes = gzip(&bytes)?;
        if rng.random_ratio(1, 3) {
            bytes.truncate(rng.random_range(1..bytes.len()));
        }
    }
    fs::remove_dir_all(dir)?;
    fs::write(dir, bytes)?;
    let zipped = if zipped { ", gzip'ed" } else { "" };
    Ok(format!("packed, entry at {at}: {what}{zipped}"))
}

/// Files that hold a whole recording and something besides, each with what is said of it.
pub fn hostile_files(recording: &Path) -> Result<Vec<(&'static str, Vec<u8>, &'static str)>> {
    let segment = "recording.tcpwhy/event/000009.parquet";
    let none = |_: &mut Header| {};
    let linked = |header: &mut Header| {
        header.set_entry_type(EntryType::Symlink);
        let _ = header.set_link_name("/etc/passwd");
    };
    let kind = |kind| move |header: &mut Header| header.set_entry_type(kind);
    let sized = |size| move |header: &mut Header| header.set_size(size);
    let deep = "d/".repeat(45) + "x";
    let with = |name: &str, spoil: &dyn Fn(&mut Header)| with(recording, name, spoil);
    let no_file = "is not a file of a recording";
    Ok(vec![
        ("absolute", with("/etc/cron.d/x", &none)?, no_file),
        ("out", with("recording.tcpwhy/../../x", &none)?, no_file),
        ("deep", with(&deep, &none)?, no_file),
        ("link", with(segment, &linked)?, "is a symbolic link"),
        (
            "hard-link",
            with(segment, &kind(EntryType::Link))?,
            "is a hard link",
        ),
        (
            "device",
            with(segment, &kind(EntryType::Char))?,
            "is a device",
        ),
        ("fifo", with(segment, &kind(EntryType::Fifo))?, "is a FIFO"),
        (
            "sparse",
            with(segment, &kind(EntryType::GNUSparse))?,
            "is a sparse file",
        ),
        (
            "long-name",
            with("././@LongLink", &kind(EntryType::GNULongName))?,
            "longer than any name",
        ),
        (
            "twice",
            with("recording.tcpwhy/manifest.json", &none)?,
            "is in it twice",
        ),
        (
            "elsewhere",
            with("x/event/000009.parquet", &none)?,
            "not in the same directory",
        ),
        (
            "huge",
            with(segment, &sized(1 << 40))?,
            "are unpacked, and no more than half",
        ),
        ("files", gzip(&many(recording)?)?, "at most 200000 files"),
    ])
}

fn packed(dir: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    recording::pack(dir, &mut bytes)?;
    Ok(bytes)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

fn headers(bytes: &[u8]) -> Vec<usize> {
    let blocks = (0..bytes.len() / BLOCK).map(|block| block * BLOCK);
    blocks
        .filter(|at| &bytes[at + 257..at + 262] == b"ustar")
        .collect()
}

fn header(bytes: &[u8], at: usize) -> Header {
    let mut header = Header::new_ustar();
    header
        .as_mut_bytes()
        .copy_from_slice(&bytes[at..at + BLOCK]);
    header
}

/// The recording with one entry more, before its end.
fn with(recording: &Path, name: &str, spoil: &dyn Fn(&mut Header)) -> Result<Vec<u8>> {
    let mut bytes = packed(recording)?;
    bytes.truncate(bytes.len() - 2 * BLOCK);
    let mut header = Header::new_ustar();
    let place = header.as_mut_bytes().get_mut(..name.len());
    place
        .context("a long name")?
        .copy_from_slice(name.as_bytes());
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o4777);
    header.set_size(1);
    spoil(&mut header);
    header.set_cksum();
    let mut tar = Builder::new(bytes);
    tar.append(&header, &b"x"[..])?;
    Ok(tar.into_inner()?)
}

/// Files without number, of a table that nobody knows.
fn many(recording: &Path) -> Result<Vec<u8>> {
    let mut bytes = packed(recording)?;
    bytes.truncate(bytes.len() - 2 * BLOCK);
    for i in 0..200_001 {
        let mut header = Header::new_ustar();
        header.set_path(format!("recording.tcpwhy/none/{i:06}.open"))?;
        header.set_size(0);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    Ok(bytes)
}
