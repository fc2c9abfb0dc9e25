//! C50: a server is slow to answer some requests, or its threads are kept from working on them.

mod greeting;
mod hangs;

use std::collections::BTreeSet;

use analysis::account::{Exchanges, Percentiles, Role as Account, Slow, exchanged_ns};
use analysis::words::{duration, percent, rounded};
use recording::tables::Exchange;

use crate::limits;
use crate::places::accept_waits;
use crate::places::hanging;
use crate::places::listener::ListenerPlace;
use crate::places::meanwhile::{Meanwhile, What, stopped};
use crate::places::slow_exchanges::{self, Keeper, Rule, SlowService};
use crate::stopped_by;
use crate::vocabulary::*;
use crate::waits::POLLS;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SLOW_APPLICATION,
    number: "C50",
    title: "the application is slow to answer",
    page: include_str!("slow_application.md"),
    layer: Layer::Application,
    ground: Ground::Answers,
    needs: &[&[SourceName::Requests]],
    seen_from: || {
        "1 % of the requests, or 8 % of their time, ten times as slow as the median and slower by 200 ms (30 ms for \
                three quarters of their time); or half of the service time spent waiting for a CPU or a lock, or \
                stopped; or 3 s unread, or without any answer while more requests arrive; or 5 requests and 1 % \
                given up after as long; or 5 asked while nobody was answered; or 3 connections closed unused by \
                clients after the same wait".into()
    },
    signature: &[
        "requests are slow, and the network is fine",
        "is it the network or the application?",
        "the server reads requests late: its event loop is blocked",
    ],
    rivals: &[
        Id::CPU_CONTENTION,
        Id::SLOW_READER,
        Id::PATH_LOSS,
        Id::TAIL_LOSS,
        Id::SLOW_ACCEPT,
        Id::CPU_SATURATED,
    ],
    explains: &[],
    told_with: Some(ToldWith::Stop),
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// Why nothing is found for an event loop with occasional late answers.
const UNTOLD: &str = "its threads serve many requests at once: it is unknown whether they worked on these, or waited \
                      for an event (long polling)";

/// For a process that waits for a CPU, or a connection that was not accepted: the service time of its requests.
fn no(asked: &Asked) -> Option<Step> {
    let of_place = |place: &Place| match (asked.place, place) {
        (Place::Process(_) | Place::Listener(_) | Place::Service { .. }, place) => {
            asked.place.meets(place)
        }
        _ => false,
    };
    if let Some(all) = slow_exchanges::at(asked.story, asked.place) {
        return thought_little(all);
    }
    if matches!(asked.place, Place::Service { .. }) {
        let told = asked.story.health.has(&SourceName::Requests);
        return told.then(|| say!("no request was read, so no service time was measured"));
    }
    let services = slow_exchanges::services(asked.story, Account::Server);
    let mut here = services.iter().filter(|s| of_place(&s.place()));
    let all = here.next()?.exchanges;
    let thought = Quantity::ns(all.all.think_ns).rows(all.busiest);
    let waited = all.all.think_runqueue_ns;
    if matches!(asked.place, Place::Process(_)) && limits::MOST.reached(waited, all.all.think_ns) {
        return Some(say!(
            "{waited_ms} of {thought_ms} of service time were spent waiting for a CPU",
            thought_ms = thought,
            waited_ms = Quantity::ns(waited)
        ));
    }
    thought_little(all)
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let all = story
        .exchanges()
        .iter()
        .filter(|e| e.role() == Account::Server);
    let services = all.flat_map(slow_exchanges::refuted);
    Verdict::nearest(services, "no request came to a listener of this host")
}

