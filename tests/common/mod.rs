//! What the end-to-end tests share: the built binary, and lines of JSON.
#![allow(dead_code)]

pub mod live;
pub mod watching;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use recording::tables::{Event, Frame, Stack};
use recording::{FORMAT, Manifest, Recording, Table, Writer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The binary under test.
pub const TCPWHY: &str = env!("CARGO_BIN_EXE_tcpwhy");

/// The lab's binary, which lies beside it.
pub fn lab_binary() -> String {
    let lab = Path::new(TCPWHY).with_file_name("tcpwhy-lab");
    assert!(lab.is_file(), "first: cargo build --workspace --bins");
    arg(&lab).to_string()
}

/// The binary with arguments.
pub fn tcpwhy(args: &[&str]) -> Command {
    let mut command = Command::new(TCPWHY);
    command.args(args).env("NO_COLOR", "1");
    command
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Output {
    tcpwhy(args).output().expect("the binary runs")
}

/// What it printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

/// What it complained about.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is UTF-8")
}

/// Its output as JSON lines.
pub fn json_lines(output: &Output) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    stdout(output).lines().map(parse).collect()
}

/// One line on stderr that holds `needle`, nothing on stdout, and exit code 1.
pub fn one_line(args: &[&str], needle: &str) {
    let output = run(args);
    let message = stderr(&output);
    assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
    assert!(message.contains(needle), "{args:?}: {message}");
    assert_eq!(stdout(&output), "", "{args:?}");
    assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
}

/// A recording of one event, in `dir`.
pub fn one_event(dir: &Path) -> PathBuf {
    let path = dir.join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        complete: true,
        ..Manifest::default()
    };
    let mut events = Writer::create(&path, &manifest)
        .unwrap()
        .table::<Event>()
        .unwrap();
    events.push(Event::default()).unwrap();
    events.seal().unwrap();
    path
}

/// Ends the program, with one line, unless this is root: a test that was not run has not passed.
pub fn need_root() {
    if !rustix::process::geteuid().is_root() {
        // Past the test's own output, which would be lost.
        let _ = io::stderr().write_all(b"these tests need root: make test runs them so\n");
        std::process::exit(1);
    }
}

/// The program, which a hang-up ends though whoever runs the tests ignores it, as under nohup.
pub fn minds_hang_up() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", TCPWHY]);
    command
}

/// Waits, generously, until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A recording of this host in progress, with more arguments; it has begun.
pub fn begin(path: &Path, more: &[&str]) -> Child {
    let ready = path.with_extension("ready");
    let mut args = vec!["record", "-o", arg(path), "--for", "120s"];
    args.extend(["--ready-file", arg(&ready)]);
    args.extend(more);
    let child = tcpwhy(&args).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the recording begins", || ready.exists());
    child
}

/// Ends it as Ctrl-C does.
pub fn finish(mut child: Child) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
}

/// All rows of a table of a recording.
pub fn rows<T: Table>(path: &Path) -> Vec<T> {
    let recording = Recording::open(path).unwrap();
    let batches = recording.scan::<T>().unwrap().map(|b| b.unwrap());
    batches
        .flat_map(|b| b.rows().map(|(_, row)| row).collect::<Vec<_>>())
        .collect()
}

/// Every event of a recording, whole lives taken apart.
pub fn steps(path: &Path) -> Vec<Event> {
    let events = Recording::open(path).unwrap().events().unwrap();
    events.map(|e| e.unwrap().1).collect()
}

/// The functions of each stack of a recording, innermost first.
pub fn stacks(path: &Path) -> HashMap<u64, Vec<String>> {
    let frames: HashMap<u64, String> = rows::<Frame>(path)
        .into_iter()
        .map(|f| (f.frame, f.function.to_string()))
        .collect();
    let mut stacks: HashMap<u64, Vec<String>> = HashMap::new();
    for row in rows::<Stack>(path) {
        let stack = stacks.entry(row.stack).or_default();
        assert_eq!(
            stack.len(),
            row.depth as usize,
            "every stack once, in order"
        );
        stack.push(frames[&row.frame].clone());
    }
    stacks
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}
