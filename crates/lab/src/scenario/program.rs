//! The shape of a program of the distribution in a scenario's file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A program of the distribution, as it runs in production: a server, or a client that ends by itself. In the
/// texts `{dir}` is a directory of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    /// By which the file and errors speak of it, and the name of its directory.
    pub name: String,
    /// Where it runs.
    pub node: String,
    /// The Debian package that has it.
    pub package: String,
    /// The program and its arguments; it stays in the foreground.
    pub command: Vec<String>,
    /// A command that is run once, before it and before anything is recorded.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// Files of its directory, and what is in them.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Files of so many zeros.
    #[serde(default)]
    pub blobs: BTreeMap<String, u64>,
    /// Where it listens; absent of a client, which starts when the load does.
    pub port: Option<u16>,
    /// It also has to print this before it is ready.
    pub ready: Option<String>,
    /// A command that is run once when it is ready, before anything is recorded: a client that fills its caches.
    #[serde(default)]
    pub first: Vec<String>,
    /// The user whose it is; root when absent.
    pub user: Option<String>,
}

impl ProgramSpec {
    /// What the kernel calls its processes.
    pub(crate) fn comm(&self) -> &str {
        let file = self.command[0].rsplit('/').next().unwrap_or_default();
        file.get(..15).unwrap_or(file)
    }
}
