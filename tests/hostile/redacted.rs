//! `--redact`: what is said of a recording holds none of its addresses and names; and secrets in
//! command lines of recordings that are older than scrubbing are not shown either.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{arg, run, stderr, stdout};
use recording::tables::{Counter, Event, Frame, Health, Holder, Listener, Process, Resource};
use recording::tables::{Sample, Socket, Stack, Thread};
use recording::{
    Addr, EventKind, FORMAT, HealthKind, Host, Manifest, Namespace, Source, SourceName, TcpState,
    Verdict, Writer,
};

/// Everything in the recording that tells whose it is.
const NAMES: &[&str] = &[
    "dbhost7",
    "bluespace",
    "plumspace",
    "frobnicator",
    "gizmod",
    "198.51.100.77",
    "203.0.113.9",
    "10.77.66.55",
    "2001:db8:dead",
    "/srv/acme",
    "acmeslice",
    "hunter2secret",
    "joesmith",
    "b007-1d",
];

fn v4(text: &str) -> Addr {
    Addr::from(text.parse::<std::net::IpAddr>().unwrap())
}

fn manifest() -> Manifest {
    Manifest {
        format: FORMAT,
        tcpwhy: "0.6.0".into(),
        producer: "live".into(),
        complete: true,
        host: Host {
            name: "dbhost7.example.org".into(),
            kernel: "6.18.0".into(),
            boot_id: "b007-1d".into(),
            hz: Some(1000),
            cpus: 2,
            ..Host::default()
        },
        start_ns: 1,
        end_ns: 10_000_000_000,
        command_line: [
            "tcpwhy",
            "record",
            "-o",
            "/home/joesmith/x",
            "--",
            "gizmod",
            "--pw=hunter2secret",
        ]
        .map(String::from)
        .to_vec(),
        namespaces: vec![Namespace {
            inode: 7,
            name: "bluespace".into(),
        }],
        sources: vec![Source::optional(
            SourceName::Ports,
            "ports in use",
            Verdict::Failed("bluespace: cannot connect to 198.51.100.77:80".into()),
        )],
        ..Manifest::default()
    }
}

macro_rules! put {
    ($writer:expr, $($row:expr),+ $(,)?) => {{
        $( let mut table = $writer.table().unwrap(); for row in $row { table.push(row).unwrap(); } table.seal().unwrap(); )+
    }};
}

