//! bind() for a port that a server has: the kernel walks all connections of that port to refuse it.

use analysis::binds::Attempts;
use analysis::profile::samples;
use analysis::stats::{median, ratio};
use analysis::words::{count, duration, figure};

use super::{CAUSE, within};
use crate::limits;
use crate::place::SlowCalls;
use crate::places::port_search::BIND;
use crate::vocabulary::*;

/// A program that asks for a port with thousands of connections.
struct Asker<'a> {
    story: &'a Story,
    netns: u32,
    at: Endpoint,
    comm: &'a str,
    attempts: &'a Attempts,
    owners: Owners,
    /// Samples of the program in bind(), and some of their rows.
    inside: u64,
    rows: Vec<RowRef>,
}

/// The connections that share a port with its listener: when they began and ended.
struct Owners {
    began: Vec<u64>,
    ended: Vec<u64>,
    rows: Vec<RowRef>,
}

impl Owners {
    /// The owners of the port; when bind() asks for one address, only those at that address are in its way.
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
    let askers = story.binds.all().map(|((netns, at, comm), attempts)| {
        let inside = story.profile.passing(&[BIND]);
        let inside: Vec<_> = inside
            .filter(|g| !g.softirq && attempts.pids.contains_key(&g.pid))
            .collect();
        Asker {
            story,
            netns: *netns,
            at: *at,
            comm,
            attempts,
            owners: Owners::of(story, *netns, *at),
            rows: inside.iter().map(|g| g.row).take(SHOWN_ROWS).collect(),
            inside: samples(inside),
        }
    });
    askers.filter_map(|asker| judge(&asker)).collect()
}

fn judge(asker: &Asker) -> Option<Finding> {
    let (story, at, comm) = (asker.story, asker.at, asker.comm);
    let (attempts, calls) = (asker.attempts, &asker.attempts.calls);
    let took_ns = median(&mut calls.iter().map(|c| c.took_ns).collect::<Vec<_>>())?;
    let met = calls.iter().map(|c| asker.owners.at(c.time_ns));
    let in_the_way = median(&mut met.collect::<Vec<_>>())?;
    if calls.len() < limits::ENOUGH.as_usize()
        || in_the_way < limits::PORT_OWNERS.count()
        || (took_ns as f64) < limits::SEARCH_COSTS.number()
        || asker.inside < limits::ENOUGH.count()
    {
        return None;
    }
    let (scope, took) = (asker.scope(), duration(took_ns));
    let n = count(in_the_way);
    let advice = advice(asker, &scope, &took);
    let fix = advice.first().map(|a| a.action.clone())?;
    let case = Case::new(story, CAUSE, scope.clone())
        .placed(Place::Calls(SlowCalls {
            netns: asker.netns,
            call: "bind()",
            asked_for: Some(at),
            took_ns: attempts.total_ns,
            on_cpu_ns: (asker.cpu_seconds() * 1e9) as u64,
        }))
        .title([
            format!("bind() for {at} walks its {n} connections: {took} until it is refused."),
            format!("bind() for {at} takes {took}."),
            format!("bind() walks the connections of {at}."),
        ])
        .fix([fix])
        .affects(asker.impact(), Lost::elsewhere(attempts.total_ns))
        .because(format!(
            "{} of {comm} are in {BIND}, and {n} connections had to be passed",
            Quantity::of(asker.inside, "sample")
        ))
        .rests_on(&[
            SourceName::Calls,
            SourceName::Profile,
            SourceName::ProfileSymbols,
        ])
        .at_most_if(
            Level::Medium,
            story.profile.folded > 0,
            "not every sample of the profile was kept",
        )
        .steps(asker.evidence(&process(&scope), took_ns, in_the_way))
        .checks(asker.checks())
        .advise(advice);
    Some(case.verify(sentence!(
        "`tcpwhy record --with calls,profile --for 10s` under the same load: bind() for {at} is \
         refused within microseconds, and {BIND} is gone from the profile.",
        at,
        BIND
    )))
}

