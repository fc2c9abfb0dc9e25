//! One trial: a verb that records, a signal at some moment, and how it ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use recording::monotonic_ns;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::{TCPWHY, arg, minds_hang_up, wait_until};

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Record,
    /// With a command that would run for long.
    RecordCommand,
    Explain,
    Top,
    Trace,
    Stat,
}

/// What it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    Kill,
    Term,
    Int,
    Hup,
    /// SIGSTOP, a moment later SIGCONT, and then SIGINT.
    StopCont,
}

impl Verb {
    pub const ALL: [Verb; 6] = [
        Verb::Record,
        Verb::RecordCommand,
        Verb::Explain,
        Verb::Top,
        Verb::Trace,
        Verb::Stat,
    ];

    fn args(self) -> &'static str {
        match self {
            Verb::Record => "record -o r.tcpwhy --for 600s --ready-file ready",
            Verb::RecordCommand => "record -o r.tcpwhy --ready-file ready -- sleep 600",
            Verb::Explain => "explain --for 600s --ready-file ready",
            Verb::Top => "top",
            Verb::Trace => "trace states --for 600s --ready-file ready",
            Verb::Stat => "stat sockets 1s --ready-file ready",
        }
    }

    fn keeps(self) -> bool {
        matches!(self, Verb::Record | Verb::RecordCommand)
    }
}

impl Given {
    pub const ALL: [Given; 5] = [
        Given::Kill,
        Given::Term,
        Given::Int,
        Given::Hup,
        Given::StopCont,
    ];

    fn signals(self) -> &'static [Signal] {
        match self {
            Given::Kill => &[Signal::KILL],
            Given::Term => &[Signal::TERM],
            Given::Int => &[Signal::INT],
            Given::Hup => &[Signal::HUP],
            Given::StopCont => &[Signal::STOP, Signal::CONT, Signal::INT],
        }
    }
}

/// How long it stays stopped.
const STOPPED: Duration = Duration::from_millis(500);

/// What ended.
pub struct Ended {
    pub pid: u32,
    /// It had said that it records when the signal came; `top` has no way to say so.
    pub was_ready: bool,
    /// Its exit code; `None` when the signal itself ended it, or in a terminal.
    pub code: Option<i32>,
    /// From the last signal to its end.
    pub took: Duration,
    /// When the last signal was sent, ns of CLOCK_MONOTONIC.
    pub signalled_ns: u64,
    /// The recording that it was to leave, if it got so far.
    pub recording: Option<PathBuf>,
    /// Where its temporary files went.
    pub tmp: PathBuf,
    /// What the environment of it and of all that it started holds.
    pub mark: String,
    _dir: TempDir,
}

enum Process {
    Plain(Child),
    /// In a terminal of tmux, by the name of its socket.
    Terminal(String),
}

/// Runs `verb` and gives it the signals `after` it was started.
pub fn run(verb: Verb, given: Given, after: Duration) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let mark = format!("TCPWHY_TRIAL={}", arg(dir.path()));
    let (mut process, pid) = start(verb, dir.path(), &mark);
    std::thread::sleep(after);
    let was_ready = dir.path().join("ready").exists();
    let target = Pid::from_raw(pid as i32).unwrap();
    let mut signalled = Instant::now();
    let mut signalled_ns = monotonic_ns();
    for signal in given.signals() {
        signalled = Instant::now();
        signalled_ns = monotonic_ns();
        // One that failed by itself is found below.
        let _ = kill_process(target, *signal);
        if *signal == Signal::STOP {
            std::thread::sleep(STOPPED);
        }
    }
    let code = end(&mut process, pid);
    let took = signalled.elapsed();
    let path = dir.path().join("r.tcpwhy");
    Ended {
        pid,
        was_ready,
        code,
        took,
        signalled_ns,
        recording: (verb.keeps() && path.exists()).then_some(path),
        tmp,
        mark,
        _dir: dir,
    }
}

fn start(verb: Verb, dir: &Path, mark: &str) -> (Process, u32) {
    let (name, value) = mark.split_once('=').unwrap();
    if verb != Verb::Top {
        let mut command = minds_hang_up();
        command.args(verb.args().split(' ')).current_dir(dir);
        command.env("TMPDIR", dir.join("tmp")).env(name, value);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let pid = child.id();
        return (Process::Plain(child), pid);
    }
    let socket = dir.file_name().unwrap().to_str().unwrap().to_string();
    let said = dir.join("pid");
    let shell = format!(
        "echo $$ >{pid}.new; mv {pid}.new {pid}; TMPDIR={tmp} {mark} exec {TCPWHY} top",
        pid = arg(&said),
        tmp = arg(&dir.join("tmp")),
    );
    let window = ["new-session", "-d", "-x", "120", "-y", "40", &shell];
    tmux(&socket, &window);
    wait_until("the terminal is there", || said.exists());
    let pid = fs::read_to_string(said).unwrap().trim().parse().unwrap();
    (Process::Terminal(socket), pid)
}

fn tmux(socket: &str, args: &[&str]) {
    let mut command = Command::new("tmux");
    command.args(["-L", socket, "-f", "/dev/null"]).args(args);
    let output = command.output();
    assert!(output.is_ok(), "tmux runs (make test installs it)");
}

/// Waits for its end, which the caller's budget bounds.
fn end(process: &mut Process, pid: u32) -> Option<i32> {
    match process {
        Process::Plain(child) => {
            let mut status = None;
            wait_until("it ends", || {
                status = child.try_wait().unwrap();
                status.is_some()
            });
            status.unwrap().code()
        }
        Process::Terminal(socket) => {
            let proc = format!("/proc/{pid}");
            wait_until("it ends", || !Path::new(&proc).exists());
            tmux(socket, &["kill-server"]);
            None
        }
    }
}
