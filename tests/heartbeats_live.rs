//! `heartbeats`: the pause of a sender is told, by the sender's own log, and nothing of who has no rhythm.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::common::live::{Done, Live, Space};
use crate::common::{arg, json_lines, need_root, run};
use recording::Transport;
use recording::tables::{Gap, Heartbeat};
use rustix::thread::{CpuSet, sched_setaffinity};

const EVERY: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(1);
/// Enough for a rhythm, and as many again: some may be late on a host that is busy.
const BEATS: u32 = 45;
/// A gap that must be told, and one that may not be; between them the host's own lateness decides.
const SURELY: Duration = Duration::from_millis(700);
const SURELY_NOT: Duration = Duration::from_millis(180);

/// Moments to send at, after the start.
type Plan = Vec<Duration>;

fn beats(n: u32, from: Duration) -> impl Iterator<Item = Duration> {
    (0..n).map(move |i| from + EVERY * i)
}

/// A rhythm, a pause, the rhythm again.
fn with_pause() -> Plan {
    let again = EVERY * (BEATS - 1) + PAUSE + EVERY;
    beats(BEATS, Duration::ZERO)
        .chain(beats(BEATS - 5, again))
        .collect()
}

/// As many, with the same pause, at any times: the squares modulo a prime come in no order.
fn irregular() -> Plan {
    let mut at = Duration::ZERO;
    let mut plan = Vec::new();
    for i in 0..BEATS {
        plan.push(at);
        at += Duration::from_millis(20 + u64::from(i * i % 47) * 7);
    }
    plan.extend([at + PAUSE, at + PAUSE + EVERY]);
    plan
}

/// Sends by a plan, from this CPU; the time between the beats as they were sent.
fn send(plan: &Plan, cpu: usize, mut one: impl FnMut()) -> Vec<Duration> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
    let began = Instant::now();
    let mut sent = Vec::new();
    for at in plan {
        sleep(at.saturating_sub(began.elapsed()));
        one();
        sent.push(began.elapsed());
    }
    sent.windows(2).map(|w| w[1] - w[0]).collect()
}

/// Of one flow: its sender's address, and the gaps that it made.
struct Sent {
    from: SocketAddr,
    gaps: Vec<Duration>,
}

fn udp(to: SocketAddr, plan: Plan, cpu: usize) -> Sent {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let gaps = send(&plan, cpu, || {
        assert_eq!(socket.send_to(b"beat", to).unwrap(), 4)
    });
    Sent {
        from: socket.local_addr().unwrap(),
        gaps,
    }
}

fn tcp(to: SocketAddr, plan: Plan, cpu: usize) -> Sent {
    let mut conn = TcpStream::connect(to).unwrap();
    conn.set_nodelay(true).unwrap();
    let gaps = send(&plan, cpu, || conn.write_all(b"beat").unwrap());
    let from = conn.local_addr().unwrap();
    Sent { from, gaps }
}

/// What was told of a flow.
fn of<'a>(gaps: &'a [Gap], sent: &Sent) -> Vec<&'a Gap> {
    let from =
        |g: &&Gap| g.remote_port == sent.from.port() && g.remote_addr == sent.from.ip().into();
    gaps.iter().filter(from).collect()
}

/// Every long gap of the sender's is told, and what is told is a gap of the sender's.
#[track_caller]
fn assert_told(gaps: &[Gap], sent: &Sent, protocol: Transport, cpu: usize) {
    // When all has ended, none of them comes any more.
    let mut told = of(gaps, sent);
    told.retain(|g| !g.pending);
    let took = |g: &&Gap| Duration::from_nanos(g.gap_ns);
    for long in sent.gaps.iter().filter(|g| **g >= SURELY) {
        let near = |g: &&&Gap| took(g).abs_diff(*long) < Duration::from_millis(100);
        assert!(told.iter().any(|g| near(&g)), "{long:?} in {told:#?}");
    }
    for gap in &told {
        assert_eq!(gap.protocol, protocol, "{gap:?}");
        assert_eq!(
            gap.cpu as usize, cpu,
            "loopback receives where one sends: {gap:?}"
        );
        let every = Duration::from_nanos(gap.every_ns);
        assert!(every.abs_diff(EVERY) < EVERY / 4, "{gap:?}");
        assert_eq!(gap.pid, Some(std::process::id()), "{gap:?}");
        let sent_gap = sent
            .gaps
            .iter()
            .any(|g| *g > SURELY_NOT && g.abs_diff(took(gap)) < EVERY);
        assert!(sent_gap, "{gap:?} of {:?}", sent.gaps);
    }
}

