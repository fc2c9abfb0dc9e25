//! Waits and threads of the live host: what ended a wait is named, microstates add up and agree
//! with the kernel's own account.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::common::{
    arg, begin, finish, need_root, rows, stacks, stderr, stdout, steps, tcpwhy, wait_until,
};
use lab::{Plant, Programs, Scenario, Stop};
use recording::tables::{Event, Health, Thread, ThreadSleep, Wait};
use recording::{Addr, EventKind, Recording, RetransmitKind, SourceName, TcpState, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::gettid;

fn tid() -> u32 {
    gettid().as_raw_nonzero().get() as u32
}

fn waits_of(path: &Path, tid: u32) -> Vec<Wait> {
    let mut waits: Vec<Wait> = rows(path);
    waits.retain(|w| w.tid == tid);
    waits
}

/// What a thread did in all its rows.
fn total(threads: &[Thread], tid: u32, of: fn(&Thread) -> u64) -> u64 {
    threads.iter().filter(|t| t.tid == tid).map(of).sum()
}

fn parts(t: &Thread) -> u64 {
    [
        t.user_ns,
        t.system_ns,
        t.runqueue_ns,
        t.sleep_ns,
        t.lock_ns,
        t.disk_ns,
        t.fault_ns,
        t.stopped_ns,
    ]
    .iter()
    .sum()
}

/// A program of ours, killed when dropped.
struct Running(Child);

impl Running {
    fn start(program: &str, args: &[&str]) -> Running {
        let command = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .spawn();
        Running(command.unwrap())
    }
    fn pid(&self) -> u32 {
        self.0.id()
    }
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_sleep_is_ended_by_a_timer_and_a_lock_by_its_owner() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let child = begin(&path, &["--with", "waits,threads", "--wait-over", "5ms"]);
    let (ping, pinged) = channel::<()>();
    let (pong, ponged) = channel::<()>();
    let other = thread::spawn(move || {
        while pinged.recv().is_ok() {
            sleep(Duration::from_millis(20));
            pong.send(()).unwrap();
        }
        tid()
    });
    let mine = thread::spawn(move || {
        for _ in 0..5 {
            sleep(Duration::from_millis(30));
            ping.send(()).unwrap();
            ponged.recv().unwrap();
        }
        tid()
    });
    let (mine, other) = (mine.join().unwrap(), other.join().unwrap());
    finish(child);

    let waits = waits_of(&path, mine);
    let sleeps = |w: &&Wait| w.syscall.as_deref() == Some("clock_nanosleep");
    let locks = |w: &&Wait| w.syscall.as_deref() == Some("futex");
    // A timer that is due before its thread has left the CPU makes no wait.
    assert!(
        (3..=5).contains(&waits.iter().filter(sleeps).count()),
        "{waits:#?}"
    );
    for sleep in waits.iter().filter(sleeps) {
        assert_eq!(
            (sleep.waker.as_str(), &*sleep.state),
            ("timer", "S"),
            "{sleep:#?}"
        );
        assert!(sleep.runqueue_ns.is_some(), "{sleep:#?}");
        assert_eq!((sleep.cause_sock, sleep.fd), (None, None));
    }
    // A thread that loses its CPU between setting its timer and leaving waits for less.
    let waited = |of: &dyn Fn(&&Wait) -> bool| -> Vec<u64> {
        waits.iter().filter(of).map(|w| w.waited_ns).collect()
    };
    let (slept_each, locked_each) = (waited(&sleeps), waited(&locks));
    assert!(
        slept_each.iter().any(|ns| *ns >= 30_000_000),
        "{slept_each:?}"
    );
    let locks: Vec<_> = waits.iter().filter(locks).collect();
    assert!(!locks.is_empty());
    let stacks = stacks(&path);
    for lock in &locks {
        assert_eq!(lock.waker.as_str(), "task");
        assert_eq!(lock.waker_tid, other);
        assert_eq!(lock.waker_pid, std::process::id());
        let stack = &stacks[&lock.waker_stack.unwrap()];
        assert!(stack.iter().any(|f| f.contains("futex_wake")), "{stack:?}");
    }

    // The table of threads has these waits, and those too short to be told.
    let told = |each: &[u64]| -> u64 { each.iter().sum() };
    let (slept_told, locked_told) = (told(&slept_each), told(&locked_each));
    let threads: Vec<Thread> = rows(&path);
    let slept = total(&threads, mine, |t| t.sleep_ns);
    let locked = total(&threads, mine, |t| t.lock_ns);
    assert!(
        slept >= slept_told && locked >= locked_told,
        "{slept} {slept_told} {locked} {locked_told}"
    );
    let sleeps: Vec<ThreadSleep> = rows(&path);
    let of = |call: &str| -> u64 {
        let mine = sleeps
            .iter()
            .filter(|s| s.tid == mine && s.syscall == *call);
        mine.map(|s| s.sleep_ns).sum()
    };
    assert!(of("clock_nanosleep") <= slept && of("clock_nanosleep") >= slept_told);
    assert!(of("futex").abs_diff(locked) < locked / 10, "{locked}");
}

#[test]
fn microstates_add_up_and_name_what_each_thread_does() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let busy = Running::start("sh", &["-c", "while :; do :; done"]);
    let stopped = Running::start("sleep", &["1000"]);
    stopped.signal(Signal::STOP);
    let asleep = Running::start("sleep", &["1000"]);
    let child = begin(&path, &["--with", "threads", "--interval", "200ms"]);
    let short = Command::new("true").spawn().unwrap();
    let short_pid = short.id();
    short.wait_with_output().unwrap();
    sleep(Duration::from_secs(2));
    finish(child);

    let threads: Vec<Thread> = rows(&path);
    for t in &threads {
        let (sum, all) = (parts(t) as f64, t.interval_ns as f64);
        assert!((sum / all - 1.0).abs() <= 0.01, "{t:?}");
    }
    let share = |pid: u32, of: fn(&Thread) -> u64| {
        total(&threads, pid, of) as f64 / total(&threads, pid, |t| t.interval_ns) as f64
    };
    // What the busy loop does not get, others take from it.
    let pid = busy.pid();
    assert!(
        share(pid, |t| t.user_ns + t.runqueue_ns) > 0.9,
        "{threads:?}"
    );
    assert!(share(pid, |t| t.user_ns) > 10.0 * share(pid, |t| t.system_ns));
    assert!(share(stopped.pid(), |t| t.stopped_ns) > 0.99);
    assert!(share(asleep.pid(), |t| t.sleep_ns) > 0.99);
    let (short, rows_of) = (short_pid, |pid| {
        threads.iter().filter(move |t| t.pid == pid)
    });
    assert!(rows_of(short).count() > 0, "a process that ends at once");
    // Threads that sleep throughout have a row now and then, and one at the end.
    assert!(rows_of(asleep.pid()).count() < rows_of(pid).count());
}

