//! The chain of a full SYN queue: what clients saw, what was dropped, the limit, what fills it.

use analysis::KEPT_REMOTES;
use analysis::words::count;

use super::{Overflow, Repeated};
use crate::vocabulary::*;

pub(super) fn steps(overflow: &Overflow, scope: &Scope) -> Vec<Step> {
    let mut steps = Vec::from_iter(overflow.times.step());
    steps.push(drops(overflow));
    steps.extend(queue(overflow, scope));
    steps.extend(clients(overflow));
    steps.push(cookies(overflow));
    steps
}

fn drops(overflow: &Overflow) -> Step {
    let drops = overflow.here.rise(counter::LISTEN_DROPS);
    let own = overflow.here.listener.drops();
    let own_says = match own {
        Some(n) => format!("; this listener's own count rose by {}", count(n)),
        None => String::new(),
    };
    let queue_full = Quantity::of(overflow.full.by, "SYN").rows(overflow.full.rows());
    let all = Quantity::count(drops.by).rows(drops.rows());
    let step = Step::new(format!(
        "In its namespace {queue_full} were dropped because a SYN queue was full (TCPReqQFullDrop), {all} by \
         listeners in total (ListenDrops){own_says}."
    ));
    let step = queue_full.told(counter::short(counter::TCP_REQ_Q_FULL_DROP), step);
    all.told(counter::short(counter::LISTEN_DROPS), step)
        .number("early_drops", overflow.early)
        .number_if("listener_drops", own)
        .rows(overflow.here.listener.most_half_open().map(|s| s.last_row))
}

fn queue(overflow: &Overflow, scope: &Scope) -> Option<Step> {
    let sock = overflow.here.listener.most_half_open()?;
    let (longest, row) = sock.longest_syn_queue;
    let app = application(scope);
    let max = overflow.here.setting(sysctl::TCP_MAX_SYN_BACKLOG);
    let limit = match max.filter(|_| overflow.is_early()) {
        Some(max) => format!(
            "; without cookies it is kept below three quarters of tcp_max_syn_backlog={}",
            count(max)
        ),
        None => String::new(),
    };
    let step = say!(
        "Up to {longest_syn_queue} were in SYN_RECV when it was sampled, {young} of them with their \
         SYN-ACK sent once. The limit is the backlog that {app} gave to listen(): {backlog}{limit}.",
        longest_syn_queue = Quantity::of(longest, "connection").rows([row]),
        young = Quantity::count(sock.young),
        backlog = Quantity::count(sock.backlog).rows(overflow.here.call_row())
    );
    let somaxconn = overflow.here.setting(sysctl::SOMAXCONN);
    let step = step.number_if("somaxconn", somaxconn);
    Some(step.number_if("tcp_max_syn_backlog", max))
}

/// Why the queue is full: what fills it.
fn clients(overflow: &Overflow) -> Option<Step> {
    if overflow.repeated.count > 0 {
        return Some(retransmitted(&overflow.repeated));
    }
    let arrived_at_once = Quantity::of(overflow.at_once(), "client");
    let step = say!(
        "{arrived_at_once} connected within one round trip.",
        arrived_at_once
    );
    let step = step.number("rtt_ms", overflow.rtt_ns() as f64 / 1e6);
    let step = step.rows(overflow.times.rows.iter().copied());
    (overflow.at_once() > 0).then_some(step)
}

fn cookies(overflow: &Overflow) -> Step {
    let cookies = overflow.here.setting(sysctl::TCP_SYNCOOKIES);
    let says = match cookies {
        Some(0) => {
            "net.ipv4.tcp_syncookies=0: a SYN that finds the queue full is dropped instead of \
             answered."
        }
        _ => "SYNs that found the queue full were dropped, not answered with a cookie.",
    };
    Step::new(says)
        .number_if("tcp_syncookies", cookies)
        .rows(overflow.here.setting_row(sysctl::TCP_SYNCOOKIES))
        .rows(overflow.full.rows().take(1))
}

/// Clients that were sent their SYN-ACK more than once.
fn retransmitted(repeated: &Repeated) -> Step {
    let addresses = repeated.clients.len();
    let least = if addresses >= KEPT_REMOTES {
        "at least "
    } else {
        ""
    };
    let several = match addresses {
        1 => "1 address".into(),
        n => format!("{} addresses", count(n as u64)),
    };
    let most = repeated.clients.iter().max_by_key(|r| (r.count, r.addr));
    let to = most.map_or(String::new(), |r| {
        let share = Quantity::share(r.count as f64 / repeated.count as f64);
        let (n, addr) = (count(r.count), r.addr);
        format!(" to {least}{several}, {n} of them ({share}) to {addr}")
    });
    let were = if repeated.count == 1 { "was" } else { "were" };
    say!(
        "{synack_retransmits} {were} retransmitted{to}: these clients do not complete the \
         handshake.",
        synack_retransmits =
            Quantity::of(repeated.count, "SYN-ACK").rows(repeated.rows.iter().copied())
    )
    .number("addresses", addresses)
}
