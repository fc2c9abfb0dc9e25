//! What the end-to-end tests share: the built binary, and lines of JSON.
#![allow(dead_code)]

pub mod live;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The binary under test.
pub const TCPWHY: &str = env!("CARGO_BIN_EXE_tcpwhy");

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

/// Whether this is root; what needs root says so and passes without.
pub fn root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: recording a host needs root");
    }
    is_root
}

/// Waits, generously, until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}
