//! One run: the mesh as it was formed, then the data over it.
//!
//! The handshakes do not depend on the data, so that a mesh is formed first and its log is told in
//! time with what the data do. Left out: queues in the switch (the round trip under load is given),
//! windows that grow as the receiver sees fit, and load that goes around a slow link.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::flow::{Flow, Next};
use super::mesh::{Mesh, What};
use super::observer::Observer;
use super::outcome::{Outcome, Second};
use super::params::{Params, S};
use super::series::Series;
use crate::engine::Queue;

#[derive(Clone, Copy, Debug)]
enum Due {
    /// A data socket is there.
    Begin(usize),
    /// A message is asked for.
    Message(usize),
    /// What a sender was doing is over.
    Next(usize),
    Second,
}

struct Sim<'p, O> {
    p: &'p Params,
    observer: &'p mut O,
    rng: Pcg64Mcg,
    queue: Queue<Due>,
    mesh: Mesh,
    flows: Vec<Flow>,
    /// How much of the mesh's log is told.
    told: usize,
    second: Second,
    /// What the flows had done at the end of the last second.
    before: Vec<(u64, u64, u64)>,
    outcome: Outcome,
}

/// Simulates the run of the series that `shown` asks for.
pub(super) fn simulate(p: &Params, seed: u64, observer: &mut impl Observer) -> Outcome {
    let series = Series::of(p, seed);
    let nth = series.shown(p);
    run(p, seed, nth, observer).of(series)
}

/// Simulates the `nth` run of a series.
pub(super) fn run(p: &Params, seed: u64, nth: u32, observer: &mut impl Observer) -> Outcome {
    let mesh = Mesh::form(p, seed, nth);
    // The data of equal runs have equal luck.
    let mut rng = Pcg64Mcg::seed_from_u64(seed.wrapping_add(1) ^ u64::from(nth));
    let mut flows = Vec::new();
    for (link, sockets) in mesh.links.iter().enumerate() {
        for (socket, from_opener) in sockets.iter().flat_map(|s| [(*s, true), (*s, false)]) {
            flows.push(Flow::new(p, &mesh, link, socket, from_opener, &mut rng));
        }
    }
    let mut sim = Sim {
        p,
        observer,
        rng,
        queue: Queue::new(),
        before: vec![(0, 0, 0); flows.len()],
        flows,
        told: 0,
        second: Second::default(),
        outcome: Outcome::new(p, &mesh),
        mesh,
    };
    sim.begin();
    while let Some(due) = sim.queue.next_before(p.end_ns() + 1) {
        sim.happens(due);
        if sim.outcome.seconds.len() as u64 == p.duration {
            break;
        }
    }
    sim.end()
}

impl<O: Observer> Sim<'_, O> {
    fn begin(&mut self) {
        self.queue.schedule(S, Due::Second);
        for (nth, flow) in self.flows.iter().enumerate() {
            if let Some(at_ns) = self.mesh.sockets[flow.socket].established_ns {
                self.queue.schedule(at_ns, Due::Begin(nth));
            }
        }
    }

    fn happens(&mut self, due: Due) {
        let now_ns = self.queue.now_ns();
        self.tell(now_ns);
        match due {
            Due::Begin(nth) => {
                if let Some(every_ns) = self.p.message_every_ns() {
                    let share: f64 = self.rng.random();
                    let first_ns = (share * every_ns as f64) as u64;
                    self.queue.schedule(now_ns + first_ns, Due::Message(nth));
                }
            }
            Due::Message(nth) => {
                if self.flows[nth].ask(self.p, now_ns) && self.flows[nth].is_idle() {
                    self.next(nth);
                }
                if let Some(every_ns) = self.p.message_every_ns() {
                    self.queue.schedule(now_ns + every_ns, Due::Message(nth));
                }
            }
            Due::Next(nth) => self.next(nth),
            Due::Second => self.second(),
        }
    }

    fn next(&mut self, nth: usize) {
        let now_ns = self.queue.now_ns();
        let next = self.flows[nth].next(self.p, now_ns, &mut self.rng);
        if let Some(Next { ends_ns, resends }) = next {
            if let Some(resent) = resends {
                self.observer
                    .resent(&self.mesh, &self.flows[nth], now_ns, resent);
            }
            self.queue.schedule(ends_ns, Due::Next(nth));
        }
    }

    /// Tells of the handshakes until now.
    fn tell(&mut self, now_ns: u64) {
        while let Some(happened) = self.mesh.log.get(self.told).copied() {
            if happened.at_ns > now_ns {
                return;
            }
            self.told += 1;
            self.count(happened.what);
            self.observer.handshake(&self.mesh, happened);
        }
    }

    fn count(&mut self, what: What) {
        let s = &mut self.second;
        match what {
            What::Connect => s.connects += 1,
            What::SynResent(_) => s.syns_resent += 1,
            What::Syn(answer) => s.answered(answer),
            What::Established => s.established += 1,
            What::AckDropped => s.acks_dropped += 1,
            What::GivenUp => s.given_up += 1,
            What::Opened | What::DataResent(_) | What::Accepted => {}
        }
    }

    fn second(&mut self) {
        let now_ns = self.queue.now_ns();
        let mut second = std::mem::take(&mut self.second);
        second.link_bytes = vec![0; self.mesh.links.len()];
        for (flow, before) in self.flows.iter().zip(&mut self.before) {
            let done = (flow.done.acked, flow.done.resent, flow.done.messages);
            second.link_bytes[flow.link] += done.0 - before.0;
            second.resent += done.1 - before.1;
            second.messages += done.2 - before.2;
            *before = done;
            second.windows(flow);
        }
        self.observer.second(&self.mesh, &self.flows, now_ns);
        self.outcome.seconds.push(second);
        self.queue.schedule(now_ns + S, Due::Second);
    }

    fn end(mut self) -> Outcome {
        for flow in &self.flows {
            self.outcome.flow(flow);
        }
        self.outcome
    }
}
