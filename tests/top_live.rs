//! `tcpwhy top` in a real terminal: tmux shows what a reader would see.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::live::Space;
use crate::common::watching::connections;
use crate::common::{TCPWHY, arg, need_root, run, stderr, wait_until};

/// A tmux server of its own, with one window in which a command runs.
struct Tmux {
    socket: String,
    dir: tempfile::TempDir,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Tmux {
    /// Runs `tcpwhy` with arguments, and keeps the window when it has ended.
    fn start(args: &[&str]) -> Tmux {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let tmux = Tmux {
            socket: format!("tcpwhy-test-{}-{n}", std::process::id()),
            dir: tempfile::tempdir().unwrap(),
        };
        let (code, args) = (tmux.code(), args.join(" "));
        // Ctrl-C is for the program: the shell goes on, as one that people type into.
        let shell = format!("trap : INT; {TCPWHY} {args}; echo $? >{code}; echo back; cat");
        let code = tmux.tmux(&[
            "new-session",
            "-d",
            "-c",
            arg(tmux.dir.path()),
            "-x",
            "120",
            "-y",
            "40",
            &shell,
        ]);
        assert!(code.status.success(), "tmux runs (make test installs it)");
        tmux
    }

    fn code(&self) -> String {
        arg(&self.dir.path().join("code")).to_string()
    }

    fn tmux(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new("tmux");
        command
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(args);
        command.output().expect("tmux runs (make test installs it)")
    }

    fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// The one file of this kind that it has made where it runs.
    fn made(&self, extension: &str) -> PathBuf {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("tcpwhy-top-") && name.ends_with(&format!(".{extension}"))
        };
        let made: Vec<PathBuf> = paths.filter(ours).collect();
        assert_eq!(made.len(), 1, "{made:?}");
        made[0].clone()
    }