/// That most of the time of requests was not service time: for all of them, or for those that took longest.
fn thought_little(all: &Exchanges) -> Option<Step> {
    let told = |open: bool| all.slowest.iter().filter(move |(_, x)| x.open == open);
    let add = |(thought, whole): (u64, u64), x: &Exchange| {
        let whole = whole.saturating_add(Slow::took_ns(x));
        (thought.saturating_add(x.think_ns), whole)
    };
    let little = |&(thought, whole): &(u64, u64)| !limits::MOST.reached(thought, whole);
    let ended = (all.all.think_ns, exchanged_ns(&all.all));
    let of_all = told(true).fold(ended, |sums, (_, x)| add(sums, x));
    if little(&of_all) {
        let (thought, whole) = of_all;
        return Some(say!(
            "service time was {thought_ms} of the {whole_ms} that requests took",
            whole_ms = Quantity::ns(whole),
            thought_ms = Quantity::ns(thought).rows(all.busiest)
        ));
    }
    let of_slowest = all.slowest.iter().fold((0, 0), |sums, (_, x)| add(sums, x));
    little(&of_slowest).then(|| {
        let (thought, whole) = of_slowest;
        let rows = all.slowest.iter().map(|(row, _)| *row);
        say!(
            "service time was {thought_ms} of the {whole_ms} that the slowest {requests} took",
            whole_ms = Quantity::ns(whole),
            requests = Quantity::of(all.slowest.len() as u64, "request"),
            thought_ms = Quantity::ns(thought).rows(rows.take(SHOWN_ROWS))
        )
    })
}

fn find(story: &Story) -> Found {
    let services = slow_exchanges::services(story, Account::Server);
    // A wait in the accept queue is reported as that.
    let waits = accept_waits::all(story);
    let waits: BTreeSet<u32> = waits.iter().map(|w| w.here.index).collect();
    let queued = |s: &&SlowService| {
        s.waited_for_accept() && s.listener.is_some_and(|index| waits.contains(&index))
    };
    let hanging = hanging::all(story, Account::Server, &services);
    let told = services.iter().filter(|s| !queued(s));
    let told = told.filter(|s| !hanging::tells(&hanging, s)).map(judge);
    told.chain(hanging.iter().filter_map(hangs::judge))
        .chain(greeting::findings(story))
        .collect()
}

/// A slow server, as it is reported.
struct Told<'a> {
    slow: &'a SlowService<'a>,
    meanwhile: Meanwhile<'a>,
    scope: Scope,
    behind: Option<Behind<'a>>,
}

/// The service that the process itself asks most: a proxy's backend, a program's database.
struct Behind<'a> {
    at: Endpoint,
    exchanges: &'a Exchanges,
    answers: Percentiles,
    /// How long the process waited for all that it asked, as if one after the other; ns.
    awaited_ns: u64,
}

