//! What a recording is of, what was looked at, how whole it is, how the host was set.

use serde::Serialize;
#[cfg(test)]
use ts_rs::TS;

/// What a recording is of.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub struct Facts {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine, e.g. `x86_64`.
    pub machine: String,
    /// CPUs online.
    pub cpus: u32,
    /// Timer ticks per second; null when not known.
    pub hz: Option<u32>,
    /// `live`, or `model` and its name.
    pub producer: String,
    /// Parameters of the model and its seed.
    pub parameters: Vec<(String, String)>,
    /// Version of the tcpwhy that recorded.
    pub tcpwhy: String,
    /// Start, ms since 1970.
    pub start_unix_ms: f64,
    /// Length, s.
    pub length_s: f64,
    /// Whether the recorder ended the recording itself.
    pub complete: bool,
    /// Command line of the recorder.
    pub command_line: Vec<String>,
    /// Network namespaces: inode and name.
    pub namespaces: Vec<(u32, String)>,
    /// What recording cost, one sentence each.
    pub cost: Vec<String>,
}

/// What was looked at.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub struct Overview {
    /// Label and value: connections opened, accepted, failed …
    pub counts: Vec<(String, String)>,
    /// What moved: in words, and how often.
    pub symptoms: Vec<(String, f64)>,
    /// Causes that were tested: id and title.
    pub tested: Vec<(String, String)>,
    /// Causes that cannot be told from it: id, and why.
    pub cannot_tell: Vec<(String, String)>,
    /// What ended waits: kind, how many, the longest in ms.
    pub waits: Vec<(String, f64, f64)>,
    /// The longest waits that a retransmission ended, hop by hop in words.
    pub walks: Vec<Vec<String>>,
}

/// What a source says of itself.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub struct Note {
    /// The source.
    pub source: String,
    /// Whether something is missing.
    pub hole: bool,
    /// In plain words.
    pub says: String,
}

/// A source and what came of it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub struct Source {
    /// Its name.
    pub name: String,
    /// What it gives.
    pub gives: String,
    /// Without it recording fails.
    pub required: bool,
    /// `attached`, `switched off`, `unsupported` or `failed`.
    pub verdict: String,
    /// Why it is not attached, or not to the end.
    pub because: String,
    /// Records it lost.
    pub lost: f64,
}

/// A setting in force.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub struct Setting {
    /// Namespace's name; `host` for the whole host.
    pub netns: String,
    /// Name, as sysctl prints it.
    pub name: String,
    /// Value at the start.
    pub value: String,
    /// Later values, with when they were seen, s.
    pub changes: Vec<(f64, String)>,
}
