//! C35: the thread that serves connections waits for a CPU, behind others or for its own quota.

mod quota;

use std::collections::{BTreeMap, BTreeSet};

use analysis::Thread;
use analysis::stats::ratio;
use analysis::words::{duration, figure, percent};

use crate::limits;
use crate::places::process::{connections, listens, owners};
use crate::places::runqueue::{self, Rivals, former_cpus, serves_softirq, thread_step};
use crate::vocabulary::*;
use quota::Quota;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CPU_CONTENTION,
    number: "C35",
    title: "the application waits for a CPU",
    page: include_str!("cpu_contention.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[&[SourceName::Threads]],
    seen_from: || {
        "a thread runnable 30 % of the time, 1 s in total, or 200 ms with its cgroup's quota used up"
            .into()
    },
    signature: &[
        "latency while a batch job runs on the same CPU",
        "throttled cgroup: latency of up to 100 ms (CPU limit of a container)",
        "CPU throttling by a CFS quota: spikes of p99 latency",
    ],
    rivals: &[
        Id::SOFTIRQ_STARVATION,
        Id::PATH_LOSS,
        Id::SLOW_APPLICATION,
        Id::CPU_SATURATED,
    ],
    explains: &[Id::SLOW_APPLICATION, Id::SLOW_ACCEPT, Id::SLOW_READER],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| places(whole.story).iter().map(judge).collect(),
};

const UNHARMED: &str = "none of its connections waited for it, as far as samples show";

/// A thread that waits, and for what; with the other threads of its program that wait, too.
struct Waiter<'a> {
    story: &'a Story,
    /// The thread that waits most.
    thread: &'a Thread,
    /// Such threads in other processes of its program.
    fellows: Vec<&'a Thread>,
    why: Why<'a>,
    /// Connections of their processes.
    conns: BTreeMap<ConnId, &'a Conn>,
}