impl<'a> Behind<'a> {
    fn of(slow: &SlowService<'a>, pid: u32) -> Option<Behind<'a>> {
        let asks = |e: &Exchanges| {
            let mut told = e.slowest.iter();
            e.role() == Account::Client && told.any(|(_, x)| x.pid == Some(pid))
        };
        let all = slow.story.exchanges().iter().filter(|e| asks(e));
        let took_ns = |e: &&Exchanges| exchanged_ns(&e.all);
        let each = all.clone().map(|e| took_ns(&e));
        let awaited_ns = each.fold(0, u64::saturating_add);
        let exchanges = all.max_by_key(took_ns)?;
        Some(Behind {
            at: exchanges.service.2,
            answers: exchanges.response()?,
            exchanges,
            awaited_ns,
        })
    }

    /// Most of the time of the requests is the process's own, however many it sent to others for each; and almost none
    /// of their answers takes half as long as a slow request does.
    fn is_innocent(&self, slow: &SlowService) -> bool {
        !limits::MOST.reached(self.awaited_ns, exchanged_ns(&slow.exchanges.all))
            && !limits::MOST.reached(self.answers.p99_s * 1e9, slow.each_ns())
    }

    /// Half of its answers take nearly as long as a slow request does.
    fn takes_it(&self, each_ns: u64) -> bool {
        limits::NEARLY_ALL.reached(self.answers.p50_s * 1e9, each_ns)
    }

    fn step(&self) -> Step {
        let quantile = |s: f64| Quantity::ns((s * 1e9) as u64);
        let asked = Quantity::of(self.exchanges.all.exchanges, "request");
        let step = say!(
            "{asked}, half answered within {p50_ms}, 99 % within {p99_ms}.",
            asked = asked.rows(self.exchanges.busiest),
            p50_ms = quantile(self.answers.p50_s),
            p99_ms = quantile(self.answers.p99_s)
        );
        Step {
            says: format!(
                "Meanwhile it sent requests to {} itself: {}",
                self.at, step.says
            ),
            ..step
        }
    }
}

fn judge(slow: &SlowService) -> Finding {
    let scope = scope(slow);
    let told = Told {
        slow,
        meanwhile: Meanwhile::of(slow),
        behind: scope.pid.and_then(|pid| Behind::of(slow, pid)),
        scope,
    };
    let few = matches!(slow.rule, Rule::Excess(_)) && slow.silence().is_none();
    let untold = (few || slow.may_wait) && !slow.is_known();
    Case::new(slow.story, CAUSE, told.scope.clone())
        .placed(slow.place())
        .noted(untold.then_some(UNTOLD))
        .waits_for_others(told.waits_for_others())
        .if_asked(slow.if_asked.clone(), slow.rule == Rule::OnlyIfAsked)
        .since(slow.since())
        .title(told.title())
        .fix([
            told.fix(),
            "See what the application does meanwhile.".into(),
        ])
        .affects(told.impact(), slow.lost())
        .because("the wait and the service time of each request were measured at its socket")
        .at_most_if(
            Level::Medium,
            !slow.is_known(),
            match slow.rule {
                Rule::GivenUp | Rule::Silent => {
                    "no thread returned to them: what was done for them is unknown"
                }
                _ => "its threads serve many requests at once: what they did for these is unknown",
            },
        )
        .steps([slow.requests(), told.slowest(), told.meanwhile.step()])
        .steps(told.meanwhile.silent())
        .steps(told.meanwhile.other_step())
        .steps(told.behind.as_ref().map(Behind::step))
        .steps(stopped(slow.story, &told.scope))
        .steps([told.innocent()])
        .claim_checked(told.awaited())
        .checks(told.asleep())
        .advise([told.advice()])
        .verify(sentence!(
            "`tcpwhy stat requests` shows the p99 of {listener} near its p50.",
            listener = told.scope.listener
        ))
}

/// The listener, and the process that answered.
fn scope(slow: &SlowService) -> Scope {
    let story = slow.story;
    let (netns, _, at) = slow.exchanges.service;
    let listener = slow.listener.and_then(|i| ListenerPlace::at(story, i));
    let mut scope = listener.map_or_else(Scope::default, |l| l.scope());
    (scope.netns, scope.listener) = (story.netns(netns), at.to_string());
    let answered = slow
        .slow
        .iter()
        .find_map(|t| Some((t.x.pid?, t.x.comm.as_ref()?)));
    if let Some((pid, thread)) = answered.filter(|(pid, _)| scope.pid != Some(*pid)) {
        let seen = story.processes.get(pid);
        scope.comm = Some(seen.map_or(thread, |seen| &seen.comm).to_string());
        scope.cmdline = seen
            .map(|s| s.cmdline.to_string())
            .filter(|c| !c.is_empty());
        scope.pid = Some(pid);
        if !scope.pids.contains(&pid) {
            scope.pids.push(pid);
        }
    }
    scope
}

impl Told<'_> {
    fn title(&self) -> [String; 3] {
        let (slow, at) = (self.slow, &self.scope.listener);
        let who = process(&self.scope);
        let comm = application(&self.scope);
        let each = duration(slow.each_ns());
        let usual = duration(slow.usual_ns.unwrap_or(0));
        let doing = self.meanwhile.mostly();
        match slow.rule {
            Rule::Excess(_) => {
                if let Some(silence) = slow.silence() {
                    let silent = duration(silence.ns());
                    let count = slow.count;
                    let rest = format!(
                        "answered nothing for at least {silent}: {count} requests took {each}."
                    );
                    return [
                        format!("{who} at {at} {rest}"),
                        format!("{who} {rest}"),
                        format!("{comm} {rest}"),
                    ];
                }
                let share = percent(slow.count as f64 / slow.exchanges.all.exchanges.max(1) as f64);
                let rest = format!("takes {each} for {share} of its requests (median {usual}).");
                [
                    format!("{who} at {at} {rest}"),
                    format!("{who} {rest}"),
                    format!("{comm} {rest}"),
                ]
            }
            Rule::Silent => {
                let waiting = Quantity::of(slow.count, "request");
                let rest = format!("has answered nothing for {each}, while {waiting} wait.");
                [
                    format!("{who} at {at} {rest}"),
                    format!("{who} {rest}"),
                    format!("{comm} {rest}"),
                ]
            }
            Rule::GivenUp => {
                let share = percent(slow.count as f64 / slow.asked() as f64);
                let rest =
                    format!("leaves {share} of its requests unanswered, given up after {each}.");
                [
                    format!("{who} at {at} {rest}"),
                    format!("{who} {rest}"),
                    format!("{comm} {rest}"),
                ]
            }
            Rule::Kept(keeper) => {
                let all = &slow.exchanges.all;
                let mean = |ns: u64| duration(ns / all.exchanges.max(1));
                let (kept, thought) = (mean(slow.lost_ns), mean(all.think_ns));
                let rest = format!(
                    "needs {thought} per request, {kept} of it {}.",
                    keeper.name()
                );
                [
                    format!("{who} at {at} {rest}"),
                    format!("{who} {rest}"),
                    format!("{comm} {rest}"),
                ]
            }
            Rule::Stalled => {
                let rest = match doing {
                    Some((What::Stopped, _)) => "was stopped (SIGSTOP); a request waited for",
                    _ => "has not read a request for",
                };
                [
                    format!("{who} at {at} {rest} {each}."),
                    format!("{who} {rest} {each}."),
                    format!("{comm} {rest} {each}."),
                ]
            }
            Rule::OnlyIfAsked => {
                let rest = if slow.is_answered() {
                    format!("took {each} to answer")
                } else {
                    format!("has not answered for {each}")
                };
                let share = |ns: u64| percent(self.meanwhile.share(ns));
                let doing =
                    doing.map(|(what, ns)| format!(", {} of it {}", share(ns), what.says()));
                let doing = doing.unwrap_or_default();
                [
                    format!("{who} at {at} {rest}{doing}."),
                    format!("{who} {rest}{doing}."),
                    format!("{who} {rest}."),
                ]
            }
        }
    }

