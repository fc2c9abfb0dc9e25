//! Drops, resets and repeated SYN-ACKs, counted by place and reason.

use ahash::AHashMap;
use recording::tables::Event;
use recording::{Addr, RowRef, Text};

use super::kinds::{Kind, opens};
use super::place::Endpoint;

/// More groups than this (a scan over all ports) are counted together.
const MAX_GROUPS: usize = 65_536;
/// Rows and remote addresses kept per group; the rest is counted.
const KEPT_ROWS: usize = 3;
const KEPT_REMOTES: usize = 64;

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    groups: Vec<Group>,
    by_key: AHashMap<Key, u32>,
    by_port: AHashMap<(u32, u16), Vec<u32>>,
    names: AHashMap<Text, u32>,
    /// Events of groups beyond the bound.
    pub(crate) folded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    what: What,
    netns: u32,
    /// Where it was dropped, or the side that sent the reset or SYN-ACK. Unset for packets of
    /// established connections: their ports are too many to count each.
    local: Endpoint,
    reason: u32,
    location: u32,
}

/// What happened to the packets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// A packet that opens a connection was dropped.
    SynDropped,
    /// Another packet was dropped.
    Dropped,
    /// A reset was sent in answer to a packet that opens a connection.
    SynRefused,
    /// Another reset was sent.
    ResetSent,
    /// A SYN-ACK was sent again.
    SynAckRepeated,
}

/// Events of one kind at one place for one reason.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) what: What,
    pub(crate) netns: u32,
    pub(crate) local: Endpoint,
    pub(crate) family: u8,
    pub(crate) reason: Option<Text>,
    pub(crate) location: Option<Text>,
    pub(crate) count: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) rows: Vec<RowRef>,
    /// The first remote addresses seen and how often each.
    pub(crate) remotes: Vec<(Addr, u64)>,
}

impl Group {
    /// Whether its reason is the kernel's `name`.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        self.reason.as_deref() == Some(name)
    }
    /// Whether it happened in the kernel function `name`.
    pub(crate) fn is_in(&self, name: &str) -> bool {
        self.location.as_deref() == Some(name)
    }
}

impl Packets {
    pub(crate) fn add(&mut self, at: RowRef, kind: Kind, row: &Event) {
        let opening = opens(row.flags);
        let what = match kind {
            Kind::Drop if opening => What::SynDropped,
            Kind::Drop => What::Dropped,
            Kind::ResetSent if opening => What::SynRefused,
            Kind::ResetSent => What::ResetSent,
            Kind::SynAckRetransmit => What::SynAckRepeated,
            _ => return,
        };
        // The last ACK of a handshake is lost at a listener: its address is worth keeping.
        let at_listener = |r: &str| r == "TCP_LISTEN_OVERFLOW" || r == "NO_SOCKET";
        let placed = match what {
            What::Dropped => row.reason.as_deref().is_some_and(at_listener),
            What::ResetSent => false,
            _ => true,
        };
        let local = match placed {
            true => Endpoint::new(row.local_addr, row.local_port),
            false => Endpoint::default(),
        };
        let key = Key {
            what,
            netns: row.netns,
            local,
            reason: self.name(row.reason.as_ref()),
            location: self.name(row.location.as_ref()),
        };
        let index = match self.by_key.get(&key) {
            Some(index) => *index,
            None if self.groups.len() < MAX_GROUPS => self.push(key, row),
            None => {
                self.folded += 1;
                return;
            }
        };
        let group = &mut self.groups[index as usize];
        group.count += 1;
        group.first_ns = group.first_ns.min(row.time_ns);
        group.last_ns = group.last_ns.max(row.time_ns);
        if group.rows.len() < KEPT_ROWS {
            group.rows.push(at);
        }
        let remotes = &mut group.remotes;
        match remotes.iter().position(|(a, _)| *a == row.remote_addr) {
            Some(known) => remotes[known].1 += 1,
            None if remotes.len() < KEPT_REMOTES => remotes.push((row.remote_addr, 1)),
            None => {}
        }
    }

    fn push(&mut self, key: Key, row: &Event) -> u32 {
        let index = self.groups.len() as u32;
        self.groups.push(Group {
            what: key.what,
            netns: key.netns,
            local: key.local,
            family: row.family,
            reason: row.reason.clone(),
            location: row.location.clone(),
            count: 0,
            first_ns: row.time_ns,
            last_ns: row.time_ns,
            rows: Vec::new(),
            remotes: Vec::new(),
        });
        self.by_key.insert(key, index);
        let place = (key.netns, key.local.port);
        self.by_port.entry(place).or_default().push(index);
        index
    }

    /// A small number for a name; 0 for none.
    fn name(&mut self, name: Option<&Text>) -> u32 {
        let Some(name) = name else { return 0 };
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.names.len() as u32 + 1;
        // Kernels have some hundred reasons and functions; a recording with more is made up.
        if self.names.len() < MAX_GROUPS {
            self.names.insert(name.clone(), id);
        }
        id
    }

    /// All groups, in the order in which they began.
    pub(crate) fn all(&self) -> &[Group] {
        &self.groups
    }

    /// The groups at a port of a namespace, whatever the address.
    pub(crate) fn at_port(&self, netns: u32, port: u16) -> impl Iterator<Item = &Group> + Clone {
        let indices = self.by_port.get(&(netns, port)).into_iter().flatten();
        indices.filter_map(|i| self.groups.get(*i as usize))
    }
}