/// What keeps it waiting.
enum Why<'a> {
    /// Others have the CPU.
    Rivals(Rivals<'a>),
    /// The cgroup has spent its quota.
    Quota(Quota<'a>),
}

fn no(asked: &Asked) -> Option<Step> {
    was_on_cpu(asked)
        .or_else(|| asked.had_a_cpu())
        .or_else(|| nobody_waits(asked))
        .or_else(|| behind_its_own(asked))
}

fn rule_out(whole: &Whole) -> Verdict {
    let owners = owners(whole.story);
    let theirs = |t: &&Thread| owners.contains(&t.pid) && !serves_softirq(&t.comm);
    let places = whole.story.threads.all().filter(theirs).map(|thread| {
        let says = || {
            say!(
                "{comm} waited for a CPU for {waited}, {waiting_share} of the time, and ran for {ran}",
                comm = Quantity::new(&*thread.comm, &*thread.comm),
                waited = Quantity::ns(thread.waited_ns()).rows(thread.rows()),
                waiting_share = Quantity::share(thread.waiting()),
                ran = Quantity::ns(thread.on_cpu_ns())
            )
        };
        let long = Test::lasts(thread.waited_ns(), &limits::NOTICED, says());
        // A thread whose quota is spent need not wait for most of the time.
        let often = (!is_throttled(whole.story, thread)).then(|| {
            [
                Test::from(thread.waiting(), &limits::CONTENDED_SHARE, says()),
                Test::share(thread.waited_ns(), thread.on_cpu_ns(), &limits::WAITS_TO_RUNNING, says()),
                Test::lasts(thread.mean_wait_ns(), &limits::SCHEDULERS_TURN, says()),
            ]
        });
        every([long].into_iter().chain(often.into_iter().flatten()))
    });
    Verdict::nearest(places, "no thread of a process with connections was seen")
}

/// The process waits for its own service.
fn behind_its_own(asked: &Asked) -> Option<Step> {
    let Place::Process(pid) = asked.place else {
        return None;
    };
    let story = asked.story;
    let threads = story.threads.all().filter(|t| t.pid == *pid);
    let longest = threads.max_by_key(|t| t.waited_ns())?;
    let rivals = Rivals::of(story, longest, None);
    let seconds = |s: f64| Quantity::ns((s * 1e9) as u64);
    (rivals.are_its_own() && Quota::of(story, longest).is_none()).then(|| {
        say!(
            "its CPUs otherwise ran its own service for {own_ms} and others for {foreign_ms}: the others \
             cannot make it wait so long",
            own_ms = seconds(rivals.own_seconds()).rows(longest.rows()),
            foreign_ms = seconds(rivals.foreign_seconds())
        )
    })
}

/// Calls that took long spent most of it running.
fn was_on_cpu(asked: &Asked) -> Option<Step> {
    let calls = asked.calls()?;
    let call = calls.call;
    let (took, on_cpu) = (Quantity::ns(calls.took_ns), Quantity::ns(calls.on_cpu_ns));
    limits::MOST
        .reached(calls.on_cpu_ns, calls.took_ns)
        .then(|| {
            say!(
                "{on_cpu} of {took} in {call} were on a CPU: it did not wait for one",
                took,
                on_cpu
            )
        })
}

/// No thread of an application waits as long.
fn nobody_waits(asked: &Asked) -> Option<Step> {
    let owners = owners(asked.story);
    let threads = asked.story.threads.all();
    let theirs = threads.filter(|t| owners.contains(&t.pid) && !serves_softirq(&t.comm));
    let waits = |t: &Thread| waits(t) || is_throttled(asked.story, t);
    let longest = theirs.max_by_key(|t| (waits(t), t.waited_ns()))?;
    let comm = &longest.comm;
    (!waits(longest)).then(|| {
        say!(
            "{comm} waited longest of the applications for a CPU, {waiting_share} of the time",
            waiting_share = Quantity::share(longest.waiting()).rows(longest.rows())
        )
    })
}

/// Whether a thread waits for a CPU more than it should.
fn waits(thread: &Thread) -> bool {
    thread.waited_ns() >= limits::NOTICED.ns()
        && thread.waiting() >= limits::CONTENDED_SHARE.share()
        && limits::WAITS_TO_RUNNING.reached(thread.waited_ns(), thread.on_cpu_ns())
}

/// Whether it waits because its cgroup has used up its quota. Competition for the CPU is normal on a busy host;
/// throttling is not, and a request that arrives in one period of a dozen waits for most of it.
fn is_throttled(story: &Story, thread: &Thread) -> bool {
    let quota = || Quota::of(story, thread).filter(|quota| quota.certain);
    thread.waited_ns() >= limits::NOTICED.ns() && quota().is_some()
}

fn places(story: &Story) -> Vec<Waiter<'_>> {
    let owners = owners(story);
    // For each process, the thread that waits most.
    let mut seen = BTreeSet::new();
    let theirs = |t: &&Thread| owners.contains(&t.pid) && !serves_softirq(&t.comm);
    let all = story.threads.all().filter(theirs);
    let mut waiting: Vec<&Thread> = all.filter(|t| waits(t) || is_throttled(story, t)).collect();
    waiting.sort_by_key(|t| std::cmp::Reverse(t.waited_ns()));
    waiting.retain(|t| seen.insert(t.pid));
    waiting.truncate(MAX_PER_CAUSE);
    let waiters = waiting.into_iter().filter_map(|t| Waiter::of(story, t));
    // Where cgroup membership is unknown, throttling explains one process only.
    let mut guessed = BTreeSet::new();
    let once = waiters.filter(|waiter| match &waiter.why {
        Why::Quota(quota) if !quota.certain => guessed.insert(quota.cgroup),
        _ => true,
    });
    // Workers of one service, or a succession of short-lived programs, share one bottleneck.
    let mut programs: Vec<Waiter> = Vec::new();
    for waiter in once {
        match programs.iter_mut().find(|first| first.is_like(&waiter)) {
            Some(first) => first.join(waiter),
            None => programs.push(waiter),
        }
    }
    programs.retain(|program| match program.why {
        Why::Rivals(_) => program.waited_ns() >= limits::BETWEEN_SAMPLES.ns(),
        Why::Quota(_) => true,
    });
    programs
}

