//! What can be wrong with a recording, each in one line that names the file and the reason.

use std::path::PathBuf;

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is at the path.
    #[error("{0}: no such recording")]
    Missing(PathBuf),
    /// The path is not a recording.
    #[error("{path}: not a tcpwhy recording: {why}", path = path.display())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Written by a newer tcpwhy.
    #[error("{path}: written in format {found}, this tcpwhy reads up to format {known}; update tcpwhy", path = path.display())]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format we know.
        known: u64,
    },
    /// A file of the recording is damaged.
    #[error("{path}: damaged: {why}; move this file away to read the rest", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// A file that holds a recording has something in it that no recording has, or is damaged itself.
    #[error("{path}: refused: {why}", path = path.display())]
    Packed {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// Refuses to write into something that exists.
    #[error("{0}: exists already; choose another name with -o, or remove it")]
    Exists(PathBuf),
    /// What shall be read as one does not belong together.
    #[error("cannot be read as one recording: {0}")]
    Apart(&'static str),
    /// Nobody reads the live recording any more.
    #[error("the reader of the live recording has gone")]
    Closed,
    /// The system refused.
    #[error("{path}: {why}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason; part of the text already, so not its source as well.
        why: std::io::Error,
    },
}

impl Error {
    /// For `map_err` on an I/O result.
    pub(crate) fn io(path: &std::path::Path) -> impl Fn(std::io::Error) -> Error + '_ {
        move |why| Error::Io {
            path: path.to_path_buf(),
            why,
        }
    }
    pub(crate) fn packed(path: &std::path::Path, why: impl ToString) -> Error {
        Error::Packed {
            path: path.to_path_buf(),
            why: why.to_string(),
        }
    }
    pub(crate) fn damaged(path: &std::path::Path, why: impl ToString) -> Error {
        // Library messages may hold several lines; an error is one.
        let why = why.to_string();
        Error::Damaged {
            path: path.to_path_buf(),
            why: why.lines().next().unwrap_or("unreadable").to_string(),
        }
    }
}
