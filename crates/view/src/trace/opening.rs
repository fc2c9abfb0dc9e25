//! Connections being opened: from the rows of both sides to one account of each attempt.

use ahash::AHashMap;
use analysis::Activity;
use analysis::owners::{Owner, Owners};
use recording::tables::{Event, Packet};
use recording::{Row, TcpState};

use super::{Tuple, tuple};

/// Attempts followed at a time. Of those beyond, the end is told without its beginning.
const MAX_ATTEMPTS: usize = 1 << 18;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// Tables that it learns from beside those of the owners; without packets, how long the accepting
/// side took is not known.
pub(super) const PACKETS: &str = "packet";

/// Which side of a connection an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Connect,
    Accept,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Connect => "connect",
            Side::Accept => "accept",
        }
    }
}

/// One end that is established, or has failed to be.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) side: Side,
    pub(super) owner: Owner,
    /// From connect(), or from the first SYN that arrived.
    pub(super) took_ns: Option<u64>,
    /// SYNs, or SYN-ACKs, sent again.
    pub(super) sent_again: u32,
    pub(super) result: &'static str,
    /// The state change that ended the attempt.
    pub(super) event: Event,
}

/// Follows attempts.
#[derive(Default)]
pub(super) struct Opening {
    pub(super) owners: Owners,
    connecting: AHashMap<u64, Connecting>,
    /// Requests: when the first SYN came in, and SYN-ACKs sent again.
    requests: AHashMap<Tuple, (Option<u64>, u32)>,
}

struct Connecting {
    since_ns: u64,
    syns_again: u32,
    refused: bool,
}

impl Opening {
    /// Learns from a row; the attempt that it ends.
    pub(super) fn take(&mut self, row: &Row) -> Option<Opened> {
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
    pub(super) fn is_connecting(&self, sock: u64) -> bool {
        self.connecting.contains_key(&sock)
    }

    fn event(&mut self, e: &Event) -> Option<Opened> {
        match Activity::of(e)? {
            Activity::Opened => {
                if let Some(sock) = e.sock.filter(|_| self.connecting.len() < MAX_ATTEMPTS) {
                    let connecting = Connecting {
                        since_ns: e.time_ns,
                        syns_again: 0,
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
                    c.syns_again = c.syns_again.saturating_add(1).max(attempt);
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

    fn connected(&mut self, e: &Event) -> Opened {
        let known = e.sock.and_then(|s| self.connecting.remove(&s));
        let again = known.as_ref().map_or(0, |c| c.syns_again);
        Opened {
            side: Side::Connect,
            owner: self.owners.of_event(e),
            took_ns: known.map(|c| e.time_ns.saturating_sub(c.since_ns)),
            sent_again: again.max(e.retransmits.unwrap_or(0)),
            result: "established",
            event: e.clone(),
        }
    }

    fn failed(&mut self, e: &Event) -> Opened {
        let known = e.sock.and_then(|s| self.connecting.remove(&s));
        let again = known.as_ref().map_or(0, |c| c.syns_again);
        let again = again.max(e.retransmits.unwrap_or(0));
        let result = match &known {
            Some(c) if c.refused => "refused",
            _ if e.local_port == 0 => "no-port",
            _ if again > 0 => "unanswered",
            _ => "abandoned",
        };
        Opened {
            side: Side::Connect,
            // The event's state is CLOSE; the owner is known by the socket.
            owner: self.owners.of_event(e),
            took_ns: known.map(|c| e.time_ns.saturating_sub(c.since_ns)),
            sent_again: again,
            result,
            event: e.clone(),
        }
    }

    fn accepted(&mut self, e: &Event) -> Opened {
        let (since, again) = self.requests.remove(&tuple(e)).unwrap_or_default();
        Opened {
            side: Side::Accept,
            owner: self.owners.of_event(e),
            took_ns: since.and_then(|since| e.time_ns.checked_sub(since)),
            sent_again: again,
            result: "established",
            event: e.clone(),
        }
    }
}
