//! Connections being opened: from the rows of both sides to one account of each attempt.

use ahash::AHashMap;
use recording::tables::{Event, Packet};
use recording::{Addr, Row, TcpState};

use crate::flags::{ACK, SYN};
use crate::owners::{Owner, Owners};
use crate::{Activity, Side};

/// Attempts followed at a time. Beyond that, an end is reported without its beginning.
const MAX_ATTEMPTS: usize = 1 << 18;

/// The table that it learns from besides those of the owners; without it, how long the accepting side took is not
/// known.
pub const PACKETS: &str = "packet";

/// A connection: namespace, end on this host, other end.
pub type Tuple = (u32, (Addr, u16), (Addr, u16));

/// That of an event.
pub fn tuple(e: &Event) -> Tuple {
    (
        e.netns,
        (e.local_addr, e.local_port),
        (e.remote_addr, e.remote_port),
    )
}

/// What an attempt to open a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is established.
    Established,
    /// A reset answered.
    Refused,
    /// An ICMP message answered, or this host could not send to it.
    Unreachable,
    /// There was no local port for it.
    NoPort,
    /// Nothing answered.
    Unanswered,
    /// It was given up before a SYN was retransmitted.
    Abandoned,
    /// The call failed, and no change of state tells more.
    Failed,
}

impl Ending {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Established => "established",
            Ending::Refused => "refused",
            Ending::Unreachable => "unreachable",
            Ending::NoPort => "no-port",
            Ending::Unanswered => "unanswered",
            Ending::Abandoned => "abandoned",
            Ending::Failed => "failed",
        }
    }
}

/// One end that is established, or has failed to be.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Which side this end is.
    pub side: Side,
    /// Whose it is.
    pub owner: Owner,
    /// From connect(), or from the first SYN that arrived.
    pub took_ns: Option<u64>,
    /// SYNs, or SYN-ACKs, retransmitted.
    pub retransmits: u32,
    /// What it came to.
    pub ending: Ending,
    /// The state change that ended the attempt.
    pub event: Event,
}

/// Follows attempts.
#[derive(Default)]
pub struct Attempts {
    /// Owners of sockets, learnt on the way.
    pub owners: Owners,
    connecting: AHashMap<u64, Connecting>,
    /// Requests: when the first SYN came in, and SYN-ACKs retransmitted.
    requests: AHashMap<Tuple, (Option<u64>, u32)>,
}

struct Connecting {
    since_ns: u64,
    retransmits: u32,
    refused: bool,
}

impl Attempts {
    /// Learns from a row; returns the attempt that it ends.
    pub fn take(&mut self, row: &Row) -> Option<Attempt> {
        self.owners.learn(row);
        match row {
            Row::Event(e) => self.event(e),
            Row::Packet(p) => {
                self.packet(p);
                None
            }
            _ => None,
        }
    }

    /// Whether the socket is connecting now.
    pub fn is_connecting(&self, sock: u64) -> bool {
        self.connecting.contains_key(&sock)
    }

    fn event(&mut self, e: &Event) -> Option<Attempt> {
        match Activity::of(e)? {
            Activity::Opened => {
                if let Some(sock) = e.sock.filter(|_| self.connecting.len() < MAX_ATTEMPTS) {
                    let connecting = Connecting {
                        since_ns: e.time_ns,
                        retransmits: 0,
                        refused: false,
                    };
                    self.connecting.insert(sock, connecting);
                }
                None
            }
            Activity::Connected => Some(self.connected(e)),
            Activity::Failed => Some(self.failed(e)),
            Activity::Accepted => Some(self.accepted(e)),
            Activity::SynRetransmitted => {
                let attempt = e.attempt.unwrap_or(1);
                let connecting = e.sock.and_then(|s| self.connecting.get_mut(&s));
                if let Some(c) = connecting {
                    c.retransmits = c.retransmits.saturating_add(1).max(attempt);
                }
                None
            }
            Activity::SynAckRetransmitted => {
                let (_, again) = self.request(tuple(e));
                *again = again.saturating_add(1);
                None
            }
            Activity::ResetReceived if e.state == Some(TcpState::SynSent) => {
                if let Some(c) = e.sock.and_then(|s| self.connecting.get_mut(&s)) {
                    c.refused = true;
                }
                None
            }
            _ => None,
        }
    }

    fn packet(&mut self, p: &Packet) {
        if p.flags & (SYN | ACK) != SYN || p.outgoing {
            return;
        }
        let local = (p.dst_addr, p.dst_port);
        let remote = (p.src_addr, p.src_port);
        let (first, _) = self.request((p.netns, local, remote));
        first.get_or_insert(p.time_ns);
    }

    fn request(&mut self, tuple: Tuple) -> &mut (Option<u64>, u32) {
        if self.requests.len() >= MAX_ATTEMPTS {
            // Requests that came to nothing leave no trace when they go.
            self.requests.clear();
        }
        self.requests.entry(tuple).or_default()
    }

    fn connected(&mut self, e: &Event) -> Attempt {
        let known = e.sock.and_then(|s| self.connecting.remove(&s));
        let again = known.as_ref().map_or(0, |c| c.retransmits);
        Attempt {
            side: Side::Opened,
            owner: self.owners.of_event(e),
            took_ns: known.map(|c| e.time_ns.saturating_sub(c.since_ns)),
            retransmits: again.max(e.retransmits.unwrap_or(0)),
            ending: Ending::Established,
            event: e.clone(),
        }
    }

    fn failed(&mut self, e: &Event) -> Attempt {
        let known = e.sock.and_then(|s| self.connecting.remove(&s));
        let again = known.as_ref().map_or(0, |c| c.retransmits);
        let again = again.max(e.retransmits.unwrap_or(0));
        let ending = match &known {
            Some(c) if c.refused => Ending::Refused,
            _ if e.error.as_deref().is_some_and(|e| e != "ETIMEDOUT") => Ending::Unreachable,
            _ if e.local_port == 0 => Ending::NoPort,
            _ if again > 0 => Ending::Unanswered,
            _ => Ending::Abandoned,
        };
        Attempt {
            side: Side::Opened,
            // The event's state is CLOSE; the owner is known by the socket.
            owner: self.owners.of_event(e),
            took_ns: known.map(|c| e.time_ns.saturating_sub(c.since_ns)),
            retransmits: again,
            ending,
            event: e.clone(),
        }
    }

    fn accepted(&mut self, e: &Event) -> Attempt {
        let (since, again) = self.requests.remove(&tuple(e)).unwrap_or_default();
        Attempt {
            side: Side::Accepted,
            owner: self.owners.of_event(e),
            took_ns: since.and_then(|since| e.time_ns.checked_sub(since)),
            retransmits: again,
            ending: Ending::Established,
            event: e.clone(),
        }
    }
}
