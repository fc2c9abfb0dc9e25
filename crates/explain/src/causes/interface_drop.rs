//! C43: an interface of this host drops or damages packets.

use analysis::words::percent;

use crate::limits;
use crate::places::interfaces::{
    Traffic, Way, by_softnet, interfaces, is_missed, missed, missed_check,
};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::INTERFACE_DROP,
    number: "C43",
    title: "an interface of this host drops packets",
    page: include_str!("interface_drop.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[&[SourceName::Resources], &[SourceName::Counters]],
    seen_from: || "20 packets lost by an interface, 0.1 % of its packets, that TCP missed".into(),
    signature: &[
        "rx_dropped, rx_missed or rx_fifo rises in ip -s link",
        "rx_no_buffer, rx_out_of_buffer in ethtool -S",
        "retransmissions on all paths of one host",
        "frame, CRC or carrier errors of an interface",
        "packet loss only under load: the ring buffer of the network card is full",
    ],
    rivals: &[Id::RECEIVE_BACKLOG_DROP],
    explains: &[],
    told_with: None,
    no: None,
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| find(whole.story).into(),
};

fn find(story: &Story) -> Vec<Finding> {
    let mut findings = Vec::new();
    let all = interfaces(story);
    let outside = || all.iter().filter(|((_, name), _)| name.as_str() != "lo");
    let most = |of: fn(&Traffic) -> u64| outside().map(|(_, t)| of(t)).max().unwrap_or(0);
    let most = (most(|t| t.received.packets), most(|t| t.sent.packets));
    for ((netns, name), Traffic { received, sent }) in &all {
        let place = (*netns, name.as_str());
        findings.extend(judge(story, place, received, true, most.0));
        findings.extend(judge(story, place, sent, false, most.1));
    }
    findings
}

/// Judges one direction of an interface; the busiest interface of this host carried `most` packets that way.
fn judge(
    story: &Story,
    (netns, name): (u32, &str),
    way: &Way,
    received: bool,
    most: u64,
) -> Option<Finding> {
    // What the kernel's own queue dropped counts as the interface's, and has a cause of its own.
    let softnet = if received { by_softnet(story) } else { 0 };
    let lost = way.lost().saturating_sub(softnet);
    let share = lost as f64 / way.packets.saturating_add(lost).max(1) as f64;
    if lost < limits::OFTEN_TO_ONE.count() || share < limits::LOSS_GOVERNS.share() {
        return None;
    }
    // A ring that overflows, and a damaged frame, lose packets that were wanted.
    let certain = way.fifo.max(way.errors) >= limits::OFTEN_TO_ONE.count();
    let damaged = way.errors > way.dropped.max(way.fifo);
    let scope = Scope {
        netns: story.netns(netns),
        resource: Some(name.to_string()),
        ..Scope::default()
    };
    let (again, again_rows) = missed(story, received);
    let (verb, direction) = match (received, damaged) {
        (true, false) => ("drops", "of received packets"),
        (true, true) => ("receives", "of its packets damaged"),
        (false, false) => ("drops", "of sent packets"),
        (false, true) => ("cannot send", "of its packets"),
    };
    let packets = Quantity::of(lost, "packet");
    let part = percent(share);
    let says = format!(
        "{packets} of {} were lost at {name}; any connection of this host may be affected.",
        Quantity::count(way.packets)
    );
    let rows = way.rows.iter().copied();
    let host = namespace(&scope.netns);
    let advice = advice(&scope, name, received, damaged, &part);
    let unwanted = (!is_missed(again, lost, certain)).then_some(
        "TCP missed almost none of them: non-TCP packets, or traffic not meant for this host",
    );
    let carries_less = !certain && !limits::MOST.reached(way.packets, most);
    let elsewhere = carries_less.then_some(
        "another interface carries more: what TCP missed may have been lost there, and these packets may \
         not be meant for this host",
    );
    let case = Case::new(story, CAUSE, scope)
        .noted(unwanted.or(elsewhere))
        .placed(Place::Host)
        .title([
            format!("{name} {verb} {part} {direction}: {packets}."),
            format!("{name} loses {part} of its packets."),
        ])
        .fix([match (damaged, received) {
            (true, _) => format!("Check the cable, the transceiver and the port of {name}."),
            (false, true) => format!("Give {name} longer rings and more queues (ethtool -G, -L)."),
            (false, false) => format!("See which queue of {name} is full (ethtool -S, tc -s qdisc)."),
        }])
        .affects(
            Impact::of(lost, way.packets.saturating_add(lost), "packets", says),
            Lost::unknown(),
        )
        .because("the interface counts them itself, and TCP missed as many")
        .at_most_if(
            Level::Medium,
            !damaged && way.fifo == 0,
            "the kernel does not report which queue was full, or whose packets they were",
        )
        .steps([
            say!(
                "{name} of {host} counted {dropped} dropped, {fifo} for which its ring had no room, and {errors} \
                 damaged, of {packets}.",
                dropped = Quantity::of(way.dropped, "packet").rows(rows),
                fifo = Quantity::count(way.fifo),
                errors = Quantity::count(way.errors),
                packets = Quantity::of(way.packets, "packet")
            ),
            missed_step(received, again, again_rows),
        ])
        .checks([missed_check(story, received, lost, certain)])
        .advise([advice]);
    Some(case.verify(sentence!(
        "The drops in `ip -s -s link show dev {name}` no longer rise.",
        name
    )))
}

