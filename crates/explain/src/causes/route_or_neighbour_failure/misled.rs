//! Packets that come to a namespace of this host with addresses that cannot be right there: its own as their source, a
//! loopback address, or another machine's hardware address.

use recording::drop_reason::DropKind;

use super::CAUSE;
use crate::limits;
use crate::places::dropped_here::{DroppedHere, DroppedWay, places};
use crate::vocabulary::*;

/// What is wrong with them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// They come back to the namespace that sent them.
    Hairpin,
    /// Somebody else sends with its address.
    OwnSource,
    /// An address that may not stand there.
    Martian,
    /// The right address in a frame for another machine.
    Frame,
}

impl Wrong {
    const ALL: [Wrong; 4] = [
        Wrong::Hairpin,
        Wrong::OwnSource,
        Wrong::Martian,
        Wrong::Frame,
    ];

    fn of(story: &Story, netns: u32, way: &DroppedWay) -> Option<Wrong> {
        match way.of.kind {
            DropKind::OwnSource => {
                let sender = way.sender.and_then(|id| story.conn(id));
                let own = sender.is_some_and(|c| c.netns == netns);
                Some(if own {
                    Wrong::Hairpin
                } else {
                    Wrong::OwnSource
                })
            }
            DropKind::Martian => Some(Wrong::Martian),
            // Copies of what is meant for others come to many.
            DropKind::OtherHost => is_ours(story, netns, way).then_some(Wrong::Frame),
            _ => None,
        }
    }
}

/// Whether the namespace has the destination as an address, and nobody else on this host got the packet: a connection
/// that goes on has had its packets another way.
fn is_ours(story: &Story, netns: u32, way: &DroppedWay) -> bool {
    let addr = way.to.addr;
    let ours = story.addresses.has(netns, addr)
        || story.of_netns(netns).any(|(_, c)| c.local.addr == addr);
    let suffers = |id| {
        let conn = story.conn(id)?;
        let resent = story.transfers.of(id).map_or(0, |t| t.resends.count());
        let waits = conn.syn_retries > 0 || conn.failed() || resent > 0;
        Some(waits)
    };
    let sender = way.sender.and_then(suffers);
    ours && sender.unwrap_or(way.of.count > 1)
}

pub(super) fn find(story: &Story) -> Vec<Finding> {
    let kinds = [DropKind::OwnSource, DropKind::Martian, DropKind::OtherHost];
    let places = places(story, &kinds);
    let parts = places.iter().flat_map(|place| {
        Wrong::ALL.into_iter().filter_map(|wrong| {
            let part = place.with(|way| Wrong::of(story, place.netns, way) == Some(wrong))?;
            judge(&part, wrong)
        })
    });
    parts.collect()
}

