//! The CPU profile that a recorder would have taken: at each tick of a CPU, what it was at.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use recording::Place;
use synth::{Sink, StackIds, Tables, Task};

use super::cache::Cache;
use super::params::{Params, S};
use super::path::Path;

/// A function, its module, and how far into it the next one is called, as in the article's stacks.
type Call = (&'static str, &'static str, u64);

const LOOKUP: Call = ("dce_lookup_and_add_v4", "ip", 0);
const DESTINATION: [Call; 4] = [
    ("ip_set_destination_v4", "ip", 0x1cf),
    ("ip_attr_connect", "ip", 0xc6),
    ("conn_connect", "ip", 0xeb),
    ("tcp_set_destination", "ip", 0x66),
];
const CONNECT: &[Call] = &[
    ("tcp_connect_ipv4", "ip", 0x135),
    ("tcp_do_connect", "ip", 0x20f),
    ("tcp_connect", "ip", 0x9f),
    ("so_connect", "sockfs", 0xf8),
    ("socket_connect", "sockfs", 0x47),
    ("connect", "sockfs", 0xec),
    ("sys_syscall", "unix", 0x17a),
];
const LISTENER: [Call; 2] = [
    ("tcp_input_listener", "ip", 0x7ca),
    ("tcp_input_listener_unbound", "ip", 0x16e),
];
const WORKER: &[Call] = &[
    ("squeue_drain", "ip", 0x1f8),
    ("squeue_worker", "ip", 0x132),
    ("thread_start", "unix", 0x8),
];
const INTERRUPT: &[Call] = &[
    ("squeue_enter", "ip", 0x440),
    ("ip_fanout_v4", "ip", 0x48d),
    ("ire_recv_local_v4", "ip", 0x366),
    ("ill_input_short_v4", "ip", 0x6ce),
    ("ip_input", "ip", 0x23b),
    ("i_dls_link_rx", "dls", 0x2e7),
    ("mac_rx_deliver", "mac", 0x5d),
    ("mac_rx_soft_ring_process", "mac", 0x17a),
    ("mac_rx_srs_proto_fanout", "mac", 0x4e5),
    ("mac_rx_srs_drain", "mac", 0x26e),
    ("mac_rx_srs_process", "mac", 0x1a9),
    ("mac_rx_classify", "mac", 0x159),
    ("mac_rx_flow", "mac", 0x54),
    ("mac_rx_common", "mac", 0x1f6),
];
/// What is besides: only its entry into the kernel is known.
const OTHER_INTERRUPT: &[Call] = &[("igb_intr_rx", "igb", 0)];
const OTHER_CALL: &[Call] = &[("sys_syscall", "unix", 0)];

/// The stacks by id, beginning with 1.
fn stacks() -> [Vec<Call>; 5] {
    let accept = |how: &[Call]| [&[LOOKUP], &DESTINATION[..], &LISTENER, how].concat();
    [
        [&[LOOKUP], &DESTINATION[..], CONNECT].concat(),
        accept(WORKER),
        accept(INTERRUPT),
        OTHER_INTERRUPT.to_vec(),
        OTHER_CALL.to_vec(),
    ]
}

/// The balancer, whatever else runs, and the kernel's own threads.
const BALANCER: Task = Task::new(1_000, "zeus");
const OTHER: Task = Task::new(1_001, "other");
const KERNEL: Task = Task::new(0, "sched");
/// Share of user mode in what threads do besides: of case B's 21 % after boot 5 are.
pub(super) const USER_SHARE: f64 = 5.0 / 21.0;

/// A CPU that walks a chain.
struct Walk {
    from_ns: u64,
    until_ns: u64,
    path: Path,
}

/// Takes samples as time goes.
pub(super) struct Profiler {
    /// Draws of its own: watching changes nothing.
    rng: Pcg64Mcg,
    /// Walks that ticks may still fall into, CPU by CPU.
    walks: Vec<VecDeque<Walk>>,
    /// The number of each CPU's next tick.
    ticks: Vec<u64>,
    /// When no chain is walked: share of the time with other work, on the interrupts' CPU and on
    /// the others.
    besides: (f64, f64),
}

