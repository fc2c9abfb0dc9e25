//! A namespace of this host drops packets that exceed an MTU, and their senders never learn: the narrow link is here.

use analysis::words::count;
use recording::drop_reason::DropKind;

use super::CAUSE;
use crate::limits;
use crate::places::dropped_here::{DroppedHere, DroppedWay, places};
use crate::vocabulary::*;

const KINDS: &[DropKind] = &[DropKind::TooBig];

/// The namespaces whose narrow link swallows packets.
pub(super) fn findings(story: &Story) -> Vec<Finding> {
    let places = places(story, KINDS);
    let untold = places
        .iter()
        .filter_map(|p| p.with(|way| is_untold(story, way)));
    untold.filter_map(|place| judge(&place)).collect()
}

/// Whether the sender goes on with packets of that size: path MTU discovery takes a round trip and no timeout.
fn is_untold(story: &Story, way: &DroppedWay) -> bool {
    let repeated = way.of.count > 1 && way.span_ns() >= limits::FIRST_RTO.ns();
    let timed_out = way.ends(story).any(|end| {
        let stall = &end.transfer.stall;
        stall.before > 0 || stall.timeouts >= limits::FAILED_BESIDE.count()
    });
    repeated || timed_out
}

fn judge(place: &DroppedHere) -> Option<Finding> {
    let story = place.story;
    let narrow = story.netns(place.netns);
    let (here, at) = (namespace(&narrow), place.at);
    let most = place.ways.iter().max_by_key(|way| way.of.count)?;
    let (from, to) = (most.from.addr, most.to.addr);
    let n = place.affected();
    let connections = Quantity::of(n, "connection");
    let hang = if n == 1 { "hangs" } else { "hang" };
    let lost = place.lost(1.0).or(|| place.lost_elsewhere());
    let seen = lost.elsewhere_ns() == 0;
    let says = format!(
        "{connections} {hang}: their full packets exceed the MTU in {here}, and the ICMP error that says so does not \
         reach the sender."
    );
    let sender = place
        .conns()
        .map(|c| c.netns)
        .next()
        .map(|netns| story.netns(netns));
    let case = Case::new(story, CAUSE, place.scope())
        .layer(Layer::ThisHost)
        .placed(place.place())
        .title([
            format!("{here} drops packets to {to} that exceed its MTU, and the sender is not told: {connections} {hang}."),
            format!("Packets to {to} exceed an MTU of this host, and the sender is not told: {connections} {hang}."),
        ])
        .fix([
            format!("Let ICMP \"fragmentation needed\" get from {here} to {from}, or clamp the MSS there."),
            "Let ICMP \"fragmentation needed\" pass, or clamp the MSS.".into(),
        ])
        .affects(place.impact(says), lost)
        .because(format!(
            "the kernel gives the MTU as the reason of {} drops, and the same connections sent on in that size",
            count(place.count())
        ))
        .at_most_if(
            Level::Medium,
            !seen,
            "the senders are not on this host: the cost to them was not seen",
        )
        .steps([place.step()])
        .steps(sizes_step(place))
        .checks(seen.then(|| {
            let timeouts: u64 = place.ways.iter().flat_map(|w| w.ends(story)).map(|e| e.transfer.stall.timeouts).sum();
            let formula = "packets dropped for their size ≥ half of the timeouts of these connections";
            at_least(formula, timeouts / 2, place.count(), "packets")
        }))
        .advise([icmp(&narrow, sender.as_ref(), place), clamp(&narrow, place)]);
    let case = match place.since() {
        Some(since) => case.since(since),
        None => case,
    };
    Some(case.verify(sentence!(
        "`tcpwhy trace drops` shows no packet for {at} with PKT_TOO_BIG, and large answers come whole.",
        at
    )))
}

/// What size they go on with.
fn sizes_step(place: &DroppedHere) -> Option<Step> {
    let story = place.story;
    let stuck = place
        .ways
        .iter()
        .flat_map(|w| w.ends(story))
        .filter_map(|e| e.transfer.stall.seen);
    let largest = stuck.max_by_key(|s| s.pmtu)?;
    Some(say!(
        "Their senders still take the path for one of {pmtu} a packet, and sent segments of {mss}.",
        pmtu = Quantity::of(u64::from(largest.pmtu), "byte").rows([largest.row]),
        mss = Quantity::of(u64::from(largest.mss), "byte")
    ))
}

fn icmp(narrow: &Netns, sender: Option<&Netns>, place: &DroppedHere) -> Advice {
    let here = namespace(narrow);
    let to_whom = sender.map_or("the senders' host".into(), namespace);
    Advice::to(format!(
        "Find the rule that drops ICMP type 3 code 4 (IPv6: type 2) on its way from {here} to {to_whom}, and let it pass."
    ))
    .by(command_in(narrow, shell!("nft -a list ruleset")))
    .at(format!("{here} (output), {to_whom} (input), and what lies between them"))
    .risk("Forged ICMP can lower the MTU of a path, though TCP checks it against the data in flight.")
    .effect("Senders learn the size that fits from the first packet that is too large.")
    .change(Change::PassPackets {
        netns: Some(narrow.inode),
        at: place.at.to_string(),
    })
}

fn clamp(narrow: &Netns, place: &DroppedHere) -> Advice {
    Advice::to(format!(
        "Or clamp the MSS of connections with {} to the MTU, in the forward chain: `tcp flags syn tcp option maxseg size set \
         rt mtu`.",
        place.at
    ))
    .by(command_in(narrow, shell!("ip -d link show")))
    .at(format!("{}; the command shows the MTU of each link", namespace(narrow)))
    .risk("More and smaller packets. Open connections are not changed; UDP is not helped.")
    .effect("Both sides agree on segments that fit.")
}
