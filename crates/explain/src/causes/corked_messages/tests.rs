//! C58 is named when the end of a message stays in its socket with nothing in flight, and not for other reasons.

use recording::tables::Socket;
use synth::{CLIENT, Fixture, Flow, Listen, RequestMix, SERVER, cases};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Holds, Level, Number, explain};

const ID: &str = "corked-messages";

/// Five connections over which a server answers; of each sample `change` makes what it shows.
fn answers(change: impl Fn(&mut Socket)) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..5 {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", 40_000 + i),
            answers: true,
            unacked: 0,
            ..cases::held()
        });
    }
    let server = f.sockets.iter_mut().filter(|s| s.netns == SERVER);
    server.for_each(change);
    f
}

#[test]
fn answers_stay_under_a_cork() {
    let f = only(&answers(|s| s.corked = Some(true)), ID);
    // No second measurement confirms it.
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (5, 5));
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert!(f.title.contains("(TCP_CORK)"), "{}", f.title);
    assert_eq!(number(&f, "kept_samples"), &Number::Count(40));
    assert!(ruled_out(&f, "nagle-delayed-ack").starts_with("0 of "));
}

#[test]
fn without_a_cork_it_was_said_at_the_write() {
    let f = only(&answers(|s| s.corked = Some(false)), ID);
    assert!(f.title.contains("(MSG_MORE)"), "{}", f.title);
    // An earlier version did not record the option.
    only(&answers(|_| ()), ID);
}

#[test]
fn answers_that_never_took_so_long_were_not_kept_back() {
    let with = |here: [bool; 2], slow: (u64, f64)| {
        let mut f = answers(|s| s.corked = Some(true));
        f.ask(RequestMix {
            here,
            usual: (900, 20.0),
            slow,
            ..RequestMix::default()
        });
        found(&f).iter().any(|f| f.cause == ID)
    };
    let client = [false, true];
    assert!(!with(client, (5, 60.0)));
    assert!(with(client, (30, 210.0)));
    // The server's own exchanges end when the answer is in its socket.
    assert!(with([true, false], (5, 60.0)));
}

#[test]
fn what_waits_for_another_reason_is_not_kept_back() {
    for other in [
        (|s: &mut Socket| s.unacked = Some(1)) as fn(&mut Socket),
        |s| s.snd_wnd = Some(0),
        |s| s.notsent_bytes = Some(0),
        |s| s.max_pacing_rate = Some(10_000),
    ] {
        let found = found(&answers(other));
        assert!(found.iter().all(|f| f.cause != ID), "{found:#?}");
    }
    // Not paced at all.
    only(&answers(|s| s.max_pacing_rate = Some(u64::MAX)), ID);
}

#[test]
fn what_a_queue_of_this_host_refuses_is_not_kept_back() {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.flow(Flow {
        answers: true,
        unacked: 0,
        dropped: 1,
        ..cases::held()
    });
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

#[test]
fn a_few_of_many_samples_are_how_it_is_meant() {
    let mut f = answers(|s| s.notsent_bytes = Some(0));
    let server = f.sockets.iter_mut().filter(|s| s.netns == SERVER);
    server.take(2).for_each(|s| s.notsent_bytes = Some(300));
    assert!(found(&f).is_empty());
}

#[test]
fn the_client_alone_does_not_see_it() {
    let mut f = answers(|s| s.corked = Some(true));
    f.seen_from(CLIENT);
    let explained = explain(&f.write().unwrap()).unwrap();
    assert!(explained.findings.iter().all(|f| f.cause != ID));
    let answer = explained.summary.causes.iter().find(|a| a.cause == ID);
    assert_ne!(answer.unwrap().answer, Holds::Yes);
}
