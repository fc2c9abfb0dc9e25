//! Keep-alives without answer: the connections of a client to one address are given up.

use std::collections::BTreeMap;

use analysis::stats::median;
use analysis::words::{count, duration, fitting, percent, plural};
use analysis::{Conn, Outcome, Sent, Side, Story, Why};
use recording::{Addr, RowRef, SourceName, counter, sysctl};

use super::CAUSE;
use crate::actions::set_sysctl;
use crate::checks::at_least;
use crate::finding::{Check, Confidence, Finding, Impact, Level, Role, RuledOut, Scope, Step};
use crate::id::Id;
use crate::lost::Lost;
use crate::places::listener::{SHOWN_ROWS, doubts};
use crate::scope::namespace;

/// Fewer are a pool that had one connection too many.
const MIN_GIVEN_UP: usize = 10;
/// Of the connections to an address that is well, single ones end so at most.
const MIN_SHARE: f64 = 0.5;
const OFTEN_ENOUGH: u64 = 60;

/// The connections from a namespace to an address.
struct Case<'a> {
    story: &'a Story,
    netns: u32,
    to: Addr,
    /// Those that were given up, each with its reset.
    all: Vec<(&'a Conn, &'a Sent)>,
    of: u64,
}

pub(super) fn find(story: &Story) -> Vec<Finding> {
    let mut places: BTreeMap<(u32, Addr), Vec<(&Conn, &Sent)>> = BTreeMap::new();
    for sent in story.resets.sent.iter().filter(|s| s.why == Why::KeepAlive) {
        if let Some(conn) = sent
            .conn
            .and_then(|id| story.conn(id))
            .filter(|c| opened(c))
        {
            let key = (conn.netns, conn.remote.addr);
            places.entry(key).or_default().push((conn, sent));
        }
    }
    let mut of: BTreeMap<(u32, Addr), u64> = BTreeMap::new();
    for conn in story.conns.iter().filter(|c| opened(c)) {
        let key = (conn.netns, conn.remote.addr);
        if places.contains_key(&key) {
            *of.entry(key).or_default() += 1;
        }
    }
    let cases = places.into_iter().map(|((netns, to), all)| Case {
        story,
        netns,
        to,
        of: of.get(&(netns, to)).copied().unwrap_or(0),
        all,
    });
    let many = cases.filter(|c| c.all.len() >= MIN_GIVEN_UP && c.share() >= MIN_SHARE);
    many.map(|case| case.finding()).collect()
}

/// An end that called connect(), and whose connect succeeded. Servers have peers that vanish every
/// day.
fn opened(conn: &Conn) -> bool {
    let ours = match conn.side {
        Side::Opened => true,
        Side::Older => conn.listener.is_none(),
        Side::Accepted => false,
    };
    ours && matches!(conn.outcome, Outcome::Open | Outcome::Closed)
}

