//! Recordings that are large in one way: what a user without rights, or a host that nobody planned for, makes a recorder
//! write down.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};
use recording::tables as t;
use recording::{Addr, Namespace, RetransmitKind, TcpState, Waker, counter, sysctl};
use synth::{
    CLIENT, End, Fixture, Life, Listening, SERVER, START_NS, Sink, StackIds, Tables, Task, kernel,
    settings, table_size,
};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Where things are done that are about a port or a destination.
const CONNECTING: Task = Task::new(77, "wrk");
/// Listeners that one process holds.
const OF_PROCESS: u32 = 1_000;
/// The first inode of the namespaces.
const FIRST_NETNS: u32 = 4_026_600_000;

/// What tells of trouble in a namespace.
const TROUBLE: &[&str] = &[
    counter::IP_OUT_NO_ROUTES,
    counter::OUT_RSTS,
    counter::LISTEN_DROPS,
    counter::RCV_PRUNED,
    counter::TCP_BACKLOG_DROP,
    counter::TCP_MEMORY_PRESSURES,
    counter::TCP_TIME_WAIT_OVERFLOW,
];

/// Of what there is much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Large {
    /// Listeners at which nothing happens.
    Listeners,
    /// Listeners whose accept queues are full and drop.
    FullListeners,
    /// Network namespaces, each with its settings, counters, a listener and a connection.
    Namespaces,
    /// The same, and in each of them everything that is counted of a namespace rose.
    TroubledNamespaces,
    /// Connections that are well.
    Connections,
    /// Destinations from which nothing answers.
    Destinations,
    /// Ends that retransmit, each to an address of its own.
    Lossy,
    /// Threads that are called otherwise after each wait.
    Names,
    /// Segments of some rows: `n` seconds, one of each table a second.
    Segments,
}

impl Large {
    /// All of them.
    pub const ALL: &[Large] = &[
        Large::Listeners,
        Large::FullListeners,
        Large::Namespaces,
        Large::TroubledNamespaces,
        Large::Connections,
        Large::Destinations,
        Large::Lossy,
        Large::Names,
        Large::Segments,
    ];

    /// Makes one with `n` of them in `dir`, which must not exist.
    pub fn make(self, n: u32, dir: &Path) -> Result<()> {
        let mut host = Fixture::new();
        match self {
            Large::Segments => return segments(n, host, dir),
            Large::Listeners => listeners(&mut host, n, 0),
            Large::FullListeners => listeners(&mut host, n, 20),
            Large::Namespaces => namespaces(&mut host, n, &[]),
            Large::TroubledNamespaces => namespaces(&mut host, n, TROUBLE),
            Large::Connections => connections(&mut host, n),
            Large::Destinations => destinations(&mut host, n),
            Large::Lossy => lossy(&mut host, n),
            Large::Names => names(&mut host, n),
        }
        host.write_to(dir).with_context(|| format!("{self:?}"))
    }
}

fn at(ns: u64) -> u64 {
    START_NS + ns
}

/// The `i`-th address of a network of 2²⁴.
fn addr(network: u8, i: u32) -> Addr {
    let [_, a, b, c] = i.to_be_bytes();
    std::net::IpAddr::from(Ipv4Addr::new(network, a, b, c)).into()
}

/// The `i`-th listening socket: ports of 127.x.0.1, as one process after the other opens them.
fn listening(i: u32) -> Listening {
    Listening {
        netns: SERVER,
        sock: 0xffff_0000_0000_0000 + u64::from(i) * 4_096,
        inode: 1_000 + u64::from(i),
        family: 4,
        at: (
            addr(127, (1 + i / 20_000) << 16 | 1),
            20_000 + (i % 20_000) as u16,
        ),
        backlog: 128,
    }
}

fn listeners(host: &mut Fixture, n: u32, drops: u32) {
    for i in 0..n {
        let socket = listening(i);
        let pid = 1_000 + i / OF_PROCESS;
        let task = Task::new(pid, "python3");
        for second in [0, 1, 2] {
            host.add(t::Listener {
                accept_queue: if drops > 0 { 129 } else { 0 },
                drops: drops * second,
                ..socket.sample(at(u64::from(second) * S))
            });
        }
        host.add(task.holds(START_NS, socket.inode, 3 + i % OF_PROCESS));
        if i % OF_PROCESS == 0 {
            for second in 0..3 {
                host.add(task.process(at(second * S), 1, "S"));
            }
        }
    }
    if drops > 0 {
        for name in [counter::LISTEN_OVERFLOWS, counter::LISTEN_DROPS] {
            host.count(SERVER, name, 1, i64::from(n) * i64::from(drops));
        }
    }
}

/// The `i`-th end that connects from one namespace to a service in another.
fn client(i: u32) -> End {
    End {
        netns: CLIENT,
        sock: 0xffff_8880_0000_0000 + u64::from(i) * 4_096,
        family: 4,
        local: (
            addr(10, (79 << 16) + 2 + i / 28_000),
            32_768 + (i % 28_000) as u16,
        ),
        remote: (addr(10, (79 << 16) + 1), 5_000),
    }
}

/// Spread over nine seconds.
fn spread(i: u32, n: u32) -> u64 {
    at(9 * S * u64::from(i) / u64::from(n.max(1)))
}

