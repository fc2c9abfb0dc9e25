//! What a recorder on the nodes would have written: handshakes, segments retransmitted.
//!
//! The nodes are namespaces of one recording, so that both ends of a connection are in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use recording::tables::Event;
use recording::{Addr, EventKind, RetransmitKind, TcpState, counter};
use synth::{ACK, Counters, End, Listening, Opening, SYN, Sink, Tables, Task};

use super::flow::{Flow, How};
use super::listener::{Answer, Listener};
use super::mesh::{Happened, Mesh, Socket, What, counted};
use super::observer::Observer;
use super::params::{Params, US};
use crate::clock::{SEGMENT_NS, START_NS};

/// Where every node listens.
pub(super) const PORT: u16 = 9_000;
const FIRST_NETNS: u32 = 4_026_532_200;
const FIRST_PID: u32 = 1_000;
/// The files of the listening sockets.
const LISTENING_INODE: u64 = 5_000;

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    pub(super) p: &'a Params,
    pub(super) tables: &'a mut Tables,
    /// What a sample of each node's listener would show.
    pub(super) listeners: Vec<Seen>,
    pub(super) counters: Counters,
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
pub(super) enum Side {
    Opener,
    Listener,
}

pub(super) fn netns(node: u32) -> u32 {
    FIRST_NETNS + node
}

/// The process of a node.
pub(super) fn task(node: u32) -> Task<'static> {
    Task::new(FIRST_PID + node, "meshd")
}

/// The node's address, in the ranges set aside for documentation and tests.
fn addr(p: &Params, node: u32) -> Addr {
    let nth = node as u16 + 1;
    Addr::from(match p.family {
        6 => IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, nth)),
        _ => IpAddr::from(Ipv4Addr::new(198, 18, 0, nth as u8)),
    })
}

fn nowhere(p: &Params) -> Addr {
    Addr::from(match p.family {
        6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::from(Ipv4Addr::UNSPECIFIED),
    })
}

/// The socket at which a node listens.
pub(super) fn listening(p: &Params, node: u32) -> Listening {
    Listening {
        netns: netns(node),
        sock: 1 + u64::from(node),
        inode: LISTENING_INODE + u64::from(node),
        family: p.family,
        at: (addr(p, node), PORT),
        backlog: p.queue_limit(),
    }
}

/// One end of a connection.
pub(super) fn end(p: &Params, nth: usize, socket: &Socket, side: Side) -> End {
    let sock = 1_000 + 2 * nth as u64;
    let opener = End {
        netns: netns(socket.opener),
        sock,
        family: p.family,
        local: (addr(p, socket.opener), socket.port),
        remote: (addr(p, socket.listener), PORT),
    };
    match side {
        Side::Opener => opener,
        Side::Listener => opener.peer(netns(socket.listener), sock + 1),
    }
}

