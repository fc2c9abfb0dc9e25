//! C47: the translated source address has no port left to a destination, so SYNs to it are dropped.

use analysis::words::count;

use crate::limits;
use crate::places::tracking::{AGAIN, DROPPED, NO_PORT_LEFT, NOT_INSERTED, Tracked, Tracking};
use crate::rule::{Rule, Way};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SNAT_PORTS_EXHAUSTED,
    number: "C47",
    title: "the translated address has no port left",
    page: include_str!("snat_ports_exhausted.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: CONNTRACK_DROPS,
    seen_from: || RULE.told_from(),
    signature: &[
        "connects through NAT time out to one destination only",
        "connects from pods to one external address take 1 s or more",
    ],
    rivals: &[
        Id::CONNTRACK_INSERT_FAILED,
        Id::CONNTRACK_FULL,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
        Id::PORTS_EXHAUSTED,
    ],
    explains: &[],
    told_with: None,
    no: Some(|asked| RULE.no(asked)),
    rule_out: |whole| RULE.rule_out(whole),
    symptom: Some(Symptom::Connects),
    find: |whole| RULE.find(whole),
};

const RULE: Rule<Tracked> = Rule {
    ways: &[Way {
        tests: &[DROPPED, NOT_INSERTED, NO_PORT_LEFT, AGAIN],
        doubt: None,
    }],
    finding,
};

fn finding(tracking: &Tracking) -> Option<Finding> {
    let (story, place) = (tracking.story, tracking.syns.as_ref()?);
    let (at, scope) = (place.at, tracking.scope(place));
    let host = namespace(&scope.netns);
    let (least, most) = tracking.held?;
    let syns = Quantity::of(tracking.lost, "SYN");
    let advice = advice(at, &scope.netns, most);
    let clients = place.clients.iter();
    let rows = clients.filter_map(|id| {
        story
            .conn(*id)
            .filter(|c| c.established_ns.is_some())?
            .row()
    });
    let rows = rows.take(SHOWN_ROWS).collect::<Vec<_>>();
    let case = tracking
        .case(place, CAUSE, scope)
        .title([
            format!("No port is left to translate connections to {at}: {syns} dropped at {most}."),
            format!("No port is left to translate connections to {at}."),
        ])
        .fix([
            format!("Translate to more addresses or ports, or keep fewer connections to {at}."),
            "Translate to more addresses or ports, or keep fewer connections.".into(),
        ])
        .because("insert_failed rose, always while the connection count to a destination was at its maximum")
        .steps(tracking.counted())
        .steps([
            say!(
                "Whenever {host} dropped one, {held_then} to {at} had an entry, of {held_most} at most: that is the \
                 number of ports.",
                held_then = Quantity::of(least, "connection").rows(rows),
                held_most = Quantity::count(most)
            ),
            say!(
                "{lost_twice} of {lost_once} that lost a SYN lost a second one.",
                lost_once = Quantity::of(tracking.lost_again.0, "connect").rows(tracking.rows()),
                lost_twice = Quantity::count(tracking.lost_again.1)
            ),
        ])
        .checks(plateau(least, most))
        .advise(advice);
    Some(case.verify(
        "The `insert_failed` column of /proc/net/stat/nf_conntrack no longer rises, and clients connect with one SYN.",
    ))
}

/// Two packets race for an entry at any number of connections; a full range has one such number.
fn plateau(least: u64, most: u64) -> [Check; 1] {
    [Check {
        formula: "least connections with an entry when a SYN was dropped = the maximum".into(),
        expected: most as f64,
        measured: least as f64,
        unit: "connections".into(),
        agrees: limits::NEARLY_ALL.reached(least, most),
        tolerance: "− 10 %: some end meanwhile".into(),
    }]
}

fn advice(at: Endpoint, netns: &Netns, most: u64) -> [Advice; 2] {
    [
        Advice::to(format!(
            "Give the rule that translates connections to {at} more addresses, or a wider range of ports: {} are in \
             use.",
            count(most)
        ))
        .by(command_in(netns, shell!("nft -a list table ip nat")))
        .at(sentence!(
            "the NAT rules of {place}; `conntrack -L -d {addr}` shows which clients hold the ports",
            place = namespace(netns),
            addr = at.addr
        ))
        .risk("Servers that identify clients by address must learn the new ones.")
        .effect(format!("Each additional address adds {} ports.", count(most)))
        .change(Change::MoreAddresses {
            to: at.to_string(),
            value: 2,
        }),
        Advice::to(format!(
            "Have the clients keep and share connections to {at} instead of opening one for each request, and close \
             idle ones."
        ))
        .at("the configuration of the clients' pools")
        .risk("None.")
        .effect("Fewer ports are in use at a time."),
    ]
}

#[cfg(test)]
pub(crate) mod tests;
