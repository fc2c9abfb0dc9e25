//! What the report's page is given: one JSON document; `web/src/page/` is made from these types.
//!
//! Everything is derived and thinned here, so that the page only draws. Times are seconds since the
//! start of the recording unless a name says otherwise. Texts of the host are plain text.

mod chart;
mod facts;
mod finding;
mod limits;
mod services;
mod sockets;

use std::collections::BTreeMap;

use serde::Serialize;

#[cfg(test)]
use ts_rs::TS;

pub use chart::*;
pub use facts::*;
pub use finding::*;
pub use limits::*;
pub use services::*;
pub use sockets::*;

/// Everything the page shows.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/run.ts"))]
pub struct Page {
    /// Version of the tcpwhy that wrote the page.
    pub tcpwhy: String,
    /// The recordings, in the order given; at least one.
    pub runs: Vec<Run>,
    /// The book's page of each cause: ids lead to them.
    pub causes: Vec<CauseDoc>,
    /// What differs between them; null for one recording.
    pub comparison: Option<Compared>,
}

/// One recording.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/run.ts"))]
pub struct Run {
    /// Its directory's name.
    pub name: String,
    /// What it is of, and how it was made.
    pub facts: Facts,
    /// The answer in a line or two, for whoever reads no more.
    pub verdict: Verdict,
    /// Whose time requests took; null when none was recorded.
    pub services: Option<Services>,
    /// The causes that hold, the worst first.
    pub findings: Vec<Finding>,
    /// What holds as well, and cost too little to be a finding.
    pub noted: Vec<Noted>,
    /// What was looked at.
    pub summary: Overview,
    /// What the recording lacks, and what was left out when it was explained.
    pub health: Vec<Note>,
    /// The sources with their verdicts.
    pub sources: Vec<Source>,
    /// Settings in force, with what they were changed to.
    pub settings: Vec<Setting>,
    /// Time lines on one axis.
    pub timelines: Timelines,
    /// How long connecting took; null when no connection was seen to open.
    pub latency: Option<Latency>,
    /// Sockets over time; null when none was sampled.
    pub sockets: Option<Sockets>,
    /// What threads did with their time; null when threads were not recorded.
    pub threads: Option<Threads>,
    /// Flame graphs; empty when neither profile nor waits were recorded.
    pub flames: Vec<Flame>,
    /// Local ports per destination, lookup structures, and other resources against their limits.
    pub limits: Vec<Limits>,
    /// The rows behind the evidence, by their name in `Step::rows`.
    pub rows: BTreeMap<String, EvidenceRow>,
    /// The tables of these rows, by name.
    pub tables: BTreeMap<String, TableDoc>,
    /// What was thinned for the page, one sentence each; the recording has all of it.
    pub thinned: Vec<String>,
}
