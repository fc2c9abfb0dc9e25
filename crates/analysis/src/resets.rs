//! Resets of established connections: who sent each and why, who got one, and what firewalls rejected.

use ahash::{AHashMap, AHashSet};
use recording::tables::Event;
use recording::{Error, EventKind, Recording, RowRef, TcpState, Text};

use super::conn::{Conn, ConnId, Side};
use super::flags::opens;
use super::fold::Moved;
use super::place::{Endpoint, EventRow};
use crate::stacks::functions;

/// Resets kept of each kind; those beyond are counted. About 60 MB in all.
const MAX_KEPT: usize = 1 << 18;
/// Stacks looked at: the kernel sends resets from a dozen places or so.
const MAX_STACKS: usize = 4_096;
/// Frames looked at per stack; the recorder keeps no more for a reset.
const STACK_DEPTH: u32 = 24;

/// A firewall that rejects drops the packet and sends the reset in one go; the reset reaches the other end while the
/// drop is still being recorded, within this time, ns.
const AT_ONCE_NS: u64 = 50_000_000;

/// Resets after the handshake.
#[derive(Debug, Default)]
pub struct Resets {
    /// Sent by this host.
    pub sent: Vec<Sent>,
    /// Received by this host, one for each connection.
    pub received: AHashMap<ConnId, Got>,
    /// The same for connections that the other end had closed, and then this one: the reset answers what this end
    /// sent in between, or its FIN, where nothing is left of the other end.
    late: AHashMap<ConnId, Got>,
    /// Source and destination of each reset that this host sent and that did not answer a SYN.
    senders: AHashSet<(Endpoint, Endpoint)>,
    /// The sources of those.
    origins: AHashSet<Endpoint>,
    /// Resets that found no socket for what they answer, by namespace and the address and port that it was for.
    strays: AHashMap<(u32, Endpoint), Stray>,
    /// Packets that a firewall of this host dropped, by source and destination.
    rejected: AHashMap<(Endpoint, Endpoint), Rejected>,
    /// Resets sent, by namespace and reason.
    counts: AHashMap<(u32, Why), u64>,
    /// Rows beyond the bound.
    pub folded: u64,
}

/// A reset that an open connection got.
#[derive(Clone, Copy, Debug)]
pub struct Got {
    /// When it came.
    pub time_ns: u64,
    /// Both ends had closed by then, the other one first.
    pub late: bool,
    row: EventRow,
}

impl Got {
    /// The row that says so.
    pub fn row(self) -> RowRef {
        self.row.into()
    }
}

/// A reset that this host sent because it had no socket for a segment that was not a SYN.
#[derive(Clone, Copy, Debug)]
pub struct Stray {
    /// Where the segment came from.
    pub remote: Endpoint,
    /// When the first came.
    pub time_ns: u64,
    row: EventRow,
}

impl Stray {
    /// The row that says so.
    pub fn row(self) -> RowRef {
        self.row.into()
    }
}

/// Packets between two ends that a firewall of this host dropped.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Network namespace.
    pub netns: u32,
    /// The kernel function that dropped the first.
    pub location: Option<Text>,
    first_ns: u64,
    last_ns: u64,
    row: EventRow,
}

impl Rejected {
    /// The row that says so.
    pub fn row(&self) -> RowRef {
        self.row.into()
    }
}

/// A reset that a socket of this host sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Network namespace.
    pub netns: u32,
    /// When it was sent.
    pub time_ns: u64,
    /// The connection that it ended; `None` when it is not known.
    pub conn: Option<ConnId>,
    /// Why it was sent.
    pub why: Why,
    /// The kernel gave a reason, as it does since Linux 6.10.
    pub told: bool,
    row: EventRow,
    /// The stack that tells why, when the reason does not.
    stack: Option<u64>,
}

impl Sent {
    /// The row that says so.
    pub fn row(&self) -> RowRef {
        self.row.into()
    }
}

/// Why a socket sent a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It was closed while received data was unread.
    UnreadData,
    /// It was closed with SO_LINGER set to 0.
    Linger,
    /// Its peer answered no keep-alive.
    KeepAlive,
    /// It waited in the accept queue of a listener that ended.
    ListenerEnded,
    /// Its program had closed it when data came.
    DataAfterClose,
    /// Anything else.
    Other,
}

impl Why {
    /// From the kernel's name of the reason; `None` when only the stack tells. The kernel calls it `TCP_STATE` when a
    /// connection is aborted, no matter by whom.
    fn named(reason: Option<&str>) -> Option<Why> {
        match reason? {
            "TCP_ABORT_ON_CLOSE" => Some(Why::UnreadData),
            "TCP_ABORT_ON_LINGER" => Some(Why::Linger),
            "TCP_KEEPALIVE_TIMEOUT" => Some(Why::KeepAlive),
            "TCP_ABORT_ON_DATA" => Some(Why::DataAfterClose),
            "TCP_STATE" | UNSPECIFIED => None,
            _ => Some(Why::Other),
        }
    }

