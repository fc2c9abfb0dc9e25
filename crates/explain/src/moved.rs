//! Counters that moved with a symptom, ranked over all of them.

use recording::{RowRef, strongest_correlation};

use crate::story::Story;

/// A counter that moved with the symptom.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    /// `Tcp.OutRsts`.
    pub(crate) name: String,
    /// Its correlation with the symptom over the intervals between samples.
    pub(crate) correlation: f64,
    /// By how much it changed in all.
    pub(crate) by: f64,
    /// Where it changed most.
    pub(crate) row: RowRef,
}

/// Counters that count retransmissions themselves: they move with SYNs sent again by definition.
const THE_SYMPTOM: &[&str] = &[
    "Tcp.RetransSegs",
    "TcpExt.TCPSynRetrans",
    "TcpExt.TCPTimeouts",
    "TcpExt.TcpTimeoutRehash",
    "TcpExt.TCPLostRetransmit",
];
/// Samples without which a correlation is chance.
const LEAST_INTERVALS: usize = 4;
/// A correlation below this is no more than a common trend.
const LEAST: f64 = 0.7;

/// The counters of a namespace that moved with events at `times` (SYNs sent again, failed
/// connects), the closest first: by correlation, and of those that correlate alike, the one that
/// changed by as much as there were events.
pub(crate) fn with(story: &Story, netns: u32, times: &[u64], most: usize) -> Vec<Moved> {
    let samples = story.series.times(netns);
    if samples.len() <= LEAST_INTERVALS || times.is_empty() {
        return Vec::new();
    }
    let mut symptom = vec![0.0; samples.len() - 1];
    for time in times {
        let after = samples.partition_point(|t| t < time);
        if let Some(count) = after.checked_sub(1).and_then(|i| symptom.get_mut(i)) {
            *count += 1.0;
        }
    }
    let lines = story.series.lines(netns);
    let lines = lines.filter(|l| !THE_SYMPTOM.contains(&l.name));
    let moved = lines.filter_map(|line| {
        // The order of a lag is known to one sample only: at most one is taken for "together".
        let (correlation, _) = strongest_correlation(&symptom, &line.deltas)?;
        let by = line.deltas.iter().sum();
        // A gauge comes back to where it was.
        (correlation >= LEAST && by >= 1.0).then(|| Moved {
            name: line.name.to_string(),
            correlation,
            by,
            row: line.row,
        })
    });
    let mut moved: Vec<Moved> = moved.collect();
    let total = times.len() as f64;
    // Correlations of some ten samples are not known better than this.
    let alike = |m: &Moved| (m.correlation * 10.0).round();
    let unlike = |m: &Moved| (m.by.max(1.0) / total).ln().abs();
    moved.sort_by(|a, b| {
        let by_correlation = alike(b).total_cmp(&alike(a));
        by_correlation.then_with(|| unlike(a).total_cmp(&unlike(b)))
    });
    moved.truncate(most);
    moved
}