fn judge(waiter: &Waiter) -> Finding {
    let (story, thread) = (waiter.story, waiter.thread);
    let one = format!("{} (pid {})", thread.comm, thread.pid);
    let who = match waiter.fellows.len() {
        0 => one.clone(),
        n => format!("{} (pid {} and {n} more)", thread.comm, thread.pid),
    };
    let share = percent(thread.waiting());
    let lost = waiter.lost();
    // Throttled now and then, like an agent with a small quota: what it sends itself may wait.
    let unharmed = lost.ends().next().is_none() && !waiter.answers() && !waits(thread);
    let case = Case::new(story, CAUSE, waiter.scope())
        .placed(Place::Process(thread.pid))
        .affects(waiter.impact(), lost)
        .noted(unharmed.then_some(UNHARMED))
        .because("the scheduler itself reported when the thread was runnable and when it ran")
        .steps([waiter.connections_step(&who)])
        .steps(waiter.wake_step())
        .steps([thread_step(thread, &one)])
        .steps(waiter.fellows_step());
    let case = match &waiter.why {
        Why::Rivals(rivals) => {
            let (place, ahead) = (rivals.place(), rivals.ahead());
            case.title([
                format!("{who} waits {share} of the time for {place}, behind {ahead}."),
                format!("{who} waits {share} of the time for {place}."),
            ])
            .fix([if rivals.may_yield() {
                format!("Run {ahead} under SCHED_IDLE, or move it to another CPU.")
            } else {
                format!("Give {} more CPU than {place}.", thread.comm)
            }])
            .rests_on(&[SourceName::Profile])
            .steps([rivals.step()])
            .checks([rivals.check()])
            .advise(waiter.beside(rivals, &one))
        }
        Why::Quota(quota) => {
            let cgroup = quota.cgroup;
            let cpus = quota.enough(story, waiter.process_on_cpu());
            let more = figure(cpus);
            case.title([
                format!("{who} waits {share} of the time: cgroup {cgroup} has hit its CPU quota."),
                format!("{who} waits {share} of the time: its cgroup hit its CPU quota."),
            ])
            .fix([
                format!("Raise the CPU quota of cgroup {cgroup} to {more} CPUs."),
                format!("Raise the CPU quota of its cgroup to {more} CPUs."),
            ])
            .at_most_if(
                Level::Medium,
                !quota.certain,
                "it is the only throttled cgroup; that the process is in it is not recorded (cgroup v1)",
            )
            .rests_on(&[SourceName::Cgroups])
            .steps(quota.steps())
            .checks(quota.checks(story, thread))
            .advise([quota.advice(thread, cpus)])
        }
    };
    case.verify(match &waiter.why {
        Why::Rivals(_) => sentence!(
            "Under the same load `tcpwhy stat threads` shows less than {share} in column LAT for {comm}.",
            share = percent(limits::CONTENDED_SHARE.share()),
            comm = &thread.comm
        ),
        Why::Quota(quota) => sentence!(
            "Under the same load `nr_throttled` in `cpu.stat` of cgroup {cgroup} no longer rises.",
            cgroup = quota.cgroup
        ),
    })
}

