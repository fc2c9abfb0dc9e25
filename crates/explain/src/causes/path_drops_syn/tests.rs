//! C09 is named when SYNs vanish between here and there, and not when anything here explains it.

use recording::tables::{Event, Socket};
use recording::{EventKind, SourceName, TcpState};

use crate::causes::testing::{found, only, ruled_out};
use crate::{Began, Change, Level};
use synth::{CLIENT, Dial, Fixture, Listen, START_NS, cases};

const ID: &str = "path-drops-syn";

/// A third of 90 connects lose their first SYN; `resends` of the others' segments get lost.
fn lost(resends: u32) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..90u16 {
        let at_ms = 100.0 + f64::from(i) * 50.0;
        let lost = i % 3 == 0;
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            at_ms,
            took_ms: if lost { 1_014.0 } else { 10.4 },
            retries: lost.into(),
            resends: if lost { 0 } else { resends },
            ends_ms: Some(at_ms + 1_100.0),
            ..Dial::default()
        });
    }
    f
}

#[test]
fn both_ends_here() {
    let f = only(&lost(0), ID);
    assert_eq!((f.impact.affected, f.impact.of), (30, 90));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.arithmetic.iter().all(|c| c.agrees) && f.arithmetic.len() == 2);
    let pass = Change::PassSyns {
        at: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(pass));
    assert!(ruled_out(&f, "local-firewall-drop").contains("dropped 0 SYNs"));
}

#[test]
fn only_the_client_here() {
    let mut recording = lost(0);
    recording.seen_from(CLIENT);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Low);
    assert!(f.title.contains("beyond this host"), "{}", f.title);
}

#[test]
fn a_path_that_loses_everything_is_another_cause() {
    assert!(found(&lost(2)).iter().all(|f| f.cause != ID));
}

#[test]
fn without_drops_nobody_knows() {
    for source in [SourceName::Drops, SourceName::Retransmits] {
        let mut recording = lost(0);
        recording.without(source.clone());
        assert!(found(&recording).is_empty(), "{source}");
    }
}

#[test]
fn what_explains_it_here_is_named_instead() {
    for other in [cases::accept_queue(), cases::syn_queue(), cases::refused()] {
        assert!(found(&other).iter().all(|f| f.cause != ID));
    }
    assert!(found(&cases::churn()).is_empty());
}

/// Connects that waited in SYN_SENT when the recording began, and still do: no event tells of them.
fn hanging(n: u16, retransmits: u32) -> Fixture {
    let mut f = Fixture::new();
    let (remote_addr, remote_port, family) = synth::place("192.0.2.9:443");
    for i in 0..n {
        for second in [0, 5, 9] {
            let (local_addr, _, _) = synth::place("10.79.0.2:0");
            f.sockets.push(Socket {
                time_ns: START_NS + second * 1_000_000_000,
                netns: CLIENT,
                sock: 7_000 + u64::from(i),
                inode: Some(7_000 + u64::from(i)),
                family,
                state: TcpState::SynSent,
                local_addr,
                local_port: 40_000 + i,
                remote_addr,
                remote_port,
                congestion: Some("cubic".into()),
                total_retrans: Some(retransmits),
                ..Socket::default()
            });
        }
    }
    f
}

#[test]
fn connects_that_hung_before_the_recording_are_told() {
    let f = only(&hanging(2, 5), ID);
    assert!(
        f.title.starts_with("2 connects to 192.0.2.9:443 hang"),
        "{}",
        f.title
    );
    assert_eq!(f.confidence.level, Level::Low);
    assert_eq!(f.lost_s.seconds(), Some(20.0));
    let since = f.since.expect("a moment");
    assert_eq!(since.began, Began::Before);
}

#[test]
fn a_connect_that_was_never_retransmitted_or_where_others_get_through_does_not_hang() {
    assert!(found(&hanging(2, 0)).is_empty());
    let mut f = hanging(1, 5);
    // Somebody gets through to the same place.
    f.dial(Dial {
        to: "192.0.2.9:443",
        ..Dial::default()
    });
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

#[test]
fn a_frame_for_another_host_was_not_dropped_here() {
    let mut f = lost(0);
    let retries = f.events.iter().filter(|e| e.kind == EventKind::Retransmit);
    let copies = retries.map(|e| Event {
        kind: EventKind::Drop,
        reason: Some("OTHERHOST".into()),
        flags: Some(2),
        local_addr: e.remote_addr,
        local_port: e.remote_port,
        remote_addr: e.local_addr,
        remote_port: e.local_port,
        sock: None,
        state: None,
        ..e.clone()
    });
    let copies: Vec<Event> = copies.collect();
    assert!(copies.len() >= 30);
    f.events.extend(copies);
    only(&f, ID);
}
