//! What the causes about waiting for a CPU share: what ran meanwhile, how it adds up, what helps.

use std::collections::{BTreeMap, BTreeSet};

use analysis::account::{self, State};
use analysis::profile::PARTS;
use analysis::stats::ratio;
use analysis::words::{count, duration, list, percent, rounded};
use analysis::{Conn, Side, Story, Thread};
use recording::RowRef;

use crate::advice::{Advice, Change};
use crate::finding::{Check, Step};
use crate::limits;
use crate::lost::Lost;
use crate::places::listener::SHOWN_ROWS;
use crate::places::process::listens;
use crate::say::{Quantity, say};
use crate::sentence::Sentence;
use crate::shell::ShellCommand;
use crate::{sentence, shell};

/// The most processes that one command names.
const MAX_NAMED: usize = 16;
/// Rivals with a smaller share of what all had are not named.
const SHOWN_RIVAL: f64 = 0.05;

/// What ran on the CPUs that a thread waited for.
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
    kin: Kin,
    /// CPU time, s.
    seconds: f64,
    row: RowRef,
}

/// How a process relates to the thread that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kin {
    /// Another program: it may yield.
    Stranger,
    /// A process of the same service: what it yields, the service loses.
    Worker,
    /// Another program that serves others by TCP: what it yields, they wait for.
    Service,
    /// A kernel thread: others wait for its work. Or the recorder, which stops by itself.
    Kernel,
}

/// The prefix of the recorder's thread names.
const RECORDER: &str = "tcpwhy";

impl Kin {
    fn of(story: &Story, thread: &Thread, pid: u32, comm: &str) -> Kin {
        let mut samples = story.profile.groups.iter().filter(|g| g.pid == pid);
        let cgroup = |pid| {
            let seen = story.processes.get(pid)?;
            Some(&*seen.cgroup).filter(|c| !matches!(*c, "" | "/"))
        };
        let together = cgroup(pid).is_some() && cgroup(pid) == cgroup(thread.pid);
        let both_serve = story.listeners.share_one(pid, thread.pid);
        if comm == &*thread.comm || together || both_serve {
            Kin::Worker
        } else if comm.starts_with(RECORDER) || samples.all(|g| g.in_kernel()) {
            // It was never seen in user mode.
            Kin::Kernel
        } else if listens(story, pid) {
            Kin::Service
        } else {
            Kin::Stranger
        }
    }
}

impl<'a> Rivals<'a> {
    /// The rivals of a thread that runs on `cpu`, or wherever the profile has seen it.
    pub(crate) fn of(story: &'a Story, thread: &'a Thread, cpu: Option<u32>) -> Rivals<'a> {
        let profile = &story.profile;
        let mut on_cpu: BTreeMap<u32, u64> = BTreeMap::new();
        for group in profile.groups.iter().filter(|g| g.pid == thread.pid) {
            *on_cpu.entry(group.cpu).or_default() += group.count;
        }
        let all: u64 = on_cpu.values().sum();
        let often = |n: &u64| *n as f64 >= limits::SMALL_PART.share() * all as f64;
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
        let others = others.into_iter().map(|(pid, (n, row))| {
            let comm = profile.comm(pid).unwrap_or("?");
            Rival {
                pid,
                comm,
                kin: Kin::of(story, thread, pid, comm),
                seconds: profile.cpu_seconds(n),
                row,
            }
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

    /// Keeps those that hardly wait for a CPU themselves: they come first whenever they want to, as with a real-time
    /// priority.
    pub(crate) fn that_come_first(mut self) -> Rivals<'a> {
        let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
        for thread in self.story.threads.all() {
            let share = shares.entry(thread.pid).or_default();
            *share = share.max(thread.waiting());
        }
        let first = |r: &Rival| {
            shares
                .get(&r.pid)
                .is_some_and(|s| *s <= limits::SMALL_PART.share())
        };
        self.others.retain(first);
        self
    }

    /// Whether they are the ones that the thread waited for.
    pub(crate) fn explain_the_wait(&self) -> bool {
        limits::MOST.reached(self.explained_ns(), self.thread.waited_ns())
    }

    /// CPU time there of its own service, s: of its other workers, and of the other threads of its process.
    pub(crate) fn own_seconds(&self) -> f64 {
        let workers = self.others.iter().filter(|r| r.kin == Kin::Worker);
        let workers: f64 = workers.map(|r| r.seconds).sum();
        let process = self.process_seconds() - self.thread.on_cpu_ns() as f64 / 1e9;
        workers + process.max(0.0)
    }

    /// CPU time there of its process, s.
    fn process_seconds(&self) -> f64 {
        let profile = &self.story.profile;
        let groups = profile.groups.iter();
        let own = groups.filter(|g| g.pid == self.thread.pid && self.cpus.contains(&g.cpu));
        profile.cpu_seconds(own.map(|g| g.count).sum())
    }

    /// CPU time there of everything but its own service, s.
    pub(crate) fn foreign_seconds(&self) -> f64 {
        let foreign = self.others.iter().filter(|r| r.kin != Kin::Worker);
        foreign.map(|r| r.seconds).sum()
    }

    /// Whether its own service had most of these CPUs' time beside the thread itself: no other program could yield.
    pub(crate) fn are_its_own(&self) -> bool {
        let own = self.own_seconds();
        own > 0.0 && own >= self.foreign_seconds()
    }

    /// How much of the thread's wait others were seen to use its CPUs, ns: part by part of the recording, because a CPU
    /// that was busy at other times explains nothing.
    pub(crate) fn explained_ns(&self) -> u64 {
        let mut busy = [0u64; PARTS as usize];
        let pids: BTreeSet<u32> = self.others.iter().map(|r| r.pid).collect();
        let here = self.story.profile.groups.iter();
        for group in here.filter(|g| self.cpus.contains(&g.cpu) && pids.contains(&g.pid)) {
            busy[usize::from(group.part)] += group.count;
        }
        let busy_ns = busy.map(|n| (self.story.profile.cpu_seconds(n) * 1e9) as u64);
        let waited = self.thread.waited_in.iter();
        let explained = waited.zip(busy_ns).map(|(waited, busy)| busy.min(*waited));
        explained.sum()
    }

    /// The CPUs, as the name of a resource.
    pub(crate) fn place(&self) -> String {
        let names: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
        match &names[..] {
            [] => "CPU".into(),
            [one] => format!("CPU {one}"),
            several => format!("CPUs {}", list(several)),
        }
    }

    /// What it waits behind, in a word or two.
    pub(crate) fn ahead(&self) -> String {
        match (self.strangers().next(), self.others.first()) {
            (Some(stranger), _) if self.may_yield() => stranger.comm.to_string(),
            (_, Some(first)) if first.kin == Kin::Worker => "its own workers".into(),
            (_, first) => first.map_or("others", |r| r.comm).to_string(),
        }
    }

    /// Whether most of what ran there belongs to other programs, which may yield.
    pub(crate) fn may_yield(&self) -> bool {
        let theirs: f64 = self.strangers().map(|r| r.seconds).sum();
        limits::MOST.reached(theirs, self.seconds())
    }

    fn strangers(&self) -> impl Iterator<Item = &Rival<'a>> {
        self.others.iter().filter(|r| r.kin == Kin::Stranger)
    }

