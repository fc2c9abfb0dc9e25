//! The client and server do what their parameters say, and count right.

use crate::common::{need_root, pair, plant};
use lab::{ClientReport, Plant, ServerReport, Stop};

/// Runs one server and one client with these parameters over veth.
fn load(server: &str, client: &str) -> (ClientReport, ServerReport) {
    let mut plant = loaded(server, client);
    let stop = Stop::default();
    plant.start_servers(&stop).unwrap();
    let mut clients = plant.run_clients(&stop).unwrap().clients;
    let mut servers = plant.stop_servers(&stop).unwrap();
    (clients.remove(0), servers.remove(0))
}

fn loaded(server: &str, client: &str) -> Plant {
    let text = pair("", "").replace("clients = []", "");
    plant(&format!(
        r#"{text}
        [[servers]]
        name = "lab-test-srv"
        node = "server"
        port = 7000
        {server}
        [[clients]]
        name = "lab-test-cli"
        node = "client"
        to = "server"
        {client}
        "#
    ))
}

#[test]
fn every_connection_is_counted_once() {
    need_root();
    for closes in ["client", "server"] {
        for ipv6 in [false, true] {
            let (client, server) = load(
                &format!("ipv6 = {ipv6}"),
                &format!(
                    r#"port = 7000
                    ipv6 = {ipv6}
                    seconds = 20.0
                    connections = 300
                    concurrency = 20
                    request = 3000
                    response = 70000
                    closes = "{closes}""#
                ),
            );
            assert_eq!(client.connections.started, 300);
            assert_eq!(client.connections.connected, 300, "{client:?}");
            assert_eq!(client.requests.answered, 300, "{client:?}");
            assert!(client.connections.failed.is_empty() && client.requests.failed.is_empty());
            assert_eq!(
                (client.bytes_sent, client.bytes_received),
                (300 * 3000, 300 * 70000)
            );
            assert_eq!((server.accepted, server.answered), (300, 300));
            assert_eq!(
                (server.bytes_received, server.bytes_sent),
                (300 * 3000, 300 * 70000)
            );
            assert!(server.failed.is_empty(), "{server:?}");
            let connect = client.connect_ms.unwrap();
            assert_eq!(connect.count, 300);
            assert!(
                connect.min <= connect.p50
                    && connect.p50 <= connect.p99
                    && connect.p99 <= connect.max
            );
        }
    }
}

#[test]
fn a_closed_port_is_refused() {
    need_root();
    let (client, _) = load(
        "",
        "port = 7001\nseconds = 20.0\nconnections = 50\nconcurrency = 5",
    );
    assert_eq!(client.connections.started, 50);
    assert_eq!(client.connections.failed["ECONNREFUSED"], 50);
    assert_eq!(client.connections.connected, 0);
}

#[test]
fn kept_connections_send_request_after_request() {
    need_root();
    let (client, server) = load(
        "",
        "port = 7000\nseconds = 1.0\nconnections = 8\nconcurrency = 8\nkeep = true\nactive = 2\nrequest = 10000",
    );
    assert_eq!((client.connections.connected, server.accepted), (8, 8));
    assert!(client.requests.answered > 8, "{client:?}");
    assert_eq!(client.requests.answered, server.answered);
    assert!(
        client.requests.failed.is_empty() && server.failed.is_empty(),
        "{client:?} {server:?}"
    );
}

#[test]
fn streams_end_without_a_reset() {
    need_root();
    for stream in ["up", "down"] {
        let (client, server) = load(
            "",
            &format!(
                "port = 7000\nseconds = 0.5\nconnections = 3\nconcurrency = 3\nstream = \"{stream}\"\ncongestion = [\"reno\", \"cubic\"]"
            ),
        );
        assert!(
            client.requests.failed.is_empty() && server.failed.is_empty(),
            "{client:?} {server:?}"
        );
        let (sent, received) = match stream {
            "up" => (client.bytes_sent, server.bytes_received),
            _ => (server.bytes_sent, client.bytes_received),
        };
        assert_eq!(sent, received);
        assert!(sent > 1_000_000);
        assert_eq!(client.connection_mbit_per_s.unwrap().count, 3);
    }
}

