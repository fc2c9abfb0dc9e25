//! What threads did during the service time of slow requests: on a CPU, kept from one, asleep, and in what.

use std::collections::BTreeMap;

use analysis::account::{Exchanges, Role, Silence};
use analysis::words::{duration, list, percent};
use analysis::{Endpoint, ProcessState, Story, Waited};
use recording::RowRef;

use crate::finding::{Scope, Step};
use crate::limits;
use crate::places::listener::SHOWN_ROWS;
use crate::places::slow_exchanges::{Keeper, SlowService, Told, fetched_from, sleeps, slept};
use crate::say::{Quantity, say};

/// Smaller shares of the time are not named.
const SHOWN_PART: f64 = 0.05;

/// What a server did in the time of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// It had not called accept().
    NotAccepting,
    /// It had not read the request.
    NotReading,
    /// On a CPU.
    OnCpu,
    /// Runnable, without a CPU.
    Runqueue,
    /// Waiting for a lock.
    Lock,
    /// Stopped.
    Stopped,
    /// In uninterruptible sleep.
    Disk(String),
    /// Waiting for an answer from another service.
    Awaited(Endpoint),
    /// Asleep in a system call.
    Asleep(String),
    /// Asleep for less than is recorded.
    Briefly,
    /// Its thread served other requests as well, or several threads worked on it.
    Untold,
}

impl What {
    /// As it continues `4 s of it `.
    pub(crate) fn says(&self) -> String {
        match self {
            What::NotAccepting => "before its connection was accepted and read".into(),
            What::NotReading => "not reading the request".into(),
            What::OnCpu => "on a CPU".into(),
            What::Runqueue => Keeper::Runqueue.name().into(),
            What::Lock => Keeper::Lock.name().into(),
            What::Stopped => Keeper::Stopped.name().into(),
            What::Disk(call) => format!("in {call}, blocked on a disk or a kernel lock"),
            What::Awaited(at) => format!("waiting for {at} to answer"),
            What::Asleep(call) => format!("asleep in {call}"),
            What::Briefly => "asleep for less than 10 ms at a time".into(),
            What::Untold => "processing (in an event loop or several threads)".into(),
        }
    }

    fn of(story: &Story, wait: &Waited) -> What {
        let call = wait.syscall.as_deref().unwrap_or("the kernel").to_string();
        match (&wait.cause, &*wait.state) {
            (Some(packet), _) => What::Awaited(packet.from),
            (None, "T" | "t") => What::Stopped,
            (None, "D") => What::Disk(call),
            (None, _) if call == "futex" => {
                fetched_from(story, wait).map_or(What::Lock, What::Awaited)
            }
            (None, _) => What::Asleep(call),
        }
    }
}

/// Where the time of the individually recorded slow requests went.
pub(crate) struct Meanwhile<'a> {
    story: &'a Story,
    /// Time by activity, ns.
    spent: BTreeMap<What, u64>,
    whole_ns: u64,
    /// Rows of the waits, and of the requests to others.
    rows: Vec<RowRef>,
    /// Sleep as the exchanges have it, and the part of it that waits show, ns.
    slept_ns: (u64, u64),
    /// The exchanges of this host with the other service that was waited for.
    elsewhere: Vec<&'a Exchanges>,
    /// The time in which nothing was answered, and the thread that answered then.
    silence: Option<(Silence, u32)>,
}

