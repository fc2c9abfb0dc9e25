//! Recording the live host: what is kept, what is said, and that a healthy host has no findings.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;

use crate::common::live::Space;
use crate::common::{
    TCPWHY, arg, begin, json_lines, need_root, rows, run, stderr, steps, wait_until,
};
use recording::tables::{Event, Health, Holder, Listener, Process, Setting};
use recording::{Recording, TcpState, Verdict};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect as connect_socket, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

/// Opens and closes `n` connections to a listener of ours; the client closes first.
fn connect(listener: &TcpListener, n: usize) {
    for _ in 0..n {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        drop(client);
        // The end of the client's stream, so that it closes first.
        assert_eq!(server.read(&mut [0; 16]).unwrap(), 0);
    }
}

#[test]
fn what_a_reset_threw_away_is_counted() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut child = begin(&path, &[]);
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    // Until neither its own buffer nor the server's takes more.
    let mut written = 0;
    while let Ok(n) = client.write(&[7; 65_536]) {
        written += n as u64;
    }
    // What it has not read makes the server's kernel send a reset.
    drop(server);
    wait_until("the reset is there", || {
        client.take_error().unwrap().is_some()
    });
    signal(&child, Signal::INT);
    assert!(child.wait().unwrap().success());

    let events = rows::<Event>(&path);
    let is_end = |e: &&Event| e.remote_port == port && e.state == Some(TcpState::Close);
    let end = events.iter().find(is_end).expect("the client's end");
    assert_eq!(end.error.as_deref(), Some("ECONNRESET"));
    let unacked = u64::from(end.bytes_unacked.unwrap());
    // The SYN is among what was acknowledged.
    assert_eq!(end.bytes_acked.unwrap() - 1 + unacked, written);
    assert!(unacked > 0);
}

#[test]
fn ctrl_c_keeps_a_complete_recording() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut child = begin(&path, &[]);
    connect(&listener, 20);
    signal(&child, Signal::INT);
    assert!(child.wait().unwrap().success());

    let manifest = Recording::open(&path).unwrap().manifest;
    assert!(manifest.complete && manifest.end_ns > manifest.start_ns);
    assert!(manifest.sources.iter().all(|s| s.lost == 0));
    assert!(
        manifest
            .sources
            .iter()
            .any(|s| s.name.as_str() == "state" && s.verdict == Verdict::Attached)
    );
    assert!(manifest.host.hz.is_none_or(|hz| hz >= 100));

    let lives = rows::<Event>(&path)
        .iter()
        .filter(|e| e.established_ns.is_some())
        .count();
    assert!(lives >= 40, "two rows a connection, not five: {lives}");
    let events = steps(&path);
    let ours = |e: &&Event| e.local_port == port || e.remote_port == port;
    let count = |old: TcpState, new: TcpState| {
        let is = |e: &&Event| e.old_state == Some(old.clone()) && e.state == Some(new.clone());
        events.iter().filter(ours).filter(is).count()
    };
    assert_eq!(count(TcpState::Close, TcpState::SynSent), 20);
    assert_eq!(count(TcpState::SynSent, TcpState::Established), 20);
    assert_eq!(count(TcpState::SynRecv, TcpState::Established), 20);
    assert_eq!(
        count(TcpState::LastAck, TcpState::Close),
        20,
        "the server closed second"
    );
    let connects = events
        .iter()
        .filter(ours)
        .filter(|e| e.old_state == Some(TcpState::Close));
    for connect in connects {
        assert_eq!(
            connect.pid,
            Some(std::process::id()),
            "the owner is who called connect()"
        );
    }
    let accepted = events.iter().filter(ours).filter(|e| e.cookie.is_some());
    assert_eq!(accepted.filter(|e| e.cookie == Some(false)).count(), 20);
    assert!(events.is_sorted_by_key(|e| e.time_ns));

    // The listener is older than the recording, and so is its holder: us.
    let listeners: Vec<Listener> = rows(&path);
    let sample = listeners.iter().find(|l| l.local_port == port).unwrap();
    let holders: Vec<Holder> = rows(&path);
    let me = |h: &&Holder| h.pid == std::process::id() && Some(h.inode) == sample.inode;
    assert_eq!(holders.iter().filter(me).count(), 1);
    let processes: Vec<Process> = rows(&path);
    assert!(
        processes
            .iter()
            .any(|p| p.pid == std::process::id() && p.ppid > 0)
    );
    let settings: Vec<Setting> = rows(&path);
    let somaxconn = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let recorded = settings
        .iter()
        .find(|s| s.name == *"net.core.somaxconn")
        .unwrap();
    assert_eq!(&*recorded.value, somaxconn.trim());
}

