//! C33: the connection-tracking table is full, so the first packet of a new connection is dropped.

use analysis::words::{bytes, plural};

use crate::actions::flush_conntrack;
use crate::limits;
use crate::places::tracking::{DROPPED, FULL, Table, Tracked, Tracking};
use crate::places::unanswered_syns::UnansweredSyns;
use crate::rule::{Rule, Way};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CONNTRACK_FULL,
    number: "C33",
    title: "the connection tracking table is full",
    page: include_str!("conntrack_full.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: CONNTRACK_DROPS,
    seen_from: || RULE.told_from(),
    signature: &[
        "nf_conntrack: table full, dropping packet",
        "new connections time out on all ports, old ones work",
    ],
    rivals: &[
        Id::LOCAL_FIREWALL_DROP,
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::SYN_QUEUE_OVERFLOW,
        Id::TIME_WAIT_COLLISION,
        Id::PATH_DROPS_SYN,
        Id::CONNTRACK_INSERT_FAILED,
        Id::SNAT_PORTS_EXHAUSTED,
    ],
    explains: &[],
    told_with: None,
    no: Some(|asked| RULE.no(asked)),
    rule_out: |whole| RULE.rule_out(whole),
    symptom: Some(Symptom::Connects),
    find: |whole| RULE.find(whole),
};

/// The size of an entry on a 64-bit kernel, with the usual extensions, bytes.
const LINUX_ENTRY_BYTES: u64 = 320;

const RULE: Rule<Tracked> = Rule {
    ways: &[Way {
        tests: &[FULL, DROPPED],
        doubt: None,
    }],
    finding,
};

fn finding(tracking: &Tracking) -> Option<Finding> {
    let (story, netns, lost) = (tracking.story, tracking.netns, tracking.lost);
    let (place, table) = (tracking.syns.as_ref()?, tracking.table.as_ref()?);
    let at = place.at;
    let scope = tracking.scope(place);
    let host = namespace(&scope.netns);
    let (entries, limit, conntrack_dropped) =
        (&table.entries, &table.limit, &table.conntrack_dropped);
    let full = Quantity::share(table.held as f64 / table.most as f64);
    let syns = Quantity::of(lost, "SYN");
    let advice = advice(place, &scope.netns, table, lost);
    let silent = days(silent_s(story, netns));
    let case = tracking
        .case(place, CAUSE, scope)
        .title([
            format!(
                "Connection tracking is full ({entries} of {limit}): it dropped {syns} to {at}."
            ),
            format!("Connection tracking is full: it dropped {syns} to {at}."),
        ])
        .fix([format!(
            "Raise net.netfilter.nf_conntrack_max to {}, or do not track port {}.",
            Quantity::count(roomy(table)),
            at.port
        )])
        .because("the table counts the drops itself, and its entries are at the limit")
        .at_most_if(
            Level::Medium,
            table.dropped > lost.saturating_mul(limits::BY_FAR.count()),
            "most of its drops were other packets: a rule may have dropped these SYNs",
        )
        .steps([
            say!(
                "Connection tracking of {host} dropped {conntrack_dropped} because its table was full.",
                conntrack_dropped
            ),
            say!(
                "It held {entries} of {limit} entries ({full}); an established connection that is \
                 silent keeps its entry for {silent} (nf_conntrack_tcp_timeout_established).",
                entries,
                limit
            ),
        ])
        .advise(advice);
    Some(case.verify(
        "`tcpwhy stat tables` shows conntrack well below its limit, and the `drop` column of \
         /proc/net/stat/nf_conntrack no longer rises.",
    ))
}

/// A limit of at least twice the present entries.
fn roomy(table: &Table) -> u64 {
    let least = table.most.max(table.held);
    least.saturating_mul(2).next_power_of_two()
}

fn advice(place: &UnansweredSyns, netns: &Netns, table: &Table, lost: u64) -> Vec<Advice> {
    let (at, port) = (place.at, place.at.port);
    let roomy = roomy(table);
    let room = roomy.saturating_sub(table.most);
    let rate = place.times.total().max(lost) as f64 / place.story.seconds();
    let (more, lasts) = (Quantity::count(room), room as f64 / rate.max(1.0));
    let notrack = shell!(
        "nft 'add table inet untracked; add chain inet untracked pre {{ type filter hook prerouting \
         priority raw; }}; add rule inet untracked pre tcp dport {port} notrack'",
        port
    );
    let silent_s = silent_s(place.story, netns.inode);
    let timeout = sysctl::NF_CONNTRACK_TCP_TIMEOUT_ESTABLISHED;
    let sooner = Advice::to(format!(
        "Expire silent connections earlier: lower nf_conntrack_tcp_timeout_established from {} to an hour.",
        days(silent_s)
    ))
    .by(command_in(netns, shell!("sysctl -w {timeout}=3600", timeout)))
    .undo(command_in(netns, shell!("sysctl -w {timeout}={silent_s}", timeout, silent_s)))
    .at(namespace(netns))
    .risk(
        "A connection that is silent for longer loses its entry; behind NAT it dies. TCP keepalive at a \
         shorter interval prevents that. Existing entries keep their old timeout.",
    )
    .effect("Entries of connections whose ends are gone expire after an hour.");
    let raise = Advice::to(format!(
        "Set {}={roomy} on the host.",
        sysctl::NF_CONNTRACK_MAX
    ))
    .by(shell!(
        "sysctl -w {name}={roomy}",
        name = sysctl::NF_CONNTRACK_MAX,
        roomy
    ))
    .at(
        "the host's own namespace: the limit is the same for all namespaces, though each counts its own \
                 entries",
    )
    .risk(format!(
        "Memory: up to {} more per namespace, at about {LINUX_ENTRY_BYTES} bytes per entry; chains get \
                 longer unless nf_conntrack_buckets is raised too.",
        bytes(room.saturating_mul(LINUX_ENTRY_BYTES))
    ))
    .effect(format!(
        "Room for {more} more connections; at {} new ones per second it lasts {} s if none ends.",
        analysis::words::figure(rate),
        analysis::words::figure(lasts)
    ))
    .change(Change::Sysctl {
        netns: 0,
        name: sysctl::NF_CONNTRACK_MAX.into(),
        value: roomy.to_string(),
    });
    let untrack = Advice::to(format!("Do not track connections to port {port}."))
        .by(command_in(netns, notrack))
        .undo(command_in(netns, shell!("nft delete table inet untracked")))
        .at(format!(
            "{}, and its other direction (tcp sport)",
            namespace(netns)
        ))
        .risk(
            "Rules that match `ct state` and NAT no longer see these connections: accept both \
                 directions of the port without state.",
        )
        .effect("Connections to the port take no entries and are never dropped because the table is full.")
        .change(Change::Untrack {
            netns: netns.inode,
            at: at.to_string(),
        });
    [
        Some(raise),
        Some(untrack),
        (silent_s > 3_600).then_some(sooner),
        Some(flush_conntrack(netns)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How long a silent established connection keeps its entry; five days by default.
fn silent_s(story: &Story, netns: u32) -> u64 {
    let set = |netns| {
        let name = sysctl::NF_CONNTRACK_TCP_TIMEOUT_ESTABLISHED;
        story.settings.number(netns, name)
    };
    set(netns).unwrap_or(5 * 24 * 3_600)
}

fn days(seconds: u64) -> String {
    match seconds / 3_600 {
        0..3 => plural(seconds / 60, "minute"),
        hours @ 3..48 => plural(hours, "hour"),
        hours => plural(hours / 24, "day"),
    }
}

#[cfg(test)]
mod tests;