impl<'a> Recorder<'a> {
    pub(super) fn new(p: &'a Params, tables: &'a mut Tables) -> Recorder<'a> {
        let mut recorder = Recorder {
            p,
            tables,
            listeners: vec![Seen::default(); p.nodes as usize],
            counters: Counters::default(),
            before: Vec::new(),
            sampled: Vec::new(),
        };
        recorder.begin();
        recorder.listen();
        recorder
    }

    /// Ends the recording.
    pub(super) fn finish(self) {
        self.tables.manifest.end_ns = START_NS + self.p.end_ns();
    }

    /// Every node calls listen() as the recording begins.
    fn listen(&mut self) {
        for node in 0..self.p.nodes {
            let (socket, by) = (listening(self.p, node), task(node));
            let end = End {
                netns: socket.netns,
                sock: socket.sock,
                family: socket.family,
                local: socket.at,
                remote: (nowhere(self.p), 0),
            };
            self.tables.add(Event {
                pid: Some(by.pid),
                comm: Some(by.comm.into()),
                backlog: Some(socket.backlog),
                ..end.change(START_NS, TcpState::Close, TcpState::Listen)
            });
        }
    }

    /// An end is established.
    fn established(&self, nth: usize, socket: &Socket, side: Side, at_ns: u64) -> Event {
        // A cookie keeps no time, and a SYN that was retransmitted measures none.
        let (from, mss, timed, retransmits) = match side {
            Side::Opener => {
                let retries = socket.syn_retries;
                let mss = self.p.announced_mss();
                (TcpState::SynSent, mss, retries == 0, retries)
            }
            Side::Listener => {
                let mss = socket.agreed.client_mss;
                (TcpState::SynRecv, mss, !socket.cookie, 0)
            }
        };
        let handshake_us = (socket.handshake_ns / US) as u32;
        let opening = Opening {
            sack: socket.agreed.sack,
            window_scaling: socket.agreed.window_scaling,
            timestamps: self.p.timestamps(),
            mss: self.p.payload(mss),
            rtt_us: if timed { handshake_us } else { 0 },
            retransmits,
        };
        let end = end(self.p, nth, socket, side);
        Event {
            cookie: (side == Side::Listener).then_some(socket.cookie),
            ..end.established(at_ns, from, opening)
        }
    }

    /// Counters rise.
    fn count(&mut self, node: u32, names: &[&'static str]) {
        for name in names {
            self.counters.count(netns(node), name, 1);
        }
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

impl Observer for Recorder<'_> {
    fn handshake(&mut self, mesh: &Mesh, happened: Happened) {
        let Happened {
            at_ns,
            socket: nth,
            what,
        } = happened;
        let socket = &mesh.sockets[nth];
        let (opener, listener) = (socket.opener, socket.listener);
        let end = |side| end(self.p, nth, socket, side);
        let time_ns = START_NS + at_ns;
        match what {
            What::Connect => {
                let row = end(Side::Opener).connect(time_ns, task(opener));
                self.tables.add(row);
                self.count(opener, &[counter::ACTIVE_OPENS]);
                self.passes(opener, listener);
            }
            What::SynResent(attempt) => {
                let (state, kind) = (TcpState::SynSent, RetransmitKind::Rto);
                self.tables.add(Event {
                    flags: Some(SYN),
                    ..end(Side::Opener).retransmit(time_ns, state, kind, attempt)
                });
                self.count(opener, &[counter::RETRANS_SEGS]);
                self.count(opener, &[counter::TCP_SYN_RETRANS, counter::TCP_TIMEOUTS]);
                self.passes(opener, listener);
            }
            What::Syn(answer) => self.answered(socket, answer),
            What::Opened => {
                let row = self.established(nth, socket, Side::Opener, time_ns);
                self.tables.add(row);
                self.passes(opener, listener);
            }
            What::Established => {
                let row = self.established(nth, socket, Side::Listener, time_ns);
                self.tables.add(row);
                self.acknowledged(socket, true);
            }
            What::AckDropped => {
                self.tables.add(Event {
                    state: Some(TcpState::Listen),
                    reason: Some("TCP_LISTEN_OVERFLOW".into()),
                    ..end(Side::Listener).stray(time_ns, EventKind::Drop, ACK)
                });
                self.acknowledged(socket, false);
            }
            What::DataResent(attempt) => {
                let (state, kind) = (TcpState::Established, RetransmitKind::Rto);
                self.tables.add(Event {
                    flags: Some(ACK),
                    ..end(Side::Opener).retransmit(time_ns, state, kind, attempt)
                });
                self.count(opener, &[counter::RETRANS_SEGS]);
                self.count(opener, &[counter::TCP_TIMEOUTS]);
                self.passes(opener, listener);
            }
            What::Accepted => self.listeners[listener as usize].queues.waiting -= 1,
            What::GivenUp => {
                let end = end(Side::Opener);
                self.tables
                    .add(end.change(time_ns, TcpState::SynSent, TcpState::Close));
                self.count(opener, &[counter::ATTEMPT_FAILS]);
            }
        }
    }

    fn resent(&mut self, mesh: &Mesh, flow: &Flow, now_ns: u64, (how, n): (How, u64)) {
        let side = if flow.from_opener {
            Side::Opener
        } else {
            Side::Listener
        };
        let end = end(self.p, flow.socket, &mesh.sockets[flow.socket], side);
        let kind = match how {
            How::Fast => RetransmitKind::Fast,
            How::Probe => RetransmitKind::Tlp,
            How::Timeout => RetransmitKind::Rto,
        };
        let row = Event {
            flags: Some(ACK),
            rtt_us: Some((self.p.rtt_ns() / US) as u32),
            cwnd: Some(flow.window.segments() as u32),
            retransmits: Some(flow.done.resent as u32),
            ..end.retransmit(START_NS + now_ns, TcpState::Established, kind, 1)
        };
        self.tables.extend((0..n).map(|_| row.clone()));
    }

    fn second(&mut self, mesh: &Mesh, flows: &[Flow], now_ns: u64) {
        self.sample(mesh, flows, now_ns);
        if now_ns.is_multiple_of(SEGMENT_NS) {
            self.tables.seal();
        }
    }
}
