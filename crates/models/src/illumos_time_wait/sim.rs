//! The simulation: clients, one server thread, and the handshake between them.
//!
//! A connect is decided when its SYN is sent: the path's delay is the same for all, so that nothing
//! overtakes. A healthy connection is one event, its end. Left out: loss (but of resets), segments
//! after the handshake, full accept queues (both cases had none), giving up after minutes.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::conn::Conn;
use super::iss::Iss;
use super::observer::Observer;
use super::outcome::{Outcome, Second};
use super::params::{Params, S};
use super::ports::Ports;
use super::time_wait::{End, Met, TimeWaits};
use crate::draws::gap_ns;
use crate::engine::Queue;

/// Bytes of one response.
pub(super) const RESPONSE_BYTES: u32 = 174;
/// After how long a client that found no port tries again.
const NO_PORT_NS: u64 = S;

#[derive(Debug)]
enum Due {
    /// A closed-loop client connects.
    Connect(u32),
    /// A request of the open load.
    Arrival,
    /// A client has its response.
    Answered(usize),
    /// The timer of a SYN fires.
    Timeout(usize),
    Second,
}

/// A host that connects.
#[derive(Debug)]
struct Host {
    iss: Iss,
    next_background_ns: u64,
}

struct Sim<'p, O> {
    p: &'p Params,
    observer: &'p mut O,
    rng: Pcg64Mcg,
    queue: Queue<Due>,
    hosts: Vec<Host>,
    /// The server's stack, unless it is that of the clients.
    server: Option<Iss>,
    ports: Vec<Ports>,
    time_waits: TimeWaits,
    conns: Vec<Conn>,
    free: Vec<usize>,
    opened: u64,
    /// Of these, by closed-loop clients.
    by_clients: u64,
    connecting: u64,
    /// When the server's thread will have answered everything, ns.
    idle_from_ns: u64,
    work_ns: u64,
    worked_ns: u64,
    second: Second,
    outcome: Outcome,
}

/// Simulates once.
pub(super) fn simulate(p: &Params, seed: u64, observer: &mut impl Observer) -> Outcome {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let hosts = (0..p.client_hosts()).map(|_| Host {
        iss: Iss::new(&mut rng),
        next_background_ns: 0,
    });
    let mut sim = Sim {
        p,
        observer,
        hosts: hosts.collect(),
        server: (!p.loopback()).then(|| Iss::new(&mut rng)),
        ports: vec![Ports::new(p); p.client_addresses as usize],
        rng,
        queue: Queue::new(),
        time_waits: TimeWaits::default(),
        conns: Vec::new(),
        free: Vec::new(),
        opened: 0,
        by_clients: 0,
        connecting: 0,
        idle_from_ns: 0,
        work_ns: 0,
        worked_ns: 0,
        second: Second::default(),
        outcome: Outcome::default(),
    };
    sim.begin();
    while let Some(due) = sim.queue.next_before(p.end_ns() + 1) {
        sim.happens(due);
        if sim.outcome.seconds.len() as u64 == p.duration {
            break;
        }
    }
    sim.outcome
}

