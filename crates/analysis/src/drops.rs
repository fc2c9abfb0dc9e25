//! Packets of connections that this host dropped, and whose they were.

use ahash::{AHashMap, AHashSet};
use recording::drop_reason::{DropKind, drop_kind};
use recording::tables::Event;
use recording::{RowRef, Text};

use super::conn::Conn;
use super::flags::{answers, ends, opens};
use super::place::Endpoint;
use super::transfers::keep;
use crate::bounded::{BoundedMap, Interest};

/// Pairs of addresses and ports whose drops are counted apart.
const MAX_DROPS: usize = 1 << 16;
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
    /// The same by kind, and frames for another host, which are no loss in themselves.
    pub kinds: Vec<OfKind>,
}

/// Those of one kind.
#[derive(Clone, Debug)]
pub struct OfKind {
    /// The kind.
    pub kind: DropKind,
    /// How many.
    pub count: u64,
    /// Of these, packets that open a connection.
    pub syns: u64,
    /// When the first and the last were dropped, ns.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// The kernel's reason of the first.
    pub reason: Option<Text>,
    /// The function that dropped it.
    pub location: Option<Text>,
    /// Some of the rows.
    pub rows: Vec<RowRef>,
    /// One packet that was dropped time and again, for the longest time.
    pub again: Again,
    /// The one that was dropped last.
    latest: Again,
}

/// A packet, by its sequence number, that was dropped as often as it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Again {
    seq: Option<u32>,
    /// How often.
    pub count: u64,
    /// When the first time, ns.
    pub first_ns: u64,
    /// When the last time, ns.
    pub last_ns: u64,
}

impl Again {
    /// From the first time to the last, ns.
    pub fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

impl OfKind {
    /// What ends a connection is retransmitted as well, and nobody waits for it.
    fn repeats(&mut self, row: &Event) {
        let Some(seq) = row.seq.filter(|_| !ends(row.flags)) else {
            return;
        };
        if self.latest.seq != Some(seq) {
            self.latest = Again {
                seq: Some(seq),
                count: 0,
                first_ns: row.time_ns,
                last_ns: row.time_ns,
            };
        }
        self.latest.count += 1;
        self.latest.last_ns = row.time_ns.max(self.latest.first_ns);
        if self.latest.span_ns() >= self.again.span_ns() {
            self.again = self.latest;
        }
    }
}

impl Dropped {
    /// Those of one kind.
    pub fn of(&self, kind: DropKind) -> Option<&OfKind> {
        self.kinds.iter().find(|of| of.kind == kind)
    }

    fn add_kind(&mut self, kind: DropKind, at: RowRef, row: &Event) {
        let known = self.kinds.iter().position(|of| of.kind == kind);
        let index = known.unwrap_or_else(|| {
            self.kinds.push(OfKind {
                kind,
                count: 0,
                syns: 0,
                first_ns: row.time_ns,
                last_ns: row.time_ns,
                reason: row.reason.clone(),
                location: row.location.clone(),
                rows: Vec::new(),
                again: Again::default(),
                latest: Again::default(),
            });
            self.kinds.len() - 1
        });
        let of = &mut self.kinds[index];
        of.count += 1;
        of.syns += u64::from(opens(row.flags));
        of.first_ns = of.first_ns.min(row.time_ns);
        of.last_ns = of.last_ns.max(row.time_ns);
        of.repeats(row);
        keep(&mut of.rows, at);
    }
}

/// By how many packets.
impl Interest for Dropped {
    fn interest(&self) -> u64 {
        self.counted()
    }
    fn counted(&self) -> u64 {
        let others = self
            .kinds
            .iter()
            .filter(|of| of.kind == DropKind::OtherHost);
        let lost = self.by_qdisc.saturating_add(self.otherwise);
        others.fold(lost, |sum, of| sum.saturating_add(of.count))
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
        let kind = drop_kind(reason);
        if reason.is_empty() || kind.is_some_and(is_unwanted) {
            return;
        }
        let from = Endpoint::new(row.remote_addr, row.remote_port);
        let to = Endpoint::new(row.local_addr, row.local_port);
        let key = (row.netns, from, to);
        let dropped = self.by_ends.slot(key, Dropped::default);
        if let Some(kind) = kind {
            dropped.add_kind(kind, at, row);
        }
        // A copy of a frame that is meant for another host (a flooding bridge, a promiscuous device) is no loss here.
        if kind == Some(DropKind::OtherHost) {
            return;
        }
        *self.anywhere.slot((from, to), || 0) += 1;
        if kind == Some(DropKind::Qdisc) {
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
            if kind == Some(DropKind::Firewall) && !opens(row.flags) {
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

/// What TCP throws away because it has it already or does not want it: a duplicate, a packet of another connection, what
/// exceeds the window. Its causes look at sockets and counters, and it is no loss.
fn is_unwanted(kind: DropKind) -> bool {
    matches!(
        kind,
        DropKind::UsedUp
            | DropKind::Unspecified
            | DropKind::NoSocket
            | DropKind::Duplicate
            | DropKind::Foreign
            | DropKind::Closed
            | DropKind::Window
            | DropKind::ListenerFull
    )
}

/// Whether a reason is that of a firewall: netfilter, programs of tc, XDP, cgroups and sockets, a security module.
pub fn is_firewall(reason: &str) -> bool {
    drop_kind(reason) == Some(DropKind::Firewall)
}