impl<'a> Waiter<'a> {
    fn of(story: &'a Story, thread: &'a Thread) -> Option<Waiter<'a>> {
        let conns: BTreeMap<ConnId, &Conn> = connections(story, thread.pid).into_iter().collect();
        let why = match Quota::of(story, thread) {
            Some(quota) => Why::Quota(quota),
            None => {
                let rivals = Rivals::of(story, thread, None);
                // It waits for its own work: its service has used up its CPUs.
                if rivals.are_its_own()
                    || !rivals.explain_the_wait()
                    || thread.mean_wait_ns() < limits::SCHEDULERS_TURN.ns()
                {
                    return None;
                }
                Why::Rivals(rivals)
            }
        };
        (!conns.is_empty()).then_some(Waiter {
            story,
            thread,
            fellows: Vec::new(),
            why,
            conns,
        })
    }

    /// Whether the other one is of the same program, and waits for the same.
    fn is_like(&self, other: &Waiter) -> bool {
        let same = match (&self.why, &other.why) {
            (Why::Rivals(_), Why::Rivals(_)) => true,
            (Why::Quota(a), Why::Quota(b)) => a.cgroup == b.cgroup,
            _ => false,
        };
        same && self.thread.comm == other.thread.comm
    }

    fn join(&mut self, other: Waiter<'a>) {
        self.fellows.push(other.thread);
        self.conns.extend(other.conns);
    }

    /// All threads that wait, the longest wait first.
    fn threads(&self) -> impl Iterator<Item = &'a Thread> + '_ {
        [self.thread]
            .into_iter()
            .chain(self.fellows.iter().copied())
    }

    /// Whether clients connect to it: samples may have missed what short connections lost.
    fn answers(&self) -> bool {
        self.conns.values().any(|c| !c.asks())
    }

    fn waited_ns(&self) -> u64 {
        let waited = self.threads().map(Thread::waited_ns);
        waited.fold(0, u64::saturating_add)
    }

    fn scope(&self) -> Scope {
        let thread = self.thread;
        let netns = self.conns.values().next().map_or(0, |c| c.netns);
        Scope {
            netns: self.story.netns(netns),
            resource: Some(match &self.why {
                Why::Rivals(rivals) => rivals.place(),
                Why::Quota(quota) => format!("cgroup {}", quota.cgroup),
            }),
            role: if listens(self.story, thread.pid) {
                Role::Listener
            } else {
                Role::Client
            },
            pid: Some(thread.pid),
            pids: self.threads().map(|t| t.pid).collect(),
            comm: Some(thread.comm.to_string()),
            ..Scope::default()
        }
    }

    /// How long its connections waited for it, in proportion to the share of time for which it wanted a CPU and had
    /// none.
    fn lost(&self) -> Lost {
        let threads: Vec<&Thread> = self.threads().collect();
        runqueue::lost(self.story, self.conns.values().copied(), &threads)
    }

    fn impact(&self) -> Impact {
        let n = self.conns.len() as u64;
        let says = format!(
            "{} of {}: each is delayed whenever it waits for a CPU, {} on average.",
            Quantity::of(n, "connection"),
            match self.fellows.len() {
                0 => "this process".into(),
                more => format!("these {} processes", more + 1),
            },
            duration(self.thread.mean_wait_ns())
        );
        Impact::of(n, n, "connections", says)
    }

    fn connections_step(&self, who: &str) -> Step {
        let resent = |c: &&&Conn| c.retransmits + c.syn_retries > 0;
        let with_retransmits = self.conns.values().filter(resent).count() as u64;
        let rows = self.conns.values().filter_map(|c| c.row());
        say!(
            "{who} has {connections}, of which {with_retransmits} retransmitted something.",
            connections =
                Quantity::of(self.conns.len() as u64, "connection").rows(rows.take(SHOWN_ROWS)),
            with_retransmits = Quantity::count(with_retransmits)
        )
    }

    /// The other processes of its program that wait as well.
    fn fellows_step(&self) -> Option<Step> {
        let rows = self.fellows.iter().flat_map(|t| t.rows()).take(SHOWN_ROWS);
        let waited = self.waited_ns().saturating_sub(self.thread.waited_ns());
        let more_workers = Quantity::of(self.fellows.len() as u64, "more worker").rows(rows);
        (!self.fellows.is_empty()).then(|| {
            say!(
                "{more_workers} of the same name waited for a CPU, {waited_too_ms} in total.",
                more_workers,
                waited_too_ms = Quantity::ns(waited)
            )
        })
    }

    /// The longest wait for a CPU after it had been woken.
    fn wake_step(&self) -> Option<Step> {
        let own = self.story.waits.all.iter();
        let own = own.filter(|w| w.tid == self.thread.tid);
        let longest = own.max_by_key(|w| w.runqueue_ns)?;
        let after = longest
            .runqueue_ns
            .filter(|ns| *ns >= limits::SCHEDULERS_TURN.ns())?;
        let woken = match &longest.cause {
            Some(packet) => format!("a packet from {} had woken it", packet.from),
            None => "it had been woken".into(),
        };
        Some(say!(
            "It once waited {longest_ms} for a CPU after {woken}.",
            longest_ms = Quantity::ns(after).rows([longest.row])
        ))
    }

    /// CPUs that all threads of its process used.
    fn process_on_cpu(&self) -> f64 {
        let all = self.story.threads.all();
        let own = all.filter(|t| t.pid == self.thread.pid);
        let on_cpu = own.map(|t| ratio(t.on_cpu_ns() as f64, t.seen_ns() as f64));
        on_cpu.flatten().sum()
    }

    /// What helps a thread that others keep off its CPU.
    fn beside(&self, rivals: &Rivals, who: &str) -> Vec<Advice> {
        if !rivals.may_yield() {
            return vec![self.more_cpu(rivals)];
        }
        let risk = "A batch job takes longer when the host is busy; do not do this \
                    to one that must keep up.";
        let first = Advice::to(format!("Or give {who} a larger share of the CPU."))
            .by(shell!("renice -n -10 -p {pid}", pid = self.thread.pid))
            .at("the host; for a service Nice or CPUWeight in its unit")
            .risk("Other work on that CPU gets less, whatever it is.")
            .undo(Some(sentence!(
                "`renice -n 0 -p {pid}` (0 unless it had another)",
                pid = self.thread.pid
            )))
            .effect("It is scheduled first more often; at nice -10 it has nine times the weight.");
        let mut advice = rivals.stand_back(risk);
        advice.push(first);
        advice
    }

    /// Where its own processes, or kernel threads, have the CPU, no other program can yield.
    fn more_cpu(&self, rivals: &Rivals) -> Advice {
        let (comm, place) = (&self.thread.comm, rivals.place());
        let mut cpus: Vec<String> = rivals.cpus.iter().map(u32::to_string).collect();
        let (room, command) = match rivals.free_cpu() {
            Some((free, idle)) => {
                cpus.push(free.to_string());
                let (cpus, pid) = (cpus.join(","), self.thread.pid);
                (
                    format!(": CPU {free} is idle for {} of the time", percent(idle)),
                    shell!("taskset --all-tasks -cp {cpus} {pid}", cpus, pid),
                )
            }
            None => (String::new(), None),
        };
        Advice::to(format!(
            "Give {comm} more CPU than {place}{room}; {} cannot give way.",
            rivals.ahead()
        ))
        .undo(command.as_ref().map(|_| former_cpus(self.thread.pid)))
        .by(command)
        .at("the host; for a service CPUAffinity or AllowedCPUs in its unit, for a container its cpuset")
        .risk("Other work on these CPUs slows down. Another priority would only move the wait.")
        .effect(format!(
            "Its thread wanted a CPU for {} of the time, and had one for {}.",
            percent(wanted_cpus(self.thread)),
            percent(self.thread.on_cpu_ns() as f64 / self.thread.seen_ns().max(1) as f64)
        ))
    }
}

/// CPUs that a thread would have used.
fn wanted_cpus(thread: &Thread) -> f64 {
    let wanted = thread.on_cpu_ns().saturating_add(thread.waited_ns());
    ratio(wanted as f64, thread.seen_ns() as f64).unwrap_or(1.0)
}

#[cfg(test)]
mod tests;
