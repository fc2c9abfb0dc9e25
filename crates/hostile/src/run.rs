//! Runs tcpwhy on a recording within bounds, and tells how it ended and what it took.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use wait4::Wait4;

/// What is tried: arguments, in which `R` is the recording, `B` one that is whole, `O` a file to write.
pub const VERBS: &[&[&str]] = &[
    &["explain", "R"],
    &["explain", "R", "--json"],
    &["explain", "R", "--full"],
    &["explain", "R", "--redact"],
    &["report", "R", "-o", "O"],
    &["report", "R", "--json"],
    &["report", "R", "B", "-o", "O"],
    &["compare", "B", "R"],
    &["flame", "R"],
    &["flame", "R", "--off-cpu"],
    &["top", "R"],
    &["show", "R", "event/000001#0", "wait/000002#7"],
    &["stat", "sockets", "--from", "R"],
    &["stat", "listeners", "--from", "R"],
    &["stat", "counters", "--from", "R"],
    &["stat", "cpus", "--from", "R"],
    &["stat", "threads", "--from", "R"],
    &["stat", "ports", "--from", "R"],
    &["stat", "tables", "--from", "R"],
    &["stat", "use", "--from", "R"],
    &["trace", "states", "--from", "R"],
    &["trace", "retransmits", "--from", "R"],
    &["trace", "resets", "--from", "R"],
    &["trace", "drops", "--from", "R"],
    &["trace", "timewait", "--from", "R"],
    &["trace", "wakeups", "--from", "R"],
    &["trace", "handshakes", "--from", "R"],
    &["trace", "connects", "--from", "R"],
    &["trace", "accepts", "--from", "R"],
];

/// What a run may take before it is stopped.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Address space, bytes.
    pub memory: u64,
    /// Time.
    pub time: Duration,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// It was stopped when its time was up.
    Hang,
    /// By a signal, or a panic.
    Abort,
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Largest resident memory, bytes.
    pub memory: u64,
    /// How long it took.
    pub time: Duration,
    /// What it used of a CPU: the same however busy the machine is, nearly.
    pub cpu: Duration,
    /// Bytes that it wrote to standard output.
    pub written: u64,
    /// What it complained about.
    pub complaint: String,
}

impl Outcome {
    /// What is wrong with it; `None` when it ended as it should: done, or with one line that says why
    /// not, which a terminal can be shown.
    pub fn wrong(&self, most_memory: u64) -> Option<String> {
        let lines = self.complaint.lines().count();
        match self.ended {
            Ended::Hang => Some("hang".into()),
            Ended::Abort => Some("abort".into()),
            _ if self.memory > most_memory => Some(format!("{} MB", self.memory >> 20)),
            Ended::Code(1) if lines != 1 => Some(format!("{lines} lines of complaint")),
            Ended::Code(0 | 1 | 10) if self.complaint.contains(['\x1b', '\u{202e}']) => {
                Some("a complaint that a terminal obeys".into())
            }
            Ended::Code(0 | 1 | 10) => None,
            Ended::Code(code) => Some(format!("exit code {code}")),
        }
    }
}

/// The same as [`run`] for a process that has taken much memory itself: the kernel counts what a
/// parent has to its child, so `hostile`, the built program, is the parent.
pub fn run_apart(
    hostile: &Path,
    tcpwhy: &Path,
    verb: &[&str],
    (recording, whole): (&Path, &Path),
    scratch: &Path,
    limits: Limits,
) -> Result<Outcome> {
    let output = Command::new(hostile)
        .arg("read")
        .args(["--space".into(), (limits.memory >> 20).to_string()])
        .args(["--time".into(), limits.time.as_secs().to_string()])
        .arg("--tcpwhy")
        .arg(tcpwhy)
        .args([recording, whole, scratch])
        .arg("--")
        .args(verb)
        .output()
        .with_context(|| hostile.display().to_string())?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs a verb on `recording`; `scratch` is a directory for what it writes.
pub fn run(
    tcpwhy: &Path,
    verb: &[&str],
    (recording, whole): (&Path, &Path),
    scratch: &Path,
    limits: Limits,
) -> Result<Outcome> {
    let (out, err) = (scratch.join("out"), scratch.join("err"));
    let args = verb.iter().map(|arg| match *arg {
        "R" => recording.as_os_str().to_owned(),
        "B" => whole.as_os_str().to_owned(),
        "O" => scratch.join("page.html").into_os_string(),
        arg => arg.into(),
    });
    // The shell's own builtin, as limits are the child's; `timeout` tells a hang from an abort.
    let script = "ulimit -v \"$1\"; ulimit -c 0; t=$2; shift 2; exec timeout -s KILL \"$t\" \"$@\"";
    let began = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", script, "sh", &(limits.memory >> 10).to_string()])
        .arg(limits.time.as_secs().to_string())
        .arg(tcpwhy)
        .args(args)
        .env("RUST_BACKTRACE", "1")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()
        .context("running sh")?;
    let ended = child.wait4().context("waiting for it")?;
    let time = began.elapsed();
    let complaint = fs::read(&err)?;
    let complaint = String::from_utf8_lossy(&complaint[..complaint.len().min(10_000)]).into_owned();
    let ended_ = match ended.status.code() {
        // `timeout` ends so when it had to.
        Some(137) => Ended::Hang,
        Some(101 | 128..) | None => Ended::Abort,
        Some(code) => Ended::Code(code),
    };
    Ok(Outcome {
        ended: ended_,
        memory: ended.rusage.maxrss,
        time,
        cpu: ended.rusage.utime + ended.rusage.stime,
        written: fs::metadata(&out)?.len(),
        complaint,
    })
}
