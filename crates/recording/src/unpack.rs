//! Reads a recording that is one file. The file is hostile: nothing is made of it but files of a
//! recording, in a directory of ours alone, and no more than a bound.

use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use rustix::fs::statvfs;
use tar::{Archive, EntryType, Header};

use crate::files::{MANIFEST, file_name, make_dir, new_file};
use crate::{Error, Manifest, Scratch, limits, tables};

const BLOCK: usize = 512;
const BUFFER: usize = 64 << 10;
/// What may follow the end of the tar: it is written in records of 10 KiB.
const TAIL: u64 = 1 << 20;
/// A header of an extension of tar, which tells nothing that we ask: times, attributes.
const EXTENSION: u64 = 64 << 10;
/// Longest name of a table of a later tcpwhy.
const TABLE_NAME: usize = 32;
/// How gzip begins.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// How others begin, and what undoes them.
const OTHERS: &[(&[u8], &str)] = &[
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz"),
    (b"BZh", "bzip2"),
];

/// A recording that was unpacked.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// Removed when nobody reads it any more.
    _scratch: Scratch,
    cut_short: bool,
    /// When the manifest and the newest segment were written, s.
    manifest_time: u64,
    newest: u64,
}

impl Unpacked {
    /// Unpacks `input`, which errors call `name`.
    pub(crate) fn of(input: impl Read, name: &Path, scratch: Scratch) -> Result<Unpacked, Error> {
        let mut archive = Archive::new(open(input, name)?);
        let mut unpacking = Unpacking {
            name,
            to: scratch.path(),
            room: Room::of(scratch.path()).map_err(Error::io(scratch.path()))?,
            within: None,
            has_manifest: false,
            manifest_time: 0,
            newest: 0,
        };
        let stopped = unpacking.entries(&mut archive);
        let (has_manifest, manifest_time) = (unpacking.has_manifest, unpacking.manifest_time);
        let newest = unpacking.newest;
        let mut source = archive.into_inner();
        let cut_short = match stopped {
            Ok(()) => source.ended,
            Err(Stop::Read(_)) if source.ended => true,
            Err(Stop::Read(e)) => return Err(Error::packed(name, format!("damaged: {e}"))),
            Err(Stop::Refused(e)) => return Err(e),
        };
        if !cut_short {
            // Whoever writes it into a pipe has written all of it; and gzip's sum is checked.
            match io::copy(&mut (&mut source).take(TAIL), &mut io::sink()) {
                Err(e) if e.kind() != ErrorKind::UnexpectedEof => {
                    return Err(Error::packed(name, format!("damaged: {e}")));
                }
                _ => {}
            }
        }
        match (has_manifest, cut_short) {
            (true, _) => Ok(Unpacked {
                _scratch: scratch,
                cut_short,
                manifest_time,
                newest,
            }),
            (false, true) => Err(Error::packed(name, "cut short before its manifest.json")),
            (false, false) => Err(foreign(name, "it has no manifest.json")),
        }
    }

    pub(crate) fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    /// Of one that is cut short, the manifest says when what is left ended.
    pub(crate) fn cut(&self, manifest: &mut Manifest) {
        if !self.cut_short {
            return;
        }
        manifest.complete = false;
        let lost = self.manifest_time.saturating_sub(self.newest);
        let lost = lost.saturating_mul(1_000_000_000);
        manifest.end_ns = manifest.end_ns.saturating_sub(lost).max(manifest.start_ns);
    }
}

/// Whether what begins so, with 512 bytes of it, may be a recording that is one file.
pub fn is_packed(head: &[u8]) -> bool {
    head.starts_with(GZIP) || is_tar(head)
}

fn is_tar(head: &[u8]) -> bool {
    head.get(257..262).is_some_and(|magic| magic == b"ustar")
}

/// Whether a file begins as a recording does.
pub(crate) fn begins(input: impl Read, name: &Path) -> bool {
    let Ok(source) = open(input, name) else {
        return false;
    };
    let mut archive = Archive::new(source);
    let Ok(entries) = archive.entries() else {
        return false;
    };
    // The directory, and an extension, may come before it.
    let mut first = entries.raw(true).take(3).flatten();
    first.any(|entry| {
        let (header, path) = (entry.header(), entry.path_bytes());
        let path = String::from_utf8_lossy(&path);
        header.entry_type().is_file() && matches!(place(&path), Some((_, Place::Manifest)))
    })
}

fn foreign(name: &Path, why: impl Into<String>) -> Error {
    Error::Foreign {
        path: name.to_path_buf(),
        why: why.into(),
    }
}

