//! What a recorder on the nodes would have written: handshakes, segments retransmitted.
//!
//! The nodes are namespaces of one recording, so that both ends of a connection are in it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use recording::tables::Event;
use recording::{Addr, EventKind, RetransmitKind, TcpState, counter};

use super::flow::{Flow, How};
use super::listener::{Answer, Listener};
use super::mesh::{Happened, Mesh, Socket, What, counted};
use super::params::{Params, US};
use super::probe::Probe;
use super::window;
use crate::tables::{SEGMENT_NS, START_NS, Tables};

/// Where every node listens.
pub(super) const PORT: u16 = 9_000;
/// The process of every node.
pub(super) const COMM: &str = "meshd";
const FIRST_NETNS: u32 = 4_026_532_200;
const FIRST_PID: u32 = 1_000;
/// TCP header flags.
const SYN: u8 = 2;
const ACK: u8 = 16;

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    pub(super) p: &'a Params,
    pub(super) tables: &'a mut Tables,
    /// What a sample of each node's listener would show.
    pub(super) listeners: Vec<Seen>,
    /// Rises of counters in this second, by node, group and name; and what the counters are.
    pub(super) rises: BTreeMap<(u32, &'static str), i64>,
    pub(super) values: BTreeMap<(u32, &'static str), i64>,
    /// What each flow had sent, lost and noticed at the last sample.
    pub(super) before: Vec<super::flow::Done>,
    /// Ends that have been sampled: the opener's and the listener's of each socket.
    pub(super) sampled: Vec<[bool; 2]>,
}

/// A listener as it is sampled.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) queues: Listener,
    pub(super) drops: u32,
    pub(super) warned: bool,
}

/// Which end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Opener,
    Listener,
}

pub(super) fn netns(node: u32) -> u32 {
    FIRST_NETNS + node
}

pub(super) fn pid(node: u32) -> u32 {
    FIRST_PID + node
}

/// The node's address, in the ranges set aside for documentation and tests.
pub(super) fn addr(p: &Params, node: u32) -> Addr {
    let nth = node as u16 + 1;
    match p.family {
        6 => Addr::from(std::net::IpAddr::from(Ipv6Addr::new(
            0x2001, 0xdb8, 0, 0, 0, 0, 0, nth,
        ))),
        _ => Addr::from(Ipv4Addr::new(198, 18, 0, nth as u8)),
    }
}

/// The listener's socket, and those of a connection.
pub(super) fn listening(node: u32) -> u64 {
    1 + u64::from(node)
}

pub(super) fn connected(nth: usize, end: End) -> u64 {
    1_000 + 2 * nth as u64 + u64::from(end == End::Listener)
}