fn judge(place: &DroppedHere, wrong: Wrong) -> Option<Finding> {
    let story = place.story;
    let lost = place.lost(1.0);
    // Whoever waits makes it a case; of strangers, several.
    if lost.claimed() == 0 && place.count() < limits::OFTEN.count() {
        return None;
    }
    let most = place.ways.iter().max_by_key(|way| way.of.count)?;
    let (from, to) = (most.from.addr, most.to.addr);
    let dropping = story.netns(place.netns);
    let here = namespace(&dropping);
    let packets = Quantity::of(place.count(), "packet");
    let at = place.at;
    let title = match wrong {
        Wrong::Hairpin => format!(
            "Packets to {at} come back to their own sender: {packets} dropped, a hairpin without masquerade."
        ),
        Wrong::OwnSource => format!(
            "Packets come to {here} with its own address {from} as their source: {packets} dropped."
        ),
        Wrong::Martian => {
            format!("Packets from {from} to {to} may not come to {here}: {packets} dropped.")
        }
        Wrong::Frame => format!(
            "Packets to {at} come with another machine's hardware address: {packets} dropped by the host that has {to}."
        ),
    };
    let fix = match wrong {
        Wrong::Hairpin => format!(
            "Masquerade what goes from {from} over {at} back to {from}, where {at} is translated."
        ),
        Wrong::OwnSource => {
            format!("Find the other machine that uses {from}, or the translation that gives it.")
        }
        Wrong::Martian => {
            format!("Have {from} send with another address, or correct the translation to {to}.")
        }
        Wrong::Frame => format!(
            "Flush the neighbour entry of {to} on {from}, and find who else answers for {to}."
        ),
    };
    let waited = lost.or(|| place.lost_elsewhere());
    let missed = waited.claimed() > 0;
    let says = format!(
        "{packets} of {} were dropped here.",
        Quantity::of(place.affected(), "connection")
    );
    let rise = story
        .counters
        .rise(place.netns, counter::IP_REVERSE_PATH_FILTER);
    let case = Case::new(story, CAUSE, place.scope())
        .noted((!missed).then_some("no client is known to have waited for them"))
        .placed(place.place())
        .title([title.clone(), title])
        .fix([fix.clone(), fix])
        .affects(place.impact(says), waited)
        .because("the kernel gives it as the reason of each drop")
        .at_most_if(
            Level::Medium,
            place.senders.is_empty(),
            "the senders are not on this host: the cost to them was not seen",
        )
        .steps([place.step()])
        .steps((wrong != Wrong::Frame && story.counters.covers(place.netns)).then(|| {
            say!(
                "It is not rp_filter, which dropped {rp_filtered} in {here} (IPReversePathFilter).",
                rp_filtered = Quantity::of(rise.by, "packet").rows(rise.rows())
            )
        }))
        .rules_out([super::not_firewall(story, place.netns, place.at)])
        .checks(place.senders.first().map(|_| {
            let formula = "packets dropped ≥ half of what their senders retransmitted";
            at_least(formula, place.retransmitted() / 2, place.count(), "packets")
        }))
        .advise([advice(&dropping, wrong, most, at)]);
    let case = match place.since() {
        Some(since) => case.since(since),
        None => case,
    };
    Some(case.verify(sentence!(
        "`tcpwhy trace drops` shows none with this reason, and connects to {at} succeed.",
        at
    )))
}

fn advice(dropping: &Netns, wrong: Wrong, way: &DroppedWay, at: Endpoint) -> Advice {
    let here = namespace(dropping);
    let (from, to) = (way.from.addr, way.to.addr);
    let (action, look, at) = match wrong {
        Wrong::Hairpin => (
            format!(
                "Where {at} is translated to {to}: masquerade connections whose source and translated destination are the \
                 same (kube-proxy: hairpinMode; docker: userland-proxy or hairpin_mode), or have the program use its own \
                 address."
            ),
            shell!("conntrack -L -d {to}", to),
            "the host that translates: `nft list ruleset` or `iptables-save -t nat` shows the rule"
                .to_string(),
        ),
        Wrong::OwnSource => (
            format!(
                "Find the machine or the translation that sends with {from}, which {here} has itself."
            ),
            shell!("ip address show"),
            format!("{here}, and its neighbours"),
        ),
        Wrong::Martian => (
            format!(
                "Find what sends from {from} to {to}: a loopback address on the wire is dropped unless route_localnet allows \
                 it on the interface."
            ),
            shell!("ip route get {from}", from),
            here,
        ),
        Wrong::Frame => (
            format!(
                "Compare the hardware address that {from} has for {to} with that of {here}: flush the neighbour entry there, send \
                 a gratuitous ARP from {here}, and look for a second machine with {to}."
            ),
            shell!("ip link show"),
            format!(
                "{here}, whose link addresses the command shows, and the neighbour entry on the sender's host"
            ),
        ),
    };
    Advice::to(action)
        .by(command_in(dropping, look))
        .at(at)
        .risk("A rule that masquerades hides the clients' addresses from the service; the commands only read.")
        .effect("The packets are accepted and answered.")
        .change(Change::RepairPath {
            from: from.to_string(),
            to: to.to_string(),
        })
}
