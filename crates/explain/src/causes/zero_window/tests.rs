//! C26 is named when a window stays closed, and not where the reader is slow or the peer silent.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Layer, Level};
use synth::{CLIENT, Fixture, Flow, Listen, cases};

const ID: &str = "zero-window";

/// An upload that its server has stopped reading: nothing moves, probe intervals double.
fn stopped() -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.flow(Flow {
        rate: 0,
        window: 0,
        unacked: 0,
        unsent: 60_000,
        unread: 90_000,
        ..Flow::default()
    });
    for (second, socket) in f
        .sockets
        .iter_mut()
        .filter(|s| s.netns == CLIENT)
        .enumerate()
    {
        socket.backoff = Some([1, 2, 3, 3, 4, 4, 4, 5][second]);
        socket.rto_us = Some(220_000);
        socket.last_data_sent_ms = Some(second as u32 * 1_000 + 700);
    }
    f
}

#[test]
fn both_ends_here() {
    let f = only(&stopped(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.layer, f.scope.pid), (Layer::Application, Some(812)));
    assert_eq!(number(&f, "waiting"), &crate::Number::Count(60_000));
    // 220 ms, doubled four times: 3.3 s of the 7.7 s for which it was closed.
    assert_eq!(f.arithmetic[0].expected, 3_300.0);
    assert!(f.arithmetic[0].agrees && f.arithmetic[0].measured >= 7_700.0);
    assert!(ruled_out(&f, "peer-gone").contains("timeouts in a row"));
    assert!(f.lost_s.seconds().is_some_and(|s| s >= 7.0));
}

#[test]
fn the_sender_alone() {
    let mut away = stopped();
    away.seen_from(CLIENT);
    let f = only(&away, ID);
    assert_eq!((f.layer, f.confidence.level), (Layer::Peer, Level::Medium));
}

#[test]
fn probes_that_would_have_taken_longer_cost_confidence() {
    let mut odd = stopped();
    for socket in odd.sockets.iter_mut().filter(|s| s.netns == CLIENT) {
        socket.backoff = Some(9);
    }
    assert_ne!(only(&odd, ID).confidence.level, Level::High);
}

#[test]
fn look_alikes_are_not_it() {
    let none = |f: Fixture| assert!(found(&f).iter().all(|f| f.cause != ID));
    // It opens now and then, and something passes.
    let mut moves = stopped();
    for (nth, socket) in moves.sockets.iter_mut().enumerate() {
        socket.bytes_acked = Some(nth as u64 / 2 * 10_000);
    }
    none(moves);
    // Twice for four seconds, with reads in between: a reader with a rate limit.
    let mut bursts = stopped();
    let sender = bursts.sockets.iter_mut().filter(|s| s.netns == CLIENT);
    for (second, socket) in (0..).zip(sender) {
        socket.bytes_acked = Some(second / 4 * 5_000_000 + 1);
        socket.last_data_sent_ms = Some((second % 4 * 1_000 + 700) as u32);
        socket.busy_us = Some(second * 1_000_000);
        socket.rwnd_limited_us = Some(second * 1_000_000);
    }
    none(bursts);
    // Nothing waits for it; it is open.
    for change in [
        |s: &mut recording::tables::Socket| s.notsent_bytes = Some(0),
        |s: &mut recording::tables::Socket| s.snd_wnd = Some(64_000),
    ] {
        let mut f = stopped();
        f.sockets.iter_mut().for_each(change);
        none(f);
    }
    // For two seconds.
    let mut short = stopped();
    short.sockets.truncate(4);
    for socket in &mut short.sockets {
        socket.last_data_sent_ms = Some(0);
    }
    none(short);
    none(cases::slow_reader());
}

/// One of many clients on the internet stops its download: it is the only one that waits.
#[test]
fn one_of_many_clients_on_the_internet_is_a_note() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for client in 0..12 {
        f.flow(Flow {
            from: format!("203.0.113.{client}:40000"),
            answers: true,
            ..Flow::default()
        });
    }
    f.flow(Flow {
        from: "198.51.100.9:40000".into(),
        answers: true,
        rate: 0,
        window: 0,
        unacked: 0,
        unsent: 60_000,
        ..Flow::default()
    });
    f.seen_from(synth::SERVER);
    let told = found(&f);
    assert!(
        told.is_empty(),
        "{:?}",
        told.iter().map(|f| &f.title).collect::<Vec<_>>()
    );
    let notes = crate::explain(&f.write().unwrap()).unwrap().notes;
    assert!(
        notes
            .iter()
            .any(|n| n.because.contains("this one's own line")),
        "{notes:?}"
    );
}
