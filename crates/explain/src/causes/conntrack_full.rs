//! C33: the connection-tracking table is full, so the first packet of a new connection is dropped.

use analysis::words::{bytes, plural};

use crate::actions::flush_conntrack;
use crate::limits;
use crate::places::unanswered_syns::{UnansweredSyns, places};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CONNTRACK_FULL,
    number: "C33",
    title: "the table of tracked connections is full",
    page: include_str!("conntrack_full.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: CONNTRACK_DROPS,
    seen_from: "10 dropped SYNs while the table is 95 % full",
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
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |story| places(story).iter().filter_map(judge).collect(),
};

/// What an entry takes on a 64-bit kernel, with the extensions that are usual, bytes.
const LINUX_ENTRY_BYTES: u64 = 320;

/// The table of a namespace at its fullest, and the packets that it dropped.
struct Table {
    held: u64,
    most: u64,
    entries: Quantity,
    limit: Quantity,
    conntrack_dropped: Quantity,
    dropped: u64,
}

impl Table {
    fn of(story: &Story, netns: u32) -> Option<Table> {
        let size = story.structures.get(netns, "conntrack")?.fullest;
        let most = size.limit.filter(|l| *l > 0)?;
        let (dropped, row) = story.structures.conntrack(netns, "dropped")?;
        Some(Table {
            held: size.entries,
            most,
            entries: Quantity::count(size.entries).rows([size.row]),
            limit: Quantity::count(most),
            conntrack_dropped: Quantity::of(dropped, "packet").rows([row]),
            dropped,
        })
    }

    fn is_full(&self) -> bool {
        limits::CONNTRACK_FULL.reached(self.held, self.most)
    }
}

fn no(asked: &Asked) -> Option<Step> {
    let Some(netns) = asked.silent()?.firewall_netns() else {
        return Some(say!("no firewall of this host dropped a SYN to it"));
    };
    let Some(table) = Table::of(asked.story, netns) else {
        let told = asked.story.health.has(&SourceName::Conntrack);
        return told.then(|| say!("no connection is tracked there"));
    };
    let full = table.is_full() && table.dropped >= limits::UNANSWERED.count();
    (!full).then(|| {
        say!(
            "connection tracking held {entries} of {limit} entries at most, and dropped \
             {conntrack_dropped}",
            entries = &table.entries,
            limit = &table.limit,
            conntrack_dropped = &table.conntrack_dropped
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let structures = &whole.story.structures;
    let tables = structures.named("conntrack").map(|(netns, _)| {
        let table = Table::of(whole.story, netns)?;
        let says = || {
            say!(
                "connection tracking held {entries} of {limit} entries at most, and dropped {conntrack_dropped}",
                entries = &table.entries,
                limit = &table.limit,
                conntrack_dropped = &table.conntrack_dropped
            )
        };
        every([
            Test::share(table.held, table.most, &limits::CONNTRACK_FULL, says()),
            Test::from(table.dropped as f64, &limits::UNANSWERED, says()),
        ])
    });
    Verdict::nearest(tables, "no table of tracked connections was read")
}

fn judge(place: &UnansweredSyns) -> Option<Finding> {
    let story = place.story;
    let netns = place.firewall_netns()?;
    let (lost, _) = place.untracked(netns);
    let table = Table::of(story, netns)?;
    if lost < limits::UNANSWERED.count() || !table.is_full() {
        return None;
    }
    let at = place.at;
    let mut scope = place.scope(netns);
    scope.resource = Some("conntrack".into());
    let host = namespace(&scope.netns);
    let (entries, limit, conntrack_dropped) =
        (&table.entries, &table.limit, &table.conntrack_dropped);
    let full = Quantity::share(table.held as f64 / table.most as f64);
    let syns = Quantity::of(lost, "SYN");
    let advice = advice(place, &scope.netns, &table, lost);
    let silent = days(silent_s(story, netns));
    let case = Case::new(story, CAUSE, scope)
        .placed(place.place())
        .title([
            format!(
                "Connection tracking is full ({entries} of {limit}): it dropped {syns} to {at}."
            ),
            format!("Connection tracking is full: it dropped {syns} to {at}."),
        ])
        .fix([format!(
            "Raise net.netfilter.nf_conntrack_max to {}, or do not track port {}.",
            Quantity::count(roomy(&table)),
            at.port
        )])
        .affects(
            place.impact(lost, place.passed()),
            place.times.lost(story, lost),
        )
        .because("the table counts the drops itself, and its entries are at the limit")
        .at_most_if(
            Level::Medium,
            table.dropped > lost.saturating_mul(limits::OTHERS_DROPPED.count()),
            "most of what it dropped were other packets: a rule may have dropped these SYNs",
        )
        .steps(place.firewall_steps())
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
        .checks(place.drops_check(lost))
        .advise(advice);
    Some(case.verify(
        "`tcpwhy stat tables` shows conntrack well below its limit, and the `drop` column of \
         /proc/net/stat/nf_conntrack no longer rises.",
    ))
}

/// A limit that the present entries fill to a half.
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
        "Let silent connections go earlier: lower nf_conntrack_tcp_timeout_established from {} to an hour.",
        days(silent_s)
    ))
    .by(command_in(netns, shell!("sysctl -w {timeout}=3600", timeout)))
    .undo(command_in(netns, shell!("sysctl -w {timeout}={silent_s}", timeout, silent_s)))
    .at(namespace(netns))
    .risk(
        "A connection that is silent for longer loses its entry; behind NAT it dies. TCP keepalive below \
         that time prevents it. Entries that are there keep their old time.",
    )
    .effect("Entries of connections whose ends are gone vanish after an hour.");
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
        "the host's own namespace: the limit is one number for all, though each namespace \
                 counts for itself",
    )
    .risk(format!(
        "Memory: up to {} more per namespace, at some {LINUX_ENTRY_BYTES} bytes per entry; chains \
                 grow longer unless nf_conntrack_buckets grows, too.",
        bytes(room.saturating_mul(LINUX_ENTRY_BYTES))
    ))
    .effect(format!(
        "Room for {more} connections more; at {} new ones per second it lasts {} s if none \
                 ends.",
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
        .effect("Connections to the port take no entries and are never dropped because it is full.")
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

/// How long an established connection that is silent keeps its entry; five days unless it was set.
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
