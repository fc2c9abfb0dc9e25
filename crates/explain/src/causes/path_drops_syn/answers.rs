//! The way back is at fault: SYNs arrive at a listener here, and its SYN-ACKs do not reach the clients.

use analysis::words::{count, list, plural};

use super::CAUSE;
use crate::finding::RuledOut;
use crate::inquiry::Inquiry;
use crate::limits;
use crate::places::lost_answers::LostAnswers;
use crate::vocabulary::*;

/// The most client addresses that are named.
const SHOWN_ADDRESSES: usize = 3;

pub(super) fn judge(lost: &LostAnswers, inquiry: &Inquiry) -> Option<Finding> {
    let (story, here, at) = (lost.here.story, lost.here, lost.at);
    let (n, of) = lost.in_vain();
    let many = n >= limits::FAILED_AGAIN.count() && limits::FAILED_SHARE.reached(n, of);
    let silent = lost.silent.as_deref();
    let hanging = silent.is_some_and(|place| !place.hanging(limits::STALL.ns()).is_empty());
    let asked = inquiry.is_about(lost.clients());
    if !many && !hanging && !asked || lost.data_too() {
        return None;
    }
    let times = lost.times();
    let scope = Scope {
        listener: at.to_string(),
        ..here.scope()
    };
    let clients = lost.remotes();
    let named = list(&clients[..clients.len().min(SHOWN_ADDRESSES)]);
    let (syns, connects) = (
        plural(lost.again, "SYN"),
        format!("{} of {}", count(n), count(of)),
    );
    let dropped = silent.map_or(0, |place| place.answers_dropped());
    let dropped_rows = silent.map_or(Vec::new(), |place| place.answer_rows());
    let by_firewall = Quantity::of(dropped, "answer").rows(dropped_rows);
    let case = Case::new(story, CAUSE, scope.clone())
        .title([
            match times {
                Some(_) => format!(
                    "SYN-ACKs from {at} are lost on the way back: {connects} connects got none in time."
                ),
                None => format!("SYN-ACKs from {at} are lost on the way back: {syns} came again."),
            },
            format!("SYN-ACKs from {at} are lost on the way back."),
        ])
        .fix([
            format!("Find what drops SYN-ACKs from {at} to {named}: a firewall, or a wrong route back."),
            "Find what drops SYN-ACKs on the way back: a firewall, or a wrong route.".into(),
        ])
        .affects(
            times.map_or_else(|| unseen(lost), |times| times.impact(0, of)),
            times.map_or_else(|| waited_elsewhere(lost), |times| times.lost(story, 0)),
        )
        .if_asked(times.map_or(Vec::new(), |t| t.delayed_ids().to_vec()), false)
        .because("SYNs arrived and were answered, and came again")
        .at_most_if(
            Level::Medium,
            times.is_none(),
            "the clients are not on this host: what drops the answers may be their own host",
        )
        .at_most_if(
            Level::Low,
            !story.health.sees(&SourceName::Drops),
            "packets dropped on this host were not recorded: a firewall here looks the same",
        )
        .steps(times.and_then(|times| times.step()))
        .steps([
            say!(
                "{at} retransmitted {repeated}, to {named}; its queues dropped {dropped}.",
                at = Quantity::new(at.to_string(), at.to_string()),
                repeated = Quantity::of(lost.repeated, "SYN-ACK").rows(lost.rows()),
                named = Quantity::new(clients.len(), &*named),
                dropped = Quantity::count(here.dropped())
            ),
            say!(
                "{again} came again though they had been answered: their senders wait. Forged SYNs never come again.",
                again = Quantity::of(lost.again, "SYN")
            ),
        ])
        .rules_out([RuledOut::by(
            Id::LOCAL_FIREWALL_DROP,
            say!("firewalls of this host dropped {by_firewall} from it", by_firewall),
        )])
        .checks(times.map(|times| {
            let formula = "SYN-ACKs that the listener retransmitted ≥ SYNs that clients retransmitted";
            at_least(formula, times.retries, lost.repeated, "packets")
        }))
        .checks(times.and_then(|times| times.timer_check(story)))
        .advise([advice(lost, &scope, &named)]);
    Some(case.verify(sentence!(
        "`nstat -az TcpExtTCPTimeouts TcpRetransSegs` no longer rise while clients connect to {at}.",
        at
    )))
}

/// Clients on other hosts: a SYN comes again after a timeout.
fn waited_elsewhere(lost: &LostAnswers) -> Lost {
    Lost::elsewhere(lost.again.saturating_mul(limits::SYN_TIMEOUT.ns()))
}

/// How many wait, where they are on other hosts.
fn unseen(lost: &LostAnswers) -> Impact {
    let (n, of) = lost.in_vain();
    let says = format!(
        "{} came again while {} completed; each costs its client 1 s or more. Those clients are not on this host.",
        plural(n, "SYN"),
        plural(lost.here.accepted(), "handshake"),
    );
    Impact::of(n, of, "SYNs", says)
}

fn advice(lost: &LostAnswers, scope: &Scope, clients: &str) -> Advice {
    let port = lost.at.port;
    let here = namespace(&scope.netns);
    let first = lost.remotes().into_iter().next().unwrap_or_default();
    Advice::to(format!(
        "Find where SYN-ACKs from port {port} to {clients} end: a firewall that did not see the SYN (it took another \
         path), one that drops what comes from this port, or a route back that leads elsewhere."
    ))
    .by(command_in(
        &scope.netns,
        shell!("ip route get {first}", first),
    ))
    .at(format!(
        "{here}: the command shows the way that answers take; then tcpdump at each hop to the clients"
    ))
    .risk("A rule may be there for a reason: let established connections pass, not everything.")
    .effect("Connects take one round trip instead of 1 s or more, or instead of failing.")
    .change(Change::RepairPath {
        from: here,
        to: first,
    })
}