/// A listener whose accept queue overflows, and what is around it.
fn made(dir: &Path) -> PathBuf {
    let path = dir.join("dbhost7-incident.tcpwhy");
    let writer = Writer::create(&path, &manifest()).unwrap();
    let second = 1_000_000_000;
    let (local, remote) = (v4("10.77.66.55"), v4("198.51.100.77"));
    let times = || (1..10u64).map(move |s| s * second);
    let event = |time_ns: u64, i: u64, old: TcpState, state: TcpState| Event {
        time_ns,
        kind: EventKind::State,
        netns: 7,
        sock: Some(100 + i),
        family: 4,
        local_addr: local,
        local_port: 4_000 + i as u16,
        remote_addr: if i.is_multiple_of(2) {
            remote
        } else {
            v4("203.0.113.9")
        },
        remote_port: 80,
        old_state: Some(old),
        state: Some(state),
        pid: Some(70),
        comm: Some("frobnicator".into()),
        ..Event::default()
    };
    put!(
        writer,
        (0..200u64).flat_map(|i| {
            let at = second + i * 1_000_000;
            let drop = Event {
                kind: EventKind::Drop,
                reason: Some("TCP_OVERFLOW".into()),
                ..event(at + 3, i, TcpState::default(), TcpState::Listen)
            };
            [
                event(at, i, TcpState::Close, TcpState::SynSent),
                event(at + 2, i, TcpState::SynSent, TcpState::Established),
                drop,
            ]
        }),
        times().map(|time_ns| Listener {
            time_ns,
            netns: 7,
            sock: 5,
            inode: Some(55),
            family: 4,
            local_addr: remote,
            local_port: 80,
            accept_queue: 11,
            backlog: 10,
            drops: (time_ns / second) as u32 * 20 - 20,
            ..Listener::default()
        }),
        times().map(|time_ns| Holder {
            time_ns,
            inode: 55,
            pid: 71,
            comm: "gizmod".into(),
            fd: 3
        }),
        times().map(|time_ns| Process {
            time_ns,
            pid: 71,
            comm: "gizmod".into(),
            cmdline: "gizmod --root /srv/acme --addr 203.0.113.9".into(),
            state: "S".into(),
            cgroup_path: "/acmeslice/gizmod".into(),
            ..Process::default()
        }),
        times().map(|time_ns| Thread {
            time_ns,
            interval_ns: second,
            pid: 71,
            tid: 72,
            comm: "gizmod".into(),
            user_ns: second,
            ..Thread::default()
        }),
        times().map(|time_ns| Socket {
            time_ns,
            netns: 7,
            sock: 300,
            family: 6,
            state: TcpState::Established,
            local_addr: v4("2001:db8:dead::1"),
            remote_addr: v4("2001:db8:dead::2"),
            local_port: 80,
            remote_port: 5_000,
            congestion: Some("cubic".into()),
            cwnd: Some(10),
            ..Socket::default()
        }),
        times().flat_map(|time_ns| {
            ["/acmeslice/gizmod", "gizmod/71"].map(|instance| Resource {
                time_ns,
                resource: "descriptors".into(),
                instance: instance.into(),
                aspect: "utilisation".into(),
                metric: "open".into(),
                value: 9.0,
                unit: "count".into(),
                limit: Some(10.0),
                ..Resource::default()
            })
        }),
        times().map(|time_ns| Counter {
            time_ns,
            netns: 7,
            group: "TcpExt".into(),
            name: "ListenOverflows".into(),
            value: (time_ns / second) as i64 * 20,
            delta: Some(20),
        }),
        [
            "bluespace on dbhost7: 203.0.113.9:443 was not read",
            // No manifest names it: it could not be visited.
            "namespace plumspace could not be visited: the namespace is gone",
            "functions of /srv/acme/bin/gizmod (process 71) are not named: it is behind a link",
        ]
        .map(|detail| Health {
            time_ns: second,
            source: SourceName::Holders,
            what: HealthKind::Partial,
            count: 1,
            detail: detail.into(),
        }),
        times().map(|time_ns| Sample {
            time_ns,
            pid: 71,
            tid: 71,
            comm: "gizmod".into(),
            user_stack: Some(1),
            ..Sample::default()
        }),
        [Stack {
            time_ns: 1,
            stack: 1,
            depth: 0,
            frame: 1
        }],
        [Frame {
            time_ns: 1,
            frame: 1,
            function: "main".into(),
            module: "/srv/acme/bin/gizmod".into(),
            offset: 3,
        }],
    );
    path
}

/// Every way of telling; each also without `--redact`.
const TELLS: &[&[&str]] = &[
    &["explain", "R", "--rows"],
    &["explain", "R", "--json"],
    &["report", "R", "--json"],
    &["report", "R", "R", "--json"],
    &["flame", "R"],
    &["flame", "R", "--folded"],
    &["stat", "sockets", "--from", "R"],
    &["stat", "listeners", "--from", "R", "--json"],
    &["stat", "threads", "--from", "R", "--all"],
    &["stat", "use", "--from", "R"],
    &["stat", "counters", "--from", "R"],
    &["trace", "states", "--from", "R"],
    &["trace", "drops", "--from", "R", "--json"],
    &["trace", "connects", "--from", "R"],
];

