//! `tcpwhy serve` records this host for good; what was recorded at a time is one recording, whatever was killed meanwhile.

use std::fs::Permissions;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::live::Space;
use crate::common::{
    arg, json_lines, need_root, one_line, run, stderr, stdout, tcpwhy, wait_until,
};

/// A recorder of a store.
struct Serving(Child);

impl Serving {
    fn begin(store: &Path, more: &[&str]) -> Serving {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let mut args = vec!["serve", "--store", arg(store), "--ready-file", arg(&ready)];
        args.extend(more);
        let mut command = tcpwhy(&args);
        // As systemd does it.
        let notified = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        command.env("NOTIFY_SOCKET", dir.path().join("notify"));
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        wait_until("serving begins", || ready.exists());
        notified
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut word = [0; 64];
        let n = notified.recv(&mut word).unwrap();
        assert_eq!(&word[..n], b"READY=1\n");
        Serving(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), signal).unwrap();
    }

    /// As systemd ends it; what it said.
    fn end(mut self) -> String {
        self.signal(Signal::TERM);
        assert!(self.0.wait().unwrap().success());
        let mut said = String::new();
        let mut from = self.0.stderr.take().unwrap();
        from.read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It runs on where a test fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The recordings of a store.
fn recordings(store: &Path) -> usize {
    let names = std::fs::read_dir(store).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".tcpwhy")).count()
}

/// How many connects to this port are told of the last minute.
fn connects(store: &Path, port: u16) -> usize {
    let port = port.to_string();
    let args = [
        "trace",
        "connects",
        "--from",
        arg(store),
        "--last",
        "60s",
        "--json",
    ];
    let output = run(&[&args[..], &["--port", &port]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json_lines(&output);
    lines.iter().filter(|l| l["type"] != "health").count()
}

/// One connection after the other, for so long; how many.
fn connect(at: &TcpListener, time: Duration) -> usize {
    let to = at.local_addr().unwrap();
    let until = Instant::now() + time;
    let mut n = 0;
    while Instant::now() < until {
        let client = TcpStream::connect(to).unwrap();
        let (mut server, _) = at.accept().unwrap();
        drop(client);
        assert_eq!(server.read(&mut [0; 16]).unwrap(), 0);
        n += 1;
        sleep(Duration::from_millis(5));
    }
    n
}

#[test]
fn every_connection_is_told_once_though_recordings_follow_each_other() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    // One part in sixteen of this is a recording: the next begins as soon as the last has.
    let serving = Serving::begin(&store, &["--keep", "80s"]);
    let space = Space::new("serve");
    let (port, n) = space.inside(|| {
        let at = TcpListener::bind("127.0.0.1:0").unwrap();
        let n = connect(&at, Duration::from_secs(14));
        (at.local_addr().unwrap().port(), n)
    });
    let said = serving.end();
    let parts = recordings(&store);
    assert!(parts >= 3, "{parts}: {said}");
    assert_eq!(connects(&store, port), n, "{parts} recordings: {said}");
    // A second time, merged.
    Serving::begin(&store, &[]).end();
    assert_eq!(connects(&store, port), n);
}

#[test]
fn what_was_recorded_survives_a_kill_and_what_was_not_is_said() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let serving = Serving::begin(&store, &[]);
    let at = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = at.local_addr().unwrap().port();
    let n = connect(&at, Duration::from_secs(2));
    // What a connection was is told when it has ended, or after a second; and each table is sealed every second.
    sleep(Duration::from_millis(2_500));
    drop(serving);
    assert_eq!(connects(&store, port), n);
    let refused = run(&["serve", "--store", arg(dir.path())]);
    assert!(
        stderr(&refused).contains("not a store"),
        "{}",
        stderr(&refused)
    );
    sleep(Duration::from_secs(3));

    let serving = Serving::begin(&store, &[]);
    one_line(
        &["serve", "--store", arg(&store)],
        "another tcpwhy records into this store",
    );
    let again = connect(&at, Duration::from_secs(2));
    drop(at);
    // A caller is refused again and again.
    const REFUSED: usize = 8;
    for _ in 0..REFUSED {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        sleep(Duration::from_millis(400));
    }
    sleep(Duration::from_millis(2_500));
    assert_eq!(connects(&store, port), n + again + REFUSED);
    let of = port.to_string();
    let asked = run(&["explain", arg(&store), "--last", "60s", "--port", &of]);
    let (says, warned) = (stdout(&asked), stderr(&asked));
    assert!(says.contains(&format!("127.0.0.1:{port}")), "{says}");
    let gaps = warned.matches("nothing was recorded from").count();
    assert_eq!(gaps, 2, "before it began, and while it was dead: {warned}");
    assert!(warned.contains("no recorder ran"), "{warned}");
    // It records just now; what the answer names reads the same time later.
    assert!(!says.contains("was killed"), "{says}");
    let again = says.split_once("Everything behind it: tcpwhy ");
    let again = again.expect("a last line").1.split_whitespace();
    let again = run(&again.collect::<Vec<_>>());
    assert!(again.status.success(), "{}", stderr(&again));
    let page = dir.path().join("x.html");
    let page = run(&["report", arg(&store), "--last", "60s", "-o", arg(&page)]);
    assert!(page.status.success(), "{}", stderr(&page));
    serving.end();
    one_line(&["explain", arg(&store)], "name a time: --at 03:07");
    let before = ["explain", arg(&store), "--at", "1h ago"];
    one_line(&before, "nothing was recorded at that time; it holds");
}

