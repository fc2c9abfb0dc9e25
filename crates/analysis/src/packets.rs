//! Drops, resets and repeated SYN-ACKs, counted by place and reason.

use ahash::AHashMap;
use recording::drop_reason::{DropKind, drop_kind};
use recording::tables::Event;
use recording::{Addr, EventKind, RowRef, Text};

use super::flags::{offers_ecn, opens};
use super::listeners::Listeners;
use super::place::Endpoint;
use crate::bounded::{Interest, fold_list};

/// With more groups than this (a scan over all ports), the smallest are counted together.
const MAX_GROUPS: usize = 65_536;
/// Rows and remote addresses kept per group; the rest is counted.
const KEPT_ROWS: usize = 3;
/// Other ends kept of a group.
pub const KEPT_REMOTES: usize = 32;

/// All groups.
#[derive(Debug, Default)]
pub struct Packets {
    groups: Vec<Group>,
    by_key: AHashMap<Key, u32>,
    by_place: AHashMap<(u32, Endpoint), Vec<u32>>,
    by_listener: AHashMap<u32, Vec<u32>>,
    names: AHashMap<Text, u32>,
    /// Events of groups beyond the bound.
    pub folded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    what: What,
    netns: u32,
    /// Where it was dropped, or the side that sent the reset or SYN-ACK. Unset for packets of
    /// established connections: their ports are too many to count each.
    local: Endpoint,
    reason: u32,
}

/// What happened to the packets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A packet that opens a connection was dropped.
    SynDropped,
    /// The last ACK of a handshake was dropped, because the accept queue was full.
    LateAckDropped,
    /// Another packet was dropped.
    Dropped,
    /// A reset was sent in answer to a packet that opens a connection.
    SynRefused,
    /// Another reset was sent.
    ResetSent,
    /// A SYN-ACK was retransmitted.
    SynAckRepeated,
}

/// Events of one kind at one place for one reason.
#[derive(Clone, Debug)]
pub struct Group {
    /// What happened.
    pub what: What,
    /// Network namespace.
    pub netns: u32,
    /// End on this host.
    pub local: Endpoint,
    /// 4 or 6.
    pub family: u8,
    /// The kernel's reason.
    pub reason: Option<Text>,
    /// The kernel function that dropped the first.
    pub location: Option<Text>,
    /// How many.
    pub count: u64,
    /// Of these, packets that offer ECN, as a SYN does with ECE and CWR.
    pub offer_ecn: u64,
    /// When it first happened.
    pub first_ns: u64,
    /// When it last happened.
    pub last_ns: u64,
    /// Some of the rows.
    pub rows: Vec<RowRef>,
    /// The first remote addresses seen.
    pub remotes: Vec<Remote>,
    key: Key,
}

/// An address that packets of a group came from or went to.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The address.
    pub addr: Addr,
    /// How many.
    pub count: u64,
    /// In which parts of the recording some did.
    pub slots: u32,
}

/// By how often it happened.
impl Interest for Group {
    fn interest(&self) -> u64 {
        self.count
    }
    fn counted(&self) -> u64 {
        self.count
    }
}

/// Whether its frame was for another machine: those of connections that are ours are counted in `drops.rs`.
fn is_for_another(row: &Event) -> bool {
    row.reason.as_deref().and_then(drop_kind) == Some(DropKind::OtherHost)
}

/// The last ACK of a handshake, dropped because the listener's accept queue was full: with a
/// cookie there is no request that could say so.
fn is_late_ack(row: &Event) -> bool {
    let of_cookie = matches!(
        row.location.as_deref(),
        Some("cookie_v4_check" | "cookie_v6_check")
    );
    match row.reason.as_deref() {
        Some("TCP_LISTEN_OVERFLOW") => true,
        Some("NO_SOCKET") => of_cookie,
        _ => false,
    }
}

impl Group {
    /// Whether its reason is the kernel's `name`.
    pub fn is_for(&self, name: &str) -> bool {
        self.reason.as_deref() == Some(name)
    }
}

