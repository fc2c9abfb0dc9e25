//! C20 is named when transfers stand in a queue of their own making, and not for just any used link.

use recording::SourceName;

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{CLIENT, cases};

const ID: &str = "bufferbloat";

#[test]
fn the_queue_is_computed() {
    let f = only(&cases::bloated(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (5, 5));
    assert_eq!(number(&f, "transfers"), &Number::Count(3));
    // 2.25 MB/s × 219.9 ms.
    let Number::Count(queue) = number(&f, "queue_bytes") else {
        panic!("not a count");
    };
    assert!((480_000..510_000).contains(queue), "{queue}");
    assert!(ruled_out(&f, "slow-reader").contains("0 %"));
    let bbr = Change::Congestion {
        netns: CLIENT,
        value: "bbr".into(),
    };
    assert_eq!(f.advice[0].change, Some(bbr));
}

#[test]
fn look_alikes_are_not_bufferbloat() {
    assert!(found(&cases::used_to_the_full()).is_empty());
    only(&cases::slow_reader(), "slow-reader");
    // Late, but with a window that the receiver holds shut.
    let mut recording = cases::bloated();
    for socket in &mut recording.sockets {
        socket.rwnd_limited_us = socket.busy_us;
    }
    assert!(found(&recording).is_empty());
}

#[test]
fn a_shorter_queue_is_told_where_somebody_waits_in_it() {
    // 60 ms on a path of 20 ms.
    let mut recording = cases::bloated();
    for socket in &mut recording.sockets {
        let waits = socket.rtt_us.is_some_and(|us| us > 200_000);
        socket.rtt_us = socket.rtt_us.map(|us| if waits { 80_000 } else { us });
    }
    let f = only(&recording, ID);
    assert_eq!(number(&f, "rtt_us"), &Number::Count(80_000));
    let bulk = |s: &recording::tables::Socket| s.local_port < 41_000 && s.remote_port < 41_000;
    recording.sockets.retain(bulk);
    assert!(found(&recording).is_empty());
}

#[test]
fn what_lags_behind_a_queue_that_grows_waits_in_it() {
    // 240 ms on a path of 20 ms: 69 ms is their geometric mean.
    let level = |us| {
        let mut recording = cases::bloated();
        let beside =
            |s: &recording::tables::Socket| s.local_port >= 41_000 || s.remote_port >= 41_000;
        for socket in recording.sockets.iter_mut().filter(|s| beside(s)) {
            socket.rtt_us = socket.rtt_us.map(|rtt| rtt.min(us));
        }
        let f = only(&recording, ID);
        (f.confidence.level, f.lost_s.seconds().is_some())
    };
    assert_eq!(level(90_000), (Level::High, true));
    assert_eq!(level(50_000), (Level::Low, false));
}

#[test]
fn what_bbr_keeps_in_flight_itself_is_no_deep_buffer() {
    // Several transfers make five times 20 ms of any path; eleven times is a buffer.
    let mut recording = cases::bloated();
    for socket in &mut recording.sockets {
        socket.congestion = Some("bbr".into());
    }
    let f = only(&recording, ID);
    assert!(matches!(
        f.advice[0].change,
        Some(Change::RepairPath { .. })
    ));
    assert!(f.advice.iter().all(|a| !a.action.contains("BBR")));
    assert!(!f.fix.contains("BBR"), "{}", f.fix);
    for socket in &mut recording.sockets {
        socket.rtt_us = socket.rtt_us.map(|us| us.min(100_000));
    }
    assert!(found(&recording).is_empty());
}

#[test]
fn without_samples_there_is_silence() {
    let mut recording = cases::bloated();
    recording.without(SourceName::Sockets);
    assert!(found(&recording).is_empty());
}
