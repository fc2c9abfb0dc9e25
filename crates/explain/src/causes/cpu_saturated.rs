//! C52: a service has used up the CPUs that it may use with its own work, or the hypervisor takes them away.

mod steal;

use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use analysis::Thread;
use analysis::words::{duration, figure, percent, rounded};

use crate::limits;
use crate::places::process::{connections_of, owners};
use crate::places::runqueue::{self, Rivals, serves_softirq, thread_step};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CPU_SATURATED,
    number: "C52",
    title: "the service has used up its CPUs",
    page: include_str!("cpu_saturated.md"),
    layer: Layer::Application,
    ground: Ground::Host,
    needs: &[&[SourceName::Threads, SourceName::Cpus]],
    seen_from: || {
        "threads that wait half as long for a CPU as they run, 1 s in total, behind their own service; or \
                10 % of the CPUs' time stolen".into()
    },
    signature: &[
        "the service uses all its CPUs",
        "steal time in a virtual machine, everything is slow",
    ],
    rivals: &[
        Id::CPU_CONTENTION,
        Id::SOFTIRQ_STARVATION,
        Id::SLOW_APPLICATION,
    ],
    explains: &[Id::SLOW_APPLICATION, Id::SLOW_ACCEPT, Id::SLOW_READER],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        let services = places(story);
        let own = services.iter().map(judge);
        own.chain(steal::find(story)).collect()
    },
};

/// A service whose threads wait for each other's CPUs.
struct Saturated<'a> {
    story: &'a Story,
    pids: BTreeSet<u32>,
    threads: Vec<&'a Thread>,
    /// The thread that waits longest.
    longest: &'a Thread,
    rivals: Rivals<'a>,
    conns: BTreeMap<ConnId, &'a Conn>,
}