    fn fix(&self) -> String {
        let comm = application(&self.scope);
        let pid = self
            .scope
            .pid
            .map_or_else(String::new, |pid| format!(" (pid {pid})"));
        let does = format!("See what {comm}{pid} does during that time: TCP is not involved.");
        match self.doing() {
            Some(What::Awaited(at)) => format!("Look at {at}: {comm} waits for its answer."),
            Some(What::Runqueue) => format!("Give {comm} more CPU."),
            Some(What::Stopped) => {
                let who = format!("{comm}{pid}");
                let still = !self.slow.is_answered();
                stopped_by::fix(self.slow.story, &who, self.scope.pid, still)
            }
            Some(What::Lock) => {
                format!("See which lock, or which other thread, the threads of {comm} wait for.")
            }
            Some(What::Asleep(call)) => {
                format!("See why {comm}{pid} sleeps in {call}: TCP is not involved.")
            }
            Some(What::NotAccepting | What::NotReading) => {
                format!(
                    "See what keeps {comm}{pid} from its sockets: received data waits in the kernel."
                )
            }
            Some(What::OnCpu | What::Briefly | What::Disk(_)) => does,
            // What an event loop does for a request is unknown, but its requests to others are seen.
            Some(What::Untold) | None => self.by_those_behind().unwrap_or(does),
        }
    }

