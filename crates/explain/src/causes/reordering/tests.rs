//! C21 is named when retransmitted segments had arrived and were overtaken, and not for losses or late answers.

use crate::Level;
use crate::causes::testing::{found, only, ruled_out};
use recording::{RetransmitKind, counter};
use synth::{CLIENT, Fixture, Flow, Listen, cases};

const ID: &str = "reordering";

/// Four uploads whose segments overtake each other, retransmitted on ACKs though the receiver had them.
fn overtaking(kind: RetransmitKind, twice: u32, overtook: u32) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for port in 40_000..40_004 {
        f.flow(Flow {
            from: format!("10.79.0.2:{port}"),
            again: vec![(kind.clone(), 20_300); 4],
            twice,
            ..Flow::default()
        });
    }
    for (second, socket) in (0u32..).zip(f.sockets.iter_mut().filter(|s| s.netns == CLIENT)) {
        socket.reord_seen = Some((second % 8 + 1) * overtook);
    }
    f.raise(CLIENT, counter::TCP_DSACK_RECV, 4 * 8 * i64::from(twice));
    f
}

#[test]
fn in_vain_and_overtaken() {
    let f = only(&overtaking(RetransmitKind::Fast, 4, 2), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.impact.affected, 4);
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert!(!ruled_out(&f, "path-loss").is_empty());
}

/// The original is dropped for its old timestamp: the sender does not see that it was overtaken.
#[test]
fn what_the_sender_did_not_see() {
    only(&overtaking(RetransmitKind::Rack, 4, 0), ID);
}

#[test]
fn counters_that_do_not_fit_cost_confidence() {
    let mut f = overtaking(RetransmitKind::Fast, 4, 2);
    f.counters.retain(|c| &*c.name != "TCPDSACKRecv");
    assert_ne!(only(&f, ID).confidence.level, Level::High);
}

#[test]
fn look_alikes_are_not_it() {
    let none = |f: Fixture| assert!(found(&f).iter().all(|f| f.cause != ID));
    // Most of it was lost.
    none(overtaking(RetransmitKind::Fast, 1, 2));
    // Spurious probes and timeouts.
    none(overtaking(RetransmitKind::Tlp, 4, 2));
    only(&cases::lossy(), "path-loss");
    none(cases::used_to_the_full());
}
