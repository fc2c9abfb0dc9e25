//! The simulation while it is looked at: every lookup, on its CPU and under its bucket's lock.
//!
//! An interrupt's lookups follow each other on its CPU; a thread's run on a CPU that has none. A
//! lookup takes its bucket's lock for writing, found or not, so that two in one bucket follow each
//! other, too.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::cache::{Cache, Whom, any_bucket};
use super::growth::grow;
use super::observer::Observer;
use super::outcome::{Outcome, Second, Totals};
use super::params::{Params, S};
use super::path::Path;
use crate::draws::gap_ns;
use crate::engine::Queue;

/// One lookup.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    path: Path,
    whom: Whom,
    arrived_ns: u64,
    /// When dce_lookup_and_add_v4() was entered.
    entered_ns: u64,
}

#[derive(Debug)]
enum Due {
    Arrival,
    /// The lookup on a CPU is done.
    Done(u32),
    /// The later kernel's worker wakes up.
    Worker,
    Second,
}

#[derive(Debug, Default)]
struct Cpu {
    now: Option<Lookup>,
    /// It walks since then; `None` also while it waits for a lock.
    since_ns: Option<u64>,
    waiting: VecDeque<Lookup>,
}

struct Sim<'p, O> {
    p: &'p Params,
    observer: &'p mut O,
    rng: Pcg64Mcg,
    queue: Queue<Due>,
    cache: Cache,
    cpus: Vec<Cpu>,
    /// Which CPU holds a bucket's lock: a few at a time.
    held: Vec<(u32, u32)>,
    /// Who waits for which bucket, the first first.
    blocked: VecDeque<(u32, u32)>,
    reclaim_needed: bool,
    second: Second,
    loads: [f64; 3],
    totals: Totals,
    seconds: Vec<Second>,
}

/// Simulates once.
pub(super) fn simulate(p: &Params, seed: u64, observer: &mut impl Observer) -> Outcome {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut cache = Cache::new(p, &mut rng);
    let days = grow(p, &mut cache, &mut rng);
    observer.begins(&days, &cache);
    let mut sim = Sim {
        p,
        observer,
        rng,
        queue: Queue::new(),
        // For hours it has been what it is now.
        loads: [p.base_load + p.thread_lookups() * cache.mean_passes(p) * p.entry_walk / 1e9; 3],
        cache,
        cpus: (0..p.cpus).map(|_| Cpu::default()).collect(),
        held: Vec::new(),
        blocked: VecDeque::new(),
        reclaim_needed: false,
        second: Second::of(p),
        totals: Totals::default(),
        seconds: Vec::new(),
    };
    sim.begin();
    while let Some(due) = sim.queue.next_before(p.end_ns() + 1) {
        sim.happens(due);
        if sim.seconds.len() as u64 == p.duration {
            break;
        }
    }
    Outcome {
        days,
        entries: sim.cache.entries(),
        longest: sim.cache.longest(),
        seconds: sim.seconds,
        totals: sim.totals,
    }
}

