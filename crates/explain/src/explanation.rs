//! What explain says of a recording.

use std::borrow::Cow;

use analysis::account::Service;
use analysis::words;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Scope};
use crate::id::Id;
use crate::limits;
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
    /// Why it is worth a closer look, with all that explain can use recorded: something was found, a program of this host
    /// left unread what had come, or connections are in trouble that nothing explains. `None` where it is not.
    pub fn sick(&self) -> Option<String> {
        if let Some(finding) = self.findings.first() {
            return Some(finding.title.clone());
        }
        let unread_ns = |s: &Service| u64::from(s.unread_ms) * 1_000_000;
        let left = |s: &&Service| unread_ns(s) >= limits::LEFT_UNREAD.ns();
        if let Some(service) = self.account.iter().find(left) {
            let who = service.comm.as_deref().unwrap_or("a program");
            let (at, time) = (service.at, words::duration(unread_ns(service)));
            return Some(format!("{who} at {at} did not read for {time}"));
        }
        let trouble = self.unexplained.first()?;
        let (at, time) = (trouble.at, trouble.unexplained_s * 1e9);
        Some(format!(
            "connections at {at} were in trouble for {}, and nothing explains it",
            words::duration(time as u64)
        ))
    }

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
