//! Files with wrong bytes in them.

use std::fs;
use std::path::Path;

use anyhow::Result;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::{copy, one};

/// Spoils a file.
pub(crate) fn mutate(dir: &Path, rng: &mut Pcg64Mcg) -> Result<String> {
    let path = if rng.random_ratio(1, 10) {
        dir.join("manifest.json")
    } else {
        copy::segment(dir, rng)?
    };
    let mut bytes = fs::read(&path)?;
    let n = bytes.len().max(1);
    let at = rng.random_range(0..n);
    let what = match rng.random_range(0..7) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            let times = rng.random_range(1..20);
            for _ in 0..times {
                let at = rng.random_range(0..n);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.random();
                }
            }
            format!("{times} bytes")
        }
        2 => {
            let length = rng.random_range(1..2_000);
            let end = (at + length).min(bytes.len());
            bytes[at.min(end)..end].fill(*one(rng, &[0, 0xff, 0x7f]));
            format!("{length} the same at {at}")
        }
        3 => {
            let more: Vec<u8> = (0..rng.random_range(1..300))
                .map(|_| rng.random())
                .collect();
            bytes.splice(at..at, more);
            format!("more at {at}")
        }
        4 => {
            let other = fs::read(copy::segment(dir, rng)?)?;
            let from = rng.random_range(0..other.len().max(1));
            bytes.truncate(at);
            bytes.extend(other.get(from..).unwrap_or_default());
            format!("another's from {at}")
        }
        5 => {
            bytes = fs::read(copy::segment(dir, rng)?)?;
            "another".into()
        }
        _ => {
            let end = bytes.len().saturating_sub(rng.random_range(1..40));
            bytes[end..].iter_mut().for_each(|b| *b = rng.random());
            "its end".into()
        }
    };
    fs::write(&path, bytes)?;
    Ok(format!("{}: {what}", path.strip_prefix(dir)?.display()))
}
