//! Part `ports` on the running kernel: exact counts of ports, of tables and of rules.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use observe::Part;
use recording::Verdict;
use recording::tables::{PortUse, TableSize};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::common::{Netns, last_round, need_root, record};

/// Connections from inside a namespace: client and server ends.
#[derive(Default)]
struct Conns(Vec<(TcpStream, TcpStream)>);

impl Conns {
    fn open(&mut self, listener: &TcpListener, n: usize) {
        for _ in 0..n {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            self.0.push((client, listener.accept().unwrap().0));
        }
    }

    /// Closes `n`, the client first: its ports go to TIME_WAIT.
    fn close(&mut self, n: usize) {
        for (client, mut server) in self.0.drain(..n) {
            drop(client);
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
        }
    }
}

/// The row of a destination port, source address `from`.
fn to(rows: &[PortUse], port: u16, from: &str) -> PortUse {
    let is = |r: &&PortUse| r.remote_port == port && r.local_addr.to_string() == from;
    let mut found = rows.iter().filter(is);
    let row = found
        .next()
        .unwrap_or_else(|| panic!("no row for port {port} in {rows:?}"));
    assert!(found.next().is_none(), "one row a destination");
    row.clone()
}

#[test]
fn ports_in_use_are_counted_exactly_for_both_families() {
    need_root();
    let netns = Netns::new();
    assert!(netns.set("net.ipv4.ip_local_port_range", "20000 20099"));
    assert!(netns.set("net.ipv4.ip_local_reserved_ports", "20090-20099,30000"));
    // The kernel would take ports out of TIME_WAIT again.
    netns.set("net.ipv4.tcp_tw_reuse", "0");
    let (mut four, mut six, mut few, mut inside) = (
        Conns::default(),
        Conns::default(),
        Conns::default(),
        Conns::default(),
    );
    let listen = |at: &str| netns.inside(|| TcpListener::bind(at).unwrap());
    let (l4, l6) = (listen("127.0.0.1:7000"), listen("[::1]:7001"));
    let l_few = listen("127.0.0.1:7002");
    // A server whose port lies in the range: its connections are none of the client side's.
    let l_inside = listen("127.0.0.1:20050");
    let (_, dir) = record(Part::Ports, &[netns.inode], || {
        netns.inside(|| {
            four.open(&l4, 40);
            six.open(&l6, 30);
            few.open(&l_few, 15);
            inside.open(&l_inside, 20);
            four.close(12);
            six.close(7);
            // The server first: what it holds is no port in use, but a SYN from such a port meets it.
            for (mut client, server) in inside.0.drain(..) {
                drop(server);
                assert_eq!(client.read(&mut [0]).unwrap(), 0);
            }
        });
    });
    let rows: Vec<PortUse> = last_round(&dir);
    assert!(rows.iter().all(|r| r.netns == netns.inode));
    let a = to(&rows, 7000, "127.0.0.1");
    assert_eq!((a.ports_used, a.time_wait, a.established), (40, 12, 28));
    assert_eq!(
        (a.family, a.remote_addr.to_string().as_str()),
        (4, "127.0.0.1")
    );
    assert_eq!((a.range_low, a.range_high, a.reserved), (20000, 20099, 10));
    let b = to(&rows, 7001, "::1");
    assert_eq!((b.ports_used, b.time_wait, b.established), (30, 7, 23));
    assert_eq!((b.family, b.remote_addr.to_string().as_str()), (6, "::1"));
    let c = to(&rows, 20050, "127.0.0.1");
    assert_eq!(
        (c.ports_used, c.time_wait, c.server_time_wait),
        (0, 0, Some(20))
    );
    assert_eq!(a.server_time_wait, Some(0));
    // 15 are no row.
    assert_eq!(rows.len(), 3, "{rows:?}");

    let sizes: Vec<TableSize> = last_round(&dir);
    let size = |structure: &str| {
        let is = |r: &&TableSize| r.netns == netns.inode && r.structure == structure;
        sizes.iter().find(is).unwrap().clone()
    };
    // Both ends of 66 connections that live; of those closed, the end that closed first.
    assert_eq!(size("ehash").entries, 2 * (28 + 23 + 15) + 12 + 7 + 20);
    assert_eq!(size("time-wait").entries, 12 + 7 + 20);
    assert!(size("time-wait").limit > Some(0));
    assert_eq!(size("listener-hash").entries, 4);
    assert_eq!(size("requests").entries, 0);
    assert!(size("ehash").buckets.is_some_and(u64::is_power_of_two));
    assert!(size("ehash").longest_chain >= Some(1));
    assert!(size("bhash").buckets > Some(0) && size("bhash").entries >= 44);
}

/// A socket that chooses its source address, and leaves the port to connect().
fn connect_from(source: &str, to: SocketAddr, no_port: bool) -> TcpStream {
    let s = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    if no_port {
        set_bind_address_no_port(&s);
    }
    bind(&s, &format!("{source}:0").parse::<SocketAddr>().unwrap()).unwrap();
    connect(&s, &to).unwrap();
    s.into()
}

