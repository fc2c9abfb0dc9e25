//! The views on the live host, against what the kernel itself counts, in quiet namespaces.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{arg, json_lines, root, run, stderr, stdout, tcpwhy, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A network namespace of the test's own, removed when dropped.
struct Netns(String);

impl Netns {
    fn new() -> Netns {
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let netns = Netns(format!("tcpwhy-view-{}-{nth}", std::process::id()));
        ip(&["netns", "add", &netns.0]);
        ip(&["-n", &netns.0, "link", "set", "lo", "up"]);
        netns
    }

    /// What is sent to 10.9.0.2 vanishes.
    fn with_hole() -> Netns {
        let netns = Netns::new();
        let ip = |args: &str| {
            let args: Vec<&str> = args.split(' ').collect();
            ip(&[&["-n", netns.0.as_str()], args.as_slice()].concat());
        };
        ip("link add hole type veth peer name bottom");
        ip("addr add 10.9.0.1/24 dev hole");
        ip("link set hole up");
        ip("link set bottom up");
        // Nobody has this hardware address.
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:99 dev hole nud permanent");
        netns
    }

    /// Runs `inside` in a thread of this process that has entered the namespace.
    fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let enter = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind).unwrap();
            inside()
        };
        thread::scope(|s| s.spawn(enter).join().unwrap())
    }

    /// Every counter of the namespace.
    fn counters(&self) -> BTreeMap<String, i64> {
        self.run(|| {
            let mut all = BTreeMap::new();
            for file in ["snmp", "netstat"] {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
                let lines: Vec<&str> = text.lines().collect();
                for pair in lines.chunks(2) {
                    let (names, values) = (pair[0].split(' '), pair[1].split(' '));
                    let group = pair[0].split(':').next().unwrap();
                    for (name, value) in names.zip(values).skip(1) {
                        all.insert(format!("{group}.{name}"), value.parse().unwrap());
                    }
                }
            }
            all
        })
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success());
}

/// A view that is watching.
struct Watching(Child);

impl Watching {
    fn begin(args: &[&str]) -> Watching {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let mut args = args.to_vec();
        args.extend(["--ready-file", arg(&ready)]);
        let mut command = tcpwhy(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        wait_until("watching begins", || ready.exists());
        Watching(child)
    }

    /// Ctrl-C, and all that it printed; the last line of JSON, which says what was lost, apart.
    fn end(self) -> (Vec<Value>, Value) {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), Signal::INT).unwrap();
        let output = self.0.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let mut lines = json_lines(&output);
        let health = lines.pop().expect("a last line");
        assert_eq!(health["type"], "health");
        (lines, health)
    }

    /// The same of a run in which nothing may be lost.
    fn whole(self) -> Vec<Value> {
        let (lines, health) = self.end();
        assert_eq!(health["lost"], 0, "{health}");
        lines
    }
}

/// Opens `n` connections that the client closes first; both ends are in the namespace.
fn connections(netns: &Netns, host: &str, n: usize) -> u16 {
    netns.run(|| {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        for _ in 0..n {
            let client = TcpStream::connect(at).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            drop(client);
            assert_eq!(server.read(&mut [0; 16]).unwrap(), 0);
        }
        at.port()
    })
}

fn count(lines: &[Value], is: impl Fn(&Value) -> bool) -> usize {
    lines.iter().filter(|l| is(l)).count()
}

#[test]
fn retransmits_are_those_that_the_kernel_counts() {
    if !root() {
        return;
    }
    let netns = Netns::with_hole();
    let before = netns.counters();
    let view = Watching::begin(&["trace", "retransmits", "--json", "--netns", &netns.0]);
    netns.run(|| {
        let connect = |i: u16| {
            move || {
                let to = SocketAddr::from(([10, 9, 0, 2], 1000 + i));
                let failed = TcpStream::connect_timeout(&to, Duration::from_millis(1_500));
                assert!(failed.is_err());
            }
        };
        // Threads are in the namespace of the one that starts them.
        let all: Vec<_> = (0..20).map(|i| thread::spawn(connect(i))).collect();
        all.into_iter().for_each(|t| t.join().unwrap());
    });
    let after = netns.counters();
    let lines = view.whole();
    let counted = after["Tcp.RetransSegs"] - before["Tcp.RetransSegs"];
    assert!(counted >= 20);
    assert_eq!(lines.len() as i64, counted);
    for line in &lines {
        assert_eq!(line["pid"], std::process::id(), "{line}");
        assert_eq!(
            (&line["kind"], &line["state"]),
            (&"syn".into(), &"SYN_SENT".into())
        );
        assert!(line["attempt"].as_u64().unwrap() >= 1);
        assert_eq!(line["remote_addr"], "10.9.0.2");
        assert_eq!(line["netns_name"], netns.0);
    }
    assert_eq!(count(&lines, |l| l["attempt"] == 1), 20);
}

