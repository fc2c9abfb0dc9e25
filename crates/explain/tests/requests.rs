//! The requests of a service in its account: whose time it was, and what the slowest waited for.

use explain::account::Role;
use explain::{Service, explain};
use recording::tables::{Event, Exchange, Request, RequestTime, Wait};
use recording::{Addr, TcpState, Timed, Waker};
use synth::{Dial, Fixture, Listen, START_NS};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn addr(text: &str) -> Addr {
    text.parse::<std::net::IpAddr>().unwrap().into()
}

/// A server that thinks 600 of 640 ms, most of it in wait for a database, and its client on the same host,
/// whose handshakes took 10 ms.
fn services() -> Vec<Service> {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..20u32 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            at_ms: f64::from(i),
            took_ms: 10.0,
            ..Dial::default()
        });
    }
    let dials = |e: &&Event| e.state == Some(TcpState::SynSent);
    let client = f.events.iter().find(dials).expect("it dials").clone();
    let (netns, port) = (f.listeners[0].netns, client.remote_port);
    let to = client.remote_addr;
    let row = |role, parts: Request| Request {
        time_ns: START_NS + 2 * S,
        netns,
        role,
        addr: to,
        port,
        exchanges: 20,
        one_in: 1,
        ..parts
    };
    f.requests.push(row(
        recording::Role::Server,
        Request {
            unread_ns: 20 * 40 * MS,
            think_ns: 20 * 600 * MS,
            think_alone_ns: 20 * 600 * MS,
            think_cpu_ns: 20 * 60 * MS,
            ..Request::default()
        },
    ));
    f.requests.push(Request {
        netns: client.netns,
        ..row(
            recording::Role::Client,
            Request {
                await_ns: 20 * 650 * MS,
                ..Request::default()
            },
        )
    });
    for (netns, role, ns) in [
        (netns, recording::Role::Server, 640 * MS),
        (client.netns, recording::Role::Client, 650 * MS),
    ] {
        f.request_times.push(RequestTime {
            time_ns: START_NS + 2 * S,
            netns,
            role,
            addr: to,
            port,
            what: Timed::Response,
            at_least_ns: ns,
            below_ns: Some(ns + MS),
            count: 20,
        });
    }
    f.exchanges.push(Exchange {
        time_ns: START_NS + 2 * S,
        began_ns: START_NS + S,
        netns,
        role: recording::Role::Server,
        family: 4,
        local_addr: to,
        local_port: port,
        remote_addr: client.local_addr,
        remote_port: client.local_port,
        pid: Some(812),
        tid: Some(813),
        think_ns: 900 * MS,
        ..Exchange::default()
    });
    // One wait within, one of another thread, one that ended later.
    for (tid, end_ns) in [(813, S + 800 * MS), (5, S + 500 * MS), (813, 3 * S)] {
        f.waits.push(Wait {
            time_ns: START_NS + end_ns,
            tid,
            netns,
            waited_ns: 500 * MS,
            waker: Waker::Softirq,
            syscall: Some("recvfrom".into()),
            cause_attempt: Some(0),
            cause_remote_addr: addr("10.0.2.7"),
            cause_remote_port: 5432,
            ..Wait::default()
        });
    }
    let written = f.write().expect("it can be written");
    explain(&written).expect("it reads").account
}

#[test]
fn a_service_has_its_requests_and_the_parts_sum_to_their_time() {
    let services = services();
    let of = |role| services.iter().find(|s| s.role == role);
    let server = of(Role::Server).and_then(|s| s.requests.clone());
    let server = server.expect("the listener has requests");
    assert_eq!((server.exchanges, server.multiplexed), (20, false));
    assert!((server.total_s - 20.0 * 0.64).abs() < 1e-6);
    assert!((server.whose_s.application - server.total_s).abs() < 1e-6);
    assert!((server.thinking.asleep() - 20.0 * 0.54).abs() < 1e-6);
    let response = server.response.expect("they were timed");
    assert!((0.640..=0.641).contains(&response.p50_s), "{response:?}");

    let client = of(Role::Client).and_then(|s| s.requests.clone());
    let client = client.expect("the destination has requests");
    let whose = client.whose_s;
    // A round trip of each is the network's; what is left is the peer's.
    let round_trip = client.round_trip_s.expect("the handshakes were seen");
    assert!((0.009..0.011).contains(&round_trip), "{round_trip}");
    assert!(
        (whose.network - 20.0 * round_trip).abs() < 1e-6,
        "{whose:?}"
    );
    assert!((whose.network + whose.peer - client.total_s).abs() < 1e-6);
    assert_eq!((whose.application, whose.network_or_peer), (0.0, 0.0));
}

#[test]
fn the_slowest_exchange_names_what_its_thread_waited_for() {
    let services = services();
    let slow = services.iter().filter_map(|s| s.requests.as_ref());
    let slow: Vec<_> = slow.flat_map(|r| &r.slowest).collect();
    assert_eq!(slow.len(), 1);
    assert_eq!((slow[0].took_s, slow[0].after_start_s), (0.9, 1.0));
    let waits = &slow[0].waits;
    assert_eq!(waits.len(), 1, "{waits:?}");
    let peer = waits[0].awaited.map(|peer| peer.to_string());
    assert_eq!(peer.as_deref(), Some("10.0.2.7:5432"));
}

#[test]
fn a_connect_that_is_older_than_the_recording_is_its_clients() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.dial(Dial::default());
    f.dial(Dial {
        from: "10.79.0.2:40001".into(),
        took_ms: 3_010.0,
        retries: 2,
        ..Dial::default()
    });
    // Its connect() was before: the first that is seen of it is a retransmitted SYN.
    f.events
        .retain(|e| e.local_port != 40_001 || e.state != Some(TcpState::SynSent));
    let written = f.write().expect("it can be written");
    let services = explain(&written).expect("it reads").account;
    let of = |role| services.iter().find(|s| s.role == role);
    let client = of(Role::Client).expect("it has clients");
    let server = of(Role::Server).expect("it has a listener");
    assert_eq!((client.ends, server.ends), (2, 2), "{services:#?}");
    assert_eq!(server.pid, Some(f.holders[0].pid));
    assert_ne!(server.pid, client.pid);
}
