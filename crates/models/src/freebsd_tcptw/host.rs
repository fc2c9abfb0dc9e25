//! The simulated host: its processes, its services and where they connect to, and how it is described.

use std::net::Ipv4Addr;

use recording::{Addr, SourceName};
use synth::{End, Endpoint, HOST, Sink, StackIds, Tables, Task, kernel, settings};

use super::observer::Conn;
use super::params::{Params, SERVICES};
use crate::clock::START_NS;

/// The processes that connect, from this one on.
const WORKER_PID: u32 = 1_000;
/// Where they connect to: so many hosts, and their port.
pub(super) const BACKENDS: u64 = 4;
pub(super) const BACKEND_PORT: u16 = 8_080;
/// Sockets up to this one are listeners; those of connections follow.
const LISTENERS: u64 = 100;
/// CPUs of the host; nothing depends on it.
pub(super) const CPUS: u32 = 2;

/// The files of the listening sockets, from this one on, and the process that has them.
pub(super) const INODE: u64 = 5_000;
const SERVER: Task = Task::new(900, "server");

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

/// The process of a worker.
pub(super) fn task(worker: u32) -> Task<'static> {
    Task::new(WORKER_PID + worker, "proxy")
}

pub(super) fn cpu(worker: u32) -> u32 {
    worker % CPUS
}

pub(super) fn listener(nth: u16) -> u64 {
    1 + u64::from(nth)
}

pub(super) fn here() -> Addr {
    Addr::from(Ipv4Addr::new(198, 18, 0, 1))
}

pub(super) fn backend(nth: u64) -> Addr {
    Addr::from(Ipv4Addr::new(198, 18, 1, nth as u8 + 1))
}

/// The other side: clients are as many as it takes that no two connections have the same ends.
fn there(conn: Conn) -> Endpoint {
    if conn.outbound {
        return (backend(conn.id % BACKENDS), BACKEND_PORT);
    }
    let (host, port) = (conn.id / 64_000, conn.id % 64_000);
    let client = Ipv4Addr::new(198, 19, (host >> 8) as u8, host as u8);
    (Addr::from(client), 1_024 + port as u16)
}

pub(super) fn end(conn: Conn) -> End {
    End {
        netns: HOST,
        sock: LISTENERS + conn.id,
        family: 4,
        local: (here(), conn.local_port),
        remote: there(conn),
    }
}