#[test]
fn resets_of_refused_connects_name_both_sides() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let before = netns.counters();
    let view = Watching::begin(&["trace", "resets", "--json", "--netns", &netns.0]);
    netns.run(|| {
        for port in 1..=10 {
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        }
    });
    let after = netns.counters();
    let lines = view.whole();
    let sent = count(&lines, |l| l["sent_by"] == "this-host");
    assert_eq!(sent as i64, after["Tcp.OutRsts"] - before["Tcp.OutRsts"]);
    let whence = |l: &Value| {
        let stack = l["stack"].as_array().into_iter().flatten();
        let mut functions = stack.filter_map(Value::as_str);
        functions.any(|f| f.starts_with("tcp_v4_send_reset+0x"))
    };
    assert_eq!(count(&lines, whence), 10, "who sent it: {lines:?}");
    let received = |l: &Value| {
        let refused = l["sent_by"] == "peer" && l["state"] == "SYN_SENT";
        refused && l["pid"] == std::process::id()
    };
    assert_eq!((sent, count(&lines, received)), (10, 10), "{lines:?}");
}

/// Connections one after the other from port 40000; the server closes first and waits.
fn from_one_port(netns: &Netns, n: usize, bytes: usize) {
    use rustix::net::{AddressFamily, SocketType, bind, connect, ipproto, socket, sockopt};
    netns.run(|| {
        fs::write("/proc/sys/net/ipv4/tcp_timestamps", "0").unwrap();
        let listener = TcpListener::bind("127.0.0.1:7000").unwrap();
        let server = listener.try_clone().unwrap();
        let serving = thread::spawn(move || {
            for _ in 0..n {
                let (mut conn, _) = server.accept().unwrap();
                conn.read_exact(&mut vec![0; bytes]).unwrap();
            }
        });
        for _ in 0..n {
            let tcp = Some(ipproto::TCP);
            let client = socket(AddressFamily::INET, SocketType::STREAM, tcp).unwrap();
            sockopt::set_socket_reuseaddr(&client, true).unwrap();
            bind(&client, &SocketAddr::from(([127, 0, 0, 1], 40_000))).unwrap();
            connect(&client, &listener.local_addr().unwrap()).unwrap();
            let mut client = TcpStream::from(client);
            client.write_all(&vec![7; bytes]).unwrap();
            assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        }
        serving.join().unwrap();
    });
}

/// Without timestamps a SYN is judged by its sequence number, which the kernel moves on by one in
/// 64 ns: after an upload faster than that it lies below what the TIME_WAIT socket expects.
#[test]
fn syns_that_meet_time_wait_make_it_go_or_are_refused() {
    if !root() {
        return;
    }
    for (bytes, verdict) in [(50_000_000, "refused-sequence"), (100, "accepted")] {
        let netns = Netns::new();
        let view = Watching::begin(&["trace", "timewait", "--json", "--netns", &netns.0]);
        from_one_port(&netns, 4, bytes);
        let lines = view.whole();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for line in &lines {
            assert_eq!(line["verdict"], verdict, "{line}");
            assert_eq!(
                (&line["src_port"], &line["dst_port"]),
                (&40_000.into(), &7000.into())
            );
            assert_eq!(line["pid"], std::process::id());
            assert_eq!(line["flags"], 2);
            assert!(line["time_wait_age_ms"].as_u64().unwrap() < 60_000);
        }
    }
}

