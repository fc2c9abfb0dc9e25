//! What a recorder would have measured: once at the start, then every second.

use recording::tables::{PortUse, TableSize, Thread};
use recording::{Addr, SourceName, counter};
use synth::{
    HOST, LEAST_PORTS, Listening, Sink, StackIds, Tables, Task, kernel, settings, table_size,
};

use super::outcome::Second;
use super::params::{Params, S, SERVICES};
use super::pcbs::{List, State};
use super::record::{BACKEND_PORT, BACKENDS, CPUS, Recorder, backend, here, listener, task};
use crate::clock::START_NS;

/// kern.ipc.somaxconn. The services accept at once.
const BACKLOG: u32 = 128;
/// The files of the listening sockets, from this one on, and the process that has them.
const INODE: u64 = 5_000;
const SERVER: Task = Task::new(900, "server");
/// Ports in use are counted every so many seconds, as live.
const PORTS_EVERY_S: u64 = 5;

/// How connect() comes to the search, the innermost function first (FreeBSD 6).
const SEARCH: &[&str] = &[
    "in_pcblookup_local",
    "in_pcbbind_setup",
    "in_pcbbind",
    "tcp_connect",
    "tcp_usr_connect",
    "soconnect",
    "kern_connect",
    "connect",
    "syscall",
];

/// What is computed, by the names of the recorder's sources.
const COMPUTED: &[(SourceName, &str)] = &[
    (SourceName::States, "changes of state of this host's ends"),
    (
        SourceName::Retransmits,
        "none: only SYNs of others are lost",
    ),
    (
        SourceName::ResetsSent,
        "none: all connections are closed in order",
    ),
    (
        SourceName::ResetsReceived,
        "none: all connections are closed in order",
    ),
    (
        SourceName::Sockets,
        "listeners; every connection, at the start",
    ),
    (SourceName::Holders, "who holds the listeners"),
    (
        SourceName::Counters,
        "TCP counters that the mechanism moves, and those that the author of the case added to \
         in_pcblookup_local()",
    ),
    (SourceName::Settings, "the tunings"),
    (
        SourceName::Tables,
        "TIME_WAIT, and the lists of connections by local port",
    ),
    (
        SourceName::Ports,
        "local ports in use towards each destination",
    ),
    (
        SourceName::Calls,
        "connect() calls of 10 ms and more, or without a port",
    ),
    (
        SourceName::Waits,
        "waits of 10 ms and more for the lock, in connect()",
    ),
    (SourceName::Threads, "the processes that connect"),
    (
        SourceName::Profile,
        "the searches: nothing else costs CPU time here",
    ),
    (SourceName::ProfileSymbols, "the functions of a search"),
];

/// What is known before anything happens; the stack of a search.
pub(super) fn describe(p: &Params, tables: &mut Tables) -> u64 {
    let host = (HOST, "host".to_string());
    tables.describe(("FreeBSD 6", CPUS), [host], COMPUTED);
    let all = [
        ("net.inet.ip.portrange.first", p.first.into()),
        ("net.inet.ip.portrange.last", p.last.into()),
        ("net.inet.ip.portrange.randomized", p.randomized),
        ("net.inet.ip.portrange.randomcps", p.randomcps),
        ("net.inet.ip.portrange.randomtime", p.randomtime),
        ("net.inet.tcp.msl", p.msl),
        ("net.inet.ip.intr_queue_maxlen", p.intr_queue_maxlen),
    ];
    tables.extend(settings(START_NS, HOST, all));
    for nth in 0..SERVICES {
        tables.add(SERVER.holds(START_NS, INODE + u64::from(nth), 3 + u32::from(nth)));
    }
    let search = SEARCH.iter().map(|function| kernel(function, 0));
    StackIds::default().add(START_NS, search, tables)
}

