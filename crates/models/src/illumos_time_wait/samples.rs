//! What a recorder would have sampled: once at the start, then every second.

use std::collections::BTreeMap;

use recording::tables::{
    Counter, Holder, Listener, PortUse, Process, Setting, Socket, TableSize, Thread, ThreadSleep,
};
use recording::{SourceName, TcpState, counter};

use super::outcome::Second;
use super::params::{MS, S};
use super::record::{CLIENTS, LISTENER, PORT, Recorder, SERVER, SERVER_PID};
use crate::tables::START_NS;

/// conn_req_max_q: connections that may wait for accept(). The server accepts at once.
const BACKLOG: u32 = 128;
/// Destinations with fewer ports in use have no row, as live.
const LEAST_PORTS: u32 = 16;
/// TIME_WAITs told per sample.
const MOST_TIME_WAITS: usize = 10_000;
/// The file of the listening socket.
const INODE: u64 = 5_000;

/// What is computed, by the names of the recorder's sources.
const COMPUTED: &[(SourceName, &str)] = &[
    (SourceName::States, "changes of state of both ends"),
    (SourceName::Retransmits, "SYNs retransmitted"),
    (SourceName::SynAckRetransmits, "none: no SYN-ACK is lost"),
    (
        SourceName::ResetsSent,
        "resets of clients in SYN_SENT, and of TIME_WAIT",
    ),
    (SourceName::ResetsReceived, "connects that a reset ended"),
    (SourceName::ResetsUnmatched, "none: the port is open"),
    (SourceName::Drops, "SYNs that a TIME_WAIT refused"),
    (
        SourceName::Sockets,
        "the listener; each TIME_WAIT in the first sample that finds it",
    ),
    (SourceName::Holders, "who holds the listener"),
    (SourceName::Processes, "the server"),
    (
        SourceName::Counters,
        "the kernel's TCP counters that the mechanism moves",
    ),
    (SourceName::Settings, "the tunings"),
    (SourceName::Tables, "sockets in TIME_WAIT"),
    (SourceName::Ports, "local ports in use towards the server"),
    (
        SourceName::Waits,
        "sleeps of the server's thread of 10 ms and more",
    ),
    (SourceName::Threads, "the server's thread"),
];

