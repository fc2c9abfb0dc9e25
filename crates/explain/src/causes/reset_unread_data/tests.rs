//! C11 is named when a server often closes with data unread, and not for clients that leave.

use recording::tables::Event;
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{Broken, CLIENT, Dial, Fixture, HOST, Listen, SERVER, START_NS, cases};

const ID: &str = "reset-unread-data";

#[test]
fn both_ends_here() {
    let f = only(&cases::unread(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (100, 200));
    assert_eq!(
        (f.scope.pid, &*f.scope.listener),
        (Some(812), "10.79.0.1:5000")
    );
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert_eq!(number(&f, "request_bytes"), &Number::Count(14_480));
    assert_eq!(number(&f, "acknowledged_bytes"), &Number::Count(500));
    assert_eq!(number(&f, "without_answer"), &Number::Count(0));
    assert!(ruled_out(&f, "injected-reset").contains("100 resets"));
    let drain = Change::ReadToEnd {
        listener: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(drain));
}

#[test]
fn who_leaves_small_requests_unread_turns_clients_away() {
    let mut recording = cases::unread();
    assert_eq!(only(&recording, ID).advice.len(), 2);
    for end in recording.events.iter_mut() {
        end.bytes_received = end.bytes_received.map(|bytes| bytes.min(7));
    }
    let f = only(&recording, ID);
    assert!(f.fix.contains("turns clients away"), "{}", f.fix);
    // There is no large body to ask about.
    assert_eq!(f.advice.len(), 1);
}

#[test]
fn only_the_server_here() {
    let mut recording = cases::unread();
    recording.seen_from(SERVER);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, f.confidence.level), (100, Level::High));
    assert!(f.evidence.iter().all(|s| !s.says.contains("on this host")));
}

#[test]
fn before_linux_6_10_the_stack_tells() {
    let mut recording = cases::unread();
    for event in recording.events.iter_mut() {
        event.reason = None;
    }
    let f = only(&recording, ID);
    assert_eq!(
        (f.impact.affected, f.confidence.level),
        (100, Level::Medium)
    );
    // SO_LINGER 0 passes through tcp_disconnect: a different cause.
    let frames = recording.frames.iter_mut();
    for frame in frames.filter(|f| &*f.function == "tcp_send_active_reset") {
        frame.function = "tcp_disconnect".into();
    }
    assert!(found(&recording).iter().all(|f| f.cause != ID));
    // Without a stack nothing is known.
    let mut blind = cases::unread();
    for event in blind.events.iter_mut() {
        (event.reason, event.stack) = (None, None);
    }
    assert!(found(&blind).is_empty());
}