fn recorded() -> (Done, [Sent; 5]) {
    let space = Space::new("heartbeats");
    let inode = space.inode().to_string();
    let live = Live::begin(&[
        "--with",
        "heartbeats",
        "--netns",
        &inode,
        "--interval",
        "200ms",
    ]);
    let (sent, receiver) = space.inside(|| {
        // One socket for three senders, as of a cluster: none of them hides the others.
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(EVERY)).unwrap();
        let open = receiver.try_clone().unwrap();
        let ended = &AtomicBool::new(false);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, tcp_at) = (
            receiver.local_addr().unwrap(),
            listener.local_addr().unwrap(),
        );
        let last = CpuSet::MAX_CPU.min(thread::available_parallelism().unwrap().get()) - 1;
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut byte = [0; 16];
                while receiver.recv(&mut byte).is_ok() || !ended.load(Ordering::Relaxed) {}
            });
            scope.spawn(move || {
                for _ in 0..2 {
                    let (mut conn, _) = listener.accept().unwrap();
                    thread::spawn(move || while conn.read(&mut [0; 16]).is_ok_and(|n| n > 0) {});
                }
            });
            // Not at the moments of the others: who has just read may take what comes before its sender is seen.
            let stops = beats(BEATS, EVERY / 3).collect();
            let senders = [
                scope.spawn(move || udp(at, with_pause(), 0)),
                scope.spawn(move || tcp(tcp_at, with_pause(), last)),
                scope.spawn(move || udp(at, irregular(), 0)),
                scope.spawn(move || tcp(tcp_at, irregular(), last)),
                scope.spawn(move || udp(at, stops, last)),
            ];
            let sent = senders.map(|s| s.join().unwrap());
            ended.store(true, Ordering::Relaxed);
            (sent, open)
        })
    });
    let done = live.end();
    // Until here: what does not come to a socket that was closed is not waited for.
    drop(receiver);
    (done, sent)
}

#[test]
fn the_pause_of_a_heartbeat_is_told_and_no_other() {
    need_root();
    let (done, [udp, tcp, odd_udp, odd_tcp, stopped]) = recorded();
    done.assert_whole();
    let gaps = done.rows::<Gap>();
    let last = thread::available_parallelism().unwrap().get() - 1;
    assert_told(&gaps, &udp, Transport::Udp, 0);
    assert_told(&gaps, &tcp, Transport::Tcp, last);
    for odd in [&odd_udp, &odd_tcp] {
        assert_eq!(of(&gaps, odd).len(), 0, "{gaps:#?}");
    }
    let silent = of(&gaps, &stopped);
    assert!(
        silent.iter().any(|g| g.pending && g.gap_ns > 1_000_000_000),
        "{silent:#?}"
    );
    let regular = done.rows::<Heartbeat>().last().map(|h| h.regular);
    assert_eq!(regular, Some(3), "{gaps:#?}");

    let lines = json_lines(&run(&[
        "trace",
        "gaps",
        "--json",
        "--from",
        arg(done.path()),
    ]));
    let shown = lines.iter().filter(|l| l["type"] == "gap");
    assert_eq!(shown.clone().count(), gaps.len());
    for line in shown {
        assert!(
            line["softirq_percent"]
                .as_f64()
                .is_some_and(|p| (0.0..=100.0).contains(&p)),
            "{line}"
        );
        assert!(line["late_ns"].as_u64() > Some(0), "{line}");
    }
    let followed = lines.iter().find(|l| l["type"] == "heartbeats").unwrap();
    assert_eq!(
        (&followed["regular"], &followed["gaps"]),
        (&3.into(), &gaps.len().into())
    );
}
