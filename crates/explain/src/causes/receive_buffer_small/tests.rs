//! C24 is named when the window is filled once per round trip of an empty path, and read as it is filled.

use crate::causes::testing::{found, only, ruled_out, sysctls};
use crate::{Change, Layer, Level};
use synth::{CLIENT, Fixture, Flow, Listen, SERVER, START_NS, cases};

const ID: &str = "receive-buffer-small";

/// Two uploads over 20 ms that a window of 64 kB holds to 3 MB/s.
fn held() -> Flow {
    Flow {
        rate: 3_000_000,
        rwnd_share: 0.9,
        unacked: 44,
        window: 64_000,
        ..Flow::default()
    }
}

fn host(flow: Flow) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for port in [40_000, 40_001] {
        f.flow(Flow {
            from: format!("10.79.0.2:{port}"),
            ..flow.clone()
        });
    }
    f
}

#[test]
fn the_application_set_it() {
    let f = only(&host(held()), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.layer, f.impact.affected), (Layer::Application, 2));
    assert!(matches!(
        f.advice[0].change,
        Some(Change::ReceiveBuffer { .. })
    ));
    assert!(f.arithmetic.iter().all(|check| check.agrees));
    assert!(ruled_out(&f, "slow-reader").contains("within a round trip"));
    assert!(f.fix.contains("SO_RCVBUF"), "{}", f.fix);
    let mut clamped = host(held());
    for socket in &mut clamped.sockets {
        socket.rcvbuf_set = Some(false);
    }
    let f = only(&clamped, ID);
    assert!(f.fix.contains("TCP_WINDOW_CLAMP"), "{}", f.fix);
}

#[test]
fn the_kernels_limits() {
    let mut most = host(held());
    most.set(SERVER, "net.ipv4.tcp_rmem", "4096 32768 64000");
    let f = only(&most, ID);
    assert_eq!(f.layer, Layer::ThisHost);
    let set = "net.ipv4.tcp_rmem=4096 32768 6291456".to_string();
    assert_eq!(sysctls(&f), [(SERVER, set)]);
    let mut fixed = host(held());
    fixed.set(SERVER, "net.ipv4.tcp_moderate_rcvbuf", "0");
    let set = "net.ipv4.tcp_moderate_rcvbuf=1".to_string();
    assert_eq!(sysctls(&only(&fixed, ID)), [(SERVER, set)]);
}

#[test]
fn the_sender_alone() {
    let mut away = host(held());
    away.seen_from(CLIENT);
    let f = only(&away, ID);
    assert_eq!((f.layer, f.confidence.level), (Layer::Peer, Level::Medium));
}

/// The uploads from elsewhere: in each round trip of 20 ms the application takes all that the window holds.
fn received() -> Fixture {
    let mut f = host(held());
    f.seen_from(SERVER);
    for row in &mut f.sockets {
        let receives = row.bytes_received.is_some_and(|bytes| bytes > 0);
        if receives {
            row.rcv_wnd = Some(64_000);
            row.rcv_space = Some(65_000);
            row.rcv_rtt_us = Some(20_000);
        }
    }
    f
}

#[test]
fn the_receiver_alone() {
    let f = only(&received(), ID);
    assert_eq!(
        (f.layer, f.confidence.level),
        (Layer::Application, Level::Medium)
    );
    assert!(ruled_out(&f, "slow-reader").contains("found unread data"));
    let none = |change: fn(&mut recording::tables::Socket)| {
        let mut f = received();
        f.sockets.iter_mut().for_each(change);
        assert!(found(&f).iter().all(|f| f.cause != ID));
    };
    // It took half of the window in any round trip.
    none(|row| row.rcv_space = row.rcv_space.map(|_| 32_000));
    // It took all of it once; but that much arrives only now and then.
    none(|row| row.rcv_rtt_us = row.rcv_rtt_us.map(|_| 2_000));
    // It measured how long requests take to come, not the round trip of the path.
    none(|row| row.min_rtt_us = row.min_rtt_us.map(|_| 20));
    // The kernel lets the buffer grow.
    none(|row| row.rcvbuf = row.rcvbuf.map(|_| (row.time_ns % 1_000_003) as u32));
    none(|row| row.recv_queue = row.recv_queue.map(|_| 30_000));
}

#[test]
fn at_a_receiver_the_share_of_their_time_counts() {
    // Neither many nor for long.
    let mut f = received();
    f.sockets
        .retain(|row| row.time_ns < START_NS + 3_000_000_000);
    only(&f, ID);
}

#[test]
fn round_trips_between_those_of_an_empty_path_and_twice_that() {
    let f = only(
        &host(Flow {
            rtt_us: [37_000, 300, 20_000],
            rate: 1_700_000,
            ..held()
        }),
        ID,
    );
    assert_eq!(f.confidence.level, Level::Medium);
    assert!(f.confidence.because.iter().any(|why| why.contains("37 ms")));
}

#[test]
fn look_alikes_are_not_it() {
    let none = |flow: Flow| {
        let mut f = host(flow);
        assert!(found(&f).iter().all(|f| f.cause != ID));
        f.seen_from(CLIENT);
        assert!(found(&f).iter().all(|f| f.cause != ID));
    };
    none(Flow {
        rwnd_share: 0.4,
        ..held()
    });
    // A queue stands: a larger window would only lengthen it.
    none(Flow {
        rtt_us: [60_000, 300, 20_000],
        ..held()
    });
    // It would let far more pass: it is closed in between.
    none(Flow {
        window: 1_000_000,
        ..held()
    });
    // It is still growing.
    none(Flow {
        rate: 60_000,
        ..held()
    });
    // The reader leaves half a window unread.
    let unread = host(Flow {
        unread: 40_000,
        ..held()
    });
    assert!(found(&unread).iter().all(|f| f.cause != ID));
    only(&cases::slow_reader(), "slow-reader");
}
