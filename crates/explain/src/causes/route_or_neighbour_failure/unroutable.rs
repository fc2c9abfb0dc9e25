//! connect() for which the kernel has no route: no packet is made, so that only the call shows it, or a counter.

use std::collections::BTreeMap;

use analysis::unrouted::NoWay;
use analysis::words::{count, list};

use super::CAUSE;
use crate::finding::RuledOut;
use crate::inquiry::Inquiry;
use crate::limits;
use crate::moment::{Began, Since};
use crate::vocabulary::*;

/// The most destinations that are named.
const SHOWN_DESTINATIONS: usize = 3;

pub(super) fn find(story: &Story, inquiry: &Inquiry) -> Vec<Finding> {
    // One connect of the command that was recorded is enough.
    let ran = |way: &NoWay| {
        way.pids
            .iter()
            .any(|pid| inquiry.ran(*pid, Some(&way.comm)))
    };
    let callers = story
        .unrouted
        .callers()
        .filter(|way| insists(way) || ran(way));
    let mut callers: Vec<_> = callers.collect();
    callers.sort_by_key(|way| std::cmp::Reverse(way.count));
    callers.truncate(MAX_PER_CAUSE);
    callers.retain(|way| !goes_on(story, way));
    let mut counted = counted(story);
    counted.retain(|netns, _| !callers.iter().any(|way| way.netns == *netns));
    let told: Vec<_> = callers
        .into_iter()
        .map(|way| of_caller(story, way))
        .collect();
    let counted = counted.into_iter();
    let counted = counted.map(|(netns, intervals)| of_counter(story, netns, intervals));
    told.into_iter().chain(counted).collect()
}

/// Whether it tried repeatedly.
fn insists(way: &NoWay) -> bool {
    let over_ns = way.last_ns.saturating_sub(way.first_ns);
    way.count >= limits::FAILED_AGAIN.count() && over_ns >= limits::FAILED_OVER.ns()
}

/// The connections that its processes opened.
fn opened<'a>(story: &'a Story, way: &'a NoWay) -> impl Iterator<Item = &'a Conn> {
    let its = |c: &&Conn| c.netns == way.netns && c.pid.is_some_and(|pid| way.pids.contains(&pid));
    story
        .conns
        .iter()
        .filter(its)
        .filter(|c| c.side == Side::Opened)
}

/// Whether a caller without a route for IPv6 goes on with an IPv4 address (RFC 8305): many hosts have no IPv6.
fn goes_on(story: &Story, way: &NoWay) -> bool {
    let well = || opened(story, way).filter(|c| !c.failed()).count() as u64;
    way.ipv4 == 0 && well() >= way.count
}

/// For how long it had no route, ns, and the longest such time: from a failed call until it got through to one of the
/// addresses, or failed for the last time.
fn without_ns(story: &Story, way: &NoWay) -> (u64, u64) {
    let there = opened(story, way).filter(|c| way.to.contains(&c.remote.addr));
    let mut well: Vec<u64> = there.filter_map(|c| c.established_ns).collect();
    well.sort_unstable();
    let mut failed = way.failed_ns.clone();
    failed.sort_unstable();
    let (mut all, mut longest, mut until) = (0u64, 0, 0);
    for from in failed.into_iter().filter(|ns| *ns < way.last_ns) {
        // A call that failed before the route was back is within a time already counted.
        if from < until {
            continue;
        }
        let next = well.get(well.partition_point(|at| *at <= from)).copied();
        until = next.unwrap_or(way.last_ns).min(way.last_ns);
        let ns = until.saturating_sub(from);
        all = all.saturating_add(ns);
        longest = longest.max(ns);
    }
    (all, longest)
}