/// (on CPU, waiting for it), ns.
fn schedstat(tid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|n| n.parse().unwrap());
    Some((numbers.next()?, numbers.next()?))
}

#[test]
fn threads_agree_with_schedstat() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let busy: Vec<Running> = (0..3)
        .map(|_| Running::start("sh", &["-c", "while :; do read x </dev/null; done"]))
        .collect();
    // The recording starts and ends some milliseconds from our readings: they are two bounds, one
    // from inside the watched time and one from outside. Long enough makes these close.
    let path = dir.path().join("r.tcpwhy");
    let before: Vec<_> = busy.iter().map(|b| schedstat(b.pid()).unwrap()).collect();
    let child = begin(&path, &["--with", "threads"]);
    let begun: Vec<_> = busy.iter().map(|b| schedstat(b.pid()).unwrap()).collect();
    sleep(Duration::from_secs(4));
    let ending: Vec<_> = busy.iter().map(|b| schedstat(b.pid()).unwrap()).collect();
    finish(child);
    let after: Vec<_> = busy.iter().map(|b| schedstat(b.pid()).unwrap()).collect();

    let threads: Vec<Thread> = rows(&path);
    for (i, process) in busy.iter().enumerate() {
        let ours = [
            total(&threads, process.pid(), |t| t.user_ns + t.system_ns) as f64,
            total(&threads, process.pid(), |t| t.runqueue_ns) as f64,
        ];
        let least = [ending[i].0 - begun[i].0, ending[i].1 - begun[i].1].map(|n| n as f64);
        let most = [after[i].0 - before[i].0, after[i].1 - before[i].1].map(|n| n as f64);
        let all = (least[0] + least[1]) * 0.02;
        for (what, i) in [("on CPU", 0), ("run queue", 1)] {
            assert!(
                ours[i] >= least[i] - all && ours[i] <= most[i] + all,
                "{what}: {} not within {}..{}",
                ours[i],
                least[i],
                most[i]
            );
        }
    }
}

