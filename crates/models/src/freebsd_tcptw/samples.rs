//! What a recorder would have measured: once at the start, then every second.

use recording::tables::{
    Counter, Frame, Holder, Listener, PortUse, Setting, Stack, TableSize, Thread, ThreadSleep,
};
use recording::{SourceName, counter};

use super::outcome::Second;
use super::params::{S, SERVICES};
use super::pcbs::{List, State};
use super::record::{BACKEND_PORT, BACKENDS, CPUS, HOST, Recorder, SEARCH_STACK, WORKER, backend};
use crate::tables::START_NS;

/// kern.ipc.somaxconn. The services accept at once.
const BACKLOG: u32 = 128;
/// The files of the listening sockets, from this one on, and the process that has them.
const INODE: u64 = 5_000;
const SERVER_PID: u32 = 900;
/// Ports in use are counted every so many seconds; destinations with fewer have no row, as live.
const PORTS_EVERY_S: u64 = 5;
const LEAST_PORTS: u32 = 16;

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

impl Recorder<'_> {
    /// What is known before anything happens.
    pub(super) fn describe(&mut self) {
        self.tables.host("FreeBSD 6", CPUS);
        self.tables.namespace(HOST, "host");
        for (name, gives) in COMPUTED {
            self.tables.computes(name.clone(), gives);
        }
        let p = self.p;
        let settings = [
            ("net.inet.ip.portrange.first", p.first.into()),
            ("net.inet.ip.portrange.last", p.last.into()),
            ("net.inet.ip.portrange.randomized", p.randomized),
            ("net.inet.ip.portrange.randomcps", p.randomcps),
            ("net.inet.ip.portrange.randomtime", p.randomtime),
            ("net.inet.tcp.msl", p.msl),
            ("net.inet.ip.intr_queue_maxlen", p.intr_queue_maxlen),
        ];
        for (name, value) in settings {
            self.tables.add(Setting {
                time_ns: START_NS,
                netns: HOST,
                name: name.into(),
                value: value.to_string().into(),
            });
        }
        for nth in 0..SERVICES {
            self.tables.add(Holder {
                time_ns: START_NS,
                inode: INODE + u64::from(nth),
                pid: SERVER_PID,
                comm: "server".into(),
                fd: 3 + u32::from(nth),
            });
        }
        for (depth, function) in (0..).zip(SEARCH) {
            let frame = u64::from(depth) + 1;
            self.tables.add(Stack {
                time_ns: START_NS,
                stack: SEARCH_STACK,
                depth,
                frame,
            });
            self.tables.add(Frame {
                time_ns: START_NS,
                frame,
                function: (*function).into(),
                module: "kernel".into(),
                offset: 0,
            });
        }
    }

    /// Measures everything.
    pub(super) fn measure(&mut self, now_ns: u64, second: &Second, lists: &[List]) {
        let time_ns = self.at(now_ns);
        for nth in 0..SERVICES {
            self.tables.add(Listener {
                time_ns,
                netns: HOST,
                sock: Recorder::listener(nth),
                inode: Some(INODE + u64::from(nth)),
                family: 4,
                local_port: self.p.service_port + nth,
                backlog: BACKLOG,
                ..Listener::default()
            });
        }
        let size = |structure: &str, entries| TableSize {
            time_ns,
            netns: HOST,
            structure: structure.into(),
            entries,
            ..TableSize::default()
        };
        self.tables.add(size("time-wait", second.time_wait));
        self.tables.add(TableSize {
            buckets: Some(second.ports),
            longest_chain: Some(second.longest_list),
            ..size(
                "port-lists",
                second.open + second.time_wait + u64::from(SERVICES),
            )
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
        let packets = (s.accepts + s.connects) * u64::from(self.p.packets);
        let rises = [
            (counter::ACTIVE_OPENS, s.connects),
            (counter::PASSIVE_OPENS, s.accepts),
            (counter::IN_SEGS, packets),
            ("Ip.intr_queue_drops", s.packets_dropped),
            ("in_pcblookup_local.calls", s.look_ups),
            ("in_pcblookup_local.iterations", s.passed),
            ("in_pcblookup_local.expired", s.purged),
        ];
        for (name, by) in rises {
            let value = self.counters.entry(name).or_default();
            *value += by as i64;
            if by == 0 && name != counter::IN_SEGS {
                continue;
            }
            let (group, name) = counter::parts(name);
            self.tables.add(Counter {
                time_ns,
                netns: HOST,
                group: group.into(),
                name: name.into(),
                value: *value,
                delta: Some(by as i64),
            });
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
                local_addr: self.here(),
                remote_addr: backend(nth),
                remote_port: BACKEND_PORT,
                ports_used,
                time_wait,
                established,
                range_low: self.p.first,
                range_high: self.p.last,
                reserved: 0,
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
        let sleep_ns = S.saturating_sub(system_ns + disk_ns);
        let pid = Recorder::pid(nth);
        self.tables.add(Thread {
            time_ns,
            interval_ns: S,
            pid,
            tid: pid,
            comm: WORKER.into(),
            system_ns,
            sleep_ns,
            disk_ns,
            voluntary: count,
            ..Thread::default()
        });
        if sleep_ns > 0 {
            self.tables.add(ThreadSleep {
                time_ns,
                pid,
                tid: pid,
                syscall: "kevent".into(),
                sleep_ns,
                count,
            });
        }
    }
}