/// The first case: a server that sleeps because the client's SYN was lost, and what woke it.
#[test]
fn a_sleep_is_walked_to_the_syn_that_was_sent_again() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let rule = "add table ip lose; \
        add chain ip lose in { type filter hook input priority 0; }; \
        add rule ip lose in tcp dport 7002 tcp flags & (syn | ack) == syn \
        limit rate 1/day burst 1 packets drop";
    ip(&["netns", "exec", &netns.0, "nft", rule]);
    let filter = [
        "--netns",
        &netns.0,
        "--pid",
        &std::process::id().to_string(),
    ];
    let all = ["trace", "wakeups", "500ms", "--json"];
    let view = Watching::begin(&[&all[..], &filter[..]].concat());
    let client = netns.run(|| {
        let listener = TcpListener::bind("127.0.0.1:7002").unwrap();
        let at = listener.local_addr().unwrap();
        let accepting = thread::spawn(move || listener.accept().unwrap());
        let client = TcpStream::connect(at).unwrap();
        accepting.join().unwrap();
        client.local_addr().unwrap()
    });
    let lines = view.whole();
    let accept = lines.iter().find(|l| l["cause"]["receiver_port"] == 7002);
    let accept = accept.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(accept["waker"], "softirq", "{accept}");
    assert!(
        accept["waited_ns"].as_u64().unwrap() > 900_000_000,
        "{accept}"
    );
    let stack = accept["waker_stack"].as_array().unwrap();
    for function in ["sock_def_readable+0x", "tcp_v4_rcv+0x"] {
        let is = |f: &Value| f.as_str().unwrap().starts_with(function);
        assert!(stack.iter().any(is), "{function}: {stack:?}");
    }
    let cause = &accept["cause"];
    assert_eq!(cause["retransmission"], 1);
    assert_eq!(cause["sender_state"], "SYN_SENT");
    assert_eq!(cause["sender_port"], client.port());
    let says = cause["says"].as_str().unwrap();
    let named = format!("woken by retransmission 1 (SYN_SENT) of {client} → 127.0.0.1:7002, sent ");
    assert!(says.starts_with(&named), "{says}");
}

#[test]
fn threads_and_cpus_sum_to_the_whole() {
    if !root() {
        return;
    }
    let output = run(&[
        "stat", "threads", "300ms", "2", "--all", "--sleeps", "--json",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = json_lines(&output);
    let threads = lines.iter().filter(|l| l["type"] == "thread");
    let mut n = 0;
    for t in threads {
        let parts = [
            "user", "system", "runqueue", "sleep", "lock", "disk", "fault", "stopped",
        ];
        let sum: f64 = parts
            .iter()
            .map(|p| t[format!("{p}_percent")].as_f64().unwrap())
            .sum();
        assert!((sum - 100.0).abs() <= 1.0, "{sum}: {t}");
        n += 1;
    }
    assert!(n > 0);
    let output = run(&["stat", "cpus", "300ms", "3", "--json"]);
    let lines = json_lines(&output);
    let cpus = lines.iter().filter(|l| l["type"] == "cpu");
    for c in cpus.clone() {
        let parts = [
            "user", "nice", "system", "iowait", "irq", "softirq", "steal", "idle",
        ];
        let sum: f64 = parts
            .iter()
            .map(|p| c[format!("{p}_percent")].as_f64().unwrap())
            .sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}: {c}");
    }
    assert_eq!(
        cpus.filter(|c| c["cpu"].is_null()).count(),
        3,
        "all together, three times"
    );
}

#[test]
fn accepts_tell_how_long_the_queue_held_them() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let accepts = Watching::begin(&["trace", "accepts", "--json", "--netns", &netns.0]);
    let connects = Watching::begin(&["trace", "connects", "--json", "--netns", &netns.0]);
    netns.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        thread::sleep(Duration::from_millis(300));
        listener.accept().unwrap();
        drop(client);
        assert!(TcpStream::connect("127.0.0.1:1").is_err());
        assert!(TcpStream::connect("10.66.0.1:1").is_err(), "no route");
    });
    let lines = accepts.whole();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["result"], "accepted");
    assert!(lines[0]["queued_ns"].as_u64().unwrap() >= 300_000_000);
    let lines = connects.whole();
    let results: Vec<&str> = lines
        .iter()
        .map(|l| l["result"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["established", "ECONNREFUSED", "ENETUNREACH"]);
    assert!(lines[0]["port_search_ns"].as_u64().is_some(), "{lines:?}");
}

