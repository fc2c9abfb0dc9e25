//! C59: packets arrive damaged: a checksum or a header is wrong, and this host drops them.

use analysis::ConnId;
use recording::Addr;
use recording::drop_reason::DropKind;

use crate::limits;
use crate::places::dropped_here::{DroppedHere, places};
use crate::places::losses::Losses;
use crate::places::path::{End, limited};
use crate::places::unanswered_syns::UnansweredSyns;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::DAMAGED_PACKETS,
    number: "C59",
    title: "packets arrive damaged",
    page: include_str!("damaged_packets.md"),
    layer: Layer::Network,
    ground: Ground::Connections,
    needs: &[&[SourceName::Drops]],
    seen_from: || {
        "5 packets with a wrong checksum or header, a tenth of what was retransmitted; 20 and 0.1 % where the senders \
         are on other hosts"
            .into()
    },
    signature: &[
        "TcpInCsumErrors, TcpInErrs or IpInHdrErrors rise in nstat",
        "loss with empty queues, and the receiver's host counts errors, not drops",
        "tcpdump -vv says cksum incorrect for packets that come in",
    ],
    rivals: &[
        Id::LOCAL_FIREWALL_DROP,
        Id::QDISC_DROP,
        Id::RECEIVE_BACKLOG_DROP,
    ],
    explains: &[Id::PATH_LOSS, Id::TAIL_LOSS, Id::PATH_DROPS_SYN],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| {
        let places = places(whole.story, KINDS);
        places.iter().filter_map(judge).collect::<Vec<_>>().into()
    },
};

const KINDS: &[DropKind] = &[DropKind::Damaged];

fn no(asked: &Asked) -> Option<Step> {
    if !asked.story.health.has(&SourceName::Drops) {
        return None;
    }
    match asked.losses() {
        Some(losses) => no_data_damaged(asked.story, losses),
        None => no_syn_damaged(asked.silent()?),
    }
}

/// For ends that send to receivers on this host: elsewhere nobody looked at their checksums.
fn no_data_damaged(story: &Story, losses: &Losses) -> Option<Step> {
    if losses.ends.iter().any(|e| e.conn.peer.is_none()) {
        return None;
    }
    let ids: Vec<ConnId> = losses.ends.iter().map(|e| e.id).collect();
    let damaged = damaged_of(story, &ids);
    (!limits::SMALL_PART.exceeded(damaged, losses.lost)).then(|| {
        say!(
            "{damaged} of {lost} lost arrived damaged on this host",
            damaged = Quantity::count(damaged),
            lost = Quantity::of(losses.lost, "segment")
        )
    })
}

/// For connects to a listener on this host.
fn no_syn_damaged(place: &UnansweredSyns) -> Option<Step> {
    place.listener()?;
    let damaged = damaged_of(place.story, &place.clients);
    let unanswered = place.times.unanswered_syns();
    (!limits::MOST.reached(damaged, unanswered) || damaged == 0).then(|| {
        say!(
            "{damaged} of these connects arrived damaged on this host; {unanswered} had no answer",
            damaged = Quantity::of(damaged, "packet"),
            unanswered = Quantity::of(unanswered, "SYN")
        )
    })
}

/// Damaged packets that these ends sent.
fn damaged_of(story: &Story, ids: &[ConnId]) -> u64 {
    let all = places(story, KINDS).into_iter();
    let theirs = all.filter(|place| place.senders.iter().any(|id| ids.contains(id)));
    theirs.map(|place| place.count()).sum()
}

/// Segments that the ends sent, or that came for them, the damaged ones included.
fn moved(place: &DroppedHere) -> u64 {
    let sends = !place.senders.is_empty();
    let each = place.ends().iter().filter_map(|id| {
        let conn = place.story.conn(*id)?;
        let segments = |bytes: u64| bytes.div_ceil(u64::from(conn.mss.max(1)));
        Some(match (End::of(place.story, *id), sends) {
            (Some(end), true) => end.transfer.segments().max(segments(conn.bytes_acked)),
            (Some(end), false) => segments(end.transfer.received().max(conn.bytes_received)),
            (None, true) => segments(conn.bytes_acked),
            (None, false) => segments(conn.bytes_received),
        })
    });
    let moved = each.fold(0, u64::saturating_add);
    moved.max(place.affected()).saturating_add(place.count())
}