fn of_caller(story: &Story, way: &NoWay) -> Finding {
    let (netns, pids) = (way.netns, Vec::from_iter(way.pids.iter().copied()));
    let to: Vec<String> = way
        .to
        .iter()
        .take(SHOWN_DESTINATIONS)
        .map(|a| a.to_string())
        .collect();
    let first = to.first().cloned().unwrap_or_default();
    let (failed, error) = (Quantity::of(way.count, "connect"), way.error);
    let scope = Scope {
        netns: story.netns(netns),
        resource: Some(format!("route to {}", list(&to))),
        role: Role::Client,
        pid: pids.first().copied(),
        pids,
        comm: Some(way.comm.to_string()),
        ..Scope::default()
    };
    let (who, at) = (process(&scope), namespace(&scope.netns));
    let over_ns = way.last_ns.saturating_sub(way.first_ns);
    let (without, longest) = without_ns(story, way);
    let says = format!(
        "{failed} failed at once with {error}, over {}.",
        Quantity::ns(over_ns)
    );
    let rise = story.counters.rise(netns, counter::IP_OUT_NO_ROUTES);
    let counts = way.ipv4 > 0 && way.error == "ENETUNREACH" && story.counters.covers(netns);
    Case::new(story, CAUSE, scope.clone())
        .since(Since::at(story, way.first_ns, Began::Seen))
        .title(match way.route() {
            Some(kind) => [
                format!("A route of this host rejects connects to {} ({kind}): {failed} of {who} ended with {error}.", list(&to)),
                format!("A route here rejects connects to {first} ({kind}): {failed} ended with {error}."),
                format!("A route here rejects connects to {first} ({kind})."),
            ],
            None => [
                format!("No route from here to {}: {failed} of {who} ended with {error}.", list(&to)),
                format!("{who} has no route to {first}: {failed} ended with {error}."),
                format!("{who} has no route to {first}."),
            ],
        })
        .fix(match way.route() {
            Some(kind) => [
                format!("Find who set the {kind} route to {} in {at}; give it a next hop or delete it.", list(&to)),
                format!("Find who set the {kind} route to {first}; delete it."),
                format!("Delete the {kind} route."),
            ],
            None => [
                format!("Give {at} a route to {}.", list(&to)),
                format!("Give this namespace a route to {first}."),
                "Add the route.".into(),
            ],
        })
        .affects(
            Impact::of(way.count, way.count, "connects", says),
            Lost::elsewhere(without).in_outage(Some(longest)),
        )
        .because("connect() itself returned the error: no packet was sent")
        .steps([say!(
            "{calls} of {who} returned {error}, to {to}.",
            calls = Quantity::of(way.count, "connect").rows(way.rows),
            to = Quantity::new(way.to.len() as u64, list(&to))
        )])
        .rules_out([never_left(story, way)])
        .checks(counts.then(|| {
            at_least(
                "packets and connects without a route (IpOutNoRoutes) ≥ IPv4 connects that failed without one",
                way.ipv4,
                rise.by,
                "connects",
            )
        }))
        .advise([match way.route() {
            Some(kind) => rejecting(&scope.netns, kind, &first),
            None => route(&scope.netns, &first),
        }])
        .verify(sentence!("`ip route get {first}` names a device there, and the connects succeed.", first))
}

/// A host that refuses or drops a connection has received its SYN.
fn never_left(story: &Story, way: &NoWay) -> RuledOut {
    let there = opened(story, way).filter(|c| way.to.contains(&c.remote.addr));
    let (mut sent, mut refused) = (0u64, 0u64);
    for conn in there {
        sent += 1;
        refused += u64::from(conn.refused.is_some());
    }
    RuledOut::by(
        Id::CONNECTION_REFUSED,
        say!(
            "these calls sent no SYN; resets answered {refused} of {sent} that it did send there",
            sent = Quantity::of(sent, "SYN"),
            refused = Quantity::count(refused)
        ),
    )
}

/// For namespaces whose calls show nothing: in how many intervals the counter rose, beyond the dropped packets.
fn counted(story: &Story) -> BTreeMap<u32, (u64, usize)> {
    let mut all = BTreeMap::new();
    for (netns, rise) in story.counters.rises(counter::IP_OUT_NO_ROUTES) {
        let groups = story.packets.all().iter().filter(|g| g.netns == netns);
        let dropped: u64 = groups
            .filter(|g| g.is_for("IP_OUTNOROUTES"))
            .map(|g| g.count)
            .sum();
        let lines = story.series.lines(netns);
        let mut line = lines.filter(|line| line.name == counter::IP_OUT_NO_ROUTES);
        let rises = |deltas: Vec<f64>| deltas.into_iter().filter(|by| *by > 0.0).count();
        let intervals = line.next().map_or(0, |line| rises(line.deltas));
        let by = rise.by.saturating_sub(dropped);
        if by >= limits::OFTEN.count() && intervals >= limits::A_FEW.as_usize() {
            all.insert(netns, (by, intervals));
        }
    }
    all
}

