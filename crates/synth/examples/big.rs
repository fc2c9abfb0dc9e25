//! Makes up a recording of a million events, laid out as the recorder does, for the benches.
//!
//! `big DIR` has ten thousand sockets and a profile of 64 CPUs beside; `big DIR events` has not.

use std::net::Ipv4Addr;
use std::path::Path;

use recording::tables::{Counter, Cpu, Event, Frame, Listener, Sample, Socket, Stack};
use recording::{Addr, Manifest, TcpState, Text};
use synth::{End, Listening, Opening, PERIOD_NS, Sink, Tables, Task, manifest};

const CONNECTIONS: u64 = 200_000;
const SOCKETS: u64 = 10_000;
/// Samples of each socket.
const ROUNDS: u64 = 30;
const CPUS: u64 = 64;
const S: u64 = 1_000_000_000;
/// Connections that last for 100 ms, 12,000 a second.
const EVERY_NS: u64 = 83_000;
const END_NS: u64 = CONNECTIONS * EVERY_NS + S;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [dir] => Ok(write(dir.as_ref(), false)?),
        [dir, "events"] => Ok(write(dir.as_ref(), true)?),
        _ => Err("usage: big DIR [events]".into()),
    }
}

fn write(path: &Path, events_only: bool) -> Result<(), recording::Error> {
    let manifest = Manifest {
        end_ns: END_NS,
        ..manifest("live", 0, &[])
    };
    let mut tables = Tables::create(path, manifest)?;
    listener(&mut tables);
    events(&mut tables);
    if !events_only {
        sockets(&mut tables);
        host(&mut tables);
        profile(&mut tables);
    }
    tables.finish()
}

fn address(of: u64) -> Addr {
    Addr::from(Ipv4Addr::from(0x0a00_0000 + of as u32))
}

/// A number that looks like chance, the same each time.
fn chance(of: u64) -> u64 {
    let mixed = (of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

fn listener(tables: &mut Tables) {
    let listening = Listening {
        netns: 1,
        sock: 1,
        inode: 0,
        family: 4,
        at: (address(1), 80),
        backlog: 4_096,
    };
    tables.extend((0..END_NS / (S / 2)).map(|i| Listener {
        accept_queue: (chance(i) % 300) as u32,
        inode: None,
        ..listening.sample(i * S / 2)
    }));
}

/// The five changes of state of each connection, a row each.
fn events(tables: &mut Tables) {
    let task = Task::new(77, "client");
    let mut events = Vec::new();
    for i in 0..CONNECTIONS {
        let port = (20_000 + i % 40_000) as u16;
        let client = End {
            netns: 1,
            sock: i * 2 + 100_001,
            family: 4,
            local: (address(2), port),
            remote: (address(1), 80),
        };
        let server = client.peer(1, i * 2 + 100_000);
        let at = |after: u64| i * EVERY_NS + after;
        let took = 30_000 + chance(i) % 200_000;
        let opening = Opening {
            sack: true,
            window_scaling: true,
            timestamps: true,
            mss: 1_448,
            rtt_us: 40,
            retransmits: 0,
        };
        let open = |end: End, after, from| Event {
            // The figures of the benches so far are without.
            mss: None,
            ..end.established(at(after), from, opening)
        };
        let close = |end: End, after, from| Event {
            rtt_us: Some(40),
            cwnd: Some(Opening::WINDOW),
            retransmits: Some(0),
            bytes_acked: Some(1_000),
            bytes_received: Some(100),
            ..end.change(at(after), from, TcpState::Close)
        };
        events.extend([
            client.unbound().connect(at(0), task),
            open(client, took, TcpState::SynSent),
            open(server, took + 10_000, TcpState::SynRecv),
            close(server, 100_000_000, TcpState::LastAck),
            close(client, 100_050_000, TcpState::FinWait2),
        ]);
    }
    events.sort_by_key(|e| e.time_ns);
    tables.extend(events);
}

fn sockets(tables: &mut Tables) {
    let congestion = Text::from("cubic");
    for round in 0..ROUNDS {
        for i in 0..SOCKETS {
            let noise = chance(round * SOCKETS + i);
            let end = End {
                netns: 1,
                sock: i + 10,
                family: 4,
                local: (address(1), 443),
                remote: (address(1_000 + i / 4), (10_000 + i % 4) as u16),
            };
            let time_ns = round * (END_NS / ROUNDS) + i * 1_000;
            tables.add(Socket {
                congestion: Some(congestion.clone()),
                sack: Some(i % 7 != 0),
                window_scaling: Some(true),
                timestamps: Some(true),
                ecn: Some(false),
                cwnd: Some(10 + (noise % 300) as u32),
                rtt_us: Some(200 + (noise % 9_000) as u32),
                unacked: Some((noise % 40) as u32),
                total_retrans: Some((round * (i % 3)) as u32),
                bytes_acked: Some(round * 1_000_000 + noise % 500_000),
                bytes_received: Some(round * 1_000),
                busy_us: Some(round * 300_000),
                recv_queue: Some(0),
                send_queue: Some((noise % 200_000) as u32),
                ..end.sample(time_ns, TcpState::Established)
            });
        }
    }
}

fn host(tables: &mut Tables) {
    for i in 0..END_NS / (S / 2) {
        let time_ns = i * S / 2;
        tables.extend((0..CPUS as u32).map(|cpu| Cpu {
            time_ns,
            cpu,
            user_ms: i * 200,
            softirq_ms: i * 40,
            idle_ms: i * 260,
            ..Cpu::default()
        }));
        tables.extend((0..200).map(|counter| Counter {
            time_ns,
            netns: 1,
            group: "TcpExt".into(),
            name: Text::from(format!("Counter{counter}")),
            value: (i * counter) as i64,
            delta: Some(counter as i64),
        }));
    }
}

/// Every CPU at 997 Hz, one in three samples busy.
fn profile(tables: &mut Tables) {
    const STACKS: u64 = 3_000;
    const DEPTH: u64 = 24;
    const FUNCTIONS: u64 = 1_500;
    tables.extend((0..FUNCTIONS).map(|frame| Frame {
        time_ns: 0,
        frame,
        function: Text::from(format!("tcp_function_{frame}")),
        module: "kernel".into(),
        offset: 0,
    }));
    for stack in 0..STACKS {
        tables.extend((0..DEPTH).map(|depth| {
            // Stacks share their outer functions: the outermost half of them is common to all.
            let kin = stack >> depth.min(63);
            Stack {
                time_ns: 0,
                stack,
                depth: depth as u32,
                frame: chance(kin * DEPTH + depth) % FUNCTIONS,
            }
        }));
    }
    let (client, idle) = (Task::new(77, "client"), Task::new(0, "swapper"));
    for i in 0..END_NS / PERIOD_NS {
        tables.extend((0..CPUS).map(|cpu| {
            let busy = chance(i * CPUS + cpu).is_multiple_of(3);
            let task = if busy { client } else { idle };
            let stack = busy.then(|| chance(i + cpu) % STACKS);
            Sample {
                softirq: busy && i % 4 == 0,
                ..task.on_cpu(i * PERIOD_NS, cpu as u32, stack)
            }
        }));
    }
}
