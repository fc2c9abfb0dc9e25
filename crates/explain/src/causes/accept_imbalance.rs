//! C38: one of several workers that share a port (SO_REUSEPORT) does not accept, while the others are idle.

use analysis::words::{list, rounded};
use analysis::{ListenSock, ProcessState};

use crate::limits;
use crate::places::accept_waits::{self, AcceptWaits};
use crate::places::listener::{ListenerPlace, listener_places};
use crate::places::lost_syn::ConnectTimes;
use crate::stopped_by;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::ACCEPT_IMBALANCE,
    number: "C38",
    title: "one of several workers does not accept",
    page: include_str!("accept_imbalance.md"),
    layer: Layer::Application,
    ground: Ground::Listeners,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "one socket of a port with connections waiting in half of its samples, or for 3 s, or requests \
                that waited 200 ms for accept(), ten times as many or as long as at the others".into()
    },
    signature: &[
        "one worker is at 100 %, the others are idle",
        "requests to one of several SO_REUSEPORT processes are slow",
    ],
    rivals: &[
        Id::SLOW_ACCEPT,
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::DESCRIPTORS_EXHAUSTED,
    ],
    explains: &[
        Id::SLOW_ACCEPT,
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::SLOW_APPLICATION,
    ],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        let all = listener_places(story).filter_map(Uneven::of);
        all.map(|uneven| judge(&uneven)).collect()
    },
};

/// A port with sockets that are not accepted from equally.
struct Uneven<'a> {
    here: ListenerPlace<'a>,
    /// The sockets in whose queues connections stand, the fullest first.
    stuck: Vec<&'a ListenSock>,
    /// The sockets whose queues are emptied.
    idle: Vec<&'a ListenSock>,
    waits: Option<AcceptWaits<'a>>,
    /// Whether samples saw the queue.
    sampled: bool,
}

