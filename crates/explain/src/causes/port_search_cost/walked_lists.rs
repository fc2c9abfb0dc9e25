//! FreeBSD's connect(): the look-up of a port walks all connections of a server that has it.

mod advice;
mod evidence;
mod lists;

use analysis::Rise;
use analysis::profile::samples;
use analysis::searches::Connecting;
use analysis::stats::quantile;
use analysis::words::{count, duration, figure, percent, rounded};
use recording::TcpState;

use super::{CAUSE, within};
use crate::limits;
use crate::place::SlowCalls;
use crate::vocabulary::*;
use lists::{Met, Range};

/// The function that walks the list of a port.
pub(super) const FUNCTION: &str = "in_pcblookup_local";
/// Counters of its work, where the kernel has them.
const ITERATIONS: &str = "in_pcblookup_local.iterations";
const EXPIRED: &str = "in_pcblookup_local.expired";

/// One program whose connect() walks lists.
struct Walker<'a> {
    story: &'a Story,
    netns: u32,
    comm: &'a str,
    /// All of its slow calls, and those among them that searched; the others waited for these.
    calls: &'a [Connecting],
    searches: Vec<Connecting>,
    /// What each search met.
    met: Vec<Met>,
    range: Option<Range>,
    /// Samples of the program in the look-up, and some of their rows.
    inside: u64,
    rows: Vec<RowRef>,
}

pub(super) fn find(story: &Story) -> Vec<Finding> {
    let walkers = story.searches.all();
    let walkers = walkers.map(|((netns, comm), calls)| Walker::of(story, *netns, comm, calls));
    walkers.filter_map(|walker| judge(&walker)).collect()
}

fn judge(walker: &Walker) -> Option<Finding> {
    if walker.searches.is_empty() || walker.inside < limits::ENOUGH.count() {
        return None;
    }
    let (story, took) = (walker.story, duration(walker.longest_ns()));
    let waits = Quantity::of(walker.met().time_wait, TcpState::TimeWait.as_str());
    let advice = walker.advice();
    let fix = advice.first().map(|a| a.action.clone())?;
    let lost = walker.calls.iter().map(Connecting::took_ns).sum();
    let case = Case::new(story, CAUSE, walker.scope())
        .placed(Place::Calls(SlowCalls {
            netns: walker.netns,
            call: "connect()",
            asked_for: None,
            took_ns: walker.searched_ns(),
            on_cpu_ns: (walker.cpu_seconds() * 1e9) as u64,
        }))
        .title([
            format!(
                "connect() searches {took} for a local port: it passes a server's {waits} again and \
                 again."
            ),
            format!("connect() searches {took} for a local port, past a server's connections."),
            format!("connect() searches {took} for a local port."),
        ])
        .fix([fix])
        .affects(walker.impact(), Lost::elsewhere(lost))
        .because(format!(
            "{} are in {FUNCTION}, all of them in connect()",
            Quantity::of(walker.inside, "sample")
        ))
        .rests_on(&[
            SourceName::Calls,
            SourceName::Profile,
            SourceName::ProfileSymbols,
        ])
        .at_most_if(
            Level::Medium,
            story.profile.folded > 0 || story.searches.folded > 0,
            "not every sample and call was kept",
        )
        .steps(walker.evidence())
        .checks(walker.checks())
        .advise(advice);
    Some(case.verify(sentence!("Under the same load no connect() takes longer than a millisecond, and {FUNCTION} is gone from \
         the profile.", FUNCTION)))
}

impl<'a> Walker<'a> {
    fn of(story: &'a Story, netns: u32, comm: &'a str, calls: &'a [Connecting]) -> Walker<'a> {
        let searches = calls
            .iter()
            .filter(|c| c.search_ns >= limits::RECORDED_WAIT.ns());
        let searches: Vec<Connecting> = searches.copied().collect();
        let searched = |pid| searches.iter().any(|s| s.pid == pid);
        let inside = story.profile.passing(&[FUNCTION]);
        let inside: Vec<_> = inside.filter(|g| !g.softirq && searched(g.pid)).collect();
        let range = Range::of(story, netns);
        Walker {
            story,
            netns,
            comm,
            calls,
            met: Met::of(story, netns, range.as_ref(), &searches),
            searches,
            range,
            rows: inside.iter().map(|g| g.row).take(SHOWN_ROWS).collect(),
            inside: samples(inside),
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

    /// CPU time in the look-up, s.
    fn cpu_seconds(&self) -> f64 {
        self.story.profile.cpu_seconds(self.inside)
    }

    /// Connections and TIME_WAITs that all searches met.
    fn met(&self) -> Met {
        self.met.iter().fold(Met::default(), |sum, met| Met {
            open: sum.open + met.open,
            time_wait: sum.time_wait + met.time_wait,
            passed: sum.passed + met.passed,
            rows: Vec::new(),
        })
    }

    fn rise(&self, name: &str) -> Rise {
        self.story.counters.rise(self.netns, name)
    }

    /// Entries passed: as counted, else computed from what was met.
    fn passed(&self) -> f64 {
        match self.rise(ITERATIONS).by {
            0 => self.met().passed,
            counted => counted as f64,
        }
    }

    fn impact(&self) -> Impact {
        let opened = self.story.conns.iter();
        let opened = opened.filter(|c| c.netns == self.netns && c.side == Side::Opened);
        let affected = self.calls.len() as u64;
        let of = (opened.count() as u64).max(affected);
        let mut took: Vec<u64> = self.calls.iter().map(Connecting::took_ns).collect();
        let least = took.iter().min().copied().unwrap_or(0);
        let says = format!(
            "{} of {} took at least {}, in which the kernel took no TCP packet: {} in total, {} of the time.",
            count(affected),
            Quantity::of(of, "connect"),
            duration(least),
            duration(self.searched_ns()),
            percent(self.searched_ns() as f64 / 1e9 / self.story.seconds())
        );
        let mut at = |share| quantile(&mut took, share).map(|ns| rounded(ns as f64 / 1e6));
        let latency = at(0.5).zip(at(0.99));
        Impact {
            added_latency_ms: latency.map(|(p50, p99)| Latency { p50, p99 }),
            ..Impact::of(affected, of, "connections", says)
        }
    }

    fn checks(&self) -> Vec<Check> {
        let (met, counted) = (self.met().passed, self.rise(ITERATIONS).by);
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
                entries(passed as u64),
                figure(limits::WALKED_ENTRY.number())
            );
            within(
                formula,
                passed * limits::WALKED_ENTRY.number() / 1e9,
                searched,
                limits::SEVERAL_TIMES.times(),
            )
        });
        let on_cpu = within(
            format!("time of the search = CPU time in {FUNCTION}"),
            searched,
            self.cpu_seconds(),
            limits::TWICE.times(),
        );
        law.into_iter().chain(cost).chain([on_cpu]).collect()
    }
}

/// This many entries of a list, in words.
fn entries(n: u64) -> String {
    match n {
        1 => "1 entry".into(),
        n => format!("{} entries", count(n)),
    }
}
