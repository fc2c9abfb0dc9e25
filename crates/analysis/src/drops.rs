//! Packets of connections that this host dropped, and whose they were.

use ahash::{AHashMap, AHashSet};
use recording::tables::Event;
use recording::{RowRef, Text};

use super::conn::Conn;
use super::flags::{answers, opens};
use super::place::Endpoint;
use super::transfers::keep;
use crate::bounded::{BoundedMap, Interest};

/// Pairs of addresses and ports whose drops are counted apart.
const MAX_DROPS: usize = 1 << 16;
/// The kernel's reasons for what a firewall drops.
const FIREWALLS: &[&str] = &[
    "NETFILTER_DROP",
    "TC_INGRESS",
    "TC_EGRESS",
    "XDP",
    "BPF_CGROUP_EGRESS",
];

/// By the namespace that dropped, the packet's source and destination.
pub type Place = (u32, Endpoint, Endpoint);

/// All drops.
#[derive(Debug, Default)]
pub struct Drops {
    by_ends: BoundedMap<Place, Dropped, MAX_DROPS>,
    /// The same, in any namespace: a packet may be dropped on its way through several.
    anywhere: BoundedMap<(Endpoint, Endpoint), u64, MAX_DROPS>,
    /// Packets dropped by queueing disciplines whose source is no end of this host, by destination.
    translated: AHashMap<Endpoint, u64>,
}

/// Packets of one direction of a connection that a host dropped.
#[derive(Clone, Debug, Default)]
pub struct Dropped {
    /// By a queueing discipline, as they left.
    pub by_qdisc: u64,
    /// By anything else that is not TCP's own choice.
    pub otherwise: u64,
    /// Of these, by a firewall, except packets that open a connection.
    pub by_firewall: u64,
    /// Of these, SYN-ACKs.
    pub syn_acks: u64,
    /// The kernel's reason of the first.
    pub reason: Option<Text>,
    /// The function that dropped it.
    pub location: Option<Text>,
    /// Some of the rows.
    pub rows: Vec<RowRef>,
}

/// By how many packets.
impl Interest for Dropped {
    fn interest(&self) -> u64 {
        self.counted()
    }
    fn counted(&self) -> u64 {
        self.by_qdisc.saturating_add(self.otherwise)
    }
}

impl Drops {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_ends.folded()
    }

    /// A packet was dropped on this host.
    pub(super) fn add(&mut self, at: RowRef, row: &Event) {
        let reason = row.reason.as_deref().unwrap_or("");
        // TCP throws away what it has received already or does not want: old data, duplicates. Nor is a copy of what
        // is meant for another host a loss.
        let unwanted = matches!(reason, "" | "NOT_SPECIFIED" | "NO_SOCKET" | "OTHERHOST");
        if reason.starts_with("TCP_") || unwanted {
            return;
        }
        let from = Endpoint::new(row.remote_addr, row.remote_port);
        let to = Endpoint::new(row.local_addr, row.local_port);
        let key = (row.netns, from, to);
        let dropped = self.by_ends.slot(key, Dropped::default);
        *self.anywhere.slot((from, to), || 0) += 1;
        if is_qdisc(reason) {
            if dropped.by_qdisc == 0 {
                dropped.reason = row.reason.clone();
                dropped.location = row.location.clone();
                dropped.rows.clear();
            }
            dropped.by_qdisc += 1;
            keep(&mut dropped.rows, at);
        } else {
            if dropped.by_qdisc + dropped.otherwise == 0 {
                dropped.reason = row.reason.clone();
                dropped.location = row.location.clone();
            }
            dropped.otherwise += 1;
            if is_firewall(reason) && !opens(row.flags) {
                dropped.by_firewall += 1;
                dropped.syn_acks += u64::from(answers(row.flags));
            }
            if dropped.by_qdisc == 0 {
                keep(&mut dropped.rows, at);
            }
        }
    }

    /// All connections are known: a packet with the source of none was translated before it was dropped.
    pub(super) fn claim(&mut self, conns: &[Conn]) {
        let by_qdisc = self.by_ends.iter().filter(|(_, d)| d.by_qdisc > 0);
        let mut nobodys: AHashSet<_> = by_qdisc.map(|((_, from, to), _)| (*from, *to)).collect();
        for conn in conns {
            if nobodys.is_empty() {
                return;
            }
            nobodys.remove(&(conn.local, conn.remote));
            nobodys.remove(&(conn.remote, conn.local));
        }
        for ((_, from, to), dropped) in self.by_ends.iter() {
            if nobodys.contains(&(*from, *to)) {
                *self.translated.entry(*to).or_default() += dropped.by_qdisc;
            }
        }
    }

    /// The packets of this end that its own namespace dropped as they left.
    pub fn leaving(&self, conn: &Conn) -> Option<&Dropped> {
        self.by_ends.get(&(conn.netns, conn.local, conn.remote))
    }

    /// All of them, in a fixed order.
    pub fn all(&self) -> impl Iterator<Item = (&Place, &Dropped)> {
        self.by_ends.iter()
    }

    /// Packets that queueing disciplines dropped on their way to one of these, after translation: whose they were is
    /// not known, only that something here sends there.
    pub fn translated_to(&self, to: impl IntoIterator<Item = Endpoint>) -> u64 {
        let to: AHashSet<Endpoint> = to.into_iter().collect();
        to.iter().filter_map(|to| self.translated.get(to)).sum()
    }

    /// How many packets from one end to another were dropped, in any namespace.
    pub(super) fn between(&self, from: Endpoint, to: Endpoint) -> u64 {
        self.anywhere.get(&(from, to)).copied().unwrap_or(0)
    }
}

/// Whether a reason is that of a queueing discipline: `QDISC_DROP`, `QDISC_OVERLIMIT` …
fn is_qdisc(reason: &str) -> bool {
    reason.starts_with("QDISC_")
}

/// Whether a reason is that of a firewall: netfilter, and programs of tc, XDP and cgroups.
pub fn is_firewall(reason: &str) -> bool {
    FIREWALLS.contains(&reason)
}
