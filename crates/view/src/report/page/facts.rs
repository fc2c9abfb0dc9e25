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
    /// What moved.
    pub symptoms: Vec<Symptom>,
    /// Causes that were tested: id and title.
    pub tested: Vec<(String, String)>,
    /// Causes that cannot be told from it: id, and why.
    pub cannot_tell: Vec<(String, String)>,
    /// What ended waits: kind, how many, the longest in ms.
    pub waits: Vec<(String, f64, f64)>,
    /// The longest waits that a retransmission ended, hop by hop in words.
    pub walks: Vec<Vec<String>>,
}

/// Something that moved.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub struct Symptom {
    /// What, in words or as the kernel calls it.
    pub says: String,
    /// How often.
    pub count: f64,
    /// What it means; may be empty.
    pub means: String,
}

/// The answer in a line or two.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub struct Verdict {
    /// What kind of answer it is.
    pub kind: VerdictKind,
    /// Whose trouble the worst finding is, or that it is not TCP's; may be empty.
    pub layer: String,
    /// What is wrong, or that nothing was found.
    pub says: String,
    /// What else must be known of it; may be empty.
    pub also: String,
    /// Where the time of the service that waited most went; may be empty.
    pub time: String,
    /// What no finding claims, a sentence for each service.
    pub unexplained: Vec<String>,
    /// The same as Markdown, for a ticket.
    pub ticket: String,
}

/// What kind of answer a verdict is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(TS), ts(export_to = "page/facts.ts"))]
pub enum VerdictKind {
    /// Causes hold.
    Found,
    /// None does, and somebody else took the time.
    NotTcp,
    /// None does, and yet something moved.
    Unexplained,
    /// None does, and nothing moved.
    #[default]
    Clean,
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
