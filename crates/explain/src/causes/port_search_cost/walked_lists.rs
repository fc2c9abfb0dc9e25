//! FreeBSD's connect(): the look-up of a port walks all connections of a server that has it.

mod lists;

use recording::RowRef;

use super::super::scene::{SHOWN_ROWS, doubts, same_count, weigh_checks};
use super::{CAUSE, COST_FACTOR, LEAST_SAMPLES};
use crate::finding::{
    Advice, Change, Check, Confidence, Finding, Impact, Latency, Level, Role, RuledOut, Scope, Step,
};
use crate::story::profile::samples;
use crate::story::searches::Connecting;
use crate::story::stats::{median, quantile, ratio};
use crate::story::{Rise, Side, Story, source};
use crate::words::{count, duration, figure, fitting, percent, plural, rounded};
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
            number: CAUSE.number,
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
                plural(waits, "TIME_WAIT")
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
        weigh_checks(&mut c, checks);
        let needed = [
            source::CALLS,
            source::PROFILE,
            source::PROFILE_SYMBOLS,
            source::STATES,
        ];
        doubts(self.story, &mut c, &needed);
        if self.story.profile.folded > 0 || self.story.searches.folded > 0 {
            c.at_most(Level::Medium, "not every sample and call was kept");
        }
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let mut steps = vec![self.call_step()];
        steps.extend(self.wait_step());
        steps.push(self.cpu_step());
        steps.extend(self.count_step());
        steps.extend(self.list_step());
        steps.extend(self.pause_step());
        steps
    }

    fn call_step(&self) -> Step {
        let waited = (self.calls.len() - self.searches.len()) as u64;
        let longest = self.longest_ns();
        let others = match waited {
            0 => String::new(),
            n => format!(" {} waited with it.", plural(n, "other call")),
        };
        let mut took: Vec<u64> = self.searches.iter().map(Connecting::took_ns).collect();
        Step::new(format!(
            "connect() of {} took {} in the median ({}), of which the search for a local port took up \
             to {}.{others}",
            self.comm,
            duration(median(&mut took).unwrap_or(0)),
            plural(self.searches.len() as u64, "call"),
            duration(longest)
        ))
        .number("searches", self.searches.len())
        .number("waited", waited)
        .number("longest_search_ms", longest as f64 / 1e6)
        .rows(self.searches.iter().map(|s| s.row).take(SHOWN_ROWS))
    }

    /// Those that waited for the lock were woken by the one that searched.
    fn wait_step(&self) -> Option<Step> {
        let ended = |at: u64| {
            self.searches
                .iter()
                .any(|s| s.returned_ns.abs_diff(at) < 1_000_000)
        };
        let all = self.story.waits.all.iter().filter(|w| {
            let there = w.syscall.as_deref() == Some("connect") && &*w.comm == self.comm;
            there && &*w.state == "D" && ended(w.end_ns)
        });
        let all: Vec<_> = all.collect();
        let longest = all.iter().max_by_key(|w| w.waited_ns)?;
        let step = Step::new(format!(
            "{} of {} ended when that search was over, the longest after {}: for a lock of the kernel, \
             in connect(), until {} let go of it.",
            plural(all.len() as u64, "wait"),
            self.comm,
            duration(longest.waited_ns),
            longest.waker_comm
        ))
        .number("waits", all.len())
        .number("longest_wait_ms", longest.waited_ns as f64 / 1e6)
        .rows(all.iter().map(|w| w.row).take(SHOWN_ROWS));
        Some(step)
    }

    fn cpu_step(&self) -> Step {
        let seconds = self.story.profile.cpu_seconds(self.inside);
        Step::new(format!(
            "{} spent {} of CPU time in {FUNCTION}, the look-up of one port.",
            self.comm,
            duration((seconds * 1e9) as u64)
        ))
        .number("samples", self.inside)
        .number("cpu_seconds", seconds)
        .rows(self.rows.iter().copied())
    }

    fn count_step(&self) -> Option<Step> {
        let (passed, expired) = (self.rise(ITERATIONS), self.rise(EXPIRED));
        let each = ratio(passed.by as f64, expired.by as f64)?;
        let step = Step::new(format!(
            "It passed {} of lists and ended {}: {} for each, as it begins again at the head after \
             each.",
            plural_entries(passed.by),
            plural(expired.by, "TIME_WAIT"),
            plural_entries(each as u64)
        ))
        .number("iterations", passed.by)
        .number("expired", expired.by)
        .number("iterations_per_expired", each)
        .rows(passed.rows().chain(expired.rows()).take(2 * SHOWN_ROWS));
        (expired.by > 0).then_some(step)
    }

    fn list_step(&self) -> Option<Step> {
        let range = self.range.as_ref()?;
        let longest = self.searches.iter().zip(&self.met);
        let (search, met) = longest.max_by_key(|(s, _)| s.search_ns)?;
        let passed = range.before(search.port);
        let (low, high) = (*passed.first()?, *passed.last()?);
        let step = Step::new(format!(
            "Servers listen on {low} to {high}, within the range from which connect() chooses \
             ({}-{}), and it found {}, the next one. In the lists of these ports hung {} and {}, the \
             youngest in front.",
            range.first,
            range.last,
            search.port,
            plural(met.open, "open connection"),
            plural(met.time_wait, "TIME_WAIT")
        ))
        .number("ports", passed.len())
        .number("open", met.open)
        .number("time_wait", met.time_wait)
        .rows(range.rows.iter().copied())
        .rows(met.rows.iter().copied());
        Some(step)
    }

    /// The lock is the one that TCP's input takes.
    fn pause_step(&self) -> Option<Step> {
        let longest = self.longest()?;
        let (from, to) = (longest.search_began_ns(), longest.returned_ns);
        let accepted = self.story.conns.iter();
        let accepted = accepted.filter(|c| c.netns == self.netns && c.side == Side::Accepted);
        let (mut all, mut within) = (0_u64, 0_u64);
        for conn in accepted {
            all += 1;
            within += u64::from((from + 1..to).contains(&conn.start_ns));
        }
        let rate = all as f64 / self.story.seconds();
        let expected = rate * longest.search_ns as f64 / 1e9;
        let step = Step::new(format!(
            "While it searched for {}, {} accepted; at other times {} per second: TCP's input needs \
             the lock.",
            duration(longest.search_ns),
            match within {
                0 => "no connection was".into(),
                n => format!("{} were", plural(n, "connection")),
            },
            figure(rate)
        ))
        .number("accepted_within", within)
        .number("accepted_per_s", rate)
        .rows([longest.row]);
        (expected >= 20.0 && within as f64 <= expected / 10.0).then_some(step)
    }

    fn arithmetic(&self) -> Vec<Check> {
        let within = |formula: String, expected: f64, measured: f64, factor: f64| Check {
            formula,
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "s",
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
            RuledOut {
                cause: "ports-exhausted",
                because: format!(
                    "{} of {} found a port",
                    count(found),
                    plural_searches(self.searches.len() as u64)
                ),
            },
            RuledOut {
                cause: "cpu-contention",
                because: format!(
                    "of {} in the search {} were on a CPU: it did not wait for one",
                    duration(self.searched_ns()),
                    duration((on_cpu * 1e9) as u64)
                ),
            },
            RuledOut {
                cause: "lookup-table-growth",
                because:
                    "the time is in connect(), not in softirq, and in the list of a port, not in a \
                          chain of a hash table"
                        .into(),
            },
        ]
    }

    fn advice(&self) -> Vec<Advice> {
        let (open, waits, _) = self.met();
        let mut advice = Vec::new();
        advice.extend(self.apart());
        advice.push(Advice {
            action: "Use a kernel whose in_pcblookup_local() leaves TIME_WAITs to their timer."
                .into(),
            command: None,
            r#where: "the host; FreeBSD backed the purge (in_pcb.c 1.125) out on 2006-09-06".into(),
            risk: "A connection that this host closes first then holds its port for twice \
                   net.inet.tcp.msl: with too many connects per second none is left."
                .into(),
            expected: format!(
                "Each entry is passed once: {}, not {}.",
                plural_entries(open + waits),
                plural_entries(self.passed() as u64)
            ),
            change: None,
        });
        advice.push(Advice {
            action: "Use connections again (keep-alive, a pool): to the servers and from them."
                .into(),
            command: None,
            r#where: "the configuration of both".into(),
            risk: "Idle connections stay open: they stand in the lists, too.".into(),
            expected:
                "Fewer TIME_WAITs to pass; the cost falls with their number times that of open \
                       connections."
                    .into(),
            change: None,
        });
        advice
    }

    /// Keeps the servers' ports out of the range.
    fn apart(&self) -> Option<Advice> {
        let range = self.range.as_ref()?;
        let (from, to) = range.beside()?;
        let (name, value) = match from == range.first {
            true => (LAST, to),
            false => (FIRST, from),
        };
        let in_use: u64 = self
            .story
            .ports
            .all()
            .filter(|((netns, ..), _)| *netns == self.netns)
            .map(|(_, used)| used.most.used)
            .sum();
        Some(Advice {
            action: format!(
                "Keep the servers' ports out of the range for connect(): set {name}={value}."
            ),
            command: Some(format!("sysctl {name}={value}")),
            r#where:
                "the host; /etc/sysctl.conf keeps it. Or let the servers listen below the range"
                    .into(),
            risk: format!(
                "Of the range cut so {} are left for connections; {} were in use at most, TIME_WAITs \
                 included.",
                plural(u64::from(to - from) + 1, "port"),
                count(in_use)
            ),
            expected:
                "connect() no longer comes past the connections of servers: a candidate has one \
                       entry, or none."
                    .into(),
            change: Some(Change::Sysctl {
                netns: self.netns,
                name,
                value: value.to_string(),
            }),
        })
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
