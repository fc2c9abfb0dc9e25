//! Files that a verb writes: made beside the target and renamed over it, so that nobody's link is
//! followed, no FIFO is waited for, and a full disk leaves what was there before.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

/// Before the umask, as any file.
const MODE: u32 = 0o666;
/// What is its owner's alone.
const PRIVATE: u32 = 0o600;

/// Where output goes: looked at before the work begins, written when it is done.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A file that is to be made or replaced, with the mode of the one that is replaced.
    File(Option<u32>),
    /// A file that is not there yet, and is to be its owner's alone.
    New,
    Stdout,
    Stderr,
    /// What the user has opened for us, and /dev/null: nothing can be renamed over it.
    Opened,
}

impl Target {
    /// What `path` names: a file, `-` or /dev/stdout for standard output, /dev/null, or a descriptor
    /// that we were given (/dev/fd/N). An error for what is there and is none of these.
    pub fn of(path: &Path) -> Result<Target> {
        let kind = match stream_of(path) {
            Some(kind) => kind,
            None => file(path)?,
        };
        let path = path.to_path_buf();
        Ok(Target { path, kind })
    }

    /// The same for who has looked himself at what is there.
    pub fn of_any(path: &Path) -> Target {
        Target {
            path: path.to_path_buf(),
            kind: stream_of(path).unwrap_or(Kind::File(None)),
        }
    }

    /// An error when no file can be made there.
    pub fn try_beside(&self) -> Result<()> {
        match self.kind {
            Kind::File(_) => self
                .beside(PRIVATE)
                .map(drop)
                .with_context(|| self.writing()),
            _ => Ok(()),
        }
    }

    /// A file that is to be made, for its owner alone; an error where something has that name, now or when
    /// it is written.
    pub fn new_private(path: &Path) -> Result<Target> {
        if fs::symlink_metadata(path).is_ok() {
            bail!("{}: is there already", path.display());
        }
        Ok(Target {
            path: path.to_path_buf(),
            kind: Kind::New,
        })
    }

    /// Whether it is standard output, on which nothing else should be printed then.
    pub fn is_stdout(&self) -> bool {
        self.kind == Kind::Stdout
    }

