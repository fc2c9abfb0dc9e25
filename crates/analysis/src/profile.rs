//! The CPU profile, read once: which functions the CPUs were in, in whose time, in softirq or not.

use ahash::{AHashMap, AHashSet};
use recording::tables::Sample;
use recording::{Error, Manifest, Recording, RowRef, Text};

use super::stats::{median, quantile};
use crate::stacks::functions;

/// Kinds of samples kept: stack, CPU, process, softirq, part of the recording.
const MAX_GROUPS: usize = 1 << 18;
/// Stacks and functions kept; a kernel has fewer functions that anything passes through.
const MAX_STACKS: usize = 1 << 17;
const MAX_FUNCTIONS: usize = 1 << 16;
/// Frames of a stack that are looked at; the recorder's longest stack has 127.
const MAX_DEPTH: u32 = 256;
/// The recording is divided into this many parts, to see what grows and what coincides.
pub const PARTS: u64 = 8;

/// Which part of a recording a moment lies in, `0..PARTS`.
fn part_of(manifest: &Manifest, time_ns: u64) -> u8 {
    let (start, end) = (manifest.start_ns, manifest.end_ns);
    let length = u128::from(end.saturating_sub(start).max(1));
    let part = u128::from(time_ns.saturating_sub(start)) * u128::from(PARTS) / length;
    part.min(u128::from(PARTS) - 1) as u8
}

/// How much of the time from `from_ns` to `to_ns` lies in each part of a recording, ns. What lies outside of the
/// recording counts to its first and last part.
pub(crate) fn in_parts(manifest: &Manifest, from_ns: u64, to_ns: u64) -> [u64; PARTS as usize] {
    let length = u128::from(manifest.end_ns.saturating_sub(manifest.start_ns).max(1));
    let began_ns = |part: u64| {
        let after = u128::from(part) * length / u128::from(PARTS);
        manifest.start_ns.saturating_add(after as u64)
    };
    std::array::from_fn(|part| {
        let part = part as u64;
        let from = if part == 0 { 0 } else { began_ns(part) };
        let to = if part + 1 == PARTS {
            u64::MAX
        } else {
            began_ns(part + 1)
        };
        to.min(to_ns).saturating_sub(from.max(from_ns))
    })
}

/// What the CPUs were at.
#[derive(Debug, Default)]
pub struct Profile {
    /// Samples of one kind together.
    pub groups: Vec<Group>,
    /// Kernel functions of each stack.
    stacks: AHashMap<u64, Vec<u32>>,
    functions: AHashMap<Text, u32>,
    names: Vec<Text>,
    comms: AHashMap<u32, Text>,
    /// Samples beyond the bounds.
    pub folded: u64,
    /// Time between two samples of a CPU, s.
    period: f64,
    seconds: f64,
}

/// Samples that are alike.
#[derive(Clone, Debug)]
pub struct Group {
    /// CPU.
    pub cpu: u32,
    /// Process on the CPU; 0 when it was idle, or interrupted while it was.
    pub pid: u32,
    /// In a softirq.
    pub softirq: bool,
    /// Which part of the recording, `0..PARTS`.
    pub part: u8,
    /// Samples.
    pub count: u64,
    /// The first of them.
    pub row: RowRef,
    stack: Option<u64>,
}

impl Group {
    /// Nothing ran: neither a process nor an interrupt.
    pub fn is_idle(&self) -> bool {
        self.pid == 0 && self.stack.is_none()
    }

    /// The CPU was in the kernel, and not idle.
    pub fn in_kernel(&self) -> bool {
        self.stack.is_some()
    }
}

impl Profile {
    pub(crate) fn read(recording: &Recording) -> Result<Profile, Error> {
        let (start, end) = (recording.manifest.start_ns, recording.manifest.end_ns);
        let mut profile = Profile {
            seconds: end.saturating_sub(start) as f64 / 1e9,
            ..Profile::default()
        };
        let mut index = AHashMap::new();
        let mut clock = Clock::default();
        for batch in recording.scan::<Sample>()? {
            for (at, row) in batch?.rows() {
                clock.tick(row.cpu, row.time_ns);
                let part = part_of(&recording.manifest, row.time_ns);
                profile.add(&mut index, at, row, part);
            }
        }
        profile.period = clock.period_ns() as f64 / 1e9;
        profile.read_stacks(recording)?;
        Ok(profile)
    }

    fn add(
        &mut self,
        index: &mut AHashMap<(u32, u32, bool, u8, Option<u64>), u32>,
        row: RowRef,
        sample: Sample,
        part: u8,
    ) {
        let key = (
            sample.cpu,
            sample.pid,
            sample.softirq,
            part,
            sample.kernel_stack,
        );
        let known = index.get(&key).copied();
        if known.is_none() && self.groups.len() >= MAX_GROUPS {
            self.folded += 1;
            return;
        }
        let at = known.unwrap_or_else(|| {
            self.groups.push(Group {
                cpu: sample.cpu,
                pid: sample.pid,
                softirq: sample.softirq,
                part,
                count: 0,
                row,
                stack: sample.kernel_stack,
            });
            self.comms.entry(sample.pid).or_insert(sample.comm);
            let at = self.groups.len() as u32 - 1;
            index.insert(key, at);
            at
        });
        self.groups[at as usize].count += 1;
    }

