//! Packets of one kind that a namespace of this host dropped, of the connections of one service: whose they were, how
//! many, and what the ends here lost by it.

use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use analysis::account::{self, State};
use analysis::{Conn, ConnId, Endpoint, OfKind, Side, Story};
use recording::RowRef;
use recording::drop_reason::{DropKind, drop_reason};

use crate::finding::{Impact, Role, Scope, Step};
use crate::lost::Lost;
use crate::moment::{Began, Since};
use crate::place::Place;
use crate::places::listener::SHOWN_ROWS;
use crate::places::path::End;
use crate::say::{Quantity, say};

/// What was dropped on the way from one end to the other, and which connections' ends here these are.
#[derive(Clone, Copy)]
pub(crate) struct DroppedWay<'a> {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    pub(crate) of: &'a OfKind,
    pub(crate) sender: Option<ConnId>,
    pub(crate) receiver: Option<ConnId>,
}

/// What one namespace dropped of one service's connections.
pub(crate) struct DroppedHere<'a> {
    pub(crate) story: &'a Story,
    /// The namespace that dropped.
    pub(crate) netns: u32,
    /// The server's end.
    pub(crate) at: Endpoint,
    /// The ends here that sent the packets.
    pub(crate) senders: Vec<ConnId>,
    /// The ends here that the packets were for, whose senders are on other hosts.
    pub(crate) receivers: Vec<ConnId>,
    pub(crate) ways: Vec<DroppedWay<'a>>,
}

/// Where packets of these kinds were dropped, in a fixed order.
pub(crate) fn places<'a>(story: &'a Story, kinds: &[DropKind]) -> Vec<DroppedHere<'a>> {
    let mut dropped: Vec<(u32, DroppedWay)> = Vec::new();
    for ((netns, from, to), all) in story.drops.all() {
        let wanted = all.kinds.iter().filter(|of| kinds.contains(&of.kind));
        dropped.extend(wanted.map(|of| {
            let way = DroppedWay {
                from: *from,
                to: *to,
                of,
                sender: None,
                receiver: None,
            };
            (*netns, way)
        }));
    }
    if dropped.is_empty() {
        return Vec::new();
    }
    find_ends(story, &mut dropped);
    let mut places: BTreeMap<(u32, DropKind, Endpoint), Vec<DroppedWay>> = BTreeMap::new();
    for (netns, way) in dropped {
        let key = (netns, way.of.kind, server(story, &way));
        places.entry(key).or_default().push(way);
    }
    let places = places.into_iter();
    let places = places.map(|((netns, _, at), ways)| DroppedHere::new(story, netns, at, ways));
    places.collect()
}

/// Finds the ends here of what was dropped.
fn find_ends(story: &Story, dropped: &mut [(u32, DroppedWay)]) {
    let mut by_way: AHashMap<(Endpoint, Endpoint), Vec<usize>> = AHashMap::new();
    let mut by_source: AHashMap<Endpoint, Vec<usize>> = AHashMap::new();
    for (i, (_, way)) in dropped.iter().enumerate() {
        by_way.entry((way.from, way.to)).or_default().push(i);
        by_source.entry(way.from).or_default().push(i);
    }
    let mut translated: Vec<Option<ConnId>> = vec![None; dropped.len()];
    for (id, conn) in (0..).zip(&story.conns) {
        for (from, to) in story.ways(conn) {
            for i in by_way.get(&(from, to)).into_iter().flatten() {
                if lived_in(conn, dropped[*i].1.of) {
                    dropped[*i].1.sender = Some(id);
                }
            }
            for i in by_way.get(&(to, from)).into_iter().flatten() {
                if lived_in(conn, dropped[*i].1.of) {
                    dropped[*i].1.receiver = Some(id);
                }
            }
        }
        // Where the destination was translated, as a service's address is, the source still tells.
        for i in by_source.get(&conn.local).into_iter().flatten() {
            if lived_in(conn, dropped[*i].1.of) {
                translated[*i] = Some(id);
            }
        }
    }
    for ((_, way), translated) in dropped.iter_mut().zip(translated) {
        way.sender = way.sender.or(translated);
    }
}

/// Whether a connection was there while packets of its ends were dropped.
fn lived_in(conn: &Conn, of: &OfKind) -> bool {
    conn.start_ns <= of.last_ns && conn.ended_ns.is_none_or(|ended| ended >= of.first_ns)
}

