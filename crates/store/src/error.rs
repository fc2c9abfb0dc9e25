//! What can be wrong with a store, each in one line that names it and what to do.

use std::path::{Path, PathBuf};

/// Why a store could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is at the path.
    #[error("{0}: no such store; `tcpwhy serve` keeps one")]
    Missing(PathBuf),
    /// There is something else.
    #[error("{0}: not a store: it has files and no store.json; name an empty directory")]
    Foreign(PathBuf),
    /// Another process writes it.
    #[error("{0}: another tcpwhy records into this store")]
    Locked(PathBuf),
    /// It holds nothing of a time.
    #[error("{path}: nothing was recorded at that time; {holds}", path = path.display())]
    Nothing {
        /// The store.
        path: PathBuf,
        /// What it holds instead.
        holds: String,
    },
    /// A recording in it.
    #[error(transparent)]
    Recording(#[from] recording::Error),
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
    pub(crate) fn io(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
        move |why| Error::Io {
            path: path.to_path_buf(),
            why,
        }
    }
}
