//! A recording of a live host, and the directories that are made on the way, are their owner's alone;
//! they hold no secret of a command line, and, redacted, no name.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{TCPWHY, arg, begin, finish, need_root, rows, run, stderr, tcpwhy, wait_until};
use recording::tables::{Event, Listener, Process};

/// Everything below a directory, with itself.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_path_buf()];
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            all.extend(below(&entry.path()))
        } else {
            all.push(entry.path())
        }
    }
    all
}

/// Nobody but its owner can do anything with any of it.
fn is_private(dir: &Path) {
    for path in below(dir) {
        let meta = fs::symlink_metadata(&path).unwrap();
        let mode = meta.permissions().mode() & 0o7777;
        let expected = if meta.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
}

/// The same command with a umask that takes nothing away.
fn open_umask(args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$@\"", "sh", TCPWHY]);
    command.args(args);
    command
}

#[test]
fn recordings_and_temporary_directories_are_their_owners_alone() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let args = ["record", "-o", arg(&path), "--for", "1s"];
    let output = open_umask(&args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    is_private(&path);

    let (tmp, ready) = (dir.path().join("tmp"), dir.path().join("ready"));
    fs::create_dir(&tmp).unwrap();
    let args = ["explain", "--for", "60s", "--ready-file", arg(&ready)];
    let mut explain = open_umask(&args);
    let explain = explain.env("TMPDIR", &tmp).stdout(Stdio::null());
    let child = explain.spawn().unwrap();
    wait_until("explain begins", || ready.exists());
    let made: Vec<_> = fs::read_dir(&tmp)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(made.len(), 1, "{made:?}");
    is_private(&made[0]);
    finish(child);
}

/// A process that listens, with a secret in its command line; it ends with its standard input.
fn server(secret: &str) -> (Child, u16) {
    // The socket is ours and its: it is inherited as standard output.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let child = Command::new("sh")
        .args([
            "-c",
            "read wait",
            "server",
            &format!("--db-password={secret}"),
        ])
        .args(["--token", secret, "--verbose"])
        .stdin(Stdio::piped())
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .spawn()
        .unwrap();
    (child, port)
}

#[test]
fn no_secret_of_a_command_line_is_recorded() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let secret = "S3cr3tOfTheServer";
    let (mut server, _) = server(secret);
    let command = "exec sleep 1 # Authorization: Bearer S3cr3tOfTheCommand";
    let args = ["record", "-o", arg(&path), "--", "sh", "-c", command];
    let output = tcpwhy(&args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    drop(server.stdin.take());
    server.wait().unwrap();
    let seen = rows::<Process>(&path);
    let ours: Vec<_> = seen.iter().filter(|p| p.pid == server.id()).collect();
    assert!(!ours.is_empty(), "the server was not seen: {seen:?}");
    for process in ours {
        let line = &process.cmdline;
        assert!(
            line.ends_with("--db-password=*** --token *** --verbose"),
            "{line}"
        );
    }
    let manifest = fs::read_to_string(path.join("manifest.json")).unwrap();
    assert!(manifest.contains("Authorization: ***"), "{manifest}");
    // Not in the files either, whatever is done when they are read.
    for file in below(&path).iter().filter(|f| f.is_file()) {
        let bytes = fs::read(file).unwrap();
        let found = bytes.windows(6).any(|w| w == b"S3cr3t");
        assert!(!found, "{}", file.display());
    }
}

#[test]
fn a_redacted_recording_holds_no_name() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    // An address of its own, that is not a loopback's.
    let netns = format!("tcpwhy-t{}", std::process::id());
    let ip = |args: &[&str]| assert!(Command::new("ip").args(args).status().unwrap().success());
    struct Remove(String);
    impl Drop for Remove {
        fn drop(&mut self) {
            let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
        }
    }
    ip(&["netns", "add", &netns]);
    let _remove = Remove(netns.clone());
    ip(&["-n", &netns, "link", "set", "lo", "up"]);
    ip(&["-n", &netns, "addr", "add", "198.51.100.77/32", "dev", "lo"]);
    let more = ["--redact", "--netns", &netns];
    let recorder = begin(&path, &more);
    let connect = "exec 3<>/dev/tcp/198.51.100.77/1 || true";
    for _ in 0..5 {
        let bash = ["netns", "exec", &netns, "bash", "-c", connect];
        let refused = Command::new("ip").args(bash).stderr(Stdio::null()).status();
        refused.unwrap();
    }
    finish(recorder);
    let events = rows::<Event>(&path);
    assert!(
        events.iter().any(|e| e.remote_port == 1),
        "nothing was recorded"
    );
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    for event in &events {
        let addrs = [event.local_addr, event.remote_addr].map(|a| a.to_string());
        assert!(!addrs.contains(&"198.51.100.77".to_string()), "{event:?}");
        let comm = event.comm.as_deref().unwrap_or_default();
        assert!(comm.is_empty() || comm.starts_with("prog-"), "{event:?}");
    }
    drop(rows::<Listener>(&path));
    let manifest = fs::read_to_string(path.join("manifest.json")).unwrap();
    for name in [&netns, &host] {
        assert!(
            name.len() < 3 || !manifest.contains(name.as_str()),
            "{name}: {manifest}"
        );
    }
    let output = run(&["explain", arg(&path)]);
    let text = crate::common::stdout(&output);
    assert!(
        text.contains("addresses and names are pseudonyms"),
        "{text}"
    );
    assert!(
        !text.contains("198.51.100.77") && !text.contains(&netns),
        "{text}"
    );
}
