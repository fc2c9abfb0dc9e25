//! What any user of the host can do to root's recorder, and what the recorder can do with root's rights. Needs root.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{TCPWHY, arg, begin, finish, need_root, rows, stderr, tcpwhy, wait_until};
use recording::Recording;
use recording::tables::{InterfaceAddress, Process};
use rustix::process::{Pid, Signal, kill_process};

/// Listens, and says that its arguments are a terabyte of memory that nobody ever touched.
const CLAIMS: &str = include_str!("claims.c");
/// Makes so many network namespaces, each with a listener.
const NAMESPACES: &str = include_str!("namespaces.c");

/// A program of a stranger's; it ends when this is dropped.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds and runs it as nobody, until it says a line.
fn stranger(dir: &Path, source: &str, args: &[&str]) -> (Stranger, String) {
    let (text, program) = (dir.join("s.c"), dir.join("s"));
    fs::write(&text, source).unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-O1", "-o", arg(&program), arg(&text)]).status();
    assert!(built.unwrap().success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let child = command
        .arg(&program)
        .args(args)
        .stdout(Stdio::piped())
        .spawn();
    let mut stranger = Stranger(child.unwrap());
    let mut line = String::new();
    let out = stranger.0.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    (stranger, line.trim().to_string())
}

#[test]
fn arguments_of_a_terabyte_are_not_read() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let (stranger, said) = stranger(dir.path(), CLAIMS, &[]);
    assert_eq!(said, "claimed");
    let path = dir.path().join("r.tcpwhy");
    let child = begin(&path, &[]);
    wait_until("it has been sampled", || {
        let rows = rows::<Process>(&path);
        rows.iter().any(|p| p.pid == stranger.0.id())
    });
    finish(child);
    let manifest = Recording::open(&path).unwrap().manifest;
    assert!(manifest.complete);
    let rss = manifest.cost.max_rss_bytes;
    assert!(rss < 150 << 20, "{rss} bytes for a terabyte claimed");
    let rows = rows::<Process>(&path);
    assert!(rows.iter().all(|p| p.cmdline.len() <= 512));
}

#[test]
fn namespaces_of_a_stranger_keep_nobody_from_ending_it() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let (_stranger, said) = stranger(dir.path(), NAMESPACES, &["400"]);
    assert_eq!(said, "made 400");
    // While it attaches.
    let path = dir.path().join("early.tcpwhy");
    let mut command = tcpwhy(&["record", "-o", arg(&path), "--for", "600s"]);
    let mut early = command.stderr(Stdio::null()).spawn().unwrap();
    wait_until("it has begun", || path.join("manifest.json").exists());
    kill_process(Pid::from_raw(early.id() as i32).unwrap(), Signal::INT).unwrap();
    let ended = early.wait().unwrap();
    // Before the recording has begun there is nothing to keep.
    if path.exists() {
        assert!(ended.success());
        assert!(Recording::open(&path).unwrap().manifest.complete);
    } else {
        assert_eq!(ended.code(), Some(1));
    }
    // Of those that it does not come to at the end, it says how many.
    let path = dir.path().join("r.tcpwhy");
    finish(begin(&path, &[]));
    assert!(Recording::open(&path).unwrap().manifest.complete);
}

