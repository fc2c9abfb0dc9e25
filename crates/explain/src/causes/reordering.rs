//! C21: segments overtake each other on the path, and are spuriously retransmitted.

use std::rc::Rc;

use crate::limits;
use crate::paths::Paths;
use crate::places::losses::Losses;
use crate::places::path::{Path, limited, sample_rows};
use crate::rule::{Known, Rule, Way, from};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::REORDERING,
    number: "C21",
    title: "the path reorders packets",
    page: include_str!("reordering.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: || RULE.told_from(),
    signature: &[
        "retransmissions, and no packet is lost",
        "duplicate ACKs and DSACK, spurious retransmissions in Wireshark",
        "slower over a bond or two uplinks than over one",
    ],
    rivals: &[Id::PATH_LOSS, Id::TAIL_LOSS, Id::BUFFERBLOAT],
    explains: &[],
    told_with: None,
    no: Some(|asked| RULE.no(asked)),
    rule_out: |whole| RULE.rule_out(whole),
    symptom: Some(Symptom::Retransmits),
    find: |whole| RULE.find(whole),
};

const RULE: Rule<Paths> = Rule {
    ways: &[Way {
        tests: &[
            from(
                &limits::OFTEN_TO_ONE,
                "spuriously retransmitted (DSACK)",
                |at| Known::events(at.spurious, at.segments, had_already(at, at.segments)),
            ),
            from(&limits::LOSS_GOVERNS, "of the segments sent", |at| {
                Known::share(at.spurious, at.segments, had_already(at, at.segments))
            }),
            from(&limits::MOST, "of the retransmitted segments", |at| {
                let again = at.retransmitted();
                Known::share(at.spurious, again, had_already(at, again))
            }),
            // Spurious probes and timeouts mean delayed answers: no segment overtook another.
            from(&limits::MOST, "of these on ACKs, not on timers", |at| {
                Known::share(at.fast, at.retransmitted(), on_acks(at))
            }),
        ],
        doubt: None,
    }],
    finding,
};

fn had_already(losses: &Losses, of: u64) -> Step {
    say!(
        "the receivers already had {duplicates} of {segments} (DSACK)",
        duplicates = Quantity::count(losses.spurious).rows(sample_rows(&losses.ends)),
        segments = Quantity::of(of, "segment")
    )
}

fn on_acks(losses: &Losses) -> Step {
    say!(
        "{fast} of {retransmitted} were retransmitted on ACKs, the others on timers",
        fast = Quantity::count(losses.fast).rows(sample_rows(&losses.ends)),
        retransmitted = Quantity::of(losses.retransmitted(), "segment")
    )
}

fn finding(losses: &Rc<Losses>) -> Option<Finding> {
    let (story, path) = (losses.story, losses.path()?);
    let seen = losses.suffering.iter().map(|e| e.transfer.reordered());
    let (again, seen) = (losses.retransmitted(), seen.sum::<u64>());
    let (scope, name, to) = (path.scope(), path.name(), path.to);
    let advice = [
        find_link(&path, &scope.netns),
        forget_path(&scope.netns, to),
    ];
    let spurious = Quantity::of(losses.spurious, "segment").rows(sample_rows(&losses.suffering));
    let case = Case::new(story, CAUSE, scope)
        .placed(Place::ends(&losses.suffering))
        .title([
            format!("Packets are reordered on the path {name}: {spurious} spuriously retransmitted."),
            format!("Packets are reordered on the path to {to}."),
        ])
        .fix([
            format!("Keep each connection to {to} on one link (bonds, ECMP, tunnels)."),
            "Keep each connection on one link (bonds, ECMP, tunnels).".into(),
        ])
        .affects(
            impact(&path, losses),
            limited(story, &losses.suffering).happened(losses.spurious, losses.segments),
        )
        .because("the receivers reported that they already had these segments (DSACK)")
        .steps([
            losses.retransmitted_step(),
            say!(
                "The receivers already had {spurious} of {retransmitted} (DSACK): later segments had arrived first. \
                 The senders detected reordering {reordered}.",
                spurious,
                retransmitted = Quantity::count(again),
                reordered = Quantity::times(seen)
            ),
        ])
        .checks(path.counted_again())
        .checks(dsacks(&path, losses))
        .advise(advice);
    Some(case.verify(
        "`nstat -az TcpExtTCPDSACKRecv TcpExtTCPSACKReorder` no longer rises while data moves.",
    ))
}

fn impact(path: &Path, losses: &Losses) -> Impact {
    let (affected, of) = (losses.suffering.len() as u64, path.ends.len() as u64);
    let says = format!(
        "{} of {} retransmitted segments, {} of {} spuriously.",
        Quantity::count(affected),
        Quantity::of(of, "connection"),
        Quantity::count(losses.spurious),
        Quantity::count(losses.retransmitted())
    );
    Impact::of(affected, of, "connections", says)
}

/// What the sockets count, and what the namespace does.
fn dsacks(path: &Path, losses: &Losses) -> Option<Check> {
    let counters = &path.story.counters;
    let counted = counters.rise(path.netns, counter::TCP_DSACK_RECV).by;
    let formula = "duplicates that peers reported to the namespace (TCPDSACKRecv) ≥ duplicates of these connections";
    let covered = counters.covers(path.netns);
    covered.then(|| at_least(formula, losses.spurious, counted, "segments"))
}

fn find_link(path: &Path, netns: &Netns) -> Advice {
    let (from, to) = (path.from, path.to);
    Advice::to(format!(
        "Find where packets of one connection take different paths between {from} and {to}: a bond in balance-rr, \
         per-packet load balancing, a tunnel over several links, a route that flaps."
    ))
    .by(command_in(netns, shell!("mtr -T -r -c 1000 {to}", to)))
    .at("both hosts' bonds (/proc/net/bonding), and the routers between them: balance per flow")
    .risk("One connection is then limited to the rate of one link.")
    .effect("Segments arrive in order, and only lost segments are retransmitted.")
    .change(Change::RepairPath {
        from: from.to_string(),
        to: to.to_string(),
    })
}

#[cfg(test)]
mod tests;