    /// From the functions above the one that sends it.
    fn by(stack: &[Text]) -> Why {
        let through = |name: &str| stack.iter().any(|function| &**function == name);
        let closes = through("__tcp_close") || through("tcp_close");
        // close() sends it itself for unread data, and by way of tcp_disconnect for SO_LINGER 0. A listener's disconnects
        // what nobody has accepted.
        if through("inet_csk_listen_stop") {
            return Why::ListenerEnded;
        }
        match (closes, through("tcp_disconnect")) {
            (true, false) => Why::UnreadData,
            (true, true) => Why::Linger,
            _ if through("tcp_keepalive_timer") => Why::KeepAlive,
            _ => Why::Other,
        }
    }
}

/// The kernel's name for no reason.
const UNSPECIFIED: &str = "NOT_SPECIFIED";

/// Whether a socket in this state could still be read from.
fn is_open(state: Option<&TcpState>) -> bool {
    matches!(state, Some(TcpState::Established | TcpState::CloseWait))
}

impl Resets {
    /// The connections that sent or got one.
    pub(super) fn conns(&self) -> AHashSet<ConnId> {
        let sent = self.sent.iter().filter_map(|s| s.conn);
        let received = self.received.keys().chain(self.late.keys());
        sent.chain(received.copied()).collect()
    }

    /// Connection ids have changed.
    pub(super) fn moved(&mut self, moved: &Moved) {
        for sent in &mut self.sent {
            sent.conn = sent.conn.and_then(|id| moved.to(id));
        }
        for received in [&mut self.received, &mut self.late] {
            let all = std::mem::take(received).into_iter();
            let all = all.filter_map(|(id, got)| Some((moved.to(id)?, got)));
            *received = all.collect();
        }
    }

    /// Takes note of an event; `conn` is that of its socket.
    pub(super) fn event(
        &mut self,
        at: RowRef,
        kind: &EventKind,
        row: &Event,
        conn: Option<ConnId>,
    ) {
        let local = Endpoint::new(row.local_addr, row.local_port);
        let remote = Endpoint::new(row.remote_addr, row.remote_port);
        if *kind == EventKind::ResetSent && !opens(row.flags) {
            if self.senders.len() < MAX_KEPT || self.senders.contains(&(local, remote)) {
                self.senders.insert((local, remote));
                self.origins.insert(local);
            } else {
                self.folded += 1
            }
        }
        match kind {
            EventKind::ResetSent if row.sock.is_none() && !opens(row.flags) => {
                let key = (row.netns, local);
                let (time_ns, row) = (row.time_ns, at.into());
                if self.strays.len() < MAX_KEPT || self.strays.contains_key(&key) {
                    let stray = Stray {
                        remote,
                        time_ns,
                        row,
                    };
                    self.strays.entry(key).or_insert(stray);
                } else {
                    self.folded += 1;
                }
            }
            EventKind::ResetSent if row.sock.is_some() && !opens(row.flags) => {
                let reason = row.reason.as_deref();
                let named = Why::named(reason);
                let sent = Sent {
                    netns: row.netns,
                    time_ns: row.time_ns,
                    conn,
                    why: named.unwrap_or(Why::Other),
                    told: reason.is_some_and(|r| r != UNSPECIFIED),
                    row: at.into(),
                    stack: row.stack.filter(|_| named.is_none()),
                };
                if self.sent.len() < MAX_KEPT {
                    self.sent.push(sent)
                } else {
                    self.folded += 1
                }
            }
            // A socket that has closed gives itself a reset when data still comes.
            EventKind::ResetReceived => {
                let late = row.state == Some(TcpState::LastAck);
                let Some(conn) = conn.filter(|_| late || is_open(row.state.as_ref())) else {
                    return;
                };
                let known = if late {
                    &mut self.late
                } else {
                    &mut self.received
                };
                if known.len() < MAX_KEPT || known.contains_key(&conn) {
                    let (time_ns, row) = (row.time_ns, at.into());
                    known.insert(conn, Got { time_ns, late, row });
                } else {
                    self.folded += 1;
                }
            }
            // For a dropped packet the local side is where it was going.
            EventKind::Drop if row.reason.as_deref() == Some("NETFILTER_DROP") => {
                self.reject(at, row, (remote, local));
            }
            _ => {}
        }
    }

