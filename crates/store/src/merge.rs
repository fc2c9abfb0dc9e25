//! A recording that has ended becomes few files: while it was made, each table was sealed every second.

use std::fs;
use std::path::Path;

use recording::{Recording, Writer};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::error::Error;
use crate::layout::{IS_MERGED, MERGED, MERGING, Stretch, stretches};

/// Copies the recording `path` of a store into few files, and exchanges it for the copy. Whoever reads it meanwhile reads on:
/// what was exchanged stays until nobody reads it. Killed in the middle, it is made good by [`settle`].
///
/// # Errors
///
/// A recording that is damaged, or a disk that is full: it stays as it is.
pub fn merge(path: &Path) -> Result<(), Error> {
    let (copy, old) = (path.with_extension(MERGING), path.with_extension(MERGED));
    let made = copied(path, &copy);
    if made.is_err() {
        // What cannot be removed is on a disk that is in trouble; `settle` tries again.
        let _ = fs::remove_dir_all(&copy);
        return made;
    }
    if renameat_with(CWD, &copy, CWD, path, RenameFlags::EXCHANGE).is_ok() {
        fs::rename(&copy, &old).map_err(Error::io(&old))?;
    } else {
        // A file system that exchanges nothing; or it went meanwhile, as the oldest does.
        let moved = fs::rename(path, &old).map_err(Error::io(path));
        if moved.is_err() {
            let _ = fs::remove_dir_all(&copy);
            return moved;
        }
        fs::rename(&copy, path).map_err(Error::io(path))?;
    }
    path.parent().map_or(Ok(()), remove_merged)
}

/// Whether somebody reads a recording.
pub(crate) fn is_read(path: &Path) -> bool {
    let dir = fs::File::open(path);
    let lock = dir.map(|dir| flock(&dir, FlockOperation::NonBlockingLockExclusive));
    matches!(lock, Ok(Err(Errno::WOULDBLOCK)))
}

/// Removes what was exchanged, but for what is being read.
fn remove_merged(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io(dir))?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == MERGED) && !is_read(&path) {
            fs::remove_dir_all(&path).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}

fn copied(path: &Path, copy: &Path) -> Result<(), Error> {
    let recording = Recording::open(path)?;
    let writer = Writer::create(copy, &recording.manifest)?;
    recording.copy_into(&writer)?;
    // Of one that was killed, what is left is whole now.
    let mut manifest = recording.manifest.clone();
    manifest.complete = true;
    writer.manifest(&manifest)?;
    let mark = copy.join(IS_MERGED);
    fs::write(&mark, "").map_err(Error::io(&mark))
}

/// Ends what a killed process left in the middle.
pub(crate) fn settle(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io(dir))?.flatten() {
        let path = entry.path();
        let named = |why: &str| path.extension().is_some_and(|e| e == why);
        let whole = path.with_extension("tcpwhy");
        if named(MERGED) && !whole.exists() {
            fs::rename(&path, &whole).map_err(Error::io(&whole))?;
        } else if named(MERGED) || named(MERGING) {
            fs::remove_dir_all(&path).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}

/// What a store has of recordings that were not merged.
pub(crate) fn unmerged(dir: &Path) -> Result<Vec<Stretch>, Error> {
    let mut all = stretches(dir)?;
    all.retain(|s| !s.path.join(IS_MERGED).exists());
    Ok(all)
}
