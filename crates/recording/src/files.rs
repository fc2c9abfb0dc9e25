//! The files of a recording: made for their owner alone, and opened as what they should be: a
//! regular file or a directory, through nobody's link, and never waiting for anything.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, openat, statat};
use rustix::io::Errno;

use crate::{Error, limits};

/// What a recording is of: see [`Manifest`](crate::Manifest).
pub(crate) const MANIFEST: &str = "manifest.json";

/// Addresses, command lines and the load of a host are nobody else's.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Beneath a directory that gives what is made in it to its group, and that others cannot enter, that group may read it.
const SHARED_DIR: u32 = 0o2750;
const SHARED_FILE: u32 = 0o640;

/// Makes a directory that only its owner can enter, and the group that may read what is beside it.
pub(crate) fn make_dir(path: &Path) -> std::io::Result<()> {
    // Its group and that bit come from the directory that it is in; a thread without rights could not set them.
    let mode = if is_shared(path) {
        SHARED_DIR
    } else {
        DIR_MODE
    };
    DirBuilder::new().mode(mode & 0o777).create(path)
}

fn is_shared(path: &Path) -> bool {
    let beside = path.parent().and_then(|dir| fs::metadata(dir).ok());
    beside.is_some_and(|dir| dir.mode() & 0o7777 == SHARED_DIR)
}

/// Makes a file that only its owner can read, and that group; one of ours that is there is written anew.
pub(crate) fn make_file(path: &Path) -> std::io::Result<File> {
    match new_file(path) {
        // Left by whoever was killed between making it and renaming it.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            new_file(path)
        }
        made => made,
    }
}

/// Makes a file where there is none.
pub(crate) fn new_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    // `create_new` neither follows a link nor opens what somebody else has put there.
    let mode = if is_shared(path) {
        SHARED_FILE
    } else {
        FILE_MODE
    };
    options.write(true).create_new(true).mode(mode);
    options.open(path)
}

/// Opens a directory for [`open_file`] and [`open_dir`]; the user named it, so it may be a link.
pub(crate) fn open_given_dir(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Opens a directory within one; `None` when there is none.
fn open_dir(within: &OwnedFd, name: &str, path: &Path) -> Result<Option<OwnedFd>, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(within, name, flags, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(Error::damaged(path, "not a directory")),
        Err(e) => Err(Error::io(path)(e.into())),
    }
}

/// Opens a regular file within a directory, and its size; `None` when there is none.
pub(crate) fn open_file(
    within: &OwnedFd,
    name: &str,
    path: &Path,
) -> Result<Option<(File, u64)>, Error> {
    let wrong = |what: FileType| {
        let what = match what {
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a FIFO",
            FileType::Directory => "a directory",
            FileType::Socket => "a socket",
            _ => "a device",
        };
        Error::damaged(path, format!("{what}, not a regular file"))
    };
    // Looked at before it is opened, as opening a device can do things; and again after, as it may
    // have been exchanged in between.
    let stat = match statat(within, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(Error::io(path)(e.into())),
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::RegularFile {
        return Err(wrong(kind));
    }
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let failed = |e: Errno| Error::io(path)(e.into());
    let file = openat(within, name, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&file).map_err(failed)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::RegularFile {
        return Err(wrong(kind));
    }
    Ok(Some((
        file.into(),
        u64::try_from(stat.st_size).unwrap_or(0),
    )))
}

/// The directory of a table, opened.
#[derive(Debug)]
pub(crate) struct TableDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl TableDir {
    /// Of the recording in `dir`, which errors call `shown`; `None` when the table was never written.
    pub(crate) fn open(dir: &Path, shown: &Path, table: &str) -> Result<Option<TableDir>, Error> {
        let recording = open_given_dir(dir).map_err(Error::io(shown))?;
        TableDir::within(&recording, shown, table)
    }

    /// The same of a recording whose directory is open.
    pub(crate) fn within(
        recording: &OwnedFd,
        shown: &Path,
        table: &str,
    ) -> Result<Option<TableDir>, Error> {
        let path = shown.join(table);
        let fd = open_dir(recording, table, &path)?;
        Ok(fd.map(|fd| TableDir { fd, path }))
    }

    /// The numbers of its sealed segments, in order.
    pub(crate) fn numbers(&self) -> Result<Vec<u32>, Error> {
        let failed = |e: Errno| Error::io(&self.path)(e.into());
        let mut numbers = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy();
            let Some(stem) = name.strip_suffix(".parquet") else {
                continue;
            };
            let number = stem.parse().ok().filter(|n| file_name(*n) == *name);
            numbers.push(number.ok_or_else(|| {
                let path = self.path.join(&*name);
                Error::damaged(&path, "not the name of a segment, such as 000001.parquet")
            })?);
            if numbers.len() > limits::SEGMENTS {
                let why = format!("more than {} segments", limits::SEGMENTS);
                return Err(Error::damaged(&self.path, why));
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Where a segment is.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        self.path.join(file_name(number))
    }

    /// Opens a segment, and its size; `None` when there is none.
    pub(crate) fn file(&self, number: u32) -> Result<Option<(File, u64)>, Error> {
        open_file(&self.fd, &file_name(number), &self.path(number))
    }
}

/// The name of a sealed segment.
pub(crate) fn file_name(number: u32) -> String {
    format!("{number:06}.parquet")
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_group_reads_only_beneath_a_directory_that_is_shared_with_it() {
        let dir = tempfile::tempdir().unwrap();
        for (of_dir, expected) in [
            (0o700, [0o700, 0o600]),
            (0o750, [0o700, 0o600]),
            (0o2755, [0o2700, 0o600]),
            (0o2750, [0o2750, 0o640]),
        ] {
            let shared = dir.path().join(format!("{of_dir:o}"));
            fs::create_dir(&shared).unwrap();
            fs::set_permissions(&shared, Permissions::from_mode(of_dir)).unwrap();
            let (below, file) = (shared.join("dir"), shared.join("file"));
            make_dir(&below).unwrap();
            make_file(&file).unwrap();
            let modes = [&below, &file].map(|p| fs::metadata(p).unwrap().mode() & 0o7777);
            assert_eq!(modes, expected, "{of_dir:o}");
        }
    }
}
