//! From state changes, retransmissions and samples, in order of time, to connections.

use ahash::{AHashMap, AHashSet};
use recording::tables::{Event, Socket};
use recording::{RowRef, TcpState};

use super::conn::{Agreed, Conn, ConnId, Isns, Outcome, Sample, Sampled, Side};
use super::pairs::Pairs;
use super::place::{Endpoint, EventRow};
use crate::Activity;
use crate::account::Ledger;
use crate::standing::waits_for_accept;

/// Connections kept one by one. This many take about 250 MB with their indexes, and reading a recording takes no more
/// than 400.
pub const MAX_CONNECTIONS: usize = 1 << 19;
/// Connections whose samples are kept.
const MAX_SAMPLED: usize = 1 << 18;

/// Builds connections; feed it rows in order of time.
#[derive(Debug, Default)]
pub struct Connections {
    /// When the recording began.
    start_ns: u64,
    pub all: Vec<Conn>,
    pub samples: Vec<Sampled>,
    /// The latest connection of each socket. It stays after its end: a late sample of a closed
    /// socket must not look like a new one.
    pub(super) of_sock: AHashMap<u64, ConnId>,
    pub(super) pairs: Pairs,
    /// How many may be kept.
    pub(super) most: usize,
    /// How many have ended since room was looked for.
    pub(super) ended: usize,
    /// Connections beyond the bound.
    pub folded: u64,
    /// Sockets of connections that there was no room for; their later rows begin no new connection.
    away: AHashSet<u64>,
    /// Samples of connections beyond the bound of those that are sampled.
    pub unsampled: u64,
    /// Ends older than the recording, by the inode of their file: their connect() was not seen.
    pub unowned: AHashMap<u64, ConnId>,
}

impl Connections {
    /// None yet, for a recording that began then; at most `most` are kept.
    pub fn since(start_ns: u64, most: usize) -> Connections {
        Connections {
            start_ns,
            most,
            ..Connections::default()
        }
    }

    /// A `state` row that is not about a listener, and what it says.
    pub fn state(&mut self, at: EventRow, row: &Event, activity: Option<Activity>, old: &TcpState) {
        match activity {
            Some(Activity::Opened) => self.opening(at, row),
            Some(Activity::Connected | Activity::Accepted) => self.established(at, row, old),
            _ if row.state == Some(TcpState::Close) => self.closed(at, row, old),
            _ => {}
        }
    }

    fn opening(&mut self, at: EventRow, row: &Event) {
        let mut conn = Conn::new(row.netns, Side::Opened, local(row), remote(row));
        conn.family = row.family;
        conn.start_ns = row.time_ns;
        conn.pid = row.pid;
        conn.comm = row.comm.clone();
        conn.cgroup = row.cgroup;
        conn.row = Some(at);
        self.push(row.sock, conn);
    }

    fn established(&mut self, at: EventRow, row: &Event, old: &TcpState) {
        let pending = self.live(row.sock).filter(|id| {
            let c = &self.all[*id as usize];
            c.outcome == Outcome::Pending && c.remote == remote(row)
        });
        let id = match (pending, old) {
            (Some(id), _) => id,
            (None, TcpState::SynSent) if self.is_away(row.sock) => return,
            (None, TcpState::SynSent) => {
                // connect() was called before the recording began.
                let mut conn = Conn::new(row.netns, Side::Older, local(row), remote(row));
                conn.start_ns = row.time_ns;
                let Some(id) = self.push(row.sock, conn) else {
                    return;
                };
                id
            }
            (None, _) => {
                let mut conn = Conn::new(row.netns, Side::Accepted, local(row), remote(row));
                conn.start_ns = row.time_ns;
                let Some(id) = self.push(row.sock, conn) else {
                    return;
                };
                id
            }
        };
        let conn = &mut self.all[id as usize];
        conn.family = row.family;
        conn.local = local(row);
        conn.outcome = Outcome::Open;
        conn.established_ns = Some(row.time_ns);
        conn.row = Some(at);
        conn.cookie = row.cookie;
        conn.agreed = agreed(row.sack, row.window_scaling, row.timestamps);
        conn.mss = row.mss.unwrap_or(0);
        conn.rtt_us = row.rtt_us.unwrap_or(0);
        if conn.side == Side::Opened {
            conn.syn_retries = conn.syn_retries.max(row.retransmits.unwrap_or(0));
        } else if conn.side == Side::Accepted {
            conn.answer_retries = row.retransmits.unwrap_or(0);
        }
        self.pairs.established(id, &mut self.all);
    }

