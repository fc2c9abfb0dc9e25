//! `findings.json`: where what was raised and resolved is written down, beside the store.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::judge::Alerts;

/// The newest format this code writes and reads.
const FORMAT: u64 = 1;
const NAME: &str = "findings.json";
const OPEN: &str = "findings.json.open";
/// Bytes of the file: a thousand alerts with all that is kept of each take 8 MB.
const MAX_BYTES: u64 = 16 << 20;

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refuses.
    #[error("{}: {why}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// Nothing was ever written down there.
    #[error("{}: no findings were ever written down here; `tcpwhy serve` does, beside its store", .0.display())]
    Missing(PathBuf),
    /// It is no file of findings, or a damaged one.
    #[error("{}: not a file of findings: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        why: String,
    },
    /// A later version wrote it.
    #[error("{}: written by a later version of tcpwhy (format {format})", path.display())]
    Later {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Page {
    format: u64,
    /// When it was written, ns since 1970.
    #[serde(default)]
    written_unix_ns: i64,
    #[serde(flatten)]
    alerts: Alerts,
}

/// Where findings are written down.
#[derive(Clone, Debug)]
pub struct Book {
    dir: PathBuf,
}

impl Book {
    /// The one in this directory.
    pub fn new(dir: &Path) -> Book {
        Book {
            dir: dir.to_path_buf(),
        }
    }

    /// All that was written down, and when, ns since 1970. Whoever may write there need not be trusted: a link, a pipe, and
    /// what is longer than any of ours are refused.
    ///
    /// # Errors
    ///
    /// There is none, it cannot be read, or it is damaged.
    pub fn read(&self) -> Result<(Alerts, i64), Error> {
        let path = self.dir.join(NAME);
        let failed = |why: std::io::Error| match why.kind() {
            ErrorKind::NotFound => Error::Missing(self.dir.clone()),
            _ => Error::Io {
                path: path.clone(),
                why,
            },
        };
        let damaged = |why: String| Error::Damaged {
            path: path.clone(),
            why,
        };
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(flags.bits() as i32);
        let file = options.open(&path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() || meta.len() > MAX_BYTES {
            return Err(damaged("no plain file, or too long".into()));
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES)
            .read_to_end(&mut text)
            .map_err(failed)?;
        let page: Page = serde_json::from_slice(&text).map_err(|why| damaged(why.to_string()))?;
        if page.format > FORMAT {
            return Err(Error::Later {
                path,
                format: page.format,
            });
        }
        let mut alerts = page.alerts;
        alerts.forget();
        Ok((alerts, page.written_unix_ns))
    }

    /// Writes them down in one step, now, ns since 1970: a crash leaves those before.
    ///
    /// # Errors
    ///
    /// The file system refuses.
    pub fn write(&self, alerts: &Alerts, now_ns: i64) -> Result<(), Error> {
        let (path, open) = (self.dir.join(NAME), self.dir.join(OPEN));
        let page = Page {
            format: FORMAT,
            written_unix_ns: now_ns,
            alerts: alerts.clone(),
        };
        let text = serde_json::to_vec_pretty(&page).unwrap_or_default();
        let write = || -> std::io::Result<()> {
            // One that was left by who was killed.
            let _ = fs::remove_file(&open);
            let mut options = OpenOptions::new();
            let options = options.write(true).create_new(true).mode(0o640);
            options.open(&open)?.write_all(&text)?;
            fs::rename(&open, &path)
        };
        write().map_err(|why| Error::Io { path, why })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (book, path) = (Book::new(dir.path()), dir.path().join(NAME));
        assert!(matches!(book.read(), Err(Error::Missing(_))));
        book.write(&Alerts::default(), 7).unwrap();
        assert_eq!(book.read().unwrap(), (Alerts::default(), 7));
        let says = |book: &Book| book.read().unwrap_err().to_string();
        fs::write(&path, r#"{"format": 2, "alerts": []}"#).unwrap();
        assert!(says(&book).contains("later version"));
        fs::write(&path, r#"{"format": 1, "alerts": [7]}"#).unwrap();
        assert!(says(&book).contains("not a file of findings"));
        fs::write(&path, vec![b'['; 1 << 20]).unwrap();
        assert!(
            says(&book).contains("not a file of findings"),
            "no stack is that deep"
        );
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert!(matches!(book.read(), Err(Error::Io { .. })));
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        assert!(says(&book).contains("no plain file"));
    }
}