/// Who is found on a CPU, and in which stack.
type Found = (Task<'static>, Option<u64>);

impl Profiler {
    pub(super) fn new(p: &Params, seed: u64) -> Profiler {
        Profiler {
            rng: Pcg64Mcg::seed_from_u64(!seed),
            walks: (0..p.cpus).map(|_| VecDeque::new()).collect(),
            ticks: vec![0; p.cpus as usize],
            besides: (0.0, 0.0),
        }
    }

    /// Writes the stacks once.
    pub(super) fn begins(&mut self, p: &Params, cache: &Cache, tables: &mut Tables, time_ns: u64) {
        let walks_s = cache.mean_passes(p) * p.entry_walk / 1e9;
        let besides = |share: f64, interrupts: bool| {
            let (threads, interrupts) = p.lookups_of_cpu(interrupts);
            let left = 1.0 - (threads + interrupts) * walks_s;
            if left > share { share / left } else { 1.0 }
        };
        self.besides = (
            besides(p.base_interrupt(), true),
            besides(p.base_threads(), false),
        );
        let mut ids = StackIds::default();
        for stack in stacks() {
            let places = stack.into_iter().map(|(function, module, offset)| Place {
                function: function.into(),
                module: module.into(),
                offset,
            });
            ids.add(time_ns, places, tables);
        }
    }

    pub(super) fn walks(&mut self, cpu: u32, path: Path, from_ns: u64, until_ns: u64) {
        self.walks[cpu as usize].push_back(Walk {
            from_ns,
            until_ns,
            path,
        });
    }

    /// Writes what the ticks until now found.
    pub(super) fn until(&mut self, p: &Params, now_ns: u64, start_ns: u64, tables: &mut Tables) {
        let mut found = Vec::new();
        for cpu in 0..p.cpus {
            loop {
                let at_ns = tick_ns(p, cpu, self.ticks[cpu as usize]);
                if at_ns >= now_ns {
                    break;
                }
                self.ticks[cpu as usize] += 1;
                found.push((at_ns, cpu, self.look(p, cpu, at_ns)));
            }
        }
        found.sort_by_key(|(at_ns, cpu, _)| (*at_ns, *cpu));
        for (at_ns, cpu, (task, stack)) in found {
            tables.add(task.on_cpu(start_ns + at_ns, cpu, stack));
        }
    }

    fn look(&mut self, p: &Params, cpu: u32, at_ns: u64) -> Found {
        let walks = &mut self.walks[cpu as usize];
        while walks.front().is_some_and(|walk| walk.until_ns <= at_ns) {
            walks.pop_front();
        }
        let walk = walks.front().filter(|walk| walk.from_ns <= at_ns);
        match walk.map(|walk| walk.path) {
            Some(Path::Connect) => (BALANCER, Some(1)),
            Some(Path::Worker) => (KERNEL, Some(2)),
            Some(Path::Interrupt) => (KERNEL, Some(3)),
            None => self.besides(p, cpu),
        }
    }

    /// What is not simulated has the time that is left.
    fn besides(&mut self, p: &Params, cpu: u32) -> Found {
        let at: f64 = self.rng.random();
        if cpu == p.interrupt_cpu {
            return (KERNEL, (at < self.besides.0).then_some(4));
        }
        match at / self.besides.1.max(f64::MIN_POSITIVE) {
            share if share >= 1.0 => (KERNEL, None),
            share => (OTHER, (share >= USER_SHARE).then_some(5)),
        }
    }
}

/// When a CPU's n-th sample is taken: CPUs take theirs in turn.
fn tick_ns(p: &Params, cpu: u32, nth: u64) -> u64 {
    let cpus = u64::from(p.cpus);
    (nth * cpus + u64::from(cpu)) * S / (p.profile_rate * cpus)
}