    /// The kernel functions of the stacks that samples refer to; `stack` has those of waits, too.
    fn read_stacks(&mut self, recording: &Recording) -> Result<(), Error> {
        let stacks = self.groups.iter().filter_map(|g| g.stack);
        let mut wanted = AHashSet::new();
        for stack in stacks {
            if wanted.len() < MAX_STACKS {
                wanted.insert(stack);
            }
        }
        self.stacks = functions(recording, &wanted, MAX_DEPTH, |f| self.intern(f))?;
        Ok(())
    }

    fn intern(&mut self, function: Text) -> Option<u32> {
        if let Some(known) = self.functions.get(&function) {
            return Some(*known);
        }
        let id = self.names.len();
        (id < MAX_FUNCTIONS).then(|| {
            self.names.push(function.clone());
            self.functions.insert(function, id as u32);
            id as u32
        })
    }

    /// The samples whose kernel stack passes through any of the functions.
    pub fn passing<'a>(&'a self, functions: &[&str]) -> impl Iterator<Item = &'a Group> + use<'a> {
        let wanted = functions.iter().filter_map(|f| self.functions.get(*f));
        let wanted: Vec<u32> = wanted.copied().collect();
        let through = move |g: &&Group| {
            let stack = g.stack.and_then(|stack| self.stacks.get(&stack));
            stack.is_some_and(|stack| stack.iter().any(|f| wanted.contains(f)))
        };
        self.groups.iter().filter(through)
    }

    /// CPU time that this many samples stand for, s.
    pub fn cpu_seconds(&self, samples: u64) -> f64 {
        samples as f64 * self.period
    }

    /// The same as a share of one CPU over the recording.
    pub fn of_one_cpu(&self, samples: u64) -> f64 {
        super::stats::ratio(self.cpu_seconds(samples), self.seconds).unwrap_or(0.0)
    }

    /// Command name of a process that was on a CPU.
    pub fn comm(&self, pid: u32) -> Option<&str> {
        self.comms.get(&pid).map(|c| &**c)
    }
}

/// Derives the time between two samples from the samples: an idle CPU, or one that runs what was filtered out, may
/// have none.
#[derive(Default)]
struct Clock {
    last: AHashMap<u32, u64>,
    gaps: Vec<u64>,
}

impl Clock {
    /// Enough gaps to know.
    const ENOUGH: usize = 4_096;
    /// A length that one gap in this many has is no coincidence.
    const FEW: usize = 20;

    fn tick(&mut self, cpu: u32, time_ns: u64) {
        if self.gaps.len() >= Clock::ENOUGH {
            return;
        }
        let gap = self
            .last
            .insert(cpu, time_ns)
            .map(|last| time_ns.saturating_sub(last));
        self.gaps.extend(gap.filter(|gap| *gap > 0));
    }

    /// On a CPU that is busy for a while, most gaps are one period and the others several. Where work runs for less
    /// than a period at a time, few gaps are one period, but those that are lie close together.
    fn period_ns(mut self) -> u64 {
        let usual = quantile(&mut self.gaps, 0.25).unwrap_or(0);
        let parts = [4, 3, 2].into_iter().find_map(|n| {
            let part = usual / n;
            let near = |gap: &&u64| gap.abs_diff(part) * 20 <= part;
            let mut near: Vec<u64> = self.gaps.iter().filter(near).copied().collect();
            let enough = near.len() * Clock::FEW >= self.gaps.len();
            median(&mut near).filter(|_| enough)
        });
        parts.unwrap_or(usual)
    }
}

/// How many samples a selection of them holds.
pub fn samples<'a>(groups: impl IntoIterator<Item = &'a Group>) -> u64 {
    groups.into_iter().map(|g| g.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 1_003_009;

    /// The period derived from this many gaps of each number of periods, a little early or late.
    fn told(gaps: &[(u64, usize)]) -> u64 {
        let mut clock = Clock::default();
        let mut now = 1;
        clock.tick(0, now);
        for (periods, count) in gaps {
            for i in 0..*count as u64 {
                now += periods * PERIOD + i % 7 * 1_000;
                clock.tick(0, now);
            }
        }
        clock.period_ns()
    }

    #[test]
    fn the_period_is_told_from_busy_cpus_and_from_idle_ones() {
        for gaps in [
            &[(1, 900), (3, 100)][..],
            &[(1, 100), (2, 500), (3, 400)],
            &[(1, 60), (3, 500), (5, 400)],
        ] {
            let told = told(gaps);
            assert!(told.abs_diff(PERIOD) <= 10_000, "{gaps:?}: {told}");
        }
    }

    #[test]
    fn a_few_samples_that_came_early_are_no_period() {
        let mut clock = Clock::default();
        let mut now = 1;
        for i in 0..1_000 {
            now += if i % 50 == 0 { PERIOD / 2 } else { PERIOD };
            clock.tick(0, now);
        }
        assert_eq!(clock.period_ns(), PERIOD);
    }
}