#[test]
fn a_killed_recorder_leaves_what_it_sealed() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = begin(&path, &[]);
    connect(&listener, 5);
    wait_until("a segment is sealed", || {
        path.join("event/000001.parquet").exists()
    });
    wait_until("the manifest follows", || {
        let manifest = Recording::open(&path).unwrap().manifest;
        manifest.end_ns > manifest.start_ns
    });
    signal(&child, Signal::KILL);
    child.wait().unwrap();

    let recording = Recording::open(&path).unwrap();
    assert!(!recording.manifest.complete);
    assert!(!rows::<Event>(&path).is_empty());
    let output = run(&["explain", arg(&path), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json_lines(&output);
    assert_eq!(lines.last().unwrap()["complete"], false);
}

#[test]
fn a_full_ring_is_reported_with_its_count() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // 4 KiB hold 25 records; they are drained every 50 ms.
    let mut child = begin(&path, &["--ring-kib", "4"]);
    connect(&listener, 2_000);
    signal(&child, Signal::INT);
    assert!(child.wait().unwrap().success());
    let mut message = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut message)
        .unwrap();
    assert!(message.contains("records lost"), "{message}");

    let manifest = Recording::open(&path).unwrap().manifest;
    let lost: u64 = manifest.sources.iter().map(|s| s.lost).sum();
    let told: u64 = rows::<Health>(&path)
        .iter()
        .filter(|h| h.what.as_str() == "lost")
        .map(|h| h.count)
        .sum();
    assert!(lost > 0);
    assert_eq!(lost, told, "the health table and the manifest agree");
    // Nothing is lost unsaid: five records a connection, and as many are kept or counted.
    let kept = steps(&path).len() as u64;
    assert!(kept + lost >= 5 * 2_000, "{kept} kept, {lost} lost");
}

#[test]
fn a_stopped_recorder_reports_what_it_missed_and_the_rest_is_right() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let space = Space::new("stopped");
    let listen = || space.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let listener = listen();
    let small = ["--ring-kib", "64", "--netns", space.name()];
    let mut child = begin(&path, &small);
    space.inside(|| connect(&listener, 50));
    // Drained every 50 ms: by then the first fifty have left the ring.
    wait_until("a segment is sealed", || {
        path.join("event/000001.parquet").exists()
    });
    signal(&child, Signal::STOP);
    let stopped = std::time::Instant::now();
    space.inside(|| connect(&listener, 3_000));
    std::thread::sleep(Duration::from_secs(3).saturating_sub(stopped.elapsed()));
    signal(&child, Signal::CONT);
    // The ring is drained before losses are looked for.
    wait_until("the loss is told", || {
        rows::<Health>(&path)
            .iter()
            .any(|h| h.what.as_str() == "lost")
    });
    let last = listen();
    let port = last.local_addr().unwrap().port();
    space.inside(|| connect(&last, 50));
    signal(&child, Signal::INT);
    assert!(child.wait().unwrap().success());

    let manifest = Recording::open(&path).unwrap().manifest;
    assert!(manifest.complete);
    let lost: u64 = manifest.sources.iter().map(|s| s.lost).sum();
    let events = steps(&path);
    let kept = events.len() as u64;
    assert!(
        lost > 0 && kept + lost >= 5 * 3_100,
        "{kept} kept, {lost} lost"
    );
    let ends = |e: &&Event| e.local_port == port && e.old_state == Some(TcpState::LastAck);
    assert_eq!(events.iter().filter(ends).count(), 50, "the rest is right");
    let explained = run(&["explain", "--full", arg(&path)]);
    assert!(explained.status.success());
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(text.contains("HEALTH") && text.contains("lost"), "{text}");
}

