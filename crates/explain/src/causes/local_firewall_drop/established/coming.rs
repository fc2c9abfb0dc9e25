//! Packets of established connections that a firewall of this host drops as they arrive, and whose senders are on other
//! hosts: what that costs them is not seen here.

use super::{CAUSE, Walled};
use crate::limits;
use crate::places::path::{End, sample_rows};
use crate::vocabulary::*;

/// Its peer is elsewhere, and most of what arrives is data: the next acknowledgement makes up for a dropped one.
fn receives(end: &&End) -> bool {
    let t = end.transfer;
    end.conn.peer.is_none() && came(end) > t.segments()
}

/// Data segments received, without the dropped ones.
fn came(end: &End) -> u64 {
    end.transfer
        .received()
        .div_ceil(end.transfer.mss.max(1).into())
}

pub(super) fn judge(walled: &Walled) -> Option<Finding> {
    let Walled { story, at, .. } = walled;
    let ends = walled.ends.iter().zip(&walled.dropped);
    let (ends, dropped) = ends.filter(|(end, _)| receives(end)).unzip();
    let walled = Walled {
        ends,
        dropped,
        ..*walled
    };
    let dropped: u64 = walled.dropped.iter().map(|d| d.by_firewall).sum();
    let came: u64 = walled.ends.iter().map(came).sum();
    let of = dropped.saturating_add(came);
    let share = dropped as f64 / of.max(1) as f64;
    if dropped < limits::OFTEN_TO_ONE.count() || share < limits::LOSS_GOVERNS.share() {
        return None;
    }
    let rules = story.netns(walled.netns);
    let rules_of = namespace(&rules);
    let affected = walled.ends.len() as u64;
    let packets = Quantity::of(dropped, "packet");
    let says = format!(
        "{} from other hosts had packets dropped by a firewall; each waited until its sender retransmitted them.",
        Quantity::of(affected, "connection"),
    );
    let share = Quantity::share(share);
    let case = Case::new(story, CAUSE, walled.scope(&rules)?)
        .title([
            format!("A firewall here drops packets that come to {at}: {packets}, {share} of them."),
            format!("A firewall here drops packets that come to {at}: {packets}."),
        ])
        .fix([
            format!("Let the rules of {rules_of} pass established connections to {at}."),
            format!("Let the firewall pass established connections to {at}."),
        ])
        .affects(
            Impact::of(affected, affected, "connections", says),
            Lost::unknown(),
        )
        .because(
            "the kernel reports that its firewall dropped the packets, on which connections, and where",
        )
        .at_most_if(
            Level::Medium,
            true,
            "the senders are not on this host: the cost to them was not seen",
        )
        .steps([
            walled.dropped_step(dropped),
            say!(
                "{passed} of the data that came for these connections passed: {share} was dropped.",
                passed = Quantity::of(came, "segment").rows(sample_rows(&walled.ends)),
                share
            ),
        ])
        .advise([super::advice(&rules, *at)]);
    Some(case.verify(sentence!(
        "`tcpwhy trace drops` shows no packet for {at}.",
        at
    )))
}
