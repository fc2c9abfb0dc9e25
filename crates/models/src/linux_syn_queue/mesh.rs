//! The mesh being formed: every node connects to every other one, and what their listeners answer.
//!
//! Left out: loss of handshake segments, SYN-ACKs retransmitted (a client whose last ACK was dropped
//! repeats its first data earlier), and the thread that connects waiting for anything.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use recording::counter;

use super::cookie::Agreed;
use super::listener::{Answer, Full, Listener};
use super::params::{MS, Params, S};
use crate::engine::Queue;

/// A SYN is retransmitted so often (tcp_syn_retries), then connect() fails.
const SYN_RETRIES: u32 = 6;
/// Timeout of the first SYN (TCP_TIMEOUT_INIT), ns; doubled each time.
const SYN_TIMEOUT_NS: u64 = S;
/// Timeout of the first data after the handshake (TCP_RTO_MIN), ns; doubled each time.
const DATA_TIMEOUT_NS: u64 = 200 * MS;
/// Data that nobody takes are retransmitted so often: after that a cookie is too old.
const DATA_RETRIES: u32 = 8;
/// The first port that connect() chooses.
const FIRST_PORT: u16 = 32_768;

/// The mesh as it came to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mesh {
    /// In the order of opener, then peer.
    pub(super) sockets: Vec<Socket>,
    /// For each link, the sockets that its data go over.
    pub(super) links: Vec<Vec<usize>>,
    /// What happened, in order of time.
    pub(super) log: Vec<Happened>,
}

/// One connection of the mesh.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Socket {
    pub(super) opener: u32,
    pub(super) listener: u32,
    /// The opener's port.
    pub(super) port: u16,
    /// The time from its SYN's arrival to that of the ACK, ns.
    pub(super) handshake_ns: u64,
    pub(super) connect_ns: u64,
    /// SYNs retransmitted.
    pub(super) syn_retries: u32,
    /// When the opener was connected, as it believes.
    pub(super) opened_ns: Option<u64>,
    /// When the listener's side was.
    pub(super) established_ns: Option<u64>,
    /// A cookie answered its SYN.
    pub(super) cookie: bool,
    pub(super) agreed: Agreed,
}

/// Something that happened to a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Happened {
    pub(super) at_ns: u64,
    pub(super) socket: usize,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// connect() was called.
    Connect,
    /// The SYN is retransmitted, for the `n`-th time.
    SynResent(u32),
    /// The listener answered the SYN, or did not.
    Syn(Answer),
    /// The SYN-ACK came back.
    Opened,
    /// The ACK came: the connection waits for accept().
    Established,
    /// The ACK came and was dropped, as the accept queue is full.
    AckDropped,
    /// The opener's first data, and the ACK with them, are retransmitted, for the `n`-th time.
    DataResent(u32),
    /// accept() took it.
    Accepted,
    /// The opener gave up connecting.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Connect(usize),
    /// A SYN reaches the listener.
    Syn(usize),
    SynAck(usize),
    /// The ACK, or data that carry it, reach the listener.
    Ack(usize),
    SynTimeout(usize),
    DataTimeout(usize, u32),
    /// A node's thread has taken a connection.
    Accepted(usize),
}

/// A node's listener and its thread.
#[derive(Clone, Debug, Default)]
struct Server {
    listener: Listener,
    /// Sockets in the accept queue, in order.
    queue: std::collections::VecDeque<usize>,
}

struct Forming<'p> {
    p: &'p Params,
    queue: Queue<Due>,
    servers: Vec<Server>,
    data_tries: Vec<u32>,
    mesh: Mesh,
}

impl Mesh {
    /// Forms the `nth` mesh of a series.
    pub(super) fn form(p: &Params, seed: u64, nth: u32) -> Mesh {
        let mut rng = random(seed, nth);
        let starts: Vec<u64> = (0..p.nodes)
            .map(|_| p.start_ns() + even(&mut rng, p.spread_ns()))
            .collect();
        let mut forming = Forming {
            p,
            queue: Queue::new(),
            servers: vec![Server::default(); p.nodes as usize],
            data_tries: Vec::new(),
            mesh: Mesh {
                sockets: sockets(p, &starts, &mut rng),
                links: Vec::new(),
                log: Vec::new(),
            },
        };
        forming.mesh.links = links(p, &mut rng);
        forming.data_tries = vec![0; forming.mesh.sockets.len()];
        for (nth, socket) in forming.mesh.sockets.iter().enumerate() {
            forming.queue.schedule(socket.connect_ns, Due::Connect(nth));
        }
        while let Some(due) = forming.queue.next_before(u64::MAX) {
            forming.happens(due);
        }
        forming.mesh
    }

