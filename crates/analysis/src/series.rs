//! Every counter over time, per namespace, so that what moved with a symptom can be found.

use std::collections::BTreeMap;

use recording::RowRef;
use recording::tables::Counter;

use crate::bounded::BoundedTree;

/// Changes kept over all counters: hours of a busy host. About 100 MB.
const MAX_CHANGES: usize = 1 << 21;
/// Namespaces followed: a dense host has a few hundred.
const MAX_NAMESPACES: usize = 1_024;
/// Samples of a namespace, and counters of it; a kernel has some 400.
const MAX_SAMPLES: usize = 1 << 14;
const MAX_COUNTERS: usize = 1_024;

/// All counters that changed.
#[derive(Debug, Default)]
pub struct Series {
    namespaces: BoundedTree<u32, OfNetns, MAX_NAMESPACES>,
    kept: usize,
    /// Changes beyond the bounds.
    pub folded: u64,
}

#[derive(Debug, Default)]
struct OfNetns {
    /// When samples were taken.
    times: Vec<u64>,
    /// By counter, the sample and by how much the counter had changed.
    changes: BTreeMap<Box<str>, Vec<(u32, i64, RowRef)>>,
}

/// One counter over the intervals between samples.
pub struct Line<'a> {
    /// `Tcp.OutRsts`.
    pub name: &'a str,
    /// The change in each interval.
    pub deltas: Vec<f64>,
    /// Where it changed most.
    pub row: RowRef,
}

impl Series {
    /// Takes a row.
    pub(crate) fn add(&mut self, at: RowRef, row: &Counter) {
        let delta = row.delta.filter(|d| *d != 0);
        let Some(of_netns) = self.namespaces.first_come(row.netns, OfNetns::default) else {
            self.folded += u64::from(delta.is_some());
            return;
        };
        // Counters of one sample are read within a few ms of each other, the first of them first.
        const ONE_SAMPLE: u64 = 50_000_000;
        let last = of_netns.times.last().copied();
        let later = last.is_none_or(|t| row.time_ns > t.saturating_add(ONE_SAMPLE));
        if later && of_netns.times.len() <= MAX_SAMPLES {
            of_netns.times.push(row.time_ns);
        }
        let Some(delta) = delta else { return };
        let name = format!("{}.{}", row.group, row.name).into_boxed_str();
        let room = of_netns.changes.len() < MAX_COUNTERS || of_netns.changes.contains_key(&name);
        if self.kept >= MAX_CHANGES || of_netns.times.len() > MAX_SAMPLES || !room {
            self.folded += 1;
            return;
        }
        self.kept += 1;
        let sample = of_netns.times.len() as u32 - 1;
        let changes = of_netns.changes.entry(name).or_default();
        changes.push((sample, delta, at));
    }

    /// When the namespace was sampled, ns; the intervals lie between.
    pub fn times(&self, netns: u32) -> &[u64] {
        self.namespaces.get(&netns).map_or(&[], |n| &n.times)
    }

    /// When a counter was first seen to have risen, ns.
    pub fn first_rise(&self, netns: u32, group: &str, name: &str) -> Option<u64> {
        let of_netns = self.namespaces.get(&netns)?;
        let changes = of_netns.changes.get(&*format!("{group}.{name}"))?;
        let (sample, ..) = changes.iter().find(|(_, delta, _)| *delta > 0)?;
        of_netns.times.get(*sample as usize).copied()
    }

    /// Every counter of a namespace that changed.
    pub fn lines(&self, netns: u32) -> impl Iterator<Item = Line<'_>> {
        let of_netns = self.namespaces.get(&netns).into_iter();
        of_netns.flat_map(|n| {
            n.changes
                .iter()
                .filter_map(|(name, changes)| n.line(name, changes))
        })
    }
}

impl OfNetns {
    fn line<'a>(&self, name: &'a str, changes: &[(u32, i64, RowRef)]) -> Option<Line<'a>> {
        let mut deltas = vec![0.0; self.times.len().saturating_sub(1)];
        for (sample, delta, _) in changes {
            if let Some(at) = deltas.get_mut((*sample as usize).checked_sub(1)?) {
                *at += *delta as f64;
            }
        }
        let most = changes.iter().max_by_key(|(_, delta, _)| *delta)?;
        Some(Line {
            name,
            deltas,
            row: most.2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_number_of_namespaces_some_are_followed_and_the_changes_of_others_counted() {
        let at = RowRef {
            table: "counter",
            segment: 1,
            row: 0,
        };
        let mut series = Series::default();
        for netns in 0..3 * MAX_NAMESPACES as u32 {
            for (time_ns, delta) in [(0, None), (1_000_000_000, Some(5))] {
                let row = Counter {
                    time_ns,
                    netns,
                    group: "Tcp".into(),
                    name: "OutRsts".into(),
                    value: 5,
                    delta,
                };
                series.add(at, &row);
            }
        }
        assert_eq!(series.namespaces.len(), MAX_NAMESPACES);
        assert_eq!(series.folded, 2 * MAX_NAMESPACES as u64);
        assert_eq!(series.lines(0).count(), 1);
    }
}
