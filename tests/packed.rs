//! Recordings as one file: every verb that reads takes them, and standard input; errors are one line; nothing is
//! left of what was unpacked.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use recording::Manifest;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    TCPWHY, arg, json_lines, one_event, one_line, run, stderr, stdout, tcpwhy, wait_until,
};

/// A recording as a directory, and as one file.
fn made(dir: &Path) -> (PathBuf, PathBuf) {
    let (path, file) = (one_event(dir), dir.join("r.tcpw"));
    recording::pack(&path, File::create(&file).unwrap()).unwrap();
    (path, file)
}

/// Runs it on what is in `input`; nothing is left in the directory of temporary files.
fn piped(args: &[&str], input: &Path, tmp: &Path) -> Output {
    let mut command = tcpwhy(args);
    command.stdin(File::open(input).unwrap()).env("TMPDIR", tmp);
    let output = command.output().unwrap();
    assert_eq!(
        fs::read_dir(tmp).unwrap().count(),
        0,
        "{args:?}: left in {tmp:?}"
    );
    output
}

#[test]
fn every_verb_reads_a_file_and_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = tempfile::tempdir().unwrap();
    let (path, file) = made(dir.path());
    let page = dir.path().join("page.html");
    let row = "event/000001#0";
    // What comes of the directory comes of the others.
    for verb in [
        &["explain", "R", "--json"][..],
        &["explain", "--json", "--from", "R"],
        &["report", "R", "-o", arg(&page)],
        &["report", "-o", arg(&page), "--from", "R"],
        &["compare", arg(&path), "R", "--json"],
        &["compare", "--json", "--from", arg(&path), "R"],
        &["trace", "states", "--json", "--from", "R"],
        &["trace", "accepts", "--json", "--from", "R"],
        &["stat", "listeners", "--json", "--from", "R"],
        &["show", "R", row],
        &["show", "--from", "R", row],
        &["flame", "R"],
        &["flame", "--from", "R"],
    ] {
        let of = |recording: &str| {
            let args: Vec<&str> = verb
                .iter()
                .map(|a| if *a == "R" { recording } else { a })
                .collect();
            let output = piped(&args, &file, tmp.path());
            let code = output.status.code();
            // Names are those that were given; the longer one first.
            let text = stdout(&output)
                .replace(arg(&path), "R")
                .replace(arg(&file), "R");
            (code, text.replace("\"-\"", "\"R\""), stderr(&output))
        };
        let whole = of(arg(&path));
        // Nothing was sampled.
        let code = if verb[0] == "flame" { 1 } else { 0 };
        assert_eq!(whole.0, Some(code), "{verb:?}: {}", whole.2);
        for other in [arg(&file), "-"] {
            let other = of(other);
            assert_eq!(
                (&other.0, &other.1),
                (&whole.0, &whole.1),
                "{verb:?}: {}",
                other.2
            );
        }
    }
    assert!(fs::metadata(&page).unwrap().len() > 10_000);
    // From another program, compressed.
    let zipped = dir.path().join("r.tgz");
    let tar = Command::new("tar")
        .arg("-czf")
        .arg(&zipped)
        .arg("-C")
        .arg(dir.path())
        .arg("r.tcpwhy")
        .status();
    assert!(tar.unwrap().success());
    let output = piped(&["explain", "-", "--json"], &zipped, tmp.path());
    assert_eq!(json_lines(&output).last().unwrap()["complete"], true);
}

#[test]
fn what_is_wrong_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = made(dir.path());
    let (file, path) = (arg(&file), arg(&path));
    one_line(
        &["explain", "/nonexistent.tcpw"],
        "/nonexistent.tcpw: no such recording",
    );
    one_line(&["explain", "/dev/null"], "it is a device");
    one_line(
        &["explain", "-"],
        "standard input: not a tcpwhy recording: it is empty",
    );
    one_line(&["compare", "-", "-"], "named twice");
    one_line(
        &["show", file, "event/000001#1"],
        "event/000001 has #0 to #0",
    );
    one_line(
        &["show", file, "event/000007#0"],
        "event has 1 of them, 000001 to 000001",
    );
    one_line(
        &["show", path, "wait/000001#0"],
        "no rows of wait were recorded",
    );
    one_line(
        &["show", path, "bogus/000001#0"],
        "no table \"bogus\"; the tables are event, ",
    );
    one_line(&["show", path, "event"], "TABLE/SEGMENT#ROW");
    one_line(&["explain", "-o", "-"], "the answer is on standard output");
    one_line(&["record", "-o", file], "exists already; --force");
    let notes = dir.path().join("notes.tcpw");
    fs::write(&notes, "precious").unwrap();
    one_line(
        &["record", "--force", "-o", arg(&notes)],
        "is not a tcpwhy recording",
    );
    assert_eq!(fs::read_to_string(&notes).unwrap(), "precious");
    let none = dir.path().join("none/x.tcpw");
    one_line(&["record", "-o", arg(&none)], "none/x.tcpw: ");
}

