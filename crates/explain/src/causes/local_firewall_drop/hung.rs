//! A firewall of this host drops what an established connection sends, and the connection hangs: one is enough, whatever
//! the count.

use recording::drop_reason::DropKind;

use super::CAUSE;
use crate::limits;
use crate::places::dropped_here::{DroppedHere, DroppedWay, places};
use crate::places::path::End;
use crate::vocabulary::*;

/// Why nothing is found where only SYNs of strangers are dropped.
const STRANGERS: &str = "no end of these connections is on this host: a firewall may be meant to keep their clients out";

/// The places where something hangs.
pub(super) fn findings(story: &Story) -> Vec<Finding> {
    let places = places(story, &[DropKind::Firewall]);
    let hung = places.iter().filter_map(|place| {
        let hangs = |way: &DroppedWay| hangs(place.story, way) || passes_by(way) && !way.is_syns();
        place.with(hangs).map(|hung| judge(&hung))
    });
    let kept_out = places.iter().filter_map(|place| {
        let syns = |way: &DroppedWay| passes_by(way) && way.is_syns();
        place.with(syns).map(|place| kept_out(&place))
    });
    hung.chain(kept_out).collect()
}

/// Whether neither end is on this host, as at a router, and its sender hangs: one packet was dropped as often as it was
/// sent.
fn passes_by(way: &DroppedWay) -> bool {
    let again = way.of.again;
    let elsewhere = way.sender.is_none() && way.receiver.is_none();
    elsewhere
        && again.count >= limits::FAILED_AGAIN.count()
        && again.span_ns() >= limits::STALL.ns()
}

/// Whether the connection hangs, and the rule drops what would end that: each retransmission, or each answer to one.
fn hangs(story: &Story, way: &DroppedWay) -> bool {
    if way.is_syns() {
        return false;
    }
    let known = way.ends(story).next().is_some();
    // A rule of the output makes the sender's transmit fail: nothing is in flight, no retransmission follows.
    if way.held_ns(story) >= limits::STALL.ns() {
        return true;
    }
    let ends = way.ends(story);
    let retries: u64 = ends.map(|end| end.transfer.stall.timeouts).sum();
    let dropped = limits::MOST.reached(way.of.count, retries);
    let repeats = way.ends(story).any(|end| {
        let stall = &end.transfer.stall;
        let tried = stall.before > 0 || stall.timeouts >= limits::FAILED_BESIDE.count();
        tried && end.stuck(story).is_some()
    });
    // The sender is elsewhere: it retries, and nothing of it has come since.
    let heard = |end: End| {
        let last = story.samples(end.conn).and_then(|s| s.last.heard_ns);
        last.is_none_or(|at| at > way.of.first_ns)
    };
    let from_elsewhere = way.sender.is_none()
        && way.of.count >= limits::FAILED_AGAIN.count()
        && way.span_ns() >= limits::STALL.ns();
    known && (repeats && dropped || from_elsewhere && !way.ends(story).any(heard))
}

/// Connects between other hosts, which a rule here keeps from being answered.
fn kept_out(place: &DroppedHere) -> Finding {
    let story = place.story;
    let rules = story.netns(place.netns);
    let (rules_of, at) = (namespace(&rules), place.at);
    let connects = Quantity::of(place.affected(), "connect");
    let packets = Quantity::of(place.count(), "SYN");
    let scope = Scope {
        resource: Some(format!("firewall of {rules_of}")),
        ..place.scope()
    };
    Case::new(story, CAUSE, scope)
        .placed(place.place())
        .noted(Some(STRANGERS))
        .title([
            format!("A firewall here drops each SYN of {connects} to {at}: {packets}."),
            format!("A firewall here drops SYNs to {at}: {packets}."),
        ])
        .fix([
            format!(
                "Let the rules of {rules_of} pass SYNs to {at}, if its clients shall reach it."
            ),
            format!("Let the firewall pass SYNs to {at}."),
        ])
        .affects(
            place.impact(format!("{connects} between other hosts got no answer.")),
            place.lost_elsewhere(),
        )
        .because("the kernel reports that its firewall dropped the SYNs, and where")
        .at_most(
            Level::Medium,
            "the clients are not on this host: the cost to them was not seen",
        )
        .steps([place.step()])
        .advise([super::established::advice(&rules, at)])
        .verify(sentence!("`tcpwhy trace drops` shows no SYN to {at}.", at))
}

fn judge(place: &DroppedHere) -> Finding {
    let story = place.story;
    let rules = story.netns(place.netns);
    let (rules_of, at) = (namespace(&rules), place.at);
    let (packets, n) = (Quantity::of(place.count(), "packet"), place.affected());
    let connections = Quantity::of(n, "connection");
    let hang = if n == 1 { "hangs" } else { "hang" };
    let lost = place.lost(1.0).or(|| place.lost_elsewhere());
    let seen = lost.elsewhere_ns() == 0;
    let says = format!(
        "{connections} {hang}: what would go on is dropped by a rule here, time and again."
    );
    let scope = Scope {
        resource: Some(format!("firewall of {rules_of}")),
        ..place.scope()
    };
    let drops_check = seen.then(|| {
        let timeouts: u64 = place
            .ways
            .iter()
            .flat_map(|way| way.ends(story))
            .map(|e| e.transfer.stall.timeouts)
            .sum();
        let formula = "packets that the firewall dropped ≥ half of the timeouts seen";
        at_least(formula, timeouts / 2, place.count(), "packets")
    });
    let case = Case::new(story, CAUSE, scope)
        .placed(place.place())
        .title([
            format!("A firewall here drops packets of connections to {at}: {connections} {hang}, {packets} dropped."),
            format!("A firewall here drops packets of connections to {at}: {connections} {hang}."),
        ])
        .fix([
            format!("Let the rules of {rules_of} pass established connections to {at}."),
            format!("Let the firewall pass established connections to {at}."),
        ])
        .affects(place.impact(says), lost)
        .because("the kernel reports that its firewall dropped the packets of what hangs, and where")
        .at_most_if(
            Level::Medium,
            !seen,
            "the senders are not on this host: the cost to them was not seen",
        )
        .steps([place.step()])
        .checks(drops_check)
        .advise([super::established::advice(&rules, at)]);
    let case = match place.since() {
        Some(since) => case.since(since),
        None => case,
    };
    case.verify(sentence!(
        "`tcpwhy trace drops` shows no packet for {at}, and what hung goes on.",
        at
    ))
}