fn no(asked: &Asked) -> Option<Step> {
    let pid = match asked.place {
        Place::Process(pid) => Some(*pid),
        Place::Service { pids, .. } => pids.first().copied(),
        _ => None,
    }?;
    let story = asked.story;
    let threads = story.threads.all().filter(|t| t.pid == pid);
    let longest = threads.max_by_key(|t| t.waited_ns());
    let Some(longest) = longest else {
        return asked.had_a_cpu();
    };
    let rivals = Rivals::of(story, longest, None);
    let seconds = |s: f64| Quantity::ns((s * 1e9) as u64);
    let waited = Quantity::ns(longest.waited_ns()).rows(longest.rows());
    if throttled_ms(story, pid) * 1e6 >= limits::MOST.share() * longest.waited_ns() as f64
        && longest.waited_ns() >= limits::BETWEEN_SAMPLES.ns() / 2
    {
        return Some(say!(
            "its cgroup's quota was used up, however idle the CPUs were: it waited {waited_ms}",
            waited_ms = waited
        ));
    }
    if !rivals.are_its_own() {
        return Some(say!(
            "while its thread waited {waited_ms} for a CPU, its own service used its CPUs for {own_ms}, \
             others for {foreign_ms}",
            waited_ms = waited,
            own_ms = seconds(rivals.own_seconds()),
            foreign_ms = seconds(rivals.foreign_seconds())
        ));
    }
    let of_pid = |s: &Saturated| s.pids.contains(&pid);
    (!places(story).iter().any(of_pid)).then(|| {
        say!(
            "the thread that waited longest for a CPU waited {waited_ms} and ran for {ran_ms}",
            waited_ms = waited,
            ran_ms = Quantity::ns(longest.on_cpu_ns())
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let own = services(whole.story).into_iter().map(|(_, threads)| {
        let (waited, ran) = (sum(&threads, Thread::waited_ns), sum(&threads, Thread::on_cpu_ns));
        let longest = threads.iter().max_by_key(|t| t.waited_ns())?;
        let says = || {
            say!(
                "the threads of {comm} waited for a CPU for {waited_ms} in total, and ran for {ran_ms}",
                comm = Quantity::new(&*longest.comm, &*longest.comm),
                waited_ms = Quantity::ns(waited).rows(longest.rows()),
                ran_ms = Quantity::ns(ran)
            )
        };
        every([
            Test::lasts(waited, &limits::BETWEEN_SAMPLES, says()),
            Test::share(waited, ran, &limits::WAITS_TO_RUNNING, says()),
            Test::lasts(mean_wait_ns(&threads), &limits::SCHEDULERS_TURN, says()),
        ])
    });
    let nothing = "no thread of a process with connections was seen";
    Verdict::nearest(own.chain([steal::refuted(whole.story)]), nothing)
}

/// For how long the cgroup of a process was throttled, ms; any cgroup if it is unknown.
fn throttled_ms(story: &Story, pid: u32) -> f64 {
    let process = story.processes.get(pid);
    let own = process.map_or("", |p| &*p.cgroup);
    let lines = story.resources.of("cgroup", "throttled_ms");
    let its = lines.filter(|(cgroup, _)| match own {
        "" | "/" => true,
        own => own
            .strip_prefix(cgroup)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    });
    its.map(|(_, line)| line.rise()).fold(0.0, f64::max)
}

/// The processes and threads of each service that has connections.
fn services(story: &Story) -> Vec<(BTreeSet<u32>, Vec<&Thread>)> {
    // Processes that hold a listener in common are one service.
    let mut services: BTreeMap<(bool, u32), BTreeSet<u32>> = BTreeMap::new();
    let mut first: AHashMap<u32, u32> = AHashMap::new();
    for (listener, index) in story.listeners.all.iter().zip(0..) {
        for holder in &listener.holders {
            first.entry(holder.pid).or_insert(index);
        }
    }
    for pid in owners(story) {
        let held = first.get(&pid).copied();
        let key = held.map_or((false, pid), |index| (true, index));
        services.entry(key).or_default().insert(pid);
    }
    let mut threads: AHashMap<u32, Vec<&Thread>> = AHashMap::new();
    for thread in story.threads.all().filter(|t| !serves_softirq(&t.comm)) {
        threads.entry(thread.pid).or_default().push(thread);
    }
    let all = services.into_values().map(|pids| {
        let its = pids.iter().filter_map(|pid| threads.get(pid));
        let its: Vec<&Thread> = its.flatten().copied().collect();
        (pids, its)
    });
    all.collect()
}

fn places(story: &Story) -> Vec<Saturated<'_>> {
    let all = services(story).into_iter();
    let all = all.filter_map(|(pids, threads)| Saturated::of(story, pids, threads));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.waited_ns()));
    all.truncate(MAX_PER_CAUSE);
    all
}

/// The sum over all threads.
fn sum(threads: &[&Thread], of: fn(&Thread) -> u64) -> u64 {
    let each = threads.iter().map(|t| of(t));
    each.fold(0, u64::saturating_add)
}

/// The mean wait each time that one of the threads wanted a CPU, ns.
fn mean_wait_ns(threads: &[&Thread]) -> u64 {
    sum(threads, Thread::waited_ns) / sum(threads, |t| t.switches).max(1)
}

/// Whether threads wait long for a CPU: in all, each time, and compared with how long they run.
fn are_kept_waiting(threads: &[&Thread]) -> bool {
    let waited = sum(threads, Thread::waited_ns);
    waited >= limits::BETWEEN_SAMPLES.ns()
        && waited as f64
            >= limits::WAITS_TO_RUNNING.share() * sum(threads, Thread::on_cpu_ns) as f64
        && mean_wait_ns(threads) >= limits::SCHEDULERS_TURN.ns()
}

