//! Makes up a recording of a million events, laid out as the recorder does, for the benches.
//!
//! `big DIR` has ten thousand sockets and a profile of 64 CPUs beside; `big DIR events` has not.

use std::net::Ipv4Addr;
use std::path::Path;

use recording::tables::{Counter, Cpu, Event, Frame, Listener, Sample, Socket, Stack};
use recording::{Addr, EventKind, FORMAT, Manifest, TcpState, Text, Writer};

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
        format: FORMAT,
        complete: true,
        producer: "live".into(),
        end_ns: END_NS,
        ..Manifest::default()
    };
    let writer = Writer::create(path, &manifest)?;
    listener(&writer)?;
    events(&writer)?;
    if events_only {
        return Ok(());
    }
    sockets(&writer)?;
    host(&writer)?;
    profile(&writer)
}

fn address(of: u64) -> Addr {
    Addr::from(Ipv4Addr::from(0x0a00_0000 + of as u32))
}

/// A number that looks like chance, the same each time.
fn chance(of: u64) -> u64 {
    let mixed = (of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

fn listener(writer: &Writer) -> Result<(), recording::Error> {
    let mut table = writer.table::<Listener>()?;
    for i in 0..END_NS / (S / 2) {
        table.push(Listener {
            time_ns: i * S / 2,
            netns: 1,
            sock: 1,
            family: 4,
            local_addr: address(1),
            local_port: 80,
            backlog: 4_096,
            accept_queue: (chance(i) % 300) as u32,
            ..Listener::default()
        })?;
    }
    table.seal()
}

/// The five changes of state of each connection, a row each.
fn events(writer: &Writer) -> Result<(), recording::Error> {
    let states = [
        TcpState::Close,
        TcpState::SynSent,
        TcpState::SynRecv,
        TcpState::Established,
        TcpState::FinWait2,
        TcpState::LastAck,
    ];
    let [close, sent, received, open, wait2, last_ack] = states;
    let comm = Text::from("client");
    let mut events = Vec::new();
    for i in 0..CONNECTIONS {
        let took = 30_000 + chance(i) % 200_000;
        let port = (20_000 + i % 40_000) as u16;
        let mut event = |after: u64, client: bool, old: &TcpState, new: &TcpState| {
            let is_open = *new == open;
            let is_connect = *new == sent;
            let is_end = *new == close;
            let (near, far) = if client { (2, 1) } else { (1, 2) };
            events.push(Event {
                time_ns: i * EVERY_NS + after,
                kind: EventKind::State,
                netns: 1,
                sock: Some(i * 2 + u64::from(client) + 100_000),
                family: 4,
                local_addr: address(near),
                remote_addr: address(far),
                local_port: match (is_connect, client) {
                    (true, _) => 0,
                    (false, true) => port,
                    (false, false) => 80,
                },
                remote_port: if client { 80 } else { port },
                state: Some(new.clone()),
                old_state: Some(old.clone()),
                pid: is_connect.then_some(77),
                comm: is_connect.then(|| comm.clone()),
                sack: is_open.then_some(true),
                window_scaling: is_open.then_some(true),
                timestamps: is_open.then_some(true),
                rtt_us: (is_open || is_end).then_some(40),
                cwnd: (is_open || is_end).then_some(10),
                retransmits: (is_open || is_end).then_some(0),
                bytes_acked: is_end.then_some(1_000),
                bytes_received: is_end.then_some(100),
                ..Event::default()
            });
        };
        event(0, true, &close, &sent);
        event(took, true, &sent, &open);
        event(took + 10_000, false, &received, &open);
        event(100_000_000, false, &last_ack, &close);
        event(100_050_000, true, &wait2, &close);
    }
    events.sort_by_key(|e| e.time_ns);
    let mut table = writer.table::<Event>()?;
    for event in events {
        table.push(event)?;
    }
    table.seal()
}

fn sockets(writer: &Writer) -> Result<(), recording::Error> {
    let mut table = writer.table::<Socket>()?;
    let congestion = Text::from("cubic");
    for round in 0..ROUNDS {
        for i in 0..SOCKETS {
            let noise = chance(round * SOCKETS + i);
            table.push(Socket {
                time_ns: round * (END_NS / ROUNDS) + i * 1_000,
                netns: 1,
                sock: i + 10,
                family: 4,
                state: TcpState::Established,
                local_addr: address(1),
                local_port: 443,
                remote_addr: address(1_000 + i / 4),
                remote_port: (10_000 + i % 4) as u16,
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
                ..Socket::default()
            })?;
        }
    }
    table.seal()
}

fn host(writer: &Writer) -> Result<(), recording::Error> {
    let mut cpus = writer.table::<Cpu>()?;
    let mut counters = writer.table::<Counter>()?;
    for i in 0..END_NS / (S / 2) {
        for cpu in 0..CPUS as u32 {
            cpus.push(Cpu {
                time_ns: i * S / 2,
                cpu,
                user_ms: i * 200,
                softirq_ms: i * 40,
                idle_ms: i * 260,
                ..Cpu::default()
            })?;
        }
        for counter in 0..200 {
            counters.push(Counter {
                time_ns: i * S / 2,
                netns: 1,
                group: "TcpExt".into(),
                name: Text::from(format!("Counter{counter}")),
                value: (i * counter) as i64,
                delta: Some(counter as i64),
            })?;
        }
    }
    cpus.seal()?;
    counters.seal()
}

/// Every CPU at 997 Hz, one in three samples busy.
fn profile(writer: &Writer) -> Result<(), recording::Error> {
    const STACKS: u64 = 3_000;
    const DEPTH: u64 = 24;
    const FUNCTIONS: u64 = 1_500;
    const PERIOD_NS: u64 = 1_003_009;
    let mut frames = writer.table::<Frame>()?;
    for frame in 0..FUNCTIONS {
        frames.push(Frame {
            time_ns: 0,
            frame,
            function: Text::from(format!("tcp_function_{frame}")),
            module: "kernel".into(),
            offset: 0,
        })?;
    }
    frames.seal()?;
    let mut stacks = writer.table::<Stack>()?;
    for stack in 0..STACKS {
        for depth in 0..DEPTH {
            // Stacks share their outer functions: the outermost half of them is common to all.
            let kin = stack >> depth.min(63);
            stacks.push(Stack {
                time_ns: 0,
                stack,
                depth: depth as u32,
                frame: chance(kin * DEPTH + depth) % FUNCTIONS,
            })?;
        }
    }
    stacks.seal()?;
    let mut samples = writer.table::<Sample>()?;
    let (client, idle) = (Text::from("client"), Text::from("swapper"));
    for i in 0..END_NS / PERIOD_NS {
        for cpu in 0..CPUS {
            let busy = chance(i * CPUS + cpu).is_multiple_of(3);
            samples.push(Sample {
                time_ns: i * PERIOD_NS,
                cpu: cpu as u32,
                pid: if busy { 77 } else { 0 },
                tid: if busy { 77 } else { 0 },
                comm: if busy { client.clone() } else { idle.clone() },
                softirq: busy && i % 4 == 0,
                kernel_stack: busy.then(|| chance(i + cpu) % STACKS),
                user_stack: None,
            })?;
        }
    }
    samples.seal()
}