fn missed_step(received: bool, again: u64, rows: Vec<RowRef>) -> Step {
    if received {
        say!(
            "Meanwhile {out_of_order} arrived behind a gap (TCPOFOQueue).",
            out_of_order = Quantity::of(again, "segment").rows(rows)
        )
    } else {
        say!(
            "Meanwhile {retransmitted} were retransmitted.",
            retransmitted = Quantity::of(again, "segment").rows(rows)
        )
    }
}

fn advice(scope: &Scope, name: &str, received: bool, damaged: bool, part: &str) -> Advice {
    let advice = match (damaged, received) {
        (true, _) => Advice::to(format!(
            "Replace what damages frames of {name}: cable, transceiver or port; and check that both ends \
             agree on speed and duplex."
        )),
        (false, true) => Advice::to(format!(
            "Give {name} the longest ring (`ethtool -g` shows it) and a queue for each CPU; on a cloud \
             instance check whether its allowance is used up (…_allowance_exceeded)."
        )),
        (false, false) => Advice::to(format!(
            "See which queue of {name} is full: the device's, or that of a peer interface that cannot keep \
             up; enlarge it, or send smaller bursts."
        )),
    };
    advice
        .by(command_in(&scope.netns, shell!("ethtool -S {name}", name)))
        .at(format!(
            "{name}; the command shows the driver's own counters"
        ))
        .risk("Changing rings or queues takes the link down for a moment.")
        .effect(format!(
            "The {part} that are lost now arrive, and need not be retransmitted."
        ))
        .change(Change::InterfaceQueues {
            netns: scope.netns.inode,
            device: name.to_string(),
        })
}

fn rule_out(whole: &Whole) -> Verdict {
    let softnet = by_softnet(whole.story);
    let places = interfaces(whole.story)
        .into_iter()
        .flat_map(|((_, name), traffic)| {
            [(traffic.received, softnet), (traffic.sent, 0)].map(|(way, softnet)| {
                let lost = way.lost().saturating_sub(softnet);
                let of = way.packets.saturating_add(lost);
                let says = || {
                    say!(
                        "{name} lost {lost} of {packets}",
                        name = Quantity::new(&*name, &*name),
                        lost = Quantity::count(lost).rows(way.rows.iter().copied()),
                        packets = Quantity::of(of, "packet")
                    )
                };
                every([
                    Test::events(lost, of, &limits::OFTEN_TO_ONE, says()),
                    Test::share(lost, of, &limits::LOSS_GOVERNS, says()),
                ])
            })
        });
    Verdict::nearest(places, "no interface was seen to carry a packet")
}

#[cfg(test)]
mod tests;