impl<'a> Saturated<'a> {
    fn of(
        story: &'a Story,
        pids: BTreeSet<u32>,
        threads: Vec<&'a Thread>,
    ) -> Option<Saturated<'a>> {
        let longest = *threads.iter().max_by_key(|t| t.waited_ns())?;
        // That settles most services: the profile and the connections are looked at last.
        let kept = || throttled_ms(story, longest.pid) * 1e6;
        let quota = || kept() >= limits::MOST.share() * longest.waited_ns() as f64;
        if !are_kept_waiting(&threads) || quota() {
            return None;
        }
        let rivals = Rivals::of(story, longest, None);
        let known_s = rivals.own_seconds() + rivals.foreign_seconds();
        let seen = known_s * 1e9 >= limits::MOST.share() * longest.waited_ns() as f64;
        if !seen || !rivals.are_its_own() {
            return None;
        }
        let conns = connections_of(story, &pids);
        (!conns.is_empty()).then_some(Saturated {
            story,
            pids,
            threads,
            longest,
            rivals,
            conns,
        })
    }

    fn sum(&self, of: fn(&Thread) -> u64) -> u64 {
        sum(&self.threads, of)
    }

    fn waited_ns(&self) -> u64 {
        self.sum(Thread::waited_ns)
    }

    fn on_cpu_ns(&self) -> u64 {
        self.sum(Thread::on_cpu_ns)
    }

    fn mean_wait_ns(&self) -> u64 {
        mean_wait_ns(&self.threads)
    }

    /// CPUs that its threads would have used.
    fn wanted(&self) -> f64 {
        let seen_ns = self.threads.iter().map(|t| t.seen_ns()).max().unwrap_or(0);
        let wanted = self.waited_ns().saturating_add(self.on_cpu_ns());
        wanted as f64 / seen_ns.max(1) as f64
    }

    fn had(&self) -> f64 {
        let seen_ns = self.threads.iter().map(|t| t.seen_ns()).max().unwrap_or(0);
        self.on_cpu_ns() as f64 / seen_ns.max(1) as f64
    }

    fn scope(&self) -> Scope {
        let netns = self.conns.values().next().map_or(0, |c| c.netns);
        let pid = self.longest.pid;
        let held = self.story.listeners.of_holder(pid).first();
        let held = held.and_then(|index| self.story.listeners.all.get(*index as usize));
        let listener = held.map(|l| l.local.to_string());
        Scope {
            netns: self.story.netns(netns),
            role: match listener {
                Some(_) => Role::Listener,
                None => Role::Client,
            },
            listener: listener.unwrap_or_default(),
            resource: Some(self.rivals.place()),
            pid: Some(pid),
            pids: self.pids.iter().copied().collect(),
            comm: Some(self.longest.comm.to_string()),
            ..Scope::default()
        }
    }

    fn impact(&self) -> Impact {
        let n = self.conns.len() as u64;
        let says = format!(
            "{} of this service: each is delayed whenever its thread waits for a CPU, {} on average.",
            Quantity::of(n, "connection"),
            duration(self.mean_wait_ns())
        );
        Impact::of(n, n, "connections", says)
    }

    fn service_step(&self, who: &str) -> Step {
        let rows = self.threads.iter().flat_map(|t| t.rows());
        say!(
            "{threads} of {who} ran for {on_cpu_ms} and waited for a CPU for {waited_ms} in total: they \
             wanted {wanted_cpus} CPUs and had {had_cpus}.",
            threads = Quantity::of(self.threads.len() as u64, "thread"),
            on_cpu_ms = Quantity::ns(self.on_cpu_ns()),
            waited_ms = Quantity::ns(self.waited_ns()).rows(rows.take(2 * SHOWN_ROWS)),
            wanted_cpus = Quantity::new(rounded(self.wanted()), figure(self.wanted())),
            had_cpus = Quantity::new(rounded(self.had()), figure(self.had()))
        )
    }

    fn own_step(&self) -> Step {
        let seconds = |s: f64| Quantity::ns((s * 1e9) as u64);
        let place = self.rivals.place();
        let cpus = self.story.cpus.all();
        let rows = cpus.filter(|c| self.rivals.cpus.contains(&c.number));
        say!(
            "While that thread waited, its own service used {own_ms} of {place}, all others {foreign_ms}: \
             no other program could give way.",
            own_ms =
                seconds(self.rivals.own_seconds()).rows(rows.map(|c| c.rows[1]).take(SHOWN_ROWS)),
            foreign_ms = seconds(self.rivals.foreign_seconds())
        )
    }

    /// While a thread waits behind its own service, that has the CPU.
    fn check(&self) -> Check {
        let waited = self.longest.waited_ns() as f64 / 1e9;
        let own = self.rivals.own_seconds();
        Check {
            formula: format!(
                "CPU time of its own service on {} (profile) ≥ time that {} waited for it (scheduler)",
                self.rivals.place(),
                self.longest.comm
            ),
            expected: rounded(waited),
            measured: rounded(own),
            unit: "s".into(),
            agrees: own >= limits::NEARLY_ALL.share() * waited,
            tolerance: "not below it by more than 10 %: the profile misses some".into(),
        }
    }

    fn advice(&self, who: &str) -> Vec<Advice> {
        let comm = &self.longest.comm;
        let (wanted, had) = (figure(self.wanted()), figure(self.had()));
        let pid = self.longest.pid;
        let (room, command) = match self.rivals.free_cpu() {
            Some((free, idle)) => {
                let mut cpus: Vec<String> = self.rivals.cpus.iter().map(u32::to_string).collect();
                cpus.push(free.to_string());
                let pids: Vec<u32> = self.pids.iter().take(16).copied().collect();
                let cpus = cpus.join(",");
                let command = shell!("taskset --all-tasks -cp {cpus} $p", cpus);
                let command = command.map(|command| command.for_each(&pids));
                let room = format!(": CPU {free} was idle for {} of the time", percent(idle));
                (room, command)
            }
            None => (String::new(), None),
        };
        let more = Advice::to(format!(
            "Give {who} more CPUs{room}, or spread its load over more hosts."
        ))
        .undo(command.as_ref().map(|_| runqueue::former_cpus(pid)))
        .by(command)
        .at("the host; for a service CPUAffinity or AllowedCPUs in its unit, for a container its cpuset")
        .risk("Other work on these CPUs slows down. Priorities would not help: the threads that wait and \
               those that run are one service.")
        .effect(format!("It wanted {wanted} CPUs and had {had}."))
        .change(Change::MoreCpus { pid: Some(pid) });
        let profile = Advice::to(format!(
            "Or make it need less: see what {comm} spends CPU time on."
        ))
        .by(shell!("tcpwhy record --with profile --for 10s -o cpu.tcpwhy && tcpwhy flame cpu.tcpwhy --pid {pid}", pid))
        .at("this host")
        .risk("None: it only reads.")
        .effect("The widest frames are what to optimise first.");
        vec![more, profile]
    }
}

