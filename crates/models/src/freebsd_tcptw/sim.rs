//! The simulation: services that are connected to, workers that connect, one lock (tcbinfo).
//!
//! A search for a port holds the lock, and what needs it meanwhile waits: packets in the input
//! queue, as long as that has room, and the other workers' connect() calls. Else nothing costs time.
//! Left out: loss but of SYNs to services, accept queues, what the purge itself costs.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::observer::{Call, Conn, Observer};
use super::outcome::{Met, Outcome, Search, Second};
use super::params::{Params, S, SERVICES};
use super::pcbs::{List, Pcb, State};
use super::ports::Ports;
use crate::engine::Queue;

/// From connect()'s return until the connection is established, and from a SYN's drop until it comes
/// again the first time; then twice as long each time, up to a limit.
const ROUND_TRIP_NS: u64 = 200_000;
const SYN_AGAIN_NS: u64 = 3 * S;
const MOST_DOUBLINGS: u32 = 4;

#[derive(Debug)]
enum Due {
    /// A SYN for a service; the next one follows.
    Syn(u16),
    /// A SYN that was dropped, retransmitted for the so-manyth time.
    SynAgain(u16, u32),
    /// A SYN that waited in the input queue.
    SynWaited(u16),
    /// Somebody wants a connection of the next worker's.
    Request,
    /// A worker's connect() gets the lock, unless somebody else did.
    Search(u32),
    /// A worker's connect() returns.
    Returned(u32),
    Established(Conn, u64),
    Close(Conn),
    Expire(Conn),
    Second,
}

/// A process that connects.
#[derive(Debug, Default)]
struct Worker {
    /// It is in connect(), since then, ns.
    called_ns: Option<u64>,
    /// What it will return.
    call: Option<Call>,
    /// Requests that wait for it.
    waiting: u64,
}

struct Sim<'p, O> {
    p: &'p Params,
    observer: &'p mut O,
    rng: Pcg64Mcg,
    queue: Queue<Due>,
    /// By port.
    lists: Vec<List>,
    ports: Ports,
    workers: Vec<Worker>,
    requests: u64,
    last_id: u64,
    recyclable_after_ns: u64,
    /// The lock is held from and until then, by that worker.
    locked_ns: (u64, u64),
    holder: u32,
    all_locked_ns: u64,
    told_locked_ns: u64,
    open: u64,
    time_wait: u64,
    /// Connections that this host made, in whatever state: each has a port of the range.
    outbound: u64,
    watched: bool,
    second: Second,
    outcome: Outcome,
}

