//! C36: this host drops packets because it has no route for them, or holds their source to be wrong.

mod misled;
mod unroutable;

use std::collections::{BTreeMap, BTreeSet};

use analysis::words::list;
use analysis::{Group, What, is_firewall};
use recording::Addr;
use recording::drop_reason::{DropKind, drop_kind};

use crate::finding::RuledOut;
use crate::inquiry::Inquiry;
use crate::limits;
use crate::places::lost_syn::ConnectTimes;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::ROUTE_OR_NEIGHBOUR_FAILURE,
    number: "C36",
    title: "this host has no route for packets, or rejects their source",
    page: include_str!("route_or_neighbour_failure.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[&[SourceName::Drops]],
    seen_from: || {
        "5 packets dropped for the route, the reverse path or the neighbour, 0.1 % of the segments; \
                3 connects without a route over 2 s, or 1 of the command (5 counted, where calls are not recorded)".into()
    },
    signature: &[
        "SYNs arrive and nothing answers, no firewall: asymmetric routing, rp_filter",
        "IPReversePathFilter rises in nstat",
        "martian source in the kernel's log",
        "network is unreachable (ENETUNREACH), no route to host (EHOSTUNREACH)",
        "connect: invalid argument (EINVAL) at once: a blackhole route",
        "connections hang after a route or a neighbour changed",
    ],
    rivals: &[],
    explains: &[
        Id::PATH_DROPS_SYN,
        Id::PEER_GONE,
        Id::PATH_LOSS,
        Id::TAIL_LOSS,
    ],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story, &whole.inquiry),
};

/// This host's objection to a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    ReversePath,
    NoRoute,
    NotOurs,
    Neighbour,
}

impl Why {
    fn of(group: &Group) -> Option<Why> {
        Why::of_reason(group.reason.as_deref()?)
    }

    fn of_reason(reason: &str) -> Option<Why> {
        match drop_kind(reason)? {
            DropKind::ReversePath => Some(Why::ReversePath),
            DropKind::NoRoute => Some(Why::NoRoute),
            DropKind::NotOurs => Some(Why::NotOurs),
            DropKind::Neighbour => Some(Why::Neighbour),
            _ => None,
        }
    }

    fn says(self) -> &'static str {
        match self {
            Why::ReversePath => "the route back to their source leads elsewhere (rp_filter)",
            Why::NoRoute => "there is no route to their destination",
            Why::NotOurs => "their destination is no address of this host, and it does not forward",
            Why::Neighbour => "the next hop does not answer ARP or neighbour discovery",
        }
    }
}

fn find(story: &Story, inquiry: &Inquiry) -> Found {
    let mut places: BTreeMap<(u32, Why), Vec<&Group>> = BTreeMap::new();
    for group in story.packets.all() {
        let dropped = matches!(group.what, What::SynDropped | What::Dropped);
        if let Some(why) = Why::of(group).filter(|_| dropped) {
            places.entry((group.netns, why)).or_default().push(group);
        }
    }
    let found = places.into_iter();
    found
        .filter_map(|((netns, why), groups)| judge(story, netns, why, &groups))
        .chain(unroutable::find(story, inquiry))
        .chain(misled::find(story))
        .collect()
}

/// Whether connects of this host failed with an error from such a drop: `connection-refused` reports those.
fn is_told(story: &Story, netns: u32, groups: &[&Group]) -> bool {
    let here = story.of_netns(netns).map(|(_, c)| c);
    let failed = here.filter(|c| c.unreachable().is_some());
    let told = failed
        .filter(|c| groups.iter().any(|g| g.local == c.remote))
        .count() as u64;
    told > 0
}

