//! C27 is named when all that the buffer holds is in flight on an empty path, and not for windows or queues.

use crate::causes::testing::{found, number, only, ruled_out, sysctls};
use crate::{Change, Layer, Level};
use synth::{CLIENT, Fixture, Flow, Listen};

const ID: &str = "send-buffer-small";

/// An upload over 20 ms that a buffer of 64 kB holds to 2.4 MB/s.
fn held() -> Flow {
    Flow {
        rate: 2_400_000,
        unacked: 42,
        unsent: 0,
        cwnd: 80,
        sndbuf: 65_536,
        ..Flow::default()
    }
}

fn host(flow: Flow, most: &str) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.set(CLIENT, "net.ipv4.tcp_wmem", most);
    f.flow(flow);
    f
}

#[test]
fn the_kernels_limit() {
    let f = only(&host(held(), "4096 16384 65536"), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.layer, f.impact.affected), (Layer::ThisHost, 1));
    let set = "net.ipv4.tcp_wmem=4096 16384 4194304".to_string();
    assert_eq!(sysctls(&f), [(CLIENT, set)]);
    assert_eq!(number(&f, "sndbuf"), &crate::Number::Count(65_536));
    assert!(f.arithmetic.iter().all(|check| check.agrees));
    for rival in [
        "slow-reader",
        "bufferbloat",
        "path-loss",
        "receive-buffer-small",
    ] {
        assert!(!ruled_out(&f, rival).is_empty());
    }
}

#[test]
fn the_applications_limit() {
    let f = only(&host(held(), "4096 16384 4194304"), ID);
    assert_eq!(f.layer, Layer::Application);
    let larger = Change::SendBuffer {
        pid: f.scope.pid,
        bytes: 262_144,
    };
    assert_eq!(f.advice[0].change, Some(larger));
}

#[test]
fn what_the_kernel_sizes_holds_nobody() {
    let set = |set| {
        let mut f = host(held(), "4096 16384 4194304");
        for socket in &mut f.sockets {
            socket.sndbuf_set = Some(set);
        }
        f
    };
    only(&set(true), ID);
    assert!(found(&set(false)).is_empty());
}

#[test]
fn who_sets_it_sets_it_on_all_connections() {
    let beside = |sndbuf| {
        let mut f = host(held(), "4096 16384 4194304");
        f.flow(Flow {
            from: "10.79.0.2:40001".into(),
            unacked: 10,
            sndbuf,
            ..held()
        });
        f
    };
    only(&beside(65_536), ID);
    // The kernel let this one grow further: no application has set the others.
    assert!(found(&beside(1_506_816)).is_empty());
}

#[test]
fn a_check_that_does_not_agree_costs_confidence() {
    // More passes than what is in flight can explain.
    let fast = Flow {
        rate: 7_000_000,
        ..held()
    };
    assert_ne!(
        only(&host(fast, "4096 16384 65536"), ID).confidence.level,
        Level::High
    );
}

#[test]
fn look_alikes_are_not_it() {
    let none = |flow: Flow| {
        let found = found(&host(flow, "4096 16384 65536"));
        assert!(found.is_empty(), "{:?}", found[0].cause);
    };
    // Messages that never fill it; a congestion window, or a peer's window, that is full; writes that wait to be sent.
    none(Flow {
        unacked: 36,
        ..held()
    });
    none(Flow { cwnd: 42, ..held() });
    none(Flow {
        window: 60_000,
        ..held()
    });
    none(Flow {
        unsent: 9_000,
        ..held()
    });
    // A queue stands: a larger buffer would only lengthen it.
    none(Flow {
        rtt_us: [60_000, 300, 20_000],
        ..held()
    });
    // The buffer would let far more pass: a host that cannot fill it.
    none(Flow {
        sndbuf: 1_000_000,
        ..held()
    });
    // Too short for the buffer to have grown.
    none(Flow {
        rate: 100_000,
        ..held()
    });
}
