//! The chain of a forged reset: who got it, what it answered, what the other end did.

use analysis::words::{bytes, list};

use super::Site;
use crate::vocabulary::*;

pub(super) fn steps(site: &Site) -> Vec<Step> {
    let steps = [refused(site), broken(site), firewall(site), other_end(site)];
    steps.into_iter().flatten().collect()
}

fn refused(site: &Site) -> Option<Step> {
    let (at, n) = (site.at, site.ends.refused.len() as u64);
    let of = site.story.all(&site.ends.refused);
    let rows = of.filter_map(|(_, c)| c.refused.map(RowRef::from));
    let refused = Quantity::of(n, "connect").rows(rows.take(SHOWN_ROWS));
    (n > 0).then(|| {
        say!(
            "{refused} to {at} got a reset in answer to the SYN.",
            refused
        )
        .number("tried", site.of())
    })
}

fn broken(site: &Site) -> Option<Step> {
    let (at, broken) = (site.at, &site.ends.broken);
    let got = &site.story.resets.received;
    let rows = broken.iter().filter_map(|id| Some(got.get(id)?.row()));
    let n = broken.len() as u64;
    let moved = |of: fn(&Conn) -> u64| {
        let ends = site.story.all(broken);
        bytes(ends.map(|(_, c)| of(c)).fold(0, u64::saturating_add))
    };
    let (received, sent) = (moved(|c| c.bytes_received), moved(|c| c.bytes_acked));
    let broken = Quantity::of(n, "established connection").rows(rows.take(SHOWN_ROWS));
    (n > 0).then(|| {
        say!(
            "{broken} with {at} got a reset, after {received} received and {sent} sent in total.",
            broken
        )
        .number("connections", site.of())
    })
}

fn firewall(site: &Site) -> Option<Step> {
    let netns = namespace(&site.story.netns(site.firewall()?));
    let mut places: Vec<String> = Vec::new();
    for location in site.rejected.iter().filter_map(|r| r.location.as_deref()) {
        if places.len() < SHOWN_ROWS && places.iter().all(|known| known != location) {
            places.push(location.to_string());
        }
    }
    let by = if places.is_empty() {
        String::new()
    } else {
        format!(" in {}", list(&places))
    };
    let rows = site.rejected.iter().map(|r| r.row()).take(SHOWN_ROWS);
    let rejected = Quantity::count(site.rejected.len() as u64).rows(rows);
    Some(say!(
        "At the same moment the firewall of {netns} dropped the packet that {rejected} of these resets \
         answer (NETFILTER_DROP{by}).",
        rejected
    ))
}

/// What the kernel at the server's end reports of it.
fn other_end(site: &Site) -> Option<Step> {
    let resets = Quantity::of(site.ends.count(), "reset");
    let step = Step::new(format!(
        "The other end is on this host, and its kernel sent none of these {resets}."
    ));
    let step = step.number("sent", 0u64).rows(site.ends.server_rows());
    site.ends.server_here().then_some(step)
}
