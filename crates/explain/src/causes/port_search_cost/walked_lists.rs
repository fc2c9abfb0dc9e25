//! FreeBSD's connect(): the look-up of a port walks all connections of a server that has it.

mod advice;
mod evidence;
mod lists;

use analysis::profile::samples;
use analysis::searches::Connecting;
use analysis::stats::quantile;
use analysis::words::{count, duration, figure, fitting, percent, plural, rounded};
use analysis::{Rise, Side, Story};
use recording::{RowRef, SourceName, TcpState};

use super::{CAUSE, COST_FACTOR, LEAST_SAMPLES};
use crate::checks::same_count;
use crate::finding::{Check, Confidence, Finding, Impact, Latency, Level, Role, RuledOut, Scope};
use crate::id::Id;
use crate::lost::Lost;
use crate::places::listener::{SHOWN_ROWS, doubts};
use lists::{Met, Range};

/// The function that walks the list of a port.
const FUNCTION: &str = "in_pcblookup_local";
/// What counts its work, where somebody has added such counters.
const ITERATIONS: &str = "in_pcblookup_local.iterations";
const EXPIRED: &str = "in_pcblookup_local.expired";
const FIRST: &str = "net.inet.ip.portrange.first";
const LAST: &str = "net.inet.ip.portrange.last";
/// A shorter search is not what makes anybody wait, ns.
const LEAST_SEARCH_NS: u64 = 10_000_000;
/// What an entry of a list costs, ns: 30 when all are in the cache, 100 when none is.
const ENTRY_NS: f64 = 60.0;
/// The walk is under a lock and not preempted: what it takes is CPU time, but for interrupts.
const ON_CPU_FACTOR: f64 = 2.0;

/// One program whose connect() walks lists.
struct Case<'a> {
    story: &'a Story,
    netns: u32,
    comm: &'a str,
    /// All of its slow calls, and those among them that searched; the others waited for them.
    calls: &'a [Connecting],
    searches: Vec<Connecting>,
    met: Vec<Met>,
    range: Option<Range>,
    /// Samples of the program in the look-up.
    inside: u64,
    rows: Vec<RowRef>,
}

pub(super) fn find(story: &Story) -> Vec<Finding> {
    let cases = story.searches.all().filter_map(|((netns, comm), calls)| {
        let searches = calls.iter().filter(|c| c.search_ns >= LEAST_SEARCH_NS);
        Case::of(story, *netns, comm, calls, searches.copied().collect())
    });
    cases.map(|case| case.finding()).collect()
}