#[test]
fn the_host_as_a_whole_has_tables_and_a_checklist() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let output = run(&["stat", "tables", "--json", "--netns", &netns.0]);
    let lines = json_lines(&output);
    let has = |structure: &str| lines.iter().any(|l| l["structure"] == structure);
    assert!(has("ehash") && has("time-wait"), "{lines:?}");
    let output = run(&["stat", "use", "200ms", "2", "--json"]);
    let lines = json_lines(&output);
    for (resource, aspect) in [
        ("cpu", "utilisation"),
        ("memory", "utilisation"),
        ("network", "errors"),
    ] {
        let is = |l: &&Value| l["resource"] == resource && l["aspect"] == aspect;
        assert!(lines.iter().any(|l| is(&l)), "{resource} {aspect}");
    }
    let counts = lines.iter().filter(|l| l["cumulative"] == true);
    assert!(counts.clone().count() > 0);
    // Instances that are new have no rate yet; those of the whole host have.
    for line in counts.filter(|l| l["resource"] == "cpu") {
        assert!(line["per_s"].is_f64(), "{line}");
    }
}

#[test]
fn handshakes_connects_accepts_and_states_of_plain_connections() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let with = |view: &str| Watching::begin(&["trace", view, "--json", "--netns", &netns.0]);
    let views = ["handshakes", "connects", "accepts", "states"].map(|v| (v, with(v)));
    let four = connections(&netns, "127.0.0.1", 30);
    let six = connections(&netns, "::1", 20);
    let lines: BTreeMap<&str, Vec<Value>> = views
        .into_iter()
        .map(|(v, watching)| (v, watching.whole()))
        .collect();
    let me = |l: &&Value| l["pid"] == std::process::id();

    let handshakes = &lines["handshakes"];
    assert_eq!(handshakes.len(), 100);
    assert_eq!(
        handshakes.iter().filter(me).count(),
        100,
        "listener's and client's owner"
    );
    for (side, port, n) in [
        ("local_port", four, 30),
        ("remote_port", four, 30),
        ("local_port", six, 20),
    ] {
        assert_eq!(count(handshakes, |l| l[side] == port), n, "{side} {port}");
    }
    let agreed = |l: &Value| l["result"] == "established" && l["sack"] == true;
    assert_eq!(count(handshakes, agreed), 100);
    let took = |l: &Value| l["side"] == "connect" && l["took_ns"].as_u64() > Some(0);
    assert_eq!(count(handshakes, took), 50);
    assert_eq!(lines["connects"].len(), 50);
    assert_eq!(lines["accepts"].len(), 50);
    assert_eq!(
        count(&lines["connects"], |l| l["result"] == "established"),
        50
    );

    let states = &lines["states"];
    let change =
        |old: &str, new: &str| count(states, |l| l["old_state"] == old && l["state"] == new);
    assert_eq!(change("CLOSE", "LISTEN"), 2);
    assert_eq!(
        change("ESTABLISHED", "FIN_WAIT1"),
        50,
        "all steps of the close"
    );
    assert_eq!(change("LAST_ACK", "CLOSE"), 50);
    let timed =
        |l: &Value| l["old_state"] == "SYN_SENT" && l["in_old_state_ms"].as_f64() > Some(0.0);
    assert_eq!(count(states, timed), 50);
    let times: Vec<u64> = states
        .iter()
        .map(|l| l["time_ns"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted());
}

