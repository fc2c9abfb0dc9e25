//! One port's packets are lost on a path, and those of its other ports are not: something on it tells them apart.

use std::collections::BTreeMap;

use analysis::account::service;

use super::{CAUSE, evidence, goes_by_loss, impact, percent_of_loss};
use crate::limits;
use crate::places::losses::Losses;
use crate::places::path::{End, Path, limited, senders};
use crate::vocabulary::*;

/// One port, and what it loses.
struct OnePort<'a> {
    port: u16,
    losses: Losses<'a>,
    /// Segments that connections to other ports retransmitted, and sent, however short they were.
    others: (u64, u64),
}

impl<'a> OnePort<'a> {
    /// The port that loses most, where a full queue would drop from all equally.
    fn of(path: &Path<'a>) -> Option<OnePort<'a>> {
        let port_of = |e: &End| service(path.story, e.conn).2.port;
        let mut lost: BTreeMap<u16, u64> = BTreeMap::new();
        for end in &path.ends {
            *lost.entry(port_of(end)).or_default() += end.transfer.resends.count();
        }
        let (port, _) = lost.into_iter().max_by_key(|(_, lost)| *lost)?;
        let own = path
            .ends
            .iter()
            .filter(|e| port_of(e) == port && goes_by_loss(e));
        let losses = Losses::of(path.story, own.copied().collect());
        let others = path.conns();
        let others = others.filter(|c| service(path.story, c).2.port != port);
        let others = others.fold((0u64, 0u64), |(lost, sent), c| {
            let segments = c.bytes_acked.div_ceil(u64::from(c.mss.max(536)));
            (
                lost.saturating_add(c.retransmits.into()),
                sent.saturating_add(segments),
            )
        });
        let enough = losses.lost >= limits::OFTEN_TO_ONE.count()
            && losses.share() >= limits::WINDOW_OF_EIGHT.share();
        let real = !limits::MOST.exceeded(losses.spurious, losses.lost) && losses.are_elsewhere();
        // Sporadic traffic meets a full queue less often than a transfer does.
        let alone = others.1 >= losses.segments
            && share(others) * limits::SEVERAL_TIMES.times() <= losses.share();
        let told = enough && real && alone && losses.are_spread() && !losses.are_tails();
        told.then_some(OnePort {
            port,
            losses,
            others,
        })
    }
}

/// The share of segments lost among those sent.
fn share((lost, sent): (u64, u64)) -> f64 {
    lost as f64 / sent.max(1) as f64
}

/// Judges a path where losses did not meet an empty queue.
pub(super) fn judge(path: &Path) -> Option<Finding> {
    let min_rtt_us = path.min_rtt_us()?;
    let OnePort {
        port,
        losses,
        others,
    } = OnePort::of(path)?;
    let story = path.story;
    let (name, from, to) = (path.name(), path.from, path.to);
    let resource = Some(format!("path {name}"));
    let scope = senders(story, path.netns, &losses.suffering, resource);
    let [p, q] = [losses.share(), share(others)].map(percent_of_loss);
    let find = Advice::to(format!(
        "Find what treats port {port} differently on the path from {from} to {to}: a firewall or middlebox whose \
         rules name it, a policer of its class."
    ))
    .by(command_in(&scope.netns, shell!("mtr -T -P {port} -r -c 100 {to}", port, to)))
    .at(format!("{to}, and every hop between {from} and it"))
    .risk("A hundred SYNs to that port.")
    .effect(format!(
        "Port {port} loses as little as the others do, {q}."
    ))
    .change(Change::RepairPath {
        from: from.to_string(),
        to: to.to_string(),
    });
    let case = Case::new(story, CAUSE, scope)
        .placed(Place::ends(&losses.suffering))
        .title([
            format!("The path {name} loses {p} of the packets of port {port}, and {q} of the others."),
            format!("The path to {to} loses {p} of the packets of port {port}, and {q} of the others."),
        ])
        .fix([
            format!("Find what treats port {port} differently between {from} and {to}: a firewall, a policer."),
            format!("Find what treats port {port} differently on the path."),
        ])
        .affects(
            impact(path, &losses),
            limited(story, &losses.suffering).happened(losses.lost, losses.segments),
        )
        .because("other connections over the same path sent as much, and lost almost none of it")
        .at_most_if(
            Level::Medium,
            !path.whole(),
            "the receivers are not on this host: drops on their host look the same from here",
        )
        .rests_on(&[SourceName::Drops])
        .steps(evidence(&losses, min_rtt_us, ""))
        .steps([say!(
            "Connections to other ports over the same path retransmitted {others_lost} of {others_sent}: a bad link \
             or a full queue would not distinguish ports.",
            others_lost = Quantity::count(others.0),
            others_sent = Quantity::of(others.1, "segment")
        )])
        .checks(path.counted_again())
        .advise([find]);
    Some(case.verify(sentence!(
        "`ss -ti dst {to} dport = :{port}` shows that retrans does not rise while data moves.",
        to,
        port
    )))
}