impl<'a> Case<'a> {
    fn of(
        story: &'a Story,
        netns: u32,
        comm: &'a str,
        calls: &'a [Connecting],
        searches: Vec<Connecting>,
    ) -> Option<Case<'a>> {
        let searched = |pid| searches.iter().any(|s| s.pid == pid);
        let inside = story.profile.passing(&[FUNCTION]);
        let inside: Vec<_> = inside.filter(|g| !g.softirq && searched(g.pid)).collect();
        let rows = inside.iter().map(|g| g.row).take(SHOWN_ROWS).collect();
        let inside = samples(inside);
        if searches.is_empty() || inside < LEAST_SAMPLES {
            return None;
        }
        let range = Range::of(story, netns);
        Some(Case {
            story,
            netns,
            comm,
            calls,
            met: Met::of(story, netns, range.as_ref(), &searches),
            searches,
            range,
            inside,
            rows,
        })
    }

    fn finding(&self) -> Finding {
        let checks = self.arithmetic();
        let advice = self.advice();
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: Lost::elsewhere(self.calls.iter().map(Connecting::took_ns).sum()),
            since: None,
            episodes: Vec::new(),
            title: self.title(),
            fix: advice[0].action.clone(),
            scope: self.scope(),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice,
            verify: format!(
                "Under the same load no connect() takes longer than a millisecond, and {FUNCTION} is \
                 gone from the profile."
            ),
        }
    }

    fn scope(&self) -> Scope {
        let mut pids: Vec<u32> = self.calls.iter().map(|c| c.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        Scope {
            netns: self.story.netns(self.netns),
            resource: Some("lists of connections by local port".into()),
            function: Some(FUNCTION.into()),
            role: Role::Client,
            pid: self.longest().map(|s| s.pid),
            pids,
            comm: Some(self.comm.into()),
            ..Scope::default()
        }
    }

    fn longest(&self) -> Option<&Connecting> {
        self.searches.iter().max_by_key(|s| s.search_ns)
    }

    fn longest_ns(&self) -> u64 {
        self.longest().map_or(0, |s| s.search_ns)
    }

    fn searched_ns(&self) -> u64 {
        self.searches.iter().map(|s| s.search_ns).sum()
    }

    /// Connections and TIME_WAITs that all searches met.
    fn met(&self) -> (u64, u64, f64) {
        let add = |(open, waits, passed): (u64, u64, f64), met: &Met| {
            (open + met.open, waits + met.time_wait, passed + met.passed)
        };
        self.met.iter().fold((0, 0, 0.0), add)
    }

    fn rise(&self, name: &str) -> Rise {
        self.story.counters.rise(self.netns, name)
    }

    /// Entries passed: as counted, else as what was met gives it.
    fn passed(&self) -> f64 {
        match self.rise(ITERATIONS).by {
            0 => self.met().2,
            counted => counted as f64,
        }
    }

    fn title(&self) -> String {
        let took = duration(self.longest_ns());
        let (_, waits, _) = self.met();
        fitting([
            format!(
                "connect() searches {took} for a local port: it passes a server's {} again and again.",
                plural(waits, TcpState::TimeWait.as_str())
            ),
            format!("connect() searches {took} for a local port, past a server's connections."),
            format!("connect() searches {took} for a local port."),
        ])
    }

    fn impact(&self) -> Impact {
        let opened = self.story.conns.iter();
        let opened = opened.filter(|c| c.netns == self.netns && c.side == Side::Opened);
        let affected = self.calls.len() as u64;
        let of = (opened.count() as u64).max(affected);
        let mut took: Vec<u64> = self.calls.iter().map(Connecting::took_ns).collect();
        let mut at = |share| quantile(&mut took, share).map(|ns| rounded(ns as f64 / 1e6));
        let says = format!(
            "{} of {} took {} and more, in which the kernel took no TCP packet: {} in all, {} of the \
             time.",
            count(affected),
            plural(of, "connect"),
            duration(
                self.calls
                    .iter()
                    .map(Connecting::took_ns)
                    .min()
                    .unwrap_or(0)
            ),
            duration(self.searched_ns()),
            percent(self.searched_ns() as f64 / 1e9 / self.story.seconds())
        );
        let latency = at(0.5).zip(at(0.99)).map(|(p50, p99)| Latency { p50, p99 });
        Impact {
            added_latency_ms: latency,
            ..Impact::of(affected, of, "connections", says)
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "{} are in {FUNCTION}, all of them in connect()",
            plural(self.inside, "sample")
        ));
        c.weigh_checks(checks);
        let needed = [
            SourceName::Calls,
            SourceName::Profile,
            SourceName::ProfileSymbols,
            SourceName::States,
        ];
        doubts(self.story, &mut c, &needed);
        if self.story.profile.folded > 0 || self.story.searches.folded > 0 {
            c.at_most(Level::Medium, "not every sample and call was kept");
        }
        c
    }

    fn arithmetic(&self) -> Vec<Check> {
        let within = |formula: String, expected: f64, measured: f64, factor: f64| Check {
            formula,
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "s".into(),
            agrees: measured * factor >= expected && measured <= expected * factor,
            tolerance: format!("within a factor of {}", figure(factor)),
        };
        let (_, _, met) = self.met();
        let counted = self.rise(ITERATIONS).by;
        let law = (met > 0.0 && counted > 0).then(|| {
            same_count(
                "for each port passed, TIME_WAITs × (open connections + 1) + open connections + 1 = \
                 entries passed",
                met as u64,
                counted,
                "entries",
            )
        });
        let searched = self.searched_ns() as f64 / 1e9;
        let passed = self.passed();
        let cost = (passed > 0.0).then(|| {
            let formula = format!(
                "{} × {} ns = time of the search",
                plural_entries(passed as u64),
                figure(ENTRY_NS)
            );
            within(formula, passed * ENTRY_NS / 1e9, searched, COST_FACTOR)
        });
        let on_cpu = within(
            format!("time of the search = CPU time in {FUNCTION}"),
            searched,
            self.story.profile.cpu_seconds(self.inside),
            ON_CPU_FACTOR,
        );
        law.into_iter().chain(cost).chain([on_cpu]).collect()
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let on_cpu = self.story.profile.cpu_seconds(self.inside);
        let found = self.searches.iter().filter(|s| s.port != 0).count() as u64;
        vec![
            RuledOut::new(
                Id::PORTS_EXHAUSTED,
                format!(
                    "{} of {} found a port",
                    count(found),
                    plural_searches(self.searches.len() as u64)
                ),
            ),
            RuledOut::new(
                Id::CPU_CONTENTION,
                format!(
                    "of {} in the search {} were on a CPU: it did not wait for one",
                    duration(self.searched_ns()),
                    duration((on_cpu * 1e9) as u64)
                ),
            ),
            RuledOut::new(
                Id::LOOKUP_TABLE_GROWTH,
                "the time is in connect(), not in softirq, and in the list of a port, not in a \
                          chain of a hash table"
                    .into(),
            ),
        ]
    }
}

fn plural_entries(n: u64) -> String {
    match n {
        1 => "1 entry".into(),
        n => format!("{} entries", count(n)),
    }
}

fn plural_searches(n: u64) -> String {
    match n {
        1 => "1 search".into(),
        n => format!("{} searches", count(n)),
    }
}
