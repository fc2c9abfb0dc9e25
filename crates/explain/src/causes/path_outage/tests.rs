//! C54 is named when most connections of a path hang at once and then go on, not when one does, or when they stay.

use crate::Level;
use crate::causes::testing::{found, only, ruled_out};
use recording::EventKind;
use synth::{CLIENT, Fixture, cases};

const ID: &str = "path-outage";

/// Three connections that hang from 0.15 s on; this many of them hear something again before the end.
fn back(heard: usize) -> Fixture {
    let mut f = cases::silent();
    f.seen_from(CLIENT);
    let last_ns = f.sockets.iter().map(|s| s.time_ns).max();
    let last = f.sockets.iter_mut().filter(|s| Some(s.time_ns) == last_ns);
    for row in last.take(heard) {
        row.rto_count = None;
        row.unacked = Some(0);
        row.last_ack_recv_ms = Some(20);
    }
    f
}

#[test]
fn all_hang_and_go_on() {
    let f = only(&back(3), ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (3, 3));
    let title = "3 connections from 10.79.0.2 to 10.79.0.1 hung at once for ";
    assert!(f.title.starts_with(title), "{}", f.title);
    assert!(ruled_out(&f, "peer-gone").contains("none of 3 connections still hung"));
    let lost = f.lost_s.seconds().expect("measured");
    assert!((15.0..24.0).contains(&lost), "{lost}");
}

#[test]
fn look_alikes_are_not_it() {
    let causes = |f: &Fixture| {
        let all = found(f);
        all.iter().map(|f| f.cause.as_str()).collect::<Vec<_>>()
    };
    // Nothing came back; and one of three did.
    assert_eq!(causes(&back(0)), ["peer-gone"]);
    assert!(!causes(&back(1)).contains(&ID));
    for recording in [
        cases::lossy(),
        cases::tails(),
        cases::bloated(),
        cases::black_hole(),
    ] {
        assert!(!causes(&recording).contains(&ID));
    }
}

#[test]
fn a_connection_of_which_nothing_ever_arrived_says_nothing_of_the_path() {
    let acked = |bytes| {
        let mut f = back(3);
        for row in f.sockets.iter_mut() {
            row.bytes_acked = Some(bytes);
            row.bytes_received = Some(0);
        }
        found(&f).iter().any(|f| f.cause.as_str() == ID)
    };
    assert!(!acked(1), "the SYN alone");
    assert!(acked(300));
}

#[test]
fn moments_at_the_end_of_all_time_are_none() {
    let mut f = back(3);
    let events = f.events.iter_mut();
    for event in events.filter(|e| e.kind == EventKind::Retransmit) {
        event.time_ns = u64::MAX;
    }
    assert!(found(&f).iter().all(|f| f.cause != ID));
}