/// Two namespaces, `client` and `server`, joined by an emulated path.
fn joined(path: &str) -> Plant {
    let text = format!(
        r#"
        title = "t"
        about = "a"
        links = [{{ between = ["client", "server"], path = {path}, back = {{ }} }}]
        clients = []
        [nodes.client]
        [nodes.server]
        [truth]
        cause = "healthy"
        "#
    );
    let scenario = Scenario::parse("test", &text, 1).unwrap();
    let programs = Programs {
        tcpwhy: crate::common::TCPWHY.into(),
        workload: vec![crate::common::lab_binary().into(), "lab-workload".into()],
    };
    let plant = Plant::new(scenario, 1, programs).unwrap();
    plant.wait_joined(&Stop::default()).unwrap();
    plant
}

const SERVER: [&str; 2] = ["198.18.1.2:7000", "[fd18:1::2]:7000"];

#[test]
fn a_lost_syn_is_named_behind_the_wait_of_who_accepts() {
    need_root();
    let plant = joined("{ delay_ms = 1.0, lose_first_syn = true }");
    for (server, ours) in SERVER.iter().zip(["198.18.1.1", "fd18:1::1"]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.tcpwhy");
        let server: SocketAddr = server.parse().unwrap();
        let listener = plant.nodes()["server"].inside(|| TcpListener::bind(server));
        let listener = listener.unwrap();
        let child = begin(&path, &["--with", "waits"]);
        let (tell, told) = channel();
        let accepting = thread::spawn(move || {
            tell.send(tid()).unwrap();
            listener.accept().unwrap();
            tid()
        });
        let server_tid = told.recv().unwrap();
        wait_until("the server sleeps in accept", || {
            let stat = fs::read_to_string(format!("/proc/self/task/{server_tid}/stat"));
            stat.unwrap().contains(") S ")
        });
        let client = plant.nodes()["client"].inside(|| {
            let began = Instant::now();
            let stream = TcpStream::connect(server)?;
            Ok((tid(), stream.local_addr()?, began.elapsed()))
        });
        let (client, from, took) = client.unwrap();
        let accepting = accepting.join().unwrap();
        finish(child);
        assert_eq!(from.ip().to_string(), ours);
        assert!(took >= Duration::from_millis(900), "no SYN lost: {took:?}");

        let stacks = stacks(&path);
        let events: Vec<Event> = steps(&path);
        let syn = |e: &&Event| e.kind == EventKind::Retransmit && e.local_port == from.port();
        let syn = events.iter().find(syn);
        let syn = syn.unwrap_or_else(|| {
            let sources = Recording::open(&path).unwrap().manifest.sources;
            let waits = waits_of(&path, client);
            panic!("no SYN of {from} retransmitted: {events:#?} {waits:#?} {sources:#?}")
        });
        for (tid, call) in [(accepting, "accept4"), (client, "connect")] {
            let waits = waits_of(&path, tid);
            let wait = waits.iter().find(|w| w.syscall.as_deref() == Some(call));
            let wait = wait.unwrap_or_else(|| panic!("{call}: {waits:#?}"));
            assert!(
                (900_000_000..20_000_000_000).contains(&wait.waited_ns),
                "{wait:#?}"
            );
            assert_eq!(wait.waker.as_str(), "softirq", "{wait:#?}");
            assert!(wait.fd.is_some());
            // The retransmitted SYN and its connection.
            assert_eq!(wait.cause_attempt, Some(1), "{wait:#?}");
            assert_eq!(wait.cause_sender_state, Some(TcpState::SynSent));
            let sent = wait.time_ns - wait.cause_sent_ago_ns.unwrap();
            assert!(sent.abs_diff(syn.time_ns) < 5_000_000, "{wait:#?} {syn:#?}");
            assert_eq!(wait.cause_retransmit_kind, Some(RetransmitKind::Rto));
            let slept = &stacks[&wait.slept_stack.unwrap()];
            let within = if call == "connect" {
                "connect"
            } else {
                "accept"
            };
            assert!(slept.iter().any(|f| f.contains(within)), "{slept:?}");
            let stack = &stacks[&wait.waker_stack.unwrap()];
            let rcv = if server.is_ipv4() {
                "tcp_v4_rcv"
            } else {
                "tcp_v6_rcv"
            };
            assert!(stack.iter().any(|f| f == rcv), "{stack:?}");
            // Told from the side of who waited.
            let (here, there) = match call {
                "connect" => (from, server),
                _ => (server, from),
            };
            assert_eq!(wait.cause_local_addr, Addr::from(here.ip()));
            assert_eq!(wait.cause_remote_addr, Addr::from(there.ip()));
            let ports = (wait.cause_local_port, wait.cause_remote_port);
            assert_eq!(ports, (here.port(), there.port()));
            assert_eq!(wait.cause_family, if server.is_ipv4() { 4 } else { 6 });
            let sock = wait.cause_sock;
            let state = |e: &&Event| e.sock == sock && e.state == Some(TcpState::Established);
            assert!(
                events.iter().any(|e| state(&e)),
                "the same socket in both tables"
            );
            if call == "accept4" {
                assert!(stack.iter().any(|f| f == "sock_def_readable"), "{stack:?}");
            }
        }
    }
}