    fn keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys"];
        args.extend(keys);
        assert!(self.tmux(&args).status.success());
    }

    fn wait_for(&self, text: &str) {
        wait_until(text, || self.screen().contains(text));
    }

    /// The program has ended and the terminal is as it was.
    fn ended(&self) -> i32 {
        let path = self.code();
        let code = || std::fs::read_to_string(&path).unwrap_or_default();
        wait_until("it ends", || code().ends_with('\n'));
        self.wait_for("back");
        let screen = self.screen();
        assert!(!screen.contains("1 Findings"), "{screen}");
        // What is typed is shown again, and lines end where they should.
        self.keys(&["echo", "Enter"]);
        wait_until("an echo", || self.screen().matches("echo").count() >= 2);
        code().trim().parse().unwrap()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn model(dir: &Path) -> String {
    let path = dir.join("m.tcpwhy");
    let output = run(&["model", "run", "illumos-time-wait", "-o", arg(&path)]);
    assert!(output.status.success(), "{}", stderr(&output));
    arg(&path).to_string()
}

#[test]
fn a_recording_is_gone_through() {
    let dir = tempfile::tempdir().unwrap();
    let recording = model(dir.path());
    let tmux = Tmux::start(&["top", &recording]);
    tmux.wait_for("explained: the whole recording");
    tmux.wait_for("1 Findings (1)");
    let at_the_end = tmux.screen();
    tmux.keys(&["Left", "Left"]);
    wait_until("another time", || {
        tmux.screen().lines().next() != at_the_end.lines().next()
    });
    tmux.keys(&["End"]);
    wait_until("the end again", || {
        tmux.screen().lines().next() == at_the_end.lines().next()
    });
    tmux.keys(&["w"]);
    tmux.wait_for("it is a recording:");
    tmux.keys(&["r"]);
    tmux.wait_for("wrote tcpwhy-top-");
    let report = tmux.made("html");
    assert_eq!(mode(&report), 0o600);
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    // What is copied arrives at the terminal, which tmux is here.
    tmux.tmux(&["set", "-g", "set-clipboard", "on"]);
    tmux.keys(&["y"]);
    tmux.wait_for("copied");
    wait_until("a command in the clipboard", || {
        let copied = tmux.tmux(&["show-buffer"]).stdout;
        let copied = String::from_utf8_lossy(&copied);
        // It is as long as the line that it is shown in.
        let begins: String = copied.chars().take(40).collect();
        !begins.is_empty() && tmux.screen().matches(&begins).count() >= 2
    });
    tmux.keys(&["1", "Enter"]);
    tmux.wait_for("WHAT TO DO");
    tmux.keys(&["Escape"]);
    tmux.wait_for("2 Connections");
    tmux.keys(&["?"]);
    tmux.wait_for("KEYS");
    tmux.keys(&["BSpace"]);
    tmux.wait_for("2 Connections");
    tmux.tmux(&["resize-window", "-x", "60", "-y", "18"]);
    wait_until("a smaller screen", || {
        let screen = tmux.screen();
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() <= 18 && lines.iter().any(|l| l.contains("1-7 Tab"))
    });
    tmux.keys(&["q"]);
    assert_eq!(tmux.ended(), 0);
}

#[test]
fn a_live_host_is_watched() {
    need_root();
    let netns = Space::new("top");
    let others = in_memory();
    let tmux = Tmux::start(&["top", "--netns", netns.name()]);
    tmux.wait_for("live");
    // As long as it takes until a second with connections is shown.
    wait_until("connections are counted", || {
        connections(&netns, "127.0.0.1", 20);
        let screen = tmux.screen();
        let opened = screen.lines().find(|l| l.contains("opened"));
        opened.is_some_and(|l| l.split_whitespace().nth(1).is_some_and(|n| n != "0"))
    });
    tmux.wait_for("findings of the last");
    tmux.keys(&["w"]);
    tmux.wait_for("wrote tcpwhy-top-");
    let kept = tmux.made("tcpwhy");
    assert_eq!(mode(&kept), 0o700);
    let opened = run(&["explain", arg(&kept)]);
    assert!(opened.status.success(), "{}", stderr(&opened));
    tmux.keys(&["r"]);
    tmux.wait_for(".html");
    wait_until("a report", || tmux.screen().contains("wrote tcpwhy-top-"));
    assert_eq!(mode(&tmux.made("html")), 0o600);
    tmux.keys(&["p"]);
    tmux.wait_for("STOPPED");
    tmux.keys(&["p"]);
    tmux.wait_for("live");
    tmux.keys(&["C-c"]);
    assert_eq!(tmux.ended(), 0);
    // Another top may have begun meanwhile.
    wait_until("nothing is left in memory", || {
        in_memory().is_subset(&others)
    });
}

/// Live recordings that are kept in memory now; one that was killed leaves its own.
fn in_memory() -> BTreeSet<OsString> {
    let there = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    let ours = there.map(|e| e.file_name());
    ours.filter(|name| name.to_string_lossy().contains("-top-"))
        .collect()
}

#[test]
fn ctrl_c_ends_it_while_it_attaches() {
    need_root();
    let tmux = Tmux::start(&["top"]);
    tmux.wait_for("attaching to the kernel");
    tmux.keys(&["C-c"]);
    assert_eq!(tmux.ended(), 0);
}

#[test]
fn a_connection_that_breaks_leaves_nothing() {
    need_root();
    let others = in_memory();
    let tmux = Tmux::start(&["top"]);
    tmux.wait_for("live");
    assert!(!in_memory().is_subset(&others), "it records into memory");
    drop(tmux);
    wait_until("nothing is left in memory", || {
        in_memory().is_subset(&others)
    });
}

#[test]
fn without_a_terminal_it_says_so() {
    let output = run(&["top"]);
    assert_eq!(output.status.code(), Some(1));
    let says = stderr(&output);
    assert_eq!(says.lines().count(), 1, "{says}");
    assert!(says.contains("top needs a terminal"), "{says}");
}
