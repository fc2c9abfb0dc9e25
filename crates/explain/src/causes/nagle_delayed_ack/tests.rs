//! C22 is named when a small segment is held and the ACK comes late, and not for either alone.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use recording::counter;
use recording::tables::Socket;
use synth::{CLIENT, Fixture, Flow, Listen, RequestMix, SERVER, cases};

const ID: &str = "nagle-delayed-ack";

#[test]
fn both_ends_here() {
    let f = only(&cases::nagle(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.scope.pid), (5, Some(77)));
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert_eq!(number(&f, "delay_us"), &Number::Real(43_700.0));
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert!(ruled_out(&f, "tail-loss").contains("0 had to wait"));
    let nodelay = Change::NoDelay {
        netns: CLIENT,
        to: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(nodelay));
}

#[test]
fn the_client_alone_cannot_be_sure() {
    let mut recording = cases::nagle();
    recording.seen_from(CLIENT);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
}

#[test]
fn the_answers_of_a_server_are_one_finding_whoever_its_clients_are() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for client in 0..5 {
        f.flow(Flow {
            from: format!("10.79.0.{}:40000", 2 + client),
            answers: true,
            ..cases::held()
        });
    }
    f.raise(CLIENT, counter::DELAYED_ACKS, 5 * 23 * 8);
    let f = only(&f, ID);
    assert_eq!((f.impact.affected, f.scope.netns.inode), (5, SERVER));
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert!(f.title.contains("per answer"), "{}", f.title);
    assert!(matches!(
        &f.advice[0].change,
        Some(Change::NoDelay { netns: SERVER, .. })
    ));
}

#[test]
fn who_has_switched_nagle_off_or_corks_is_not_held_by_it() {
    for option in [(|s| s.nodelay = Some(true)) as fn(&mut Socket), |s| {
        s.corked = Some(true)
    }] {
        let mut f = cases::nagle();
        f.sockets.iter_mut().for_each(option);
        assert!(found(&f).is_empty());
    }
    let mut f = cases::nagle();
    f.sockets.iter_mut().for_each(|s| s.nodelay = Some(false));
    only(&f, ID);
}

#[test]
fn a_paced_transfer_has_a_piece_left_now_and_then_and_waits_for_no_ack() {
    // Seen from both sides: the peer's timer sent almost none.
    let held = |rate, acks| {
        let mut f = Fixture::new();
        f.listen(Listen::default());
        for i in 0..5 {
            f.flow(Flow {
                from: format!("10.79.0.2:{}", 40_000 + i),
                rate,
                ..cases::held()
            });
        }
        f.raise(SERVER, counter::DELAYED_ACKS, acks);
        f
    };
    only(&held(23 * 2_896, 500), ID);
    assert!(found(&held(23 * 2_896, 20)).is_empty());
    // From the sender's alone: a transfer of 400 Mbit/s does not wait 40 ms for every piece.
    let mut fast = held(50_000_000, 500);
    fast.seen_from(CLIENT);
    assert!(found(&fast).is_empty());
}

#[test]
fn look_alikes_are_not_it() {
    // The ACK comes at once: Nagle holds the segment for a round trip, which is nothing.
    let mut quick = cases::nagle();
    for socket in &mut quick.sockets {
        (socket.rtt_us, socket.rttvar_us) = (Some(60), Some(20));
    }
    assert!(found(&quick).is_empty());
    // The path is that long.
    let mut far = cases::nagle();
    for socket in &mut far.sockets {
        socket.min_rtt_us = Some(40_000);
    }
    assert!(found(&far).is_empty());
    // Nothing is held: the peer is just slow.
    let mut slow = cases::nagle();
    for socket in &mut slow.sockets {
        socket.notsent_bytes = Some(0);
    }
    assert!(found(&slow).is_empty());
    assert!(found(&cases::used_to_the_full()).is_empty());
}

/// Fifty requests of a client; the end of some left this late, ms; no sample found anything in flight.
fn left_late(late: u64, ms: f64) -> Fixture {
    let mut f = Fixture::new();
    f.ask(RequestMix {
        here: [false, true],
        usual: (50 - late, 0.2),
        slow: (late, ms + 0.2),
        unsent_ms: ms,
        ..RequestMix::default()
    });
    f.flow(Flow {
        from: "10.79.0.2:41000".into(),
        rate: 12 * 1_448,
        rtt_us: [200, 50, 100],
        unacked: 0,
        ..Flow::default()
    });
    f.seen_from(CLIENT);
    f
}

#[test]
fn of_a_stream_that_nothing_answers_nobody_waits_for_the_pieces() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..5 {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", 40_000 + i),
            back: 0,
            ..cases::held()
        });
    }
    f.raise(SERVER, counter::DELAYED_ACKS, 500);
    assert!(found(&f).is_empty());
}

#[test]
fn requests_that_left_late_tell_it_where_no_sample_does() {
    let f = only(&left_late(20, 40.0), ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert_eq!(number(&f, "late_requests"), &Number::Count(20));
    assert!(f.title.contains("loses 40 ms per message"), "{}", f.title);
    // Twice is chance; a window that closes or a round trip takes any time.
    assert!(found(&left_late(2, 40.0)).is_empty());
    assert!(found(&left_late(20, 120.0)).iter().all(|f| f.cause != ID));
    let none = |change: fn(&mut Socket)| {
        let mut f = left_late(20, 40.0);
        f.sockets.iter_mut().for_each(change);
        assert!(found(&f).iter().all(|f| f.cause != ID));
    };
    none(|row| row.nodelay = Some(true));
    none(|row| row.min_rtt_us = Some(30_000));
    // Forty segments a request: sending takes that long.
    none(|row| row.data_segs_out = row.data_segs_out.map(|n| n * 20));
}