/// As in the case of the clumsy kernel, and one line more: the segment behind the wakeup.
#[test]
fn trace_wakeups_prints_the_stack_and_the_lost_syn_behind_it() {
    need_root();
    let plant = joined("{ delay_ms = 1.0, lose_first_syn = true }");
    let server: SocketAddr = SERVER[0].parse().unwrap();
    let listener = plant.nodes()["server"].inside(|| TcpListener::bind(server));
    let listener = listener.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let pid = std::process::id().to_string();
    let child = tcpwhy(&["trace", "wakeups", "10ms", "--pid", &pid])
        .args(["--ready-file", arg(&ready)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("watching begins", || ready.exists());
    let accepting = thread::spawn(move || {
        listener.accept().unwrap();
        tid()
    });
    let client = plant.nodes()["client"].inside(|| TcpStream::connect(server)?.local_addr());
    let client = client.unwrap();
    let accepting = accepting.join().unwrap();
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));

    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    let is_ours = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.get(2) == Some(&&*accepting.to_string()) && words.contains(&"accept4")
    };
    let at = lines.iter().position(|l| is_ours(l));
    let at = at.unwrap_or_else(|| panic!("thread {accepting} is not in\n{text}"));
    let words: Vec<&str> = lines[at].split_ascii_whitespace().collect();
    let slept_ms: f64 = words[4].parse().unwrap();
    assert!(slept_ms > 900.0, "{}", lines[at]);
    assert!(words.contains(&"softirq"), "{}", lines[at]);
    let below = lines[at + 1..].iter().take_while(|l| l.starts_with(' '));
    let below: Vec<&str> = below.copied().collect();
    let stack = below.join("\n");
    for function in ["sock_def_readable+0x", "tcp_v4_rcv+0x"] {
        assert!(stack.contains(function), "{function} is not in\n{stack}");
    }
    let behind = format!("woken by retransmission 1 (SYN_SENT) of {client} → {server}, sent ");
    assert!(below.last().unwrap().contains(&behind), "{stack}");
}