/// The tar within, whatever is around it.
fn open<'i>(mut input: impl Read + 'i, name: &Path) -> Result<Source<'i>, Error> {
    let mut head = Vec::new();
    let read = (&mut input).take(BLOCK as u64).read_to_end(&mut head);
    read.map_err(Error::io(name))?;
    if head.is_empty() {
        return Err(foreign(name, "it is empty"));
    }
    if let Some((_, by)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        let why = format!("it is compressed by {by}; {by} -d makes one of it that is read");
        return Err(foreign(name, why));
    }
    let is_gzip = head.starts_with(GZIP);
    let whole = Cursor::new(head).chain(input);
    let inner: Box<dyn Read + 'i> = if is_gzip {
        Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(
            BUFFER, whole,
        )))
    } else {
        Box::new(whole)
    };
    let mut source = Source {
        inner,
        ended: false,
    };
    let mut head = Vec::new();
    let read = (&mut source).take(BLOCK as u64).read_to_end(&mut head);
    // A gzip'ed one that is no more than a beginning is cut short below.
    if let Err(e) = read
        && !source.ended
    {
        return Err(Error::packed(name, format!("damaged: {e}")));
    }
    if !is_tar(&head) {
        let why = if head.len() == BLOCK {
            "it is neither a recording's directory nor one packed into a file"
        } else {
            "it is too short to be a recording"
        };
        return Err(foreign(name, why));
    }
    source.inner = Box::new(Cursor::new(head).chain(source.inner));
    source.ended = false;
    Ok(source)
}

/// Where the tar comes from, and whether it was read to its end.
struct Source<'i> {
    inner: Box<dyn Read + 'i>,
    ended: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        self.ended |= match &read {
            Ok(n) => *n == 0 && !buffer.is_empty(),
            // As gzip says it.
            Err(e) => e.kind() == ErrorKind::UnexpectedEof,
        };
        read
    }
}

/// Why unpacking stopped.
enum Stop {
    /// It cannot be read, or not further.
    Read(io::Error),
    Refused(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Refused(e)
    }
}

/// What may still be unpacked.
struct Room {
    files: u64,
    bytes: u64,
    /// The bounds, and why.
    says: String,
}

impl Room {
    /// On the disk of `dir`.
    fn of(dir: &Path) -> io::Result<Room> {
        let disk = statvfs(dir)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize) / limits::PACKED_SHARE;
        // Some file systems make inodes as they are needed, and count none.
        let inodes = match disk.f_files {
            0 => u64::MAX,
            _ => disk.f_favail / limits::PACKED_SHARE,
        };
        let (files, bytes) = (
            limits::PACKED_FILES.min(inodes),
            limits::PACKED_BYTES.min(free),
        );
        let says = format!(
            "at most {files} files and {} MB are unpacked, and no more than half of what is free in {}",
            bytes >> 20,
            dir.parent().unwrap_or(dir).display()
        );
        Ok(Room { files, bytes, says })
    }

    /// Takes room for a file; the error says what there is.
    fn take(&mut self, bytes: u64) -> Result<(), &str> {
        let on_disk = bytes.checked_next_multiple_of(limits::BLOCK);
        let on_disk = on_disk.map(|n| n.max(limits::BLOCK));
        let left = on_disk.and_then(|n| self.bytes.checked_sub(n));
        match (self.files.checked_sub(1), left) {
            (Some(files), Some(bytes)) => {
                (self.files, self.bytes) = (files, bytes);
                Ok(())
            }
            _ => Err(&self.says),
        }
    }
}

/// What a name is in a recording.
#[derive(Debug, PartialEq)]
enum Place<'p> {
    Manifest,
    /// Of a table, with its number.
    Segment(&'static str, u32),
    /// What a reader of a directory passes over: what was never sealed, and tables of a later tcpwhy.
    Other(&'p str),
}

/// What a path in a tar is, and the directory above the recording's files; `None` when no recording has it.
fn place(path: &str) -> Option<(Option<&str>, Place<'_>)> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut parts = path.split('/').rev();
    let file = parts.next()?;
    let is_manifest = file == MANIFEST || file == "manifest.json.open";
    let table = if is_manifest {
        None
    } else {
        Some(parts.next()?)
    };
    let within = parts.next();
    if parts.next().is_some() || within.is_some_and(|dir| !is_plain(dir)) {
        return None;
    }
    let place = match table {
        None if file == MANIFEST => Place::Manifest,
        None => Place::Other(file),
        Some(table) => segment(table, file)?,
    };
    Some((within, place))
}

fn segment<'p>(table: &'p str, file: &str) -> Option<Place<'p>> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let named = !table.is_empty() && table.len() <= TABLE_NAME && table.chars().all(is_name);
    let (stem, end) = file.rsplit_once('.')?;
    let number: u32 = stem.parse().ok()?;
    let is_segment = format!("{stem}.parquet") == file_name(number);
    let known = tables::ALL.iter().find(|t| t.name == table);
    match (named && is_segment, end, known) {
        (true, "parquet", Some(known)) => Some(Place::Segment(known.name, number)),
        (true, "parquet" | "open", _) => Some(Place::Other(table)),
        _ => None,
    }
}

