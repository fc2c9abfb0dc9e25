//! What the report's page is given: one JSON document; `web/src/page.ts` is made from these types.
//!
//! Everything is derived and thinned here, so that the page only draws. Times are seconds since the
//! start of the recording unless a name says otherwise. Texts of the host are plain text.

use std::collections::BTreeMap;

use serde::Serialize;

#[cfg(test)]
use ts_rs::TS;

/// Everything the page shows.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Page {
    /// Version of the tcpwhy that wrote the page.
    pub tcpwhy: String,
    /// The recordings, in the order given; at least one.
    pub runs: Vec<Run>,
    /// What differs between them; null for one recording.
    pub comparison: Option<Compared>,
}

/// One recording.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Run {
    /// Its directory's name.
    pub name: String,
    /// What it is of, and how it was made.
    pub facts: Facts,
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

/// What a recording is of.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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

/// Whose time the requests of each listener and destination took.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Services {
    /// What time went with, in the order of the bars.
    pub parts: Vec<Part>,
    /// How long each part of the recording is in `ServiceTime::over_time`, s.
    pub width_s: f64,
    /// Those first whose exchanges took most time.
    pub services: Vec<ServiceTime>,
}

/// What time went with.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Part {
    /// In a word or two.
    pub name: String,
    /// Whose it is.
    pub whose: Whose,
}

/// Whose time it was.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub enum Whose {
    /// Our application's.
    Application,
    /// TCP's on this host.
    Tcp,
    /// The network's.
    Network,
    /// One of these two's: no round trip tells them apart.
    NetworkOrPeer,
    /// The other end's.
    Peer,
}

/// The requests of a listener or destination.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct ServiceTime {
    /// This host answers; else it asks.
    pub serves: bool,
    /// Where it listens, or connects to.
    pub at: String,
    /// Namespace's name.
    pub netns: String,
    /// The program that listens, or asks; may be empty.
    pub owner: String,
    /// Requests that were answered.
    pub exchanges: f64,
    /// The same per second.
    pub per_s: f64,
    /// Not answered for a second or longer when the recording ended.
    pub open: f64,
    /// Whose connections closed before the answer.
    pub unanswered: f64,
    /// Requests and answers cannot be told to belong together.
    pub multiplexed: bool,
    /// Half took no longer, ms; null when multiplexed.
    pub p50_ms: Option<f64>,
    /// 99 in 100 took no longer, ms; null when multiplexed.
    pub p99_ms: Option<f64>,
    /// Time of all together by part, s.
    pub spent_s: Vec<f64>,
    /// The same for each part of the recording; none where nothing was answered.
    pub over_time: Vec<Vec<f64>>,
}

/// A cause that holds.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Finding {
    /// Stable id of the cause.
    pub cause: String,
    /// Its number in the book.
    pub number: String,
    /// One sentence: what is wrong.
    pub title: String,
    /// One sentence: what to do.
    pub fix: String,
    /// Label and text: where, who, command, since when, impact …, in the order to be shown.
    pub facts: Vec<(String, String)>,
    /// When it began, s; null when that cannot be told.
    pub since_s: Option<f64>,
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

/// A cause that holds, and cost too little to be a finding.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Advice {
    /// What to do.
    pub action: String,
    /// A command that does it, or shows where to.
    pub command: Option<String>,
    /// Where it applies.
    pub at: String,
    /// What it may cost.
    pub risk: String,
    /// What it will change.
    pub expected: String,
}

/// What was looked at.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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

/// Integers, each but the first as the difference to the one before (nulls passed over); times
/// `scale` they are the values. That packs well.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Packed {
    /// What the sums are multiplied with.
    pub scale: f64,
    /// The differences; null where there is no value.
    #[cfg_attr(test, ts(type = "(number | null)[]"))]
    pub deltas: Vec<Option<i64>>,
}

/// Time lines that share one axis.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Timelines {
    /// Width of a bin, s. Bin i is from i to i + 1 widths.
    pub bin_s: f64,
    /// How many bins.
    pub bins: u32,
    /// The charts, from top to bottom.
    pub charts: Vec<Chart>,
    /// Moments to mark, the first being when the trouble began, if that is known.
    pub marks: Vec<Mark>,
}

/// A moment.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Mark {
    /// When, s.
    pub at_s: f64,
    /// What happened.
    pub says: String,
}

/// One chart of the time lines.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Chart {
    /// Stable name: `connections`, `retransmits`, `resets`, `drops`, `time-wait`, `backlog`, `cpu`,
    /// `run-queue`, `throughput`.
    pub id: String,
    /// Title.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// The lines; a value per bin, null where nothing was measured.
    pub lines: Vec<Line>,
    /// What the reader must know to read it; may be empty.
    pub note: String,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Line {
    /// Name.
    pub name: String,
    /// It is the limit that the line of the same name without it is to be seen against.
    pub limit: bool,
    /// A value per bin.
    pub values: Packed,
}

