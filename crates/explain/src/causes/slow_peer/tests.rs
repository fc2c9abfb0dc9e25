//! C51 is named for answers that come late from another host, when the network was not involved.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Level, Number, explain};
use synth::{CLIENT, Dial, Fixture, Flow, Listen, RequestMix, SERVER, START_NS};

const ID: &str = "slow-peer";

/// The client alone.
fn asked(asked: RequestMix) -> Fixture {
    let mut f = Fixture::new();
    f.ask(RequestMix {
        here: [false, true],
        ..asked
    });
    f
}

#[test]
fn answers_that_come_a_second_late_now_and_then() {
    let f = only(&asked(RequestMix::default()), ID);
    // Only the peer could show what it did.
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
    // Retransmitted on this side: the answer may have been, too.
    let lost = RequestMix {
        retransmits: 1,
        ..RequestMix::default()
    };
    assert!(found(&asked(lost)).is_empty());
}

#[test]
fn below_a_second_its_answers_may_as_well_have_been_lost() {
    let late = |retransmits| RequestMix {
        slow: (30, 420.0),
        retransmits,
        ..RequestMix::default()
    };
    let f = only(&asked(late(0)), ID);
    assert_eq!(f.confidence.level, Level::Low, "{:?}", f.confidence);
    assert!(f.fix.contains("or its answers were lost"), "{}", f.fix);
    // Something on this side was.
    assert!(found(&asked(late(1))).is_empty());
    let unnoticed = RequestMix {
        slow: (30, 150.0),
        ..RequestMix::default()
    };
    assert!(found(&asked(unnoticed)).is_empty());
}

#[test]
fn a_peer_that_always_takes_as_long_is_none() {
    let steady = RequestMix {
        usual: (0, 0.0),
        slow: (30, 2_000.0),
        ..RequestMix::default()
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

/// Two of twelve connections take 2 s for each of their four answers, and sent this many segments.
fn pops(segments: u32) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..2 {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", 41_000 + i),
            rate: 0,
            unacked: 0,
            unsent: 0,
            ..Flow::default()
        });
    }
    f.ask(RequestMix {
        here: [false, true],
        usual: (400, 1.0),
        slow: (8, 2_000.0),
        ..RequestMix::default()
    });
    f.seen_from(CLIENT);
    for (nth, row) in f.exchanges.iter_mut().enumerate() {
        row.local_port = 41_000 + nth as u16 % 2;
        row.began_ns = START_NS + 1_000_000_000 + nth as u64 / 2 * 2_000_000_000;
        row.time_ns = row.began_ns + 2_000_000_000;
    }
    let first_ns = f.sockets.iter().map(|s| s.time_ns).min().unwrap_or(0);
    for row in &mut f.sockets {
        let part = (row.time_ns - first_ns) as f64 / 7e9;
        row.data_segs_out = Some((part * f64::from(segments)) as u32);
    }
    f
}

#[test]
fn connections_that_do_nothing_but_wait_are_kept_for_it() {
    assert!(found(&pops(4)).is_empty());
    let notes = explain(&pops(4).write().expect("writes"));
    let notes = notes.expect("reads").notes;
    assert!(notes.iter().any(|n| n.cause == ID), "{notes:#?}");
    // Much else went over them: once a second, and more often; or hardly anything.
    only(&pops(9), ID);
    only(&pops(400), ID);
    only(&pops(1), ID);
}

#[test]
fn a_connection_that_stays_and_asks_for_nothing_else_is_kept_for_waiting() {
    // Older than the recording, each waits once, for most of it.
    let once = |segments: u32| {
        let mut f = pops(segments);
        f.events.clear();
        f.exchanges.truncate(2);
        for row in &mut f.exchanges {
            row.time_ns = row.began_ns + 5_000_000_000;
            row.await_ns = 5_000_000_000;
        }
        f
    };
    let told = |f: &Fixture| found(f).iter().any(|f| f.cause == ID);
    assert!(!told(&once(1)));
    assert!(told(&once(9)), "quick ones as well");
}

#[test]
fn where_the_one_that_answers_is_here_it_is_asked_itself() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.ask(RequestMix::default());
    let explained = explain(&f.write().expect("writes")).expect("reads");
    let causes: Vec<_> = explained.findings.iter().map(|f| f.cause).collect();
    assert_eq!(causes, ["slow-application"]);
}

