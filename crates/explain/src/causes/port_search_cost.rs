//! C03: connect() or bind() tries thousands of local ports before it finds a free one, or bind() walks the connections
//! of a port that is taken.

mod crowded_port;
mod walked_lists;

use analysis::profile::samples;
use analysis::stats::{median, quantile, ratio};
use analysis::words::{count, duration, figure, percent, rounded};

use crate::limits;
use crate::moment::{Began, Since};
use crate::places::port_search::{Destination, FUNCTIONS, Search, destinations, took};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PORT_SEARCH_COST,
    number: "C03",
    title: "connect() or bind() searches for a free local port",
    page: include_str!("port_search_cost.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[
            SourceName::Profile,
            SourceName::PortSearch,
            SourceName::Calls,
        ],
    ],
    seen_from: || "50 µs of searching per connect, or a search of 10 ms".into(),
    signature: &[
        "connect takes CPU and milliseconds, more with each open connection",
        "connect or bind became slow when half of the local ports were in use",
    ],
    rivals: &[
        Id::PORTS_EXHAUSTED,
        Id::LOOKUP_TABLE_GROWTH,
        Id::CPU_CONTENTION,
        Id::PATH_DROPS_SYN,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        let scarce = destinations(story);
        let mut all: Vec<Finding> = scarce.iter().filter_map(judge).collect();
        all.extend(crowded_port::find(story));
        all.extend(walked_lists::find(story));
        all.into()
    },
};

/// Hardly any connect searches.
fn no(asked: &Asked) -> Option<Step> {
    let profile = &asked.story.profile;
    let searching = samples(profile.passing(FUNCTIONS).filter(|g| !g.softirq));
    let in_kernel = samples(profile.groups.iter().filter(|g| g.in_kernel()));
    (searching < limits::ENOUGH.count() && in_kernel > 0).then(|| {
        say!(
            "{searching} in the search for a local port, of {in_kernel} in the kernel",
            searching = Quantity::of(searching, "sample"),
            in_kernel = Quantity::count(in_kernel)
        )
    })
}

/// Whichever way it searches, samples of the CPU profile are found in it.
fn rule_out(whole: &Whole) -> Verdict {
    let profile = &whole.story.profile;
    let functions = [FUNCTIONS, &[walked_lists::FUNCTION]].concat();
    let searching = samples(profile.passing(&functions).filter(|g| !g.softirq));
    let in_kernel = samples(profile.groups.iter().filter(|g| g.in_kernel()));
    let step = say!(
        "{searching} in the search for a local port, of {in_kernel} in the kernel",
        searching = Quantity::of(searching, "sample"),
        in_kernel = Quantity::count(in_kernel)
    );
    let nothing = "no sample of the CPU profile was taken in the kernel";
    Verdict::events(searching, in_kernel, &limits::ENOUGH, step, nothing)
}

fn judge(to: &Destination) -> Option<Finding> {
    let search = to.search();
    let cost_ns = search.cost_ns()?;
    if to.occupancy() < limits::PARITY_FULL.share()
        || search.slow.len() < limits::ENOUGH.as_usize()
        || search.inside < limits::ENOUGH.count()
        || cost_ns < limits::SEARCH_COSTS.number()
    {
        return None;
    }
    let (story, at, function) = (to.story, to.to, search.function);
    let scope = to.scope(Some(function));
    let advice = to.advice(&scope, search.is_bind());
    let fix = advice.first().map(|a| a.action.clone())?;
    let call = if search.is_bind() {
        "bind()"
    } else {
        "connect()"
    };
    let (cost, occupied) = (duration(cost_ns as u64), percent(to.occupancy()));
    let since = search.slow.first()?.start_ns;
    let case = Case::new(story, CAUSE, scope.clone())
        .placed(to.place())
        .title([
            format!("{call} searches {cost} for a local port to {at}: {occupied} are in use."),
            format!("{call} searches {cost} for a local port to {at}."),
            format!("{call} searches for a local port to {at}."),
        ])
        .fix([fix])
        .affects(
            impact(to, &search, cost_ns),
            Lost::elsewhere((search.cpu_seconds * 1e9) as u64),
        )
        .since(Since::at(story, since, Began::Seen))
        .because(format!(
            "{} of the process are in {function}, and {occupied} of the ports were in use",
            Quantity::of(search.inside, "sample")
        ))
        .rests_on(&[
            SourceName::Profile,
            SourceName::ProfileSymbols,
            SourceName::Ports,
        ])
        .at_most_if(
            Level::Medium,
            story.profile.folded > 0,
            "not every sample of the profile was kept",
        )
        .steps(latency_step(to, &search))
        .steps([cpu_step(to, &search, cost_ns, call), to.occupancy_step()])
        .steps(parity_step(to, &search))
        .steps(to.range_step())
        .checks([cost_check(to, &search), to.count_check()])
        .advise(advice);
    Some(case.verify(sentence!(
        "Under the same load `tcpwhy stat ports` shows less than half of the ports in use to {at}, \
         and {function} is gone from `perf top`.",
        at,
        function
    )))
}