#[test]
fn lost_data_is_told_from_data_that_came_at_once() {
    need_root();
    let plant = joined("{ delay_ms = 1.0, loss = 0.2 }");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let server: SocketAddr = SERVER[0].parse().unwrap();
    let listener = plant.nodes()["server"].inside(|| TcpListener::bind(server));
    let listener = listener.unwrap();
    let child = begin(&path, &["--with", "waits", "--wait-over", "20ms"]);
    let reading = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() == 1 {}
        tid()
    });
    let stream = plant.nodes()["client"].inside(|| TcpStream::connect(server));
    let mut stream = stream.unwrap();
    // One byte at a time, half a second apart at most: lost ones arrive by the timer only. That none
    // of them is lost happens once in 7,500 times.
    for _ in 0..40 {
        stream.write_all(b"x").unwrap();
        sleep(Duration::from_millis(50));
    }
    drop(stream);
    let reading = reading.join().unwrap();
    finish(child);

    let retransmits: Vec<Event> = rows(&path);
    let waits = waits_of(&path, reading);
    let reads: Vec<_> = waits
        .iter()
        .filter(|w| matches!(w.syscall.as_deref(), Some("read" | "recvfrom")))
        .collect();
    let (late, prompt): (Vec<&Wait>, Vec<&Wait>) = reads
        .into_iter()
        .partition(|w| w.cause_attempt.is_some_and(|n| n > 0));
    assert!(!late.is_empty(), "none of 40 packets was lost: {prompt:#?}");
    assert!(!prompt.is_empty(), "none came at once: {late:#?}");
    for wait in &late {
        let sent = wait.time_ns - wait.cause_sent_ago_ns.unwrap();
        let it = |e: &&Event| {
            e.kind == EventKind::Retransmit
                && e.local_port == wait.cause_remote_port
                && e.time_ns.abs_diff(sent) < 5_000_000
        };
        assert!(retransmits.iter().any(|e| it(&e)), "{wait:#?}");
    }
    for wait in &prompt {
        assert_eq!(wait.cause_attempt, Some(0), "{wait:#?}");
        assert_eq!(wait.cause_sender_state, None);
        assert_eq!(wait.cause_local_port, 7000);
    }
}

#[test]
fn a_timer_is_not_blamed_on_the_packet_before_it() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    // Packets all the time on this CPU and the others, and a thread that only ever sleeps.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let child = begin(&path, &["--with", "waits", "--wait-over", "0s"]);
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() == 1 {
            stream.write_all(&byte).unwrap();
        }
        tid()
    });
    let sleeper = thread::spawn(|| {
        for _ in 0..400 {
            sleep(Duration::from_millis(2));
        }
        tid()
    });
    let mut stream = TcpStream::connect(to).unwrap();
    let began = Instant::now();
    while !sleeper.is_finished() && began.elapsed() < Duration::from_secs(30) {
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        sleep(Duration::from_micros(100));
    }
    drop(stream);
    let (echo, sleeper) = (echo.join().unwrap(), sleeper.join().unwrap());
    finish(child);

    let sleeps = waits_of(&path, sleeper);
    let sleeps = sleeps
        .iter()
        .filter(|w| w.syscall.as_deref() == Some("clock_nanosleep"));
    let sleeps: Vec<_> = sleeps.collect();
    // On a busy host a timer can be due before its thread has left the CPU: then there was no wait.
    assert!(sleeps.len() > 50, "{}", sleeps.len());
    // What was lost is not silent: the table and the manifest agree.
    let manifest = Recording::open(&path).unwrap().manifest;
    let waits = manifest
        .sources
        .iter()
        .find(|s| s.name.as_str() == "waits")
        .unwrap();
    let told: Vec<Health> = rows(&path);
    let told = told
        .iter()
        .filter(|h| h.source == SourceName::Waits)
        .map(|h| h.count);
    assert_eq!(told.sum::<u64>(), waits.lost);
    // A wakeup in the middle of another is not seen: its waker is not known, and not invented.
    let seen = sleeps.iter().filter(|w| w.waker != Waker::NotSeen);
    assert!(seen.clone().count() * 10 >= sleeps.len() * 9);
    for wait in seen {
        assert_eq!(wait.waker.as_str(), "timer", "{wait:#?}");
    }
    for wait in sleeps {
        assert_eq!(wait.cause_sock, None, "{wait:#?}");
    }
    // The other side of it: every read of the echo is ended by a packet of its connection. (Waits
    // in state D are for locks of the kernel.)
    let reads = waits_of(&path, echo);
    let is_read =
        |w: &&Wait| matches!(w.syscall.as_deref(), Some("read" | "recvfrom")) && w.state == *"S";
    let reads: Vec<_> = reads.iter().filter(is_read).collect();
    assert!(reads.len() > 100, "{}", reads.len());
    // A packet that came in the middle of another's program is not seen either, nor another named.
    let linked = reads.iter().filter(|w| w.cause_sock.is_some());
    assert!(linked.clone().count() * 10 >= reads.len() * 9);
    for wait in linked {
        assert_eq!(wait.cause_local_port, to.port(), "{wait:#?}");
        assert_eq!(wait.cause_attempt, Some(0), "{wait:#?}");
    }
    for wait in reads {
        // A task where the packet found the socket in use: by ourselves, who sample it.
        assert!(
            matches!(wait.waker.as_str(), "softirq" | "task"),
            "{wait:#?}"
        );
    }
}