#[test]
fn requests_that_the_client_gives_up() {
    let given_up = |slow, usual| RequestMix {
        usual,
        slow,
        given_up: true,
        ..RequestMix::default()
    };
    let f = only(&asked(given_up((30, 2_000.0), (970, 4.0))), ID);
    assert!(
        f.title.starts_with(
            "wrk (pid 77) gives up on 3 % of its requests to 10.79.0.1:5000, unanswered after 2 s."
        ),
        "{}",
        f.title
    );
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    let lost = f.lost_s.seconds().unwrap();
    assert!((59.0..60.0).contains(&lost), "{lost}");
    // The usual time is unknown, and all gave up after the same time: their own.
    let none = only(&asked(given_up((30, 2_000.0), (0, 0.0))), ID);
    assert!(
        none.title.contains("gives up on 100 % of its requests"),
        "{}",
        none.title
    );
    assert!(ruled_out(&none, "bufferbloat").contains("handshakes took 1 ms"));
    // As few as a person would try: each was a connection of its own.
    only(&asked(given_up((5, 2_000.0), (0, 0.0))), ID);
    only(&asked(given_up((30, 2_000.0), (3, 4.0))), ID);
    // A timeout of a second began with the connect; one of 250 ms is as much a timeout, though the answers may have been
    // lost on the way back.
    for ms in [960.0, 250.0] {
        let soon = only(&asked(given_up((30, ms), (0, 0.0))), ID);
        assert_eq!(soon.confidence.level, Level::Low, "{:?}", soon.confidence);
    }
    // Three of one caller, over seconds, are no chance if they are 5 % of what it asked.
    let mut again = asked(given_up((4, 2_000.0), (30, 4.0)));
    assert!(found(&again).is_empty(), "within a moment");
    for (row, later) in again.exchanges.iter_mut().zip(0..) {
        row.began_ns += later * 1_000_000_000;
        row.time_ns += later * 1_000_000_000;
    }
    only(&again, ID);
    // A few, soon, and some that expect no answer.
    for (slow, usual) in [
        ((4, 2_000.0), (96, 4.0)),
        ((30, 150.0), (970, 4.0)),
        ((30, 150.0), (0, 0.0)),
    ] {
        assert!(
            found(&asked(given_up(slow, usual))).is_empty(),
            "{slow:?} {usual:?}"
        );
    }
    // All at one moment: the program ended.
    let mut ended = asked(given_up((30, 2_000.0), (970, 4.0)));
    ended.requests.retain(|r| r.exchanges > 0);
    for row in &mut ended.requests {
        (row.given_up, row.given_up_ns) = (Some(30), Some(60_000_000_000));
    }
    assert!(found(&ended).is_empty());
    let mut unlike = asked(given_up((30, 2_000.0), (0, 0.0)));
    unlike.exchanges[3].await_ns = 9_000_000_000;
    assert!(found(&unlike).is_empty());
}

/// Connections to a server elsewhere: this many get no answer to their requests, and this many do.
fn hanging(unanswered: u16, answered: u16) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..unanswered + answered {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", 40_000 + i),
            rate: 0,
            unacked: 0,
            unsent: 0,
            ..Flow::default()
        });
    }
    f.seen_from(CLIENT);
    for row in &mut f.sockets {
        let got = u32::from(row.local_port >= 40_000 + unanswered);
        row.bytes_acked = Some(300);
        row.data_segs_out = Some(1);
        row.data_segs_in = Some(got);
        row.bytes_received = Some(u64::from(got) * 500);
    }
    f
}

#[test]
fn one_of_several_workers_that_hangs() {
    let f = only(&hanging(5, 15), ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert!(
        f.title
            .starts_with("10.79.0.1:5000 has answered nothing on 5 of 20 connections"),
        "{}",
        f.title
    );
    assert!(f.lost_s.seconds().is_some_and(|s| s > 15.0));
    // Few, few of many, and those of a protocol without answers.
    for (unanswered, answered) in [(4, 15), (5, 96), (20, 0)] {
        assert!(found(&hanging(unanswered, answered)).is_empty());
    }
    // The request did not arrive.
    let mut lost = hanging(5, 15);
    for row in &mut lost.sockets {
        row.bytes_acked = Some(1);
    }
    assert!(found(&lost).is_empty());
    // It goes on sending.
    let mut uploads = hanging(5, 15);
    for row in &mut uploads.sockets {
        row.notsent_bytes = Some(60_000);
    }
    assert!(found(&uploads).is_empty());
}

/// Connections that are closed this long after their handshake, ms, one every 700 ms, without a word.
fn wordless(waits_ms: &[f64]) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for (nth, wait_ms) in waits_ms.iter().enumerate() {
        let at_ms = 100.0 + nth as f64 * 700.0;
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + nth),
            at_ms,
            took_ms: 1.0,
            rtt_us: 1_000,
            ends_ms: Some(at_ms + 1.0 + wait_ms),
            ..Dial::default()
        });
    }
    // The kernel counts SYN and FIN.
    for row in &mut f.events {
        row.bytes_acked = row
            .bytes_acked
            .map(|_| if row.netns == CLIENT { 2 } else { 1 });
        row.bytes_received = row.bytes_received.map(|_| 1);
    }
    f.events.sort_by_key(|e| e.time_ns);
    f
}

#[test]
fn clients_that_wait_for_a_greeting_give_up_after_as_long_each_time() {
    let patience = [1_000.0; 6];
    for (side, cause) in [(CLIENT, ID), (SERVER, "slow-application")] {
        let mut f = wordless(&patience);
        f.seen_from(side);
        let told = only(&f, cause);
        assert!(
            told.title
                .contains("says nothing on 100 % of its connections"),
            "{}",
            told.title
        );
        assert_eq!((told.impact.affected, told.impact.of), (6, 6));
        assert_eq!(told.confidence.level, Level::Medium);
    }
    // Both ends here: the server is told.
    only(&wordless(&patience), "slow-application");
    let silent = |waits: &[f64]| {
        let mut f = wordless(waits);
        f.seen_from(CLIENT);
        found(&f).is_empty()
    };
    // Checks that close at once; each after another time; two of them; spare ones among others that are used.
    assert!(silent(&[1.0; 6]));
    assert!(silent(&[300.0, 900.0, 1_700.0, 2_500.0, 600.0, 1_200.0]));
    assert!(silent(&[1_000.0; 2]));
    let mut used = wordless(&[1_000.0; 9]);
    for row in used
        .events
        .iter_mut()
        .filter(|e| e.local_port >= 40_004 || e.remote_port >= 40_004)
    {
        let data = |bytes: Option<u64>| bytes.map(|_| 400);
        (row.bytes_acked, row.bytes_received) = (data(row.bytes_acked), data(row.bytes_received));
    }
    used.seen_from(CLIENT);
    assert!(found(&used).is_empty());
}
