//! `--with calls`: which calls are told, of whom, and what a connect() spent looking for a port.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::live::{Live, Space};
use crate::common::{need_root, wait_until};
use recording::tables::{Call, Event};
use rustix::net::{AddressFamily, SocketType, connect, listen, socket, sockopt};

/// Calls of a thread; tests of one process may run side by side.
fn of(calls: &[Call], tid: u32) -> Vec<&Call> {
    calls.iter().filter(|c| c.tid == tid).collect()
}

fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Returns 60 ms after a thread of this process has fallen asleep in one of the kernel's functions.
fn asleep_for_60_ms(tid: u32, functions: &str) {
    let wchan = format!("/proc/self/task/{tid}/wchan");
    wait_until(functions, || {
        let at = fs::read_to_string(&wchan).unwrap();
        functions.split('|').any(|f| f == at)
    });
    thread::sleep(Duration::from_millis(60));
}

/// A port of this address that nobody listens on.
fn free_port(ip: IpAddr) -> u16 {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn calls_that_fail_are_told_with_their_addresses() {
    need_root();
    for ip in ["127.0.0.1", "::1"] {
        let ip: IpAddr = ip.parse().unwrap();
        let family = if ip.is_ipv4() { 4 } else { 6 };
        let live = Live::begin(&["--with", "calls", "--call-over", "1h"]);
        let listener = TcpListener::bind((ip, 0)).unwrap();
        listen(&listener, 5).unwrap();
        let taken = listener.local_addr().unwrap();
        let closed = SocketAddr::new(ip, free_port(ip));
        TcpStream::connect(closed).unwrap_err();
        TcpListener::bind(taken).unwrap_err();
        // Writing after the other side has reset the connection.
        let mut client = TcpStream::connect(taken).unwrap();
        let client_port = client.local_addr().unwrap().port();
        let (server, _) = listener.accept().unwrap();
        client.write_all(b"unread").unwrap();
        drop(server);
        wait_until("the reset arrives", || client.write(b"x").is_err());
        let broken = client.write(b"x").unwrap_err();
        assert_eq!(broken.raw_os_error(), Some(32));
        // None of these is a failure, and none is told: a poll would be one.
        client.set_nonblocking(true).unwrap();
        drop(client);
        let done = live.end();
        done.assert_whole();

        let calls: Vec<Call> = done.rows();
        let mine = of(&calls, this_thread());
        let find = |call: &str, error: &str| {
            let one = |c: &&&Call| c.call.as_str() == call && c.error.as_deref() == Some(error);
            let found: Vec<_> = mine.iter().filter(one).collect();
            assert!(!found.is_empty(), "no {call} with {error} in {mine:#?}");
            *found[found.len() - 1]
        };
        let refused = find("connect", "ECONNREFUSED");
        assert_eq!(refused.family, family);
        assert_eq!(
            (refused.remote_addr.ip(), refused.remote_port),
            (ip, closed.port())
        );
        assert_eq!(refused.local_addr.ip(), ip);
        assert!(refused.local_port != 0 && refused.fd.is_some() && refused.result.is_none());
        let search = refused.port_search_ns.unwrap();
        assert!(search > 0 && search < refused.duration_ns);
        let host = fs::metadata("/proc/self/ns/net").unwrap().ino() as u32;
        assert!(
            mine.iter()
                .all(|c| c.netns == host && c.pid == std::process::id())
        );
        // The same socket as in the event that says who connected where.
        let events: Vec<Event> = done.rows();
        let connected = |e: &&Event| e.sock == refused.sock && e.remote_port == closed.port();
        let event = events.iter().find(connected).unwrap();
        assert_eq!(event.pid, Some(std::process::id()));

        let in_use = find("bind", "EADDRINUSE");
        assert_eq!(
            (in_use.local_addr.ip(), in_use.local_port),
            (ip, taken.port())
        );
        let broken = find("sendmsg", "EPIPE");
        assert_eq!(
            (broken.local_port, broken.remote_port),
            (client_port, taken.port())
        );
        assert_eq!((broken.local_addr.ip(), broken.remote_addr.ip()), (ip, ip));

        // listen() is told whatever it took: with the standard library's backlog, and with ours.
        let backlogs = mine
            .iter()
            .filter(|c| c.call.as_str() == "listen" && c.local_port == taken.port());
        let backlogs: Vec<_> = backlogs.map(|c| (c.backlog, c.result)).collect();
        assert_eq!(backlogs.last(), Some(&(Some(5), Some(0))));
        // Nothing took an hour.
        assert!(
            mine.iter()
                .all(|c| c.error.is_some() || c.call.as_str() == "listen")
        );
    }
}

#[test]
fn calls_that_wait_are_told_with_how_long() {
    need_root();
    let live = Live::begin(&["--with", "calls"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let waiting = this_thread();
    let client = thread::spawn(move || {
        asleep_for_60_ms(waiting, "inet_csk_accept");
        let mut client = TcpStream::connect(to).unwrap();
        asleep_for_60_ms(waiting, "sk_wait_data|wait_woken");
        client.write_all(b"x").unwrap();
        client.local_addr().unwrap().port()
    });
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0]).unwrap();
    let client_port = client.join().unwrap();
    let done = live.end();

    let calls: Vec<Call> = done.rows();
    let mine = of(&calls, this_thread());
    for call in ["accept", "recvmsg"] {
        let one = |c: &&&Call| c.call.as_str() == call && c.local_port == to.port();
        let found: Vec<_> = mine.iter().filter(one).collect();
        assert_eq!(found.len(), 1, "{call} in {mine:#?}");
        let call = found[0];
        assert!(call.duration_ns >= 50_000_000, "{call:?}");
        assert!(call.result.is_some() && call.error.is_none());
        assert_eq!((call.remote_port, call.tid), (client_port, this_thread()));
    }
}

#[test]
fn the_owner_is_who_called_wherever_it_lives_and_however_short() {
    need_root();
    let cgroups = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let unified = |dir: &&&str| fs::metadata(format!("{dir}/cgroup.controllers")).is_ok();
    let Some(cgroups) = cgroups.iter().find(unified) else {
        eprintln!("skipped: no cgroup v2 here");
        return;
    };
    let cgroup = Cgroup::new(cgroups);
    let space = Space::new("calls-owner");
    let port = space.inside(|| free_port([127, 0, 0, 1].into()));
    let live = Live::begin(&["--with", "calls", "--call-over", "1h"]);
    // Its last act is the call.
    let script = format!(
        "echo $$ >{}/cgroup.procs; exec 3<>/dev/tcp/127.0.0.1/{port}",
        cgroup.0
    );
    let mut child = space.inside(|| {
        let bash = Command::new("bash").args(["-c", &script]).spawn();
        bash.unwrap()
    });
    let pid = child.id();
    assert!(!child.wait().unwrap().success());
    let done = live.end();
    let calls: Vec<Call> = done.rows();
    let its = of(&calls, pid);
    assert_eq!(its.len(), 1, "{its:#?}");
    let call = its[0];
    assert_eq!(
        (call.call.as_str(), call.error.as_deref()),
        ("connect", Some("ECONNREFUSED"))
    );
    assert_eq!((&*call.comm, call.tid), ("bash", pid));
    assert_eq!(call.netns, space.inode());
    assert_eq!(call.cgroup, fs::metadata(&cgroup.0).unwrap().ino());
    assert_eq!(call.remote_port, port);
}

/// A cgroup of the test's own, removed when dropped.
struct Cgroup(String);

impl Cgroup {
    fn new(root: &str) -> Cgroup {
        let dir = format!("{root}/tcpwhy-test-{}", std::process::id());
        fs::create_dir(&dir).unwrap();
        Cgroup(dir)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its last process is gone, but perhaps not yet from here.
        let removed = || fs::remove_dir(&self.0).is_ok();
        wait_until("the cgroup is empty", removed);
    }
}

#[test]
fn a_connect_that_nobody_answers_takes_its_time() {
    need_root();
    let space = Space::new("calls-hole");
    space.ip(&["link", "add", "hole", "type", "veth", "peer", "name", "end"]);
    space.ip(&["addr", "add", "10.98.0.1/24", "dev", "hole"]);
    space.ip(&["link", "set", "end", "up"]);
    space.ip(&["link", "set", "hole", "up"]);
    // The neighbour is known, and silent.
    let neighbour = ["10.98.0.2", "lladdr", "02:00:00:00:00:09"];
    let more = ["dev", "hole", "nud", "permanent"];
    space.ip(&[&["neigh", "add"][..], &neighbour, &more].concat());
    let live = Live::begin(&["--with", "calls"]);
    space.inside(|| {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_tcp_user_timeout(&socket, 1_500).unwrap();
        let to: SocketAddr = "10.98.0.2:80".parse().unwrap();
        connect(&socket, &to).unwrap_err();
    });
    let done = live.end();
    let calls: Vec<Call> = done.rows();
    let calls: Vec<_> = calls.iter().filter(|c| c.netns == space.inode()).collect();
    assert_eq!(calls.len(), 1, "{calls:#?}");
    let call = calls[0];
    assert_eq!(
        (call.call.as_str(), call.error.as_deref()),
        ("connect", Some("ETIMEDOUT"))
    );
    assert!(call.duration_ns >= 1_000_000_000, "{call:?}");
    // The port was found at once; the wait was for an answer.
    assert!(
        call.port_search_ns.unwrap() < call.duration_ns / 10,
        "{call:?}"
    );
    assert_eq!(call.local_addr.ip(), IpAddr::from([10, 98, 0, 1]));
    assert_eq!(
        (call.remote_addr.ip(), call.remote_port),
        (IpAddr::from([10, 98, 0, 2]), 80)
    );
}

#[test]
fn the_search_for_a_port_grows_until_there_is_none() {
    need_root();
    const PORTS: usize = 700;
    let space = Space::new("calls-ports");
    space.sysctl("net.ipv4.ip_local_port_range", "40000 40699");
    space.sysctl("net.core.somaxconn", "4096");
    let live = Live::begin(&["--with", "calls", "--call-over", "0s"]);
    let name = space.name().to_string();
    space.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:7000").unwrap();
        listen(&listener, 4096).unwrap();
        let mut open = Vec::new();
        while let Ok(stream) = TcpStream::connect("127.0.0.1:7000") {
            open.push(stream);
            assert!(open.len() <= PORTS, "{name}: more connections than ports");
        }
        assert_eq!(open.len(), PORTS);
    });
    let done = live.end();
    done.assert_whole();
    let calls: Vec<Call> = done.rows();
    let connects = |c: &&Call| c.netns == space.inode() && c.call.as_str() == "connect";
    let connects: Vec<_> = calls.iter().filter(connects).collect();
    assert_eq!(connects.len(), PORTS + 1);
    let (refused, made) = connects.split_last().unwrap();
    assert!(
        made.iter()
            .all(|c| c.error.is_none() && c.local_port >= 40000)
    );
    let median = |calls: &[&Call]| {
        let mut all: Vec<_> = calls.iter().map(|c| c.port_search_ns.unwrap()).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    // Half of the ports are tried first; once they are taken each search goes through them all.
    let (early, late) = (median(&made[..200]), median(&made[PORTS - 200..]));
    assert!(late > 3 * early, "{early} ns early, {late} ns late");
    assert_eq!(refused.error.as_deref(), Some("EADDRNOTAVAIL"));
    assert_eq!((refused.local_port, refused.remote_port), (0, 7000));
    let search = refused.port_search_ns.unwrap();
    assert!(search > 3 * early && search <= refused.duration_ns);
}

#[test]
fn only_what_is_asked_for_is_told() {
    need_root();
    let space = Space::new("calls-asked");
    let live = Live::begin(&["--with", "calls", "--netns", space.name()]);
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = space.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let there = there.local_addr().unwrap().port();
    let done = live.end();
    let calls: Vec<Call> = done.rows();
    let listens: Vec<_> = calls
        .iter()
        .filter(|c| c.call.as_str() == "listen")
        .collect();
    assert_eq!(listens.len(), 1, "{listens:#?}");
    assert_eq!(listens[0].local_port, there);
    assert!(calls.iter().all(|c| c.netns == space.inode()));
    drop(here);
}