#[test]
fn a_stalled_server_makes_its_clients_wait() {
    need_root();
    let (client, _) = load(
        "stall_ms = 400.0",
        "port = 7000\nseconds = 20.0\nconnections = 1",
    );
    // The kernel takes the connection in at once; the answer waits for accept(2).
    assert!(client.answer_ms.unwrap().max >= 100.0, "{client:?}");
    assert_eq!(client.requests.answered, 1);
}

#[test]
fn local_ports_are_bound_in_turn() {
    need_root();
    let (client, _) = load(
        "",
        "port = 7000\nseconds = 20.0\nconnections = 5\nlocal_ports = \"40000-40004\"\ncloses = \"server\"",
    );
    assert_eq!(client.connections.connected, 5, "{client:?}");
    // One port for two connections at one time to one place: the second cannot be.
    let (client, _) = load(
        "",
        "port = 7000\nseconds = 0.3\nconnections = 2\nconcurrency = 2\nkeep = true\nlocal_ports = \"40000-40000\"",
    );
    assert_eq!(client.connections.connected, 1, "{client:?}");
    assert_eq!(
        client.connections.failed.values().sum::<u64>(),
        1,
        "{client:?}"
    );
}

#[test]
fn a_slow_reader_reads_at_its_pace() {
    need_root();
    // 10,000 bytes per 10 ms at most: a megabyte takes a second.
    let (client, server) = load(
        "read_bytes = 10000\nread_pause_ms = 10.0\nrcvbuf = 20000",
        "port = 7000\nseconds = 20.0\nconnections = 1\nrequest = 1000000",
    );
    assert_eq!(
        (client.requests.answered, server.bytes_received),
        (1, 1_000_000)
    );
    let took = client.request_ms.unwrap().p50;
    assert!(took >= 990.0, "{took}");
}

#[test]
fn two_writes_wait_for_a_delayed_ack_only_with_nagle() {
    need_root();
    let p50 = |nagle: bool| {
        let (client, server) = load(
            "",
            &format!(
                "port = 7000\nseconds = 2.0\nconnections = 1\nkeep = true\nrequest = 500\n\
                 two_writes = true\nnagle = {nagle}"
            ),
        );
        assert_eq!(server.bytes_received, 500 * client.requests.answered);
        client.request_ms.unwrap().p50
    };
    let (held, sent) = (p50(true), p50(false));
    assert!(
        held > 35.0 && sent < 20.0,
        "{held} ms, {sent} ms without Nagle"
    );
}

#[test]
fn a_binder_is_refused_a_port_that_is_taken_and_gets_a_free_one() {
    need_root();
    let binder = |name: &str, port: u16| {
        format!(
            "[[binders]]\nname = \"{name}\"\nnode = \"server\"\nport = {port}\nreuse = true\nrate = 50.0\nseconds = 0.4\n"
        )
    };
    let server = "[[servers]]\nname = \"lab-test-srv\"\nnode = \"server\"\nport = 7000\n";
    let rest = format!("{server}{}{}", binder("taken", 7000), binder("free", 7001));
    let mut plant = plant(&pair("", &rest));
    let stop = Stop::default();
    plant.start_servers(&stop).unwrap();
    let binders = plant.run_clients(&stop).unwrap().binders;
    let [taken, free] = &binders[..] else {
        panic!("{binders:?}");
    };
    assert!(taken.asked > 0 && free.asked > 0, "{binders:?}");
    assert_eq!((taken.bound, taken.failed["EADDRINUSE"]), (0, taken.asked));
    assert_eq!((free.bound, free.failed.len()), (free.asked, 0));
    let measured = |b: &lab::BinderReport| b.bind_us.map(|s| s.count);
    assert_eq!(
        (measured(taken), measured(free)),
        (Some(taken.asked), Some(free.asked))
    );
}