    fn closed(&mut self, at: EventRow, row: &Event, old: &TcpState) {
        let Some(sock) = row.sock else { return };
        let id = match self.live(Some(sock)) {
            Some(id) => id,
            // A request that was given up, or one whose beginning was lost.
            None if matches!(old, TcpState::SynSent | TcpState::Listen) || old.is_half_open() => {
                return;
            }
            None if self.of_sock.contains_key(&sock) || self.away.remove(&sock) => return,
            None => {
                let conn = Conn::new(row.netns, Side::Older, local(row), remote(row));
                let Some(id) = self.push(Some(sock), conn) else {
                    return;
                };
                self.all[id as usize].outcome = Outcome::Open;
                id
            }
        };
        let conn = &mut self.all[id as usize];
        conn.ended_ns = Some(row.time_ns);
        self.ended += 1;
        conn.closed_first = row.old_state.as_ref().is_some_and(TcpState::closed_first);
        conn.peer_closed = row.old_state.as_ref().is_some_and(TcpState::peer_closed);
        conn.close_row = Some(at);
        conn.error = row.error.clone();
        if conn.outcome == Outcome::Pending {
            // A connect that was given up had a port; one that found none has none now.
            conn.local = local(row);
        }
        conn.outcome = match conn.outcome {
            Outcome::Pending => Outcome::Failed,
            _ => Outcome::Closed,
        };
        if conn.outcome == Outcome::Closed {
            conn.close_cwnd = row.cwnd.unwrap_or(0);
            conn.rtt_us = row.rtt_us.filter(|rtt| *rtt > 0).unwrap_or(conn.rtt_us);
            conn.bytes_acked = conn.bytes_acked.max(row.bytes_acked.unwrap_or(0));
            conn.bytes_received = conn.bytes_received.max(row.bytes_received.unwrap_or(0));
            conn.bytes_unacked = row.bytes_unacked.unwrap_or(0);
            let sent_again = row.retransmits.unwrap_or(0);
            let handshake = conn.syn_retries.saturating_add(conn.answer_retries);
            let after_handshake = sent_again.saturating_sub(handshake);
            conn.retransmits = conn.retransmits.max(after_handshake);
        }
        self.pairs.ended(id, &self.all);
    }

    /// A `retransmit` row; gives its connection.
    pub fn retransmit(&mut self, at: EventRow, row: &Event, state: &TcpState) -> Option<ConnId> {
        let id = self.live(row.sock)?;
        let conn = &mut self.all[id as usize];
        if *state == TcpState::SynSent {
            let next = conn.syn_retries.saturating_add(1);
            conn.syn_retries = next.max(row.attempt.unwrap_or(0));
            conn.first_retry.get_or_insert(at);
            // It had no port yet when it began.
            conn.local = local(row);
        } else {
            conn.retransmits = conn.retransmits.saturating_add(1);
        }
        Some(id)
    }

    /// A `reset-received` row of a socket in SYN_SENT: its connect was refused.
    pub fn refused(&mut self, at: EventRow, row: &Event) {
        let known = self.of(row);
        let Some(conn) = known.and_then(|id| self.all.get_mut(id as usize)) else {
            return;
        };
        if matches!(conn.outcome, Outcome::Pending | Outcome::Failed) {
            conn.refused.get_or_insert(at);
        }
    }

    /// The connection of a row's socket, also when it has just ended: its end may carry the same
    /// time as a reset, and come first.
    pub fn of(&self, row: &Event) -> Option<ConnId> {
        let id = *self.of_sock.get(&row.sock?)?;
        let conn = self.all.get(id as usize)?;
        (conn.remote == remote(row)).then_some(id)
    }

    /// A sample of a socket that is not a listener; gives its connection.
    pub fn sample(&mut self, at: RowRef, row: &Socket) -> Option<ConnId> {
        let here = Endpoint::new(row.local_addr, row.local_port);
        let there = Endpoint::new(row.remote_addr, row.remote_port);
        // Requests and TIME_WAIT have no tcp_info and are not connections.
        row.congestion.as_ref()?;
        let state = &row.state;
        let known = self.of_sock.get(&row.sock).copied();
        let known = known.filter(|id| {
            let c = &self.all[*id as usize];
            c.remote == there && (c.local == here || c.local.port == 0)
        });
        let id = match known {
            Some(id) if self.all[id as usize].ended_ns.is_some() => return None,
            Some(id) => id,
            None if self.is_away(Some(row.sock)) => return None,
            // connect() was called before the recording, and nothing answered.
            None if *state == TcpState::SynSent => {
                let mut conn = Conn::new(row.netns, Side::Older, here, there);
                conn.start_ns = self.start_ns;
                conn.syn_retries = row.total_retrans.unwrap_or(0);
                self.push(Some(row.sock), conn)?
            }
            None if *state != TcpState::Established && !state.is_closing() => return None,
            None => {
                let mut conn = Conn::new(row.netns, Side::Older, here, there);
                conn.outcome = Outcome::Open;
                conn.start_ns = row.time_ns;
                let id = self.push(Some(row.sock), conn)?;
                self.pairs.wait(id, &self.all);
                id
            }
        };
        self.keep(id, at, row);
        Some(id)
    }

