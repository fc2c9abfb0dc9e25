//! bind() for a port that a server has: the kernel walks all connections of that port to refuse it.

use analysis::binds::Attempts;
use analysis::profile::samples;
use analysis::stats::{median, ratio};
use analysis::words::{count, duration, figure, fitting, plural, rounded};
use analysis::{Endpoint, Side, Story};
use recording::{RowRef, SourceName};

use super::{CAUSE, COST_FACTOR, LEAST_CONNECTS, LEAST_COST_NS, LEAST_SAMPLES, table_has_room};
use crate::actions::command_in;
use crate::finding::{
    Advice, Change, Check, Confidence, Finding, Impact, Level, Role, RuledOut, Scope, Step,
};
use crate::id::Id;
use crate::lost::Lost;
use crate::places::listener::{SHOWN_ROWS, doubts};
use crate::places::port_search::BIND;
use crate::scope::process;

/// What a connection in the way costs bind(), ns (measured on Linux 6.18: 28 with 5,000 of them, 41
/// with 15,000).
const OWNER_NS: f64 = 30.0;
/// Fewer connections than this cost less than a call does anyway.
const LEAST_OWNERS: u64 = 500;
/// The walk is under a lock and not preempted: what it takes is CPU time, but for interrupts.
const ON_CPU_FACTOR: f64 = 2.0;
/// A refusal at the first connection takes so long, ns (measured on Linux 6.18: 0.4 to 0.7 µs).
const AT_ONCE_NS: u64 = 1_000;

/// One program that asks for a port that has thousands of connections.
struct Case<'a> {
    story: &'a Story,
    netns: u32,
    at: Endpoint,
    comm: &'a str,
    attempts: &'a Attempts,
    owners: Owners,
    /// Connections in the way of the median call, and what that took, ns.
    in_the_way: u64,
    took_ns: u64,
    /// Samples of the program in bind().
    inside: u64,
    rows: Vec<RowRef>,
}

/// The connections that share a port with its listener: when they came and went.
struct Owners {
    began: Vec<u64>,
    ended: Vec<u64>,
    rows: Vec<RowRef>,
}