    /// CPU time of all others there, s.
    fn seconds(&self) -> f64 {
        self.others.iter().map(|r| r.seconds).sum()
    }

    /// Whether it had enough of the CPU to be named.
    fn matters(&self, rival: &Rival) -> bool {
        rival.seconds >= SHOWN_RIVAL * self.seconds()
    }

    /// What had the CPU meanwhile.
    pub(crate) fn step(&self) -> Step {
        let named = self.others.iter().filter(|r| self.matters(r)).take(3);
        let named = named.map(|r| {
            let time = duration((r.seconds * 1e9) as u64);
            format!("{} (pid {}) {time}", r.comm, r.pid)
        });
        Step::new(format!(
            "Meanwhile others had {}: {}.",
            self.place(),
            list(&named.collect::<Vec<_>>())
        ))
        .number("others_cpu_seconds", self.seconds())
        .number("others", self.others.len())
        .rows(self.others.iter().map(|r| r.row).take(SHOWN_ROWS))
    }

    /// While a thread waits for a CPU, something else has it: another thread, a softirq, the hypervisor.
    pub(crate) fn check(&self) -> Check {
        let cpus = self.story.cpus.all();
        let busy: Vec<f64> = cpus
            .filter(|c| self.cpus.contains(&c.number))
            .map(|c| (1.0 - c.idle) * self.story.seconds())
            .collect();
        // The profile has only what was recorded, /proc/stat all.
        let (others, source) = if busy.len() == self.cpus.len() {
            let own = self.thread.on_cpu_ns() as f64 / 1e9;
            ((busy.iter().sum::<f64>() - own).max(0.0), "/proc/stat")
        } else {
            (self.seconds(), "profile")
        };
        let waited = self.thread.waited_ns() as f64 / 1e9;
        Check {
            formula: format!(
                "time that {} was busy with others ({source}) ≥ time that {} waited for it (scheduler)",
                self.place(),
                self.thread.comm
            ),
            expected: rounded(waited),
            measured: rounded(others),
            unit: "s".into(),
            agrees: limits::NEARLY_ALL.reached(others, waited),
            tolerance: "at most 10 % below: both are counted over slightly different times".into(),
        }
    }

    /// A CPU with room, and how idle it was, when there is one.
    pub(crate) fn free_cpu(&self) -> Option<(u32, f64)> {
        let cpus = self.story.cpus.all();
        let free =
            cpus.filter(|c| c.idle >= limits::MOST.share() && !self.cpus.contains(&c.number));
        let most = free.max_by(|a, b| a.idle.total_cmp(&b.idle));
        most.map(|c| (c.number, c.idle))
    }

