//! Sockets over time.

use serde::Serialize;
#[cfg(test)]
use ts_rs::TS;

use super::chart::Packed;

/// Sockets over time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(TS), ts(export_to = "page/sockets.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/sockets.ts"))]
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
#[cfg_attr(test, derive(TS), ts(export_to = "page/sockets.ts"))]
pub struct Measure {
    /// `cwnd`, `rtt`, `rate sent`, `rate received`, `retransmitted` …
    pub name: String,
    /// Unit.
    pub unit: String,
    /// A value per sample.
    pub values: Packed,
}
