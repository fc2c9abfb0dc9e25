//! One line of `tcpwhy explain --json`, as a program reads it.

use analysis::account::Service;
use serde::Deserialize;

use crate::explanation::Note;
use crate::finding::Finding;
use crate::summary::Summary;
use crate::unexplained::Unexplained;

/// What a line of `tcpwhy explain --json` is, by its `type`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Line {
    /// A cause that holds, the one that cost most time first.
    Finding(Box<Finding>),
    /// A cause that holds, and cost too little to be a finding. It never is a reason for an exit code.
    Note(Box<Note>),
    /// Where the time of the connections to one service went, those whose ends waited longest first.
    Account(Box<Service>),
    /// Trouble of one service that no finding and no note claims.
    Unexplained(Box<Unexplained>),
    /// What was looked at; always the last line.
    Summary(Box<Summary>),
}