impl Owners {
    /// Of the port; when bind() asks for one address, only those at that address are in its way.
    fn of(story: &Story, netns: u32, at: Endpoint) -> Owners {
        let any = at.addr.ip().is_unspecified();
        let here = story.conns.iter().filter(|c| {
            let is_there = c.local.port == at.port && (any || c.local.addr == at.addr);
            c.netns == netns && c.side != Side::Opened && is_there
        });
        let (mut began, mut ended, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for conn in here {
            began.push(match conn.side {
                Side::Older => 0,
                _ => conn.start_ns,
            });
            ended.extend(conn.port_held_until_ns());
            if rows.len() < SHOWN_ROWS {
                rows.extend(conn.row());
            }
        }
        began.sort_unstable();
        ended.sort_unstable();
        Owners { began, ended, rows }
    }

    /// How many there were at a moment.
    fn at(&self, time_ns: u64) -> u64 {
        let before = |times: &[u64]| times.partition_point(|t| *t <= time_ns) as u64;
        before(&self.began).saturating_sub(before(&self.ended))
    }
}

pub(super) fn find(story: &Story) -> Vec<Finding> {
    let asked = story.binds.all().map(|((netns, at, comm), attempts)| {
        let (owners, netns, at) = (Owners::of(story, *netns, *at), *netns, *at);
        Case::of(story, netns, at, comm, attempts, owners)
    });
    asked.flatten().map(|case| case.finding()).collect()
}

impl<'a> Case<'a> {
    fn of(
        story: &'a Story,
        netns: u32,
        at: Endpoint,
        comm: &'a str,
        attempts: &'a Attempts,
        owners: Owners,
    ) -> Option<Case<'a>> {
        let calls = &attempts.calls;
        let mut took: Vec<u64> = calls.iter().map(|c| c.took_ns).collect();
        let mut met: Vec<u64> = calls.iter().map(|c| owners.at(c.time_ns)).collect();
        let (took_ns, in_the_way) = (median(&mut took)?, median(&mut met)?);
        let inside = story.profile.passing(&[BIND]);
        let inside: Vec<_> = inside
            .filter(|g| !g.softirq && attempts.pids.contains_key(&g.pid))
            .collect();
        let rows = inside.iter().map(|g| g.row).take(SHOWN_ROWS).collect();
        let inside = samples(inside);
        let holds = calls.len() >= LEAST_CONNECTS
            && in_the_way >= LEAST_OWNERS
            && took_ns as f64 >= LEAST_COST_NS
            && inside >= LEAST_SAMPLES;
        holds.then_some(Case {
            story,
            netns,
            at,
            comm,
            attempts,
            owners,
            in_the_way,
            took_ns,
            inside,
            rows,
        })
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks = self.arithmetic();
        let advice = self.advice(&scope);
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: Lost::elsewhere(self.attempts.total_ns),
            since: None,
            episodes: Vec::new(),
            title: self.title(),
            fix: advice[0].action.clone(),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(&scope),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice,
            verify: format!(
                "`tcpwhy record --with calls,profile --for 10s` under the same load: bind() for {} \
                 is refused within microseconds, and {BIND} is gone from the profile.",
                self.at
            ),
            scope,
        }
    }

    fn scope(&self) -> Scope {
        let mut pids: Vec<(u32, u64)> = self.attempts.pids.iter().map(|(p, n)| (*p, *n)).collect();
        pids.sort_by_key(|(pid, n)| (std::cmp::Reverse(*n), *pid));
        Scope {
            netns: self.story.netns(self.netns),
            resource: Some(format!("port {}", self.at)),
            function: Some(BIND.into()),
            role: Role::Client,
            pid: pids.first().map(|(pid, _)| *pid),
            pids: pids.iter().map(|(pid, _)| *pid).collect(),
            comm: Some(self.comm.into()),
            ..Scope::default()
        }
    }

    fn title(&self) -> String {
        let (at, cost, n) = (self.at, duration(self.took_ns), count(self.in_the_way));
        fitting([
            format!("bind() for {at} walks its {n} connections: {cost} until it is refused."),
            format!("bind() for {at} takes {cost}."),
            format!("bind() walks the connections of {at}."),
        ])
    }

    /// Calls per second, from the first to the last of those kept.
    fn per_second(&self) -> Option<f64> {
        let calls = &self.attempts.calls;
        let (first, last) = (calls.first()?.time_ns, calls.last()?.time_ns);
        ratio(
            calls.len().saturating_sub(1) as f64,
            last.saturating_sub(first) as f64 / 1e9,
        )
    }

    fn impact(&self) -> Impact {
        let n = self.attempts.count;
        Impact {
            says: format!(
                "{} were refused and cost {} of CPU time; while one lasts nobody is accepted at \
                 that port.",
                plural(n, "bind() call"),
                duration(self.attempts.total_ns)
            ),
            affected: n,
            of: n,
            counted: "calls".into(),
            share: 1.0,
            ..Impact::default()
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "{} of {} are in {BIND}, and {} were in the way",
            plural(self.inside, "sample"),
            self.comm,
            plural(self.in_the_way, "connection")
        ));
        c.weigh_checks(checks);
        let needed = [
            SourceName::Calls,
            SourceName::Profile,
            SourceName::ProfileSymbols,
            SourceName::States,
        ];
        doubts(self.story, &mut c, &needed);
        if self.story.profile.folded > 0 {
            c.at_most(Level::Medium, "not every sample of the profile was kept");
        }
        c
    }

    fn evidence(&self, scope: &Scope) -> Vec<Step> {
        let who = process(scope);
        let calls = &self.attempts.calls;
        let rate = self.per_second();
        let often = rate.map_or(String::new(), |r| format!(", {} per second", figure(r)));
        let refused = Step::new(format!(
            "{who} called bind() for {} {}{often}: refused with EADDRINUSE after {} in the median.",
            self.at,
            plural(self.attempts.count, "time"),
            duration(self.took_ns)
        ))
        .number("calls", self.attempts.count)
        .number_if("calls_per_s", rate)
        .number("median_us", self.took_ns as f64 / 1e3)
        .rows(calls.iter().map(|c| c.row).take(SHOWN_ROWS));
        let which = match self.at.addr.ip().is_unspecified() {
            true => "",
            false => " at that address",
        };
        let crowd = Step::new(format!(
            "{} shared the port{which} with its listener then: a call passes them all.",
            plural(self.in_the_way, "accepted connection")
        ))
        .number("owners", self.in_the_way)
        .number("owners_per_s", self.in_the_way as f64 * rate.unwrap_or(0.0))
        .rows(self.owners.rows.iter().copied());
        let seconds = self.story.profile.cpu_seconds(self.inside);
        let spent = Step::new(format!(
            "{who} spent {} of CPU time in {BIND}, with a lock held that accepting connections \
             wants, too.",
            duration((seconds * 1e9) as u64)
        ))
        .number("samples", self.inside)
        .number("cpu_seconds", seconds)
        .rows(self.rows.iter().copied());
        vec![refused, crowd, spent]
    }

    fn arithmetic(&self) -> Vec<Check> {
        let calls = &self.attempts.calls;
        let walked: u64 = calls.iter().map(|c| self.owners.at(c.time_ns)).sum();
        let took: u64 = calls.iter().map(|c| c.took_ns).sum();
        let within = |expected: f64, measured: f64, factor: f64| {
            measured * factor >= expected && measured <= expected * factor
        };
        let check = |formula: String, expected: f64, measured: f64, factor: f64| Check {
            formula,
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "s".into(),
            agrees: within(expected, measured, factor),
            tolerance: format!("within a factor of {}", figure(factor)),
        };
        vec![
            check(
                format!(
                    "{} × {} in the way on average × {} ns = time in bind()",
                    plural(calls.len() as u64, "call"),
                    plural(walked / calls.len().max(1) as u64, "connection"),
                    figure(OWNER_NS)
                ),
                walked as f64 * OWNER_NS / 1e9,
                took as f64 / 1e9,
                COST_FACTOR,
            ),
            check(
                format!("time in bind() = CPU time in {BIND}"),
                self.attempts.total_ns as f64 / 1e9,
                self.story.profile.cpu_seconds(self.inside),
                ON_CPU_FACTOR,
            ),
        ]
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let on_cpu = self.story.profile.cpu_seconds(self.inside);
        let contended = RuledOut::new(
            Id::CPU_CONTENTION,
            format!(
                "of {} in bind() {} were on a CPU: it did not wait for one",
                duration(self.attempts.total_ns),
                duration((on_cpu * 1e9) as u64)
            ),
        );
        let exhausted = RuledOut::new(
            Id::PORTS_EXHAUSTED,
            format!(
                "it asked for one port, {}, and for no free one",
                self.at.port
            ),
        );
        let room = table_has_room(self.story, self.netns);
        room.into_iter().chain([contended, exhausted]).collect()
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let (port, took) = (self.at.port, duration(self.took_ns));
        let look = format!("ss -ltnH 'sport = :{port}'");
        vec![
            Advice {
                action: "Leave SO_REUSEADDR off where bind() only asks whether a port is free."
                    .into(),
                command: None,
                r#where: format!("the source of {}", self.comm),
                risk: "Without it a port counts as taken as long as one of its connections is in \
                       TIME_WAIT (60 s): a server that binds to listen wants it."
                    .into(),
                expected: format!(
                    "The first connection refuses the call: {} (measured on Linux 6.18), not \
                     {took}, whatever their number.",
                    duration(AT_ONCE_NS)
                ),
                change: scope.pid.map(|pid| Change::BindWithoutReuse { pid }),
            },
            Advice {
                action: "Ask for the listener instead of calling bind().".into(),
                command: command_in(&scope.netns, &look),
                r#where: format!("whatever starts {} or relies on it", self.comm),
                risk: "None: a look-up changes nothing and holds no lock of the port.".into(),
                expected: "Only listeners are listed, not their connections.".into(),
                change: None,
            },
            Advice {
                action:
                    "To serve the port with several processes, set SO_REUSEPORT before bind(), \
                         on the socket that listens now, too."
                        .into(),
                command: None,
                r#where: "both servers' source or configuration (nginx: listen … reuseport)".into(),
                risk: "New connections are spread over all sockets of the same user that listen: \
                       one that does not accept loses its share."
                    .into(),
                expected: format!(
                    "bind() succeeds without a walk: {} (measured on Linux 6.18), not {took}.",
                    duration(AT_ONCE_NS)
                ),
                change: None,
            },
            Advice {
                action:
                    "To take the port over, have the listening socket handed over, or wait for \
                         the old server's end before the next attempt."
                        .into(),
                command: None,
                r#where: "the supervisor (systemd: a .socket unit, RestartSec=)".into(),
                risk: "None for others.".into(),
                expected: format!(
                    "No failing bind() calls, not {}.",
                    plural(self.attempts.count, "call")
                ),
                change: None,
            },
        ]
    }
}
