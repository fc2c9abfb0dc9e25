//! C55 is named when a listening socket ends with connections in its accept queue; not for accepted connections.

use recording::tables::Event;
use recording::{EventKind, TcpState};

use crate::causes::testing::{found, only, ruled_out, sysctls};
use crate::{Level, Role};
use synth::{Broken, CLIENT, Dial, Fixture, Listen, SERVER, START_NS};

const ID: &str = "listener-ended";
const STOPS: &[&str] = &[
    "tcp_send_active_reset",
    "tcp_disconnect",
    "inet_child_forget",
    "inet_csk_listen_stop",
    "__tcp_close",
    "tcp_close",
];

/// A port with this many workers, each of which ends a second after the other with `waiting` connections in its queue.
fn recycled(workers: u32, waiting: u32) -> Fixture {
    let mut f = Fixture::new();
    for worker in 0..workers {
        f.listen(Listen {
            worker,
            held_by: vec![(812 + worker, 1, "gunicorn", "S")],
            ..Listen::default()
        });
    }
    f.set(SERVER, "net.ipv4.tcp_migrate_req", "0");
    f.count(SERVER, "Tcp.OutRsts", 0, i64::from(workers * waiting));
    let listening: Vec<_> = f.listeners.iter().map(|l| (l.sock, l.local_addr)).collect();
    for worker in 0..workers {
        let ends_ms = 500.0 + f64::from(worker) * 1_000.0;
        let sock = 0xffff_0000_0000_0000 + 5_000 + (u64::from(worker) << 20);
        let (_, local_addr) = *listening
            .iter()
            .find(|(s, _)| *s == sock)
            .expect("it listens");
        f.events.push(Event {
            time_ns: START_NS + (ends_ms * 1e6) as u64,
            kind: EventKind::State,
            netns: SERVER,
            sock: Some(sock),
            family: 4,
            local_addr,
            local_port: 5_000,
            old_state: Some(TcpState::Listen),
            state: Some(TcpState::Close),
            ..Event::default()
        });
        for i in 0..waiting {
            f.break_off(Broken {
                dial: Dial {
                    from: format!("10.79.0.2:{}", 30_000 + worker * 1_000 + i),
                    at_ms: ends_ms - 100.0,
                    ..Dial::default()
                },
                at_ms: ends_ms + 0.1 + f64::from(i) * 0.01,
                reason: Some("TCP_STATE"),
                stack: STOPS,
                moved: [27, 0],
                ..Broken::default()
            });
        }
    }
    f
}

#[test]
fn workers_that_are_recycled() {
    let f = only(&recycled(4, 10), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (40, 40));
    assert_eq!(f.scope.role, Role::Listener);
    assert!(f.title.contains("4 listeners of gunicorn"), "{}", f.title);
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert!(ruled_out(&f, "reset-by-application").contains("SO_LINGER 0"));
    let migrate = (SERVER, "net.ipv4.tcp_migrate_req=1".to_string());
    assert_eq!(sysctls(&f), [migrate]);
    assert!(
        f.evidence
            .iter()
            .any(|s| s.says.contains("3 other sockets"))
    );
}

#[test]
fn a_service_that_ends_alone_has_nobody_to_migrate_to() {
    let f = only(&recycled(1, 10), ID);
    assert_eq!(
        (f.scope.pid, f.scope.comm.as_deref()),
        (Some(812), Some("gunicorn"))
    );
    assert!(
        f.title.starts_with("gunicorn stopped listening"),
        "{}",
        f.title
    );
    assert!(sysctls(&f).is_empty(), "no other socket listens");
}

#[test]
fn a_client_that_left_the_queue_lost_nothing() {
    let mut f = recycled(2, 10);
    for event in &mut f.events {
        if event.netns == SERVER && event.state == Some(TcpState::Close) {
            let open = event.old_state == Some(TcpState::Established);
            if open {
                event.old_state = Some(TcpState::CloseWait);
            }
        }
    }
    f.events.retain(|e| e.netns != CLIENT);
    assert!(found(&f).is_empty());
}

#[test]
fn few_are_a_note() {
    let mut f = recycled(2, 1);
    for i in 0..40 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            at_ms: 501.0 + f64::from(i) * 50.0,
            ends_ms: Some(520.0 + f64::from(i) * 50.0),
            ..Dial::default()
        });
    }
    assert!(found(&f).is_empty(), "asked again at once");
}