fn judge(story: &Story, netns: u32, why: Why, groups: &[&Group]) -> Option<Finding> {
    let lost: u64 = groups.iter().map(|g| g.count).sum();
    let moved = moved(story, netns);
    let few = lost < limits::OFTEN.count() || !limits::ONE_IN_A_THOUSAND.reached(lost, moved);
    if few || is_told(story, netns, groups) {
        return None;
    }
    let opening = groups.iter().filter(|g| g.what == What::SynDropped);
    let syns: u64 = opening.map(|g| g.count).sum();
    let ours = leaving(story, netns, groups);
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let mut other = |addr: Addr, n: u64| *others.entry(addr.to_string()).or_default() += n;
    // For unroutable packets the destination matters, as far as it is known.
    let mut going = groups.iter().filter(|g| g.local.port != 0).peekable();
    let by_destination = matches!(why, Why::NoRoute | Why::NotOurs);
    let established = ways(story, netns, why);
    let is_known = going.peek().is_some() || !established.is_empty();
    let is_to = !ours.is_empty() || by_destination && is_known;
    match ours.is_empty() {
        true if is_to => {
            going.for_each(|g| other(g.local.addr, g.count));
            established.iter().for_each(|(_, to)| other(to.addr, 1));
        }
        true => {
            let from = groups.iter().flat_map(|g| &g.remotes);
            from.for_each(|r| other(r.addr, r.count));
        }
        false => story
            .all(&ours)
            .for_each(|(_, c)| other(c.remote.addr, story.dropped(c))),
    }
    let mut others: Vec<(String, u64)> = others.into_iter().collect();
    others.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let names: Vec<String> = others
        .iter()
        .take(3)
        .map(|(name, _)| name.clone())
        .collect();
    let sources = list(&names);
    let way = if is_to { "to" } else { "from" };
    let at = groups
        .iter()
        .filter(|g| g.local.port != 0)
        .max_by_key(|g| g.count);
    let scope = Scope {
        netns: story.netns(netns),
        listener: at.map_or(String::new(), |g| g.local.to_string()),
        resource: Some(format!("packets {way} {sources}")),
        ..Scope::default()
    };
    let packets = Quantity::of(lost, "packet");
    let rows = groups.iter().flat_map(|g| g.rows.iter().copied());
    let reason = groups
        .first()
        .and_then(|g| g.reason.clone())
        .unwrap_or_default();
    let host = namespace(&scope.netns);
    let says = format!(
        "{packets} {way} {sources} were dropped here, {} of them SYNs.",
        Quantity::count(syns)
    );
    let had = had_address(story, netns, &established, groups);
    let mut advice = advice(&scope, why, names.first().map_or("", |n| n), is_to);
    if why == Why::NotOurs && !had {
        advice.reverse();
    }
    let rise = story.counters.rise(netns, counter::IP_REVERSE_PATH_FILTER);
    let counted = (why == Why::ReversePath && story.counters.covers(netns)).then(|| {
        let formula =
            "packets that rp_filter dropped (IPReversePathFilter) ≥ TCP packets seen dropped";
        at_least(formula, lost, rise.by, "packets")
    });
    let waited: Vec<&Conn> = if ours.is_empty() {
        senders(story, &established)
    } else {
        story.all(&ours).map(|(_, c)| c).collect()
    };
    let waited = Lost::states(story, waited, &[State::Repair], 1.0);
    let mut cost = lost_by(story, groups).and(waited);
    if cost.claimed() == 0 && ours.is_empty() {
        cost = waited_elsewhere(groups);
    }
    let missed = cost.claimed() > 0 || !ours.is_empty();
    let mut case = Case::new(story, CAUSE, scope)
        .noted((!missed).then_some("no client is known to have waited for them"));
    if !ours.is_empty() {
        case = case.placed(Place::Ends(ours));
    } else if let Some(at) = at {
        // Where the connects go that nothing answers.
        let to = at.local;
        case = case.placed(Place::At(to.is_loopback().then_some(at.netns), to));
    }
    let case = case
        .title([
            format!("This host drops {packets} {way} {sources}: {}.", why.says()),
            format!("This host drops {packets}: {}.", why.says()),
            format!("This host drops {packets} for their route ({reason})."),
        ])
        .fix([
            match why {
                Why::ReversePath => {
                    format!("Give {host} a route back, or set rp_filter=2 (loose).")
                }
                Why::NoRoute if is_to => format!("Give {host} a route to {sources}."),
                Why::NoRoute => format!("Give {host} a route to their destination."),
                Why::NotOurs if had => format!("Give {host} the address {sources} again."),
                Why::NotOurs => format!("Let {host} forward, or give it the address {sources}."),
                Why::Neighbour => format!("Bring up the next hop of {host}."),
            },
            "Correct the routes of this host.".into(),
        ])
        .affects(Impact::of(lost, lost, "packets", says), cost)
        .because("the kernel gives it as the reason of each drop")
        .steps([say!(
            "{dropped} were dropped in {host}, reason {reason}: {why}.",
            dropped = Quantity::of(lost, "packet").rows(rows.take(SHOWN_ROWS)),
            why = Quantity::new(syns, why.says())
        )])
        .rules_out([not_firewall_there(story, groups)])
        .checks(counted)
        .advise(advice);
    Some(
        case.verify(
            "`tcpwhy trace drops` shows none with this reason, and the connections succeed.",
        ),
    )
}

