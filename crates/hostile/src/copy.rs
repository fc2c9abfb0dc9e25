//! Copies of recordings, and the segments in them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rand_pcg::Pcg64Mcg;

/// Copies a recording.
pub fn recording(from: &Path, to: &Path) -> Result<()> {
    let copy = || -> std::io::Result<()> {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                fs::create_dir(&target)?;
                for file in fs::read_dir(entry.path())? {
                    let file = file?;
                    fs::copy(file.path(), target.join(file.file_name()))?;
                }
            } else {
                fs::copy(entry.path(), target)?;
            }
        }
        Ok(())
    };
    copy().with_context(|| format!("copying {}", from.display()))
}

/// The tables of a recording, in order.
pub(crate) fn tables(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    let mut tables: Vec<_> = entries.iter().map(|e| e.path()).collect();
    tables.retain(|path| path.is_dir());
    tables.sort();
    Ok(tables)
}

/// One of its segments, of a table that has some.
pub(crate) fn segment(dir: &Path, rng: &mut Pcg64Mcg) -> Result<PathBuf> {
    let all = tables(dir)?.into_iter().map(|table| segments(&table));
    let mut all = all.collect::<Result<Vec<_>>>()?;
    all.retain(|segments| !segments.is_empty());
    if all.is_empty() {
        bail!("{}: no segment", dir.display());
    }
    let segments = crate::one(rng, &all);
    Ok(crate::one(rng, segments).clone())
}

/// The segments of a table, in order.
pub(crate) fn segments(table: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(table)?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<_> = entries.iter().map(|e| e.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}
