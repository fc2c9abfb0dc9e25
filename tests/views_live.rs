//! What all views share: live and recorded are the same, they end by themselves, errors are one line.

use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::live::Space;
use crate::common::watching::*;
use crate::common::{arg, json_lines, need_root, run, stderr, stdout, tcpwhy, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
#[test]
fn live_and_from_a_recording_are_the_same_lines() {
    need_root();
    let netns = Space::new("view");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let ready = dir.path().join("ready");
    let mut recorder = tcpwhy(&[
        "record",
        "-o",
        arg(&path),
        "--all-states",
        "--with",
        "packets",
        "--netns",
        netns.name(),
        "--ready-file",
        arg(&ready),
    ]);
    let mut recorder = recorder.stderr(Stdio::null()).spawn().unwrap();
    wait_until("the recording begins", || ready.exists());
    // Not connects and accepts: recording each call of the host would lose some.
    let kinds = ["handshakes", "states", "resets", "drops", "timewait"];
    let with = |view: &str| Watching::begin(&["trace", view, "--json", "--netns", netns.name()]);
    let views = kinds.map(|v| (v, with(v)));
    connections(&netns, "127.0.0.1", 25);
    netns.inside(|| assert!(TcpStream::connect(("127.0.0.1", 1)).is_err()));
    let live = views.map(|(v, watching)| (v, watching.whole()));
    kill_process(Pid::from_raw(recorder.id() as i32).unwrap(), Signal::INT).unwrap();
    assert!(recorder.wait().unwrap().success());

    // Two recorders watched: only their clocks' readings differ.
    let comparable = |lines: &[Value]| -> Vec<Value> {
        let mut lines = lines.to_vec();
        for line in &mut lines {
            let fields = line.as_object_mut().unwrap();
            fields.retain(|k, _| !k.ends_with("_ns") && k != "in_old_state_ms");
            // A life that is one row has no round-trip time of its beginning.
            fields.remove("rtt_us");
        }
        lines.sort_by_key(Value::to_string);
        lines
    };
    for (view, lines) in live {
        let output = run(&[
            "trace",
            view,
            "--json",
            "--from",
            arg(&path),
            "--netns",
            netns.name(),
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        let mut from = json_lines(&output);
        assert_eq!(from.pop().unwrap()["type"], "health");
        assert!(view == "timewait" || !lines.is_empty(), "{view}");
        assert_eq!(comparable(&lines), comparable(&from), "{view}");
        // And reading twice is reading the same.
        let again = run(&[
            "trace",
            view,
            "--json",
            "--from",
            arg(&path),
            "--netns",
            netns.name(),
        ]);
        assert_eq!(output.stdout, again.stdout);
    }
}

#[test]
fn an_idle_namespace_shows_nothing_and_ends_by_itself() {
    need_root();
    let netns = Space::new("view");
    let since = Instant::now();
    for args in [
        &["trace", "drops", "--for", "500ms"] as &[&str],
        &["stat", "sockets"],
        &["stat", "sockets", "100ms", "2"],
        &["stat", "listeners"],
    ] {
        let output = run(&[args, &["--netns", netns.name()]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
    let output = run(&["stat", "counters", "100ms", "3", "--netns", netns.name()]);
    let text = stdout(&output);
    assert_eq!(
        text.lines()
            .filter(|l| l.ends_with("no counter moved"))
            .count(),
        3,
        "{text}"
    );
    assert!(since.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_reader_that_leaves_ends_the_view() {
    need_root();
    let netns = Space::new("view");
    let mut view = Watching::begin(&["trace", "states", "--netns", netns.name()]);
    drop(view.0.stdout.take());
    wait_until("the view ends", || {
        connections(&netns, "127.0.0.1", 2);
        view.0.try_wait().unwrap().is_some()
    });
    assert!(view.0.wait().unwrap().success());
}

#[test]
fn what_cannot_be_shown_is_said_in_one_line() {
    let says = |args: &[&str], code: i32, needle: &str| {
        let output = run(args);
        let message = stderr(&output);
        assert!(message.contains(needle), "{args:?}: {message}");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert_eq!(stdout(&output), "");
        message
    };
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("none.tcpwhy");
    says(
        &["trace", "drops", "--from", arg(&nowhere)],
        1,
        "no such recording",
    );
    says(
        &["stat", "counters", "--from", arg(&nowhere)],
        1,
        "no such recording",
    );
    for (args, filter) in [
        (["stat", "counters", "--pid", "1"], "--pid"),
        (["stat", "threads", "--port", "1"], "--port"),
        (["stat", "cpus", "--netns", "host"], "--netns"),
    ] {
        assert_eq!(says(&args, 1, filter).lines().count(), 1);
    }
    says(
        &["trace", "drops", "--addr", "10.0.0.0/33"],
        2,
        "10.0.0.0/8",
    );
    says(
        &["trace", "drops", "--from", "x", "--for", "1s"],
        2,
        "cannot be used with",
    );
    says(&["stat", "sockets", "1s", "0"], 2, "0");
    says(&["stat", "sockets", "1ms"], 2, "10ms");
    says(
        &["trace", "drops", "--netns", "no-such-ns"],
        1,
        "no-such-ns",
    );
    says(
        &["trace", "drops", "--cgroup", "no/such/group"],
        1,
        "no/such/group",
    );
}