/// Ends of this host that sent these packets: none if they came in. The kernel does not give the direction of a packet,
/// but its source address shows it.
fn leaving(story: &Story, netns: u32, groups: &[&Group]) -> Vec<ConnId> {
    let own = |c: &Conn| {
        let mut remotes = groups.iter().flat_map(|g| &g.remotes);
        remotes.any(|r| r.addr == c.local.addr)
    };
    let sent = |c: &Conn| own(c) && story.dropped(c) > 0;
    let ends = story.of_netns(netns).filter(|(_, c)| sent(c));
    ends.map(|(id, _)| id).collect()
}

/// Whether the namespace had the packets' destination as an address of its own: connections of it are known.
fn had_address(story: &Story, netns: u32, ways: &BTreeSet<Ends>, groups: &[&Group]) -> bool {
    let opening = groups.iter().map(|g| g.local.addr);
    let ways = ways.iter().map(|(_, to)| to.addr);
    let to: BTreeSet<Addr> = opening.chain(ways).collect();
    let mut own = story.of_netns(netns).map(|(_, c)| c.local.addr);
    own.any(|addr| to.contains(&addr))
}

/// From one end to the other.
type Ends = (Endpoint, Endpoint);

/// The ways of packets of connections that the namespace dropped for this.
fn ways(story: &Story, netns: u32, why: Why) -> BTreeSet<Ends> {
    let all = story.drops.all();
    let here = all.filter(|((n, ..), dropped)| {
        let its = dropped.reason.as_deref().and_then(Why::of_reason);
        *n == netns && its == Some(why)
    });
    here.map(|((_, from, to), _)| (*from, *to)).collect()
}

/// Ends in other namespaces of this host whose packets came in here and were dropped.
fn senders<'a>(story: &'a Story, ways: &BTreeSet<Ends>) -> Vec<&'a Conn> {
    let to: BTreeSet<Endpoint> = ways.iter().map(|(_, to)| *to).collect();
    let there = to.into_iter().flat_map(|at| story.to(at)).map(|(_, c)| c);
    there
        .filter(|c| ways.contains(&(c.local, c.remote)))
        .collect()
}

