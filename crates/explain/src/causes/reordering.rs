//! C21: segments overtake each other on the path, and are retransmitted though none was lost.

use crate::limits;
use crate::places::losses::Losses;
use crate::places::path::{Path, limited, paths, sample_rows};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::REORDERING,
    number: "C21",
    title: "the path changes the order of packets",
    page: include_str!("reordering.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: "20 segments retransmitted in vain, 0.1 % of what is sent",
    signature: &[
        "retransmissions, and no packet is lost",
        "duplicate ACKs and DSACK, spurious retransmissions in Wireshark",
        "slower over a bond or two uplinks than over one",
    ],
    rivals: &[Id::PATH_LOSS, Id::TAIL_LOSS, Id::BUFFERBLOAT],
    explains: &[],
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |story| paths(story).iter().filter_map(judge).collect(),
};

fn no(asked: &Asked) -> Option<Step> {
    let Some(losses) = asked.losses() else {
        return asked.brought();
    };
    let again = losses.lost.saturating_add(losses.spurious);
    (!limits::REORDERED_SHARE.reached(losses.spurious, again)
        || losses.spurious < limits::REORDERED.count())
    .then(|| {
        say!(
            "the receivers had {duplicates} of {retransmitted} already (DSACK)",
            duplicates = Quantity::count(losses.spurious).rows(sample_rows(&losses.ends)),
            retransmitted = Quantity::of(again, "segment")
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    whole.on_paths(|losses| {
        let again = losses.lost.saturating_add(losses.spurious);
        let duplicates = || Quantity::count(losses.spurious).rows(sample_rows(&losses.ends));
        let says = |of: u64| {
            say!(
                "the receivers had {duplicates} of {segments} already (DSACK)",
                duplicates = duplicates(),
                segments = Quantity::of(of, "segment")
            )
        };
        let on_acks = say!(
            "{fast} of {retransmitted} were retransmitted on ACKs, the others on timers",
            fast = Quantity::count(losses.fast).rows(sample_rows(&losses.ends)),
            retransmitted = Quantity::of(again, "segment")
        );
        let of = losses.segments;
        every([
            Test::events(losses.spurious, of, &limits::REORDERED, says(of)),
            Test::share(losses.spurious, of, &limits::LOSS_GOVERNS, says(of)),
            Test::share(
                losses.spurious,
                again,
                &limits::REORDERED_SHARE,
                says(again),
            ),
            Test::share(losses.fast, again, &limits::MOST, on_acks),
        ])
    })
}

fn judge(path: &Path) -> Option<Finding> {
    let (story, losses) = (path.story, path.losses());
    let again = losses.lost.saturating_add(losses.spurious);
    let in_vain = losses.spurious as f64;
    let seen = losses.suffering.iter().map(|e| e.transfer.reordered());
    let seen: u64 = seen.sum();
    // Probes and timeouts in vain are answers that were late, and no segment overtook another.
    let on_acks = limits::MOST.reached(losses.fast, again);
    let enough = losses.spurious >= limits::REORDERED.count()
        && in_vain >= limits::LOSS_GOVERNS.share() * losses.segments as f64
        && in_vain >= limits::REORDERED_SHARE.share() * again as f64;
    if !enough || !on_acks {
        return None;
    }
    let (scope, name, to) = (path.scope(), path.name(), path.to);
    let advice = [find_link(path, &scope.netns), forget_path(&scope.netns, to)];
    let spurious = Quantity::of(losses.spurious, "segment").rows(sample_rows(&losses.suffering));
    let case = Case::new(story, CAUSE, scope)
        .placed(Place::ends(&losses.suffering))
        .title([
            format!("Packets overtake each other on the path {name}: {spurious} retransmitted in vain."),
            format!("Packets overtake each other on the path to {to}."),
        ])
        .fix([
            format!("Keep each connection to {to} on one link (bonds, ECMP, tunnels)."),
            "Keep each connection on one link (bonds, ECMP, tunnels).".into(),
        ])
        .affects(
            impact(path, &losses),
            limited(story, &losses.suffering).happened(losses.spurious, losses.segments),
        )
        .because("the receivers said that they had these segments already (DSACK)")
        .steps([
            losses.retransmitted(),
            say!(
                "The receivers had {spurious} of {retransmitted} already (DSACK): segments behind them had \
                 come first. The senders saw that themselves {reordered}.",
                spurious,
                retransmitted = Quantity::count(again),
                reordered = Quantity::times(seen)
            ),
        ])
        .checks(path.counted_again())
        .checks(dsacks(path, &losses))
        .advise(advice);
    Some(case.verify(
        "`nstat -az TcpExtTCPDSACKRecv TcpExtTCPSACKReorder` no longer rises while data moves.",
    ))
}

fn impact(path: &Path, losses: &Losses) -> Impact {
    let (affected, of) = (losses.suffering.len() as u64, path.ends.len() as u64);
    let says = format!(
        "{} of {} retransmitted segments, {} of {} in vain.",
        Quantity::count(affected),
        Quantity::of(of, "connection"),
        Quantity::count(losses.spurious),
        Quantity::count(losses.lost.saturating_add(losses.spurious))
    );
    Impact::of(affected, of, "connections", says)
}

/// What the sockets count, and the namespace.
fn dsacks(path: &Path, losses: &Losses) -> Option<Check> {
    let counters = &path.story.counters;
    let counted = counters.rise(path.netns, counter::TCP_DSACK_RECV).by;
    let formula = "duplicates that peers reported to the namespace (TCPDSACKRecv) ≥ those of these connections";
    let covered = counters.covers(path.netns);
    covered.then(|| at_least(formula, losses.spurious, counted, "segments"))
}

fn find_link(path: &Path, netns: &Netns) -> Advice {
    let (from, to) = (path.from, path.to);
    Advice::to(format!(
        "Find where packets of one connection take several ways between {from} and {to}: a bond in balance-rr, \
         per-packet load balancing, a tunnel over several links, a path that flaps."
    ))
    .by(command_in(netns, shell!("mtr -T -r -c 1000 {to}", to)))
    .at("both hosts' bonds (/proc/net/bonding), and the routers between them: load balancing per flow")
    .risk("One connection is then as fast as one link.")
    .effect("Segments arrive in order, and what was not lost is not retransmitted.")
    .change(Change::RepairPath {
        from: from.to_string(),
        to: to.to_string(),
    })
}

#[cfg(test)]
mod tests;
