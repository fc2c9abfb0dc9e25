//! C37: segments for a socket are dropped because its owner keeps it locked.

use std::collections::BTreeMap;

use analysis::words::percent;

use crate::limits;
use crate::places::interfaces::not_counted;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SOCKET_BACKLOG_DROP,
    number: "C37",
    title: "the backlog of a locked socket is full",
    page: include_str!("socket_backlog_drop.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[&[SourceName::Counters, SourceName::Drops]],
    seen_from: || {
        "20 segments dropped from the backlog of a socket, 0.1 % of the segments received".into()
    },
    signature: &[
        "TCPBacklogDrop rises in nstat",
        "loss under load on one busy connection, and no device drops",
    ],
    rivals: &[Id::RECEIVE_BACKLOG_DROP],
    explains: &[],
    told_with: None,
    no: None,
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| {
        let story = whole.story;
        let counted = story.counters.rises(counter::TCP_BACKLOG_DROP);
        let counted = counted.into_iter().map(|(netns, rise)| (netns, rise.by));
        let mut all: BTreeMap<u32, u64> = counted.collect();
        for group in story.packets.all().iter().filter(|g| g.is_for(REASON)) {
            all.entry(group.netns).or_default();
        }
        all.into_iter()
            .filter_map(|(netns, by)| judge(story, netns, by))
            .collect()
    },
};

/// The kernel's reason.
const REASON: &str = "SOCKET_BACKLOG";
/// By how much more is advised.
const ADVISED_TIMES: u64 = 2;

fn judge(story: &Story, netns: u32, counted: u64) -> Option<Finding> {
    let groups = story.packets.all().iter();
    let groups = groups.filter(|g| g.netns == netns && g.is_for(REASON));
    let seen: u64 = groups.clone().map(|g| g.count).sum();
    let rows: Vec<RowRef> = groups.flat_map(|g| g.rows.iter().copied()).collect();
    let lost = counted.max(seen);
    let received = story.counters.rise(netns, counter::IN_SEGS);
    let share = lost as f64 / received.by.max(lost).max(1) as f64;
    // What is dropped there was counted as received before: without that count the share is unknown.
    let known = received.by >= lost;
    if lost < limits::OFTEN_TO_ONE.count() || share < limits::LOSS_GOVERNS.share() || !known {
        return None;
    }
    let dropped = story.drops.all();
    let dropped =
        dropped.filter(|((of, ..), d)| *of == netns && d.reason.as_deref() == Some(REASON));
    let most = dropped.max_by_key(|(_, d)| d.otherwise);
    let at = most.map(|((_, _, to), _)| *to);
    let conns = story.of_netns(netns).map(|(_, c)| c);
    let hit = conns.filter(|c| at.is_some_and(|at| c.local == at));
    let scope = Scope {
        netns: story.netns(netns),
        resource: Some(match at {
            Some(at) => format!("socket {at}"),
            None => "sockets".into(),
        }),
        ..owners(story, hit)
    };
    let segments = Quantity::of(lost, "segment");
    let part = percent(share);
    let who = application(&scope).to_string();
    let says = format!(
        "{segments} of {} received were dropped; each is retransmitted by its sender.",
        Quantity::count(received.by)
    );
    let rise = story.counters.rise(netns, counter::TCP_BACKLOG_DROP);
    let advice = advice(story, &scope, &who);
    let covered = story.counters.covers(netns) && seen > 0;
    let formula = "segments that the kernel counts (TCPBacklogDrop) = drops seen with that reason";
    let case = Case::new(story, CAUSE, scope)
        .title([
            format!("The backlog of a socket of {who} is full: {segments} dropped, {part} of all."),
            format!("The backlog of a locked socket is full: {segments} dropped."),
        ])
        .fix([format!(
            "Have {who} read and write less at a time, or give its sockets more buffer."
        )])
        .affects(
            Impact::of(lost, received.by.max(lost), "packets", says),
            Lost::unknown(),
        )
        .because("the kernel counts segments that find the backlog of a socket full")
        .at_most_if(
            Level::Medium,
            seen == 0,
            "drops were not recorded: the sockets are unknown",
        )
        .steps([say!(
            "{dropped} arrived while their socket was locked and its backlog full: {share} of {received}.",
            dropped = Quantity::of(lost, "segment").rows(rows.into_iter().chain(rise.rows()).take(SHOWN_ROWS)),
            share = Quantity::share(share),
            received = Quantity::of(received.by, "segment").rows(received.rows())
        )])
        .placed(Place::Host)
        .rules_out([not_counted(story, netns, Id::RECEIVE_QUEUE_PRUNED, counter::TCP_RCV_Q_DROP)])
        .checks(covered.then(|| same_count(formula, counted, seen, "segments")))
        .advise([advice]);
    Some(case.verify("`nstat -az TcpExtTCPBacklogDrop` no longer rises."))
}

fn advice(story: &Story, scope: &Scope, who: &str) -> Advice {
    let (name, netns) = (sysctl::TCP_RMEM, scope.netns.inode);
    let value = buffer_sizes(story, netns, name, |most| {
        most.saturating_mul(ADVISED_TIMES)
    });
    let set = set_sysctl(
        &scope.netns,
        name,
        &value,
        "Each connection may use that much memory.",
        "More segments may wait while the socket is locked.".into(),
    );
    let at = format!(
        "{}; the backlog may hold as much as the send and the receive buffer",
        namespace(&scope.netns)
    );
    Advice {
        action: format!(
            "Set {name}=\"{value}\"; better, have {who} move less per call, and not call from many threads at once."
        ),
        ..set.at(at)
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let groups = whole
        .story
        .packets
        .all()
        .iter()
        .filter(|g| g.is_for(REASON));
    let seen: u64 = groups.map(|g| g.count).sum();
    if seen >= limits::OFTEN_TO_ONE.count() {
        let seen = Quantity::of(seen, "segment");
        return Verdict::cannot(format!(
            "{seen} were dropped for a full backlog of a socket: no number refutes it"
        ));
    }
    let share = Some(&limits::LOSS_GOVERNS);
    let all = whole.counted(
        counter::TCP_BACKLOG_DROP,
        counter::IN_SEGS,
        &limits::OFTEN_TO_ONE,
        share,
    );
    Verdict::nearest(all, NOT_COUNTED)
}

#[cfg(test)]
mod tests;
