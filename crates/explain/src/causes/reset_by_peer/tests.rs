//! C40 is named when a server elsewhere resets connections before it answers, or instead of an answer; not for resets
//! at the end of an answer, or after a pause.

use recording::tables::{Event, Socket};
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Level, Number, Role};
use synth::{Broken, CLIENT, Dial, Fixture, SERVER};

const ID: &str = "reset-by-peer";
const AT: &str = "192.0.2.9:443";

/// Connections to a server elsewhere, every n-th of which is reset after `after_ms`, with this many bytes received.
fn elsewhere(every: u32, after_ms: f64, received: u64) -> Fixture {
    let mut f = Fixture::new();
    f.count(CLIENT, "Tcp.EstabResets", 0, 60);
    for i in 0..60u32 {
        let at_ms = 100.0 + f64::from(i) * 100.0;
        let dial = Dial {
            server: None,
            from: format!("10.79.0.2:{}", 30_000 + i),
            to: AT,
            at_ms,
            ..Dial::default()
        };
        match i % every {
            0 => f.break_off(Broken {
                dial,
                at_ms: at_ms + after_ms,
                by: None,
                moved: [500, received],
                ..Broken::default()
            }),
            _ => f.dial(Dial {
                ends_ms: Some(at_ms + 50.0),
                ..dial
            }),
        }
    }
    f
}

#[test]
fn a_server_elsewhere_resets_before_it_answers() {
    let f = only(&elsewhere(5, 15.0, 0), ID);
    assert_eq!((f.impact.affected, f.impact.of), (12, 60));
    assert_eq!(f.confidence.level, Level::Medium);
    let title = "192.0.2.9:443 resets connections before it answers: 12 of 60 connections.";
    assert_eq!(f.title, title);
    assert_eq!((f.scope.pid, f.scope.role), (Some(77), Role::Client));
    assert_eq!(number(&f, "taken"), &Number::Count(12));
    assert!(f.arithmetic.iter().all(|c| c.agrees));
    assert!(ruled_out(&f, "idle-timeout-mismatch").starts_with("0 of 12 resets"));
}

#[test]
fn before_the_request_was_taken() {
    let mut recording = elsewhere(5, 15.0, 500);
    assert!(
        found(&recording).is_empty(),
        "that is how some servers close"
    );
    for end in recording
        .events
        .iter_mut()
        .filter(|e| e.bytes_unacked.is_some())
    {
        end.bytes_unacked = Some(100_000);
    }
    let f = only(&recording, ID);
    assert!(f.title.contains("before it has the request"), "{}", f.title);
    assert_eq!(number(&f, "asking"), &Number::Count(12));
}

#[test]
fn where_addresses_are_translated_this_host_may_have_sent_them() {
    let mut f = elsewhere(5, 15.0, 0);
    // To the address that the clients have beyond the translation.
    let (addr, port, _) = synth::place("203.0.113.1:40000");
    let sent = f
        .events
        .iter()
        .filter(|e| e.kind == EventKind::ResetReceived);
    let sent: Vec<Event> = sent
        .map(|e| Event {
            netns: SERVER,
            kind: EventKind::ResetSent,
            state: Some(TcpState::Close),
            local_addr: e.remote_addr,
            local_port: e.remote_port,
            remote_addr: addr,
            remote_port: port,
            ..e.clone()
        })
        .collect();
    f.events.extend(sent);
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

#[test]
fn resets_at_the_end_of_an_answer_and_few_of_them_are_healthy() {
    assert!(found(&elsewhere(5, 15.0, 20_000)).is_empty());
    assert!(found(&elsewhere(15, 15.0, 0)).is_empty());
}

/// Resets of older connections that had sent this much at their last sample, and have received nothing since.
fn midway(acked: u64, every_ms: f64) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..8u32 {
        f.break_off(Broken {
            dial: Dial {
                server: None,
                from: format!("10.79.0.2:{}", 30_000 + i),
                to: AT,
                at_ms: 500.0,
                took_ms: 0.0,
                older: true,
                ..Dial::default()
            },
            at_ms: 1_000.0 + f64::from(i) * every_ms,
            by: None,
            moved: [2_000, 3_000],
            ..Broken::default()
        });
        let sample = f.sockets.last_mut().expect("a sample");
        *sample = Socket {
            state: TcpState::Established,
            bytes_acked: Some(acked),
            bytes_received: Some(3_000),
            last_ack_recv_ms: Some(10),
            ..sample.clone()
        };
    }
    f
}

#[test]
fn a_worker_that_dies_with_a_request() {
    let f = only(&midway(1_000, 300.0), ID);
    assert!(f.title.contains("instead of an answer"), "{}", f.title);
    assert_eq!(number(&f, "asked"), &Number::Count(8));
    // A restart, a crash: one event, and the answers are lost as well.
    let f = only(&midway(1_000, 10.0), ID);
    assert!(
        f.title.contains("all at once, instead of an answer"),
        "{}",
        f.title
    );
    assert!(f.fix.contains("a restart, a crash"), "{}", f.fix);
}

#[test]
fn lost_events_and_blind_sources() {
    let mut f = elsewhere(5, 15.0, 0);
    f.without(SourceName::ResetsReceived);
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

/// One reset connection is chance; the command's own is what it met, and one caller's third in a row is no chance.
#[test]
fn one_of_the_command_and_three_of_one_caller_are_told() {
    let resets = |n: u32, every_ms: f64| {
        let mut f = Fixture::new();
        for i in 0..n {
            let at_ms = 100.0 + f64::from(i) * every_ms;
            f.break_off(Broken {
                dial: Dial {
                    server: None,
                    from: format!("10.79.0.2:{}", 30_000 + i),
                    to: AT,
                    at_ms,
                    ..Dial::default()
                },
                at_ms: at_ms + 15.0,
                by: None,
                moved: [500, 0],
                ..Broken::default()
            });
        }
        f
    };
    let mut one = resets(1, 0.0);
    assert!(found(&one).is_empty());
    one.manifest.command_line = ["tcpwhy", "explain", "--", "wrk"].map(String::from).into();
    let f = only(&one, ID);
    let title = "192.0.2.9:443 resets a connection before it answers: 1 of 1 connection.";
    assert_eq!(f.title, title);
    assert!(only(&resets(4, 1_500.0), ID).title.contains("4 of 4"));
    assert!(found(&resets(4, 100.0)).is_empty(), "one moment");
}