    fn keep(&mut self, id: ConnId, at: RowRef, row: &Socket) {
        let ago = |ms: Option<u32>| {
            let ns = u64::from(ms?) * 1_000_000;
            Some(row.time_ns.saturating_sub(ns))
        };
        let sample = Sample {
            row: at,
            time_ns: row.time_ns,
            bytes_acked: row.bytes_acked.unwrap_or(0),
            bytes_received: row.bytes_received.unwrap_or(0),
            busy_us: row.busy_us.unwrap_or(0),
            rwnd_limited_us: row.rwnd_limited_us.unwrap_or(0),
            rtt_us: row.rtt_us.unwrap_or(0),
            heard_ns: ago(row.last_ack_recv_ms),
            spoke_ns: ago(row.last_data_sent_ms).max(ago(row.last_data_recv_ms)),
            peer_closed: row.state == TcpState::CloseWait,
            closed: row.state.own_closed(),
            unaccepted: waits_for_accept(row),
            all_acked: row.unacked == Some(0) && row.notsent_bytes.unwrap_or(0) == 0,
        };
        let conn = &mut self.all[id as usize];
        conn.family = row.family;
        if let Some(inode) = row
            .inode
            .filter(|_| conn.side == Side::Older && conn.pid.is_none())
        {
            self.unowned.insert(inode, id);
        }
        if row.state == TcpState::SynSent {
            conn.syn_retries = conn.syn_retries.max(row.total_retrans.unwrap_or(0));
        }
        conn.bytes_acked = conn.bytes_acked.max(sample.bytes_acked);
        conn.bytes_received = conn.bytes_received.max(sample.bytes_received);
        if row.state != TcpState::SynSent && conn.agreed.is_none() {
            conn.agreed = agreed(row.sack, row.window_scaling, row.timestamps);
        }
        // All there is to say about an attempt is how long it takes.
        let since_ns = match conn.side {
            Side::Older if conn.established_ns.is_none() => Some(self.start_ns),
            _ => conn.established_ns,
        };
        let ledger = || Some(Ledger::begin(row, since_ns?, conn.established_ns.is_none()));
        let isns = row.snd_isn.zip(row.rcv_isn);
        let isns = isns.map(|(sent, received)| Isns { sent, received });
        let (cwnd, snd_wnd) = (row.cwnd.unwrap_or(0), row.snd_wnd.unwrap_or(0));
        match conn.sampled {
            Some(index) => {
                let s = &mut self.samples[index as usize];
                match &mut s.ledger {
                    Some(ledger) => ledger.sample(row),
                    None => s.ledger = ledger(),
                }
                s.last = sample;
                s.isns = s.isns.or(isns);
                s.cwnd_max = s.cwnd_max.max(cwnd);
                s.snd_wnd_max = s.snd_wnd_max.max(snd_wnd);
            }
            None if self.samples.len() < MAX_SAMPLED => {
                let ledger = ledger();
                conn.sampled = Some(self.samples.len() as u32);
                self.samples.push(Sampled {
                    first: sample,
                    last: sample,
                    cwnd_max: cwnd,
                    snd_wnd_max: snd_wnd,
                    isns,
                    ledger,
                });
            }
            None => self.unsampled += 1,
        }
    }

    fn push(&mut self, sock: Option<u64>, conn: Conn) -> Option<ConnId> {
        if self.all.len() >= self.most {
            self.folded += 1;
            if let Some(sock) = sock.filter(|_| self.away.len() < MAX_CONNECTIONS) {
                self.away.insert(sock);
            }
            return None;
        }
        let id = self.all.len() as ConnId;
        self.all.push(conn);
        if let Some(sock) = sock {
            self.away.remove(&sock);
            self.of_sock.insert(sock, id);
        }
        Some(id)
    }

    /// Whether the socket is of a connection that there was no room for.
    fn is_away(&self, sock: Option<u64>) -> bool {
        sock.is_some_and(|sock| self.away.contains(&sock))
    }

    /// The connection that the socket is now; `None` after its end.
    fn live(&self, sock: Option<u64>) -> Option<ConnId> {
        let id = *self.of_sock.get(&sock?)?;
        self.all[id as usize].ended_ns.is_none().then_some(id)
    }

    /// Everything was fed: joins the two ends of each connection that has both on this host.
    pub fn finish(&mut self) {
        std::mem::take(&mut self.pairs).finish(&mut self.all, &self.samples);
    }
}

fn local(row: &Event) -> Endpoint {
    Endpoint::new(row.local_addr, row.local_port)
}

fn remote(row: &Event) -> Endpoint {
    Endpoint::new(row.remote_addr, row.remote_port)
}

fn agreed(
    sack: Option<bool>,
    window_scaling: Option<bool>,
    timestamps: Option<bool>,
) -> Option<Agreed> {
    Some(Agreed {
        sack: sack?,
        window_scaling: window_scaling?,
        timestamps: timestamps?,
    })
}