/// What is listed of findings.
fn findings(store: &Path) -> Vec<Value> {
    let listed = run(&["findings", arg(store), "--json"]);
    let none_yet = stderr(&listed).contains("no findings were ever written down");
    assert!(listed.status.success() || none_yet, "{}", stderr(&listed));
    json_lines(&listed)
}

/// The process that explains what this one records; `None` while there is none.
fn explainer(serving: &Serving) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", serving.0.id())).unwrap();
    let children = threads.map(|t| std::fs::read_to_string(t.unwrap().path().join("children")));
    children.flatten().find_map(|pids| pids.trim().parse().ok())
}

#[test]
fn a_finding_is_raised_by_who_has_no_rights_told_and_resolved() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    // Another user is to reach it.
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let (store, journal) = (dir.path().join("store"), dir.path().join("journal"));
    let journald = UnixDatagram::bind(&journal).unwrap();
    std::fs::set_permissions(&journal, Permissions::from_mode(0o666)).unwrap();
    journald.set_nonblocking(true).unwrap();
    let space = Space::new("serve");
    let more = ["--user", "nobody", "--journal", arg(&journal)];
    let more = [&more[..], &["--netns", space.name()]].concat();
    let serving = Serving::begin(&store, &more);
    let pid = explainer(&serving).expect("it explains");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(
        status.contains("Uid:\t65534\t65534\t65534\t65534"),
        "{status}"
    );
    assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");

    let refused = |n: usize| {
        space.inside(|| {
            for _ in 0..n {
                assert!(TcpStream::connect("127.0.0.1:7").is_err());
                sleep(Duration::from_millis(300));
            }
        });
    };
    let state = |of: &str| {
        let all = findings(&store);
        all.iter()
            .any(|alert| alert["state"] == of && alert["cause"] == "connection-refused")
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !state("raised") && Instant::now() < until {
        refused(3);
    }
    let raised = findings(&store);
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert_eq!(raised[0]["place"], "127.0.0.1:7");
    assert_eq!(raised[0]["netns"], space.name());
    let holds = run(&["findings", arg(&store), "--fail-on-finding"]);
    assert_eq!(holds.status.code(), Some(10), "{}", stdout(&holds));
    // One that is killed knows afterwards what it knew.
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    wait_until("it is started again", || {
        explainer(&serving).is_some_and(|now| now != pid)
    });
    let until = Instant::now() + Duration::from_secs(60);
    while !state("resolved") && Instant::now() < until {
        sleep(Duration::from_millis(500));
    }
    let resolved = findings(&store);
    assert_eq!(resolved.len(), 1, "{resolved:?}");
    assert_eq!(resolved[0]["state"], "resolved");
    assert_eq!(resolved[0]["fingerprint"], raised[0]["fingerprint"]);
    let said = serving.end();
    assert!(said.contains("resolved: "), "{said}");
    assert!(
        said.contains("the process that explains has ended"),
        "{said}"
    );

    let mut got = Vec::new();
    let mut message = [0; 65_536];
    while let Ok(n) = journald.recv(&mut message) {
        got.push(String::from_utf8_lossy(&message[..n]).into_owned());
    }
    let states: Vec<bool> = got
        .iter()
        .map(|m| m.contains("TCPWHY_STATE=raised\n"))
        .collect();
    assert_eq!(states, [true, false], "{got:?}");
    assert!(
        got[0].contains("\nTCPWHY_CAUSE=connection-refused\n"),
        "{got:?}"
    );
}