impl<'a> Recorder<'a> {
    pub(super) fn new(p: &'a Params, tables: &'a mut Tables) -> Recorder<'a> {
        let mut recorder = Recorder {
            p,
            tables,
            listeners: vec![Seen::default(); p.nodes as usize],
            rises: BTreeMap::new(),
            values: BTreeMap::new(),
            before: Vec::new(),
            sampled: Vec::new(),
        };
        recorder.begin();
        recorder.listen();
        recorder
    }

    /// Ends the recording.
    pub(super) fn finish(self) {
        self.tables.ends(self.p.end_ns());
    }

    /// Every node calls listen() as the recording begins.
    fn listen(&mut self) {
        for node in 0..self.p.nodes {
            self.tables.add(Event {
                time_ns: START_NS,
                kind: EventKind::State,
                netns: netns(node),
                sock: Some(listening(node)),
                family: self.p.family,
                local_addr: addr(self.p, node),
                local_port: PORT,
                remote_addr: self.nowhere(),
                old_state: Some(TcpState::Close),
                state: Some(TcpState::Listen),
                pid: Some(pid(node)),
                comm: Some(COMM.into()),
                backlog: Some(self.p.queue_limit()),
                ..Event::default()
            });
        }
    }

    fn nowhere(&self) -> Addr {
        match self.p.family {
            6 => Addr::from(std::net::IpAddr::from(Ipv6Addr::UNSPECIFIED)),
            _ => Addr::from(Ipv4Addr::UNSPECIFIED),
        }
    }

    /// A row of one end of a socket.
    fn row(&self, nth: usize, socket: &Socket, end: End, at_ns: u64, kind: EventKind) -> Event {
        let (opener, listener) = (addr(self.p, socket.opener), addr(self.p, socket.listener));
        let opener = (socket.opener, opener, socket.port);
        let listener = (socket.listener, listener, PORT);
        let (here, there) = match end {
            End::Opener => (opener, listener),
            End::Listener => (listener, opener),
        };
        Event {
            time_ns: START_NS + at_ns,
            kind,
            netns: netns(here.0),
            sock: Some(connected(nth, end)),
            family: self.p.family,
            local_addr: here.1,
            local_port: here.2,
            remote_addr: there.1,
            remote_port: there.2,
            ..Event::default()
        }
    }

    /// An end is established.
    fn established(&self, nth: usize, socket: &Socket, end: End, at_ns: u64) -> Event {
        let mss = match end {
            End::Opener => self.p.announced_mss(),
            End::Listener => socket.agreed.client_mss,
        };
        // A cookie keeps no time, and a SYN that was retransmitted measures none.
        let timed = match end {
            End::Opener => socket.syn_retries == 0,
            End::Listener => !socket.cookie,
        };
        let row = self.row(nth, socket, end, at_ns, EventKind::State);
        Event {
            cookie: (end == End::Listener).then_some(socket.cookie),
            sack: Some(socket.agreed.sack),
            window_scaling: Some(socket.agreed.window_scaling),
            timestamps: Some(self.p.timestamps()),
            mss: Some(self.p.payload(mss)),
            rtt_us: Some(if timed {
                (socket.handshake_ns / US) as u32
            } else {
                0
            }),
            cwnd: Some(window::FIRST as u32),
            retransmits: Some(match end {
                End::Opener => socket.syn_retries,
                End::Listener => 0,
            }),
            ..match end {
                End::Opener => change(row, TcpState::SynSent, TcpState::Established),
                End::Listener => change(row, TcpState::SynRecv, TcpState::Established),
            }
        }
    }

    /// Counters rise.
    pub(super) fn count(&mut self, node: u32, names: &[&'static str]) {
        for name in names {
            self.rise(node, name, 1);
        }
    }

    pub(super) fn rise(&mut self, node: u32, name: &'static str, by: u64) {
        *self.rises.entry((node, name)).or_default() += by as i64;
    }

    /// A segment of a handshake goes from one node to another.
    fn passes(&mut self, from: u32, to: u32) {
        self.count(from, &[counter::OUT_SEGS]);
        self.count(to, &[counter::IN_SEGS]);
    }

    fn answered(&mut self, socket: &Socket, answer: Answer) {
        let node = socket.listener;
        self.count(node, counted(answer));
        let listener = &mut self.listeners[node as usize];
        match answer {
            Answer::Kept => listener.queues.requests += 1,
            Answer::Cookie { full } => {
                // Logged once, when the queue is full; not when cookies are always sent.
                listener.warned |= full && self.p.tcp_syncookies == 1;
            }
            Answer::Dropped(why) => {
                listener.drops += 1;
                listener.warned |= why == super::listener::Full::Requests;
            }
        }
        if !matches!(answer, Answer::Dropped(_)) {
            self.passes(node, socket.opener);
        }
    }

    /// The ACK of a handshake came.
    fn acknowledged(&mut self, socket: &Socket, room: bool) {
        let node = socket.listener;
        if socket.cookie {
            self.count(node, &[counter::SYNCOOKIES_RECV]);
        }
        let listener = &mut self.listeners[node as usize];
        if !room {
            listener.drops += 1;
            self.count(node, &[counter::LISTEN_OVERFLOWS, counter::LISTEN_DROPS]);
            return;
        }
        listener.queues.requests -= u32::from(!socket.cookie);
        listener.queues.waiting += 1;
        self.count(node, &[counter::PASSIVE_OPENS]);
    }
}