impl<O: Observer> Sim<'_, O> {
    fn begin(&mut self) {
        self.queue.schedule(S, Due::Second);
        let first = gap_ns(&mut self.rng, self.p.lookups());
        self.queue.schedule(first, Due::Arrival);
        if self.p.reclaims() && !self.p.reclaims_inline() {
            let every = self.p.ip_dce_reclaim_interval * S;
            self.queue.schedule(every, Due::Worker);
        }
    }

    fn happens(&mut self, due: Due) {
        let now_ns = self.queue.now_ns();
        match due {
            Due::Arrival => {
                self.arrival();
                let next = gap_ns(&mut self.rng, self.p.lookups());
                let next_ns = now_ns.saturating_add(next);
                self.queue.schedule(next_ns, Due::Arrival);
            }
            Due::Done(cpu) => self.done(cpu),
            Due::Worker => {
                if std::mem::take(&mut self.reclaim_needed) {
                    self.reclaim();
                }
                let next_ns = now_ns + self.p.ip_dce_reclaim_interval * S;
                self.queue.schedule(next_ns, Due::Worker);
            }
            Due::Second => self.second(),
        }
    }

    fn arrival(&mut self) {
        let p = self.p;
        let path = match self.rng.random::<f64>() * p.lookups() {
            at if at < p.connect_rate => Path::Connect,
            at if at < p.thread_lookups() => Path::Worker,
            _ => Path::Interrupt,
        };
        let new = self.rng.random::<f64>() < p.new_share() || p.returning_destinations == 0;
        let whom = if new {
            Whom::New(any_bucket(p, &mut self.rng))
        } else {
            Whom::Returning(self.rng.random_range(0..p.returning_destinations))
        };
        let now_ns = self.queue.now_ns();
        let lookup = Lookup {
            path,
            whom,
            arrived_ns: now_ns,
            entered_ns: now_ns,
        };
        let cpu = self.place(path);
        match self.cpus[cpu as usize].now {
            None => self.enter(cpu, lookup),
            Some(_) => self.cpus[cpu as usize].waiting.push_back(lookup),
        }
    }

    /// The CPU of a lookup. A thread goes to the next that has none, else where it came up.
    fn place(&mut self, path: Path) -> u32 {
        let p = self.p;
        if path == Path::Interrupt && self.rng.random::<f64>() < p.interrupt_share {
            return p.interrupt_cpu;
        }
        let others = p.cpus - 1;
        let other = |nth: u32| {
            let nth = nth % others;
            nth + u32::from(nth >= p.interrupt_cpu)
        };
        let first = self.rng.random_range(0..others);
        if path == Path::Interrupt {
            return other(first);
        }
        let all = (0..others).map(|i| other(first + i));
        let idle = all
            .into_iter()
            .find(|cpu| self.cpus[*cpu as usize].now.is_none());
        idle.unwrap_or(other(first))
    }

    /// A lookup begins on a CPU.
    fn enter(&mut self, cpu: u32, lookup: Lookup) {
        let now_ns = self.queue.now_ns();
        let lookup = Lookup {
            entered_ns: now_ns,
            ..lookup
        };
        let waited_ns = now_ns - lookup.arrived_ns;
        self.cpus[cpu as usize].now = Some(lookup);
        if cpu == self.p.interrupt_cpu {
            self.totals.packets += 1;
            self.totals.waited_ns += waited_ns;
            self.totals.longest_wait_ns = self.totals.longest_wait_ns.max(waited_ns);
        }
        if lookup.path.in_thread() {
            self.second.runqueue_ns += waited_ns;
        }
        let bucket = self.cache.bucket(lookup.whom);
        if self.held.iter().any(|(held, _)| *held == bucket) {
            self.totals.blocked += 1;
            self.blocked.push_back((bucket, cpu));
        } else {
            self.walk(cpu, bucket)
        }
    }

    /// It has the lock.
    fn walk(&mut self, cpu: u32, bucket: u32) {
        let now_ns = self.queue.now_ns();
        let Some(lookup) = self.cpus[cpu as usize].now else {
            return;
        };
        self.held.push((bucket, cpu));
        let mut takes_ns = 0;
        if self.p.reclaims() && self.cache.chain(bucket) > self.p.dce_reclaim_threshold {
            self.reclaim_needed = true;
            if self.p.reclaims_inline() {
                // Every chain is walked.
                takes_ns += self.p.walk_ns(self.cache.entries());
                self.reclaim();
            }
        }
        let passes = self.cache.passes(lookup.whom);
        self.totals.passed += u64::from(passes);
        takes_ns += self.p.walk_ns(passes.into());
        self.cpus[cpu as usize].since_ns = Some(now_ns);
        self.observer
            .walks(cpu, lookup.path, now_ns, now_ns + takes_ns);
        self.queue.schedule(now_ns + takes_ns, Due::Done(cpu));
    }

    fn reclaim(&mut self) {
        let deleted = self.cache.reclaim(self.p, &mut self.rng);
        self.second.reclaims += 1;
        self.second.deleted += deleted;
    }

    fn done(&mut self, cpu: u32) {
        let now_ns = self.queue.now_ns();
        self.worked(cpu, now_ns);
        let here = &mut self.cpus[cpu as usize];
        here.since_ns = None;
        let Some(lookup) = here.now.take() else {
            return;
        };
        let next = here.waiting.pop_front();
        let added = self.cache.add(lookup.whom);
        self.second.added += u64::from(added);
        match lookup.path {
            Path::Connect => self.second.connects += 1,
            Path::Worker | Path::Interrupt => self.second.accepts += 1,
        }
        self.totals.lookups += 1;
        self.totals.took_ns += now_ns - lookup.entered_ns;
        self.observer.looked_up(lookup.path, added, now_ns);
        let bucket = self.cache.bucket(lookup.whom);
        self.held.retain(|(_, holder)| *holder != cpu);
        let first = self.blocked.iter().position(|(b, _)| *b == bucket);
        if let Some((_, waiter)) = first.and_then(|at| self.blocked.remove(at)) {
            self.walk(waiter, bucket);
        }
        if let Some(next) = next {
            self.enter(cpu, next);
        }
    }

    /// Accounts for what a CPU walked until now.
    fn worked(&mut self, cpu: u32, now_ns: u64) {
        let here = &mut self.cpus[cpu as usize];
        let (Some(lookup), Some(since_ns)) = (here.now, here.since_ns) else {
            return;
        };
        here.since_ns = Some(now_ns);
        let busy = &mut self.second.cpus[cpu as usize];
        if lookup.path.in_thread() {
            busy.thread_ns += now_ns - since_ns
        } else {
            busy.interrupt_ns += now_ns - since_ns
        }
    }

    fn second(&mut self) {
        let now_ns = self.queue.now_ns();
        (0..self.p.cpus).for_each(|cpu| self.worked(cpu, now_ns));
        let mut second = std::mem::replace(&mut self.second, Second::of(self.p));
        second.entries = self.cache.entries();
        second.longest = self.cache.longest();
        // What threads used and waited for, each second (calcloadavg).
        let threads: u64 = second.cpus.iter().map(|c| c.thread_ns).sum();
        let load = self.p.base_load + (threads + second.runqueue_ns) as f64 / S as f64;
        for (average, over) in self.loads.iter_mut().zip([60.0, 300.0, 900.0]) {
            *average += (load - *average) / over;
        }
        second.loads = self.loads;
        self.observer.second(now_ns, &second);
        self.seconds.push(second);
        self.queue.schedule(now_ns + S, Due::Second);
    }
}
