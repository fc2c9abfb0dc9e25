//! Tables: what is held against its limit, and what differs between recordings.

use serde::Serialize;
#[cfg(test)]
use ts_rs::TS;

use super::chart::Flame;

/// A table of things against their limits.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/limits.ts"))]
pub struct Limits {
    /// Stable name: `listeners`, `ports`, `tables`, `resources`.
    pub id: String,
    /// Title.
    pub title: String,
    /// Headings.
    pub columns: Vec<String>,
    /// Rows, the fullest first: cells, and how full it was at most, 0..; null without a limit.
    pub rows: Vec<(Vec<String>, Option<f64>)>,
    /// So many of them, from the first on, are worth a look; the others are far from a limit, or have none.
    pub telling: u32,
    /// Rows that were left out.
    pub left_out: f64,
}

/// What differs between the recordings.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/limits.ts"))]
pub struct Compared {
    /// What sets them apart, in a line: the head of the page.
    pub headline: String,
    /// The same and the sentences below as Markdown, for a ticket.
    pub ticket: String,
    /// Sentences, the most telling first.
    pub says: Vec<String>,
    /// Tables: runs, attributes, CPU cost, functions, counters, settings.
    pub tables: Vec<Limits>,
    /// Differential flame graphs, of the second recording against the first; empty without profiles.
    pub flames: Vec<Flame>,
}