fn no(asked: &Asked) -> Option<Step> {
    let here = asked.listener()?;
    let socks = live(here);
    let row = here.listener.fullest().map(|s| s.last_row);
    match socks.len() {
        0 => None,
        1 => Some(say!(
            "{sockets} listens there: no other worker has a queue of its own",
            sockets = Quantity::of(1u64, "socket").rows(row)
        )),
        n => Uneven::of(here).is_none().then(|| {
            let means = || socks.iter().map(|s| s.mean_queue());
            let most = means().fold(0.0, f64::max);
            let least = means().fold(f64::MAX, f64::min);
            say!(
                "{sockets} share the port: the longest queue held {most} on average, the shortest {least}",
                sockets = Quantity::of(n as u64, "socket").rows(row),
                most = Quantity::new(most, analysis::words::figure(most)),
                least = Quantity::new(least, analysis::words::figure(least))
            )
        }),
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let places = whole.listeners().map(|here| {
        let socks = live(here);
        let local = Quantity::new(here.address(), here.address());
        let sockets = || {
            let row = here.listener.fullest().map(|s| s.last_row);
            Quantity::of(socks.len() as u64, "socket").rows(row)
        };
        let shared = say!("{sockets} listened at {local}", sockets = sockets(), local = &local);
        if socks.is_empty() {
            return None;
        }
        let shared = Test::from(socks.len() as f64, &limits::SHARED_BY, shared);
        let waiting = socks.iter().map(|s| s.waiting_samples).max().unwrap_or(0);
        let samples = socks.iter().map(|s| u64::from(s.samples)).sum::<u64>();
        let longest = longest_wait(&socks).map_or(0, |(ns, _)| ns);
        let says = say!(
            "{sockets} at {local}: one had connections waiting in {waiting} of {samples}, for at most \
             {longest_wait_ms}",
            sockets = sockets(),
            local,
            waiting = Quantity::count(waiting),
            samples = Quantity::of(samples, "sample"),
            longest_wait_ms = Quantity::ns(longest)
        );
        // What two samples found was there, however short each look found it.
        let seen = waiting >= limits::SEEN_TWICE.as_u32();
        let waited = (!seen).then(|| Test::lasts(longest, &limits::ACCEPT_WAIT_SEEN, says));
        every([shared].into_iter().chain(waited))
    });
    Verdict::nearest(places, "no listener was sampled")
}

/// The longest wait seen at one of several sockets, ns, and the row that shows it.
fn longest_wait(socks: &[&ListenSock]) -> Option<(u64, RowRef)> {
    socks.iter().filter_map(|s| s.longest_wait()).max()
}

/// The sockets that listened side by side: one that a restart closed did so for less time.
fn live(here: ListenerPlace<'_>) -> Vec<&ListenSock> {
    let socks = &here.listener.socks;
    let most = socks.iter().map(|s| s.samples).max().unwrap_or(0);
    let most_of = socks
        .iter()
        .filter(|s| limits::MOST.reached(s.samples, most));
    most_of.collect()
}

impl<'a> Uneven<'a> {
    fn of(here: ListenerPlace<'a>) -> Option<Uneven<'a>> {
        if live(here).len() < 2 {
            return None;
        }
        let waits = accept_waits::at(here);
        let measured = waits.as_ref().is_some_and(AcceptWaits::are_measured);
        let stands = |s: &&ListenSock| {
            let share = f64::from(s.waiting_samples) / f64::from(s.samples.max(1));
            let stood = s.waiting_samples >= limits::A_FEW.as_u32();
            let often =
                s.waiting_samples >= limits::SEEN_TWICE.as_u32() && share >= limits::MOST.share();
            stood || often || measured && s.waited(limits::ACCEPT_WAIT_SEEN.ns())
        };
        let (mut stuck, idle): (Vec<_>, Vec<_>) = live(here).into_iter().partition(stands);
        let idle_queue = idle.iter().map(|s| s.mean_queue()).sum::<f64>() / idle.len() as f64;
        let idle_ns = longest_wait(&idle).map(|(ns, _)| ns as f64);
        let longer = |s: &ListenSock| {
            let waits = s.longest_wait().zip(idle_ns);
            let longer = waits
                .is_some_and(|((ns, _), idle)| ns as f64 >= limits::STUCK_TIMES.times() * idle);
            measured && longer && s.waited(limits::ACCEPT_WAIT_SEEN.ns())
        };
        stuck.retain(|s| {
            s.mean_queue()
                >= limits::STUCK_TIMES.times() * idle_queue.max(limits::QUEUE_EMPTY.number())
                || longer(s)
        });
        stuck.sort_by(|a, b| b.mean_queue().total_cmp(&a.mean_queue()));
        // Most of them may have had a moment in which a connection waited.
        let once = stuck
            .iter()
            .all(|s| s.waiting_samples < limits::SEEN_TWICE.as_u32());
        let fewer = !once || stuck.len() < idle.len() || stuck.len() == 1;
        let uneven = !stuck.is_empty() && !idle.is_empty() && fewer;
        if !uneven && measured {
            return Uneven::by_requests(here, waits?);
        }
        uneven.then_some(Uneven {
            here,
            stuck,
            idle,
            waits,
            sampled: !once || !measured,
        })
    }

    /// Where samples missed it: one process read everything that had waited, and others that came meanwhile were
    /// served.
    fn by_requests(here: ListenerPlace<'a>, waits: AcceptWaits<'a>) -> Option<Uneven<'a>> {
        let reader = waits.reader()?;
        if waits.overtaken_by() < limits::OVERTAKEN.count() {
            return None;
        }
        let holds = |s: &&ListenSock| s.held_by[..] == [reader];
        let (stuck, idle): (Vec<_>, Vec<_>) = live(here).into_iter().partition(holds);
        let one = stuck.len() == 1 && !idle.is_empty();
        one.then_some(Uneven {
            here,
            stuck,
            idle,
            waits: Some(waits),
            sampled: false,
        })
    }

    fn sockets(&self) -> usize {
        self.stuck.len() + self.idle.len()
    }

    /// The process that should accept from the fullest, if its holders show it: a master holds the sockets of all its
    /// workers, and each is served by only one of them.
    fn owner(&self) -> Option<u32> {
        let held_by = &self.stuck.first()?.held_by;
        let processes = &self.here.story.processes;
        let hangs = |pid: &&u32| {
            let state = processes.doing(**pid, "").state;
            matches!(state, ProcessState::Stopped | ProcessState::Blocked)
        };
        match held_by[..] {
            [pid] => Some(pid),
            _ => {
                let mut hang = held_by.iter().filter(hangs);
                let first = hang.next().copied();
                first.filter(|_| hang.next().is_none())
            }
        }
    }

    fn scope(&self) -> Scope {
        let scope = self.here.scope();
        let owner = self.owner();
        let pids = self.stuck.iter().flat_map(|s| s.held_by.iter().copied());
        let mut pids: Vec<u32> = pids.collect();
        pids.sort_unstable();
        pids.dedup();
        let doing = owner.and_then(|pid| scope.processes.iter().find(|p| p.pid == pid));
        let comm = doing.map(|d| d.comm.clone());
        let seen = owner.and_then(|pid| self.here.story.processes.get(pid));
        Scope {
            pid: owner,
            comm: comm.or_else(|| owner.and(scope.comm.clone())),
            cmdline: seen
                .map(|s| s.cmdline.to_string())
                .filter(|c| !c.is_empty()),
            backlog: self.stuck.first().map(|s| s.backlog),
            pids,
            ..scope
        }
    }

    /// How long connections stood in its queue, by samples, ns.
    fn stood_ns(&self) -> u64 {
        let story = self.here.story;
        let over_ns = story.end_ns.saturating_sub(story.start_ns) as f64;
        let mean: f64 = self.stuck.iter().map(|s| s.mean_queue()).sum();
        (mean * over_ns) as u64
    }

    /// How many waited; at once, if samples saw it.
    fn waiting(&self) -> u64 {
        let longest = self.stuck.iter().map(|s| s.longest_accept_queue.0);
        longest.map(u64::from).sum()
    }

    fn lost(&self) -> Lost {
        let story = self.here.story;
        let dropped: u64 = self.stuck.iter().map(|s| u64::from(s.drops())).sum();
        let of_waits = match &self.waits {
            Some(waits) => waits.lost(),
            None => Lost::elsewhere(self.stood_ns()),
        };
        match dropped {
            0 => of_waits,
            _ => of_waits.and(ConnectTimes::of(self.here).lost(story, dropped)),
        }
    }

    /// What looks between samples show of a queue that samples missed.
    fn looks(&self) -> Option<[Step; 2]> {
        let (ns, row) = longest_wait(&self.stuck).filter(|_| !self.sampled)?;
        let (idle_ns, idle_row) = longest_wait(&self.idle)?;
        let shorter = ns >= limits::ACCEPT_WAIT_SEEN.ns()
            && ns as f64 >= limits::STUCK_TIMES.times() * idle_ns as f64;
        shorter.then(|| {
            [
                say!(
                    "A connection was seen to wait for {longest_wait_ms} at {stuck} of {sockets} that \
                     share the port.",
                    stuck = Quantity::count(self.stuck.len() as u64),
                    sockets = Quantity::of(self.sockets() as u64, "socket"),
                    longest_wait_ms = Quantity::ns(ns).rows([row])
                ),
                say!(
                    "At the other {others} none waited longer than {idle_wait_ms}: their workers accept at \
                     once and cannot take connections that the kernel assigned to this one.",
                    others = Quantity::count(self.idle.len() as u64),
                    idle_wait_ms = Quantity::ns(idle_ns).rows([idle_row])
                ),
            ]
        })
    }

    fn queues(&self) -> [Step; 2] {
        if let Some(looks) = self.looks() {
            return looks;
        }
        let fullest = self.stuck.iter().map(|s| s.longest_accept_queue.1);
        let mean: f64 = self.stuck.iter().map(|s| s.mean_queue()).sum();
        let idle = self.idle.iter().map(|s| s.mean_queue()).sum::<f64>() / self.idle.len() as f64;
        let number = |n: f64| Quantity::new(rounded(n), analysis::words::figure(n));
        [
            say!(
                "{stuck} of {sockets} that share the port had connections waiting, {waiting} at most, {mean} on \
                 average.",
                stuck = Quantity::count(self.stuck.len() as u64),
                sockets = Quantity::of(self.sockets() as u64, "socket"),
                waiting = Quantity::count(self.waiting()).rows(fullest.take(SHOWN_ROWS)),
                mean = number(mean)
            ),
            say!(
                "Each of the other {others} had {idle_queue} waiting on average: their workers accept at \
                 once and cannot take connections that the kernel assigned to this one.",
                idle_queue =
                    number(idle).rows(self.idle.iter().map(|s| s.last_row).take(SHOWN_ROWS)),
                others = Quantity::count(self.idle.len() as u64)
            ),
        ]
    }

    fn owner_step(&self, scope: &Scope) -> Step {
        let held: Vec<String> = scope.pids.iter().take(4).map(u32::to_string).collect();
        match scope.pid {
            Some(pid) => {
                let doing = self.here.story.processes.doing(pid, application(scope));
                Step::new(format!(
                    "Its socket is held by {} (pid {pid}): {}.",
                    application(scope),
                    doing.says
                ))
                .number("pid", pid)
                .rows(self.here.holder_rows(Some(pid)))
            }
            None if held.is_empty() => {
                Step::new("The process that holds its socket was not seen.".to_string())
                    .rows(self.stuck.first().map(|s| s.last_row))
            }
            None => Step::new(format!(
                "Its socket is held by pids {}: which of them serves it is not known.",
                list(&held)
            ))
            .rows(self.here.holder_rows(scope.pids.first().copied())),
        }
    }

    /// The kernel spreads new connections evenly: one that takes none keeps its share.
    fn share(&self) -> Option<Check> {
        let story = self.here.story;
        let accepted = self.here.accepted();
        let dropped = self.here.listener.drops().unwrap_or(0);
        if accepted == 0 || dropped > 0 || story.tally.folded > 0 {
            return None;
        }
        let p = self.stuck.len() as f64 / self.sockets() as f64;
        let expected = accepted as f64 * p;
        let deviation = (accepted as f64 * p * (1.0 - p)).sqrt();
        let grown = |s: &&&ListenSock| f64::from(s.last_queue) - f64::from(s.first_queue);
        let grown: f64 = self.stuck.iter().map(|s| grown(&s)).sum();
        Some(Check {
            formula: "connections left in the queue ≤ connections × stuck sockets ÷ sockets".into(),
            expected: rounded(expected),
            measured: rounded(grown),
            unit: "connections".into(),
            agrees: grown
                <= expected
                    + limits::SPREAD_EVENLY.times() * deviation
                    + limits::SAME_COUNT_SLACK.number(),
            tolerance: "3 standard deviations above: a hash chooses the socket".into(),
        })
    }
}

fn judge(uneven: &Uneven) -> Finding {
    let here = uneven.here;
    let scope = uneven.scope();
    let measured = uneven.waits.as_ref().filter(|_| !uneven.sampled);
    let n = measured.map_or_else(|| uneven.waiting(), AcceptWaits::count);
    let of = uneven.sockets() as u64;
    let others = of - uneven.stuck.len() as u64;
    let waiting = match (n, uneven.sampled) {
        (n, false) => format!("{} waited", Quantity::of(n, "connection")),
        (1, true) => "1 connection waits".to_string(),
        (n, true) => format!("{} wait", Quantity::of(n, "connection")),
    };
    let are = match (others, uneven.sampled) {
        (1, false) => "was",
        (_, false) => "were",
        (1, true) => "is",
        (_, true) => "are",
    };
    let who = match scope.pid {
        Some(pid) => format!("{} (pid {pid})", application(&scope)),
        None => "a worker".into(),
    };
    let idle = Quantity::of(others, "other worker");
    let at = &scope.listener;
    let waits = uneven.waits.as_ref();
    let impact = match waits {
        Some(waits) => Impact::of(
            waits.count(),
            waits.of_all(),
            "connections",
            format!(
                "{} of {} waited for accept(), {} in total: those that the kernel assigned to this worker.",
                Quantity::of(waits.count(), "connection"),
                Quantity::count(waits.of_all()),
                Quantity::ns(waits.waited_ns())
            ),
        ),
        None => Impact::of(
            n,
            n.max(here.accepted()),
            "connections",
            format!("{waiting}."),
        ),
    };
    let stopped = scope.pid.filter(|pid| {
        let doing = here.story.processes.doing(*pid, "");
        doing.state == ProcessState::Stopped
    });
    let case = Case::new(here.story, CAUSE, scope.clone())
        .placed(Place::Listener(here.index))
        .title([
            format!("{waiting} at {at} for {who}, while {idle} of the port {are} idle."),
            format!("{waiting} for {who}, while {idle} {are} idle."),
            format!("{waiting} for one worker, while {idle} {are} idle."),
        ])
        .fix([
            match stopped {
                Some(pid) => stopped_by::fix(here.story, &who, Some(pid), true),
                None => format!("See what keeps {who} from accept(), or restart it."),
            },
            "See what keeps that worker from accept(), or restart it.".into(),
        ])
        .affects(impact, uneven.lost())
        .because("each socket of the port was sampled with its own queue")
        .at_most_if(
            Level::Medium,
            scope.pid.is_none(),
            "several processes hold the socket: which of them serves it is not known",
        )
        .steps(waits.map(AcceptWaits::step))
        .steps(uneven.queues())
        .steps([uneven.owner_step(&scope)])
        .steps(stopped.and_then(|pid| stopped_by::step(here.story, Some(pid))))
        .checks(uneven.share())
        .checks(waits.and_then(AcceptWaits::check))
        .advise(advice(here.story, &scope, &who, stopped));
    let case = match waits {
        Some(waits) => case.since(waits.since()),
        None => case,
    };
    case.verify(sentence!(
        "`ss -ltn 'sport = :{port}'` shows a Recv-Q of 0 for each socket of the port.",
        port = here.listener.local.port
    ))
}

fn advice(story: &Story, scope: &Scope, who: &str, stopped: Option<u32>) -> [Advice; 2] {
    let command = match (stopped, scope.pid) {
        (Some(pid), _) => shell!("kill -CONT {pid}", pid),
        (None, Some(pid)) => shell!("tcpwhy trace wakeups 100ms --pid {pid}", pid),
        (None, None) => command_in(&scope.netns, shell!("ss -ltnpe")),
    };
    [
        Advice::to(match stopped {
            Some(_) => format!("Resume {who}, unless it is being debugged."),
            None => format!("See what {who} waits for, and restart it if it hangs."),
        })
        .by(command)
        .undo(stopped.and_then(|pid| shell!("kill -STOP {pid}", pid)))
        .at(format!("{who}, on this host"))
        .risk("A restart resets its connections and those in its queue.")
        .effect("The connections in its queue are served; no other worker can take them.")
        .change(Change::AcceptFaster {
            listener: scope.listener.clone(),
        }),
        Advice::to(format!(
            "Have a worker that stops serving close its socket, with net.ipv4.tcp_migrate_req=1 in its \
             namespace ({}): waiting connections then go to the others.",
            linux(5, 14).told(story)
        ))
        .by(command_in(&scope.netns, shell!("sysctl net.ipv4.tcp_migrate_req")))
        .at(format!("the application, and {}", namespace(&scope.netns)))
        .risk("None for accepted connections; a worker must notice that it hangs.")
        .effect("A watchdog that kills a worker no longer loses the connections in its queue."),
    ]
}

#[cfg(test)]
mod tests;