    /// By how fast the service behind it answers: requests queue in the process for a connection or a worker (haproxy's
    /// maxconn), or wait for that service.
    fn by_those_behind(&self) -> Option<String> {
        let behind = self.behind.as_ref()?;
        let (comm, at) = (application(&self.scope), behind.at);
        let within = |s: f64| duration((s * 1e9) as u64);
        if behind.is_innocent(self.slow) {
            let p99 = within(behind.answers.p99_s);
            return Some(format!(
                "See what requests queue for in {comm}: {at} answers it within {p99}."
            ));
        }
        let p50 = within(behind.answers.p50_s);
        let waits = behind.takes_it(self.slow.each_ns());
        waits.then(|| format!("Look at {at}: it takes {p50} to answer {comm}."))
    }

    /// Whether nothing is known of its own work: an event loop, or calls that wait for sockets.
    fn waits_for_others(&self) -> bool {
        let may = match self.doing() {
            None | Some(What::Untold | What::Awaited(_)) => true,
            Some(What::Asleep(call)) => &*call == "connect" || POLLS.contains(&&*call),
            Some(_) => false,
        };
        may && self.connects_meanwhile()
    }

    /// Whether connects of its process failed, or had to be retried, during most of the individually recorded slow
    /// requests.
    fn connects_meanwhile(&self) -> bool {
        let story = self.slow.story;
        let late = |c: &Conn| c.failed() || c.syn_retries > 0 || c.established_ns.is_none();
        let own = self.scope.pid.into_iter().flat_map(|pid| story.of_pid(pid));
        let own = own.map(|(_, c)| c).filter(|c| c.connects() && late(c));
        let own: Vec<&Conn> = own.collect();
        let tried = |t: &&slow_exchanges::Told| {
            let until = |c: &Conn| c.established_ns.or(c.ended_ns).unwrap_or(u64::MAX);
            let mut own = own.iter();
            own.any(|c| c.start_ns < t.end_ns() && until(c) > t.x.began_ns)
        };
        let told = &self.slow.slow;
        limits::MOST.reached(told.iter().filter(tried).count(), told.len())
    }

    /// Where most of the time went.
    fn doing(&self) -> Option<What> {
        match self.slow.rule {
            Rule::Kept(Keeper::Runqueue) => Some(What::Runqueue),
            Rule::Kept(Keeper::Lock) => Some(What::Lock),
            Rule::Kept(Keeper::Stopped) => Some(What::Stopped),
            _ => self.meanwhile.mostly().map(|(what, _)| what.clone()),
        }
    }

    fn impact(&self) -> Impact {
        let slow = self.slow;
        Impact::of(slow.count, slow.asked(), "requests", slow.cost())
    }

    fn slowest(&self) -> Step {
        let first = self.slow.slow.first();
        let took = Quantity::ns(self.slow.each_ns().max(first.map_or(0, |t| t.took_ns())));
        let part = |ns: Option<u64>| Quantity::ns(ns.unwrap_or(0));
        let x = first.map(|t| &t.x);
        let verb = self.slow.verb();
        let step = say!(
            "{took_ms}: {accept_ms} until it was accepted, {unread_ms} until it was read, {think_ms} until it \
             was answered.",
            took_ms = took.rows(self.slow.rows().take(SHOWN_ROWS)),
            accept_ms = part(x.map(|x| x.accept_ns)),
            unread_ms = part(x.map(|x| x.unread_ns)),
            think_ms = part(x.map(|x| x.think_ns))
        );
        Step {
            says: format!("The slowest {verb} {}", step.says),
            ..step
        }
    }

    /// That TCP was not involved.
    fn innocent(&self) -> Step {
        let all = &self.slow.exchanges.all;
        say!(
            "Losses and windows account for {tcp_ms} of the time of all requests; {retransmitted} were \
             retransmitted.",
            tcp_ms = Quantity::ns(all.repair_ns.saturating_add(all.send_ns)),
            retransmitted = Quantity::of(all.retransmits, "segment")
        )
    }

