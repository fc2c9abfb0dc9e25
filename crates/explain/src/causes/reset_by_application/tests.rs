//! C12 is named when a server resets clients on purpose, or one peer answers no keep-alives; not for clients that
//! leave, idle connections, or single peers that vanish.

use recording::tables::Socket;
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out, sysctls};
use crate::{Change, Level, Number, Role};
use synth::{Broken, CLIENT, Dial, Fixture, Listen, SERVER, START_NS};

const ID: &str = "reset-by-application";
const CLOSES: &[&str] = &[
    "tcp_send_active_reset",
    "tcp_disconnect",
    "__tcp_close",
    "tcp_close",
];

fn lingers() -> Broken {
    Broken {
        reason: Some("TCP_STATE"),
        stack: CLOSES,
        moved: [100, 20_000],
        ..Broken::default()
    }
}

/// Connections that are reset 20 ms apart.
fn broken(n: u32, like: &Broken) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.count(SERVER, "TcpExt.TCPAbortOnData", 0, i64::from(n) + 7);
    for i in 0..n {
        let at_ms = 100.0 + f64::from(i) * 20.0;
        f.break_off(Broken {
            dial: Dial {
                from: format!("10.79.0.2:{}", 30_000 + i),
                at_ms,
                ..like.dial.clone()
            },
            at_ms: at_ms + 15.0,
            ..like.clone()
        });
    }
    f
}

#[test]
fn a_server_that_lingers_for_no_time() {
    let f = only(&broken(100, &lingers()), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (100, 100));
    assert_eq!((f.scope.pid, f.scope.role), (Some(812), Role::Listener));
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert_eq!(number(&f, "acknowledged_bytes"), &Number::Count(20_000));
    assert!(ruled_out(&f, "reset-unread-data").contains("sent 0 resets"));
    let gently = Change::CloseGently {
        listener: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(gently));
}

#[test]
fn before_linux_6_10_the_stack_tells() {
    let old = Broken {
        reason: None,
        ..lingers()
    };
    assert_eq!(only(&broken(100, &old), ID).confidence.level, Level::Medium);
    let unknown = Broken {
        stack: &[],
        ..lingers()
    };
    assert!(found(&broken(100, &unknown)).is_empty(), "aborted by whom?");
    let killed = Broken {
        stack: &["tcp_send_active_reset", "tcp_abort"],
        ..lingers()
    };
    assert!(
        found(&broken(100, &killed)).is_empty(),
        "by an administrator"
    );
}

#[test]
fn clients_that_leave_and_health_checks_are_healthy() {
    let leaves = Broken {
        by: Some(CLIENT),
        hits: SERVER,
        ..lingers()
    };
    assert!(found(&broken(200, &leaves)).is_empty());
    let checks = Broken {
        moved: [0, 0],
        ..lingers()
    };
    assert!(found(&broken(200, &checks)).is_empty());
    let closed = Broken {
        from: TcpState::CloseWait,
        ..lingers()
    };
    assert!(found(&broken(200, &closed)).is_empty());
}

#[test]
fn a_reset_between_requests_takes_nothing_away() {
    let mut idle = broken(100, &lingers());
    let ends: Vec<_> = idle
        .events
        .iter()
        .filter(|e| e.kind == EventKind::ResetSent)
        .cloned()
        .collect();
    // A second passes before it is closed, in which nothing is sent.
    for end in &mut idle.events {
        if end.state == Some(TcpState::Close) || end.kind.as_str().starts_with("reset") {
            end.time_ns += 1_000_000_000;
        }
    }
    for end in ends {
        idle.sockets.push(Socket {
            time_ns: end.time_ns,
            netns: end.netns,
            sock: end.sock.unwrap(),
            family: 4,
            state: TcpState::Established,
            local_addr: end.local_addr,
            local_port: end.local_port,
            remote_addr: end.remote_addr,
            remote_port: end.remote_port,
            congestion: Some("cubic".into()),
            bytes_acked: Some(20_000),
            bytes_received: Some(100),
            ..Socket::default()
        });
    }
    assert!(found(&idle).is_empty());
    for sample in &mut idle.sockets {
        sample.bytes_acked = Some(10_000);
    }
    assert_eq!(only(&idle, ID).impact.affected, 100, "half an answer");
}

/// Connections of a pool to one server that left a host, 5 ms apart; this many of them are given up after three
/// seconds.
fn pool(n: u32, given_up: u32) -> Fixture {
    let mut f = Fixture::new();
    f.count(CLIENT, "TcpExt.TCPAbortOnTimeout", 0, given_up.into());
    f.count(CLIENT, "TcpExt.TCPKeepAlive", 0, i64::from(given_up) * 3);
    for i in 0..n {
        let dial = Dial {
            server: None,
            from: format!("10.79.0.2:{}", 30_000 + i),
            at_ms: 100.0 + f64::from(i) * 5.0,
            sends: 1,
            ..Dial::default()
        };
        if i >= given_up {
            f.dial(dial);
            continue;
        }
        f.break_off(Broken {
            at_ms: 4_000.0 + f64::from(i) * 5.0,
            dial,
            by: Some(CLIENT),
            hits: SERVER,
            reason: Some("TCP_KEEPALIVE_TIMEOUT"),
            ..Broken::default()
        });
    }
    for sample in &mut f.sockets {
        sample.time_ns = START_NS + 3_000_000_000;
        sample.last_ack_recv_ms = Some(2_500);
    }
    f
}

#[test]
fn a_peer_that_vanished() {
    let f = only(&pool(20, 20), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (20, 20));
    assert_eq!((f.scope.role, f.scope.pid), (Role::Client, Some(77)));
    assert_eq!(f.scope.resource.as_deref(), Some("peer 10.79.0.1"));
    let Number::Real(silent_ms) = number(&f, "silent_ms") else {
        panic!("a measure");
    };
    assert!((3_500.0..3_700.0).contains(silent_ms), "{silent_ms}");
    assert_eq!(number(&f, "probes"), &Number::Count(60));
    assert_eq!(
        sysctls(&f),
        [(CLIENT, "net.ipv4.tcp_keepalive_time=60".into())]
    );
}

#[test]
fn single_connections_that_time_out_are_healthy() {
    assert!(found(&pool(4, 4)).is_empty());
    assert!(found(&pool(60, 20)).is_empty());
    assert_eq!(found(&pool(40, 20)).len(), 1);
    // A server with clients that go out of reach.
    let mut served = Fixture::new();
    served.listen(Listen::default());
    for i in 0..50u16 {
        let at_ms = 100.0 + f64::from(i) * 20.0;
        served.break_off(Broken {
            dial: Dial {
                client: None,
                from: format!("10.79.0.2:{}", 30_000 + i),
                at_ms,
                ..Dial::default()
            },
            at_ms: at_ms + 1_000.0,
            reason: Some("TCP_KEEPALIVE_TIMEOUT"),
            ..Broken::default()
        });
    }
    assert!(found(&served).is_empty());
}

#[test]
fn lost_events_lower_the_confidence() {
    for mut recording in [broken(100, &lingers()), pool(20, 20)] {
        recording.lose(SourceName::ResetsSent, 3);
        assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    }
}