    /// That other programs yield, or move elsewhere.
    pub(crate) fn stand_back(&self, risk: &str) -> Vec<Advice> {
        let Some(first) = self.strangers().next() else {
            return Vec::new();
        };
        let named = self.strangers().filter(|r| self.matters(r));
        let pids: Vec<u32> = named.map(|r| r.pid).take(MAX_NAMED).collect();
        let crowd = match pids.len() {
            1 => "",
            _ => ", and similar ones,",
        };
        let for_all = |command: Option<ShellCommand>| Some(command?.for_each(&pids));
        let who = format!("{} (pid {}){crowd}", first.comm, first.pid);
        let per_second = self.thread.waited_ns() as f64 / self.story.seconds();
        let idle = Advice::to(format!(
            "Run {who} only when the CPU is otherwise idle (SCHED_IDLE)."
        ))
        .by(for_all(shell!("chrt --all-tasks --idle --pid 0 $p")))
        .at("the host; for a service CPUSchedulingPolicy=idle in its unit")
        .risk(risk)
        .undo(for_all(shell!("chrt --all-tasks --other --pid 0 $p")))
        .effect(format!(
            "{} no longer waits for them: it lost {} per second.",
            self.thread.comm,
            duration(per_second as u64)
        ))
        .change(Change::RunWhenIdle { pids: pids.clone() });
        let elsewhere = self.free_cpu().map(|(free, idle)| {
            Advice::to(format!("Or move {who} to CPU {free}."))
                .by(shell!(
                    "taskset --all-tasks -cp {free} {pid}",
                    free,
                    pid = first.pid
                ))
                .at("the host; for a service CPUAffinity in its unit, or a cpuset")
                .risk(format!("Other work on CPU {free} slows down."))
                .undo(Some(former_cpus(first.pid)))
                .effect(format!(
                    "CPU {free} was idle for {} of the time; {} is free.",
                    percent(idle),
                    self.place()
                ))
        });
        std::iter::once(idle).chain(elsewhere).collect()
    }
}

/// How a process gets back the CPUs that it may use.
pub(crate) fn former_cpus(pid: u32) -> Sentence {
    sentence!(
        "note first what `taskset -cp {pid}` says, and set it again",
        pid
    )
}

/// What connections waited for threads without a CPU, in proportion to the share of time for which these wanted one and
/// had none. Each waits at most as long as the threads of a process waited together: a sleeping thread does not wait
/// for a CPU, however long an answer is owed.
pub(crate) fn lost<'a>(
    story: &Story,
    conns: impl Iterator<Item = &'a Conn>,
    threads: &[&Thread],
) -> Lost {
    let sum = |of: fn(&Thread) -> u64| {
        threads
            .iter()
            .fold(0, |sum: u64, t| sum.saturating_add(of(t)))
    };
    let (waited_ns, on_cpu_ns) = (sum(Thread::waited_ns), sum(Thread::on_cpu_ns));
    let wanted = on_cpu_ns.saturating_add(waited_ns);
    let share = waited_ns as f64 / wanted.max(1) as f64;
    let mut of_processes: BTreeMap<u32, u64> = threads.iter().map(|t| (t.pid, 0)).collect();
    for thread in story.threads.all() {
        if let Some(ns) = of_processes.get_mut(&thread.pid) {
            *ns = ns.saturating_add(thread.waited_ns());
        }
    }
    let longest = of_processes.into_values().max().unwrap_or(0);
    let mut lost = Lost::unknown();
    for conn in conns {
        // Where both ends are here, the caller's time counts.
        let peer = conn.peer.and_then(|id| story.conn(id));
        let caller = peer.filter(|_| conn.side != Side::Opened);
        let (of, states) = match caller {
            Some(peer) => (peer, &[State::Awaiting][..]),
            None => (conn, &[State::Unaccepted, State::Unread, State::Owing][..]),
        };
        let spent = account::of_end(story, of);
        let spent: u64 = states.iter().map(|state| spent.of(*state)).sum();
        let share = share.min(longest as f64 / spent.max(1) as f64);
        lost = lost.and(Lost::states(story, [of], states, share));
    }
    lost.or(|| Lost::elsewhere(waited_ns))
}

/// What the thread did with its time.
pub(crate) fn thread_step(thread: &Thread, what: &str) -> Step {
    let share = |ns: u64| percent(ratio(ns as f64, thread.seen_ns() as f64).unwrap_or(0.0));
    let ran = share(thread.on_cpu_ns());
    let turns = match thread.switches {
        1 => "one turn".into(),
        n => format!("{} turns", count(n)),
    };
    say!(
        "{what} was ready to run and waited for a CPU for {waiting_share} of the time ({waited_ms} in {turns}, \
         {mean_wait_ms} each), and ran for {ran}.",
        waited_ms = Quantity::ns(thread.waited_ns()).rows(thread.rows()),
        waiting_share = Quantity::share(thread.waiting()),
        mean_wait_ms = Quantity::ns(thread.mean_wait_ns())
    )
    .number("tid", thread.tid)
    .number("on_cpu_ms", thread.on_cpu_ns() as f64 / 1e6)
}

/// Whether a kernel thread does the work of softirqs: `ksoftirqd/1`, a NAPI thread.
pub(crate) fn serves_softirq(comm: &str) -> bool {
    ["ksoftirqd/", "napi/", "backlog_napi/"]
        .iter()
        .any(|prefix| comm.starts_with(prefix))
}