/// Whether it is the name of a directory, and no way out of one.
fn is_plain(dir: &str) -> bool {
    !dir.is_empty() && dir != "." && dir != ".."
}

struct Unpacking<'u> {
    name: &'u Path,
    to: &'u Path,
    room: Room,
    /// The directory in which all files are; within, whether there is one.
    within: Option<Option<String>>,
    has_manifest: bool,
    manifest_time: u64,
    newest: u64,
}

impl Unpacking<'_> {
    fn entries(&mut self, archive: &mut Archive<Source<'_>>) -> Result<(), Stop> {
        // Raw: the library follows no extension, whose lengths it would believe.
        let entries = archive.entries().map_err(Stop::Read)?.raw(true);
        let mut seen = 0;
        for entry in entries {
            let mut entry = entry.map_err(Stop::Read)?;
            seen += 1;
            if seen > 2 * limits::PACKED_FILES {
                return Err(self.refuse(&self.room.says).into());
            }
            let path = entry.path_bytes();
            let path = String::from_utf8_lossy(&path).into_owned();
            let header = entry.header().clone();
            let size = entry.size();
            match header.entry_type() {
                EntryType::Regular => {}
                EntryType::Directory if size == 0 && self.is_dir(&path) => continue,
                EntryType::XHeader | EntryType::XGlobalHeader if size <= EXTENSION => continue,
                other => return Err(self.refuse(format!("{path:?} is {}", kind(other))).into()),
            }
            let (within, place) = match place(&path) {
                Some((within, place)) => (within.map(String::from), place),
                None => {
                    let why = format!("{path:?} is not a file of a recording");
                    return Err(self.refuse(why).into());
                }
            };
            if *self.within.get_or_insert_with(|| within.clone()) != within {
                let why = format!("{path:?} is not in the same directory as the files before it");
                return Err(self.refuse(why).into());
            }
            if let Err(says) = self.room.take(size) {
                let why = format!("{path:?} has {size} bytes; {says}");
                return Err(Error::packed(self.name, why).into());
            }
            let at = match place {
                Place::Other(_) => continue,
                Place::Manifest => self.to.join(MANIFEST),
                Place::Segment(table, number) => {
                    let dir = self.to.join(table);
                    match make_dir(&dir) {
                        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                            return Err(Error::io(&dir)(e).into());
                        }
                        _ => dir.join(file_name(number)),
                    }
                }
            };
            self.file(&mut entry, &at, &path, size)?;
            self.note(&header, at.ends_with(MANIFEST));
        }
        Ok(())
    }

    /// Makes a file; of one that is cut short nothing stays.
    fn file(&self, entry: &mut impl Read, at: &Path, path: &str, size: u64) -> Result<(), Stop> {
        let mut file = new_file(at).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => self.refuse(format!("{path:?} is in it twice")),
            _ => Error::io(at)(e),
        })?;
        let mut buffer = vec![0; BUFFER];
        let mut left = size;
        let read = loop {
            match entry.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(n) => {
                    file.write_all(&buffer[..n]).map_err(Error::io(at))?;
                    left = left.saturating_sub(n as u64);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break Err(Stop::Read(e)),
            }
        };
        if left > 0 {
            std::fs::remove_file(at).map_err(Error::io(at))?;
            return read.and(Err(Stop::Read(ErrorKind::UnexpectedEof.into())));
        }
        read
    }

    fn note(&mut self, header: &Header, is_manifest: bool) {
        let time = header.mtime().unwrap_or(0);
        if is_manifest {
            (self.has_manifest, self.manifest_time) = (true, time);
        } else {
            self.newest = self.newest.max(time);
        }
    }

    /// The recording's directory, or a table's.
    fn is_dir(&self, path: &str) -> bool {
        let path = path.strip_prefix("./").unwrap_or(path);
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        !path.starts_with('/') && parts.len() <= 2 && parts.iter().all(|part| is_plain(part))
    }

    fn refuse(&self, why: impl ToString) -> Error {
        Error::packed(self.name, why)
    }
}

fn kind(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a FIFO",
        EntryType::Directory => "a directory that no recording has",
        EntryType::GNUSparse => "a sparse file",
        EntryType::GNULongName | EntryType::GNULongLink => "longer than any name in a recording",
        EntryType::XHeader | EntryType::XGlobalHeader => "a header longer than any of a recording",
        _ => "no regular file",
    }
}
