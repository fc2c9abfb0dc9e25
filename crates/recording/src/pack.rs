//! A recording as one file, to be mailed, piped and copied: a plain tar of its directory, whose
//! segments are compressed already.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::files::{MANIFEST, TableDir, file_name, open_file, open_given_dir};
use crate::{Error, Manifest, limits, tables, unpack};

/// How the name of a recording ends that is one file.
pub const PACKED: &str = "tcpw";

/// The directory that `tar -x` makes of it.
const DIR: &str = "recording.tcpwhy";

/// A file of a recording.
struct Part {
    /// When it was sealed, s.
    sealed: i64,
    /// Place of its table, and its number.
    table: usize,
    number: u32,
}

/// Writes the recording in `dir`, which has ended, as one file. Its segments are in the order in which they
/// were sealed: what is cut short on its way is a recording that ended earlier.
///
/// # Errors
///
/// The recording cannot be read, `out` not be written, or it has more files than one file may hold.
pub fn pack(dir: &Path, out: impl Write) -> Result<(), Error> {
    let within = open_given_dir(dir).map_err(Error::io(dir))?;
    let path = dir.join(MANIFEST);
    let manifest = open_file(&within, MANIFEST, &path)?;
    let (manifest, size) = manifest.ok_or_else(|| Error::Missing(dir.to_path_buf()))?;
    let opened = tables::ALL.iter();
    let opened = opened.map(|table| TableDir::open(dir, dir, table.name));
    let opened: Vec<Option<TableDir>> = opened.collect::<Result<_, _>>()?;
    let parts = parts(&opened)?;
    let files = parts.len() as u64 + 1;
    if files > limits::PACKED_FILES {
        let most = limits::PACKED_FILES;
        let why = format!("{files} files are more than the {most} that one file may hold");
        return Err(Error::packed(dir, why));
    }
    let mut tar = Builder::new(out);
    let time = modified(&manifest).map_err(Error::io(&path))?;
    let mut header = header(EntryType::Directory, 0o700, 0, time);
    let made = tar.append_data(&mut header, format!("{DIR}/"), std::io::empty());
    made.map_err(Error::io(dir))?;
    append(&mut tar, MANIFEST, manifest, size).map_err(Error::io(&path))?;
    for part in parts {
        let Some(table) = &opened[part.table] else {
            continue;
        };
        let path = table.path(part.number);
        let file = table.file(part.number)?;
        let (file, size) = file.ok_or_else(|| Error::Missing(path.clone()))?;
        let name = format!(
            "{}/{}",
            tables::ALL[part.table].name,
            file_name(part.number)
        );
        append(&mut tar, &name, file, size).map_err(Error::io(&path))?;
    }
    let ended = tar.into_inner().and_then(|mut out| out.flush());
    ended.map_err(Error::io(dir))
}

/// All segments, those first that were sealed first.
fn parts(opened: &[Option<TableDir>]) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    for (table, dir) in opened.iter().enumerate() {
        let Some(dir) = dir else { continue };
        for number in dir.numbers()? {
            let Some((file, _)) = dir.file(number)? else {
                continue;
            };
            parts.push(Part {
                sealed: modified(&file).map_err(Error::io(&dir.path(number)))?,
                table,
                number,
            });
        }
    }
    parts.sort_by_key(|part| (part.sealed, part.number, part.table));
    Ok(parts)
}

fn modified(file: &std::fs::File) -> std::io::Result<i64> {
    Ok(file.metadata()?.mtime())
}

fn append(
    tar: &mut Builder<impl Write>,
    name: &str,
    file: std::fs::File,
    size: u64,
) -> std::io::Result<()> {
    let mut header = header(EntryType::Regular, 0o600, size, modified(&file)?);
    tar.append_data(&mut header, format!("{DIR}/{name}"), file.take(size))
}

/// Without whose it was: that is nobody's business.
fn header(kind: EntryType, mode: u32, size: u64, time: i64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header.set_mtime(u64::try_from(time).unwrap_or(0));
    header
}

/// Whether what is at `path` is a recording, whole or not, in a directory or as one file: what may be replaced
/// by another. A link is none, wherever it leads.
pub fn is_recording(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => {
            matches!(Manifest::read(path), Ok(_) | Err(Error::Newer { .. }))
        }
        Ok(there) if there.is_file() => {
            std::fs::File::open(path).is_ok_and(|file| unpack::begins(file, path))
        }
        _ => false,
    }
}
