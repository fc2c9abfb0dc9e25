//! The requests of every service, in equal parts of a recording.

use std::collections::BTreeMap;

use recording::tables::Request;
use recording::{Error, Recording};

use crate::Story;
use crate::account::{Requests, ServiceKey, ServiceRequests};

/// Parts at most.
const MOST: u64 = 60;
/// Rows are sums of a second.
const SECOND_NS: u64 = 1_000_000_000;
/// Services kept of each part.
const KEPT: usize = 64;

/// A recording in equal parts.
#[derive(Debug)]
pub struct Parts {
    /// How long each is, s: whole seconds.
    pub width_s: f64,
    /// The requests of each part as sums: neither percentiles nor slow ones.
    pub requests: Vec<BTreeMap<ServiceKey, Requests>>,
}

/// The requests of those services that had most, in parts of the recording.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn requests(recording: &Recording, story: &Story) -> Result<Parts, Error> {
    let manifest = &recording.manifest;
    let split = Split::of(manifest.start_ns, manifest.end_ns);
    let mut all: Vec<ServiceRequests<KEPT>> = Vec::new();
    all.resize_with(split.count, ServiceRequests::default);
    for batch in recording.scan::<Request>()? {
        for (at, row) in batch?.rows() {
            all[split.part(row.time_ns)].add(Some(at), &row);
        }
    }
    Ok(Parts {
        width_s: split.width_ns as f64 / 1e9,
        requests: all
            .iter()
            .map(|part| part.by_service(story.start_ns, &story.listeners, &story.waits))
            .collect(),
    })
}

/// Where the parts begin and end.
struct Split {
    start_ns: u64,
    width_ns: u64,
    count: usize,
}

impl Split {
    fn of(start_ns: u64, end_ns: u64) -> Split {
        let length_ns = end_ns.saturating_sub(start_ns);
        let seconds = length_ns.div_ceil(SECOND_NS).max(1);
        let width_ns = seconds.div_ceil(MOST).saturating_mul(SECOND_NS);
        Split {
            start_ns,
            width_ns,
            count: length_ns.div_ceil(width_ns).max(1) as usize,
        }
    }

    /// The part of a row: its time is the end of its second. What comes late is of the last part.
    fn part(&self, time_ns: u64) -> usize {
        let since_ns = time_ns.saturating_sub(self.start_ns);
        let part = since_ns.saturating_sub(1) / self.width_ns;
        (part as usize).min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_is_of_one_part() {
        const START: u64 = 7;
        let at = |second: u64| START + second * SECOND_NS;
        let split = Split::of(START, at(10));
        assert_eq!((split.width_ns, split.count), (SECOND_NS, 10));
        let parts: Vec<_> = (1..=11).map(|second| split.part(at(second))).collect();
        assert_eq!(parts, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
        let split = Split::of(START, at(130));
        assert_eq!((split.width_ns, split.count), (3 * SECOND_NS, 44));
        assert_eq!([1, 3, 4, 130].map(|s| split.part(at(s))), [0, 0, 1, 43]);
        for (start, end) in [(0, 0), (9, 1), (0, u64::MAX), (u64::MAX, 0)] {
            let split = Split::of(start, end);
            assert!(split.count as u64 <= MOST && split.part(u64::MAX) < split.count);
        }
    }
}