#[test]
fn live_and_from_a_recording_are_the_same_lines() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let ready = dir.path().join("ready");
    let mut recorder = tcpwhy(&[
        "record",
        "-o",
        arg(&path),
        "--all-states",
        "--with",
        "packets",
        "--netns",
        &netns.0,
        "--ready-file",
        arg(&ready),
    ]);
    let mut recorder = recorder.stderr(Stdio::null()).spawn().unwrap();
    wait_until("the recording begins", || ready.exists());
    // Not connects and accepts: recording each call of the host would lose some.
    let kinds = ["handshakes", "states", "resets", "drops", "timewait"];
    let with = |view: &str| Watching::begin(&["trace", view, "--json", "--netns", &netns.0]);
    let views = kinds.map(|v| (v, with(v)));
    connections(&netns, "127.0.0.1", 25);
    netns.run(|| assert!(TcpStream::connect(("127.0.0.1", 1)).is_err()));
    let live = views.map(|(v, watching)| (v, watching.whole()));
    kill_process(Pid::from_raw(recorder.id() as i32).unwrap(), Signal::INT).unwrap();
    assert!(recorder.wait().unwrap().success());

    // Two recorders watched: only their clocks' readings differ.
    let comparable = |lines: &[Value]| -> Vec<Value> {
        let mut lines = lines.to_vec();
        for line in &mut lines {
            let fields = line.as_object_mut().unwrap();
            fields.retain(|k, _| !k.ends_with("_ns") && k != "in_old_state_ms");
            // A life that is one row has no round-trip time of its beginning.
            fields.remove("rtt_us");
        }
        lines.sort_by_key(Value::to_string);
        lines
    };
    for (view, lines) in live {
        let output = run(&[
            "trace",
            view,
            "--json",
            "--from",
            arg(&path),
            "--netns",
            &netns.0,
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        let mut from = json_lines(&output);
        assert_eq!(from.pop().unwrap()["type"], "health");
        assert!(view == "timewait" || !lines.is_empty(), "{view}");
        assert_eq!(comparable(&lines), comparable(&from), "{view}");
        // And reading twice is reading the same.
        let again = run(&[
            "trace",
            view,
            "--json",
            "--from",
            arg(&path),
            "--netns",
            &netns.0,
        ]);
        assert_eq!(output.stdout, again.stdout);
    }
}

#[test]
fn a_process_that_exits_at_once_is_known_and_filters_are_for_owners() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let listener = netns.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let view = |filter: &[&str]| {
        let args = ["trace", "handshakes", "--json", "--netns", &netns.0];
        Watching::begin(&[&args, filter].concat())
    };
    let me = std::process::id().to_string();
    let by_comm = view(&["--comm", "bash"]);
    let by_pid = view(&["--pid", &me]);
    let by_port = view(&["--port", &port.to_string()]);
    let elsewhere = view(&["--addr", "10.0.0.0/8"]);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own
        .lines()
        .find_map(|l| l.strip_prefix("0::"))
        .unwrap_or("/");
    let by_cgroup = run(&[
        "stat",
        "listeners",
        "--json",
        "--netns",
        &netns.0,
        "--cgroup",
        own,
    ]);
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let mut pids = BTreeSet::new();
    for _ in 0..5 {
        let mut bash = Command::new("ip");
        bash.args(["netns", "exec", &netns.0, "bash", "-c", &script]);
        let mut child = bash.spawn().unwrap();
        // `ip netns exec` becomes bash: one process.
        pids.insert(u64::from(child.id()));
        assert!(child.wait().unwrap().success());
        listener.accept().unwrap();
    }
    let seen = by_comm.whole();
    assert_eq!(seen.len(), 5, "{seen:?}");
    let owners: BTreeSet<u64> = seen.iter().map(|l| l["pid"].as_u64().unwrap()).collect();
    assert_eq!(owners, pids);
    let accepted = by_pid.whole();
    assert_eq!(
        count(&accepted, |l| l["side"] == "accept"),
        5,
        "{accepted:?}"
    );
    assert_eq!(
        accepted.len(),
        5,
        "the listener is older, and ours: {accepted:?}"
    );
    assert_eq!(by_port.whole().len(), 10);
    assert_eq!(elsewhere.whole().len(), 0);
    if by_cgroup.status.success() {
        assert_eq!(
            count(&json_lines(&by_cgroup), |l| l["local_port"] == port),
            1
        );
    } else {
        assert!(
            stderr(&by_cgroup).contains("cgroups"),
            "{}",
            stderr(&by_cgroup)
        );
    }
}

