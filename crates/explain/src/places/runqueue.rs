//! What the causes about waiting for a CPU share: who ran meanwhile, how it adds up, what helps.

use std::collections::{BTreeMap, BTreeSet};

use analysis::profile::PARTS;
use analysis::stats::ratio;
use analysis::words::{count, duration, list, percent, rounded};
use analysis::{Story, Thread};
use recording::RowRef;

use crate::finding::{Advice, Change, Check, Step};
use crate::places::listener::SHOWN_ROWS;

/// A CPU on which a thread was seen less often is not where it waits.
const LEAST_PRESENCE: f64 = 0.10;
/// A rival that had less of the CPU than this is not worth naming.
const LEAST_RIVAL: f64 = 0.05;
/// Others must have been seen on its CPU for this share of its wait, when it waited: or nobody
/// knows who they are.
const LEAST_SEEN: f64 = 0.5;
/// What waits for its CPU for less than this share of the time comes first there.
const COMES_FIRST: f64 = 0.05;
/// A CPU that is idle for more than this has room for somebody.
const ROOM: f64 = 0.50;

/// What ran on the CPUs of a thread that waited for one.
pub(crate) struct Rivals<'a> {
    story: &'a Story,
    thread: &'a Thread,
    /// Where the thread runs when it does.
    pub(crate) cpus: Vec<u32>,
    /// Others on these CPUs, the busiest first.
    pub(crate) others: Vec<Rival<'a>>,
}

/// One process that ran there.
pub(crate) struct Rival<'a> {
    pub(crate) pid: u32,
    pub(crate) comm: &'a str,
    /// CPU time, s.
    pub(crate) seconds: f64,
    row: RowRef,
}

impl<'a> Rivals<'a> {
    /// Of a thread that runs on `cpu`, or wherever the profile has seen it.
    pub(crate) fn of(story: &'a Story, thread: &'a Thread, cpu: Option<u32>) -> Rivals<'a> {
        let profile = &story.profile;
        let mut on_cpu: BTreeMap<u32, u64> = BTreeMap::new();
        for group in profile.groups.iter().filter(|g| g.pid == thread.pid) {
            *on_cpu.entry(group.cpu).or_default() += group.count;
        }
        let all: u64 = on_cpu.values().sum();
        let often = |n: &u64| *n as f64 >= LEAST_PRESENCE * all as f64;
        let seen = on_cpu.iter().filter(|(_, n)| often(n)).map(|(cpu, _)| *cpu);
        let cpus: Vec<u32> = match cpu {
            Some(cpu) => vec![cpu],
            None => seen.collect(),
        };
        let mut others: BTreeMap<u32, (u64, RowRef)> = BTreeMap::new();
        let here = profile.groups.iter().filter(|g| cpus.contains(&g.cpu));
        for group in here.filter(|g| g.pid != 0 && g.pid != thread.pid) {
            others.entry(group.pid).or_insert((0, group.row)).0 += group.count;
        }
        let others = others.into_iter().map(|(pid, (n, row))| Rival {
            pid,
            comm: profile.comm(pid).unwrap_or("?"),
            seconds: profile.cpu_seconds(n),
            row,
        });
        let mut others: Vec<_> = others.collect();
        others.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Rivals {
            story,
            thread,
            cpus,
            others,
        }
    }

    /// Leaves those that hardly wait for a CPU themselves: they come first whenever they want to,
    /// as what has a real-time priority does.
    pub(crate) fn that_come_first(mut self) -> Rivals<'a> {
        let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
        for thread in self.story.threads.all() {
            let share = shares.entry(thread.pid).or_default();
            *share = share.max(thread.waiting());
        }
        let first = |r: &Rival| {
            shares
                .get(&r.pid)
                .is_some_and(|share| *share <= COMES_FIRST)
        };
        self.others.retain(first);
        self
    }

    /// CPU time of all others there, s.
    pub(crate) fn seconds(&self) -> f64 {
        self.others.iter().map(|r| r.seconds).sum()
    }

    /// Whether they are the ones that the thread waited for.
    pub(crate) fn explain_the_wait(&self) -> bool {
        self.explained_ns() as f64 >= LEAST_SEEN * self.thread.waited_ns as f64
    }

    /// How much of the thread's wait, ns, others were seen to use its CPUs: part by part of the
    /// recording, for a CPU that was busy at other times explains nothing.
    fn explained_ns(&self) -> u64 {
        let mut busy = [0u64; PARTS as usize];
        let pids: BTreeSet<u32> = self.others.iter().map(|r| r.pid).collect();
        let here = self.story.profile.groups.iter();
        for group in here.filter(|g| self.cpus.contains(&g.cpu) && pids.contains(&g.pid)) {
            busy[usize::from(group.part)] += group.count;
        }
        let busy_ns = busy.map(|n| (self.story.profile.cpu_seconds(n) * 1e9) as u64);
        let waited = self.thread.waited_in.iter();
        waited
            .zip(busy_ns)
            .map(|(waited, busy)| busy.min(*waited))
            .sum()
    }

    /// The CPUs, as a resource is called.
    pub(crate) fn place(&self) -> String {
        let names: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
        match &names[..] {
            [] => "CPU".into(),
            [one] => format!("CPU {one}"),
            several => format!("CPUs {}", list(several)),
        }
    }

    /// The busiest of the others, each with its CPU time.
    fn named(&self) -> Vec<String> {
        let least = LEAST_RIVAL * self.seconds();
        let named = self.others.iter().filter(|r| r.seconds >= least).take(3);
        named
            .map(|r| {
                let time = duration((r.seconds * 1e9) as u64);
                format!("{} (pid {}) {time}", r.comm, r.pid)
            })
            .collect()
    }

    /// Who had the CPU meanwhile.
    pub(crate) fn step(&self) -> Step {
        Step::new(format!(
            "Meanwhile others had {}: {}.",
            self.place(),
            list(&self.named())
        ))
        .number("others_cpu_seconds", self.seconds())
        .number("others", self.others.len())
        .rows(self.others.iter().map(|r| r.row).take(SHOWN_ROWS))
    }

    /// While a thread waits for a CPU, somebody else has it.
    pub(crate) fn check(&self) -> Check {
        let (waited, others) = (self.thread.waited_ns as f64 / 1e9, self.seconds());
        Check {
            formula: format!(
                "CPU time of others on {} (profile) ≥ time that {} waited for it (scheduler)",
                self.place(),
                self.thread.comm
            ),
            expected: rounded(waited),
            measured: rounded(others),
            unit: "s".into(),
            agrees: others >= 0.8 * waited,
            tolerance: "not below it by more than 20 %: the profile leaves some out".into(),
        }
    }

    /// A CPU with room, when there is one.
    fn free_cpu(&self) -> Option<u32> {
        let cpus = self.story.cpus.all();
        let free = cpus.filter(|c| c.idle >= ROOM && !self.cpus.contains(&c.number));
        let most = free.max_by(|a, b| a.idle.total_cmp(&b.idle));
        most.map(|c| c.number)
    }

    /// What helps: others stand back, go elsewhere, or the thread does.
    pub(crate) fn advice(&self, risk_of_yielding: &str) -> Vec<Advice> {
        let Some(first) = self.others.first() else {
            return Vec::new();
        };
        let place = self.place();
        let seconds = self.story.seconds();
        let crowd = match self.others.len() {
            1 => String::new(),
            _ => ", and those like it,".into(),
        };
        let pids: Vec<u32> = self.rivals_that_matter().map(|r| r.pid).collect();
        let list_of_pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut advice = vec![Advice {
            action: format!(
                "Let {} (pid {}){crowd} run only when nobody else wants the CPU (SCHED_IDLE).",
                first.comm, first.pid
            ),
            command: Some(format!(
                "for p in {}; do chrt --all-tasks --idle --pid 0 $p; done",
                list_of_pids.join(" ")
            )),
            r#where: "the host; for a service CPUSchedulingPolicy=idle in its unit".into(),
            risk: risk_of_yielding.into(),
            expected: format!(
                "{} waits for nobody: it lost {} per second.",
                self.thread.comm,
                duration((self.thread.waited_ns as f64 / seconds) as u64)
            ),
            change: Some(Change::RunWhenIdle { pids }),
        }];
        if let Some(free) = self.free_cpu() {
            let idle = self.story.cpus.all().find(|c| c.number == free);
            let idle = percent(idle.map_or(0.0, |c| c.idle));
            advice.push(Advice {
                action: format!(
                    "Or move {} (pid {}){crowd} to CPU {free}.",
                    first.comm, first.pid
                ),
                command: Some(format!("taskset --all-tasks -cp {free} {}", first.pid)),
                r#where: "the host; for a service CPUAffinity in its unit, or a cpuset".into(),
                risk: format!("What runs on CPU {free} gets company."),
                expected: format!("CPU {free} was idle for {idle} of the time; {place} is free."),
                change: None,
            });
        }
        advice
    }

    fn rivals_that_matter(&self) -> impl Iterator<Item = &Rival<'a>> {
        let least = LEAST_RIVAL * self.seconds();
        self.others
            .iter()
            .filter(move |r| r.seconds >= least)
            .take(16)
    }
}

