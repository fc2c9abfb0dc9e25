//! `tcpwhy serve` records this host for good; what was recorded at a time is one recording, whatever was killed meanwhile.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::live::Space;
use crate::common::{
    arg, json_lines, need_root, one_line, run, stderr, stdout, tcpwhy, wait_until,
};

/// A recorder of a store.
struct Serving(Child);

impl Serving {
    fn begin(store: &Path, more: &[&str]) -> Serving {
        let ready = tempfile::tempdir().unwrap();
        let ready = ready.path().join("ready");
        let mut args = vec!["serve", "--store", arg(store), "--ready-file", arg(&ready)];
        args.extend(more);
        let child = tcpwhy(&args).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("serving begins", || ready.exists());
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
    let asked = run(&["explain", arg(&store), "--last", "60s"]);
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