/// Unanswered connects of this host to the same places.
fn lost_by(story: &Story, groups: &[&Group]) -> Lost {
    let there = |c: &Conn| {
        groups
            .iter()
            .any(|g| g.local.port != 0 && g.local == c.remote)
    };
    let connects = (0..).zip(&story.conns);
    let connects = connects.filter(|(_, c)| c.connects() && there(c));
    let waits = |c: &Conn| c.syn_retries > 0 && c.unreachable().is_none();
    let waited = connects.clone().filter(|(_, c)| waits(c));
    let waited: Vec<ConnId> = waited.map(|(id, _)| id).collect();
    let failed = connects.filter(|(_, c)| c.failed() && !waits(c));
    let failed = Lost::outages(story, failed.map(|(_, c)| c));
    ConnectTimes::of_clients(story, &waited, 0)
        .lost(story, 0)
        .and(failed)
}

/// Clients elsewhere: each SYN that comes again does so after a timeout at least. One that comes once may be forged,
/// which is what rp_filter is for.
fn waited_elsewhere(groups: &[&Group]) -> Lost {
    let opening = groups.iter().filter(|g| g.what == What::SynDropped);
    let again = opening.flat_map(|g| &g.remotes);
    let again = again.map(|r| r.count).filter(|n| *n > 1);
    Lost::elsewhere(again.sum::<u64>().saturating_mul(limits::SYN_TIMEOUT.ns()))
}

/// What a firewall dropped of the connections to the same places.
fn not_firewall_there(story: &Story, groups: &[&Group]) -> RuledOut {
    let there = |g: &&Group| {
        groups
            .iter()
            .any(|of| of.local == g.local && of.netns == g.netns)
    };
    let all = story.packets.all().iter().filter(there);
    let by_rule = all.filter(|g| g.reason.as_deref().is_some_and(is_firewall));
    not_a_rule(by_rule.map(|g| g.count).sum())
}

/// What a firewall of a namespace dropped of the connections to a place.
fn not_firewall(story: &Story, netns: u32, at: Endpoint) -> RuledOut {
    let all = story.drops.all();
    let there = all.filter(|((n, from, to), _)| *n == netns && (*from == at || *to == at));
    not_a_rule(
        there
            .map(|(_, d)| d.of(DropKind::Firewall).map_or(0, |of| of.count))
            .sum(),
    )
}

fn not_a_rule(dropped: u64) -> RuledOut {
    RuledOut::by(
        Id::LOCAL_FIREWALL_DROP,
        say!(
            "firewalls of this host dropped {dropped} there",
            dropped = Quantity::of(dropped, "packet")
        ),
    )
}

/// For connects: hardly a SYN of theirs was dropped for its route or address.
fn no(asked: &Asked) -> Option<Step> {
    if !asked.story.health.has(&SourceName::Drops) {
        return None;
    }
    let place = asked.silent()?;
    let misled = |g: &&&Group| Why::of(g).is_some();
    let dropped: u64 = place.dropped.iter().filter(misled).map(|g| g.count).sum();
    let unanswered = place.times.unanswered_syns();
    (!limits::MOST.reached(dropped, unanswered)).then(|| {
        say!(
            "{dropped_here} of {unanswered} without an answer were dropped here for their route, address or next hop",
            dropped_here = Quantity::count(dropped),
            unanswered = Quantity::of(unanswered, "SYN")
        )
    })
}

