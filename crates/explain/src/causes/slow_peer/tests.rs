//! C51 is named for answers that come late from another host, when the network had no part in it.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Level, Number, explain};
use synth::{Asked, Fixture, Listen};

const ID: &str = "slow-peer";

/// The client alone.
fn asked(asked: Asked) -> Fixture {
    let mut f = Fixture::new();
    f.ask(Asked {
        here: [false, true],
        ..asked
    });
    f
}

#[test]
fn answers_that_come_a_second_late_now_and_then() {
    let f = only(&asked(Asked::default()), ID);
    // What the peer did only it can tell.
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert!(
        f.title
            .starts_with("10.79.0.1:5000 takes 1.2 s to answer 3 %"),
        "{}",
        f.title
    );
    assert_eq!(
        (f.scope.pid, f.scope.comm.as_deref()),
        (Some(77), Some("wrk"))
    );
    assert_eq!(number(&f, "round_trip_ms"), &Number::Real(1.0));
    assert!(f.arithmetic.iter().all(|c| c.agrees));
    assert!(ruled_out(&f, "tail-loss").contains("0 segments"));
}

#[test]
fn what_the_network_may_have_lost_is_not_the_peers() {
    // Retransmitted by us: so may the answer have been.
    let lost = Asked {
        retransmits: 1,
        ..Asked::default()
    };
    assert!(found(&asked(lost)).is_empty());
}

#[test]
fn below_a_second_its_answers_may_as_well_have_been_lost() {
    let late = |retransmits| Asked {
        slow: (30, 420.0),
        retransmits,
        ..Asked::default()
    };
    let f = only(&asked(late(0)), ID);
    assert_eq!(f.confidence.level, Level::Low, "{:?}", f.confidence);
    assert!(f.fix.contains("or its answers got lost"), "{}", f.fix);
    // Something of ours was.
    assert!(found(&asked(late(1))).is_empty());
    let unnoticed = Asked {
        slow: (30, 150.0),
        ..Asked::default()
    };
    assert!(found(&asked(unnoticed)).is_empty());
}

#[test]
fn a_peer_that_always_takes_as_long_is_none() {
    let steady = Asked {
        usual: (0, 0.0),
        slow: (30, 2_000.0),
        ..Asked::default()
    };
    let mut f = asked(steady);
    assert!(found(&f).is_empty());
    f.manifest.command_line = ["explain", "--", "wrk"].map(String::from).to_vec();
    let told = only(&f, ID);
    assert!(
        told.title
            .contains("took 2 s to answer wrk (pid 77); a round trip takes 1 ms"),
        "{}",
        told.title
    );
}

#[test]
fn where_the_one_that_answers_is_here_it_is_asked_itself() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.ask(Asked::default());
    let explained = explain(&f.write().expect("writes")).expect("reads");
    let causes: Vec<_> = explained.findings.iter().map(|f| f.cause).collect();
    assert_eq!(causes, ["slow-application"]);
}