impl Probe for Recorder<'_> {
    fn handshake(&mut self, mesh: &Mesh, happened: Happened) {
        let Happened {
            at_ns,
            socket: nth,
            what,
        } = happened;
        let socket = &mesh.sockets[nth];
        let (opener, listener) = (socket.opener, socket.listener);
        match what {
            What::Connect => {
                let row = self.row(nth, socket, End::Opener, at_ns, EventKind::State);
                self.tables.add(Event {
                    pid: Some(pid(opener)),
                    comm: Some(COMM.into()),
                    ..change(row, TcpState::Close, TcpState::SynSent)
                });
                self.count(opener, &[counter::ACTIVE_OPENS]);
                self.passes(opener, listener);
            }
            What::SynResent(attempt) => {
                let row = self.row(nth, socket, End::Opener, at_ns, EventKind::Retransmit);
                self.tables.add(Event {
                    flags: Some(SYN),
                    ..again(row, TcpState::SynSent, RetransmitKind::Rto, attempt)
                });
                self.count(opener, &[counter::RETRANS_SEGS]);
                self.count(opener, &[counter::TCP_SYN_RETRANS, counter::TCP_TIMEOUTS]);
                self.passes(opener, listener);
            }
            What::Syn(answer) => self.answered(socket, answer),
            What::Opened => {
                let row = self.established(nth, socket, End::Opener, at_ns);
                self.tables.add(row);
                self.passes(opener, listener);
            }
            What::Established => {
                let row = self.established(nth, socket, End::Listener, at_ns);
                self.tables.add(row);
                self.acknowledged(socket, true);
            }
            What::AckDropped => {
                let row = self.row(nth, socket, End::Listener, at_ns, EventKind::Drop);
                self.tables.add(Event {
                    sock: None,
                    state: Some(TcpState::Listen),
                    reason: Some("TCP_LISTEN_OVERFLOW".into()),
                    flags: Some(ACK),
                    ..row
                });
                self.acknowledged(socket, false);
            }
            What::DataResent(attempt) => {
                let row = self.row(nth, socket, End::Opener, at_ns, EventKind::Retransmit);
                self.tables.add(Event {
                    flags: Some(ACK),
                    ..again(row, TcpState::Established, RetransmitKind::Rto, attempt)
                });
                self.count(opener, &[counter::RETRANS_SEGS]);
                self.count(opener, &[counter::TCP_TIMEOUTS]);
                self.passes(opener, listener);
            }
            What::Accepted => self.listeners[listener as usize].queues.waiting -= 1,
            What::GivenUp => {
                let row = self.row(nth, socket, End::Opener, at_ns, EventKind::State);
                self.tables
                    .add(change(row, TcpState::SynSent, TcpState::Close));
                self.count(opener, &[counter::ATTEMPT_FAILS]);
            }
        }
    }

    fn resent(&mut self, mesh: &Mesh, flow: &Flow, now_ns: u64, (how, n): (How, u64)) {
        let socket = &mesh.sockets[flow.socket];
        let end = if flow.from_opener {
            End::Opener
        } else {
            End::Listener
        };
        let kind = match how {
            How::Fast => RetransmitKind::Fast,
            How::Probe => RetransmitKind::Tlp,
            How::Timeout => RetransmitKind::Rto,
        };
        for _ in 0..n {
            let row = self.row(flow.socket, socket, end, now_ns, EventKind::Retransmit);
            self.tables.add(Event {
                flags: Some(ACK),
                rtt_us: Some((self.p.rtt_ns() / US) as u32),
                cwnd: Some(flow.window.segments() as u32),
                retransmits: Some(flow.done.resent as u32),
                ..again(row, TcpState::Established, kind.clone(), 1)
            });
        }
    }

    fn second(&mut self, mesh: &Mesh, flows: &[Flow], now_ns: u64) {
        self.sample(mesh, flows, now_ns);
        if now_ns.is_multiple_of(SEGMENT_NS) {
            self.tables.seal();
        }
    }
}

fn change(row: Event, from: TcpState, to: TcpState) -> Event {
    Event {
        old_state: Some(from),
        state: Some(to),
        ..row
    }
}

fn again(row: Event, state: TcpState, kind: RetransmitKind, attempt: u32) -> Event {
    Event {
        state: Some(state),
        retransmit_kind: Some(kind),
        attempt: Some(attempt),
        ..row
    }
}
