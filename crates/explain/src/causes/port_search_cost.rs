//! C03: connect() or bind() tries thousands of local ports before it finds a free one, or
//! bind() walks the connections of a port that is taken.

mod crowded_port;
mod walked_lists;

use analysis::profile::samples;
use analysis::stats::{median, quantile, ratio};
use analysis::words::{count, duration, figure, fitting, percent, plural, rounded};

use super::ports_exhausted;
use crate::finding::{Confidence, RuledOut};
use crate::moment::{Began, Since};
use crate::places::listener::doubts;
use crate::places::port_search::{
    BIND, BIND_TRY_NS, CONNECT, Destination, FUNCTIONS, HALF, TRY_NS, destinations,
};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PORT_SEARCH_COST,
    number: "C03",
    title: "connect() or bind() searches for a free local port",
    page: include_str!("port_search_cost.md"),
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[
            SourceName::Profile,
            SourceName::PortSearch,
            SourceName::Calls,
        ],
    ],
    seen_from: "50 µs of searching per connect, or a search of 10 ms",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

/// Fewer connects than this with half of the ports in use are no pattern.
const LEAST_CONNECTS: usize = 20;
/// Fewer samples in the search say little about its cost.
const LEAST_SAMPLES: u64 = 30;
/// A search of less, per connect, is not what makes connecting slow, ns.
const LEAST_COST_NS: f64 = 50_000.0;
/// The cost of a try differs that much between processors and loads.
const COST_FACTOR: f64 = 4.0;

/// A destination to which connecting costs a search.
struct Case<'a> {
    to: Destination<'a>,
    /// Connects that began with half of the ports in use, and the others.
    slow: Vec<&'a Conn>,
    fast: Vec<&'a Conn>,
    /// The function that the search stands in, when the profile shows it.
    function: &'static str,
    /// Samples in it.
    inside: u64,
    /// CPU time of the search per slow connect, ns.
    cost_ns: f64,
}

fn find(story: &Story) -> Vec<Finding> {
    let mut all = findings(destinations(story), Case::of, Case::finding);
    all.extend(crowded_port::find(story));
    all.extend(walked_lists::find(story));
    all
}

impl<'a> Case<'a> {
    fn of(to: Destination<'a>) -> Option<Case<'a>> {
        // There the search is told as a part of it.
        if to.occupancy() < HALF || ports_exhausted::holds(&to) {
            return None;
        }
        let (slow, fast) = to.searched();
        if slow.len() < LEAST_CONNECTS {
            return None;
        }
        let in_bind = to.search_samples(&[BIND]).0;
        let in_connect = to.search_samples(&[CONNECT]).0;
        let (function, inside) = match in_bind > in_connect {
            true => (BIND, in_bind),
            false => (CONNECT, in_connect),
        };
        let seconds = to.story.profile.cpu_seconds(inside);
        let cost_ns = ratio(seconds * 1e9, slow.len() as f64)?;
        let holds = inside >= LEAST_SAMPLES && cost_ns >= LEAST_COST_NS;
        holds.then_some(Case {
            to,
            slow,
            fast,
            function,
            inside,
            cost_ns,
        })
    }

    fn is_bind(&self) -> bool {
        self.function == BIND
    }

    fn call(&self) -> &'static str {
        match self.is_bind() {
            true => "bind()",
            false => "connect()",
        }
    }

    fn finding(&self) -> Finding {
        let scope = self.to.scope(Some(self.function));
        let checks = self.arithmetic();
        let advice = self.to.advice(&scope, self.is_bind());
        Finding {
            episodes: Vec::new(),
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: Lost::elsewhere((self.cost_ns * self.slow.len() as f64) as u64),
            since: self
                .slow
                .first()
                .map(|c| Since::at(self.to.story, c.start_ns, Began::Seen)),
            title: self.title(),
            fix: advice[0].action.clone(),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice,
            verify: format!(
                "Under the same load `tcpwhy stat ports` shows less than half of the ports in use \
                 to {}, and `{}` is gone from `perf top`.",
                self.to.to, self.function
            ),
            scope,
        }
    }

    fn title(&self) -> String {
        let call = self.call();
        let (to, cost) = (self.to.to, duration(self.cost_ns as u64));
        let occupied = percent(self.to.occupancy());
        fitting([
            format!("{call} searches {cost} for a local port to {to}: {occupied} are in use."),
            format!("{call} searches {cost} for a local port to {to}."),
            format!("{call} searches for a local port to {to}."),
        ])
    }

    /// What connect() took some connects, ns.
    fn took(conns: &[&Conn]) -> Vec<u64> {
        let first = conns.iter().filter(|c| c.syn_retries == 0);
        first.filter_map(|c| c.connect_ns()).collect()
    }