/// Simulates once.
pub(super) fn simulate(p: &Params, seed: u64, observer: &mut impl Observer) -> Outcome {
    let mut lists = vec![List::default(); 1 << 16];
    for nth in 0..SERVICES {
        lists[usize::from(p.service_port + nth)].listen();
    }
    // So that it comes to `next_port` when the lead-in ends.
    let before = p.outbound_rate() * p.lead_in as f64 % f64::from(p.ports());
    let begin = i64::from(p.next_port) - i64::from(p.first) - before as i64;
    let begin = begin.rem_euclid(p.ports().into()) as u16;
    let mut sim = Sim {
        p,
        observer,
        rng: Pcg64Mcg::seed_from_u64(seed),
        queue: Queue::new(),
        lists,
        ports: Ports::new(p, p.first + begin),
        workers: (0..p.workers).map(|_| Worker::default()).collect(),
        requests: 0,
        last_id: 0,
        recyclable_after_ns: p.recyclable_after_ns(p.reply_bytes, p.request_bytes),
        locked_ns: (0, 0),
        holder: 0,
        all_locked_ns: 0,
        told_locked_ns: 0,
        open: 0,
        time_wait: 0,
        outbound: 0,
        watched: false,
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
        self.queue.schedule(0, Due::Second);
        for nth in 0..SERVICES {
            self.next(self.p.service(nth).0, Due::Syn(nth));
        }
        self.next(self.p.outbound_rate(), Due::Request);
    }

    fn happens(&mut self, due: Due) {
        let now_ns = self.queue.now_ns();
        match due {
            Due::Syn(nth) => {
                self.next(self.p.service(nth).0, Due::Syn(nth));
                self.syn(nth, 0);
            }
            Due::SynAgain(nth, times) => self.syn(nth, times),
            Due::SynWaited(nth) if self.is_locked() => self.after_lock(Due::SynWaited(nth)),
            Due::SynWaited(nth) => self.accept(nth),
            Due::Request => {
                self.next(self.p.outbound_rate(), Due::Request);
                let worker = (self.requests % u64::from(self.p.workers)) as u32;
                self.requests += 1;
                self.workers[worker as usize].waiting += 1;
                self.call(worker);
            }
            Due::Search(worker) => self.search(worker),
            Due::Returned(worker) => self.returned(worker),
            Due::Established(..) | Due::Close(_) if self.is_locked() => self.after_lock(due),
            Due::Established(conn, called_ns) => self.established(conn, called_ns),
            Due::Close(conn) => self.close(conn),
            Due::Expire(conn) => {
                // The search that ended it may have been before.
                let list = &mut self.lists[usize::from(conn.local_port)];
                let there = u64::from(list.remove(conn.id));
                self.time_wait -= there;
                self.outbound -= u64::from(conn.outbound) * there;
            }
            Due::Second => {
                self.queue.schedule(now_ns + S, Due::Second);
                self.second();
            }
        }
    }

    /// Has what comes at random at such a rate happen next.
    fn next(&mut self, per_s: f64, due: Due) {
        if per_s > 0.0 {
            let share: f64 = self.rng.random();
            let gap_ns = (-(1.0 - share).ln() / per_s * S as f64) as u64;
            let at_ns = self.queue.now_ns().saturating_add(gap_ns);
            self.queue.schedule(at_ns, due);
        }
    }

    fn is_locked(&self) -> bool {
        self.queue.now_ns() < self.locked_ns.1
    }

    fn after_lock(&mut self, due: Due) {
        self.queue.schedule(self.locked_ns.1, due);
    }

    fn syn(&mut self, nth: u16, times: u32) {
        if !self.is_locked() {
            return self.accept(nth);
        }
        let now_ns = self.queue.now_ns();
        let since_s = (now_ns - self.locked_ns.0) as f64 / S as f64;
        let before_it = since_s * self.p.packets_per_s();
        if before_it < self.p.intr_queue_maxlen as f64 {
            self.after_lock(Due::SynWaited(nth));
            return;
        }
        self.second.syns_dropped += 1;
        let again_ns = SYN_AGAIN_NS << times.min(MOST_DOUBLINGS);
        let due = Due::SynAgain(nth, times + 1);
        self.queue.schedule(now_ns + again_ns, due);
    }

    /// A new connection at the head of its port's list.
    fn insert(&mut self, local_port: u16, outbound: bool, state: State) -> Conn {
        self.last_id += 1;
        let id = self.last_id;
        let (sent, received) = (self.p.reply_bytes, self.p.request_bytes);
        let after_ns = if outbound {
            self.p.recyclable_after_ns(received, sent)
        } else {
            self.recyclable_after_ns
        };
        self.lists[usize::from(local_port)].insert(Pcb {
            id,
            outbound,
            state,
            recyclable_ns: self.queue.now_ns() + after_ns,
        });
        self.open += 1;
        self.outbound += u64::from(outbound);
        Conn {
            id,
            local_port,
            outbound,
        }
    }

    fn accept(&mut self, nth: u16) {
        let now_ns = self.queue.now_ns();
        let conn = self.insert(self.p.service_port + nth, false, State::Live);
        self.second.accepts += 1;
        if self.watched {
            self.observer.accepted(conn, now_ns);
        }
        self.closes_after(conn, self.p.service(nth).1);
    }

    /// Has the connection closed after such a time on average, s.
    fn closes_after(&mut self, conn: Conn, mean_s: f64) {
        let share: f64 = self.rng.random();
        let random = self.p.spread * -(1.0 - share).ln();
        let open_ns = mean_s * (1.0 - self.p.spread + random) * S as f64;
        let at_ns = self.queue.now_ns() + open_ns as u64;
        self.queue.schedule(at_ns, Due::Close(conn));
    }

    /// The worker calls connect() for the next request, unless it is in one.
    fn call(&mut self, worker: u32) {
        let now_ns = self.queue.now_ns();
        let w = &mut self.workers[worker as usize];
        if w.called_ns.is_some() || w.waiting == 0 {
            return;
        }
        w.waiting -= 1;
        w.called_ns = Some(now_ns);
        self.search(worker);
    }

    /// in_pcbbind_setup(), once the lock is had.
    fn search(&mut self, worker: u32) {
        let now_ns = self.queue.now_ns();
        if self.is_locked() {
            if self.watched {
                let until_ns = self.locked_ns.1;
                self.observer.blocked(worker, self.holder, now_ns, until_ns);
            }
            return self.after_lock(Due::Search(worker));
        }
        let (time_wait, open) = (self.time_wait, self.open);
        let (port, look_ups, passed, met) = self.look_for_port();
        let took_ns = self.p.walk_ns(passed);
        let until_ns = now_ns + took_ns;
        self.locked_ns = (now_ns, until_ns);
        self.holder = worker;
        self.all_locked_ns += took_ns;
        // Of the last search what the recording sees.
        let seen_ns = until_ns.min(self.p.end_ns()) - now_ns;
        let packets = seen_ns as f64 / S as f64 * self.p.packets_per_s();
        let dropped = (packets - self.p.intr_queue_maxlen as f64).max(0.0);
        self.second.packets_dropped += dropped as u64;
        if self.watched {
            if !met.is_empty() {
                self.outcome.searches.push(Search {
                    at_ns: now_ns - self.p.origin_ns(),
                    look_ups,
                    took_ns,
                    time_wait,
                    open,
                    met,
                });
            }
            self.observer.searches(worker, now_ns, until_ns);
        }
        let made = port.map(|port| self.insert(port, true, State::Connecting));
        let w = &mut self.workers[worker as usize];
        w.call = w.called_ns.map(|called_ns| Call {
            worker,
            called_ns,
            began_ns: now_ns,
            returned_ns: until_ns,
            made,
        });
        self.queue.schedule(until_ns, Due::Returned(worker));
    }

    /// The free port, look-ups, entries passed, and the services among them.
    fn look_for_port(&mut self) -> (Option<u16>, u64, u64, Vec<Met>) {
        let p = self.p;
        let (now_ns, mut passed, mut look_ups, mut met) = (self.queue.now_ns(), 0, 0, Vec::new());
        self.ports.begin(p, &mut self.rng);
        if !p.purges() && self.all_taken() {
            // The search goes once around and changes nothing.
            let of_services = self.services_in_range().map(|(_, list)| list.len() as u64);
            passed = self.outbound + of_services.sum::<u64>();
            look_ups = p.ports().into();
            self.second.look_ups += look_ups;
            self.second.passed += passed;
            return (None, look_ups, passed, met);
        }
        let free = (0..p.ports()).find_map(|_| {
            let port = self.ports.next(p);
            let list = &mut self.lists[usize::from(port)];
            let walk = list.look_up(now_ns, p.purges(), p.restarts());
            look_ups += 1;
            passed += walk.passed;
            self.time_wait -= walk.purged;
            self.outbound -= if list.listens() { 0 } else { walk.purged };
            self.second.purged += walk.purged;
            if list.listens() {
                met.push(Met {
                    service: port - p.service_port,
                    passed: walk.passed,
                    purged: walk.purged,
                });
            }
            (!walk.taken).then_some(port)
        });
        self.second.look_ups += look_ups;
        self.second.passed += passed;
        (free, look_ups, passed, met)
    }

    fn services_in_range(&self) -> impl Iterator<Item = (u16, &List)> {
        let range = self.p.first..=self.p.last;
        let services = (0..SERVICES).map(|nth| self.p.service_port + nth);
        let services = services.filter(move |port| range.contains(port));
        services.map(|port| (port, &self.lists[usize::from(port)]))
    }

    /// Whether every port of the range is somebody's.
    fn all_taken(&self) -> bool {
        let taken = self.outbound + self.services_in_range().count() as u64;
        taken == u64::from(self.p.ports())
    }

    fn returned(&mut self, worker: u32) {
        let w = &mut self.workers[worker as usize];
        w.called_ns = None;
        let Some(call) = w.call.take() else {
            return;
        };
        self.second.connects += u64::from(call.made.is_some());
        self.second.failed += u64::from(call.made.is_none());
        let took_ns = call.returned_ns - call.called_ns;
        self.second.longest_ns = self.second.longest_ns.max(took_ns);
        if let Some(conn) = call.made {
            let due = Due::Established(conn, call.called_ns);
            self.queue.schedule(call.returned_ns + ROUND_TRIP_NS, due);
        }
        if self.watched {
            self.observer.returned(&call);
        }
        self.call(worker);
    }

    fn established(&mut self, conn: Conn, called_ns: u64) {
        let list = &mut self.lists[usize::from(conn.local_port)];
        if let Some(pcb) = list.get_mut(conn.id) {
            pcb.state = State::Live;
        }
        if self.watched {
            let now_ns = self.queue.now_ns();
            self.observer.established(conn, called_ns, now_ns);
        }
        self.closes_after(conn, self.p.outbound_life);
    }

    fn close(&mut self, conn: Conn) {
        let now_ns = self.queue.now_ns();
        let first = !conn.outbound
            || self.p.outbound_first >= 1.0
            || self.p.outbound_first > 0.0 && self.rng.random_bool(self.p.outbound_first);
        self.open -= 1;
        let list = &mut self.lists[usize::from(conn.local_port)];
        match list.get_mut(conn.id) {
            Some(pcb) if first => {
                pcb.state = State::TimeWait;
                self.time_wait += 1;
                // All stay equally long: in turn.
                let expiry_ns = now_ns + self.p.time_wait_ns();
                self.queue.schedule_in_turn(expiry_ns, Due::Expire(conn));
            }
            _ => {
                list.remove(conn.id);
                self.outbound -= 1;
            }
        }
        if self.watched {
            self.observer.closed(conn, first, now_ns);
        }
    }

    fn second(&mut self) {
        let now_ns = self.queue.now_ns();
        self.ports.tick(self.p);
        if now_ns < self.p.origin_ns() {
            return;
        }
        let locked_ns = self.all_locked_ns - self.locked_ns.1.saturating_sub(now_ns);
        let services = (0..SERVICES).map(|nth| &self.lists[usize::from(self.p.service_port + nth)]);
        let of_services = services.clone().map(|list| {
            let waits = list.all().filter(|pcb| pcb.state == State::TimeWait);
            waits.count() as u64
        });
        let time_wait_services = of_services.sum();
        let second = Second {
            locked_ns: locked_ns.saturating_sub(self.told_locked_ns),
            open: self.open,
            time_wait: self.time_wait,
            // Each connection that this host made has a port of its own.
            ports: self.outbound + u64::from(SERVICES),
            longest_list: services.map(List::len).max().unwrap_or(0) as u64,
            time_wait_services,
            ..std::mem::take(&mut self.second)
        };
        self.told_locked_ns = locked_ns;
        if !self.watched {
            self.watched = true;
            self.observer.begins(now_ns, &self.lists);
            let nothing = Second {
                open: second.open,
                time_wait: second.time_wait,
                ports: second.ports,
                longest_list: second.longest_list,
                time_wait_services: second.time_wait_services,
                ..Second::default()
            };
            self.observer.second(now_ns, &nothing, &self.lists);
            return;
        }
        self.observer.second(now_ns, &second, &self.lists);
        self.outcome.seconds.push(second);
    }
}