fn connections(host: &mut Fixture, n: u32) {
    host.listen(synth::Listen::default());
    for i in 0..n {
        let end = client(i);
        let began = spread(i, n);
        let mut out = Life::connects(end, CONNECTING, began);
        out.establish(began + MS / 10);
        let other = end.peer(SERVER, end.sock + 2_048);
        let accepted = Life::accepted(other, began + MS / 10);
        host.add(out.close(began + MS, TcpState::FinWait2, [100, 1_000]));
        host.add(accepted.close(began + MS, TcpState::LastAck, [1_000, 100]));
    }
}

fn destinations(host: &mut Fixture, n: u32) {
    for i in 0..n {
        let end = End {
            remote: (addr(100, 1 + i), 443),
            ..client(i)
        };
        let began = spread(i, n) / 2 + START_NS / 2;
        host.add(end.unbound().connect(began, CONNECTING));
        for attempt in 1..=2 {
            let after = u64::from(attempt) * S;
            let kind = RetransmitKind::Rto;
            host.add(end.retransmit(began + after, TcpState::SynSent, kind, attempt));
        }
    }
}

fn lossy(host: &mut Fixture, n: u32) {
    for i in 0..n {
        let end = End {
            remote: (addr(100, 1 + i), 443),
            ..client(i)
        };
        let began = spread(i, n) / 2 + START_NS / 2;
        let life = Life::older(end, true, None);
        host.add(t::Socket {
            bytes_acked: Some(10_000),
            ..end.sample(START_NS, TcpState::Established)
        });
        for attempt in 1..=2 {
            let after = u64::from(attempt) * S;
            let kind = RetransmitKind::Rto;
            host.add(end.retransmit(began + after, TcpState::Established, kind, attempt));
        }
        host.add(life.close(began + 4 * S, TcpState::FinWait2, [20_000, 1_000]));
    }
}

fn names(host: &mut Fixture, n: u32) {
    let mut ids = StackIds::default();
    let places = (0..20).map(|i| kernel(&format!("function_{i}"), 0));
    let stack = ids.add(START_NS, places, host);
    for i in 0..n {
        let comm = format!("{:x}-{i:x}", i % 400);
        let task = Task {
            pid: 500,
            comm: &comm,
        };
        host.add(t::Wait {
            tid: 501 + i % 400,
            state: "S".into(),
            syscall: Some("poll".into()),
            waker: Waker::Timer,
            waker_stack: Some(stack),
            ..task.wait(spread(i, n), SERVER, 11 * MS)
        });
    }
}

fn namespaces(host: &mut Fixture, n: u32, trouble: &[&str]) {
    for i in 0..n {
        let netns = FIRST_NETNS + i;
        let name = format!("pod-{i}");
        host.manifest
            .namespaces
            .push(Namespace { inode: netns, name });
        for (name, value) in [
            (sysctl::TCP_SYNCOOKIES, "1"),
            (sysctl::TCP_SACK, "1"),
            (sysctl::SOMAXCONN, "4096"),
        ] {
            host.extend(settings(START_NS, netns, [(name, value)]));
        }
        host.count(netns, counter::PASSIVE_OPENS, 100, 10);
        host.count(netns, counter::IN_SEGS, 100, 1_000);
        for name in trouble {
            host.count(netns, name, 1, 200);
        }
        let socket = Listening {
            netns,
            ..listening(i)
        };
        for second in 0..2 {
            host.add(socket.sample(at(second * S)));
        }
        let end = End {
            netns,
            remote: (addr(100, 1 + i), 443),
            ..client(i)
        };
        let began = spread(i, n);
        let mut out = Life::connects(end, CONNECTING, began);
        out.establish(began + MS);
        host.add(out.close(began + 2 * MS, TcpState::FinWait2, [100, 1_000]));
    }
}

fn segments(n: u32, host: Fixture, dir: &Path) -> Result<()> {
    let mut manifest = host.manifest.clone();
    manifest.end_ns = at(u64::from(n) * S);
    let mut tables = Tables::create(dir, manifest)?;
    let task = Task::new(1_000, "python3");
    let socket = listening(0);
    for second in 0..n {
        let now = at(u64::from(second) * S);
        let end = client(second);
        let mut out = Life::connects(end, CONNECTING, now);
        out.establish(now + MS);
        let thread = task.thread(now, S);
        tables.extend(host.settings.iter().filter(|_| second == 0).cloned());
        tables.add(out.close(now + 2 * MS, TcpState::FinWait2, [100, 1_000]));
        tables.add(end.sample(now, TcpState::Established));
        tables.add(socket.sample(now));
        tables.add(task.holds(now, socket.inode, 3));
        tables.add(task.process(now, 1, "S"));
        tables.add(t::Thread {
            sleep_ns: S,
            ..thread
        });
        tables.add(t::ThreadSleep {
            time_ns: now,
            pid: task.pid,
            tid: task.pid,
            syscall: "poll".into(),
            sleep_ns: S,
            count: 1,
            ..t::ThreadSleep::default()
        });
        tables.add(task.wait(now, SERVER, 11 * MS));
        tables.add(task.on_cpu(now, 0, None));
        tables.add(table_size(now, SERVER, "ehash", 100));
        tables.add(t::Counter {
            time_ns: now,
            netns: SERVER,
            group: "Tcp".into(),
            name: "InSegs".into(),
            value: i64::from(second),
            delta: Some(1),
        });
        tables.add(t::Cpu {
            time_ns: now,
            ..t::Cpu::default()
        });
        tables.add(t::Resource {
            time_ns: now,
            ..t::Resource::default()
        });
        tables.add(t::Interrupt {
            time_ns: now,
            ..t::Interrupt::default()
        });
        tables.seal();
    }
    Ok(tables.finish()?)
}
