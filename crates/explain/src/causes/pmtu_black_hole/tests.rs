//! C30 is named when full segments hang beside small ones that pass, and not when all or none hang.

use recording::{EventKind, SourceName};

use crate::causes::local_firewall_drop::tests::{ROUTER, each_drop_of_retransmissions};
use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{CLIENT, Fixture, Flow, SERVER, START_NS, cases};

const ID: &str = "pmtu-black-hole";

/// Removes the small connections, and what they prove.
fn alone(f: &mut Fixture) {
    let small = |port: u16| port >= 42_000;
    f.events
        .retain(|e| !small(e.local_port) && !small(e.remote_port));
}

#[test]
fn both_ends_here() {
    let f = only(&cases::black_hole(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (4, 24));
    assert_eq!(
        f.scope.resource.as_deref(),
        Some("path 10.79.0.2 → 10.79.0.1")
    );
    assert_eq!(number(&f, "timeouts"), &Number::Count(4 * 5));
    assert_eq!(number(&f, "mss"), &Number::Count(1_448));
    assert_eq!(number(&f, "hung_ns"), &Number::Count(6_300_000_000));
    assert_eq!(number(&f, "passed_bytes"), &Number::Count(300));
    // The first of 20 was made before the first timeout, and two after the last.
    assert!(matches!(number(&f, "established"), Number::Count(n) if *n >= 15));
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert!(ruled_out(&f, "path-loss").contains("all 20 failed"));
    let clamp = Change::ClampMss {
        netns: CLIENT,
        to: "10.79.0.1".into(),
        mss: 1_240,
    };
    assert_eq!(f.advice[0].change, Some(clamp));
    let probing = |a: &crate::Advice| a.action.contains("tcp_mtu_probing=1");
    assert!(f.advice.iter().any(probing));
}

#[test]
fn the_sender_alone_cannot_be_sure() {
    let mut recording = cases::black_hole();
    recording.seen_from(CLIENT);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    let mut recording = cases::black_hole();
    recording.seen_from(SERVER);
    assert!(found(&recording).is_empty(), "the receiver sees nothing");
}

#[test]
fn what_was_not_recorded_lowers_the_confidence_or_leaves_nothing() {
    let mut recording = cases::black_hole();
    recording.lose(SourceName::Retransmits, 3);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    for source in [SourceName::Retransmits, SourceName::Sockets] {
        let mut recording = cases::black_hole();
        recording.without(source.clone());
        assert!(found(&recording).is_empty(), "{source}");
    }
}

#[test]
fn a_path_that_is_down_is_not_it() {
    // Nothing else passes.
    let mut down = cases::black_hole();
    alone(&mut down);
    only(&down, "peer-gone");
    // It was down, and came back after the last timeout but one.
    let mut over = cases::black_hole();
    let back = START_NS + 6_000_000_000;
    for event in &mut over.events {
        if event.local_port >= 42_000 || event.remote_port >= 42_000 {
            event.time_ns = back + (event.time_ns - START_NS) / 100;
        }
    }
    // That one was answered.
    over.sockets
        .retain(|s| s.time_ns <= START_NS + 7_000_000_000);
    assert!(found(&over).iter().all(|f| f.cause != ID));
}

/// One retransmission after others had passed: that it failed shows what comes later.
#[test]
fn a_last_retransmission_that_nothing_answers_has_failed() {
    let until = |ms: u64| {
        let mut f = cases::black_hole();
        let at = |ms: u64| START_NS + ms * 1_000_000;
        f.events.retain(|e| {
            let small = e.local_port >= 42_000 || e.remote_port >= 42_000;
            let passed = (at(1_700)..at(3_200)).contains(&e.time_ns);
            if small { passed } else { e.time_ns < at(3_500) }
        });
        f.sockets.retain(|s| s.time_ns < at(ms));
        f
    };
    // The timer fired at 3.3 s for the last time, and a first timeout takes up to a second.
    assert!(found(&until(4_200)).iter().all(|f| f.cause != ID));
    only(&until(5_500), ID);
}

#[test]
fn small_segments_that_hang_too_are_not_it() {
    let mut recording = cases::black_hole();
    recording.hang("10.79.0.2:41000", 1, 200);
    only(&recording, "peer-gone");
}

#[test]
fn full_segments_that_pass_exclude_it() {
    let mut recording = cases::black_hole();
    recording.flow(Flow {
        from: "10.79.0.2:41000".into(),
        rate: 100_000,
        ..Flow::default()
    });
    only(&recording, "peer-gone");
    // In messages of two segments and a bit: flows die, whatever their size.
    let mut recording = cases::black_hole();
    recording.flow(Flow {
        from: "10.79.0.2:41000".into(),
        rate: 300_000,
        ..Flow::default()
    });
    let messages = |s: &&mut recording::tables::Socket| s.local_port == 41_000;
    for socket in recording.sockets.iter_mut().filter(messages) {
        socket.delivered = socket.bytes_acked.map(|bytes| bytes as u32 / 1_000);
    }
    only(&recording, "peer-gone");
    // Over a connection too short to be sampled.
    let mut recording = cases::black_hole();
    for event in &mut recording.events {
        if event.netns == CLIENT && event.local_port == 42_010 {
            event.bytes_acked = event.bytes_acked.map(|_| 40_000);
        }
    }
    only(&recording, "peer-gone");
}

#[test]
fn other_reasons_to_send_again_are_not_it() {
    // The receiver's window is closed.
    let mut closed = cases::black_hole();
    for socket in &mut closed.sockets {
        socket.snd_wnd = Some(0);
    }
    only(&closed, "zero-window");
    // Other segments each time.
    let mut others = cases::black_hole();
    for (nth, event) in others.events.iter_mut().enumerate() {
        event.seq = event.seq.map(|_| nth as u32);
    }
    assert!(found(&others).iter().all(|f| f.cause != ID));
    only(&cases::lossy(), "path-loss");
}

#[test]
fn made_up_numbers_do_no_harm() {
    for most in [0, 1, 100, u32::MAX] {
        let mut recording = cases::black_hole();
        for socket in &mut recording.sockets {
            socket.snd_mss = Some(most);
            socket.pmtu = Some(most);
            socket.unacked = Some(u32::MAX);
            socket.send_queue = Some(most);
            socket.bytes_acked = Some(u64::MAX);
        }
        assert!(found(&recording).iter().all(|f| f.cause != ID));
    }
}

/// The same, with only the last timeout of each within the recording: the sockets count the others.
fn older(timeouts_seen: u32) -> Fixture {
    let mut f = cases::black_hole();
    let most = f.events.iter().filter_map(|e| e.attempt).max().unwrap();
    f.events.retain(|e| {
        let small = e.local_port >= 42_000 || e.remote_port >= 42_000;
        small || e.attempt.is_some_and(|nth| nth + timeouts_seen > most)
    });
    f.sockets
        .retain(|s| s.local_port < 42_000 && s.remote_port < 42_000);
    let hung: Vec<_> = f.sockets.iter().map(|s| s.local_port).collect();
    assert!(!hung.is_empty());
    for socket in &mut f.sockets {
        if socket.netns == CLIENT {
            (socket.rto_count, socket.bytes_acked) = (Some(7), Some(1));
        }
    }
    f
}

#[test]
fn what_hung_before_the_recording_is_told_when_something_passes_it() {
    // The timer did not fire meanwhile: the path may have recovered.
    assert_eq!(found(&older(0)).len(), 0);
    let told = only(&older(1), ID);
    assert_eq!(number(&told, "timeouts"), &Number::Count(4 * 8));
    assert_eq!(told.confidence.level, Level::Medium);
    // Enough of these are seen.
    let says = |f: &crate::Finding| f.confidence.because.join(" ");
    let limits = |f: &crate::Finding| says(f).contains("before the recording");
    assert!(limits(&told) && !limits(&only(&older(4), ID)));
    let mut f = older(0);
    for socket in f.sockets.iter_mut().filter(|s| s.netns == CLIENT) {
        socket.sacked = Some(2);
    }
    let told = only(&f, ID);
    assert_eq!(
        told.confidence.level,
        Level::Medium,
        "{:?}",
        told.confidence
    );
    assert_eq!(number(&told, "timeouts"), &Number::Count(4 * 7));
    let since = told.since.expect("known");
    assert_eq!(since.began, crate::moment::Began::Before);
    // One of them got something acknowledged: it goes on.
    let ports = |s: &&mut recording::tables::Socket| s.netns == CLIENT;
    let last = f.sockets.iter().map(|s| s.time_ns).max();
    for socket in f.sockets.iter_mut().filter(ports) {
        if Some(socket.time_ns) == last {
            socket.bytes_acked = Some(15_000);
        }
    }
    assert_eq!(found(&f).len(), 0);
}

/// The narrow link is a namespace of this host: its drops say so, whatever else passes.
#[test]
fn a_narrow_link_of_this_host_is_named_by_its_drops() {
    for small_pass in [true, false] {
        let mut f = cases::black_hole();
        if !small_pass {
            alone(&mut f);
        }
        each_drop_of_retransmissions(&mut f, ROUTER, "PKT_TOO_BIG");
        let f = only(&f, ID);
        assert!(f.title.contains("MTU"), "{}", f.title);
        assert_eq!(f.impact.affected, 4);
        assert!(f.lost_s.seconds() > Some(15.0), "{:?}", f.lost_s.seconds());
        let pass = Change::PassPackets {
            netns: Some(ROUTER),
            at: f.scope.listener.clone(),
        };
        assert_eq!(f.advice[0].change, Some(pass));
    }
}

/// Path MTU discovery at work: one drop, and the sender learns at once.
#[test]
fn a_packet_too_big_that_the_sender_hears_of_is_none() {
    let mut f = cases::black_hole();
    each_drop_of_retransmissions(&mut f, ROUTER, "PKT_TOO_BIG");
    let first = f.events.iter().find(|e| e.kind == EventKind::Drop).cloned();
    f.events
        .retain(|e| !matches!(e.kind, EventKind::Drop | EventKind::Retransmit));
    f.sockets.clear();
    f.events.extend(first);
    f.events.sort_by_key(|e| e.time_ns);
    assert!(found(&f).iter().all(|f| f.cause != ID));
}
