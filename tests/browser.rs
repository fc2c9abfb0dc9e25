//! Reports in a real browser, headless: they open, are read, walked, zoomed and searched, ask nobody
//! for anything, and show names of the host as text.

mod common;

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::live::Space;
use common::{arg, begin, finish, lab_binary, need_root, run, stderr, stdout, wait_until};
use recording::Recording;

/// A scenario of each of the five cases.
const CASES: &[&str] = &[
    "clumsy-kernel",
    "growing-table",
    "delayed-requests",
    "cookie-crumbs",
    "port-search",
];
/// A name that a careless page would run.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";
/// As much of it as a command name holds.
const HOSTILE_COMM: &str = "<img src=x oner";

/// `tcpwhy report` on recordings.
fn report(recordings: &[&Path], page: &Path) {
    let paths = recordings.iter().map(|r| arg(r));
    let args: Vec<&str> = ["report"].into_iter().chain(paths).collect();
    let output = run(&[&args[..], &["-o", arg(page)]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A scenario's recording, whatever was found in it: that is for other tests.
fn record_scenario(name: &str, keep: &Path) -> PathBuf {
    let output = run(&["lab", "run", name, "--keep", arg(keep)]);
    let entries = fs::read_dir(keep).unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
    let kept = entries.map(|e| e.unwrap().path());
    let mut kept = kept.filter(|p| p.extension().is_some_and(|e| e == "tcpwhy"));
    kept.next()
        .unwrap_or_else(|| panic!("{name}: nothing kept: {}", stderr(&output)))
}

/// A recording of a server whose names are hostile, and whose accept queue is full.
fn record_hostile(dir: &Path) -> PathBuf {
    let program = dir.join(HOSTILE);
    fs::hard_link(lab_binary(), &program)
        .or_else(|_| fs::copy(lab_binary(), &program).map(|_| ()))
        .unwrap();
    let space = Space::new("hostile");
    let path = dir.join("hostile.tcpwhy");
    let recorder = begin(&path, &["--with", "waits,threads"]);
    let args = ["lab-workload", "server", "--listen", "127.0.0.1:7400"];
    let slow = ["--backlog", "2", "--accept-ms", "1500", "--lifetime", "60"];
    let mut server = Command::new(&program)
        .args(args)
        .args(slow)
        .args(["--name", HOSTILE_COMM, "--netns", space.name()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let at: SocketAddr = "127.0.0.1:7400".parse().unwrap();
    wait_until("the server listens", || {
        space.inside(|| TcpStream::connect(at).is_ok())
    });
    space.inside(|| {
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| TcpStream::connect_timeout(&at, Duration::from_secs(4)));
            }
        });
    });
    finish(recorder);
    end(&mut server);
    path
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A recording that lost events: its ring is far too small for what happens.
fn record_lossy(dir: &Path) -> PathBuf {
    let space = Space::new("lossy");
    let path = dir.join("lossy.tcpwhy");
    let recorder = begin(&path, &["--ring-kib", "4", "--all-states"]);
    let server_args = ["lab-workload", "server", "--listen", "127.0.0.1:7401"];
    let mut server = Command::new(lab_binary())
        .args(server_args)
        .args(["--netns", space.name(), "--lifetime", "60"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let at: SocketAddr = "127.0.0.1:7401".parse().unwrap();
    wait_until("the server listens", || {
        space.inside(|| TcpStream::connect(at).is_ok())
    });
    space.inside(|| (0..3_000).for_each(|_| drop(TcpStream::connect(at))));
    finish(recorder);
    end(&mut server);
    let lost = Recording::open(&path).unwrap().manifest.sources;
    assert!(lost.iter().any(|s| s.lost > 0), "nothing was lost");
    path
}

#[test]
fn reports_work_in_a_browser() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("pages");
    fs::create_dir(&pages).unwrap();
    let page = |name: &str| pages.join(format!("{name}.html"));

    for name in CASES {
        let recording = record_scenario(name, &dir.path().join(name));
        report(&[&recording], &page(name));
    }
    let hostile = record_hostile(dir.path());
    report(&[&hostile], &page("hostile"));
    let written = fs::read_to_string(page("hostile")).unwrap();
    assert!(!written.contains("<img"), "a name stands there as markup");
    report(&[&record_lossy(dir.path())], &page("lossy"));

    // Nothing happens in a namespace that is alone and looked at for a moment.
    let idle = Space::new("idle");
    let empty = dir.path().join("empty.tcpwhy");
    finish(begin(&empty, &["--netns", idle.name()]));
    report(&[&empty], &page("empty"));

    let model = |preset: &[&str], name: &str| {
        let path = dir.path().join(name);
        let args = ["model", "run", "illumos-time-wait", "-o", arg(&path)];
        let output = run(&[&args[..], preset].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        path
    };
    let slow = model(&[], "slow.tcpwhy");
    let fast = model(&["--set", "loopback_fix=1"], "fast.tcpwhy");
    report(&[&slow], &page("model"));
    report(&[&fast, &slow], &page("two"));

    // What a user without root gets: /proc and netlink at best, no event, no profile.
    let poor = dir.path().join("poor.tcpwhy");
    fs::rename(&hostile, &poor).unwrap();
    for table in ["event", "socket", "wait", "thread", "stack", "frame"] {
        let _ = fs::remove_dir_all(poor.join(table));
    }
    report(&[&poor], &page("poor"));

    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let output = Command::new("node")
        .arg(web.join("tests/browser.mjs"))
        .arg(&pages)
        .output()
        .expect("node runs (make test installs it)");
    assert!(
        output.status.success(),
        "{}\n{}",
        stdout(&output),
        stderr(&output)
    );
}