    /// Whether it is a file that is to be made, and not open already.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File(_))
    }

    /// Writes what `fill` gives; how many bytes that were. Of a file, all of it or nothing: what was
    /// there before stays until the new one is whole.
    pub fn write(&self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<u64> {
        self.write_by(fill, |mode, fill| self.replace(mode, fill))
    }

    /// The same for what is too long for memory, and of which a file is its owner's alone.
    pub fn write_private(&self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<u64> {
        self.write_by(fill, |_, fill| {
            let mut beside = self.beside(PRIVATE)?;
            let bytes = stream(beside.as_file_mut(), fill)?;
            beside.persist(&self.path).map_err(|e| e.error)?;
            Ok(bytes)
        })
    }

    fn write_by<F: FnOnce(&mut dyn Write) -> Result<()>>(
        &self,
        fill: F,
        to_file: impl FnOnce(Option<u32>, F) -> Result<u64>,
    ) -> Result<u64> {
        let bytes = match self.kind {
            Kind::File(mode) => to_file(mode, fill),
            Kind::New => self.create(fill),
            Kind::Stdout => stream(io::stdout().lock(), fill),
            Kind::Stderr => stream(io::stderr().lock(), fill),
            Kind::Opened => OpenOptions::new()
                .write(true)
                .open(&self.path)
                .map_err(Into::into)
                .and_then(|file| stream(file, fill)),
        };
        bytes.with_context(|| self.writing())
    }

    fn writing(&self) -> String {
        format!("writing {}", self.path.display())
    }

    fn beside(&self, mode: u32) -> Result<NamedTempFile> {
        let dir = match self.path.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        };
        let made = tempfile::Builder::new()
            .prefix(".tcpwhy-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(dir);
        made.map_err(beside_failed)
    }

    fn replace(
        &self,
        mode: Option<u32>,
        fill: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<u64> {
        // In memory first: what is killed while it writes leaves its file behind, so that is short.
        let mut bytes = Vec::new();
        fill(&mut bytes)?;
        let mut beside = self.beside(MODE)?;
        beside.as_file_mut().write_all(&bytes)?;
        if let Some(mode) = mode {
            let permissions = Permissions::from_mode(mode);
            beside.as_file().set_permissions(permissions)?;
        }
        beside.persist(&self.path).map_err(|e| e.error)?;
        Ok(bytes.len() as u64)
    }

    /// As a new file, for its owner alone.
    fn create(&self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<u64> {
        let mut beside = self.beside(PRIVATE)?;
        let bytes = stream(beside.as_file_mut(), fill)?;
        let made = beside.persist_noclobber(&self.path);
        made.map_err(|e| e.error)?;
        Ok(bytes)
    }
}

/// Without the name of the file beside it, of which nobody knows.
fn beside_failed(e: io::Error) -> anyhow::Error {
    let e = e.raw_os_error().map_or(e, io::Error::from_raw_os_error);
    let advice = match e.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "no file can be made beside it; name another directory, or - for standard output"
        }
        _ => "making a file beside it",
    };
    anyhow::Error::new(e).context(advice)
}

/// What is open already, and no file to make.
fn stream_of(path: &Path) -> Option<Kind> {
    match path.to_str()? {
        "-" | "/dev/stdout" => Some(Kind::Stdout),
        "/dev/stderr" => Some(Kind::Stderr),
        "/dev/null" => Some(Kind::Opened),
        path if is_descriptor(path) => Some(Kind::Opened),
        _ => None,
    }
}

/// Whether it names a descriptor of this process, such as a shell gives for `>(gzip)`.
fn is_descriptor(path: &str) -> bool {
    let number = path.strip_prefix("/dev/fd/");
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn stream(out: impl Write, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<u64> {
    let mut counted = Counted(BufWriter::new(out), 0);
    fill(&mut counted)?;
    counted.flush()?;
    Ok(counted.1)
}

/// Counts what passes.
struct Counted<W: Write>(BufWriter<W>, u64);

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1 += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A file that can be made or replaced at `path`.
fn file(path: &Path) -> Result<Kind> {
    let shown = path.display();
    let refused = |what: &str| format!("{shown}: is {what}; name a file, or - for standard output");
    // Not followed: a link is replaced, wherever it points to.
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Kind::File(None)),
        Err(e) => return Err(e).with_context(|| shown.to_string()),
    };
    let kind = there.file_type();
    if kind.is_dir() || path.is_dir() {
        bail!("{shown}: is a directory; name a file to write, such as report.html");
    }
    if kind.is_fifo() {
        bail!(refused("a FIFO"));
    }
    if kind.is_socket() {
        bail!(refused("a socket"));
    }
    if kind.is_char_device() || kind.is_block_device() {
        bail!(refused("a device"));
    }
    Ok(Kind::File(kept_mode(&there)))
}

/// The mode of a file of our own that is replaced: who made it private wants the next one so, too.
fn kept_mode(there: &Metadata) -> Option<u32> {
    let ours = there.is_file() && there.uid() == rustix::process::geteuid().as_raw();
    ours.then(|| there.mode() & 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(path: &Path, text: &str) -> Result<u64> {
        Target::of(path)?.write(|out| Ok(out.write_all(text.as_bytes())?))
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|n| n.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_is_replaced_and_its_target_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("r.html"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert_eq!(write(&link, "new").unwrap(), 3);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }

    #[test]
    fn what_fails_leaves_the_older_file_and_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.html");
        fs::write(&path, "older").unwrap();
        let target = Target::of(&path).unwrap();
        let failed = target.write(|out| {
            out.write_all(b"half")?;
            bail!("the disk is full")
        });
        assert!(format!("{:#}", failed.unwrap_err()).ends_with("r.html: the disk is full"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "older");
        assert_eq!(names(dir.path()), ["r.html"]);
    }

    #[test]
    fn who_made_it_private_wants_it_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.html");
        fs::write(&path, "older").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        write(&path, "newer").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    }

    #[test]
    fn a_new_file_is_private_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.html");
        let target = Target::new_private(&path).unwrap();
        target.write(|out| Ok(out.write_all(b"new")?)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert!(Target::new_private(&path).is_err());
        // What came there meanwhile stays, too.
        assert!(target.write(|out| Ok(out.write_all(b"newer")?)).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(dir.path()), ["r.html"]);
    }

    #[test]
    fn only_files_are_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let refused = |path: &Path| format!("{:#}", write(path, "x").unwrap_err());
        assert!(refused(&fifo).contains("fifo: is a FIFO"));
        assert!(refused(dir.path()).contains("is a directory"));
        assert!(refused(Path::new("/dev/full")).contains("is a device"));
        assert!(is_descriptor("/dev/fd/63") && !is_descriptor("/dev/fd/../../etc/passwd"));
        assert!(refused(&dir.path().join("none/r.html")).contains("No such file"));
        assert_eq!(write(Path::new("/dev/null"), "x").unwrap(), 1);
    }
}
