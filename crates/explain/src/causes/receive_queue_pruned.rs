//! C25: sockets throw away what they have received, for lack of receive buffer.

use analysis::words::percent;

use crate::limits;
use crate::places::interfaces::not_counted;
use crate::places::path::End;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RECEIVE_QUEUE_PRUNED,
    number: "C25",
    title: "receive queues are pruned",
    page: include_str!("receive_queue_pruned.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[&[SourceName::Counters]],
    seen_from: || {
        "20 segments dropped for lack of receive buffer, 0.1 % of the segments received".into()
    },
    signature: &[
        "packets pruned from receive queue because of socket buffer overrun (netstat -s)",
        "RcvPruned, TCPRcvQDrop or TCPOFODrop rises in nstat",
        "packets collapsed in receive queue due to low socket buffer",
    ],
    rivals: &[],
    explains: &[],
    told_with: None,
    no: None,
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |whole| {
        let story = whole.story;
        let netns: std::collections::BTreeSet<u32> = DROPPED
            .iter()
            .flat_map(|name| story.counters.rises(name).into_keys())
            .collect();
        let found = netns.into_iter().filter_map(|netns| judge(story, netns));
        found.collect()
    },
};

/// The counters of segments for which a socket had no memory.
const DROPPED: &[&str] = &[
    counter::RCV_PRUNED,
    counter::TCP_RCV_Q_DROP,
    counter::TCP_OFO_DROP,
];
/// By how much more is advised.
const ADVISED_TIMES: u64 = 4;

fn judge(story: &Story, netns: u32) -> Option<Finding> {
    let rise = |name| story.counters.rise(netns, name);
    // What is pruned is also counted as dropped where it arrived: hence the largest, not the sum.
    let most = DROPPED.iter().map(|name| (rise(name), *name));
    let (most, name) = most.max_by_key(|(rise, _)| rise.by)?;
    let lost = most.by;
    let received = rise(counter::IN_SEGS);
    let share = lost as f64 / received.by.max(lost).max(1) as f64;
    // What is dropped there was counted as received before: without that count the share is unknown.
    let known = received.by >= lost;
    if lost < limits::OFTEN_TO_ONE.count() || share < limits::LOSS_GOVERNS.share() || !known {
        return None;
    }
    let here = story.of_netns(netns);
    let here = here.filter_map(|(id, _)| End::of(story, id));
    let full = here.filter(is_full);
    let full: Vec<End> = full.collect();
    let scope = Scope {
        netns: story.netns(netns),
        resource: Some("receive queues".into()),
        ..owners(story, full.iter().map(|e| e.conn))
    };
    let (segments, part) = (Quantity::of(lost, "segment"), percent(share));
    let who = application(&scope).to_string();
    let says = format!(
        "{segments} of {} received were dropped; each is retransmitted by its sender.",
        Quantity::count(received.by)
    );
    let collapsed = rise(counter::PRUNE_CALLED);
    let short = counter::short(name);
    let advice = advice(story, &scope);
    let case = Case::new(story, CAUSE, scope)
        .title([
            format!("Receive queues of {who} are full: {segments} dropped on arrival ({part})."),
            format!("Receive queues are full: {segments} dropped on arrival."),
        ])
        .fix([format!(
            "Raise net.ipv4.tcp_rmem, and have {who} read sooner and not set SO_RCVBUF."
        )])
        .affects(
            Impact::of(lost, received.by.max(lost), "packets", says),
            Lost::unknown(),
        )
        .because("the kernel counts the segments for which a socket had no memory")
        .at_most_if(
            Level::Medium,
            full.is_empty(),
            "no sampled socket was near its limit: the socket is unknown",
        )
        .steps([
            say!(
                "{dropped} were dropped on arrival ({short}), {share} of {received}; sockets collapsed or dropped \
                 queued data {pruned} (PruneCalled).",
                dropped = Quantity::of(lost, "segment").rows(most.rows()),
                share = Quantity::share(share),
                received = Quantity::of(received.by, "segment").rows(received.rows()),
                pruned = Quantity::times(collapsed.by).rows(collapsed.rows())
            ),
        ])
        .steps((!full.is_empty()).then(|| {
            let buffers = full.iter().map(|e| e.transfer.rcvbuf).max().unwrap_or(0);
            say!(
                "{full} had unread data that filled half of their receive buffer, {rcvbuf} at most.",
                full = Quantity::of(full.len() as u64, "connection")
                    .rows(full.iter().flat_map(|e| e.transfer.rows.first().copied()).take(SHOWN_ROWS)),
                rcvbuf = Quantity::bytes(buffers)
            )
        }))
        .rules_out([
            not_counted(story, netns, Id::TCP_MEMORY_PRESSURE, counter::TCP_MEMORY_PRESSURES),
            not_counted(story, netns, Id::SOCKET_BACKLOG_DROP, counter::TCP_BACKLOG_DROP),
        ])
        .checks([at_least(
            "times that sockets pruned their queues (PruneCalled) ≥ segments dropped ÷ 100",
            lost / 100,
            collapsed.by,
            "times",
        )])
        .advise([advice]);
    Some(case.verify(sentence!(
        "`nstat -az TcpExt{short}` no longer rises.",
        short
    )))
}

/// Whether it left half of its buffer unread: with headers and partly filled pages, that is all of it.
fn is_full(end: &End) -> bool {
    let most = end.transfer.unread_bytes.iter().max().copied().unwrap_or(0);
    end.transfer.rcvbuf > 0 && limits::MOST.reached(most, end.transfer.rcvbuf)
}

fn advice(story: &Story, scope: &Scope) -> Advice {
    let (name, netns) = (sysctl::TCP_RMEM, scope.netns.inode);
    let value = buffer_sizes(story, netns, name, |most| {
        most.saturating_mul(ADVISED_TIMES)
    });
    Advice {
        action: format!(
            "Set {name}=\"{value}\", do not set a small SO_RCVBUF, and have the application read sooner."
        ),
        ..set_sysctl(
            &scope.netns,
            name,
            value,
            "Each connection may use that much memory; net.ipv4.tcp_mem limits the total.",
            "The buffer holds what the window promised, even with small segments.".into(),
        )
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let share = Some(&limits::LOSS_GOVERNS);
    let all = DROPPED.iter();
    let all =
        all.flat_map(|name| whole.counted(name, counter::IN_SEGS, &limits::OFTEN_TO_ONE, share));
    Verdict::nearest(all, NOT_COUNTED)
}

#[cfg(test)]
mod tests;
