//! What is drawn: time lines, latencies, threads, flame graphs.

use serde::Serialize;
#[cfg(test)]
use ts_rs::TS;

/// Integers, each but the first as the difference to the one before (nulls passed over); times
/// `scale` they are the values. That packs well.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
pub struct Packed {
    /// What the sums are multiplied with.
    pub scale: f64,
    /// The differences; null where there is no value.
    #[cfg_attr(test, ts(type = "(number | null)[]"))]
    pub deltas: Vec<Option<i64>>,
}

/// Time lines that share one axis.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
pub struct Timelines {
    /// Width of a bin, s. Bin i is from i to i + 1 widths.
    pub bin_s: f64,
    /// How many bins.
    pub bins: u32,
    /// The charts, from top to bottom.
    pub charts: Vec<Chart>,
    /// What to mark, by finding: when each began, and when it was last seen.
    pub marks: Vec<Mark>,
}

/// A moment.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
pub struct Mark {
    /// Which finding, from 0 on.
    pub finding: u32,
    /// When it began, s.
    pub at_s: f64,
    /// When it was last seen, s.
    pub to_s: f64,
    /// What happened.
    pub says: String,
}

/// One chart of the time lines.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
pub struct Cluster {
    /// Its median, ms.
    pub median_ms: f64,
    /// How many.
    pub count: f64,
    /// Which SYN of the schedule it is: 0 the first, 1 the first one retransmitted …; null when none fits.
    pub attempt: Option<u32>,
}

/// What threads did with their time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/chart.ts"))]
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