/// Where cgroup v2 is mounted.
fn cgroup2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
    let v2 = mounts.find(|m| m.get(2) == Some(&"cgroup2"))?;
    Some(PathBuf::from(v2[1]))
}

#[test]
fn a_process_in_another_cgroup_and_namespace_is_the_owner() {
    if !root() {
        return;
    }
    let Some(cgroup2) = cgroup2() else {
        eprintln!("skipped: this host has no cgroup v2");
        return;
    };
    let netns = Netns::new();
    let cgroup = cgroup2.join(format!("tcpwhy-test-{}", std::process::id()));
    fs::create_dir(&cgroup).unwrap();
    let id = fs::metadata(&cgroup).unwrap().ino();
    let listener = netns.run(|| TcpListener::bind("[::1]:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let all = Watching::begin(&["trace", "handshakes", "--json", "--netns", &netns.0]);
    let path = cgroup.to_str().unwrap();
    let only = ["--netns", &netns.0, "--cgroup", path];
    let only = Watching::begin(&[&["trace", "handshakes", "--json"], &only[..]].concat());
    let script = format!(
        "echo $$ > {path}/cgroup.procs; exec ip netns exec {} bash -c 'exec 3<>/dev/tcp/::1/{port}'",
        netns.0
    );
    let mut child = Command::new("bash").args(["-c", &script]).spawn().unwrap();
    listener.accept().unwrap();
    assert!(child.wait().unwrap().success());
    for lines in [all.whole(), only.whole()] {
        let connects = lines.iter().filter(|l| l["side"] == "connect");
        let connects: Vec<_> = connects.collect();
        assert_eq!(connects.len(), 1, "{lines:?}");
        assert_eq!(connects[0]["cgroup"], id, "{connects:?}");
        assert_eq!(connects[0]["pid"], child.id());
        assert_eq!(connects[0]["comm"], "bash");
        assert_eq!(connects[0]["family"], 6);
    }
    wait_until("its cgroup is empty", || fs::remove_dir(&cgroup).is_ok());
}

#[test]
fn a_connection_older_than_the_recorder_has_its_owner() {
    if !root() {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        let netns = Netns::new();
        let (client, server) = netns.run(|| {
            let listener = TcpListener::bind((host, 0)).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        });
        let port = client.local_addr().unwrap().port();
        let states = Watching::begin(&["trace", "states", "--json", "--netns", &netns.0]);
        drop(client);
        drop(server);
        let lines = states.whole();
        let ours = |l: &&Value| l["local_port"] == port && l["state"] == "FIN_WAIT1";
        let closed: Vec<_> = lines.iter().filter(ours).collect();
        assert_eq!(closed.len(), 1, "{lines:?}");
        assert_eq!(closed[0]["pid"], std::process::id(), "{closed:?}");
    }
}

#[test]
fn counters_are_those_of_the_kernel() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    connections(&netns, "127.0.0.1", 5);
    let before = netns.counters();
    let view = Watching::begin(&["stat", "counters", "100ms", "--json", "--netns", &netns.0]);
    connections(&netns, "127.0.0.1", 40);
    netns.run(|| assert!(TcpStream::connect(("127.0.0.1", 1)).is_err()));
    thread::sleep(Duration::from_millis(300));
    connections(&netns, "::1", 10);
    let lines = view.whole();
    let after = netns.counters();
    let mut told: BTreeMap<String, i64> = BTreeMap::new();
    for line in &lines {
        let name = format!(
            "{}.{}",
            line["group"].as_str().unwrap(),
            line["name"].as_str().unwrap()
        );
        *told.entry(name).or_default() += line["delta"].as_i64().unwrap();
        let (delta, rate) = (line["delta"].as_f64().unwrap(), line["per_s"].as_f64());
        let seconds = line["interval_ns"].as_f64().unwrap() / 1e9;
        assert!(
            rate.is_none_or(|r| (r * seconds - delta).abs() < 0.01),
            "{line}"
        );
    }
    told.retain(|_, delta| *delta != 0);
    let counted: BTreeMap<String, i64> = after
        .into_iter()
        .map(|(name, value)| (name.clone(), value - before[&name]))
        .filter(|(_, delta)| *delta != 0)
        .collect();
    assert_eq!(told, counted);
    assert_eq!(told["Tcp.ActiveOpens"], 51);
    assert_eq!(told["Tcp.AttemptFails"], 1);
}

/// The words of `ss -tin` after the addresses.
fn ss(netns: &Netns) -> BTreeMap<(String, String), BTreeMap<String, String>> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &netns.0, "ss", "-tinOH"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut fields = BTreeMap::new();
        fields.insert("recvq".to_string(), words[1].to_string());
        fields.insert("sendq".to_string(), words[2].to_string());
        for word in &words[5..] {
            let (name, value) = word.split_once(':').unwrap_or((word, ""));
            fields.insert(name.to_string(), value.to_string());
        }
        ((words[3].to_string(), words[4].to_string()), fields)
    };
    text.lines().map(socket).collect()
}