/// In a namespace of its own: what else runs on the machine that tests may have real troubles.
#[test]
fn an_idle_host_has_no_findings() {
    need_root();
    let quiet = Space::new("idle");
    let output = run(&["explain", "--for", "5s", "--json", "--netns", quiet.name()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["findings"], 0);
    assert_eq!(lines[0]["events"], 0);
    assert!(lines[0]["duration_s"].as_f64().unwrap() >= 5.0);
}

#[test]
fn a_command_bounds_the_recording_and_is_ended() {
    need_root();
    let quiet = Space::new("idle");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let output = run(&[
        "record",
        "-o",
        arg(&path),
        "--netns",
        quiet.name(),
        "--",
        "true",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    // --for ends a command that does not end by itself.
    let output = run(&["explain", "--for", "1s", "--json", "--", "sleep", "600"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        run(&["explain", arg(&path), "--fail-on-finding"])
            .status
            .code(),
        Some(0)
    );
}

#[test]
fn doctor_names_every_source() {
    need_root();
    let output = run(&["doctor", "--json"]);
    assert!(output.status.success());
    let checkup = &json_lines(&output)[0];
    let sources = checkup["sources"].as_array().unwrap();
    for name in [
        "state",
        "retransmit",
        "reset-sent",
        "drop",
        "sockets",
        "counters",
        "settings",
        "cpus",
        "interrupts",
        "resources",
        "ports",
        "tables",
        "conntrack",
    ] {
        assert!(sources.iter().any(|s| s["name"] == name), "{name}");
    }
    let tick = checkup["tick_ns"].as_u64();
    assert!(tick.is_some_and(|ns| ns >= 500), "{tick:?}");
    let text = crate::common::stdout(&run(&["doctor"]));
    assert!(
        text.contains("kprobes") && text.contains("profiler's clock"),
        "{text}"
    );
}

#[test]
fn a_copied_recording_means_the_same_without_root() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let output = run(&["lab", "run", "refused", "--keep", arg(&kept), "--json"]);
    let [outcome] = &json_lines(&output)[..] else {
        panic!("{}", stderr(&output));
    };
    assert_eq!(outcome["passed"], true, "{outcome:#}");
    let recording = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();

    let told = run(&["explain", arg(&recording), "--fail-on-finding"]);
    assert_eq!(told.status.code(), Some(10));

    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(&recording)
        .arg(&elsewhere)
        .status()
        .unwrap();
    assert!(copied.success());
    fs::copy(TCPWHY, elsewhere.join("tcpwhy")).unwrap();
    let chowned = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(dir.path())
        .status();
    assert!(chowned.unwrap().success());

    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(elsewhere.join("tcpwhy")).arg("explain");
    command
        .arg(elsewhere.join(recording.file_name().unwrap()))
        .arg("--json");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut lines = json_lines(&output);
    lines.retain(|l| l["type"] == "finding");
    assert_eq!(
        Value::from(lines),
        outcome["findings"],
        "the same findings as live"
    );
}

#[test]
fn what_plain_record_leaves_out_cannot_be_told_and_explain_says_how_to_record_it() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = begin(&path, &[]);
    connect(&listener, 20);
    signal(&child, Signal::INT);
    assert!(child.wait().unwrap().success());

    let parts = ["events", "sockets", "host", "ports"];
    for source in Recording::open(&path).unwrap().manifest.sources {
        let part = source.name.part();
        assert!(
            part.is_none_or(|p| parts.contains(&p)),
            "{} is of {part:?}",
            source.name
        );
    }
    let output = run(&["explain", arg(&path), "--json"]);
    let lines = json_lines(&output);
    let summary = lines.last().expect("a summary");
    let causes = summary["causes"].as_array().expect("answers");
    let answer = |cause: &str| {
        let found = causes.iter().find(|a| a["cause"] == cause);
        found.unwrap_or_else(|| panic!("no answer of {cause}"))
    };
    for (cause, part) in [
        ("cpu-contention", "threads"),
        ("softirq-starvation", "threads"),
        ("lookup-table-growth", "profile"),
    ] {
        let answer = answer(cause);
        assert_eq!(answer["answer"], "cannot-tell", "{answer}");
        assert_eq!(answer["record"][0], part, "{answer}");
    }
    assert_eq!(answer("connection-refused")["answer"], "ruled-out");
    let text = run(&["explain", "--full", arg(&path)]);
    let text = String::from_utf8_lossy(&text.stdout).replace("\n    ", " ");
    assert!(text.contains("record --with threads"), "{text}");
}

#[test]
fn a_connect_that_hangs_since_before_the_recording_is_told() {
    need_root();
    let space = Space::with_hole();
    let _socket = space.inside(|| {
        let (inet, stream) = (AddressFamily::INET, SocketType::STREAM);
        let socket = socket_with(inet, stream, SocketFlags::NONBLOCK, None).unwrap();
        let to: SocketAddr = "10.9.0.2:5432".parse().unwrap();
        assert_eq!(connect_socket(&socket, &to), Err(Errno::INPROGRESS));
        socket
    });
    wait_until("the SYN was retransmitted", || {
        space.counters()["TcpExt.TCPSynRetrans"] >= 2
    });
    let filter = ["--netns", space.name()];
    let output = run(&[&["explain", "--for", "5s", "--json"][..], &filter].concat());
    let lines = json_lines(&output);
    let findings: Vec<_> = lines.iter().filter(|l| l["type"] == "finding").collect();
    assert_eq!(findings.len(), 1, "{lines:#?}");
    let finding = findings[0];
    assert_eq!(finding["cause"], "path-drops-syn");
    assert_eq!(finding["scope"]["listener"], "10.9.0.2:5432");
    assert_eq!(finding["since"]["began"], "before");
    let account = lines.iter().find(|l| l["type"] == "account");
    let account = account.expect("where its time went");
    assert_eq!(account["spent_s"]["connecting"], account["total_s"]);
}

#[test]
fn a_connect_that_a_route_rejects_is_told() {
    need_root();
    let space = Space::with_hole();
    for route in [
        "route add blackhole 10.9.8.0/24",
        "-6 route add prohibit fd09:8::/32",
    ] {
        space.ip(&route.split(' ').collect::<Vec<_>>());
    }
    for (to, kind, error) in [
        ("10.9.8.7", "blackhole", "EINVAL"),
        ("fd09:8::7", "prohibit", "EACCES"),
    ] {
        let code = format!("import socket; socket.create_connection(('{to}', 443))");
        let command = ["ip", "netns", "exec", space.name(), "python3", "-c", &code];
        let args = [&["explain", "--json", "--"][..], &command].concat();
        let lines = json_lines(&run(&args));
        let finding = lines.iter().find(|l| l["type"] == "finding");
        let finding = finding.unwrap_or_else(|| panic!("{lines:#?}"));
        assert_eq!(finding["cause"], "route-or-neighbour-failure");
        assert_eq!(finding["scope"]["comm"], "python3");
        let title = finding["title"].as_str().unwrap();
        for word in [to, kind, error, "1 connect"] {
            assert!(title.contains(word), "{title}");
        }
    }
}

#[test]
fn a_command_that_waits_for_no_tcp_is_told_so() {
    need_root();
    // A lookup that nobody answers: a socket of UDP, and a timer.
    let lookup = "import select, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 0))
p = select.poll()
p.register(s, select.POLLIN)
p.poll(2500)";
    let netns = Space::new("lookup");
    let explained = |code: &str| {
        let command = ["ip", "netns", "exec", netns.name(), "python3", "-c", code];
        let args = [&["explain", "--json", "--"][..], &command].concat();
        json_lines(&run(&args)).pop().expect("a summary")
    };
    let command = &explained(lookup)["command"];
    assert_eq!(command["comm"], "python3");
    assert!(
        command["without_tcp_s"].as_f64().unwrap() >= 2.5,
        "{command}"
    );
    let longest = &command["longest"]["says"];
    assert!(
        longest
            .as_str()
            .unwrap()
            .contains("in poll, woken by a timer"),
        "{command}"
    );
    // Who sleeps asks nobody for anything.
    assert!(explained("import time; time.sleep(2.5)")["command"].is_null());
}
