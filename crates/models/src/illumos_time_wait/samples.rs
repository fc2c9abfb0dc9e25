//! What a recorder would have sampled: once at the start, then every second.

use std::collections::BTreeMap;

use recording::tables::{PortUse, Process, Socket, Thread};
use recording::{Addr, SourceName, TcpState, counter};
use synth::{LEAST_PORTS, Listening, Sink, settings, table_size};

use super::outcome::Second;
use super::params::{MS, S};
use super::record::{CLIENTS, LISTENER, Open, PORT, Recorder, SERVER, SERVER_TASK};
use crate::clock::START_NS;

/// conn_req_max_q: connections that may wait for accept(). The server accepts at once.
const BACKLOG: u32 = 128;
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
        let mut hosts = vec![(SERVER, "host".to_string())];
        if !self.p.loopback() {
            hosts.push((CLIENTS, "clients".into()));
        }
        for (netns, _) in &hosts {
            self.settings(*netns);
        }
        self.tables.describe(("illumos", 2), hosts, COMPUTED);
        self.tables.add(SERVER_TASK.holds(START_NS, INODE, 3));
        self.sample(0, &Second::default());
    }

    fn settings(&mut self, netns: u32) {
        let p = self.p;
        let all = [
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
        self.tables.extend(settings(START_NS, netns, all));
    }

    /// A sample of everything.
    pub(super) fn sample(&mut self, now_ns: u64, second: &Second) {
        let time_ns = START_NS + now_ns;
        let listener = Listening {
            netns: SERVER,
            sock: LISTENER,
            inode: INODE,
            family: 4,
            at: (self.server_addr(), PORT),
            backlog: BACKLOG,
        };
        self.tables.add(listener.sample(time_ns));
        self.user_ms += second.busy_ns / MS;
        let state = if second.busy_ns >= S { "R" } else { "S" };
        self.tables.add(Process {
            user_ms: self.user_ms,
            ..SERVER_TASK.process(time_ns, 1, state)
        });
        let time_waits = table_size(time_ns, SERVER, "time-wait", second.time_wait);
        self.tables.add(time_waits);
        self.time_waits(time_ns);
        self.ports(time_ns, second);
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
        for (end, expected) in new.into_values().take(MOST_TIME_WAITS) {
            self.tables.add(Socket {
                tw_rcv_nxt: Some(expected),
                ..end.sample(time_ns, TcpState::TimeWait)
            });
        }
    }

    /// As the census of each namespace has them: over loopback both sides are of one.
    fn ports(&mut self, time_ns: u64, second: &Second) {
        let mut used: BTreeMap<(u32, Addr), PortUse> = BTreeMap::new();
        for Open { client, .. } in self.open.values() {
            let at = (self.client_netns(), client.end.local.0);
            let row = used.entry(at).or_default();
            row.ports_used += 1;
            row.established += u32::from(client.established_ns.is_some());
        }
        for (nth, time_wait) in &second.time_wait_by_address {
            let row = used.entry((SERVER, self.client_addr(*nth))).or_default();
            row.server_time_wait = Some(*time_wait);
        }
        used.retain(|_, row| row.ports_used.max(row.server_time_wait.unwrap_or(0)) >= LEAST_PORTS);
        for ((netns, local_addr), row) in used {
            self.tables.add(PortUse {
                time_ns,
                netns,
                family: 4,
                local_addr,
                remote_addr: self.server_addr(),
                remote_port: PORT,
                range_low: self.p.tcp_smallest_anon_port,
                range_high: self.p.tcp_largest_anon_port,
                server_time_wait: Some(row.server_time_wait.unwrap_or(0)),
                ..row
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
        for (netns, all) in [(self.client_netns(), of_clients), (SERVER, of_server)] {
            for (name, by) in all {
                self.counters.count(netns, name, by);
            }
        }
        self.tables.extend(self.counters.sample(time_ns));
    }

    fn thread(&mut self, time_ns: u64, second: &Second) {
        let thread = Thread {
            user_ns: second.busy_ns.min(S),
            sleep_ns: S - second.busy_ns.min(S),
            voluntary: self.sleeps,
            ..SERVER_TASK.thread(time_ns, S)
        };
        self.tables.extend(SERVER_TASK.slept(&thread, "portfs"));
        self.tables.add(thread);
    }
}