#[test]
fn sockets_are_those_of_ss() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let (_listeners, _open) = netns.run(|| {
        let mut open = Vec::new();
        let mut listeners = Vec::new();
        for (host, n) in [("127.0.0.1", 12), ("::1", 8)] {
            let listener = TcpListener::bind((host, 0)).unwrap();
            for i in 0..n {
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (mut server, _) = listener.accept().unwrap();
                client.write_all(&vec![7; 1 + i * 10_000]).unwrap();
                // What is left unread stays in the queue.
                server.read_exact(&mut vec![0; 1 + i * 5_000]).unwrap();
                open.push((client, server));
            }
            listeners.push(listener);
        }
        (listeners, open)
    });
    // Delayed ACKs are sent: nothing changes any more.
    thread::sleep(Duration::from_millis(300));
    let theirs = ss(&netns);
    let output = run(&["stat", "sockets", "--json", "--netns", &netns.0]);
    let mut ours = json_lines(&output);
    assert_eq!(ours.pop().unwrap()["type"], "health");
    assert_eq!(
        theirs,
        ss(&netns)
            .into_iter()
            .map(|(k, mut v)| {
                // Only the times since move on.
                for name in ["lastsnd", "lastrcv", "lastack"] {
                    if let Some(then) = theirs[&k].get(name) {
                        v.insert(name.into(), then.clone());
                    }
                }
                (k, v)
            })
            .collect(),
        "nothing moved meanwhile"
    );
    let end = |l: &Value, side: &str| {
        let addr = l[format!("{side}_addr")].as_str().unwrap();
        let port = l[format!("{side}_port")].as_u64().unwrap();
        match addr.contains(':') {
            true => format!("[{addr}]:{port}"),
            false => format!("{addr}:{port}"),
        }
    };
    assert_eq!(ours.len(), 40);
    for line in &ours {
        let key = (end(line, "local"), end(line, "remote"));
        let them = &theirs[&key];
        assert_eq!(line["state"], "ESTABLISHED");
        assert_eq!(line["pid"], std::process::id());
        for (name, field) in [
            ("recvq", "recv_queue"),
            ("sendq", "send_queue"),
            ("mss", "snd_mss"),
            ("rcvmss", "rcv_mss"),
            ("advmss", "advmss"),
            ("pmtu", "pmtu"),
            ("cwnd", "cwnd"),
            ("bytes_sent", "bytes_sent"),
            ("bytes_acked", "bytes_acked"),
            ("bytes_received", "bytes_received"),
            ("segs_out", "segs_out"),
            ("segs_in", "segs_in"),
            ("data_segs_out", "data_segs_out"),
            ("data_segs_in", "data_segs_in"),
            ("delivered", "delivered"),
            ("rcv_space", "rcv_space"),
            ("rcv_ssthresh", "rcv_ssthresh"),
            ("snd_wnd", "snd_wnd"),
        ] {
            let them = them.get(name).map_or("0", String::as_str);
            assert_eq!(line[field].to_string(), them, "{name} of {key:?}");
        }
        let ms = |name: &str| them[name].parse::<f64>().unwrap();
        assert_eq!(line["rto_us"].as_f64().unwrap() / 1000.0, ms("rto"));
        let rtt: Vec<f64> = them["rtt"].split('/').map(|v| v.parse().unwrap()).collect();
        assert_eq!(line["rtt_us"].as_f64().unwrap() / 1000.0, rtt[0]);
        assert_eq!(line["rttvar_us"].as_f64().unwrap() / 1000.0, rtt[1]);
        let scales = format!("{},{}", line["snd_wscale"], line["rcv_wscale"]);
        assert_eq!(them.get("wscale"), Some(&scales));
        assert!(them.contains_key(line["congestion"].as_str().unwrap()));
    }
    let text = stdout(&run(&["stat", "sockets", "--netns", &netns.0]));
    assert_eq!(
        text.lines()
            .filter(|l| l.starts_with("ESTABLISHED"))
            .count(),
        40
    );
    assert!(text.lines().nth(2).unwrap().contains(" cwnd:"), "{text}");
}