impl<'a> Meanwhile<'a> {
    pub(crate) fn of(slow: &SlowService<'a>) -> Meanwhile<'a> {
        let all = slow.story.exchanges().iter();
        let mut meanwhile = Meanwhile {
            story: slow.story,
            spent: BTreeMap::new(),
            whole_ns: 0,
            rows: Vec::new(),
            slept_ns: (0, 0),
            elsewhere: all.filter(|e| e.role() == Role::Client).collect(),
            silence: slow
                .silence()
                .and_then(|s| Some((s, slow.slow.iter().find_map(|t| t.x.tid)?))),
        };
        slow.slow.iter().for_each(|t| meanwhile.add(t));
        meanwhile
    }

    fn add(&mut self, told: &Told) {
        let x = &told.x;
        self.whole_ns = self.whole_ns.saturating_add(told.took_ns());
        self.not_reading(told);
        if let Some((at, ns, row)) = self.asked_another(told) {
            self.rows.push(row);
            self.spend(What::Awaited(at), ns);
            let rest = x.think_ns.saturating_sub(ns);
            return self.spend(What::Untold, rest);
        }
        let alone = told.alone_ns;
        self.spend(What::Untold, x.think_ns - alone);
        self.spend(What::OnCpu, x.think_cpu_ns.min(alone));
        self.spend(What::Runqueue, x.think_runqueue_ns.min(alone));
        let awake = x.think_cpu_ns.saturating_add(x.think_runqueue_ns);
        let slept = alone.saturating_sub(awake);
        let mut left = slept;
        for (wait, ns) in sleeps(self.story, x) {
            let ns = ns.min(left);
            left -= ns;
            self.spend(What::of(self.story, wait), ns);
            self.rows.push(wait.row);
        }
        // For a request without an answer, sleep is known from the waits alone.
        if !x.open {
            self.slept_ns.0 = self.slept_ns.0.saturating_add(slept);
            self.slept_ns.1 = self.slept_ns.1.saturating_add(slept - left);
        }
        let what = if x.open { What::Untold } else { What::Briefly };
        self.spend(what, left);
    }

    /// The request waited unread: while the thread that read it slept in something else, it waited for that.
    fn not_reading(&mut self, told: &Told) {
        let x = &told.x;
        let read_ns = x
            .began_ns
            .saturating_add(x.accept_ns.saturating_add(x.unread_ns));
        let mut left = x.unread_ns;
        let tid = x.tid.into_iter();
        for (wait, ns) in tid.flat_map(|tid| slept(self.story, tid, x.began_ns, read_ns)) {
            let ns = ns.min(left);
            left -= ns;
            self.spend(What::of(self.story, wait), ns);
            self.rows.push(wait.row);
        }
        self.spend(What::NotAccepting, x.accept_ns);
        self.spend(What::NotReading, left);
    }

    fn spend(&mut self, what: What, ns: u64) {
        if ns > 0 {
            let sum = self.spent.entry(what).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// What its process asked of another service during the request, for most of it: where, how long, and the row that
    /// says so.
    fn asked_another(&self, told: &Told) -> Option<(Endpoint, u64, RowRef)> {
        let x = &told.x;
        let (from, to) = (x.began_ns, told.end_ns());
        let asked = self.elsewhere.iter().flat_map(|e| {
            let of_one = e.slowest.iter();
            of_one.map(|(row, asked)| (e.service.2, asked, *row))
        });
        let asked = asked.filter(|(_, asked, _)| x.pid.is_some() && asked.pid == x.pid);
        let within = asked.map(|(at, asked, row)| {
            let until = asked
                .began_ns
                .saturating_add(analysis::account::Slow::took_ns(asked));
            let both = until.min(to).saturating_sub(asked.began_ns.max(from));
            (at, both.min(asked.await_ns).min(x.think_ns), row)
        });
        let longest = within.max_by_key(|(_, ns, _)| *ns)?;
        (limits::MOST.reached(longest.1, x.think_ns) && longest.1 > 0).then_some(longest)
    }

    /// What took most of the time, if one thing did.
    pub(crate) fn mostly(&self) -> Option<(&What, u64)> {
        let longest = self.spent.iter().max_by_key(|(_, ns)| **ns)?;
        let (what, ns) = (longest.0, *longest.1);
        limits::MOST
            .reached(ns, self.whole_ns)
            .then_some((what, ns))
    }

    /// Its share of the time.
    pub(crate) fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.whole_ns.max(1) as f64
    }

    /// Where the time went, in a sentence.
    pub(crate) fn step(&self) -> Step {
        let mut parts: Vec<(&What, u64)> = self.spent.iter().map(|(w, ns)| (w, *ns)).collect();
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        parts.retain(|(_, ns)| self.share(*ns) >= SHOWN_PART);
        let told = parts.into_iter();
        let told: Vec<String> = told
            .map(|(what, ns)| {
                format!(
                    "{} ({}) {}",
                    duration(ns),
                    percent(self.share(ns)),
                    what.says()
                )
            })
            .collect();
        let whole =
            Quantity::ns(self.whole_ns).rows(self.rows.iter().copied().take(2 * SHOWN_ROWS));
        let step = say!("{whole_ms} could be broken down: ", whole_ms = whole);
        Step {
            says: format!("{}{}.", step.says, list(&told)),
            ..step
        }
    }

    /// What the thread that answered did while nothing was answered: an event loop that sleeps holds its answers back,
    /// or waits for another service; one that does not sleep is busy with something else.
    pub(crate) fn silent(&self) -> Option<Step> {
        let (silence, tid) = self.silence?;
        let mut spent: BTreeMap<What, u64> = BTreeMap::new();
        let mut rows = Vec::new();
        for (wait, ns) in slept(self.story, tid, silence.from_ns, silence.to_ns) {
            *spent.entry(What::of(self.story, wait)).or_default() += ns;
            rows.push(wait.row);
        }
        let longest = spent.into_iter().max_by_key(|(_, ns)| *ns);
        let longest =
            longest.filter(|(_, ns)| *ns as f64 >= limits::MOST.share() * silence.ns() as f64);
        let whole = Quantity::ns(silence.ns());
        Some(match longest {
            Some((what, ns)) => {
                let of = Quantity::ns(ns).rows(rows.into_iter().take(SHOWN_ROWS));
                let step = say!(
                    "In {whole_s} in which nothing was answered, thread {tid} spent {of_s} ",
                    whole_s = whole,
                    of_s = of
                );
                Step {
                    says: format!("{}{}.", step.says, what.says()),
                    ..step
                }
            }
            None => say!(
                "In {whole_s} in which nothing was answered, thread {tid} slept for less than half of the time.",
                whole_s = whole
            ),
        })
    }

    /// How the exchanges of this host with the other service went.
    pub(crate) fn other_step(&self) -> Option<Step> {
        let (What::Awaited(at), _) = self.mostly()? else {
            return None;
        };
        let there = self.elsewhere.iter().find(|e| e.service.2 == *at)?;
        let response = there.response()?;
        let quantile = |s: f64| Quantity::ns((s * 1e9) as u64);
        Some(say!(
            "{at} was asked {requests}: half were answered within {p50_ms}, 99 in 100 within {p99_ms}.",
            requests = Quantity::times(there.all.exchanges).rows(there.busiest),
            p50_ms = quantile(response.p50_s),
            p99_ms = quantile(response.p99_s)
        ))
    }

    /// Sleep as the exchanges have it, and as the scheduler's waits do, ns; `None` where threads slept little.
    pub(crate) fn slept_ns(&self) -> Option<(u64, u64)> {
        let (slept, told) = self.slept_ns;
        limits::MOST
            .reached(slept, self.whole_ns)
            .then_some((slept, told))
    }
}

/// A process of a scope that is or was stopped, in a sentence.
pub(crate) fn stopped(story: &Story, scope: &Scope) -> Option<Step> {
    let mut all = scope.processes.iter();
    let is = |s| matches!(s, ProcessState::Stopped | ProcessState::WasStopped);
    let doing = all.find(|p| is(p.state))?;
    let row = story.processes.get(doing.pid).map(|seen| seen.row);
    let says = format!("{} (pid {}): {}.", doing.comm, doing.pid, doing.says);
    Some(Step::new(says).rows(row))
}
