//! C02: no local port is left for another connection to a destination.

use std::rc::Rc;

use analysis::ports::Use;
use analysis::stats::median;
use analysis::words::{duration, percent};

use crate::limits;
use crate::places::port_search::{Destination, destinations, is_portless};
use crate::rule::{Kind, Known, Rule, There, Way, from};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PORTS_EXHAUSTED,
    number: "C02",
    title: "no local port is left",
    page: include_str!("ports_exhausted.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[&[SourceName::States]],
    seen_from: || RULE.told_from(),
    signature: &[
        "connect fails: Cannot assign requested address (EADDRNOTAVAIL)",
        "tens of thousands of sockets in TIME_WAIT to one destination",
    ],
    rivals: &[
        Id::CONNECTION_REFUSED,
        Id::LOCAL_FIREWALL_DROP,
        Id::PORT_SEARCH_COST,
    ],
    // A search that failed tried all ports.
    explains: &[Id::PORT_SEARCH_COST],
    told_with: None,
    no: Some(|asked| RULE.no(asked)),
    rule_out: |whole| RULE.rule_out(whole),
    symptom: Some(Symptom::Connects),
    find: |whole| RULE.find(whole),
};

/// Connects that wanted a local port: to a destination with counted ports, or in all; none where there are only counted
/// ports.
struct Wanting<'a> {
    to: Option<Rc<Destination<'a>>>,
    connects: u64,
    /// Those that failed without one.
    failed: Vec<&'a Conn>,
    /// The most ports in use, out of how many, and the row.
    used: Option<InUse>,
}

/// The most ports in use to a destination.
struct InUse {
    to: Endpoint,
    ports: u64,
    of: u64,
    row: RowRef,
}

enum Wanted {}

impl Kind for Wanted {
    type Place<'a> = Wanting<'a>;

    const NOTHING: &'static str = NO_CONNECT;

    fn all<'a>(whole: &Whole<'a>) -> Vec<Wanting<'a>> {
        let story = whole.story;
        let destinations = destinations(story).into_iter().map(Rc::new);
        let mut places: Vec<Wanting> = destinations.map(Wanting::to).collect();
        let opened = story.conns.iter().filter(|c| c.side == Side::Opened);
        places.push(Wanting::of(opened, None));
        let counted = story.ports.all();
        let counted = counted.map(|((_, _, to), used)| InUse::most(*to, used));
        places.extend(counted.map(|used| Wanting::of([].into_iter(), Some(used))));
        places
    }

    fn there<'a>(asked: &Asked<'a>) -> There<Wanting<'a>> {
        if let Some(to) = asked.destination() {
            return There::Place(Wanting::to(Rc::clone(to)));
        }
        if let Some(port) = asked.calls().and_then(|calls| calls.asked_for) {
            return There::None(say!("the calls asked for {port} and searched for no other"));
        }
        let concerns = |netns: u32, to: Endpoint| match asked.place {
            Place::At(of, at) => of.is_none_or(|of| of == netns) && *at == to,
            Place::Calls(calls) => calls.netns == netns,
            _ => false,
        };
        let story = asked.story;
        let opened = story.conns.iter().filter(|c| c.side == Side::Opened);
        let ports = story
            .ports
            .all()
            .filter(|((netns, _, to), _)| concerns(*netns, *to));
        let fullest = ports
            .map(|((_, _, to), used)| InUse::most(*to, used))
            .max_by_key(|used| used.ports);
        let place = Wanting::of(opened.filter(|c| concerns(c.netns, c.remote)), fullest);
        if place.connects > 0 {
            return There::Place(place);
        }
        // For remote clients only what they sent is known: it has a port.
        let came_in = asked.silent().map_or(0, |syns| syns.strays);
        let step = || {
            say!(
                "{came_in} arrived: the clients had ports",
                came_in = Quantity::of(came_in, "SYN")
            )
        };
        (came_in > 0).then(step).into()
    }
}

impl InUse {
    fn most(to: Endpoint, used: &Use) -> InUse {
        InUse {
            to,
            ports: used.most.used,
            of: used.capacity,
            row: used.most.row,
        }
    }
}

impl<'a> Wanting<'a> {
    fn to(to: Rc<Destination<'a>>) -> Wanting<'a> {
        let failed: Vec<&Conn> = to.without_port().collect();
        Wanting {
            connects: to.connects.len() as u64,
            failed,
            used: Some(InUse {
                ports: to.peak(),
                ..InUse::most(to.to, to.ports)
            }),
            to: Some(to),
        }
    }

    fn of(connects: impl Iterator<Item = &'a Conn> + Clone, used: Option<InUse>) -> Wanting<'a> {
        Wanting {
            to: None,
            connects: connects.clone().count() as u64,
            failed: connects.filter(|c| is_portless(c)).collect(),
            used,
        }
    }

    fn without_a_port(&self) -> Known {
        if self.connects == 0 && self.used.is_some() {
            return Known::Not("a program that binds first fails before it connects");
        }
        let (n, rows) = (
            self.failed.len() as u64,
            self.failed.iter().filter_map(|c| c.row()),
        );
        let step = say!(
            "{portless} of {connects} failed without a local port",
            portless = Quantity::count(n).rows(rows.take(SHOWN_ROWS)),
            connects = Quantity::of(self.connects, "connect")
        );
        Known::events(n, self.connects, step)
    }

    fn in_use(&self) -> Known {
        let Some(InUse { to, ports, of, row }) = &self.used else {
            return Known::Not("the ports in use were not counted");
        };
        let step = say!(
            "{ports_used} of {ports} local ports to {to} were in use at most",
            ports_used = Quantity::count(*ports).rows([*row]),
            ports = Quantity::count(*of)
        );
        Known::share(*ports, *of, step)
    }
}

const RULE: Rule<Wanted> = Rule {
    ways: &[Way {
        tests: &[
            from(&limits::OFTEN, "without a local port", |at| {
                at.without_a_port()
            }),
            from(&limits::NEARLY_ALL, "of the ports in use", |at| at.in_use()),
        ],
        doubt: None,
    }],
    finding: |at| finding(at.to.as_ref()?),
};

fn finding(to: &Destination) -> Option<Finding> {
    let failed: Vec<&Conn> = to.without_port().collect();
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
        "From {since} after the start {failed} to {at} failed without a local port, after {median_us} (median).",
        failed = Quantity::of(failed.len() as u64, "connect").rows(rows),
        median_us = Quantity::new(took as f64 / 1e3, duration(took))
    )
}

#[cfg(test)]
mod tests;