#[test]
fn addresses_of_one_namespace_are_bounded() {
    need_root();
    let netns = crate::common::live::Space::new("many");
    let lines: String = (0..5_000)
        .map(|n| {
            format!(
                "address add 10.{}.{}.{}/32 dev lo\n",
                n / 60_000,
                n / 250 % 240,
                n % 250
            )
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let batch = dir.path().join("batch");
    fs::write(&batch, lines).unwrap();
    netns.ip(&["-batch", arg(&batch)]);
    // A namespace without sockets and packets is not looked at.
    let _listener = netns.inside(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let path = dir.path().join("r.tcpwhy");
    let netns_arg = netns.inode().to_string();
    finish(begin(&path, &["--netns", &netns_arg]));
    let told = rows::<InterfaceAddress>(&path);
    assert_eq!(told.len(), 4_096);
}

#[test]
fn what_a_killed_recorder_was_to_pack_is_told_and_packed_by_who_asks() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let packed = dir.path().join("x.tcpw");
    let ready = dir.path().join("ready");
    let mut command = tcpwhy(&["record", "-o", arg(&packed), "--for", "600s"]);
    command
        .args(["--ready-file", arg(&ready)])
        .env("TMPDIR", &tmp);
    let mut killed = command.stderr(Stdio::null()).spawn().unwrap();
    wait_until("it records", || ready.exists());
    let live = || {
        let scratch = fs::read_dir(&tmp).unwrap().next()?.unwrap().path();
        Some(scratch.join("live.tcpwhy"))
    };
    wait_until("something is sealed", || {
        live().is_some_and(|at| at.join("counter/000001.parquet").exists())
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    let run = |args: &[&str]| tcpwhy(args).env("TMPDIR", &tmp).output().unwrap();
    // The next run of a verb that records says it, and leaves it.
    let next = run(&["stat", "counters"]);
    assert!(
        stderr(&next).contains("`tcpwhy record --recover`"),
        "{}",
        stderr(&next)
    );
    assert!(live().is_some_and(|at| at.exists()));
    let recovered = run(&["record", "--recover"]);
    assert!(recovered.status.success(), "{}", stderr(&recovered));
    assert!(run(&["explain", arg(&packed)]).status.success());
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
    let nothing = run(&["record", "--recover"]);
    assert_eq!(nothing.status.code(), Some(1));
}

#[test]
fn a_command_runs_as_who_called_sudo() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    for (more, uid) in [(&[][..], "65534"), (&["--as-root"][..], "0")] {
        let path = dir.path().join(format!("{uid}.tcpwhy"));
        let args = [&["record", "-o", arg(&path)], more, &["--", "id", "-u"]].concat();
        let mut command = tcpwhy(&args);
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
        let output = command.env("SUDO_USER", "nobody").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), uid);
    }
}

#[test]
fn threads_keep_the_rights_that_recording_takes() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let child = begin(&dir.path().join("r.tcpwhy"), &["--with", "explain"]);
    // CAP_SYS_MODULE and CAP_SYS_RAWIO, CAP_SETUID, CAP_DAC_OVERRIDE.
    const NEVER: u64 = 1 << 16 | 1 << 17 | 1 << 7 | 1 << 1;
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let mut of_ours = 0;
    for task in tasks.flatten() {
        let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if !read("comm").starts_with("tcpwhy:") {
            continue;
        }
        of_ours += 1;
        let status = read("status");
        let effective = status
            .lines()
            .find_map(|l| l.strip_prefix("CapEff:"))
            .unwrap();
        let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
        assert_eq!(effective & NEVER, 0, "{}", read("comm"));
    }
    assert!(of_ours > 5, "{of_ours}");
    finish(child);
}

#[test]
fn a_recording_ends_with_the_size_that_was_asked_for() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let args = [
        "record",
        "-o",
        arg(&path),
        "--for",
        "600s",
        "--max-size",
        "10K",
    ];
    let output = tcpwhy(&args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("as much as --max-size allows"));
    assert!(Recording::open(&path).unwrap().manifest.complete);
    assert!(
        Command::new(TCPWHY)
            .args(["explain", arg(&path)])
            .output()
            .unwrap()
            .status
            .success()
    );
}

#[test]
fn a_disk_is_not_filled_to_the_last_byte() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = |args: &[&str]| Command::new("mount").args(args).status().unwrap().success();
    assert!(mount(&[
        "-t",
        "tmpfs",
        "-o",
        "size=20m",
        "none",
        arg(&disk)
    ]));
    let path = disk.join("r.tcpwhy");
    let child = tcpwhy(&["record", "-o", arg(&path), "--for", "600s"])
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap();
    wait_until("it records", || path.join("counter").exists());
    // Somebody else fills it.
    fs::write(disk.join("other"), vec![1; 19 << 20]).unwrap();
    let output = child.wait_with_output().unwrap();
    let says = stderr(&output);
    let whole = Recording::open(&path).map(|r| r.manifest.complete);
    assert!(
        Command::new("umount")
            .arg(&disk)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(says.contains("MB are free on its disk"), "{says}");
    assert!(whole.unwrap(), "{says}");
}

#[test]
fn root_reads_and_writes_what_is_another_users() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let (path, file) = (home.join("r.tcpwhy"), home.join("r.tcpw"));
    for to in [&path, &file] {
        let output = tcpwhy(&["record", "-o", arg(to), "--for", "1s"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let owned = Command::new("chown")
        .args(["-R", "65534", arg(&home)])
        .status();
    assert!(owned.unwrap().success());
    fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let page = home.join("page.html");
    for args in [
        &["explain", arg(&path)][..],
        &["explain", arg(&file)],
        &["report", arg(&file), "-o", arg(&page)],
        &["stat", "counters", "--from", arg(&path)],
    ] {
        let output = tcpwhy(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
    assert!(page.exists());
}