    /// For clients on this host: how long they waited for its answers.
    fn awaited(&self) -> Option<Check> {
        let slow = self.slow;
        let clients = slow.story.exchanges().iter();
        let clients = clients.filter(|e| e.role() == Account::Client);
        let conns = || slow.slow.iter().filter_map(|t| slow.story.conn(t.end?));
        let places: Vec<_> = conns().map(|c| (c.remote, c.local)).collect();
        let mut awaited = clients.flat_map(|e| &e.slowest).filter(|(_, x)| {
            let ends = (
                Endpoint::new(x.local_addr, x.local_port),
                Endpoint::new(x.remote_addr, x.remote_port),
            );
            places.contains(&ends)
        });
        let (_, client) = awaited.next()?;
        let mut same = slow.slow.iter().filter(|t| {
            let remote = Endpoint::new(t.x.remote_addr, t.x.remote_port);
            remote == Endpoint::new(client.local_addr, client.local_port)
                && t.x.began_ns.abs_diff(client.began_ns) < t.took_ns()
        });
        let own_ns = same.next()?.own_ns;
        let s = |ns: u64| rounded(ns as f64 / 1e9);
        let (expected, measured) = (s(own_ns), s(client.await_ns));
        Some(Check {
            formula: "client's wait for an answer, from its socket ≥ not accepting + not reading + service time"
                .into(),
            expected,
            measured,
            unit: "s".into(),
            agrees: expected - measured <= expected * limits::ALIKE.share(),
            tolerance: "at most 20 % below: the network adds to it".into(),
        })
    }

    /// For threads that slept: that the scheduler reports it, too.
    fn asleep(&self) -> Option<Check> {
        let (slept, waited) = self.meanwhile.slept_ns()?;
        let s = |ns: u64| rounded(ns as f64 / 1e9);
        Some(Check {
            formula: "waits of its threads, from the scheduler = service time − on a CPU − waiting for one".into(),
            expected: s(slept),
            measured: s(waited),
            unit: "s".into(),
            agrees: (slept - waited) as f64 <= slept as f64 * limits::ALIKE.share(),
            tolerance: "± 20 %: waits below 10 ms are not recorded".into(),
        })
    }

    fn advice(&self) -> Advice {
        let scope = &self.scope;
        let comm = application(scope);
        let at = format!("{comm}, on this host");
        let (action, command) = match (self.doing(), scope.pid) {
            (Some(What::Awaited(to)), _) => (
                format!(
                    "Find out why {to} is slow to answer {comm}: the same question, one host further."
                ),
                shell!("tcpwhy explain --for 10s --port {port}", port = to.port),
            ),
            (Some(What::Stopped), _) if self.slow.is_answered() => (
                format!("Find out what stopped {comm}: a debugger, a signal, a frozen cgroup."),
                None,
            ),
            (Some(What::Stopped), Some(pid)) => (
                format!("Resume pid {pid}, unless a debugger stopped it."),
                shell!("kill -CONT {pid}", pid),
            ),
            (Some(What::OnCpu), Some(pid)) => (
                format!("See where {comm} spends the CPU time."),
                shell!(
                    "tcpwhy record --with profile --for 10s -o cpu.tcpwhy && tcpwhy flame cpu.tcpwhy --pid {pid}",
                    pid
                ),
            ),
            (_, Some(pid)) => (
                format!("See what the threads of {comm} wait for, and what wakes them."),
                shell!("tcpwhy trace wakeups 100ms --pid {pid}", pid),
            ),
            (_, None) => (format!("See what {comm} does during that time."), None),
        };
        let (own, all) = self.slow.own_and_all_ns();
        Advice::to(action)
            .undo(match (self.doing(), scope.pid) {
                (Some(What::Stopped), Some(pid)) if !self.slow.is_answered() => {
                    shell!("kill -STOP {pid}", pid)
                }
                _ => None,
            })
            .by(command)
            .at(at)
            .risk(match self.doing() {
                Some(What::Stopped) => "An attached debugger loses control of it.",
                _ => "None: it only reads.",
            })
            .effect(format!(
                "{} of the time of these requests is spent in the application.",
                percent(own as f64 / all.max(1) as f64)
            ))
            .change(Change::AnswerFaster {
                at: scope.listener.clone(),
            })
    }
}

#[cfg(test)]
mod tests;
