//! Both ends of connections whose addresses are translated on the way, as those to a Kubernetes Service.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use analysis::Story;
use recording::Recording;

use crate::common::live::{Space, ip};
use crate::common::{begin, finish, need_root};

/// The address that clients know; no interface has it.
const SERVICE: (&str, u16) = ("10.96.0.1", 80);

/// A client and a server with a router between them that translates both addresses.
struct Service {
    client: Space,
    server: Space,
    _router: Space,
}

impl Service {
    fn new() -> Service {
        let [client, router, server] = ["client", "router", "server"].map(Space::new);
        let wire = |end: &Space, net: u8| {
            let name = format!("to{net}");
            router.ip(&[
                "link",
                "add",
                &name,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                end.name(),
            ]);
            let ours = format!("10.9.{net}.1");
            router.ip(&["addr", "add", &format!("{ours}/24"), "dev", &name]);
            router.ip(&["link", "set", &name, "up"]);
            end.ip(&["addr", "add", &format!("10.9.{net}.2/24"), "dev", "eth0"]);
            end.ip(&["link", "set", "eth0", "up"]);
            end.ip(&["route", "add", "default", "via", &ours]);
        };
        wire(&client, 1);
        wire(&server, 2);
        router.sysctl("net.ipv4.ip_forward", "1");
        for rule in [
            "add table ip nat",
            "add chain ip nat pre { type nat hook prerouting priority -100; }",
            "add chain ip nat post { type nat hook postrouting priority 100; }",
            "add rule ip nat pre ip daddr 10.96.0.1 tcp dport 80 dnat to 10.9.2.2:8080",
            "add rule ip nat post oifname to2 masquerade random",
        ] {
            ip(&["netns", "exec", router.name(), "nft", rule]);
        }
        Service {
            client,
            server,
            _router: router,
        }
    }

    /// Connections of which the nth has sent 10 n bytes: `n` more after the first `from`.
    fn connect(&self, listener: &TcpListener, from: usize, n: usize) -> Vec<[TcpStream; 2]> {
        let one = |bytes: usize| {
            let mut client = self.client.inside(|| TcpStream::connect(SERVICE).unwrap());
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(&vec![1; bytes]).unwrap();
            server.read_exact(&mut vec![0; bytes]).unwrap();
            [client, server]
        };
        (from + 1..=from + n).map(|nth| one(nth * 10)).collect()
    }
}

#[test]
fn both_ends_of_translated_connections_are_joined() {
    need_root();
    let service = Service::new();
    let listener = service
        .server
        .inside(|| TcpListener::bind("0.0.0.0:8080").unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let older = service.connect(&listener, 0, 4);
    // Whatever state an end is in; a FIN has a sequence number of its own.
    older[1][0].shutdown(Shutdown::Write).unwrap();
    older[2][1].shutdown(Shutdown::Write).unwrap();
    sleep(Duration::from_millis(50));
    let recorder = begin(&path, &[]);
    let newer = service.connect(&listener, 4, 4);
    sleep(Duration::from_millis(1_500));
    finish(recorder);
    drop((older, newer));

    let story = Story::read(&Recording::open(&path).unwrap()).unwrap();
    let ours = |netns: u32| story.conns.iter().filter(move |c| c.netns == netns);
    let clients: Vec<_> = ours(service.client.inode()).collect();
    assert_eq!(clients.len(), 8);
    for client in clients {
        let server = client.peer.and_then(|id| story.conn(id));
        let server = server.unwrap_or_else(|| panic!("no other end: {client:?}"));
        assert_eq!(server.netns, service.server.inode());
        assert_ne!(server.remote, client.local, "translated");
        // The SYN counts among the bytes acknowledged to the end that connected, and so does a FIN.
        let sent = client.bytes_acked.abs_diff(server.bytes_received);
        assert!(sent <= 1, "{client:?} {server:?}");
        let listener = client
            .listener
            .map(|at| story.listeners.all[at as usize].netns);
        assert!(listener.is_none_or(|at| at == service.server.inode()));
    }
}
