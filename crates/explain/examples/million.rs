//! How long `explain` takes over a recording of a million events; `bench/explain` runs it.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use recording::tables::{Event, Listener};
use recording::{Addr, FORMAT, Manifest, Recording, Text, Writer};

const CONNECTIONS: u64 = 200_000;
const EVENTS_EACH: u64 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args_os().nth(1) {
        return measure(path.as_ref());
    }
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("million.tcpwhy");
    write(&path)?;
    // A process of its own: the peak memory must not be that of writing.
    let explained = Command::new(std::env::current_exe()?).arg(&path).status()?;
    match explained.success() {
        true => Ok(()),
        false => Err("explain failed".into()),
    }
}

fn measure(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let explanation = explain::explain(&Recording::open(path)?)?;
    let seconds = began.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    println!(
        "events {}  findings {}  seconds {seconds:.3}  peak memory {}",
        explanation.summary.events,
        explanation.findings.len(),
        peak.map_or("unknown", str::trim),
    );
    Ok(())
}

/// A busy server and its clients on one host: connections of 100 ms, 12,000 a second, as the
/// recorder writes them.
fn write(path: &Path) -> Result<(), recording::Error> {
    let manifest = Manifest {
        format: FORMAT,
        complete: true,
        ..Manifest::default()
    };
    let writer = Writer::create(path, &manifest)?;
    let mut listeners = writer.table::<Listener>()?;
    listeners.push(Listener {
        time_ns: 0,
        netns: 1,
        sock: 1,
        inode: Some(1),
        family: 4,
        local_addr: Addr::from(std::net::Ipv4Addr::LOCALHOST),
        local_port: 80,
        backlog: 4096,
        ..Listener::default()
    })?;
    listeners.seal()?;
    let mut table = writer.table::<Event>()?;
    let mut events = Vec::with_capacity((CONNECTIONS * EVENTS_EACH) as usize);
    let [
        close,
        syn_sent,
        syn_recv,
        established,
        fin_wait2,
        last_ack,
        state,
    ] = [
        "CLOSE",
        "SYN_SENT",
        "SYN_RECV",
        "ESTABLISHED",
        "FIN_WAIT2",
        "LAST_ACK",
        "state",
    ]
    .map(Text::from);
    let comm = Text::from("client");
    for i in 0..CONNECTIONS {
        let start = i * 83_000;
        let port = (20_000 + i % 40_000) as u16;
        let addr = Addr::from(std::net::Ipv4Addr::LOCALHOST);
        let mut event = |after: u64, client: bool, old: &Text, new: &Text| {
            let is_open = *new == established;
            let is_connect = *new == syn_sent;
            let is_end = *new == close;
            events.push(Event {
                time_ns: start + after,
                kind: state.clone(),
                netns: 1,
                sock: Some(i * 2 + u64::from(client) + 10),
                family: 4,
                local_addr: addr,
                remote_addr: addr,
                local_port: if is_connect {
                    0
                } else if client {
                    port
                } else {
                    80
                },
                remote_port: if client { 80 } else { port },
                state: Some(new.clone()),
                old_state: Some(old.clone()),
                pid: is_connect.then_some(77),
                comm: is_connect.then(|| comm.clone()),
                cookie: (is_open && !client).then_some(false),
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
        event(0, true, &close, &syn_sent);
        event(30_000, true, &syn_sent, &established);
        event(40_000, false, &syn_recv, &established);
        event(100_000_000, false, &last_ack, &close);
        event(100_050_000, true, &fin_wait2, &close);
    }
    events.sort_by_key(|e| e.time_ns);
    for event in events {
        table.push(event)?;
    }
    table.seal()
}