    /// Whether a socket lost options to a cookie.
    pub(super) fn lost(&self, p: &Params, socket: usize) -> bool {
        let socket = &self.sockets[socket];
        socket.established_ns.is_some() && socket.cookie && socket.agreed.lost(p)
    }

    /// Sockets that lost options.
    pub(super) fn all_lost(&self, p: &Params) -> usize {
        let all = 0..self.sockets.len();
        all.filter(|nth| self.lost(p, *nth)).count()
    }

    /// Whether the data of a link go over a socket that lost options.
    pub(super) fn is_slow(&self, p: &Params, link: usize) -> bool {
        self.links[link].iter().any(|nth| self.lost(p, *nth))
    }

    /// Links of which that is so.
    pub(super) fn slow_links(&self, p: &Params) -> usize {
        let all = 0..self.links.len();
        all.filter(|link| self.is_slow(p, *link)).count()
    }
}

/// Every run of a series draws from a sequence of its own.
fn random(seed: u64, nth: u32) -> Pcg64Mcg {
    let mut of_seed = Pcg64Mcg::seed_from_u64(seed);
    let base = of_seed.next_u64();
    Pcg64Mcg::seed_from_u64(base.wrapping_add(u64::from(nth)))
}

/// A time of up to `most_ns`.
fn even(rng: &mut Pcg64Mcg, most_ns: u64) -> u64 {
    let share: f64 = rng.random();
    (share * most_ns as f64) as u64
}

/// Each node connects to one peer after the other, all in the order of the same list.
fn sockets(p: &Params, starts: &[u64], rng: &mut Pcg64Mcg) -> Vec<Socket> {
    let mut all = Vec::new();
    for opener in 0..p.nodes {
        let peers = (0..p.nodes).filter(|peer| *peer != opener);
        let peers = peers.flat_map(|peer| (0..p.sockets).map(move |_| peer));
        for (nth, listener) in peers.enumerate() {
            let start_ns = starts[opener as usize];
            all.push(Socket {
                opener,
                listener,
                port: FIRST_PORT + nth as u16,
                handshake_ns: p.handshake_ns() + even(rng, p.jitter_ns()),
                connect_ns: start_ns + nth as u64 * p.connect_interval_ns(),
                syn_retries: 0,
                opened_ns: None,
                established_ns: None,
                cookie: false,
                agreed: Agreed::kept(p),
            });
        }
    }
    all
}

/// Draws the sockets that each link's data go over.
fn links(p: &Params, rng: &mut Pcg64Mcg) -> Vec<Vec<usize>> {
    let (nodes, each) = (p.nodes as usize, p.sockets as usize);
    // A node's sockets to a peer come one after the other; it has none to itself.
    let first = |opener: usize, peer: usize| {
        let before = if peer > opener { peer - 1 } else { peer };
        (opener * (nodes - 1) + before) * each
    };
    let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
    let drawn = pairs.map(|(a, b)| {
        let of = |first: usize| first..first + each;
        let mut both: Vec<usize> = of(first(a, b)).chain(of(first(b, a))).collect();
        both.shuffle(rng);
        both.truncate(p.data_sockets as usize);
        both.sort_unstable();
        both
    });
    drawn.collect()
}

