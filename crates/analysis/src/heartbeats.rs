//! Messages that were late, and how much of that time the CPU that received them was in softirq.

use std::collections::VecDeque;

use recording::tables::{Cpu, Gap, Heartbeat};
use recording::{Error, Recording, RowRef};

use crate::bounded::{BoundedTree, Interest};
use crate::cpus::CpuTimes;
use crate::stats::ratio;

/// Late messages that are kept, the latest of all.
const MAX_GAPS: usize = 4_096;
/// CPUs followed; NR_CPUS is 8192 at most.
const MAX_CPUS: usize = 8_192;
/// Readings of each that are kept: two minutes of them, one a second.
const MAX_READINGS: usize = 128;
/// Where readings cover less than this share of a stretch they say nothing of it.
const LEAST_COVERED: f64 = 0.5;

/// How much later than the flow's rhythm a message came, or is by now, ns.
pub fn late_ns(gap: &Gap) -> u64 {
    gap.gap_ns.saturating_sub(gap.every_ns)
}

/// Late messages, and how many flows could have had any.
#[derive(Debug, Default)]
pub struct Heartbeats {
    gaps: BoundedTree<RowRef, Late, MAX_GAPS>,
    /// Flows that were found to be regular; `None` when none were followed.
    pub regular: Option<u64>,
}

#[derive(Debug)]
struct Late(Gap);

impl Interest for Late {
    fn interest(&self) -> u64 {
        late_ns(&self.0)
    }
    fn counted(&self) -> u64 {
        1
    }
}

impl Heartbeats {
    /// Those of a recording.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn read(recording: &Recording) -> Result<Heartbeats, Error> {
        let mut heartbeats = Heartbeats::default();
        for batch in recording.scan::<Gap>()? {
            for (at, row) in batch?.rows() {
                heartbeats.gaps.slot(at, || Late(row));
            }
        }
        for batch in recording.scan::<Heartbeat>()? {
            let most = batch?.rows().map(|(_, row)| row.regular).max();
            heartbeats.regular = heartbeats.regular.max(most);
        }
        Ok(heartbeats)
    }

    /// How many late messages were not kept.
    pub fn folded(&self) -> u64 {
        self.gaps.folded()
    }

    /// Late messages, in the order of their rows.
    pub fn gaps(&self) -> impl Iterator<Item = (RowRef, &Gap)> {
        self.gaps.iter().map(|(at, late)| (*at, &late.0))
    }
}

/// What share of its time each CPU was in softirq, over any stretch that was read lately. Feed it the rows of
/// `cpu` in order of time.
#[derive(Debug, Default)]
pub struct SoftirqShares {
    by_cpu: BoundedTree<u32, VecDeque<Reading>, MAX_CPUS>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    time_ns: u64,
    softirq_ms: u64,
    total_ms: u64,
}

impl SoftirqShares {
    /// Learns from a reading.
    pub fn learn(&mut self, row: &Cpu) {
        let Some(readings) = self.by_cpu.first_come(row.cpu, VecDeque::new) else {
            return;
        };
        if readings.len() >= MAX_READINGS {
            readings.pop_front();
        }
        let times = CpuTimes::of(row);
        readings.push_back(Reading {
            time_ns: row.time_ns,
            softirq_ms: times.softirq_ms,
            total_ms: times.total_ms(),
        });
    }

    /// Whether the CPU was read at this moment or later.
    pub fn reaches(&self, cpu: u32, time_ns: u64) -> bool {
        let last = self.by_cpu.get(&cpu).and_then(VecDeque::back);
        last.is_some_and(|r| r.time_ns >= time_ns)
    }

    /// The share from one moment to another, 0 to 1; a stretch between two readings that lies only partly within
    /// counts as if evenly spent. `None` where there are too few readings.
    pub fn over(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Option<f64> {
        let readings = self.by_cpu.get(&cpu)?;
        let (mut softirq_ms, mut total_ms, mut covered_ns) = (0.0, 0.0, 0.0);
        for (before, after) in readings.iter().zip(readings.iter().skip(1)) {
            let between = after.time_ns.saturating_sub(before.time_ns);
            let from = before.time_ns.max(from_ns);
            let within = after.time_ns.min(to_ns).saturating_sub(from);
            let Some(part) = ratio(within as f64, between as f64).filter(|p| *p > 0.0) else {
                continue;
            };
            let rise = |of: fn(&Reading) -> u64| of(after).saturating_sub(of(before)) as f64;
            softirq_ms += part * rise(|r| r.softirq_ms);
            total_ms += part * rise(|r| r.total_ms);
            covered_ns += within as f64;
        }
        let asked_ns = to_ns.saturating_sub(from_ns) as f64;
        if covered_ns < LEAST_COVERED * asked_ns {
            return None;
        }
        ratio(softirq_ms, total_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn reading(second: u64, softirq_ms: u64) -> Cpu {
        Cpu {
            time_ns: second * S,
            cpu: 23,
            softirq_ms,
            idle_ms: second * 1_000 - softirq_ms,
            ..Cpu::default()
        }
    }

    #[test]
    fn a_share_is_of_the_stretch_alone() {
        let mut shares = SoftirqShares::default();
        for (second, softirq_ms) in [(0, 0), (10, 100), (11, 1_080), (12, 2_060), (20, 2_060)] {
            shares.learn(&reading(second, softirq_ms));
        }
        assert_eq!(shares.over(23, 10 * S, 12 * S), Some(0.98));
        assert_eq!(shares.over(23, 10 * S, 14 * S), Some(0.49));
        assert_eq!(shares.over(23, 12 * S, 13 * S), Some(0.0));
        assert_eq!(
            shares.over(23, 19 * S, 24 * S),
            None,
            "most of it was not read"
        );
        assert_eq!(shares.over(22, 10 * S, 12 * S), None);
        assert!(shares.reaches(23, 20 * S) && !shares.reaches(23, 21 * S));
    }

    #[test]
    fn readings_of_any_kind_are_no_trouble() {
        let mut shares = SoftirqShares::default();
        for row in [
            reading(9, 9_000),
            reading(3, 0),
            reading(3, 5),
            reading(9, 1),
        ] {
            shares.learn(&row);
        }
        for at in [0, 3 * S, u64::MAX] {
            let share = shares.over(23, at, u64::MAX);
            assert!(share.is_none_or(|s| (0.0..=1.0).contains(&s)), "{share:?}");
        }
        for second in 0..10_000 {
            shares.learn(&reading(second, 0));
        }
        assert!(shares.by_cpu[&23].len() <= MAX_READINGS);
    }
}
