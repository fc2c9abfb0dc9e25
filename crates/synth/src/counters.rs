//! Counters that rise, and whose deltas follow.

use std::collections::BTreeMap;

use recording::counter;
use recording::tables::Counter;

/// What the counters of all namespaces are.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    values: BTreeMap<(u32, String), i64>,
    /// By how much they rose since the last sample.
    rises: BTreeMap<(u32, &'static str), i64>,
}

impl Counters {
    /// A counter is what it is when the recording begins.
    pub fn begin(&mut self, time_ns: u64, netns: u32, name: &str, value: i64) -> Counter {
        self.values.insert((netns, name.into()), value);
        row(time_ns, netns, name, value, None)
    }

    /// A counter has risen.
    pub fn rise(&mut self, time_ns: u64, netns: u32, name: &str, by: i64) -> Counter {
        let value = self.values.entry((netns, name.into())).or_default();
        *value += by;
        row(time_ns, netns, name, *value, Some(by))
    }

    /// The same as `observe` samples it: one that stands still has no row, but that of the segments
    /// received, which betrays that the namespace was visited.
    pub fn sample_one(&mut self, time_ns: u64, netns: u32, name: &str, by: i64) -> Option<Counter> {
        let told = by != 0 || name == counter::IN_SEGS;
        told.then(|| self.rise(time_ns, netns, name, by))
    }

    /// Counts until the next [`sample`](Counters::sample).
    pub fn count(&mut self, netns: u32, name: &'static str, by: u64) {
        *self.rises.entry((netns, name)).or_default() += by as i64;
    }

    /// Samples what was counted, by namespace and name.
    pub fn sample(&mut self, time_ns: u64) -> Vec<Counter> {
        let rises = std::mem::take(&mut self.rises).into_iter();
        rises
            .filter_map(|((netns, name), by)| self.sample_one(time_ns, netns, name, by))
            .collect()
    }
}

fn row(time_ns: u64, netns: u32, name: &str, value: i64, delta: Option<i64>) -> Counter {
    let (group, name) = counter::parts(name);
    Counter {
        time_ns,
        netns,
        group: group.into(),
        name: name.into(),
        value,
        delta,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_follow_what_rises_and_only_segments_stand_still() {
        let mut counters = Counters::default();
        let first = counters.begin(0, 1, counter::OUT_SEGS, 100);
        assert_eq!((first.value, first.delta), (100, None));
        for _ in 0..2 {
            counters.count(1, counter::OUT_SEGS, 2);
        }
        counters.count(1, counter::OUT_RSTS, 0);
        counters.count(1, counter::IN_SEGS, 0);
        let rows = counters.sample(9);
        let told = |row: &Counter| (row.name.to_string(), row.value, row.delta);
        assert_eq!(
            rows.iter().map(told).collect::<Vec<_>>(),
            [
                ("InSegs".into(), 0, Some(0)),
                ("OutSegs".into(), 104, Some(4))
            ]
        );
        assert!(counters.sample(10).is_empty());
    }
}