impl Packets {
    /// Adds an event in a part of the recording. Where resets do not show refused connects (`resets_tell` is false),
    /// the drop of the SYN does.
    pub fn add(&mut self, at: RowRef, kind: &EventKind, row: &Event, slot: u32, resets_tell: bool) {
        let opening = opens(row.flags);
        let no_socket = row.reason.as_deref() == Some("NO_SOCKET");
        let what = match kind {
            // A copy of a frame that is meant for another host (a flooding bridge, a promiscuous device): no loss
            // here.
            EventKind::Drop if is_for_another(row) => return,
            EventKind::Drop if opening && no_socket && !resets_tell => What::SynRefused,
            EventKind::Drop if opening => What::SynDropped,
            EventKind::Drop if is_late_ack(row) => What::LateAckDropped,
            EventKind::Drop => What::Dropped,
            EventKind::ResetSent if opening => What::SynRefused,
            EventKind::ResetSent => What::ResetSent,
            EventKind::SynAckRetransmit => What::SynAckRepeated,
            _ => return,
        };
        let placed = match what {
            // The reset that answers it tells of it already.
            What::SynDropped => !no_socket,
            What::Dropped | What::ResetSent => false,
            What::LateAckDropped | What::SynRefused | What::SynAckRepeated => true,
        };
        let local = if placed {
            Endpoint::new(row.local_addr, row.local_port)
        } else {
            Endpoint::default()
        };
        let key = Key {
            what,
            netns: row.netns,
            local,
            reason: self.name(row.reason.as_ref()),
        };
        let index = match self.by_key.get(&key) {
            Some(index) => *index,
            None => self.push(key, row),
        };
        let group = &mut self.groups[index as usize];
        group.count += 1;
        group.offer_ecn += u64::from(offers_ecn(row.flags));
        group.first_ns = group.first_ns.min(row.time_ns);
        group.last_ns = group.last_ns.max(row.time_ns);
        if group.rows.len() < KEPT_ROWS {
            group.rows.push(at);
        }
        let remotes = &mut group.remotes;
        let room = remotes.len() < KEPT_REMOTES;
        match remotes.iter_mut().find(|r| r.addr == row.remote_addr) {
            Some(known) => {
                known.count += 1;
                known.slots |= slot;
            }
            None if room => remotes.push(Remote {
                addr: row.remote_addr,
                count: 1,
                slots: slot,
            }),
            None => {}
        }
    }

    fn push(&mut self, key: Key, row: &Event) -> u32 {
        if self.groups.len() >= MAX_GROUPS {
            self.folded += fold_list(&mut self.groups);
            self.by_key.clear();
            self.by_place.clear();
            for index in 0..self.groups.len() as u32 {
                self.index(index);
            }
        }
        let index = self.groups.len() as u32;
        self.groups.push(Group {
            key,
            what: key.what,
            netns: key.netns,
            local: key.local,
            family: row.family,
            reason: row.reason.clone(),
            location: row.location.clone(),
            count: 0,
            offer_ecn: 0,
            first_ns: row.time_ns,
            last_ns: row.time_ns,
            rows: Vec::new(),
            remotes: Vec::new(),
        });
        self.index(index);
        index
    }

    /// Makes it possible to find a group.
    fn index(&mut self, index: u32) {
        let key = self.groups[index as usize].key;
        self.by_key.insert(key, index);
        let place = (key.netns, key.local);
        self.by_place.entry(place).or_default().push(index);
    }

    /// A small number for a name; 0 for none.
    fn name(&mut self, name: Option<&Text>) -> u32 {
        let Some(name) = name else { return 0 };
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.names.len() as u32 + 1;
        // Kernels have a few hundred reasons and functions; a recording with more is made up.
        if self.names.len() < MAX_GROUPS {
            self.names.insert(name.clone(), id);
        }
        id
    }

    /// All groups, in the order in which they began.
    pub fn all(&self) -> &[Group] {
        &self.groups
    }

    /// The groups at an address and port of a namespace.
    pub fn at(&self, netns: u32, local: Endpoint) -> impl Iterator<Item = &Group> + Clone {
        self.of(self.by_place.get(&(netns, local)))
    }

    /// The groups whose packets were for a listener.
    pub fn of_listener(&self, listener: u32) -> impl Iterator<Item = &Group> + Clone {
        self.of(self.by_listener.get(&listener))
    }

    fn of<'a>(&'a self, indices: Option<&'a Vec<u32>>) -> impl Iterator<Item = &'a Group> + Clone {
        let indices = indices.into_iter().flatten();
        indices.filter_map(|i| self.groups.get(*i as usize))
    }

    /// Finds the listener of each group, once all listeners are known.
    pub(super) fn link(&mut self, listeners: &Listeners) {
        for (index, group) in self.groups.iter().enumerate() {
            let taking = listeners.taking(group.netns, group.local, group.family);
            if let Some(listener) = taking {
                let groups = self.by_listener.entry(listener).or_default();
                groups.push(index as u32);
            }
        }
    }
}
