//! The profile of a recording: its samples by stack.

use std::collections::BTreeMap;

use ahash::AHashMap;
use analysis::stats::ratio;
use analysis::{CpuTimes, Cpus};
use recording::tables::Sample;
use recording::{Error, Filter, Place, Recording, Stacks, Text};

use super::names::{Folded, Names};
use crate::escape;

/// Which samples.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Of these tasks.
    pub filter: Filter,
    /// On these CPUs; empty means all.
    pub cpus: Vec<u32>,
    /// In softirqs only, whatever they interrupted.
    pub softirq: bool,
}

/// What the numbers of a profile are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Samples of the CPUs.
    #[default]
    Samples,
    /// Time, µs.
    Microseconds,
}

impl Unit {
    /// As a graph names it.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Samples => "samples",
            Unit::Microseconds => "µs",
        }
    }
}

/// Samples, or time, by stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// What the numbers are.
    pub unit: Unit,
    /// The number of each stack; a stack is its functions, the outermost first, joined by `;`.
    pub stacks: BTreeMap<String, u64>,
    /// All that was looked at: what is in the stacks, idle samples, those left out.
    pub samples: u64,
    /// The CPU was idle.
    pub idle: u64,
    /// Share of the time, by the kernel's own account, in which these CPUs had nothing to do. Idle samples fall short of
    /// it where the recording is of a namespace or a process, or where an idle CPU's clock stands still.
    pub cpus_idle: Option<f64>,
    /// In more different stacks than are kept.
    pub left_out: u64,
    /// The names of threads that are not kept apart.
    pub names: Folded,
}

/// Different stacks that are kept; a busy host has some thousand on each CPU.
pub(super) const MAX_STACKS: usize = 1 << 17;
/// Bytes of the stacks of a profile: as many as above at 500 bytes each, a usual length. If they are deeper or have
/// longer names, those that weigh least are left out.
const MAX_BYTES: usize = 64 << 20;
/// CPUs that are kept apart.
const MAX_CPUS: usize = 4_096;
/// A function of the kernel, as flame graphs colour it.
const KERNEL: &str = "_[k]";
/// Below these, a softirq: what was interrupted by it does not matter to it.
const SOFTIRQ: &[&str] = &["handle_softirqs", "__do_softirq"];

/// The samples of a recording, read once: any number of profiles can be made of them.
pub struct Samples {
    counts: AHashMap<Key, u64>,
    cpus: BTreeMap<u32, OfCpu>,
    /// Samples of CPUs beyond those that are kept apart.
    further: u64,
    stacks: Stacks,
    names: Names,
}

/// Samples that are alike.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    cpu: u32,
    softirq: bool,
    comm: Text,
    kernel: Option<u64>,
    user: Option<u64>,
}

/// The samples of one CPU.
#[derive(Clone, Copy, Default)]
struct OfCpu {
    all: u64,
    idle: u64,
    left_out: u64,
    /// Of these, samples in softirqs.
    left_out_softirq: u64,
}

impl Samples {
    /// The samples of the tasks that the filter asks for.
    pub fn read(recording: &Recording, filter: &Filter) -> Result<Samples, Error> {
        let mut samples = Samples {
            counts: AHashMap::new(),
            cpus: BTreeMap::new(),
            further: 0,
            stacks: Stacks::read(recording)?,
            names: Names::default(),
        };
        for batch in recording.scan::<Sample>()? {
            for (_, row) in batch?.rows() {
                if filter.task_ok(Some(row.pid), Some(&row.comm), None) {
                    samples.add(row);
                }
            }
        }
        Ok(samples)
    }