fn tell(verb: &[&str], recording: &Path, more: &[&str]) -> String {
    let args = verb
        .iter()
        .map(|a| if *a == "R" { arg(recording) } else { a });
    let args: Vec<&str> = args.chain(more.iter().copied()).collect();
    let output = run(&args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    // What is complained about is read, too.
    stdout(&output) + &stderr(&output)
}

#[test]
fn no_name_and_no_address_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = made(dir.path());
    let mut shown = String::new();
    for verb in TELLS {
        shown += &tell(verb, &path, &[]);
        let redacted = tell(verb, &path, &["--redact"]);
        assert!(!redacted.is_empty(), "{verb:?}");
        for name in NAMES {
            assert!(!redacted.contains(name), "{verb:?} {name}: {redacted}");
        }
    }
    // What is looked for would be found.
    for name in NAMES
        .iter()
        .filter(|n| !["hunter2secret", "b007-1d"].contains(n))
    {
        assert!(
            shown.contains(name),
            "{name} is not shown without --redact either"
        );
    }
    let page = dir.path().join("page.html");
    tell(&["report", "R", "-o", arg(&page)], &path, &["--redact"]);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("addresses and names are pseudonyms"));
    NAMES
        .iter()
        .for_each(|name| assert!(!html.contains(name), "{name}"));
}

#[test]
fn the_same_is_found_and_the_page_says_that_it_is_redacted() {
    let dir = tempfile::tempdir().unwrap();
    let path = made(dir.path());
    let causes = |text: &str| {
        let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
        let findings = lines.filter_map(|l: serde_json::Value| {
            Some((
                l["cause"].as_str()?.to_string(),
                l["impact"]["affected"].as_u64(),
            ))
        });
        findings.collect::<Vec<_>>()
    };
    let json = |more: &[&str]| tell(&["explain", "R", "--json"], &path, more);
    let (open, redacted) = (json(&[]), json(&["--redact"]));
    assert_eq!(causes(&open), causes(&redacted));
    assert!(!causes(&open).is_empty(), "{open}");
    assert!(redacted.contains("\"redacted\":true") && !open.contains("\"redacted\""));
    let text = tell(&["explain", "R"], &path, &["--redact"]);
    assert!(
        text.contains("addresses and names are pseudonyms"),
        "{text}"
    );
    assert_eq!(
        text,
        tell(&["explain", "R"], &path, &["--redact"]),
        "the same each time"
    );
}

#[test]
fn filters_ask_for_what_there_is_not_for_pseudonyms() {
    let dir = tempfile::tempdir().unwrap();
    let path = made(dir.path());
    let lines = |more: &[&str]| {
        let told = tell(&["trace", "states", "--from", "R", "--json"], &path, more);
        told.lines().filter(|l| l.contains("\"state")).count()
    };
    for asked in [
        &["--addr", "203.0.113.9"][..],
        &["--addr", "203.0.113.0/24"],
        &["--comm", "frobnicator"],
        &["--netns", "bluespace"],
    ] {
        let open = lines(asked);
        assert!(open > 0, "{asked:?}");
        assert_eq!(lines(&[asked, &["--redact"]].concat()), open, "{asked:?}");
    }
}

#[test]
fn secrets_of_an_older_recording_are_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = made(dir.path());
    // As it was written before secrets were scrubbed.
    let manifest = path.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(
        !text.contains("hunter2secret"),
        "scrubbed when written: {text}"
    );
    let text = text.replace("--pw=***", "--pw=hunter2secret");
    assert!(text.contains("hunter2secret"));
    fs::write(&manifest, text).unwrap();
    let secret =
        "gizmod --root /srv/acme --db-password=hunter2secret https://joe:hunter2secret@db/";
    hostile::set_texts(&path.join("process/000001.parquet"), "cmdline", secret).unwrap();
    for verb in TELLS {
        let told = tell(verb, &path, &[]);
        assert!(!told.contains("hunter2secret"), "{verb:?}: {told}");
    }
    let told = tell(&["explain", "R", "--full"], &path, &[]);
    assert!(told.contains("--db-password=***"), "{told}");
    assert!(tell(&["report", "R", "--json"], &path, &[]).contains("--pw=***"));
}