fn set_bind_address_no_port(s: &rustix::fd::OwnedFd) {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int, as this option's is, and its size is told.
    let result = unsafe {
        libc::setsockopt(
            s.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}

#[test]
fn sources_are_told_apart_however_they_chose_their_port() {
    need_root();
    let netns = Netns::new();
    let listener = netns.inside(|| TcpListener::bind("[::]:7000").unwrap());
    let mut kept = Vec::new();
    let (_, dir) = record(Part::Ports, &[netns.inode], || {
        netns.inside(|| {
            let to: SocketAddr = "127.0.0.1:7000".parse().unwrap();
            // An IPv6 socket's IPv4 connection takes its port from the same range.
            let mapped: SocketAddr = "[::ffff:127.0.0.1]:7000".parse().unwrap();
            for _ in 0..16 {
                kept.push(connect_from("127.0.0.2", to, true));
                kept.push(connect_from("127.0.0.3", to, false));
                kept.push(TcpStream::connect(to).unwrap());
                kept.push(TcpStream::connect(mapped).unwrap());
            }
        });
    });
    drop(listener);
    let rows: Vec<PortUse> = last_round(&dir);
    assert_eq!(to(&rows, 7000, "127.0.0.2").ports_used, 16);
    assert_eq!(to(&rows, 7000, "127.0.0.3").ports_used, 16);
    let plain = to(&rows, 7000, "127.0.0.1");
    assert_eq!((plain.ports_used, plain.family), (32, 4));
    assert_eq!(rows.len(), 3, "{rows:?}");
}

#[test]
fn neighbours_and_rules_are_counted() {
    need_root();
    let netns = Netns::new();
    netns.ip(&["link", "add", "d0", "type", "veth", "peer", "name", "d1"]);
    netns.ip(&["addr", "add", "10.9.0.1/16", "dev", "d0"]);
    netns.ip(&["addr", "add", "fd09::1/64", "dev", "d0", "nodad"]);
    netns.ip(&["link", "set", "d0", "up"]);
    netns.ip(&["link", "set", "d1", "up"]);
    let size = |dir, structure: &str| {
        let sizes: Vec<TableSize> = last_round(dir);
        let is = |r: &&TableSize| r.netns == netns.inode && r.structure == structure;
        sizes.iter().find(is).map(|r| r.entries).unwrap()
    };
    let names = ["neighbours", "neighbours6", "ip-rules", "ip-rules6"];
    let (_, before) = record(Part::Ports, &[netns.inode], || {});
    let (manifest, after) = record(Part::Ports, &[netns.inode], || {
        for i in 2..32 {
            let (a, b) = (format!("10.9.0.{i}"), format!("fd09::{i}"));
            let mac = format!("02:00:00:00:00:{i:02x}");
            netns.ip(&["neigh", "add", &a, "lladdr", &mac, "dev", "d0"]);
            if i < 12 {
                netns.ip(&["neigh", "add", &b, "lladdr", &mac, "dev", "d0"]);
                netns.ip(&["rule", "add", "from", &a, "lookup", "main"]);
            }
            if i < 7 {
                netns.ip(&["-6", "rule", "add", "from", &b, "lookup", "main"]);
            }
        }
    });
    // What the interface itself brings (multicast, its own addresses) may come late: no fewer.
    let grown = names.map(|n| size(&after, n) - size(&before, n));
    assert!(grown[0] >= 30 && grown[1] >= 10, "{grown:?}");
    assert!(grown[0] < 40 && grown[1] < 20, "{grown:?}");
    assert_eq!(grown[2..], [10, 5]);
    for name in names {
        let source = manifest
            .sources
            .iter()
            .find(|s| s.name.as_str() == name)
            .unwrap();
        assert_eq!(source.verdict, Verdict::Attached);
    }
}

#[test]
fn a_structure_without_a_row_has_a_verdict_that_says_why() {
    need_root();
    let netns = Netns::new();
    let (manifest, dir) = record(Part::Ports, &[netns.inode], || {});
    let sizes: Vec<TableSize> = last_round(&dir);
    for source in &manifest.sources {
        let has = sizes.iter().any(|r| r.structure == *source.name.as_str());
        match &source.verdict {
            Verdict::Attached => {
                assert!(has || ["ports", "tables", "slabs"].contains(&source.name.as_str()))
            }
            Verdict::Unsupported(why) | Verdict::Failed(why) => {
                assert!(!has && !why.is_empty(), "{source:?}")
            }
        }
    }
    assert!(
        sizes
            .iter()
            .any(|r| r.structure.starts_with("slab:") && r.bytes > Some(0))
    );
}

#[test]
fn a_namespace_with_a_small_table_of_its_own_shows_its_chains() {
    need_root();
    let parent = Netns::new();
    // Of the parent namespace, which ends with this test; the host's setting is not touched.
    if !parent.set("net.ipv4.tcp_child_ehash_entries", "16") {
        eprintln!("skipped: this kernel's namespaces have no tables of their own (Linux 6.1)");
        return;
    }
    let child = parent.child();
    let listener = child.inside(|| TcpListener::bind("127.0.0.1:7000").unwrap());
    let mut conns = Conns::default();
    let (_, dir) = record(Part::Ports, &[], || {
        child.inside(|| conns.open(&listener, 200));
    });
    let sizes: Vec<TableSize> = last_round(&dir);
    let ehash = |netns: u32| {
        let is = |r: &&TableSize| r.netns == netns && r.structure == "ehash";
        sizes.iter().find(is).unwrap().clone()
    };
    let own = ehash(child.inode);
    assert_eq!((own.entries, own.buckets), (400, Some(16)));
    let longest = own.longest_chain.unwrap();
    // At least the mean; all in one would be a bucket that is not told apart.
    assert!((25..200).contains(&longest), "{longest}");
    assert!(
        ehash(parent.inode).buckets > Some(16),
        "the parent uses the host's"
    );
    // The host's table does not hold the child's sockets: the sum of the others does.
    let namespaces = sizes
        .iter()
        .filter(|r| r.netns != 0 && r.netns != child.inode);
    let others: u64 = namespaces
        .filter(|r| r.structure == "ehash")
        .map(|r| r.entries)
        .sum();
    assert_eq!(ehash(0).entries, others);
}