/// A route first; switching off the check of the reverse path is for hosts where both ways are meant to differ.
fn advice(scope: &Scope, why: Why, from: &str, is_to: bool) -> Vec<Advice> {
    let at = namespace(&scope.netns);
    let (action, look) = match why {
        Why::ReversePath => (
            format!("Give {at} a route to {from} over the interface on which its packets arrive."),
            shell!("ip route get {from}", from),
        ),
        Why::NoRoute => (
            format!("Give {at} a route for these packets."),
            if is_to {
                shell!("ip route get {from}", from)
            } else {
                shell!("ip route show")
            },
        ),
        Why::NotOurs => (
            format!(
                "If {at} should have the address: give it that again (a failover that went wrong, an address that \
                 was removed), or send the packets to where it is now."
            ),
            shell!("ip address show"),
        ),
        Why::Neighbour => (
            format!("Bring up the next hop of {at}, or give it a route over one that answers."),
            shell!("ip neigh show"),
        ),
    };
    let route = Advice::to(action)
        .by(command_in(&scope.netns, look))
        .at(format!(
            "{at}; the command shows the route that it would take"
        ))
        .risk("A new route also moves other traffic that it matches.")
        .effect("The packets are accepted and answered, or forwarded.")
        .change(Change::RepairPath {
            from: at.clone(),
            to: from.to_string(),
        });
    let name = sysctl::RP_FILTER_ALL;
    let loose = Advice::to(format!(
        "If the routes are meant to be asymmetric: set {name}=2 (loose), which accepts any route back."
    ))
    .by(command_in(&scope.netns, shell!("sysctl -w {name}=2", name)))
    .at(format!("{at}; the larger of this and the interface's own value counts"))
    .risk("A forged source is no longer refused if this host has a route for it.")
    .effect("Packets are accepted on whichever interface they arrive.")
    .change(Change::Sysctl {
        netns: scope.netns.inode,
        name: name.into(),
        value: "2".into(),
    });
    let second = match why {
        Why::ReversePath => Some(loose),
        Why::NotOurs => Some(forward(scope)),
        Why::NoRoute | Why::Neighbour => None,
    };
    std::iter::once(route).chain(second).collect()
}

/// For a host that was meant to pass packets on.
fn forward(scope: &Scope) -> Advice {
    let name = sysctl::IP_FORWARD;
    let at = namespace(&scope.netns);
    Advice::to(format!(
        "If {at} should be a router: set {name}=1 (for IPv6: net.ipv6.conf.all.forwarding=1)."
    ))
    .by(command_in(&scope.netns, shell!("sysctl -w {name}=1", name)))
    .at(at)
    .risk("It forwards whatever its routes and firewall allow.")
    .effect("The packets go on to their destination.")
    .change(Change::Sysctl {
        netns: scope.netns.inode,
        name: name.into(),
        value: "1".into(),
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let says = |lost: u64, rows: Vec<RowRef>, of: u64| {
        say!(
            "{dropped} of {packets} were dropped for their route or neighbour",
            dropped = Quantity::count(lost).rows(rows),
            packets = Quantity::of(of, "packet")
        )
    };
    let mut places: BTreeMap<(u32, Why), Vec<&Group>> = BTreeMap::new();
    for group in whole.story.packets.all() {
        let dropped = matches!(group.what, What::SynDropped | What::Dropped);
        if let Some(why) = Why::of(group).filter(|_| dropped) {
            places.entry((group.netns, why)).or_default().push(group);
        }
    }
    let drops = places.into_iter().map(|((netns, _), groups)| {
        let lost: u64 = groups.iter().map(|g| g.count).sum();
        let of = moved(whole.story, netns).saturating_add(lost);
        let rows = || {
            groups
                .iter()
                .flat_map(|g| g.rows.iter().copied())
                .take(SHOWN_ROWS)
                .collect()
        };
        every([
            Test::events(lost, of, &limits::OFTEN, says(lost, rows(), of)),
            Test::share(lost, of, &limits::ONE_IN_A_THOUSAND, says(lost, rows(), of)),
        ])
    });
    let of = whole.packets();
    let none = || every([Test::events(0, of, &limits::OFTEN, says(0, Vec::new(), of))]);
    let all: Vec<_> = drops.chain(unroutable::refuted(whole.story)).collect();
    Verdict::nearest_or(all, none, NO_PACKET)
}

/// What a namespace sent and received.
fn moved(story: &Story, netns: u32) -> u64 {
    let rise = |name| story.counters.rise(netns, name).by;
    let own = rise(counter::IN_SEGS).saturating_add(rise(counter::OUT_SEGS));
    // Forwarded packets are not among its own segments.
    own.max(rise(counter::IP_IN_RECEIVES))
}

#[cfg(test)]
mod tests;
