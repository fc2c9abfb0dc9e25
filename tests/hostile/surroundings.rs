//! What a recording owes to its surroundings: it ends orderly when the terminal hangs up, and what it
//! cannot take away when it is killed goes with the next run. Needs root.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::common::{TCPWHY, arg, minds_hang_up, need_root, run, stderr, tcpwhy, wait_until};
use recording::Recording;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A verb that records, with temporary files in a directory of its own.
struct Running {
    child: Child,
    dir: TempDir,
}

impl Running {
    /// Begins, and waits until it records.
    fn begin(args: &[&str]) -> Running {
        Running::with(minds_hang_up(), args)
    }

    /// The same by another program, which becomes `tcpwhy`.
    fn with(mut command: Command, args: &[&str]) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let (verb, command_line) = match args.iter().position(|a| *a == "--") {
            Some(at) => args.split_at(at),
            None => (args, &[][..]),
        };
        fs::create_dir(dir.path().join("tmp")).unwrap();
        command.args(verb).args(["--ready-file", arg(&ready)]);
        command
            .args(command_line)
            .env("TMPDIR", dir.path().join("tmp"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.current_dir(dir.path()).spawn().unwrap();
        let running = Running { child, dir };
        wait_until("it records", || ready.exists());
        running
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What is in its temporary directory.
    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("tmp")).unwrap();
        entries.map(|e| e.unwrap().path()).collect()
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
        let mut status = None;
        wait_until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Another verb that records, which finds what was left.
    fn next(&self) {
        let output = tcpwhy(&["stat", "counters"])
            .env("TMPDIR", self.path("tmp"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed assertion it still runs; else this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that says its pid in `pid` and would run for long.
const LONG: [&str; 4] = ["--", "sh", "-c", "echo $$ >p; mv p pid; exec sleep 600"];

/// Waits until the command has said its pid.
fn pid_of_command(running: &Running) -> String {
    let path = running.path("pid");
    wait_until("the command runs", || path.exists());
    fs::read_to_string(path).unwrap().trim().to_string()
}

/// Whether a process runs; one that has ended and was not waited for does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    !stat.is_empty() && !state.trim_start().starts_with(['Z', 'X'])
}

#[test]
fn a_hang_up_ends_it_orderly() {
    need_root();
    for signal in [Signal::HUP, Signal::TERM] {
        let mut record = Running::begin(&[&["record", "-o", "r.tcpwhy"], &LONG[..]].concat());
        let pid = pid_of_command(&record);
        assert_eq!(record.end(signal).code(), Some(0), "{signal:?}");
        wait_until("the command ends", || !runs(&pid));
        let recording = Recording::open(&record.path("r.tcpwhy")).unwrap();
        assert!(recording.manifest.complete);

        let mut explain = Running::begin(&[&["explain"], &LONG[..]].concat());
        let pid = pid_of_command(&explain);
        let [scratch] = &explain.left()[..] else {
            panic!("{:?}", explain.left())
        };
        assert_eq!(fs::metadata(scratch).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(explain.end(signal).code(), Some(0), "{signal:?}");
        wait_until("the command ends", || !runs(&pid));
        assert!(explain.left().is_empty());

        for verb in [
            &["trace", "states", "--for", "600s"][..],
            &["stat", "counters", "1s"],
        ] {
            let mut view = Running::begin(verb);
            assert_eq!(view.end(signal).code(), Some(0), "{verb:?} {signal:?}");
            assert!(view.left().is_empty());
        }
    }
}

#[test]
fn under_nohup_it_goes_on() {
    need_root();
    let mut nohup = Command::new("nohup");
    nohup.arg(TCPWHY);
    let mut record = Running::with(nohup, &["record", "-o", "r.tcpwhy", "--for", "600s"]);
    let status = fs::read_to_string(format!("/proc/{}/status", record.child.id())).unwrap();
    let mask = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    // Signal 1, SIGHUP.
    assert_eq!(mask("SigIgn:") & 1, 1);
    assert_eq!(mask("SigCgt:") & 1, 0);
    assert_eq!(record.end(Signal::INT).code(), Some(0));
}

#[test]
fn what_a_killed_run_left_goes_with_the_next() {
    need_root();
    let mut explain = Running::begin(&[&["explain"], &LONG[..]].concat());
    let pid = pid_of_command(&explain);
    explain.end(Signal::KILL);
    wait_until("the command ends with it", || !runs(&pid));
    let [left] = &explain.left()[..] else {
        panic!("{:?}", explain.left())
    };
    let name = left.file_name().unwrap().to_str().unwrap().to_string();

    // What others put there under such a name is not touched.
    let tmp = explain.path("tmp");
    let (theirs, link, file) = (name.clone() + "a", name.clone() + "b", name + "c");
    let victim = explain.path("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), "x").unwrap();
    fs::create_dir(tmp.join(&theirs)).unwrap();
    chown(tmp.join(&theirs), Some(65_534), Some(65_534)).unwrap();
    symlink(&victim, tmp.join(&link)).unwrap();
    fs::write(tmp.join(&file), "x").unwrap();
    // Nor is what a run that lives is using.
    let mut other = Command::new(TCPWHY);
    other.args(["explain", "--for", "600s", "--ready-file"]);
    let ready = explain.path("other");
    other.arg(&ready).env("TMPDIR", &tmp);
    let mut other = other.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the other one records", || ready.exists());
    assert!(!left.exists(), "the other one was the next");

    explain.next();
    assert_eq!(explain.left().len(), 4, "{:?}", explain.left());
    assert!(victim.join("precious").exists());
    kill_process(Pid::from_raw(other.id() as i32).unwrap(), Signal::INT).unwrap();
    assert!(other.wait().unwrap().success());
    assert_eq!(explain.left().len(), 3, "{:?}", explain.left());
}

#[test]
fn what_was_cut_short_says_so() {
    need_root();
    // Before anything was sealed, as nothing is needed for it to be said.
    let mut record = Running::begin(&["record", "-o", "r.tcpwhy"]);
    record.end(Signal::KILL);
    let path = record.path("r.tcpwhy");
    let json = run(&["explain", arg(&path), "--json"]);
    let summary = crate::common::json_lines(&json).pop().unwrap();
    assert_eq!(summary["complete"], false);
    let output = run(&["explain", "--full", arg(&path)]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = crate::common::stdout(&output);
    assert!(
        text.contains("HEALTH      the recorder was killed"),
        "{text}"
    );
    assert!(text.lines().next().unwrap().contains("not whole"), "{text}");
}

#[test]
fn the_ready_file_is_made_by_us() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let (victim, link) = (dir.path().join("victim"), dir.path().join("ready"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &link).unwrap();
    let output = run(&["stat", "counters", "--ready-file", arg(&link)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());

    let fifo = dir.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let kept = dir.path().join("r.tcpwhy");
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60", TCPWHY, "record", "--for", "1s"]);
    command.args(["-o", arg(&kept), "--ready-file", arg(&fifo)]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("fifo: is a FIFO; name a file"));
    assert!(!kept.exists() && fs::metadata(&fifo).unwrap().file_type().is_fifo());
}

#[test]
fn a_full_disk_keeps_the_older_file() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("m.tcpwhy");
    let made = run(&["model", "run", "illumos-time-wait", "-o", arg(&recording)]);
    assert!(made.status.success(), "{}", stderr(&made));
    let full = dir.path().join("full");
    fs::create_dir(&full).unwrap();
    // In a mount namespace of its own: it goes with the shell.
    let shell = "mount -t tmpfs -o size=32k none full && echo older >full/r.html &&
        \"$0\" report m.tcpwhy -o full/r.html; echo $? >code; cat full/r.html >after; ls -A full >names";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", shell, TCPWHY]);
    let output = command.current_dir(dir.path()).output().unwrap();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let says = stderr(&output);
    assert_eq!(read("code"), "1\n", "{says}");
    assert_eq!(read("after"), "older\n");
    assert_eq!(read("names"), "r.html\n");
    assert_eq!(says.lines().count(), 1, "{says}");
    assert!(
        says.contains("writing full/r.html: No space left on device"),
        "{says}"
    );
}

#[test]
fn a_small_stack_is_enough_to_record() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("r.tcpwhy");
    let shell = "ulimit -s 64; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", shell, TCPWHY, "explain", "--for", "1s"]);
    command.args(["-o", arg(&kept), "--with", "calls,packets", "--", "true"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(Recording::open(&kept).unwrap().manifest.complete);
}

#[test]
fn where_nobody_reads_what_is_said_it_ends_orderly() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("r.tcpwhy");
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = tcpwhy(&["record", "-o", arg(&kept), "--", "true"]);
    let status = command.stderr(Stdio::from(full)).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(Recording::open(&kept).unwrap().manifest.complete);
}