/// The server's end of a connection; of one that is not known the end with the lower port, which services have.
fn server(story: &Story, way: &DroppedWay) -> Endpoint {
    let known = way.sender.or(way.receiver);
    match known.and_then(|id| story.conn(id)) {
        Some(conn) if account::service(story, conn).1 == account::Role::Server => conn.local,
        Some(conn) => conn.remote,
        None if way.from.port < way.to.port => way.from,
        None => way.to,
    }
}

impl<'a> DroppedHere<'a> {
    fn new(story: &'a Story, netns: u32, at: Endpoint, ways: Vec<DroppedWay<'a>>) -> Self {
        let senders: BTreeSet<ConnId> = ways.iter().filter_map(|w| w.sender).collect();
        let alone = ways.iter().filter(|w| w.sender.is_none());
        let receivers: BTreeSet<ConnId> = alone.filter_map(|w| w.receiver).collect();
        DroppedHere {
            story,
            netns,
            at,
            senders: senders.into_iter().collect(),
            receivers: receivers.into_iter().collect(),
            ways,
        }
    }

    /// The same place with some of the ways; `None` if there are none.
    pub(crate) fn with(&self, wanted: impl Fn(&DroppedWay) -> bool) -> Option<DroppedHere<'a>> {
        let ways: Vec<DroppedWay> = self.ways.iter().copied().filter(|w| wanted(w)).collect();
        (!ways.is_empty()).then(|| DroppedHere::new(self.story, self.netns, self.at, ways))
    }

    /// Packets dropped.
    pub(crate) fn count(&self) -> u64 {
        self.sum(|of| of.count)
    }

    /// Of these, packets that open a connection.
    pub(crate) fn syns(&self) -> u64 {
        self.sum(|of| of.syns)
    }

    fn sum(&self, of: fn(&OfKind) -> u64) -> u64 {
        let each = self.ways.iter().map(|w| of(w.of));
        each.fold(0, u64::saturating_add)
    }

    /// Some of the rows.
    pub(crate) fn rows(&self) -> Vec<RowRef> {
        let rows = self.ways.iter().flat_map(|w| w.of.rows.iter().copied());
        rows.take(SHOWN_ROWS).collect()
    }

    /// The kernel's name of the reason, as of the first.
    pub(crate) fn reason(&self) -> &str {
        let first = self.ways.iter().find_map(|w| w.of.reason.as_deref());
        first.unwrap_or("not told")
    }

    /// What the reason means.
    pub(crate) fn means(&self) -> &'static str {
        drop_reason(self.reason()).map_or("the kernel gives no other reason", |r| r.says)
    }

    /// The ends here: those that sent, else those that were to receive.
    pub(crate) fn ends(&self) -> &[ConnId] {
        if self.senders.is_empty() {
            &self.receivers
        } else {
            &self.senders
        }
    }

    pub(crate) fn conns(&self) -> impl Iterator<Item = &'a Conn> + '_ {
        let story = self.story;
        let ids = self.ends().iter();
        ids.filter_map(move |id| story.conn(*id))
    }

    /// These ends and their other ends here.
    pub(crate) fn both(&self) -> impl Iterator<Item = ConnId> + '_ {
        let peers = self.conns().filter_map(|c| c.peer);
        self.ends().iter().copied().chain(peers)
    }

    /// What these connections retransmitted, SYNs included.
    pub(crate) fn retransmitted(&self) -> u64 {
        let each = self.both().map(|id| {
            let transfer = self.story.transfers.of(id);
            let data = transfer.map_or(0, |t| t.resends.count());
            let conn = self.story.conn(id);
            let known = conn.map_or(0, |c| u64::from(c.syn_retries));
            data.saturating_add(known)
        });
        each.fold(0, u64::saturating_add)
    }

    /// The time that both ends spent in repair, and that connects waited or failed for; of a share of it.
    pub(crate) fn lost(&self, share: f64) -> Lost {
        let ids: Vec<ConnId> = self.both().collect();
        let conns = || self.story.all(&ids).map(|(_, c)| c);
        let connecting = |c: &&Conn| c.connects() && (c.syn_retries > 0 || c.failed());
        let repaired = Lost::states(self.story, conns(), &[State::Repair], share);
        repaired.and(Lost::connects(self.story, conns().filter(connecting)))
    }

    /// The same, where the ends are not on this host: from the first to the last packet of each.
    pub(crate) fn lost_elsewhere(&self) -> Lost {
        let each = self.ways.iter().filter(|w| w.of.count > 1);
        let spans = each.map(DroppedWay::span_ns);
        Lost::elsewhere(spans.fold(0, u64::saturating_add))
    }

    /// Where other causes see it: the address that the connects go to, or the ends.
    pub(crate) fn place(&self) -> Place {
        let mut conns = self.conns();
        let first = conns.next().map(|c| (c.netns, c.remote));
        match first {
            Some((netns, to)) if self.syns() == self.count() && conns.all(|c| c.remote == to) => {
                Place::At(to.is_loopback().then_some(netns), to)
            }
            _ => Place::Ends(self.both().collect()),
        }
    }

    /// The processes of the ends, and the service.
    pub(crate) fn scope(&self) -> Scope {
        let owned = self.conns().filter_map(|c| self.story.owner(c));
        let owners: BTreeMap<u32, String> = owned.collect();
        let first = owners.iter().next();
        let listens = self.conns().all(|c| c.side == Side::Accepted);
        let netns = self.conns().map(|c| c.netns).next();
        Scope {
            netns: self.story.netns(netns.unwrap_or(self.netns)),
            listener: self.at.to_string(),
            role: if listens {
                Role::Listener
            } else {
                Role::Client
            },
            pid: first.map(|(pid, _)| *pid),
            comm: first.map(|(_, comm)| comm.clone()),
            pids: owners.keys().copied().collect(),
            ..Scope::default()
        }
    }

    /// How many connections it is about.
    pub(crate) fn affected(&self) -> u64 {
        let ways = self.ways.len() as u64;
        match self.ends().len() as u64 {
            0 => ways,
            known => known,
        }
    }

    pub(crate) fn impact(&self, says: String) -> Impact {
        let n = self.affected();
        Impact::of(n, n, "connections", says)
    }

    /// What was dropped, where and why.
    pub(crate) fn step(&self) -> Step {
        let here = crate::scope::namespace(&self.story.netns(self.netns));
        let location = self.ways.iter().find_map(|w| w.of.location.as_deref());
        let location = location.map_or(String::new(), |l| format!(" in {l}"));
        let (reason, means) = (self.reason(), self.means());
        say!(
            "{dropped} of {connections} were dropped in {here}, reason {reason}{location}: {means}.",
            dropped = Quantity::of(self.count(), "packet").rows(self.rows()),
            connections = Quantity::of(self.affected(), "connection")
        )
    }

    /// When the first was dropped; before the recording if something hung then.
    pub(crate) fn since(&self) -> Option<Since> {
        let ends = self.both().filter_map(|id| End::of(self.story, id));
        let mut stalls = ends.map(|e| &e.transfer.stall);
        if stalls.any(|stall| stall.before > 0) {
            let start_ns = self.story.start_ns;
            return Some(Since::at(self.story, start_ns, Began::Before));
        }
        let first = self.ways.iter().map(|w| w.of.first_ns).min()?;
        Some(Since::at(self.story, first, Began::Seen))
    }
}

impl DroppedWay<'_> {
    /// The connection's ends here.
    pub(crate) fn ends<'s>(&self, story: &'s Story) -> impl Iterator<Item = End<'s>> + use<'s> {
        let known = self.sender.or(self.receiver);
        let peer = known.and_then(|id| story.conn(id)?.peer);
        [known, peer]
            .into_iter()
            .flatten()
            .filter_map(|id| End::of(story, id))
    }

    /// For how long the sender's own kernel has failed to send, up to its last sample, ns.
    pub(crate) fn held_ns(&self, story: &Story) -> u64 {
        let transfer = self.sender.and_then(|id| story.transfers.of(id));
        transfer
            .and_then(|t| t.held_here)
            .map_or(0, |held| held.ns())
    }

    /// Whether all that was dropped would have opened the connection.
    pub(crate) fn is_syns(&self) -> bool {
        self.of.syns == self.of.count
    }

    /// From the first packet to the last, ns.
    pub(crate) fn span_ns(&self) -> u64 {
        self.of.last_ns.saturating_sub(self.of.first_ns)
    }
}
