//! What explain says of a recording.

use std::borrow::Cow;

use analysis::account::Service;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Scope};
use crate::id::Id;
use crate::summary::Summary;
use crate::unexplained::Unexplained;

/// What a recording shows: the causes that hold, the worst first, and what was looked at.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Explanation {
    /// The causes that hold, the one with the greatest impact first.
    pub findings: Vec<Finding>,
    /// What holds as well, and cost too little to be a finding.
    pub notes: Vec<Note>,
    /// Where the time of the connections to each service went, the longest waits first.
    pub account: Vec<Service>,
    /// Trouble of services that no finding and no note claims, the most first.
    pub unexplained: Vec<Unexplained>,
    /// What the recording holds and how far it can be trusted.
    pub summary: Summary,
}

impl Explanation {
    /// Lets the views of tcpwhy's that its advice names read the recording, which is kept under this name: what they are
    /// to show may be over on the host. `time` is what of it was read, as `--at` and `--last` take it.
    pub fn looks_at(&mut self, recording: &str, time: Option<(&str, &str)>) {
        let advice = self.findings.iter_mut().flat_map(|f| &mut f.advice);
        for command in advice.filter_map(|advice| advice.command.as_mut()) {
            if let Some(kept) = command.from_recording(recording, time) {
                *command = kept;
            }
        }
    }
}

/// A cause that holds, and cost too little to be a finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "note")]
#[non_exhaustive]
pub struct Note {
    /// The cause.
    pub cause: Id,
    /// Its number in the book.
    pub number: Cow<'static, str>,
    /// One sentence: what was seen.
    pub title: String,
    /// Where.
    pub scope: Scope,
    /// What it cost, and why that is too little.
    pub because: String,
}