fn judge(place: &DroppedHere) -> Option<Finding> {
    let story = place.story;
    let (damaged, again) = (place.count(), place.retransmitted());
    let of = moved(place);
    let here = !place.senders.is_empty();
    // What was lost for another reason is another cause's.
    let enough = if here {
        damaged >= limits::OFTEN.count() && limits::SMALL_PART.exceeded(damaged, again)
    } else {
        damaged >= limits::OFTEN_TO_ONE.count() && limits::LOSS_GOVERNS.reached(damaged, of)
    };
    if !enough {
        return None;
    }
    let (from, to) = ends_of(place)?;
    let (packets, at) = (Quantity::of(damaged, "packet"), place.at);
    let receiver = story.netns(place.netns);
    let says = format!(
        "{} had packets that arrived damaged; each waited until it was retransmitted.",
        Quantity::of(place.affected(), "connection")
    );
    let lost = if here {
        lost(place, damaged, again)
    } else {
        Lost::unknown()
    };
    let lost = if lost.claimed() > 0 {
        lost.happened(damaged, of)
    } else {
        lost
    };
    let errors = |name| story.counters.rise(place.netns, name).by;
    let counted = errors(counter::IN_CSUM_ERRORS).saturating_add(errors(counter::IN_ERRS));
    let counts = place.reason() == "TCP_CSUM" && story.counters.covers(place.netns);
    let here_name = namespace(&receiver);
    let case = Case::new(story, CAUSE, place.scope())
        .placed(place.place())
        .title([
            format!("Packets between {from} and {to} arrive damaged: {packets} to or from {at}."),
            format!("Packets to or from {at} arrive damaged: {packets}."),
        ])
        .fix([
            format!("Find the link, device or offload between {from} and {to} that damages packets."),
            "Find the link, device or offload that damages packets.".into(),
        ])
        .affects(place.impact(says), lost)
        .because("the kernel gives the wrong checksum or header as the reason of each drop")
        .at_most_if(
            Level::Medium,
            !here,
            "the senders are not on this host: the cost to them was not seen",
        )
        .steps([place.step()])
        .steps(again_step(place, again))
        .checks(counts.then(|| {
            let formula = "segments received in error (TcpInErrs, TcpInCsumErrors) ≥ damaged packets seen dropped";
            at_least(formula, damaged, counted, "packets")
        }))
        .advise(advice(&receiver, &here_name, from, to));
    let case = match place.since() {
        Some(since) => case.since(since),
        None => case,
    };
    Some(case.verify("`nstat -az TcpInCsumErrors TcpInErrs IpInHdrErrors` no longer rises."))
}

/// What it cost the senders: all that losses did, if it is most of these; else its part of the repair.
fn lost(place: &DroppedHere, damaged: u64, again: u64) -> Lost {
    let repaired = place.lost((damaged as f64 / again.max(1) as f64).min(1.0));
    let ends = place
        .senders
        .iter()
        .filter_map(|id| End::of(place.story, *id));
    let ends: Vec<End> = ends.collect();
    if limits::MOST.reached(damaged, again) {
        limited(place.story, &ends).or(|| repaired)
    } else {
        repaired
    }
}

/// Addresses of the sender and the receiver of most.
fn ends_of(place: &DroppedHere) -> Option<(Addr, Addr)> {
    let most = place.ways.iter().max_by_key(|way| way.of.count);
    most.map(|way| (way.from.addr, way.to.addr))
}

fn again_step(place: &DroppedHere, again: u64) -> Option<Step> {
    (!place.senders.is_empty()).then(|| {
        say!(
            "Their connections retransmitted {retransmitted} meanwhile.",
            retransmitted = Quantity::of(again, "segment")
        )
    })
}

fn advice(receiver: &Netns, at: &str, from: Addr, to: Addr) -> [Advice; 2] {
    [
        Advice::to(format!(
            "Look at the error counters of each port between {from} and {to}: a bad cable, optic, port or memory counts \
             CRC or symbol errors where it is."
        ))
        .by(command_in(receiver, shell!("ip -s -s link show")))
        .at(format!("{at}, and every device on the path (ethtool -S on hosts)"))
        .risk("None: it only reads.")
        .effect("The part that damages packets is found; replaced, they are no longer dropped.")
        .change(Change::RepairPath {
            from: from.to_string(),
            to: to.to_string(),
        }),
        Advice::to(format!(
            "If no port counts errors: switch off the checksum offload of the sender's device (a driver, a hypervisor \
             or a box that rewrites packets on the way to {to} leaves a wrong checksum)."
        ))
        .at(format!("the host of {from}: ethtool -K DEVICE tx off"))
        .risk("The CPU computes checksums and splits segments: more CPU per byte.")
        .effect("If it was the offload, packets arrive whole."),
    ]
}

fn rule_out(whole: &Whole) -> Verdict {
    let says = |n: u64, rows: Vec<RowRef>, of: u64| {
        say!(
            "{damaged} of {packets} arrived damaged on this host",
            damaged = Quantity::count(n).rows(rows),
            packets = Quantity::of(of, "packet")
        )
    };
    let of = whole.packets();
    let places = places(whole.story, KINDS);
    let tests = places.iter().map(|place| {
        let (n, again) = (place.count(), place.retransmitted());
        let share = say!(
            "{damaged} arrived damaged for {retransmitted} retransmitted",
            damaged = Quantity::of(n, "packet").rows(place.rows()),
            retransmitted = Quantity::of(again, "segment")
        );
        every([
            Test::events(n, of, &limits::OFTEN, says(n, place.rows(), of)),
            Test::share(n, again.max(n), &limits::SMALL_PART, share),
        ])
    });
    let none = || every([Test::events(0, of, &limits::OFTEN, says(0, Vec::new(), of))]);
    Verdict::nearest_or(tests, none, NO_PACKET)
}

#[cfg(test)]
mod tests;