    fn reject(&mut self, at: RowRef, row: &Event, ends: (Endpoint, Endpoint)) {
        let time_ns = row.time_ns;
        if let Some(known) = self.rejected.get_mut(&ends) {
            known.first_ns = known.first_ns.min(time_ns);
            known.last_ns = known.last_ns.max(time_ns);
        } else if self.rejected.len() < MAX_KEPT {
            let rejected = Rejected {
                netns: row.netns,
                location: row.location.clone(),
                first_ns: time_ns,
                last_ns: time_ns,
                row: at.into(),
            };
            self.rejected.insert(ends, rejected);
        }
    }

    /// The reset that a connection got while its program could read from it, or after both ends had closed.
    pub fn got(&self, conn: ConnId) -> Option<Got> {
        let got = self.received.get(&conn).or_else(|| self.late.get(&conn));
        got.copied()
    }

    /// Whether this host sent a reset in the name of the other end of a connection.
    pub fn was_sent(&self, conn: &Conn) -> bool {
        self.senders.contains(&(conn.remote, conn.local))
    }

    /// The first reset that this host sent from this end's address and port though the segment that it answers came
    /// from elsewhere than the end's peer, while the end was there.
    pub fn stray(&self, conn: &Conn) -> Option<Stray> {
        let stray = self.strays.get(&(conn.netns, conn.local))?;
        let began = conn.side == Side::Older || conn.start_ns <= stray.time_ns;
        let ended = conn.ended_ns.is_some_and(|ns| ns < stray.time_ns);
        (stray.remote != conn.remote && began && !ended).then_some(*stray)
    }

    /// Whether this host sent any from there, also to an address that was translated on the way.
    pub fn come_from(&self, at: Endpoint) -> bool {
        self.origins.contains(&at)
    }

    /// Whether this host sent a reset in the name of this end itself, because the end was gone when the answer to its
    /// SYN came, late.
    pub fn was_sent_by(&self, conn: &Conn) -> bool {
        self.senders.contains(&(conn.local, conn.remote))
    }

    /// The ends whose first packet to `at` a firewall of this host dropped, until `before_ns`, and whether it dropped
    /// another one later.
    pub fn rejected_at(
        &self,
        at: Endpoint,
        before_ns: u64,
    ) -> impl Iterator<Item = (Endpoint, bool)> + '_ {
        let there = self.rejected.iter().filter(move |((_, to), _)| *to == at);
        let early = there.filter(move |(_, r)| r.first_ns <= before_ns);
        early.map(|((from, _), r)| {
            let over_ns = r.last_ns.saturating_sub(r.first_ns);
            (*from, over_ns > AT_ONCE_NS)
        })
    }

    /// The packet of this end that a firewall dropped when the end got a reset.
    pub fn rejected(&self, conn: &Conn, time_ns: u64) -> Option<&Rejected> {
        let rejected = self.rejected.get(&(conn.local, conn.remote))?;
        let near = |t: u64| t.abs_diff(time_ns) <= AT_ONCE_NS;
        (near(rejected.first_ns) || near(rejected.last_ns)).then_some(rejected)
    }

    /// Where the reason does not tell why a reset was sent, the stack does.
    pub(super) fn read_stacks(&mut self, recording: &Recording) -> Result<(), Error> {
        let mut wanted = AHashSet::new();
        for stack in self.sent.iter().filter_map(|s| s.stack) {
            if wanted.len() < MAX_STACKS {
                wanted.insert(stack);
            }
        }
        let stacks = if wanted.is_empty() {
            AHashMap::new()
        } else {
            functions(recording, &wanted, STACK_DEPTH, Some)?
        };
        for sent in &mut self.sent {
            if let Some(stack) = sent.stack.and_then(|s| stacks.get(&s)) {
                sent.why = Why::by(stack);
            }
            *self.counts.entry((sent.netns, sent.why)).or_default() += 1;
        }
        Ok(())
    }

    /// Resets that sockets of a namespace sent for this reason.
    pub fn sent_for(&self, netns: u32, why: Why) -> u64 {
        self.counts.get(&(netns, why)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use recording::Addr;

    use super::*;

    #[test]
    fn drops_that_are_told_out_of_order_are_of_the_same_time() {
        let at = RowRef {
            table: "event",
            segment: 1,
            row: 0,
        };
        let end = |port| Endpoint::new(Addr::from(std::net::Ipv4Addr::LOCALHOST), port);
        let mut resets = Resets::default();
        for time_ns in [2 * AT_ONCE_NS, 0, AT_ONCE_NS] {
            let row = Event {
                time_ns,
                reason: Some("NETFILTER_DROP".into()),
                local_addr: end(80).addr,
                local_port: 80,
                remote_addr: end(9).addr,
                remote_port: 9,
                ..Event::default()
            };
            resets.event(at, &EventKind::Drop, &row, None);
        }
        let rejected: Vec<_> = resets.rejected_at(end(80), u64::MAX).collect();
        assert_eq!(rejected, [(end(9), true)]);
    }
}
