//! Findings, and the rows behind their evidence.

use serde::Serialize;
#[cfg(test)]
use ts_rs::TS;

/// A cause that holds.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct Finding {
    /// Stable id of the cause.
    pub cause: String,
    /// Its number in the book.
    pub number: String,
    /// Whose trouble it is: `THIS HOST` …
    pub layer: String,
    /// One sentence: what is wrong.
    pub title: String,
    /// One sentence: what it costs.
    pub impact: String,
    /// How long connections waited for it in all; empty when that is not known.
    pub lost: String,
    /// One sentence: what to do.
    pub fix: String,
    /// Label and text: where, who, command, since when, impact …, in the order to be shown.
    pub facts: Vec<(String, String)>,
    /// When it began, s; null when that cannot be told.
    pub since_s: Option<f64>,
    /// From when to when it was seen to hold, s; empty when that cannot be told.
    pub spans: Vec<(f64, f64)>,
    /// Where its symptom is drawn over time; null where no chart has it.
    pub course: Option<Course>,
    /// `low`, `medium` or `high`.
    pub confidence: String,
    /// For and against.
    pub because: Vec<String>,
    /// The chain from the symptom to the limit, in order.
    pub steps: Vec<Step>,
    /// Numbers that must fit if the cause holds.
    pub arithmetic: Vec<Check>,
    /// Look-alikes, and what rules each out: id of the cause, its title, the reason.
    pub ruled_out: Vec<(String, String, String)>,
    /// What to do, the best first.
    pub advice: Vec<Advice>,
    /// How to check that it worked.
    pub verify: String,
}

/// Which lines of the time lines show a symptom.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct Course {
    /// Which of `Timelines::charts`.
    pub chart: u32,
    /// Which of its lines; of several the sum.
    pub lines: Vec<u32>,
    /// What they show, in a few words.
    pub says: String,
}

/// A cause that holds, and cost too little to be a finding.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct Noted {
    /// Stable id of the cause.
    pub cause: String,
    /// One sentence: what was seen.
    pub title: String,
    /// Where.
    pub at: String,
    /// What it cost, and why that is too little.
    pub because: String,
}

/// One step of the evidence.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct Step {
    /// What kind of thing it tells of, from the tables it rests on: see [`StepKind`].
    pub kind: StepKind,
    /// In words.
    pub says: String,
    /// Name and value of its numbers.
    pub numbers: Vec<(String, String)>,
    /// Names of some of the rows it rests on, as in `Run::rows`.
    pub rows: Vec<String>,
}

/// What a step tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub enum StepKind {
    /// A thread's wait and what woke it.
    Wait,
    /// A connection's life.
    Connection,
    /// A segment that was retransmitted, or lost.
    Segment,
    /// A packet that was dropped or refused.
    Refusal,
    /// A counter of the kernel.
    Counter,
    /// A queue, table or resource against its limit.
    Limit,
    /// A setting.
    Setting,
    /// A process, a thread or a CPU, and its time.
    Time,
    /// None of these.
    #[default]
    Other,
}

/// Two numbers that must fit.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct Check {
    /// What is compared.
    pub formula: String,
    /// What the cause predicts, with its unit.
    pub expected: String,
    /// What the recording says, with its unit.
    pub measured: String,
    /// Whether they fit.
    pub agrees: bool,
    /// What counts as fitting.
    pub tolerance: String,
}

/// Something to do about it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct Advice {
    /// What to do.
    pub action: String,
    /// A command that does it, or shows where to.
    pub command: Option<String>,
    /// What the command is: `fix:` or `look:`.
    pub kind: String,
    /// Where it applies.
    pub at: String,
    /// What it may cost.
    pub risk: String,
    /// What it will change.
    pub expected: String,
}

/// A row of the recording, as text.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct EvidenceRow {
    /// Its table.
    pub table: String,
    /// When, s.
    pub time_s: f64,
    /// Its columns that are not null: name and value.
    pub cells: Vec<(String, String)>,
}

/// A table and its columns.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct TableDoc {
    /// What a row is.
    pub doc: String,
    /// Column: name, unit, what it says.
    pub columns: Vec<(String, String, String)>,
}

/// A cause as the book tells it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/finding.ts"))]
pub struct CauseDoc {
    /// Stable id.
    pub id: String,
    /// Its number in the book.
    pub number: String,
    /// What it is.
    pub title: String,
    /// Markdown.
    pub text: String,
}