fn of_counter(story: &Story, netns: u32, (by, intervals): (u64, usize)) -> Finding {
    let scope = Scope {
        netns: story.netns(netns),
        resource: Some("routes".into()),
        ..Scope::default()
    };
    let at = namespace(&scope.netns);
    let rise = story.counters.rise(netns, counter::IP_OUT_NO_ROUTES);
    let times = Quantity::of(by, "time").rows(rise.rows());
    Case::new(story, CAUSE, scope.clone())
        .title([
            format!("No route for {} in {at}.", many(by)),
            format!("There was no route for {}.", many(by)),
        ])
        .fix([
            "Record calls to see the process: tcpwhy explain --with calls.".to_string(),
            "See the process: tcpwhy explain --with calls.".into(),
        ])
        .affects(
            Impact::of(by, by, "times", format!("{by} connects or packets found no route.")),
            Lost::unknown(),
        )
        .because("the kernel counts each")
        .at_most(
            Level::Low,
            "the process was not recorded, and UDP is counted, too",
        )
        .steps([say!(
            "IpOutNoRoutes rose {times} in {intervals} between samples: connect() or a packet found no route.",
            times,
            intervals = Quantity::of(intervals as u64, "interval")
        )])
        .advise([Advice::to("See which process connects, and to which address.")
            .by(shell!("tcpwhy explain --with calls --for 10s"))
            .at("this host")
            .risk("None: it only reads.")
            .effect("Names the process, the address and the error of each connect() that fails.")
            .change(Change::RepairPath {
                from: at.clone(),
                to: "a destination without a route".into(),
            })])
        .verify("`nstat -z IpOutNoRoutes` no longer rises.")
}

fn rejecting(netns: &Netns, kind: &'static str, to: &str) -> Advice {
    let at = namespace(netns);
    Advice::to(format!(
        "Find what set the {kind} route that covers {to} in {at} (a routing daemon, a container network), and give {to} \
         a next hop."
    ))
    .by(command_in(netns, shell!("ip route show table all type {kind}", kind)))
    .at(at.clone())
    .risk("Such a route may be there on purpose: traffic that it holds back leaves by the next best route.")
    .effect("connect() sends its SYN.")
    .change(Change::RepairPath {
        from: at.clone(),
        to: to.to_string(),
    })
}

fn many(n: u64) -> String {
    match n {
        1 => "1 connect or packet".into(),
        n => format!("{} connects or packets", count(n)),
    }
}

fn route(netns: &Netns, to: &str) -> Advice {
    let at = namespace(netns);
    Advice::to(format!(
        "Give {at} a route to {to}, or bring up the interface that had it."
    ))
    .by(command_in(netns, shell!("ip route get {to}", to)))
    .at(format!(
        "{at}; the command shows the route that it would take, or the same error"
    ))
    .risk("A new route also moves other traffic that it matches.")
    .effect("connect() sends its SYN.")
    .change(Change::RepairPath {
        from: at.clone(),
        to: to.to_string(),
    })
}

/// Callers whose connects had no route, and what counters show where calls were not recorded.
pub(super) fn refuted(story: &Story) -> impl Iterator<Item = Option<Answered>> {
    let callers = story.unrouted.callers().map(|way| {
        let over_ns = way.last_ns.saturating_sub(way.first_ns);
        let says = || {
            say!(
                "{no_way} of {comm} had no route, over {over_ms}",
                no_way = Quantity::of(way.count, "connect").rows(way.rows),
                comm = Quantity::new(&*way.comm, &*way.comm),
                over_ms = Quantity::ns(over_ns)
            )
        };
        every([
            Test::from(way.count as f64, &limits::FAILED_AGAIN, says()),
            Test::lasts(over_ns, &limits::FAILED_OVER, says()),
        ])
    });
    let rises = story
        .counters
        .rises(counter::IP_OUT_NO_ROUTES)
        .into_values();
    let counted = rises.map(|rise| {
        let step = say!(
            "OutNoRoutes rose by {rise_by}",
            rise_by = Quantity::count(rise.by).rows(rise.rows())
        );
        every([Test::from(rise.by as f64, &limits::OFTEN, step)])
    });
    callers.chain(counted).collect::<Vec<_>>().into_iter()
}
