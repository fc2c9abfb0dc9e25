//! Recording from within namespaces of its own: right, or it says what is not.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{TCPWHY, arg, json_lines, need_root, rows, stderr, stdout, wait_until};
use recording::tables::{Event, Health, Holder, Listener, Process};
use recording::{Recording, Verdict};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

fn in_namespace(unshare: &[&str], args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(unshare).arg(TCPWHY).args(args);
    command.env("NO_COLOR", "1");
    command
}

fn run_in(unshare: &[&str], args: &[&str]) -> Output {
    in_namespace(unshare, args).output().unwrap()
}

/// Records from inside while there is a connection on the outside.
fn record_in(unshare: &[&str], path: &Path) {
    let ready = path.with_extension("ready");
    let args = ["record", "-o", arg(path), "--for", "120s"];
    let args = [&args[..], &["--ready-file", arg(&ready)]].concat();
    let mut child = in_namespace(unshare, &args)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the recording begins", || ready.exists());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    drop(TcpStream::connect(at).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    server.read_to_end(&mut Vec::new()).unwrap();
    drop(server);
    // unshare waits for the recorder, its only child.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let recorder = std::fs::read_to_string(children).unwrap();
    let recorder = recorder.trim().parse().unwrap();
    kill_process(Pid::from_raw(recorder).unwrap(), Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
}

fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[test]
fn in_a_time_namespace_all_times_are_the_hosts() {
    need_root();
    for offset in ["100000", "-5"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.tcpwhy");
        let before = now();
        record_in(&["--fork", "-T", "--monotonic", offset], &path);
        let times = before..now();
        let manifest = Recording::open(&path).unwrap().manifest;
        assert!(times.contains(&manifest.start_ns), "{offset}");
        assert!(times.contains(&manifest.end_ns), "{offset}");
        let events = rows::<Event>(&path).into_iter().map(|e| e.time_ns);
        let listeners = rows::<Listener>(&path).into_iter().map(|l| l.time_ns);
        let (events, listeners): (Vec<u64>, Vec<u64>) = (events.collect(), listeners.collect());
        assert!(!events.is_empty() && !listeners.is_empty());
        for time in events.iter().chain(&listeners) {
            assert!(times.contains(time), "{offset}: {time} of {times:?}");
        }
        let wall = clock_gettime(ClockId::Realtime).tv_sec * 1_000_000_000;
        let said = manifest.end_ns as i64 + manifest.clock_offset_ns;
        assert!(
            (wall - said).abs() < 60_000_000_000,
            "{offset}: {wall} {said}"
        );
    }
}

const PID: &[&str] = &["--pid", "--fork", "--mount-proc"];

#[test]
fn in_a_pid_namespace_it_says_that_owners_are_not_told() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    record_in(PID, &path);
    let manifest = Recording::open(&path).unwrap().manifest;
    for name in ["holders", "processes", "owners", "cgroups", "namespaces"] {
        let source = manifest
            .sources
            .iter()
            .find(|s| s.name.as_str() == name)
            .unwrap();
        let not = matches!(&source.verdict, Verdict::Unsupported(_));
        assert!(not, "{name}: {:?}", source.verdict);
    }
    let notes = rows::<Health>(&path);
    assert!(
        notes.iter().any(|h| h.detail.contains("--pid=host")),
        "{notes:?}"
    );
    // A process of the host is not taken for one of here that has its number.
    assert!(rows::<Process>(&path).is_empty());
    let here = |h: &Holder| h.pid != 1;
    assert!(rows::<Holder>(&path).iter().all(here));

    let text = stdout(&run_in(PID, &["doctor"]));
    assert!(text.contains("PID namespace of its own"), "{text}");
    let checkup = &json_lines(&run_in(PID, &["doctor", "--json"]))[0];
    let sources = checkup["sources"].as_array().unwrap();
    let holders = sources.iter().find(|s| s["name"] == "holders").unwrap();
    assert_eq!(holders["verdict"]["is"], "unsupported");

    let output = dir.path().join("none.tcpwhy");
    let output = run_in(PID, &["record", "-o", arg(&output), "--pid", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--pid cannot be used here"));
}

#[test]
fn in_the_hosts_namespaces_there_is_nothing_to_say() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    record_in(&["--fork"], &path);
    let manifest = Recording::open(&path).unwrap().manifest;
    let namespaces = manifest
        .sources
        .iter()
        .find(|s| s.name.as_str() == "namespaces");
    assert_eq!(namespaces.unwrap().verdict, Verdict::Attached);
    assert!(!rows::<Holder>(&path).is_empty() && !rows::<Process>(&path).is_empty());
    let of_host = |h: &Health| h.source.as_str() == "host";
    assert!(!rows::<Health>(&path).iter().any(of_host));
}

#[test]
fn in_a_user_namespace_it_names_that() {
    need_root();
    let text = stdout(&run_in(&["--user", "--map-root-user"], &["doctor"]));
    assert!(text.contains("user namespace of its own"), "{text}");
}
