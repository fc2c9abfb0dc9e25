//! C02: no local port is left for another connection to a destination.

use analysis::stats::median;
use analysis::words::{duration, percent};

use crate::limits;
use crate::places::port_search::{Destination, destinations, is_portless};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PORTS_EXHAUSTED,
    number: "C02",
    title: "no local port is left",
    page: include_str!("ports_exhausted.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[&[SourceName::States]],
    seen_from: "5 connects without a local port",
    signature: &[
        "connect fails: Cannot assign requested address (EADDRNOTAVAIL)",
        "tens of thousands of sockets in TIME_WAIT to one destination",
    ],
    rivals: &[
        Id::CONNECTION_REFUSED,
        Id::LOCAL_FIREWALL_DROP,
        Id::PORT_SEARCH_COST,
    ],
    // What searched in vain searched all ports.
    explains: &[Id::PORT_SEARCH_COST],
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |story| destinations(story).iter().filter_map(judge).collect(),
};

/// Hardly a connect failed without a port.
fn no(asked: &Asked) -> Option<Step> {
    let story = asked.story;
    let concerns = |netns: u32, to: Endpoint| match asked.place {
        Place::LocalPorts(of, _, at) => *of == netns && *at == to,
        Place::At(of, at) => of.is_none_or(|of| of == netns) && *at == to,
        Place::Calls(calls) => calls.netns == netns,
        _ => false,
    };
    let opened = story.conns.iter().filter(|c| c.side == Side::Opened);
    let connects: Vec<&Conn> = opened.filter(|c| concerns(c.netns, c.remote)).collect();
    if connects.is_empty() && matches!(asked.place, Place::At(..)) {
        // Of clients elsewhere only what they sent is known: it has a port.
        let refused = asked.silent().map_or(0, |place| place.strays);
        let came_in = Quantity::of(refused, "SYN");
        return (refused > 0).then(|| say!("{came_in} came in: the clients had ports", came_in));
    }
    let failed = connects.iter().filter(|c| is_portless(c)).count() as u64;
    let portless = Quantity::of(failed, "connect");
    let ports = story
        .ports
        .all()
        .filter(|((of, _, to), _)| concerns(*of, *to));
    let fullest = ports
        .map(|(_, used)| used)
        .max_by_key(|used| used.most.used);
    (failed < limits::PORTS_FAILED.count()).then(|| match fullest {
        Some(used) => say!(
            "{portless} failed without a local port, and {ports_used} of {ports} were in use at most",
            portless,
            ports_used = Quantity::count(used.most.used).rows([used.most.row]),
            ports = Quantity::count(used.capacity)
        ),
        None => say!("{portless} failed without a local port", portless),
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let portless = whole.story.conns.iter().filter(|c| is_portless(c));
    let (n, of) = (portless.clone().count() as u64, whole.connects());
    let rows = portless.filter_map(Conn::row).take(SHOWN_ROWS);
    let step = say!(
        "{portless} of {connects} failed without a local port",
        portless = Quantity::count(n).rows(rows),
        connects = Quantity::of(of, "connect")
    );
    let failed = every([Test::events(n, of, &limits::PORTS_FAILED, step)]);
    // A program that binds first fails before it connects.
    let used = whole.story.ports.all().map(|((_, _, to), used)| {
        let step = say!(
            "{ports_used} of {ports} local ports to {at} were in use at most",
            ports_used = Quantity::count(used.most.used).rows([used.most.row]),
            ports = Quantity::count(used.capacity),
            at = Quantity::new(to.to_string(), to.to_string())
        );
        every([Test::share(
            used.most.used,
            used.capacity,
            &limits::PORTS_FULL,
            step,
        )])
    });
    Verdict::nearest([failed].into_iter().chain(used), NO_CONNECT)
}

fn judge(to: &Destination) -> Option<Finding> {
    let failed: Vec<&Conn> = to.without_port().collect();
    if (failed.len() as u64) < limits::PORTS_FAILED.count()
        || to.occupancy() < limits::PORTS_FULL.share()
    {
        return None;
    }
    let (at, scope) = (to.to, to.scope(None));
    let advice = to.advice(&scope, false);
    let fix = advice.first().map(|a| a.action.clone())?;
    let case = Case::new(to.story, CAUSE, scope.clone())
        .placed(to.place())
        .title([
            format!(
                "{} has no local port left to connect to {at}: all {} are in use.",
                process(&scope),
                Quantity::count(to.ports.capacity)
            ),
            format!("No local port is left to connect to {at}."),
        ])
        .fix([fix])
        .affects(impact(to, &failed), Lost::outages(to.story, failed.clone()))
        .because("sockets that failed went from SYN_SENT to CLOSE and never had a port")
        .rests_on(&[SourceName::Ports])
        .steps([failed_step(to, &failed), to.occupancy_step()])
        .steps(to.range_step())
        .checks([to.count_check()])
        .advise(advice);
    Some(case.verify(sentence!(
        "Under the same load no connect fails, and `tcpwhy stat ports` shows free ports to {at}.",
        at
    )))
}

fn impact(to: &Destination, failed: &[&Conn]) -> Impact {
    let (n, of) = (failed.len() as u64, to.connects.len() as u64);
    let says = format!(
        "{} of {} ({}) failed with EADDRNOTAVAIL.",
        Quantity::count(n),
        Quantity::of(of, "connect"),
        percent(n as f64 / of as f64)
    );
    Impact::of(n, of, "connections", says)
}

fn failed_step(to: &Destination, failed: &[&Conn]) -> Step {
    let first = failed.first().map_or(0, |c| c.start_ns);
    let since = duration(first.saturating_sub(to.story.start_ns));
    let took = failed.iter();
    let took = took.filter_map(|c| Some(c.ended_ns?.saturating_sub(c.start_ns)));
    let took = median(&mut took.collect::<Vec<_>>()).unwrap_or(0);
    let rows = failed.iter().filter_map(|c| c.row()).take(SHOWN_ROWS);
    let at = to.to;
    say!(
        "From {since} after the start {failed} to {at} failed without a local port, after {median_us} \
         in the median.",
        failed = Quantity::of(failed.len() as u64, "connect").rows(rows),
        median_us = Quantity::new(took as f64 / 1e3, duration(took))
    )
}

#[cfg(test)]
mod tests;