#[test]
fn a_terminal_gets_no_recording() {
    let run = |line: &str| {
        let script = Command::new("script")
            .args(["-qec", line, "/dev/null"])
            .stdin(Stdio::null())
            .output();
        let output = script.expect("script runs");
        (output.status.code(), stdout(&output))
    };
    let (code, says) = run(&format!("{TCPWHY} record -o - --for 1s"));
    assert_eq!(code, Some(1), "{says}");
    assert!(
        says.contains("standard output is a terminal; pipe it"),
        "{says}"
    );
    assert_eq!(says.trim().lines().count(), 1, "{says}");
}

#[test]
fn ctrl_c_is_for_the_pager() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = tempfile::tempdir().unwrap();
    let (_, file) = made(dir.path());
    let pager = dir.path().join("pager");
    // As Ctrl-C in less: it goes on, and what it shows stays.
    let script = "cat >/dev/null; kill -INT $PPID; sleep 0.5; echo paged to its end";
    fs::write(&pager, script).unwrap();
    let line = format!("{TCPWHY} explain {}", arg(&file));
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TCPWHY_PAGER", format!("sh {}", arg(&pager)))
        .env("TMPDIR", tmp.path())
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .expect("script runs");
    let says = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{says}");
    assert!(says.contains("paged to its end"), "{says}");
    assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn one_that_lost_power_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = made(dir.path());
    let manifest = Manifest {
        complete: false,
        ..Manifest::read(&path).unwrap()
    };
    manifest.write(&path).unwrap();
    fs::write(path.join("event/000002.parquet"), b"").unwrap();
    let output = run(&["explain", arg(&path), "--json"]);
    assert_eq!(json_lines(&output).last().unwrap()["complete"], false);
    let says = stderr(&output);
    assert!(says.contains("empty or cut (1 in all)"), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
}

#[test]
fn one_that_a_killed_run_moved_away_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = made(dir.path());
    // One more than the largest pid that Linux gives.
    let aside = dir.path().join("tcpwhy-4194304-1-1-replaced-x");
    fs::create_dir(&aside).unwrap();
    fs::rename(&path, aside.join("r.tcpwhy")).unwrap();
    let output = run(&["explain", arg(&path), "--json"]);
    assert_eq!(json_lines(&output).last().unwrap()["complete"], true);
    let says = stderr(&output);
    assert!(says.contains("r.tcpwhy: is back"), "{says}");
    assert!(path.is_dir() && !aside.exists());
}

#[test]
fn one_that_is_cut_short_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = made(dir.path());
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1500]).unwrap();
    let output = piped(
        &["explain", "-", "--json"],
        &file,
        tempfile::tempdir().unwrap().path(),
    );
    assert_eq!(json_lines(&output).last().unwrap()["complete"], false);
    let says = stderr(&output);
    assert!(says.contains("standard input: cut short"), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
}

#[test]
fn a_signal_leaves_nothing_of_what_was_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = made(dir.path());
    let whole = fs::read(&file).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let tmp = tempfile::tempdir().unwrap();
        let mut command = tcpwhy(&["explain", "-"]);
        let child = command
            .env("TMPDIR", tmp.path())
            .stdin(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&whole[..4096]).unwrap();
        let unpacked = || {
            let room = fs::read_dir(tmp.path()).unwrap().flatten().next()?;
            let mut made = fs::read_dir(room.path()).ok()?.flatten();
            Some(made.any(|made| made.path().join("manifest.json").exists()))
        };
        wait_until("it is being unpacked", || unpacked() == Some(true));
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0, "{signal:?}");
    }
}