    fn add(&mut self, row: Sample) {
        if self.cpus.len() >= MAX_CPUS && !self.cpus.contains_key(&row.cpu) {
            self.further += 1;
            return;
        }
        let is_idle = row.pid == 0 && !row.softirq && row.kernel_stack.is_none();
        if !is_idle && self.names.count(&row.comm, 1) {
            self.with_fewer_names();
        }
        let of_cpu = self.cpus.entry(row.cpu).or_default();
        of_cpu.all += 1;
        if is_idle {
            of_cpu.idle += 1;
            return;
        }
        let key = Key {
            cpu: row.cpu,
            softirq: row.softirq,
            comm: row.comm,
            kernel: row.kernel_stack,
            user: row.user_stack,
        };
        if self.counts.len() < MAX_STACKS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += 1;
        } else {
            of_cpu.left_out += 1;
            of_cpu.left_out_softirq += u64::from(key.softirq);
        }
    }

    /// Joins the names that are no longer kept apart.
    fn with_fewer_names(&mut self) {
        for (key, n) in std::mem::take(&mut self.counts) {
            let comm = self.names.told(key.comm);
            *self.counts.entry(Key { comm, ..key }).or_default() += n;
        }
    }

    /// The CPUs, the busiest first.
    pub fn busy_cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<(&u32, &OfCpu)> = self.cpus.iter().collect();
        cpus.sort_by_key(|(cpu, of)| (std::cmp::Reverse(of.all - of.idle), **cpu));
        cpus.into_iter().map(|(cpu, _)| *cpu).collect()
    }

    /// The profile of some of them; the filter was applied when they were read. A profile of softirqs alone leaves
    /// out the tasks that they interrupted.
    pub fn profile(&self, cpus: &[u32], softirq: bool) -> Profile {
        let on = |cpu: &u32| cpus.is_empty() || cpus.contains(cpu);
        let mut profile = Profile {
            names: if softirq {
                Folded::default()
            } else {
                self.names.folded()
            },
            ..Profile::default()
        };
        for (_, of_cpu) in self.cpus.iter().filter(|(cpu, _)| on(cpu)) {
            profile.samples += of_cpu.all;
            profile.idle += of_cpu.idle;
            profile.left_out += if softirq {
                of_cpu.left_out_softirq
            } else {
                of_cpu.left_out
            };
        }
        if cpus.is_empty() {
            profile.samples += self.further;
            profile.left_out += self.further;
        }
        // Samples of several CPUs are alike: they are named once.
        let mut alike: AHashMap<(&str, Option<u64>, Option<u64>), u64> = AHashMap::new();
        let chosen = self.counts.iter();
        let chosen = chosen.filter(|(key, _)| on(&key.cpu) && (key.softirq || !softirq));
        for (key, n) in chosen {
            let of = if softirq {
                ("", key.kernel, None)
            } else {
                (&*key.comm, key.kernel, key.user)
            };
            *alike.entry(of).or_default() += n;
        }
        profile.fill(alike.into_iter().collect(), |(comm, kernel, user)| {
            fold(&self.stacks, comm, *kernel, *user, softirq)
        });
        profile
    }
}

impl Profile {
    /// The chosen samples of a recording.
    pub fn of(recording: &Recording, choice: &Choice) -> Result<Profile, Error> {
        let samples = Samples::read(recording, &choice.filter)?;
        Ok(Profile {
            cpus_idle: cpus_idle(&Cpus::read(recording)?, &choice.cpus),
            ..samples.profile(&choice.cpus, choice.softirq)
        })
    }

    /// Takes groups of what is alike, with their weights, as the stacks that `fold` makes of them: those that weigh
    /// most, as long as there is room.
    pub(super) fn fill<K: Ord>(&mut self, mut alike: Vec<(K, u64)>, fold: impl Fn(&K) -> String) {
        alike.sort_unstable_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        let mut bytes = 0;
        for (key, n) in alike {
            let stack = fold(&key);
            if let Some(sum) = self.stacks.get_mut(&stack) {
                *sum = sum.saturating_add(n);
            } else if bytes + stack.len() <= MAX_BYTES {
                bytes += stack.len();
                self.stacks.insert(stack, n);
            } else {
                self.left_out = self.left_out.saturating_add(n);
            }
        }
    }