#[test]
fn listeners_with_what_waits_in_their_queue() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let listener = netns.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let at = listener.local_addr().unwrap();
    let _waiting: Vec<_> = netns.run(|| (0..3).map(|_| TcpStream::connect(at).unwrap()).collect());
    let output = run(&["stat", "listeners", "--json", "--netns", &netns.0]);
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 2, "one listener, and health: {lines:?}");
    assert_eq!(lines[0]["accept_queue"], 3);
    assert_eq!(lines[0]["pid"], std::process::id());
    assert_eq!(lines[0]["local_port"], at.port());
}

#[test]
fn an_idle_namespace_shows_nothing_and_ends_by_itself() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let since = Instant::now();
    for args in [
        &["trace", "drops", "--for", "500ms"] as &[&str],
        &["stat", "sockets"],
        &["stat", "sockets", "100ms", "2"],
        &["stat", "listeners"],
    ] {
        let output = run(&[args, &["--netns", &netns.0]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
    let output = run(&["stat", "counters", "100ms", "3", "--netns", &netns.0]);
    let text = stdout(&output);
    assert_eq!(
        text.lines()
            .filter(|l| l.ends_with("no counter moved"))
            .count(),
        3,
        "{text}"
    );
    assert!(since.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_reader_that_leaves_ends_the_view() {
    if !root() {
        return;
    }
    let netns = Netns::new();
    let mut view = Watching::begin(&["trace", "states", "--netns", &netns.0]);
    drop(view.0.stdout.take());
    wait_until("the view ends", || {
        connections(&netns, "127.0.0.1", 2);
        view.0.try_wait().unwrap().is_some()
    });
    assert!(view.0.wait().unwrap().success());
}

#[test]
fn what_cannot_be_shown_is_said_in_one_line() {
    let says = |args: &[&str], code: i32, needle: &str| {
        let output = run(args);
        let message = stderr(&output);
        assert!(message.contains(needle), "{args:?}: {message}");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert_eq!(stdout(&output), "");
        message
    };
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("none.tcpwhy");
    says(
        &["trace", "drops", "--from", arg(&nowhere)],
        1,
        "no such recording",
    );
    says(
        &["stat", "counters", "--from", arg(&nowhere)],
        1,
        "no such recording",
    );
    for (args, filter) in [
        (["stat", "counters", "--pid", "1"], "--pid"),
        (["stat", "threads", "--port", "1"], "--port"),
        (["stat", "cpus", "--netns", "host"], "--netns"),
    ] {
        assert_eq!(says(&args, 1, filter).lines().count(), 1);
    }
    says(
        &["trace", "drops", "--addr", "10.0.0.0/33"],
        2,
        "10.0.0.0/8",
    );
    says(
        &["trace", "drops", "--from", "x", "--for", "1s"],
        2,
        "cannot be used with",
    );
    says(&["stat", "sockets", "1s", "0"], 2, "0");
    says(&["stat", "sockets", "1ms"], 2, "10ms");
    if root() {
        says(
            &["trace", "drops", "--netns", "no-such-ns"],
            1,
            "no-such-ns",
        );
        says(
            &["trace", "drops", "--cgroup", "no/such/group"],
            1,
            "no/such/group",
        );
    }
}
