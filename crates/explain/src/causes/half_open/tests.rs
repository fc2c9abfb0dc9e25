//! C53 is named when SYNs met established sockets; not for TIME_WAIT sockets, nor for one such SYN.

use recording::tables::Event;
use recording::{EventKind, RetransmitKind, TcpState};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Level, Number, Role, explain};
use synth::{ACK, CLIENT, Dial, End, Fixture, HOST, Listen, SERVER, START_NS, SYN, place};

const ID: &str = "half-open";
const MS: u64 = 1_000_000;

fn end(port: u16) -> End {
    End {
        netns: CLIENT,
        sock: 0xffff_1000_0000_0000 + u64::from(port) * 8_192,
        family: 4,
        local: (place("10.79.0.2:1").0, port),
        remote: (place("10.79.0.1:5000").0, 5_000),
    }
}

/// 60 connects, this many of which met a socket in this state.
fn met(n: u16, state: TcpState) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.count(SERVER, "TcpExt.TCPSYNChallenge", 0, n.into());
    f.count(SERVER, "Tcp.EstabResets", 0, n.into());
    for i in 0..60u16 {
        let port = 30_000 + i;
        let at_ms = 2_000.0 + f64::from(i) * 50.0;
        let dial = |at_ms: f64, took_ms: f64| Dial {
            from: format!("10.79.0.2:{port}"),
            at_ms,
            took_ms,
            ends_ms: Some(at_ms + took_ms + 20.0),
            ..Dial::default()
        };
        if i >= n {
            f.dial(dial(at_ms, 0.5));
            continue;
        }
        // The server's side: a sample, and an end when the reset comes.
        let old = end(port).peer(SERVER, 0xffff_2000_0000_0000 + u64::from(port) * 8_192);
        let came = START_NS + at_ms as u64 * MS;
        if state == TcpState::Established {
            f.sockets.push(recording::tables::Socket {
                congestion: Some("cubic".into()),
                ..old.sample(START_NS + 500 * MS, TcpState::Established)
            });
            f.events
                .push(old.change(came + 2 * MS, TcpState::Established, TcpState::Close));
        }
        f.events.push(Event {
            state: Some(state.clone()),
            reason: (state == TcpState::Established).then(|| "TCP_INVALID_SYN".into()),
            ..old.stray(came + MS, EventKind::Drop, SYN)
        });
        let nth = f.events.len();
        f.dial(dial(at_ms, 12.0));
        // The client's socket, whose SYN was answered with an ACK.
        let sock = f.events[nth].sock;
        let client = End {
            sock: sock.expect("a socket"),
            ..end(port)
        };
        f.events.push(Event {
            state: Some(TcpState::SynSent),
            reason: Some("TCP_INVALID_ACK_SEQUENCE".into()),
            flags: Some(ACK),
            ..client.event(came + MS + 1_000, EventKind::ResetSent)
        });
        f.events
            .push(client.retransmit(came + 10 * MS, TcpState::SynSent, RetransmitKind::Rto, 1));
    }
    f
}

#[test]
fn syns_that_met_established_sockets() {
    let f = only(&met(20, TcpState::Established), ID);
    assert_eq!((f.impact.affected, f.impact.of), (20, 60));
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert_eq!((f.scope.pid, f.scope.role), (Some(77), Role::Client));
    assert_eq!(number(&f, "reset"), &Number::Count(20));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert!(ruled_out(&f, "time-wait-collision").starts_with("0 SYNs"));
}

#[test]
fn what_another_namespace_accepts_at_the_same_address_is_another_servers() {
    let mut f = met(20, TcpState::Established);
    for i in 0..100u16 {
        let at_ms = 100.0 + f64::from(i) * 20.0;
        f.dial(Dial {
            client: None,
            server: Some(HOST),
            from: format!("10.79.0.9:{}", 30_000 + i),
            at_ms,
            ends_ms: Some(at_ms + 30.0),
            ..Dial::default()
        });
    }
    let f = only(&f, ID);
    assert_eq!((f.impact.affected, f.impact.of), (20, 60));
}

#[test]
fn seen_from_the_server_alone() {
    let mut f = met(20, TcpState::Established);
    f.seen_from(SERVER);
    let f = only(&f, ID);
    assert_eq!(f.scope.role, Role::Listener);
    assert!(
        f.lost_s.seconds().is_some_and(|s| s > 0.1),
        "{:?}",
        f.lost_s
    );
}

#[test]
fn a_time_wait_socket_is_another_cause() {
    let written = met(20, TcpState::TimeWait).write().unwrap();
    let all = explain(&written).expect("it reads").findings;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].cause, "time-wait-collision");
    assert!(ruled_out(&all[0], ID).contains("0 SYNs met an established socket"));
    assert!(found(&met(4, TcpState::Established)).is_empty());
}

#[test]
fn the_same_four_numbers_minutes_later_are_another_connect() {
    let s = |seconds: u64| seconds * 1_000_000_000;
    let syns = [s(10), s(11), s(13), s(900), s(901)];
    assert_eq!(super::connect_of(&syns, s(17)), Some(s(10)));
    assert_eq!(super::connect_of(&syns, s(902)), Some(s(900)));
    assert_eq!(super::connect_of(&syns, s(2_000)), None);
    assert_eq!(super::connect_of(&syns, s(9)), None);
}