fn impact(to: &Destination, search: &Search, cost_ns: f64) -> Impact {
    let (n, of) = (search.slow.len() as u64, to.connects.len() as u64);
    let usual = median(&mut took(&search.fast)).unwrap_or(0);
    let mut slow = took(&search.slow);
    let mut added = |share| {
        let ns = quantile(&mut slow, share)?.saturating_sub(usual);
        Some(rounded(ns as f64 / 1e6))
    };
    let latency = added(0.5).zip(added(0.99));
    // The search of bind() is over when connect() is called.
    let latency = latency.filter(|_| !search.is_bind());
    let says = format!(
        "{} of {} began with half of the ports in use, and cost {} of CPU time each.",
        count(n),
        Quantity::of(of, "connect"),
        duration(cost_ns as u64)
    );
    Impact {
        added_latency_ms: latency.map(|(p50, p99)| Latency { p50, p99 }),
        ..Impact::of(n, of, "connections", says)
    }
}

fn latency_step(to: &Destination, search: &Search) -> Option<Step> {
    if search.is_bind() {
        return None;
    }
    let in_us = |ns: u64| Quantity::new(ns as f64 / 1e3, duration(ns));
    let rows = |conns: &[&Conn], n| -> Vec<RowRef> {
        conns.iter().filter_map(|c| c.row()).take(n).collect()
    };
    let since = search.slow.first()?.start_ns;
    let since = duration(since.saturating_sub(to.story.start_ns));
    let at = to.to;
    Some(say!(
        "connect() to {at} took {median_before_us} (median) until half of the ports were in use, {since} after the \
         start, and {median_after_us} from then on.",
        median_before_us = in_us(median(&mut took(&search.fast))?).rows(rows(&search.fast, 1)),
        median_after_us = in_us(median(&mut took(&search.slow))?).rows(rows(&search.slow, 2))
    ))
}

fn cpu_step(to: &Destination, search: &Search, cost_ns: f64, call: &str) -> Step {
    let (who, function) = (process(&to.scope(None)), search.function);
    let callers = to.callers();
    let groups = to.story.profile.groups.iter();
    let all = samples(groups.filter(|g| callers.contains(&g.pid)));
    let share = percent(ratio(search.inside as f64, all as f64).unwrap_or(0.0));
    say!(
        "{who} spent {share} of its CPU time in {function} ({samples} of {of_samples}): {cost_us} per \
         {call} with half of the ports in use.",
        samples = Quantity::of(search.inside, "sample").rows(search.rows.iter().copied()),
        of_samples = Quantity::count(all),
        cost_us = Quantity::new(cost_ns / 1e3, duration(cost_ns as u64))
    )
    .number("cpu_seconds", search.cpu_seconds)
}

/// Linux prefers one parity of ports for connect(): when that is full, each search tries all of it first.
fn parity_step(to: &Destination, search: &Search) -> Option<Step> {
    let even = |conns: &[&Conn]| {
        let with_port = conns.iter().filter(|c| c.local.port != 0);
        let even = with_port.clone().filter(|c| c.local.port % 2 == 0).count();
        ratio(even as f64, with_port.count() as f64)
    };
    let (before, after) = (even(&search.fast)?, even(&search.slow)?);
    let half = count(to.ports.capacity / 2);
    let rows = search.slow.iter().filter_map(|c| c.row()).take(SHOWN_ROWS);
    ((before - after).abs() > limits::NEARLY_ALL.share()).then(|| {
        say!(
            "{even_before} of the ports taken before that are even, {even_after} of those after it: one parity was \
             full, and each search tried all {half} of it before it turned to the other.",
            even_before = Quantity::share(before),
            even_after = Quantity::share(after).rows(rows)
        )
    })
}

fn cost_check(to: &Destination, search: &Search) -> Check {
    let try_ns = if search.is_bind() {
        limits::PORT_BIND_TRY.number()
    } else {
        limits::PORT_TRY.number()
    };
    let half = to.ports.capacity / 2;
    let expected = search.slow.len() as f64 * half as f64 * try_ns / 1e9;
    within(
        format!(
            "{} with half of the ports in use × {} tries × {} ns = CPU time in {}",
            Quantity::of(search.slow.len() as u64, "connect"),
            count(half),
            figure(try_ns),
            search.function
        ),
        expected,
        search.cpu_seconds,
        limits::SEVERAL_TIMES.times(),
    )
}

/// Two times, s, that agree within a factor.
fn within(formula: String, expected: f64, measured: f64, factor: f64) -> Check {
    Check {
        formula,
        expected: rounded(expected),
        measured: rounded(measured),
        unit: "s".into(),
        agrees: measured * factor >= expected && measured <= expected * factor,
        tolerance: format!("within a factor of {}", figure(factor)),
    }
}

#[cfg(test)]
mod tests;