impl Asker<'_> {
    fn scope(&self) -> Scope {
        let mut pids: Vec<(u32, u64)> = self.attempts.pids.iter().map(|(p, n)| (*p, *n)).collect();
        pids.sort_by_key(|(pid, n)| (std::cmp::Reverse(*n), *pid));
        let pids: Vec<u32> = pids.into_iter().map(|(pid, _)| pid).collect();
        Scope {
            netns: self.story.netns(self.netns),
            resource: Some(format!("port {}", self.at)),
            function: Some(BIND.into()),
            role: Role::Client,
            pid: pids.first().copied(),
            pids,
            comm: Some(self.comm.into()),
            ..Scope::default()
        }
    }

    /// CPU time in bind(), s.
    fn cpu_seconds(&self) -> f64 {
        self.story.profile.cpu_seconds(self.inside)
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
        let says = format!(
            "{} were refused and cost {} of CPU time; accept() on that port is blocked meanwhile.",
            Quantity::of(n, "bind() call"),
            duration(self.attempts.total_ns)
        );
        Impact::of(n, n, "calls", says)
    }

    fn evidence(&self, who: &str, took_ns: u64, in_the_way: u64) -> [Step; 3] {
        let (at, calls) = (self.at, &self.attempts.calls);
        let rate = self.per_second();
        let often = rate.map_or(String::new(), |r| format!(", {} per second", figure(r)));
        let which = if at.addr.ip().is_unspecified() {
            ""
        } else {
            " at that address"
        };
        let seconds = self.cpu_seconds();
        [
            say!(
                "{who} called bind() for {at} {calls}{often}: refused with EADDRINUSE after {median_us} (median).",
                calls = Quantity::times(self.attempts.count)
                    .rows(calls.iter().map(|c| c.row).take(SHOWN_ROWS)),
                median_us = Quantity::new(took_ns as f64 / 1e3, duration(took_ns))
            )
            .number_if("calls_per_s", rate),
            say!(
                "{owners} shared the port{which} with its listener then: a call walks past all of them.",
                owners = Quantity::of(in_the_way, "accepted connection")
                    .rows(self.owners.rows.iter().copied())
            )
            .number("owners_per_s", in_the_way as f64 * rate.unwrap_or(0.0)),
            say!(
                "{who} spent {cpu_seconds} of CPU time ({samples}) in {BIND}, holding a lock that accepting \
                 connections also needs.",
                cpu_seconds = Quantity::new(seconds, duration((seconds * 1e9) as u64)),
                samples = Quantity::of(self.inside, "sample").rows(self.rows.iter().copied())
            ),
        ]
    }

    fn checks(&self) -> [Check; 2] {
        let calls = &self.attempts.calls;
        let walked: u64 = calls.iter().map(|c| self.owners.at(c.time_ns)).sum();
        let took: u64 = calls.iter().map(|c| c.took_ns).sum();
        [
            within(
                format!(
                    "{} × {} to pass on average × {} ns = time in bind()",
                    Quantity::of(calls.len() as u64, "call"),
                    Quantity::of(walked / calls.len().max(1) as u64, "connection"),
                    figure(limits::PORT_OWNER.number())
                ),
                walked as f64 * limits::PORT_OWNER.number() / 1e9,
                took as f64 / 1e9,
                limits::SEVERAL_TIMES.times(),
            ),
            within(
                format!("time in bind() = CPU time in {BIND}"),
                self.attempts.total_ns as f64 / 1e9,
                self.cpu_seconds(),
                limits::TWICE.times(),
            ),
        ]
    }
}

fn advice(asker: &Asker, scope: &Scope, took: &str) -> Vec<Advice> {
    let (port, comm, at_once) = (
        asker.at.port,
        asker.comm,
        duration(limits::BIND_AT_ONCE.ns()),
    );
    let look = shell!("ss -ltnH 'sport = :{port}'", port);
    let without = Advice::to(
        "Leave SO_REUSEADDR off where bind() only checks whether a port is free.",
    )
    .at(format!("the source of {comm}"))
    .risk(
        "Without it a port counts as in use as long as one of its connections is in TIME_WAIT (60 s): a server that \
             binds to listen needs it.",
    )
    .effect(format!(
        "The first connection refuses the call: {at_once} (measured on Linux 6.18), not {took}, whatever the number \
             of connections."
    ));
    vec![
        match scope.pid {
            Some(pid) => without.change(Change::BindWithoutReuse { pid }),
            None => without,
        },
        Advice::to("Look up the listener instead of calling bind().")
            .by(command_in(&scope.netns, look))
            .at(format!("whatever starts {comm} or relies on it"))
            .risk("None: a look-up changes nothing and does not hold the port's lock.")
            .effect("Only listeners are listed, not their connections."),
        Advice::to(
            "To serve the port with several processes, set SO_REUSEPORT before bind(), also on the socket that \
             listens now.",
        )
        .at("both servers' source or configuration (nginx: listen … reuseport)")
        .risk(
            "New connections are spread over all sockets of the same user that listen: one that does \
             not accept loses its share.",
        )
        .effect(format!(
            "bind() succeeds without a walk: {at_once} (measured on Linux 6.18), not {took}."
        )),
        Advice::to(
            "To take over the port, hand over the listening socket, or wait until the old server has exited before \
             the next attempt.",
        )
        .at("the supervisor (systemd: a .socket unit, RestartSec=)")
        .risk("None for others.")
        .effect(format!(
            "The {} failing bind() calls stop.",
            count(asker.attempts.count)
        )),
    ]
}
