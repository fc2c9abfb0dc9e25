//! What can go wrong in the lab, each in one line that says what was being done.

/// Why the lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Namespaces need root.
    #[error("the lab makes network namespaces and needs root; run it with sudo")]
    NotRoot,
    /// There is no such scenario.
    #[error("no scenario `{0}`; `tcpwhy lab list` prints the ones there are")]
    UnknownScenario(String),
    /// A scenario's file contradicts itself.
    #[error("scenario {name}: {why}")]
    Scenario {
        /// The scenario.
        name: String,
        /// What does not fit.
        why: String,
    },
    /// A recording would overwrite another.
    #[error("{path}: exists already; keep this run in another directory", path = .0.display())]
    Exists(std::path::PathBuf),
    /// A line of the corpus' truths is none.
    #[error("{path}: `{line}` says nothing of a recording; record the corpus anew (make corpus)", path = path.display())]
    NoTruth {
        /// The file.
        path: std::path::PathBuf,
        /// The line.
        line: String,
    },
    /// A program that the lab ran did not do its work.
    #[error("{command}: {why}")]
    Command {
        /// The command line.
        command: String,
        /// Its standard error, or how it ended, in one line.
        why: String,
    },
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Something that was waited for did not come.
    #[error("{what} did not happen within {seconds} s")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long, in seconds.
        seconds: u64,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted; everything the lab made has been removed")]
    Interrupted,
}

impl Error {
    /// For `map_err` on an I/O result: `what` says what was being done.
    pub(crate) fn io<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        let what = what.into();
        move |source| Error::Io {
            what,
            source: source.into(),
        }
    }
}