/// Connections that are each reset this way, this far apart.
fn broken(n: u32, every_ms: f64, like: &Broken) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.count(SERVER, "TcpExt.TCPAbortOnClose", 0, n.into());
    for i in 0..n {
        let at_ms = 100.0 + f64::from(i) * every_ms;
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

fn close() -> Broken {
    Broken {
        reason: Some("TCP_ABORT_ON_CLOSE"),
        ..Broken::default()
    }
}

#[test]
fn a_client_that_leaves_with_data_unread_is_healthy() {
    let leaves = Broken {
        by: Some(CLIENT),
        hits: SERVER,
        ..close()
    };
    assert!(found(&broken(200, 20.0, &leaves)).is_empty());
}

#[test]
fn a_sink_ends_its_transfers_as_it_likes() {
    let ended = |moved: [u64; 2]| {
        let mut f = Fixture::new();
        f.listen(Listen::default());
        f.count(SERVER, "TcpExt.TCPAbortOnClose", 0, 30);
        for i in 0..30 {
            let at_ms = 100.0 + f64::from(i) * 200.0;
            f.break_off(Broken {
                dial: Dial {
                    from: format!("10.79.0.2:{}", 30_000 + i),
                    at_ms,
                    ..Dial::default()
                },
                at_ms: at_ms + 2_000.0,
                moved,
                ..close()
            });
        }
        found(&f).iter().any(|f| f.cause == ID)
    };
    assert!(!ended([600_000_000, 0]));
    // A slow upload; a fast one that is answered.
    assert!(ended([600_000, 0]));
    assert!(ended([600_000_000, 500]));
}

#[test]
fn a_client_that_had_closed_misses_nothing() {
    // As with TLS, where the last message stays unread.
    let closed = Broken {
        from: TcpState::CloseWait,
        ..close()
    };
    assert!(found(&broken(200, 20.0, &closed)).is_empty());
    let silent = Broken {
        moved: [0, 0],
        ..close()
    };
    assert!(
        found(&broken(200, 20.0, &silent)).is_empty(),
        "nobody asked"
    );
}

#[test]
fn a_few_and_a_process_that_ends_are_healthy() {
    assert!(found(&broken(4, 100.0, &close())).is_empty());
    assert!(found(&broken(100, 0.1, &close())).is_empty(), "all at once");
    assert_eq!(found(&broken(5, 100.0, &close())).len(), 1);
    // Clients here are known to want an answer.
    let mut few = broken(3, 1_100.0, &close());
    assert_eq!(found(&few).len(), 1);
    few.seen_from(SERVER);
    assert!(found(&few).is_empty());
    let mut ends = broken(10, 100.0, &close());
    let (addr, port, _) = synth::place("10.79.0.1:5000");
    ends.events.push(Event {
        time_ns: START_NS + 1_200_000_000,
        kind: EventKind::State,
        netns: SERVER,
        sock: Some(1),
        family: 4,
        local_addr: addr,
        local_port: port,
        old_state: Some(TcpState::Listen),
        state: Some(TcpState::Close),
        ..Event::default()
    });
    assert!(found(&ends).is_empty(), "on its way down");
    // One in a hundred.
    let mut busy = broken(10, 100.0, &close());
    for i in 0..1_000u16 {
        let at_ms = 100.0 + f64::from(i);
        busy.dial(Dial {
            from: format!("10.79.0.3:{}", 20_000 + i),
            at_ms,
            ends_ms: Some(at_ms + 20.0),
            ..Dial::default()
        });
    }
    assert!(found(&busy).is_empty());
}

#[test]
fn who_meets_it_again_and_again_is_told_beside_many_who_do_not() {
    let beside = |others: u16| {
        let mut f = broken(4, 1_100.0, &close());
        for i in 0..others {
            let at_ms = 100.0 + f64::from(i);
            f.dial(Dial {
                from: format!("10.79.0.3:{}", 20_000 + i),
                at_ms,
                ends_ms: Some(at_ms + 20.0),
                ..Dial::default()
            });
        }
        f
    };
    // One process opens them all, and hardly notices.
    assert!(found(&beside(1_000)).is_empty());
    // One of them is reset each time.
    let mut apart = beside(1_000);
    let (addr, ..) = synth::place("10.79.0.3:1");
    let others = apart.events.iter_mut();
    for event in others.filter(|e| e.local_addr == addr && e.pid.is_some()) {
        event.pid = Some(4_711);
    }
    let f = only(&apart, ID);
    assert_eq!((f.impact.affected, f.impact.of), (4, 1_004));
}

#[test]
fn another_reason_is_another_cause() {
    let linger = Broken {
        reason: Some("TCP_ABORT_ON_DATA"),
        ..close()
    };
    assert!(found(&broken(200, 20.0, &linger)).is_empty());
}

#[test]
fn ipv6_and_the_wildcard() {
    let mut f = Fixture::new();
    f.listen(Listen {
        netns: HOST,
        at: "[::]:8080",
        ..Listen::default()
    });
    for i in 0..50u16 {
        f.break_off(Broken {
            dial: Dial {
                client: None,
                server: Some(HOST),
                from: format!("[2001:db8::7]:{}", 30_000 + i),
                to: "[2001:db8::1]:8080",
                at_ms: 100.0 + f64::from(i) * 10.0,
                ..Dial::default()
            },
            at_ms: 115.0 + f64::from(i) * 10.0,
            by: Some(HOST),
            ..close()
        });
    }
    assert_eq!(only(&f, ID).scope.listener, "[::]:8080");
}

#[test]
fn lost_events_lower_the_confidence_and_hostile_rows_do_no_harm() {
    let mut recording = cases::unread();
    recording.lose(SourceName::ResetsSent, 5);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    for event in recording.events.iter_mut() {
        (event.time_ns, event.bytes_received) = (u64::MAX, Some(u64::MAX));
        event.sock = Some(7);
    }
    found(&recording);
    assert!(found(&Fixture::new()).is_empty());
}