impl Forming<'_> {
    fn happens(&mut self, due: Due) {
        match due {
            Due::Connect(nth) => {
                self.log(nth, What::Connect);
                self.send_syn(nth);
            }
            Due::Syn(nth) => self.syn(nth),
            Due::SynAck(nth) => {
                self.mesh.sockets[nth].opened_ns = Some(self.queue.now_ns());
                self.log(nth, What::Opened);
                self.later(self.p.handshake_ns() / 2, Due::Ack(nth));
            }
            Due::Ack(nth) => self.ack(nth),
            Due::SynTimeout(nth) => self.syn_timeout(nth),
            Due::DataTimeout(nth, attempt) => {
                self.log(nth, What::DataResent(attempt));
                self.later(self.p.handshake_ns() / 2, Due::Ack(nth));
            }
            Due::Accepted(node) => self.accepted(node),
        }
    }

    fn log(&mut self, socket: usize, what: What) {
        let at_ns = self.queue.now_ns();
        self.mesh.log.push(Happened {
            at_ns,
            socket,
            what,
        });
    }

    fn later(&mut self, by_ns: u64, due: Due) {
        let now_ns = self.queue.now_ns();
        self.queue.schedule(now_ns + by_ns, due);
    }

    fn send_syn(&mut self, nth: usize) {
        self.later(self.p.handshake_ns() / 2, Due::Syn(nth));
    }

    fn syn(&mut self, nth: usize) {
        let socket = &mut self.mesh.sockets[nth];
        let answer = self.servers[socket.listener as usize].listener.syn(self.p);
        let (retries, handshake_ns) = (socket.syn_retries, socket.handshake_ns);
        if let Answer::Cookie { .. } = answer {
            socket.cookie = true;
            socket.agreed = Agreed::cookie(self.p);
        }
        self.log(nth, What::Syn(answer));
        let half_ns = self.p.handshake_ns() / 2;
        match answer {
            // The ACK is back at the listener when the handshake's time is over.
            Answer::Kept | Answer::Cookie { .. } => {
                self.later(handshake_ns - half_ns, Due::SynAck(nth));
            }
            Answer::Dropped(_) => {
                let timeout_ns = SYN_TIMEOUT_NS << retries;
                self.later(timeout_ns.saturating_sub(half_ns), Due::SynTimeout(nth));
            }
        }
    }

    fn syn_timeout(&mut self, nth: usize) {
        let retries = &mut self.mesh.sockets[nth].syn_retries;
        if *retries == SYN_RETRIES {
            self.log(nth, What::GivenUp);
            return;
        }
        *retries += 1;
        let attempt = *retries;
        self.log(nth, What::SynResent(attempt));
        self.send_syn(nth);
    }

    fn ack(&mut self, nth: usize) {
        let now_ns = self.queue.now_ns();
        let socket = &mut self.mesh.sockets[nth];
        let node = socket.listener as usize;
        let server = &mut self.servers[node];
        if !server.listener.ack(self.p, socket.cookie) {
            self.log(nth, What::AckDropped);
            let tries = &mut self.data_tries[nth];
            *tries += 1;
            let attempt = *tries;
            if attempt <= DATA_RETRIES {
                let timeout_ns = DATA_TIMEOUT_NS << (attempt - 1);
                self.later(timeout_ns, Due::DataTimeout(nth, attempt));
            }
            return;
        }
        socket.established_ns = Some(now_ns);
        server.queue.push_back(nth);
        let idle = server.queue.len() == 1;
        self.log(nth, What::Established);
        if idle {
            self.later(self.p.accept_ns(), Due::Accepted(node));
        }
    }

    fn accepted(&mut self, node: usize) {
        let server = &mut self.servers[node];
        if let Some(nth) = server.queue.pop_front() {
            server.listener.accept();
            let more = !server.queue.is_empty();
            self.log(nth, What::Accepted);
            if more {
                self.later(self.p.accept_ns(), Due::Accepted(node));
            }
        }
    }
}

/// The counters that an answer to a SYN moves at the listener's node.
pub(super) fn counted(answer: Answer) -> &'static [&'static str] {
    match answer {
        Answer::Kept => &[],
        // Counted so with tcp_syncookies=2 as well, whether or not the queue is full.
        Answer::Cookie { .. } => &[counter::TCP_REQ_Q_FULL_DO_COOKIES, counter::SYNCOOKIES_SENT],
        Answer::Dropped(Full::Requests) => &[counter::TCP_REQ_Q_FULL_DROP, counter::LISTEN_DROPS],
        Answer::Dropped(Full::Accept { cookie: false }) => {
            &[counter::LISTEN_OVERFLOWS, counter::LISTEN_DROPS]
        }
        Answer::Dropped(Full::Accept { cookie: true }) => &[
            counter::TCP_REQ_Q_FULL_DO_COOKIES,
            counter::LISTEN_OVERFLOWS,
            counter::LISTEN_DROPS,
        ],
        Answer::Dropped(Full::LastQuarter) => &[counter::LISTEN_DROPS],
    }
}