    fn impact(&self) -> Impact {
        let (n, of) = (self.slow.len() as u64, self.to.connects.len() as u64);
        let usual = median(&mut Case::took(&self.fast)).unwrap_or(0);
        let mut slow = Case::took(&self.slow);
        let mut added = |share| {
            let ns = quantile(&mut slow, share)?.saturating_sub(usual);
            Some(rounded(ns as f64 / 1e6))
        };
        let latency = (!self.is_bind()).then(|| {
            Some(Latency {
                p50: added(0.5)?,
                p99: added(0.99)?,
            })
        });
        let says = format!(
            "{} of {} began with half of the ports in use, and cost {} of CPU time each.",
            count(n),
            plural(of, "connect"),
            duration(self.cost_ns as u64)
        );
        Impact {
            added_latency_ms: latency.flatten(),
            ..Impact::of(n, of, "connections", says)
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "{} of the process are in {}, and {} of the ports were in use",
            plural(self.inside, "sample"),
            self.function,
            percent(self.to.occupancy())
        ));
        c.weigh_checks(checks);
        let needed = [
            SourceName::Profile,
            SourceName::ProfileSymbols,
            SourceName::Ports,
            SourceName::States,
        ];
        doubts(self.to.story, &mut c, &needed);
        if self.to.story.profile.folded > 0 {
            c.at_most(Level::Medium, "not every sample of the profile was kept");
        }
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend(self.latency_step());
        steps.push(self.cpu_step());
        steps.push(self.to.occupancy_step());
        steps.extend(self.parity_step());
        steps.extend(self.to.range_step());
        steps
    }

    fn latency_step(&self) -> Option<Step> {
        let (mut slow, mut fast) = (Case::took(&self.slow), Case::took(&self.fast));
        let (slow_ns, fast_ns) = (median(&mut slow)?, median(&mut fast)?);
        let since = self.slow.first()?.start_ns;
        let since = since.saturating_sub(self.to.story.start_ns);
        let step = Step::new(format!(
            "connect() to {} took {} in the median until half of the ports were in use, {} after \
             the start, and {} from then on.",
            self.to.to,
            duration(fast_ns),
            duration(since),
            duration(slow_ns)
        ))
        .number("median_before_us", fast_ns as f64 / 1e3)
        .number("median_after_us", slow_ns as f64 / 1e3)
        .rows(self.slow.iter().filter_map(|c| c.row()).take(2))
        .rows(self.fast.iter().filter_map(|c| c.row()).take(1));
        // The search of bind() is over when connect() is called.
        (!self.is_bind()).then_some(step)
    }

    fn cpu_step(&self) -> Step {
        let (_, rows) = self.to.search_samples(&[self.function]);
        let callers = self.to.callers();
        let groups = self.to.story.profile.groups.iter();
        let all = samples(groups.filter(|g| callers.contains(&g.pid)));
        let scope = self.to.scope(None);
        Step::new(format!(
            "{} spent {} of its CPU time in {}: {} per {} with half of the ports in use.",
            process(&scope),
            percent(ratio(self.inside as f64, all as f64).unwrap_or(0.0)),
            self.function,
            duration(self.cost_ns as u64),
            self.call()
        ))
        .number("samples", self.inside)
        .number("of_samples", all)
        .number(
            "cpu_seconds",
            self.to.story.profile.cpu_seconds(self.inside),
        )
        .number("cost_us", self.cost_ns / 1e3)
        .rows(rows)
    }

    /// Share of connects that got an even port.
    fn even(conns: &[&Conn]) -> Option<f64> {
        let with_port: Vec<_> = conns.iter().filter(|c| c.local.port != 0).collect();
        let even = with_port.iter().filter(|c| c.local.port % 2 == 0).count();
        ratio(even as f64, with_port.len() as f64)
    }

    fn parity_step(&self) -> Option<Step> {
        let (before, after) = (Case::even(&self.fast)?, Case::even(&self.slow)?);
        let step = Step::new(format!(
            "Of the ports taken before that {} are even, of those after it {}: one parity was \
             full, and each search tried all {} of it before it turned to the other.",
            percent(before),
            percent(after),
            count(self.to.ports.capacity / 2)
        ))
        .number("even_before", before)
        .number("even_after", after)
        .rows(self.slow.iter().filter_map(|c| c.row()).take(SHOWN_ROWS));
        ((before - after).abs() > 0.8).then_some(step)
    }

    fn arithmetic(&self) -> Vec<Check> {
        let try_ns = match self.is_bind() {
            true => BIND_TRY_NS,
            false => TRY_NS,
        };
        let half = self.to.ports.capacity / 2;
        let expected = self.slow.len() as f64 * half as f64 * try_ns / 1e9;
        let measured = self.to.story.profile.cpu_seconds(self.inside);
        let cost = Check {
            formula: format!(
                "{} with half of the ports in use × {} tries × {} ns = CPU time in {}",
                plural(self.slow.len() as u64, "connect"),
                count(half),
                figure(try_ns),
                self.function
            ),
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "s".into(),
            agrees: measured * COST_FACTOR >= expected && measured <= expected * COST_FACTOR,
            tolerance: format!("within a factor of {}", figure(COST_FACTOR)),
        };
        vec![cost, self.to.count_check()]
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let story = self.to.story;
        let retried = self.slow.iter().filter(|c| c.syn_retries > 0).count() as u64;
        let mut out = vec![
            RuledOut::new(
                Id::PORTS_EXHAUSTED,
                format!(
                    "{} failed for want of a port",
                    plural(self.to.without_port().count() as u64, "connect")
                ),
            ),
            RuledOut::new(
                Id::PATH_DROPS_SYN,
                format!("{} of these connects retransmitted its SYN", count(retried)),
            ),
        ];
        if let Some(room) = table_has_room(story, self.to.netns) {
            out.insert(0, room);
        }
        out
    }
}

/// Why it is not the hash table of connections; `None` when that was not counted.
fn table_has_room(story: &Story, netns: u32) -> Option<RuledOut> {
    let sizes = story.structures.named("ehash");
    // The host's table serves namespaces that have none of their own.
    let chain = sizes
        .filter(|(of, _)| *of == netns || *of == 0)
        .filter_map(|(_, size)| size.fullest.chain());
    let chain = chain.reduce(f64::max)?;
    Some(RuledOut::new(
        Id::LOOKUP_TABLE_GROWTH,
        format!(
            "{} per bucket in the hash table of connections: no look-up there walks a chain",
            figure(chain)
        ),
    ))
}

/// Samples in the search for a local port, of anybody.
pub(super) fn searching(story: &Story) -> u64 {
    samples(story.profile.passing(FUNCTIONS).filter(|g| !g.softirq))
}

#[cfg(test)]
mod tests;
