//! C18 is named when timers repair single segments, and not when ACKs do, or nothing was lost.

use recording::{RetransmitKind, SourceName};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{CLIENT, Fixture, Flow, RequestMix, SERVER, cases};

const ID: &str = "tail-loss";

#[test]
fn both_ends_here() {
    let f = only(&cases::tails(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (5, 5));
    assert_eq!(
        f.scope.resource.as_deref(),
        Some("path 10.79.0.2 → 10.79.0.1")
    );
    // Two a second, except those before the first sample.
    assert_eq!(number(&f, "waited"), &Number::Count(5 * 2 * 7));
    assert_eq!(number(&f, "lost"), &Number::Count(5 * 2 * 7));
    assert_eq!(number(&f, "timer_us"), &Number::Real(204_000.0));
    assert!(f.arithmetic.len() == 1 && f.arithmetic[0].agrees);
    assert!(ruled_out(&f, "path-loss").contains("70 of 70 segments retransmitted waited"));
    let repair = Change::RepairPath {
        from: "10.79.0.2".into(),
        to: "10.79.0.1".into(),
    };
    assert_eq!(f.advice[0].change, Some(repair));
}

#[test]
fn lost_both_ways_is_one_trouble() {
    let one_way = only(&cases::tails(), ID)
        .lost_s
        .seconds()
        .expect("measured");
    let mut recording = cases::tails();
    for i in 0..4 {
        recording.flow(Flow {
            from: format!("10.79.0.2:{}", 41_000 + i),
            answers: true,
            rate: 40 * 1_448,
            rtt_us: [4_000, 500, 3_900],
            unacked: 1,
            unsent: 0,
            cwnd: 10,
            again: vec![(RetransmitKind::Tlp, 4_000), (RetransmitKind::Rto, 4_000)],
            ..Flow::default()
        });
    }
    let f = only(&recording, ID);
    assert!(
        f.title
            .starts_with("Tail loss 10.79.0.2 ↔ 10.79.0.1: 126 times"),
        "{}",
        f.title
    );
    assert_eq!((f.impact.affected, f.impact.of), (9, 9));
    assert_eq!(number(&f, "late_back"), &Number::Count(4 * 2 * 7));
    let both = f.lost_s.seconds().expect("measured");
    assert!((1.7..1.9).contains(&(both / one_way)), "{both} {one_way}");
}

#[test]
fn answers_lost_on_the_way_back_are_late_though_nothing_is_retransmitted() {
    let mut recording = cases::tails();
    recording.seen_from(CLIENT);
    let without = only(&recording, ID).lost_s.seconds().expect("measured");
    let asked = |slow| {
        let mut recording = cases::tails();
        recording.seen_from(CLIENT);
        recording.ask(RequestMix {
            here: [false, true],
            slow,
            ..RequestMix::default()
        });
        only(&recording, ID)
    };
    let f = asked((30, 210.0));
    assert_eq!(number(&f, "late_answers"), &Number::Count(30));
    let longer = f.lost_s.seconds().expect("measured") - without;
    assert!((5.5..6.5).contains(&longer), "{longer}");
    // Sooner than a timer.
    let f = asked((30, 150.0));
    assert_eq!(f.lost_s.seconds(), Some(without));
}

#[test]
fn the_sender_alone_cannot_be_sure() {
    let mut recording = cases::tails();
    recording.seen_from(CLIENT);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    let mut recording = cases::tails();
    recording.seen_from(SERVER);
    assert!(
        found(&recording).is_empty(),
        "the receiver retransmits nothing"
    );
}

#[test]
fn what_was_not_recorded_lowers_the_confidence_or_leaves_nothing() {
    let mut recording = cases::tails();
    recording.without(SourceName::Drops);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    for source in [SourceName::Retransmits, SourceName::Sockets] {
        let mut recording = cases::tails();
        recording.without(source.clone());
        assert!(found(&recording).is_empty(), "{source}");
    }
}

#[test]
fn transfers_are_path_loss_also_with_some_timeouts() {
    let mut recording = cases::lossy();
    let sent_again = recording
        .events
        .iter_mut()
        .filter(|e| e.retransmit_kind.is_some());
    for event in sent_again.step_by(4) {
        event.retransmit_kind = Some(RetransmitKind::Rto);
    }
    only(&recording, "path-loss");
    // And messages are not, also when some losses are found by ACKs.
    let mut recording = cases::tails();
    let sent_again = recording
        .events
        .iter_mut()
        .filter(|e| e.retransmit_kind.is_some());
    for event in sent_again.step_by(4) {
        event.retransmit_kind = Some(RetransmitKind::Rack);
    }
    only(&recording, ID);
}

#[test]
fn look_alikes_are_not_it() {
    only(&cases::nagle(), "nagle-delayed-ack");
    only(&cases::black_hole(), "pmtu-black-hole");
    only(&cases::shaped(), "qdisc-drop");
    // The receiver had them all: a CPU was late, not a packet.
    let mut spurious = cases::tails();
    for socket in &mut spurious.sockets {
        socket.dsack_dups = socket.data_segs_out.map(|n| n * 2 / 42);
    }
    assert!(found(&spurious).is_empty());
    // A lost answer makes a duplicate of the request: when as many were lost, that raises no doubt.
    let mut answers = cases::tails();
    for socket in &mut answers.sockets {
        socket.dsack_dups = socket.data_segs_out.map(|n| n / 42);
    }
    let claims = |f: &Fixture| only(f, ID).lost_s.seconds().expect("measured");
    let both = claims(&answers);
    // Where the other end is elsewhere, no other end claims its timer's time.
    answers.seen_from(CLIENT);
    let alone = claims(&answers);
    assert!((1.8..2.5).contains(&(alone / both)), "{alone} {both}");
    // Without SACK it cannot be told.
    let mut untold = cases::tails();
    for event in &mut untold.events {
        event.sack = event.sack.map(|_| false);
    }
    assert!(found(&untold).iter().all(|f| f.cause != ID));
    // The first data sent: the other end may not know of the connection.
    let mut first = cases::tails();
    for socket in &mut first.sockets {
        (socket.bytes_acked, socket.bytes_received) = (Some(0), Some(0));
    }
    assert!(found(&first).iter().all(|f| f.cause != ID));
    // Timers with almost no wait, on a route with a low rto_min.
    let mut soon = cases::tails();
    for socket in &mut soon.sockets {
        socket.rto_us = Some(9_000);
    }
    assert!(found(&soon).is_empty());
    // A few, over one second.
    let mut few = cases::tails();
    few.events
        .retain(|e| e.retransmit_kind.is_none() || e.time_ns < synth::START_NS + 1_800_000_000);
    assert!(found(&few).is_empty());
}

#[test]
fn answers_that_the_way_back_loses_count_where_something_was_lost_on_the_way_there() {
    let mostly_back = |duplicates: u32| {
        let mut recording = cases::tails();
        let mut nth = 0;
        recording.events.retain(|e| {
            nth += u64::from(e.retransmit_kind.is_some());
            e.retransmit_kind.is_none() || nth % 3 == 0
        });
        for socket in &mut recording.sockets {
            let later = socket.time_ns > synth::START_NS + 3_000_000_000;
            socket.dsack_dups = Some(if later { duplicates } else { 0 });
        }
        recording
    };
    // The receivers had 15 of 23: fewer than ten were lost on the way there.
    let f = only(&mostly_back(3), ID);
    let Number::Count(lost) = number(&f, "lost") else {
        panic!("a count");
    };
    assert!((3..10).contains(lost), "{lost}");
    // They had all of them: a CPU was late.
    assert!(found(&mostly_back(5)).is_empty());
}

#[test]
fn made_up_numbers_do_no_harm() {
    for most in [0, 1, u32::MAX] {
        let mut recording = cases::tails();
        for socket in &mut recording.sockets {
            socket.rto_us = Some(most);
            socket.min_rtt_us = Some(most);
            socket.unacked = Some(most);
            socket.data_segs_out = Some(most);
        }
        for finding in found(&recording) {
            assert!(finding.impact.share <= 1.0, "{finding:?}");
        }
    }
}