impl Recorder<'_> {
    /// Measures everything.
    pub(super) fn measure(&mut self, now_ns: u64, second: &Second, lists: &[List]) {
        let time_ns = self.at(now_ns);
        for nth in 0..SERVICES {
            let service = Listening {
                netns: HOST,
                sock: listener(nth),
                inode: INODE + u64::from(nth),
                family: 4,
                at: (Addr::default(), self.p.service_port + nth),
                backlog: BACKLOG,
            };
            self.tables.add(service.sample(time_ns));
        }
        let size = |structure, entries| table_size(time_ns, HOST, structure, entries);
        self.tables.add(size("time-wait", second.time_wait));
        let listed = second.open + second.time_wait + u64::from(SERVICES);
        self.tables.add(TableSize {
            buckets: Some(second.ports),
            longest_chain: Some(second.longest_list),
            ..size("port-lists", listed)
        });
        self.counters(time_ns, second);
        let since_s = (now_ns - self.p.origin_ns()) / S;
        if since_s.is_multiple_of(PORTS_EVERY_S) {
            self.ports(time_ns, lists);
        }
        for nth in 0..self.p.workers {
            self.worker(nth, now_ns, since_s > 0);
        }
    }

    fn counters(&mut self, time_ns: u64, s: &Second) {
        // What a search drops is told when it begins, of seconds that are still to come.
        let packets = (s.accepts + s.connects) * u64::from(self.p.packets);
        self.dropped += s.packets_dropped;
        let never_came = self.dropped.min(packets);
        self.dropped -= never_came;
        let rises = [
            (counter::ACTIVE_OPENS, s.connects),
            (counter::PASSIVE_OPENS, s.accepts),
            (counter::IN_SEGS, packets - never_came),
            (counter::INTR_QUEUE_DROPS, s.packets_dropped),
            ("in_pcblookup_local.calls", s.look_ups),
            ("in_pcblookup_local.iterations", s.passed),
            ("in_pcblookup_local.expired", s.purged),
        ];
        for (name, by) in rises {
            let row = self.counters.sample_one(time_ns, HOST, name, by as i64);
            self.tables.extend(row);
        }
    }

    fn ports(&mut self, time_ns: u64, lists: &[List]) {
        let mut used = [(0, 0, 0); BACKENDS as usize];
        let range = usize::from(self.p.first)..=usize::from(self.p.last);
        for pcb in lists[range].iter().flat_map(List::all) {
            if pcb.outbound {
                let (all, waits, live) = &mut used[(pcb.id % BACKENDS) as usize];
                *all += 1;
                *waits += u32::from(pcb.state == State::TimeWait);
                *live += u32::from(pcb.state == State::Live);
            }
        }
        for (nth, (ports_used, time_wait, established)) in (0..).zip(used) {
            if ports_used < LEAST_PORTS {
                continue;
            }
            self.tables.add(PortUse {
                time_ns,
                netns: HOST,
                family: 4,
                local_addr: here(),
                remote_addr: backend(nth),
                remote_port: BACKEND_PORT,
                ports_used,
                time_wait,
                established,
                range_low: self.p.first,
                range_high: self.p.last,
                reserved: 0,
                server_time_wait: Some(0),
            });
        }
    }

    /// What a worker did in the second that ends now.
    fn worker(&mut self, nth: u32, now_ns: u64, tell: bool) {
        let time_ns = self.at(now_ns);
        let from_ns = now_ns.saturating_sub(S);
        let within = |spans: &mut Vec<(u64, u64)>| {
            let clip = |(from, to): &(u64, u64)| {
                let (from, to) = ((*from).max(from_ns), (*to).min(now_ns));
                to.saturating_sub(from)
            };
            let sum: u64 = spans.iter().map(clip).sum();
            spans.retain(|(_, to)| *to > now_ns);
            sum
        };
        let worker = &mut self.workers[nth as usize];
        let system_ns = within(&mut worker.searches);
        let disk_ns = within(&mut worker.blocked);
        let count = std::mem::take(&mut worker.sleeps);
        if !tell {
            return;
        }
        let task = task(nth);
        let thread = Thread {
            system_ns,
            sleep_ns: S.saturating_sub(system_ns + disk_ns),
            disk_ns,
            voluntary: count,
            ..task.thread(time_ns, S)
        };
        self.tables.extend(task.slept(&thread, "kevent"));
        self.tables.add(thread);
    }
}