/// What a resolver does: it polls the socket on which it asked, or reads it with a timeout.
#[test]
fn a_wait_for_a_name_server_is_told_and_one_for_another_server_is_not() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let child = begin(&path, &["--with", "waits", "--wait-over", "5ms"]);
    // An address of the loopback interface that nobody else answers at, and none there at all.
    let (server, nobody) = ("127.0.77.53:53", "127.0.77.54:53");
    let names = UdpSocket::bind(server).unwrap();
    let other = names.try_clone().unwrap();
    let to = |server: &str| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket
    };
    let long = Duration::from_millis(250);
    let polls = move |socket: &UdpSocket| {
        let timeout = Timespec::try_from(2 * long).unwrap();
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).unwrap();
    };
    let asks = thread::spawn(move || {
        let answered = to(server);
        let port = answered.local_addr().unwrap();
        let answers = thread::spawn(move || {
            sleep(long);
            names.send_to(b"x", port).unwrap();
        });
        polls(&answered);
        answers.join().unwrap();
        // musl's resolver does not connect: who answers tells who was asked.
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap();
        let answers = thread::spawn(move || {
            sleep(long);
            other.send_to(b"x", port).unwrap();
        });
        polls(&free);
        answers.join().unwrap();
        polls(&to(nobody));
        let reads = to(nobody);
        reads.set_read_timeout(Some(long)).unwrap();
        reads.recv(&mut [0; 8]).unwrap_err();
        // No name server, and one that does not have to wait long.
        polls(&to("127.0.77.54:54"));
        tid()
    });
    let asks = asks.join().unwrap();
    finish(child);

    let mut waits = waits_of(&path, asks);
    waits.retain(|w| w.waited_ns > 200_000_000);
    let addr = |place: &str| Addr::from(place.parse::<SocketAddr>().unwrap().ip());
    let told: Vec<_> = waits
        .iter()
        .map(|w| (w.name_server, w.waker.as_str()))
        .filter(|(_, waker)| *waker != "task")
        .collect();
    let (server, nobody) = (Some(addr(server)), Some(addr(nobody)));
    let expected = [
        (server, "softirq"),
        (server, "softirq"),
        (nobody, "timer"),
        (nobody, "timer"),
        (None, "timer"),
    ];
    assert_eq!(told, expected, "{waits:#?}");
}

#[test]
fn a_part_that_does_not_exist_is_said() {
    let output = crate::common::run(&["record", "--with", "wait"]);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("waits, threads, requests, heartbeats, profile"),
        "{error}"
    );
}