    /// How much of it was idle, in words.
    pub fn idle_says(&self) -> String {
        let idle = self.idle as f64 / self.of_all();
        let told = format!("{} samples, idle {:.0} %", self.samples, 100.0 * idle);
        match self.cpus_idle {
            // Ticks and samples are different measures: some per cent are no difference.
            Some(truly) if truly > idle + 0.05 => format!(
                "{told}; the CPUs were {:.0} % idle: some idle samples are missing, and shares are of the recorded \
                 samples",
                100.0 * truly
            ),
            _ => told,
        }
    }

    /// All that was looked at, the whole that stacks have shares of; never 0.
    pub fn of_all(&self) -> f64 {
        self.samples.max(1) as f64
    }
}

fn cpus_idle(all: &Cpus, cpus: &[u32]) -> Option<f64> {
    let chosen = all
        .all()
        .filter(|c| cpus.is_empty() || cpus.contains(&c.number));
    let spent = chosen.fold(CpuTimes::default(), |sum, cpu| sum.and(cpu.spent));
    ratio(spent.nothing_ms() as f64, spent.total_ms() as f64)
}

fn fold(
    stacks: &Stacks,
    comm: &str,
    kernel: Option<u64>,
    user: Option<u64>,
    softirq: bool,
) -> String {
    let root = if softirq { "softirq" } else { comm };
    let mut folded = clean(root);
    if let Some(places) = user.and_then(|id| stacks.places(id)) {
        for place in places.into_iter().rev() {
            push(&mut folded, place, "");
        }
    }
    if let Some(mut places) = kernel.and_then(|id| stacks.places(id)) {
        if softirq {
            within_softirq(&mut places);
        }
        push_kernel(&mut folded, &places);
    }
    folded
}

/// Reduces a kernel stack to what is within a softirq, if it passes through one.
pub(super) fn within_softirq(places: &mut Vec<Option<&Place>>) {
    let is_softirq = |p: &Option<&Place>| p.is_some_and(|p| SOFTIRQ.contains(&&*p.function));
    if let Some(outermost) = places.iter().rposition(is_softirq) {
        places.truncate(outermost + 1);
    }
}

/// Adds a kernel stack to a folded one.
pub(super) fn push_kernel(folded: &mut String, places: &[Option<&Place>]) {
    for place in places.iter().rev() {
        push(folded, *place, KERNEL);
    }
}

fn push(folded: &mut String, place: Option<&Place>, kind: &str) {
    folded.push(';');
    folded.push_str(&place.map_or("?".into(), name));
    folded.push_str(kind);
}

/// A function without a symbol is as good as the file that it is in.
fn name(place: &Place) -> String {
    if place.function.starts_with("0x") {
        let file = place.module.rsplit('/').next().unwrap_or_default();
        format!("[{}]", clean(file))
    } else {
        clean(&place.function)
    }
}

/// A name without what separates names, nor anything a terminal would act on.
pub(super) fn clean(name: &str) -> String {
    match name.trim() {
        "" => "?".into(),
        name => escape(name).replace(';', ":"),
    }
}

/// The function that a frame of a folded stack names.
pub(super) fn function(frame: &str) -> &str {
    frame.strip_suffix(KERNEL).unwrap_or(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_that_was_not_sampled_is_said() {
        let says = |idle, cpus_idle| {
            Profile {
                samples: 200,
                idle,
                cpus_idle,
                ..Profile::default()
            }
            .idle_says()
        };
        assert_eq!(says(120, Some(0.62)), "200 samples, idle 60 %");
        assert_eq!(says(120, None), "200 samples, idle 60 %");
        assert_eq!(
            says(0, Some(0.62)),
            "200 samples, idle 0 %; the CPUs were 62 % idle: some idle samples are missing, and shares are of the \
             recorded samples"
        );
    }
}
