//! The views of `stat` on the live host, against what the system itself says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::live::Space;
use crate::common::watching::*;
use crate::common::{arg, begin, finish, json_lines, need_root, run, stderr, stdout, wait_until};
use serde_json::Value;
#[test]
fn threads_and_cpus_sum_to_the_whole() {
    need_root();
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
fn the_host_as_a_whole_has_tables_and_a_checklist() {
    need_root();
    let netns = Space::new("view");
    let output = run(&["stat", "tables", "--json", "--netns", netns.name()]);
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
fn counters_are_those_of_the_kernel() {
    need_root();
    let netns = Space::new("view");
    connections(&netns, "127.0.0.1", 5);
    let before = netns.counters();
    let view = Watching::begin(&[
        "stat",
        "counters",
        "100ms",
        "--json",
        "--netns",
        netns.name(),
    ]);
    connections(&netns, "127.0.0.1", 40);
    netns.inside(|| assert!(TcpStream::connect(("127.0.0.1", 1)).is_err()));
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
fn ss(netns: &Space) -> BTreeMap<(String, String), BTreeMap<String, String>> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name(), "ss", "-tinOH"]);
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
    need_root();
    let netns = Space::new("view");
    let (_listeners, _open) = netns.inside(|| {
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
    // Until delayed ACKs are sent; then only the times since move on.
    let still = || {
        let mut sockets = ss(&netns);
        for fields in sockets.values_mut() {
            for name in ["lastsnd", "lastrcv", "lastack"] {
                fields.remove(name);
            }
        }
        sockets
    };
    let mut before = still();
    wait_until("nothing moves for 300 ms", || {
        thread::sleep(Duration::from_millis(300));
        let was = std::mem::replace(&mut before, still());
        was == before
    });
    let theirs = ss(&netns);
    let output = run(&["stat", "sockets", "--json", "--netns", netns.name()]);
    let mut ours = json_lines(&output);
    assert_eq!(ours.pop().unwrap()["type"], "health");
    assert_eq!(before, still(), "nothing moved meanwhile");
    let end = |l: &Value, side: &str| {
        let addr = l[format!("{side}_addr")].as_str().unwrap();
        let port = l[format!("{side}_port")].as_u64().unwrap();
        if addr.contains(':') {
            format!("[{addr}]:{port}")
        } else {
            format!("{addr}:{port}")
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
    let text = stdout(&run(&["stat", "sockets", "--netns", netns.name()]));
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
    need_root();
    let netns = Space::new("view");
    let listener = netns.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let at = listener.local_addr().unwrap();
    let _waiting: Vec<_> =
        netns.inside(|| (0..3).map(|_| TcpStream::connect(at).unwrap()).collect());
    let output = run(&["stat", "listeners", "--json", "--netns", netns.name()]);
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 2, "one listener, and health: {lines:?}");
    assert_eq!(lines[0]["accept_queue"], 3);
    assert_eq!(lines[0]["pid"], std::process::id());
    assert_eq!(lines[0]["local_port"], at.port());
}

/// What one reading of the system says, and one that our samples must lie within.
struct Bounds<T> {
    before: T,
    begun: T,
    ending: T,
    after: T,
}

impl<T> Bounds<T> {
    /// Reads around and inside of a recording of some seconds.
    fn record(path: &std::path::Path, read: impl Fn() -> T) -> Bounds<T> {
        let before = read();
        let child = begin(path, &["--with", "threads", "--interval", "500ms"]);
        let begun = read();
        thread::sleep(Duration::from_secs(4));
        let ending = read();
        finish(child);
        Bounds {
            before,
            begun,
            ending,
            after: read(),
        }
    }

    /// Fails unless `ours` lies between what passed inside and around, give or take `slack`.
    fn assert(&self, what: &str, ours: f64, slack: f64, of: impl Fn(&T) -> f64) {
        let least = of(&self.ending) - of(&self.begun);
        let most = of(&self.after) - of(&self.before);
        assert!(
            ours >= least - slack && ours <= most + slack,
            "{what}: {ours} is not within {least}..{most} (± {slack})"
        );
    }
}

/// The sum over all intervals of a share, as a time in ms.
fn spent<'l>(lines: impl Iterator<Item = &'l Value>, share: &str) -> f64 {
    lines
        .map(|l| l[share].as_f64().unwrap() / 100.0 * l["interval_ns"].as_f64().unwrap() / 1e6)
        .sum()
}

#[test]
fn cpus_are_those_of_proc_stat() {
    need_root();
    /// Ticks of all CPUs: user, system, idle, and all kinds together.
    fn read() -> [f64; 4] {
        let text = fs::read_to_string("/proc/stat").unwrap();
        let all = text.lines().next().unwrap();
        let ticks = all.split_whitespace().skip(1).take(8);
        let ticks: Vec<f64> = ticks.map(|n| n.parse().unwrap()).collect();
        [ticks[0], ticks[2], ticks[3], ticks.iter().sum()]
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let mut busy = Command::new("sh")
        .args(["-c", "while :; do /bin/true; done"])
        .spawn()
        .unwrap();
    let bounds = Bounds::record(&path, read);
    busy.kill().unwrap();
    busy.wait().unwrap();
    let lines = json_lines(&run(&["stat", "cpus", "--from", arg(&path), "--json"]));
    let cpus = || {
        let each = lines.iter().filter(|l| l["type"] == "cpu");
        each.filter(|l| !l["cpu"].is_null())
    };
    let interval = |l: &Value| l["interval_ns"].as_f64().unwrap() / 1e6;
    let whole: f64 = cpus().map(interval).sum();
    let shares = ["user_percent", "system_percent", "idle_percent"];
    let passed = |from: &[f64; 4], to: &[f64; 4], i: usize| to[i] - from[i];
    let (b, slack) = (&bounds, 2.0);
    for (i, share) in shares.iter().enumerate() {
        // Of a hundred of the time of all kinds, which with a hypervisor is not the wall's.
        let least = 100.0 * passed(&b.begun, &b.ending, i) / passed(&b.before, &b.after, 3);
        let most = 100.0 * passed(&b.before, &b.after, i) / passed(&b.begun, &b.ending, 3);
        let ours = 100.0 * spent(cpus(), share) / whole;
        assert!(
            ours >= least - slack && ours <= most + slack,
            "{share}: {ours} is not within {least}..{most} (± {slack})"
        );
    }
}

#[test]
fn threads_are_those_of_schedstat() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    // More than there are CPUs, so that they wait for one, too.
    let mut busy: Vec<_> = (0..3)
        .map(|_| {
            let script = "while :; do read x </dev/null; done";
            Command::new("sh").args(["-c", script]).spawn().unwrap()
        })
        .collect();
    let pids: Vec<u32> = busy.iter().map(|b| b.id()).collect();
    let read = || -> Vec<[f64; 2]> {
        let one = |pid: &u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
            let mut ns = text.split_whitespace().map(|n| n.parse::<f64>().unwrap());
            [ns.next().unwrap() / 1e6, ns.next().unwrap() / 1e6]
        };
        pids.iter().map(one).collect()
    };
    let bounds = Bounds::record(&path, read);
    for process in &mut busy {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let lines = json_lines(&run(&[
        "stat",
        "threads",
        "--all",
        "--from",
        arg(&path),
        "--json",
    ]));
    for (i, pid) in pids.iter().enumerate() {
        let ours = || {
            let threads = lines.iter().filter(|l| l["type"] == "thread");
            threads.filter(move |l| l["tid"] == *pid)
        };
        let on_cpu = spent(ours(), "user_percent") + spent(ours(), "system_percent");
        let runqueue = spent(ours(), "runqueue_percent");
        let slack = 0.02 * (on_cpu + runqueue);
        bounds.assert("on CPU", on_cpu, slack, |r| r[i][0]);
        bounds.assert("run queue", runqueue, slack, |r| r[i][1]);
    }
}
