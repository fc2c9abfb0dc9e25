//! What threads did with their time, interval by interval.

use ahash::AHashMap;
use recording::tables::Thread;
use recording::{Error, Recording, Text};

use crate::Microstates;

/// What a thread did.
#[derive(Clone, Debug, Default)]
pub struct Band {
    /// Its command name, as it was last.
    pub comm: Text,
    /// Its intervals, in order of time.
    pub intervals: Vec<Interval>,
}

/// A time of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its start, ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Where it went.
    pub spent: Microstates,
}

/// What each of these threads did (process and id), in their order, in at most this many intervals: neighbours are
/// joined until they are few enough.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn threads(
    recording: &Recording,
    of: &[(u32, u32)],
    intervals: usize,
) -> Result<Vec<Band>, Error> {
    let places: AHashMap<(u32, u32), usize> = of.iter().copied().zip(0..).collect();
    let mut all = vec![Band::default(); of.len()];
    if all.is_empty() {
        return Ok(all);
    }
    for batch in recording.scan::<Thread>()? {
        for (_, row) in batch?.rows() {
            if let Some(place) = places.get(&(row.pid, row.tid)) {
                all[*place].add(row, intervals);
            }
        }
    }
    for band in all.iter_mut().filter(|b| b.intervals.len() > intervals) {
        halve(&mut band.intervals);
    }
    Ok(all)
}

impl Band {
    fn add(&mut self, row: Thread, intervals: usize) {
        self.intervals.push(Interval {
            from_ns: row.time_ns.saturating_sub(row.interval_ns),
            to_ns: row.time_ns,
            spent: Microstates::of(&row),
        });
        self.comm = row.comm;
        if self.intervals.len() > 2 * intervals {
            halve(&mut self.intervals);
        }
    }
}

/// Joins each two neighbours.
fn halve(intervals: &mut Vec<Interval>) {
    let joined = intervals.chunks(2).filter_map(|pair| {
        let (mut joined, rest) = pair.split_first().map(|(first, rest)| (*first, rest))?;
        for later in rest {
            joined.to_ns = later.to_ns;
            joined.spent.add(later.spent);
        }
        Some(joined)
    });
    *intervals = joined.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_until_there_are_few_and_none_of_their_time_is_lost() {
        let mut band = Band::default();
        for i in 1..=101 {
            let row = Thread {
                time_ns: i * 10,
                interval_ns: 10,
                user_ns: 3,
                sleep_ns: 7,
                ..Thread::default()
            };
            band.add(row, 8);
        }
        assert!(band.intervals.len() <= 17, "{}", band.intervals.len());
        let ends = (
            band.intervals[0].from_ns,
            band.intervals.last().unwrap().to_ns,
        );
        assert_eq!(ends, (0, 1_010));
        let pairs = band.intervals.windows(2);
        assert!(pairs.into_iter().all(|p| p[0].to_ns == p[1].from_ns));
        let on_cpu: u64 = band.intervals.iter().map(|i| i.spent.on_cpu_ns()).sum();
        assert_eq!(on_cpu, 303);
    }
}