impl Case<'_> {
    fn count(&self) -> u64 {
        self.all.len() as u64
    }

    fn share(&self) -> f64 {
        self.count() as f64 / self.of.max(1) as f64
    }

    /// How long nothing had come from the peer when a connection was given up, with the sample that
    /// tells.
    fn silences(&self) -> impl Iterator<Item = (u64, RowRef)> {
        self.all.iter().filter_map(|(conn, sent)| {
            let last = &self.story.samples(conn)?.last;
            Some((sent.time_ns.checked_sub(last.heard_ns?)?, last.row))
        })
    }

    fn silent(&self) -> Option<u64> {
        median(&mut self.silences().map(|(ns, _)| ns).collect::<Vec<_>>())
    }

    fn scope(&self) -> Scope {
        let owners = self.all.iter().filter_map(|(c, _)| self.story.owner(c));
        let mut by_pid: BTreeMap<u32, (u64, String)> = BTreeMap::new();
        for (pid, comm) in owners {
            by_pid.entry(pid).or_insert((0, comm)).0 += 1;
        }
        let first = by_pid.iter().max_by_key(|(_, (n, _))| *n);
        Scope {
            netns: self.story.netns(self.netns),
            resource: Some(format!("peer {}", self.to)),
            role: Role::Client,
            pid: first.map(|(pid, _)| *pid),
            comm: first.map(|(_, (_, comm))| comm.clone()),
            pids: by_pid.keys().copied().collect(),
            ..Scope::default()
        }
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks = self.arithmetic();
        let (n, of) = (count(self.count()), plural(self.of, "connection"));
        let silent = self.silent().map_or(String::new(), |ns| {
            format!(", after a silence of {} in the median", duration(ns))
        });
        let says = format!(
            "{n} of {of} ({}) were given up{silent}.",
            percent(self.share())
        );
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: Lost::outages(self.story, self.all.iter().map(|(c, _)| *c)),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!(
                    "{} answers no keep-alives: {n} of {of} were given up.",
                    self.to
                ),
                format!("{} answers no keep-alives.", self.to),
            ]),
            fix: fitting([
                format!(
                    "See whether {} is alive; else let probes come more often than boxes forget.",
                    self.to
                ),
                "See whether it is alive; else send keep-alives more often.".into(),
            ]),
            impact: Impact::of(self.count(), self.of, "connections", says),
            confidence: self.confidence(&checks),
            evidence: self.evidence(&scope),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: vec![set_sysctl(
                &scope.netns,
                sysctl::TCP_KEEPALIVE_TIME,
                OFTEN_ENOUGH,
                "An idle connection costs two small packets a minute. Programs that set TCP_KEEPIDLE \
                 themselves go by that.",
                format!(
                    "A box on the path that forgets idle connections remembers them; when {} is \
                     gone, that is known minutes earlier.",
                    self.to
                ),
            )],
            verify: format!("`tcpwhy trace resets --addr {}` shows none sent.", self.to),
            scope,
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        match self.all.iter().all(|(_, s)| s.told) {
            true => c.because("the kernel says that keep-alives were left without an answer"),
            false => c.at_most(Level::Medium, "told by the stack that sent the resets"),
        }
        c.weigh_checks(checks);
        doubts(
            self.story,
            &mut c,
            &[SourceName::ResetsSent, SourceName::States],
        );
        c
    }

    fn evidence(&self, scope: &Scope) -> Vec<Step> {
        let rows = self.all.iter().map(|(_, s)| s.row());
        let mut steps = vec![
            Step::new(format!(
                "The kernel gave up {} of {} from {} to {}: no keep-alive was answered (reason \
                 TCP_KEEPALIVE_TIMEOUT).",
                count(self.count()),
                plural(self.of, "connection"),
                namespace(&scope.netns),
                self.to
            ))
            .number("given_up", self.count())
            .number("connections", self.of)
            .rows(rows.take(SHOWN_ROWS)),
        ];
        if let Some(silent) = self.silent() {
            let rows = self.silences().map(|(_, row)| row);
            steps.push(
                Step::new(format!(
                    "The last ACK had come {} before, in the median.",
                    duration(silent)
                ))
                .number("silent_ms", silent as f64 / 1e6)
                .rows(rows.take(SHOWN_ROWS)),
            );
        }
        let probes = self
            .story
            .counters
            .rise(self.netns, counter::TCP_KEEP_ALIVE);
        if probes.by > 0 {
            steps.push(
                Step::new(format!(
                    "{} were sent (TCPKeepAlive).",
                    plural(probes.by, "probe")
                ))
                .number("probes", probes.by)
                .rows(probes.rows()),
            );
        }
        steps
    }

    fn arithmetic(&self) -> Vec<Check> {
        if !self.story.counters.covers(self.netns) {
            return Vec::new();
        }
        let rise = self
            .story
            .counters
            .rise(self.netns, counter::TCP_ABORT_ON_TIMEOUT)
            .by;
        let formula = "connections ended by a time-out (TCPAbortOnTimeout) ≥ those given up";
        vec![at_least(formula, self.count(), rise, "connections")]
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        vec![RuledOut::new(
            Id::INJECTED_RESET,
            format!(
                "this host sent {} itself, and got none of {}",
                plural(self.count(), "reset"),
                self.to
            ),
        )]
    }
}