fn judge(service: &Saturated) -> Finding {
    let story = service.story;
    let thread = service.longest;
    let who = match service.pids.len() {
        1 => format!("{} (pid {})", thread.comm, thread.pid),
        n => format!("{} (pid {} and {} more)", thread.comm, thread.pid, n - 1),
    };
    let (wanted, had) = (figure(service.wanted()), figure(service.had()));
    let idle = story
        .cpus
        .all()
        .any(|c| c.idle > limits::SMALL_PART.share());
    let place = service.rivals.place();
    let conns = service.conns.values().copied();
    Case::new(story, CAUSE, service.scope())
        .placed(Place::Process(thread.pid))
        .title([
            format!("{who} has used up {place}: it wants {wanted} CPUs and has {had}."),
            format!("{} has used up {place}: it wants {wanted} CPUs.", thread.comm),
        ])
        .fix([if idle && service.rivals.free_cpu().is_some() { format!("Let {} use more CPUs than {place}.", thread.comm) } else { format!("Give {} more CPUs, or less to do.", thread.comm) }])
        .affects(
            service.impact(),
            runqueue::lost(story, conns, &service.threads),
        )
        .because("the scheduler itself reported when its threads were runnable and when they ran")
        .rests_on(&[SourceName::Profile])
        .steps([
            service.service_step(&who),
            thread_step(thread, &format!("{} (tid {})", thread.comm, thread.tid)),
            service.own_step(),
        ])
        .checks([service.check()])
        .advise(service.advice(&who))
        .verify(sentence!("Under the same load `tcpwhy stat threads` shows the threads of {comm} on a CPU for longer than in \
             column LAT.", comm = &thread.comm))
}

#[cfg(test)]
mod tests;