impl Recorder<'_> {
    /// What is known before the load begins.
    pub(super) fn begin(&mut self) {
        self.tables.host("illumos", 2);
        self.tables.namespace(SERVER, "host");
        if !self.p.loopback() {
            self.tables.namespace(CLIENTS, "clients");
        }
        for (name, gives) in COMPUTED {
            self.tables.computes(name.clone(), gives);
        }
        let mut hosts = vec![SERVER, self.client_netns()];
        hosts.dedup();
        for netns in hosts {
            self.settings(netns);
        }
        self.tables.add(Holder {
            time_ns: START_NS,
            inode: INODE,
            pid: SERVER_PID,
            comm: "server".into(),
            fd: 3,
        });
        self.sample(0, &Second::default());
    }

    fn settings(&mut self, netns: u32) {
        let p = self.p;
        let settings = [
            ("tcp_strong_iss", p.tcp_strong_iss),
            ("tcp_iss_incr", p.tcp_iss_incr.into()),
            ("tcp_smallest_anon_port", p.tcp_smallest_anon_port.into()),
            ("tcp_largest_anon_port", p.tcp_largest_anon_port.into()),
            ("tcp_random_anon_port", p.random_ports().into()),
            ("tcp_time_wait_interval", p.tcp_time_wait_interval),
            ("tcp_recv_hiwat", p.tcp_recv_hiwat.into()),
            ("tcp_rexmit_interval_initial", p.tcp_rexmit_interval_initial),
            ("tcp_rexmit_interval_min", p.tcp_rexmit_interval_min),
            ("tcp_rexmit_interval_max", p.tcp_rexmit_interval_max),
        ];
        for (name, value) in settings {
            self.tables.add(Setting {
                time_ns: START_NS,
                netns,
                name: name.into(),
                value: value.to_string().into(),
            });
        }
    }

    /// A sample of everything.
    pub(super) fn sample(&mut self, now_ns: u64, second: &Second) {
        let time_ns = START_NS + now_ns;
        self.tables.add(Listener {
            time_ns,
            netns: SERVER,
            sock: LISTENER,
            inode: Some(INODE),
            family: 4,
            local_addr: self.server_addr(),
            local_port: PORT,
            backlog: BACKLOG,
            ..Listener::default()
        });
        let user_ms = self.counters.entry((0, "user")).or_default();
        *user_ms += (second.busy_ns / MS) as i64;
        let user_ms = *user_ms as u64;
        self.tables.add(Process {
            time_ns,
            pid: SERVER_PID,
            ppid: 1,
            comm: "server".into(),
            state: if second.busy_ns >= S { "R" } else { "S" }.into(),
            user_ms,
            ..Process::default()
        });
        self.tables.add(TableSize {
            time_ns,
            netns: SERVER,
            structure: "time-wait".into(),
            entries: second.time_wait,
            ..TableSize::default()
        });
        self.time_waits(time_ns);
        self.ports(time_ns);
        self.counters(time_ns, second);
        if now_ns > 0 {
            self.thread(time_ns, second);
        }
        self.closed = 0;
        self.sleeps = 0;
    }

    /// TIME_WAITs that are new in this sample: told once, as their number alone is in every one.
    fn time_waits(&mut self, time_ns: u64) {
        let new = std::mem::take(&mut self.time_waits);
        for (sock, end, expected) in new.into_values().take(MOST_TIME_WAITS) {
            self.tables.add(Socket {
                time_ns,
                netns: SERVER,
                sock,
                family: 4,
                state: TcpState::TimeWait,
                local_addr: self.server_addr(),
                local_port: PORT,
                remote_addr: self.client_addr(end.address),
                remote_port: end.port,
                tw_rcv_nxt: Some(expected),
                ..Socket::default()
            });
        }
    }

    fn ports(&mut self, time_ns: u64) {
        // In use, and established among them.
        let mut used: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for open in self.open.values() {
            let (all, established) = used.entry(open.end.address).or_default();
            *all += 1;
            *established += u32::from(open.established_ns.is_some());
        }
        used.retain(|_, (all, _)| *all >= LEAST_PORTS);
        for (address, (ports_used, established)) in used {
            self.tables.add(PortUse {
                time_ns,
                netns: self.client_netns(),
                family: 4,
                local_addr: self.client_addr(address),
                remote_addr: self.server_addr(),
                remote_port: PORT,
                ports_used,
                established,
                range_low: self.p.tcp_smallest_anon_port,
                range_high: self.p.tcp_largest_anon_port,
                ..PortUse::default()
            });
        }
    }

    /// The counters of both hosts, which are one over loopback.
    fn counters(&mut self, time_ns: u64, s: &Second) {
        // Segments but those that only repeat: handshake, one per request and response, the last with
        // the FIN; an ACK never travels alone but at the end.
        let from_clients = s.active + s.passive + s.requests + self.closed + s.refused;
        let from_server = s.passive + s.requests + self.closed + s.refused + s.failed;
        let of_clients = [
            (counter::ACTIVE_OPENS, s.active + s.background),
            (counter::ATTEMPT_FAILS, s.failed),
            (counter::RETRANS_SEGS, s.resent),
            (counter::OUT_RSTS, s.refused),
            (counter::IN_SEGS, from_server),
            (counter::OUT_SEGS, from_clients),
        ];
        let of_server = [
            (counter::PASSIVE_OPENS, s.passive),
            (counter::OUT_RSTS, s.failed),
            ("Tcp.InDataDupSegs", s.refused),
            ("Tcp.time_wait_syn_success", s.over_time_wait),
            (counter::IN_SEGS, from_clients + s.resent),
            (counter::OUT_SEGS, from_server),
        ];
        let mut rises: BTreeMap<(u32, &'static str), i64> = BTreeMap::new();
        let clients = of_clients.map(|(name, by)| ((self.client_netns(), name), by));
        let server = of_server.map(|(name, by)| ((SERVER, name), by));
        for (key, by) in clients.into_iter().chain(server) {
            *rises.entry(key).or_default() += by as i64;
        }
        for ((netns, name), by) in rises {
            let value = self.counters.entry((netns, name)).or_default();
            *value += by;
            if by == 0 && name != counter::IN_SEGS {
                continue;
            }
            let (group, name) = counter::parts(name);
            self.tables.add(Counter {
                time_ns,
                netns,
                group: group.into(),
                name: name.into(),
                value: *value,
                delta: Some(by),
            });
        }
    }

    fn thread(&mut self, time_ns: u64, second: &Second) {
        let sleep_ns = S - second.busy_ns.min(S);
        self.tables.add(Thread {
            time_ns,
            interval_ns: S,
            pid: SERVER_PID,
            tid: SERVER_PID,
            comm: "server".into(),
            user_ns: second.busy_ns.min(S),
            sleep_ns,
            voluntary: self.sleeps,
            ..Thread::default()
        });
        if sleep_ns > 0 {
            self.tables.add(ThreadSleep {
                time_ns,
                pid: SERVER_PID,
                tid: SERVER_PID,
                syscall: "portfs".into(),
                sleep_ns,
                count: self.sleeps,
            });
        }
    }
}
