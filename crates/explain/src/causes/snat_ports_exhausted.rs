//! C47: the translated source address has no port left to a destination, so SYNs to it are dropped.

use analysis::words::count;

use crate::limits;
use crate::places::unanswered_syns::places;
use crate::places::untracked_syns::{self, UntrackedSyns, none_failed};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SNAT_PORTS_EXHAUSTED,
    number: "C47",
    title: "the translated address has no port left",
    page: include_str!("snat_ports_exhausted.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: CONNTRACK_DROPS,
    seen_from: "10 dropped SYNs while as many connections to a destination were established as ever",
    signature: &[
        "connects through NAT time out to one destination only",
        "connects of pods take 1 s or more to one address outside",
    ],
    rivals: &[
        Id::CONNTRACK_INSERT_FAILED,
        Id::CONNTRACK_FULL,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
        Id::PORTS_EXHAUSTED,
    ],
    explains: &[],
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |story| {
        let places = places(story);
        let all = places.iter().filter_map(UntrackedSyns::of);
        all.filter(UntrackedSyns::is_exhausted)
            .map(|u| judge(&u))
            .collect()
    },
};

fn no(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    none_failed(place).or_else(|| {
        let untracked = UntrackedSyns::of(place).filter(|u| !u.is_exhausted())?;
        let (least, most) = untracked.held?;
        Some(say!(
            "SYNs were dropped when {held} of the {most} connections that there were at most had an entry, \
             and {lost_twice} of {lost_once} lost a second one: ports were left",
            held = Quantity::count(least).rows(untracked.rows()),
            most = Quantity::count(most),
            lost_twice = Quantity::count(untracked.lost_again.1),
            lost_once = Quantity::of(untracked.lost_again.0, "connect")
        ))
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    untracked_syns::rule_out(whole)
}

fn judge(untracked: &UntrackedSyns) -> Finding {
    let (place, scope) = (untracked.place, untracked.scope());
    let (story, at) = (place.story, place.at);
    let host = namespace(&scope.netns);
    let (least, most) = untracked.held.unwrap_or_default();
    let syns = Quantity::of(untracked.lost, "SYN");
    let advice = advice(untracked, &scope.netns, most);
    let clients = place.clients.iter();
    let rows = clients.filter_map(|id| {
        story
            .conn(*id)
            .filter(|c| c.established_ns.is_some())?
            .row()
    });
    let rows = rows.take(SHOWN_ROWS).collect::<Vec<_>>();
    untracked
        .case(CAUSE, scope)
        .title([
            format!("No port is left to translate connections to {at}: {syns} dropped at {most}."),
            format!("No port is left to translate connections to {at}."),
        ])
        .fix([
            format!("Translate to more addresses or ports, or keep fewer connections to {at}."),
            "Translate to more addresses or ports, or keep fewer connections.".into(),
        ])
        .because("the table counts what it could not insert, always when as many connections were established as ever")
        .steps([
            say!(
                "Whenever {host} dropped one, {held_then} to {at} had an entry, of {held_most} at most: that is \
                 how many ports there are.",
                held_then = Quantity::of(least, "connection").rows(rows),
                held_most = Quantity::count(most)
            ),
            say!(
                "Of {lost_once} that lost a SYN {lost_twice} lost a second one.",
                lost_once = Quantity::of(untracked.lost_again.0, "connect").rows(untracked.rows()),
                lost_twice = Quantity::count(untracked.lost_again.1)
            ),
        ])
        .checks(plateau(untracked))
        .advise(advice)
        .verify(
            "The `insert_failed` column of /proc/net/stat/nf_conntrack no longer rises, and clients \
             connect with one SYN.",
        )
}

/// Two packets that race for an entry do so at any number of connections; a range that is full has one.
fn plateau(untracked: &UntrackedSyns) -> Option<Check> {
    let (least, most) = untracked.held?;
    Some(Check {
        formula: "connections with an entry when a SYN was dropped, at least = the most there were"
            .into(),
        expected: most as f64,
        measured: least as f64,
        unit: "connections".into(),
        agrees: limits::NEARLY_ALL.reached(least, most),
        tolerance: "− 10 %: some end meanwhile".into(),
    })
}

fn advice(untracked: &UntrackedSyns, netns: &Netns, most: u64) -> [Advice; 2] {
    let at = untracked.place.at;
    [
        Advice::to(format!(
            "Let the rule that translates connections to {at} use more addresses, or a wider range of ports: \
             {} are in use.",
            count(most)
        ))
        .by(command_in(netns, shell!("nft -a list table ip nat")))
        .at(sentence!(
            "the NAT rules of {place}; `conntrack -L -d {addr}` shows who holds the ports",
            place = namespace(netns),
            addr = at.addr
        ))
        .risk("Servers that know clients by their address must know the new ones.")
        .effect(format!("Each address more has room for as many as {} again.", count(most)))
        .change(Change::MoreAddresses {
            to: at.to_string(),
            value: 2,
        }),
        Advice::to(format!(
            "Let the clients keep and share connections to {at} instead of opening one for each request, and \
             close what is idle."
        ))
        .at("the configuration of the clients' pools")
        .risk("None.")
        .effect("Fewer ports are taken at a time."),
    ]
}

#[cfg(test)]
pub(crate) mod tests;
