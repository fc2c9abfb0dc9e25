//! Recording the live host as one file, and through a pipe: whole however it ends, and nothing left.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use recording::{Manifest, Recording, Scratch};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    TCPWHY, arg, json_lines, minds_hang_up, need_root, one_line, run, stderr, stdout, tcpwhy,
    wait_until,
};

fn manifest(bytes: &[u8]) -> Manifest {
    let place = tempfile::tempdir().unwrap();
    let scratch = Scratch::make(place.path(), "test").unwrap();
    let recording = Recording::unpack(bytes, Path::new("packed"), scratch).unwrap();
    assert!(!recording.is_cut_short());
    recording.manifest.clone()
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// `record` with its output where the arguments say, in a place of its own for temporary files; it has begun.
fn begin(args: &[&str], tmp: &Path) -> Child {
    let ready = tempfile::tempdir().unwrap();
    let ready = ready.path().join("ready");
    let mut command = minds_hang_up();
    command
        .args(["record", "--ready-file", arg(&ready)])
        .args(args)
        .env("TMPDIR", tmp);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the recording begins", || ready.exists());
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

#[test]
fn a_recording_goes_through_a_pipe() {
    need_root();
    let tmp = tempfile::tempdir().unwrap();
    let line = format!(
        "set -e; {TCPWHY} record -o - --for 1s -- sh -c 'echo loud; sleep 1' | {TCPWHY} explain - --json"
    );
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("TMPDIR", tmp.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json_lines(&output);
    assert_eq!(lines.last().unwrap()["complete"], true);
    let says = stderr(&output);
    // What the command prints is none of the recording.
    assert!(
        says.contains("loud") && says.contains("recorded "),
        "{says}"
    );
    assert_eq!(entries(tmp.path()), 0);
}

#[test]
fn whatever_ends_it_the_file_is_whole() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.tcpw");
    for given in [Signal::INT, Signal::TERM, Signal::HUP] {
        let tmp = tempfile::tempdir().unwrap();
        let to_file = begin(&["--force", "-o", arg(&file), "--for", "120s"], tmp.path());
        let to_pipe = begin(&["-o", "-", "--for", "120s"], tmp.path());
        for child in [&to_file, &to_pipe] {
            signal(child, given);
        }
        let output = to_pipe.wait_with_output().unwrap();
        assert!(output.status.success(), "{given:?}: {}", stderr(&output));
        assert!(manifest(&output.stdout).complete);
        let output = to_file.wait_with_output().unwrap();
        assert!(output.status.success(), "{given:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
        assert!(manifest(&fs::read(&file).unwrap()).complete);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(
            (entries(tmp.path()), entries(dir.path())),
            (0, 1),
            "{given:?}"
        );
    }
}

#[test]
fn when_the_reader_has_gone_it_ends() {
    need_root();
    let tmp = tempfile::tempdir().unwrap();
    let mut child = begin(&["-o", "-", "--for", "120s"], tmp.path());
    let began = Instant::now();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60));
    let mut says = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut says)
        .unwrap();
    assert_eq!(status.code(), Some(1), "{says}");
    assert!(says.contains("the reader has gone"), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
    assert_eq!(entries(tmp.path()), 0);
}

#[test]
fn a_reader_that_stalls_keeps_nobody() {
    need_root();
    for given in [Signal::INT, Signal::TERM] {
        let tmp = tempfile::tempdir().unwrap();
        let mut child = begin(&["-o", "-", "--for", "5s"], tmp.path());
        // Recording has ended once there is something to read; more than a pipe holds follows.
        let mut first = [0];
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut first).unwrap();
        signal(&child, given);
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(given.as_raw()), "{status}");
        assert_eq!(entries(tmp.path()), 0, "{given:?}");
    }
}

#[test]
fn an_older_one_is_replaced_when_the_new_one_is_whole() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    for name in ["r.tcpw", "r.tcpwhy"] {
        let path = dir.path().join(name);
        let label = || {
            let output = run(&["explain", arg(&path), "--json"]);
            assert!(output.status.success(), "{}", stderr(&output));
            let file = fs::read(&path);
            let manifest =
                file.map_or_else(|_| Manifest::read(&path).unwrap(), |file| manifest(&file));
            manifest.labels.join(" ")
        };
        let record = |verb, label, more: &[&str]| {
            let mut args = vec![verb, "-o", arg(&path), "--for", "1s", "--label", label];
            args.extend(more);
            tcpwhy(&args).output().unwrap()
        };
        assert!(record("record", "one", &[]).status.success());
        one_line(&["record", "-o", arg(&path)], "exists already; --force");
        one_line(&["explain", "-o", arg(&path)], "exists already; --force");
        // What does not begin replaces nothing.
        let failed = record("record", "two", &["--force", "--", "/nonexistent/program"]);
        assert_eq!(failed.status.code(), Some(1));
        assert_eq!(label(), "one");
        let output = record("explain", "three", &["--force"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(
            stdout(&output).contains(&format!("tcpwhy explain --full {}", arg(&path)))
                || stdout(&output).contains("--full")
        );
        assert_eq!(label(), "three");
    }
    assert_eq!(entries(dir.path()), 2, "nothing beside them");
}