impl<O: Observer> Sim<'_, O> {
    fn begin(&mut self) {
        let start_ns = self.p.start_ns();
        self.queue.schedule(S, Due::Second);
        for host in 0..self.hosts.len() {
            self.hosts[host].next_background_ns = self.gap(self.p.background_iss_rate);
        }
        for client in 0..self.p.clients {
            self.queue.schedule(start_ns, Due::Connect(client));
        }
        let first = self.gap(self.p.request_rate);
        self.queue
            .schedule(start_ns.saturating_add(first), Due::Arrival);
    }

    fn happens(&mut self, due: Due) {
        match due {
            Due::Connect(client) => self.connect(Some(client)),
            Due::Arrival => {
                self.connect(None);
                let next = self.gap(self.p.request_rate);
                let now_ns = self.queue.now_ns();
                self.queue
                    .schedule(now_ns.saturating_add(next), Due::Arrival);
            }
            Due::Answered(conn) => self.answered(conn),
            Due::Timeout(conn) => self.timeout(conn),
            Due::Second => self.second(),
        }
    }

    /// Until the next of events that come at random at such a rate, ns.
    fn gap(&mut self, per_s: f64) -> u64 {
        gap_ns(&mut self.rng, per_s)
    }

    fn connect(&mut self, client: Option<u32>) {
        let now_ns = self.queue.now_ns();
        if client.is_some() && self.p.connects > 0 && self.by_clients >= self.p.connects {
            return;
        }
        let nth = client.map_or(self.opened, u64::from);
        let address = (nth % u64::from(self.p.client_addresses)) as u32;
        let Some(port) = self.ports[address as usize].take(self.p, &mut self.rng) else {
            self.second.no_port += 1;
            if let Some(client) = client {
                self.queue
                    .schedule(now_ns + NO_PORT_NS, Due::Connect(client));
            }
            return;
        };
        let end = End { address, port };
        let requests = match client {
            Some(_) => self.p.requests_per_connection,
            None => 1,
        };
        let older = self.p.older_clients > 0.0 && self.rng.random_bool(self.p.older_clients);
        let conn = Conn {
            id: self.opened,
            end,
            client,
            opened_ns: now_ns,
            iss: self.client_iss(end),
            server_iss: 0,
            attempt: 0,
            older,
            requests_left: requests,
            requests,
        };
        self.opened += 1;
        self.by_clients += u64::from(client.is_some());
        self.second.active += 1;
        self.second.by_clients += u64::from(client.is_some());
        self.connecting += 1;
        self.observer.opened(&conn);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.conns[slot] = conn;
                slot
            }
            None => {
                self.conns.push(conn);
                self.conns.len() - 1
            }
        };
        self.send_syn(slot);
    }

    fn client_iss(&mut self, end: End) -> u32 {
        let now_ns = self.queue.now_ns();
        let host = end.address as usize % self.hosts.len();
        while self.hosts[host].next_background_ns <= now_ns {
            let gap = self.gap(self.p.background_iss_rate);
            let host = &mut self.hosts[host];
            host.iss.skip(self.p, 1);
            self.second.background += 1;
            host.next_background_ns = host.next_background_ns.saturating_add(gap);
        }
        let iss = &mut self.hosts[host].iss;
        iss.next(self.p, now_ns, end.key(), &mut self.rng)
    }

    /// The SYN goes out and meets the listener, or a TIME_WAIT.
    fn send_syn(&mut self, slot: usize) {
        let now_ns = self.queue.now_ns();
        let conn = &self.conns[slot];
        let (end, iss) = (conn.end, conn.iss);
        match self.time_waits.meet(self.p, now_ns, end, iss) {
            Met::Nothing => self.accept(slot, None),
            Met::Older(sent_next) => self.accept(slot, Some(sent_next)),
            Met::Newer => self.refuse(slot),
            Met::Window => self.reject(slot),
        }
    }

    fn accept(&mut self, slot: usize, replaced: Option<u32>) {
        let now_ns = self.queue.now_ns();
        let conn = &mut self.conns[slot];
        let iss = match &mut self.server {
            Some(own) => own,
            None => &mut self.hosts[0].iss,
        };
        // The server's ends are the client's, the other way round.
        let tuple = !conn.end.key();
        if let Some(sent_next) = replaced {
            iss.pass(self.p, now_ns, tuple, sent_next);
            self.second.over_time_wait += 1;
        }
        conn.server_iss = iss.next(self.p, now_ns, tuple, &mut self.rng);
        self.second.passive += 1;
        self.connecting -= 1;
        if conn.attempt > 0 && self.p.counts(conn.opened_ns) {
            let late_ns = now_ns - conn.opened_ns;
            *self.outcome.late.entry(late_ns).or_default() += 1;
        }
        self.observer.established(conn, now_ns);
        self.request(slot, now_ns + 3 * self.p.delay_ns());
    }

    /// An ACK answers the SYN. It fits nothing that the client sent, which answers with a reset, as
    /// the standard has it, and that ends the TIME_WAIT; the SYN comes again when its timer fires.
    fn refuse(&mut self, slot: usize) {
        let now_ns = self.queue.now_ns();
        let lost = self.p.reset_loss > 0.0 && self.rng.random_bool(self.p.reset_loss);
        let conn = &self.conns[slot];
        if !lost {
            self.time_waits.reset(conn.end);
        }
        let counts = conn.attempt == 0 && self.p.counts(conn.opened_ns);
        self.outcome.hit += u64::from(counts);
        self.outcome.clients_hit += u64::from(counts && conn.client.is_some());
        self.outcome.before_refusal.get_or_insert(conn.id);
        self.second.refused += 1;
        self.second.resets += 1;
        self.observer.refused(conn, now_ns);
        let timeout_ns = self.p.timeout_ns(conn.older, conn.attempt);
        self.queue.schedule(now_ns + timeout_ns, Due::Timeout(slot));
    }

    /// A reset answers the SYN: connect() fails.
    fn reject(&mut self, slot: usize) {
        let now_ns = self.queue.now_ns();
        self.second.failed += 1;
        self.second.resets += 1;
        self.connecting -= 1;
        self.observer.rejected(&self.conns[slot], now_ns);
        if let Some(client) = self.done(slot) {
            let told_ns = now_ns + 2 * self.p.delay_ns();
            self.queue.schedule(told_ns, Due::Connect(client));
        }
    }

    fn timeout(&mut self, slot: usize) {
        self.conns[slot].attempt += 1;
        self.second.resent += 1;
        let now_ns = self.queue.now_ns();
        self.observer.resent(&self.conns[slot], now_ns);
        self.send_syn(slot);
    }

    /// A request reaches the server's thread.
    fn request(&mut self, slot: usize, at_ns: u64) {
        let slept_ns = at_ns.saturating_sub(self.idle_from_ns);
        if slept_ns > 0 {
            self.observer.woken(&self.conns[slot], at_ns, slept_ns);
        }
        let service_ns = self.p.service_ns();
        self.idle_from_ns = self.idle_from_ns.max(at_ns) + service_ns;
        self.work_ns += service_ns;
        let back_ns = self.idle_from_ns + self.p.delay_ns();
        // First come, first served: in turn.
        self.queue.schedule_in_turn(back_ns, Due::Answered(slot));
    }

    fn answered(&mut self, slot: usize) {
        let now_ns = self.queue.now_ns();
        self.second.requests += 1;
        let conn = &mut self.conns[slot];
        conn.requests_left -= 1;
        if conn.requests_left > 0 {
            self.request(slot, now_ns + self.p.delay_ns());
            return;
        }
        // The server closes first: with the last response.
        let closed_ns = now_ns - self.p.delay_ns();
        self.observer.closed(conn, closed_ns, now_ns);
        if self.p.leaves_time_wait() {
            let expected = conn.after(conn.iss, self.p.request_bytes);
            let sent_next = conn.after(conn.server_iss, RESPONSE_BYTES);
            let expiry_ns = self.p.expiry_ns(closed_ns);
            self.time_waits
                .enter(conn.end, expected, sent_next, expiry_ns);
        }
        if let Some(client) = self.done(slot) {
            self.connect(Some(client));
        }
    }

    /// A connection is no more; the closed-loop client that is now free.
    fn done(&mut self, slot: usize) -> Option<u32> {
        let conn = &self.conns[slot];
        self.ports[conn.end.address as usize].release(conn.end.port);
        self.free.push(slot);
        conn.client
    }

    fn second(&mut self) {
        let now_ns = self.queue.now_ns();
        let worked_ns = self.work_ns - self.idle_from_ns.saturating_sub(now_ns).min(self.work_ns);
        let second = Second {
            busy_ns: worked_ns.saturating_sub(self.worked_ns),
            time_wait: self.time_waits.count(now_ns) as u64,
            time_wait_by_address: self.time_waits.by_address(),
            connecting: self.connecting,
            ..std::mem::take(&mut self.second)
        };
        self.worked_ns = worked_ns;
        self.observer.second(now_ns, &second);
        self.outcome.seconds.push(second);
        self.queue.schedule(now_ns + S, Due::Second);
    }
}
