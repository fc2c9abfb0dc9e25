//! The views of `trace` on the live host, against what the kernel itself counts, in quiet namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::live::{Space, ip};
use crate::common::watching::*;
use crate::common::{json_lines, need_root, run, stderr, wait_until};
use serde_json::Value;
#[test]
fn retransmits_are_those_that_the_kernel_counts() {
    need_root();
    let netns = Space::with_hole();
    let before = netns.counters();
    let view = Watching::begin(&["trace", "retransmits", "--json", "--netns", netns.name()]);
    netns.inside(|| {
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
        assert_eq!(line["netns_name"], netns.name());
    }
    assert_eq!(count(&lines, |l| l["attempt"] == 1), 20);
    if tells_errors() {
        assert_eq!(count(&lines, |l| l["err"] == "0"), lines.len(), "{lines:?}");
    }
}

/// Whether this kernel surely tells what became of a retransmission; older ones may.
fn tells_errors() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(18))
}

#[test]
fn a_retransmission_that_the_queueing_discipline_drops_says_so() {
    need_root();
    if !tells_errors() {
        return;
    }
    let netns = Space::with_hole();
    // A queue that holds nothing drops all.
    let args = ["-n", netns.name(), "qdisc", "add", "dev", "hole", "root"];
    let tc = Command::new("tc")
        .args(args)
        .args(["pfifo", "limit", "0"])
        .status();
    assert!(tc.unwrap().success());
    let view = Watching::begin(&["trace", "retransmits", "--json", "--netns", netns.name()]);
    netns.inside(|| {
        let to = SocketAddr::from(([10, 9, 0, 2], 1_000));
        assert!(TcpStream::connect_timeout(&to, Duration::from_millis(1_500)).is_err());
    });
    let lines = view.whole();
    assert_eq!(
        count(&lines, |l| l["err"] == "NET_XMIT_DROP"),
        lines.len(),
        "{lines:?}"
    );
    assert!(!lines.is_empty());
}

#[test]
fn resets_of_refused_connects_name_both_sides() {
    need_root();
    let netns = Space::new("view");
    let before = netns.counters();
    let view = Watching::begin(&["trace", "resets", "--json", "--netns", netns.name()]);
    netns.inside(|| {
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
fn from_one_port(netns: &Space, n: usize, bytes: usize) {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, bind, connect, ipproto, socket, sockopt};
    netns.inside(|| {
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
            let to = listener.local_addr().unwrap();
            // On busy CPUs the connection before may still be in LAST_ACK: its addresses are taken.
            wait_until("the port is free", || match connect(&client, &to) {
                Err(Errno::ADDRNOTAVAIL) => false,
                connected => connected.is_ok() || panic!("{connected:?}"),
            });
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
    need_root();
    for (bytes, verdict) in [(50_000_000, "refused-sequence"), (100, "accepted")] {
        let netns = Space::new("view");
        let view = Watching::begin(&["trace", "timewait", "--json", "--netns", netns.name()]);
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
    need_root();
    let netns = Space::new("view");
    let rule = "add table ip lose; \
        add chain ip lose in { type filter hook input priority 0; }; \
        add rule ip lose in tcp dport 7002 tcp flags & (syn | ack) == syn \
        limit rate 1/day burst 1 packets drop";
    ip(&["netns", "exec", netns.name(), "nft", rule]);
    let filter = [
        "--netns",
        netns.name(),
        "--pid",
        &std::process::id().to_string(),
    ];
    let all = ["trace", "wakeups", "500ms", "--json"];
    let view = Watching::begin(&[&all[..], &filter[..]].concat());
    let client = netns.inside(|| {
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
    // The thread that connected was woken by what came back.
    let connecting = lines.iter().find(|l| l["cause"]["answer"] == true);
    let connecting = connecting.unwrap_or_else(|| panic!("{lines:?}"));
    let cause = &connecting["cause"];
    assert_eq!(cause["receiver_port"], client.port());
    let says = cause["says"].as_str().unwrap();
    let named = format!(
        "woken by the answer to retransmission 1 (SYN_SENT) of {client} → 127.0.0.1:7002, sent "
    );
    assert!(says.starts_with(&named), "{says}");
}

#[test]
fn accepts_tell_how_long_the_queue_held_them() {
    need_root();
    let netns = Space::new("view");
    let accepts = Watching::begin(&["trace", "accepts", "--json", "--netns", netns.name()]);
    let connects = Watching::begin(&["trace", "connects", "--json", "--netns", netns.name()]);
    netns.inside(|| {
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
fn handshakes_connects_accepts_and_states_of_plain_connections() {
    need_root();
    let netns = Space::new("view");
    let with = |view: &str| Watching::begin(&["trace", view, "--json", "--netns", netns.name()]);
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
fn a_process_that_exits_at_once_is_known_and_filters_are_for_owners() {
    need_root();
    let netns = Space::new("view");
    let listener = netns.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let view = |filter: &[&str]| {
        let args = ["trace", "handshakes", "--json", "--netns", netns.name()];
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
        netns.name(),
        "--cgroup",
        own,
    ]);
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let mut pids = BTreeSet::new();
    for _ in 0..5 {
        let mut bash = Command::new("ip");
        bash.args(["netns", "exec", netns.name(), "bash", "-c", &script]);
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
    need_root();
    let Some(cgroup2) = cgroup2() else {
        eprintln!("skipped: this host has no cgroup v2");
        return;
    };
    let netns = Space::new("view");
    let cgroup = cgroup2.join(format!("tcpwhy-test-{}", std::process::id()));
    fs::create_dir(&cgroup).unwrap();
    let id = fs::metadata(&cgroup).unwrap().ino();
    let listener = netns.inside(|| TcpListener::bind("[::1]:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let all = Watching::begin(&["trace", "handshakes", "--json", "--netns", netns.name()]);
    let path = cgroup.to_str().unwrap();
    let only = ["--netns", netns.name(), "--cgroup", path];
    let only = Watching::begin(&[&["trace", "handshakes", "--json"], &only[..]].concat());
    let script = format!(
        "echo $$ > {path}/cgroup.procs; exec ip netns exec {} bash -c 'exec 3<>/dev/tcp/::1/{port}'",
        netns.name()
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
    need_root();
    for host in ["127.0.0.1", "::1"] {
        let netns = Space::new("view");
        let (client, server) = netns.inside(|| {
            let listener = TcpListener::bind((host, 0)).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        });
        let port = client.local_addr().unwrap().port();
        let states = Watching::begin(&["trace", "states", "--json", "--netns", netns.name()]);
        drop(client);
        drop(server);
        let lines = states.whole();
        let ours = |l: &&Value| l["local_port"] == port && l["state"] == "FIN_WAIT1";
        let closed: Vec<_> = lines.iter().filter(ours).collect();
        assert_eq!(closed.len(), 1, "{lines:?}");
        assert_eq!(closed[0]["pid"], std::process::id(), "{closed:?}");
    }
}