/// How long connecting took, connect() to established.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Latency {
    /// What was measured, in a sentence.
    pub says: String,
    /// Connections measured.
    pub count: f64,
    /// Percentiles: name and ms.
    pub percentiles: Vec<(String, f64)>,
    /// Upper bounds of the classes, ms, rising; the first begins at 0.
    pub bounds_ms: Vec<f64>,
    /// Connections in each class.
    pub counts: Vec<f64>,
    /// Connections in each class (rows) and bin of time (columns) as `[bin, class, count]`; the heat
    /// map.
    pub heat: Vec<(u32, u32, u32)>,
    /// Values that lie close together.
    pub clusters: Vec<Cluster>,
    /// When the kernel retransmits an unanswered SYN, ms after the first.
    pub schedule_ms: Vec<f64>,
}

/// A cluster of latencies.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Cluster {
    /// Its median, ms.
    pub median_ms: f64,
    /// How many.
    pub count: f64,
    /// Which SYN of the schedule it is: 0 the first, 1 the first one retransmitted …; null when none fits.
    pub attempt: Option<u32>,
}

/// Sockets over time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Sockets {
    /// How many the recording has; the page has `sockets.len()` of them.
    pub total: f64,
    /// Names of the attributes by which sockets can be coloured and filtered: `sack`, `owner` …
    pub attributes: Vec<String>,
    /// The sockets.
    pub sockets: Vec<Socket>,
    /// When the samples were taken, s, socket after socket.
    pub time_s: Packed,
    /// The measures, as long as `time_s`.
    pub measures: Vec<Measure>,
    /// Which are slow among their like, and what tells them apart: sentences.
    pub outliers: Vec<String>,
}

/// A socket.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Socket {
    /// `local → remote`.
    pub name: String,
    /// The values of the attributes, in their order.
    pub attributes: Vec<String>,
    /// Where its samples begin.
    pub first: u32,
    /// How many samples it has.
    pub count: u32,
    /// It is slow among its like.
    pub outlier: bool,
}

/// A measure of sockets over time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Measure {
    /// `cwnd`, `rtt`, `rate sent`, `rate received`, `retransmitted` …
    pub name: String,
    /// Unit.
    pub unit: String,
    /// A value per sample.
    pub values: Packed,
}

/// What threads did with their time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Threads {
    /// How many threads the recording has.
    pub total: f64,
    /// Names of the states, in the order of `Band::shares`: USR SYS LAT SLP LCK DSK FLT STP.
    pub states: Vec<String>,
    /// The threads told, those that did or waited most first.
    pub bands: Vec<Band>,
}

/// A thread's time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Band {
    /// `comm/tid`.
    pub name: String,
    /// Process.
    pub pid: u32,
    /// Intervals: from, to, both s.
    pub intervals: Vec<(f64, f64)>,
    /// Per interval the shares of the states, %, summing to 100.
    pub shares: Vec<Vec<f64>>,
}

/// A flame graph.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Flame {
    /// Stable name: `cpu`, `softirq`, `cpu-0` …, `off-cpu`.
    pub id: String,
    /// Title.
    pub title: String,
    /// What a value is: `samples` or `ms`.
    pub unit: String,
    /// The tree; its value is the whole.
    pub root: Node,
    /// What the reader must know: idle share, what was left out.
    pub note: String,
}

/// A function in a flame graph.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Node {
    /// Function; `_[k]` at its end marks the kernel's.
    pub name: String,
    /// Its own and its callees' value.
    pub value: f64,
    /// In a differential graph: its share of the whole minus that in the other recording, -1..1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub delta: Option<f64>,
    /// Callees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, ts(optional, as = "Option<Vec<Node>>"))]
    pub children: Vec<Node>,
}

/// A table of things against their limits.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Limits {
    /// Stable name: `listeners`, `ports`, `tables`, `resources`.
    pub id: String,
    /// Title.
    pub title: String,
    /// Headings.
    pub columns: Vec<String>,
    /// Rows, the fullest first: cells, and how full it was at most, 0..; null without a limit.
    pub rows: Vec<(Vec<String>, Option<f64>)>,
    /// Rows that were left out.
    pub left_out: f64,
}

/// A row of the recording, as text.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct TableDoc {
    /// What a row is.
    pub doc: String,
    /// Column: name, unit, what it says.
    pub columns: Vec<(String, String, String)>,
}

/// What differs between the recordings.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page.ts"))]
pub struct Compared {
    /// Sentences, the most telling first.
    pub says: Vec<String>,
    /// Tables: runs, attributes, CPU cost, functions, counters, settings.
    pub tables: Vec<Limits>,
    /// Differential flame graphs, of the second recording against the first; empty without profiles.
    pub flames: Vec<Flame>,
}