/// What the thread did with its time.
pub(crate) fn thread_step(thread: &Thread, what: &str) -> Step {
    let share = |ns: u64| percent(ratio(ns as f64, thread.seen_ns as f64).unwrap_or(0.0));
    Step::new(format!(
        "{what} was ready to run and waited for a CPU for {} of the time ({} in {}, {} each), and \
         ran for {}.",
        share(thread.waited_ns),
        duration(thread.waited_ns),
        times(thread.switches),
        duration(thread.mean_wait_ns()),
        share(thread.on_cpu_ns)
    ))
    .number("tid", thread.tid)
    .number("waited_ms", thread.waited_ns as f64 / 1e6)
    .number("waiting_share", thread.waiting())
    .number("mean_wait_ms", thread.mean_wait_ns() as f64 / 1e6)
    .number("on_cpu_ms", thread.on_cpu_ns as f64 / 1e6)
    .rows(thread.rows())
}

fn times(n: u64) -> String {
    match n {
        1 => "one turn".into(),
        n => format!("{} turns", count(n)),
    }
}

/// Whether a kernel thread does the work of softirqs: `ksoftirqd/1`, a NAPI thread.
pub(crate) fn serves_softirq(comm: &str) -> bool {
    ["ksoftirqd/", "napi/", "backlog_napi/"]
        .iter()
        .any(|prefix| comm.starts_with(prefix))
}

/// How long the threads that do the work of softirqs waited for a CPU, ns; `None` when none of
/// them was recorded.
pub(crate) fn softirq_waited(story: &Story) -> Option<u64> {
    let serving = story.threads.all().filter(|t| serves_softirq(&t.comm));
    serving.map(|t| t.waited_ns).reduce(u64::saturating_add)
}
