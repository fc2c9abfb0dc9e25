//! What is told once: a stop, a proxy behind its backend. The declared relations have no circle.

use super::*;
use crate::causes::late_to_accept::six_wait;
use crate::causes::testing::found;
use synth::{CLIENT, Dial, Fate, Fixture, Listen, RequestMix, SERVER};

/// 30 requests lie unread for 4 s, and six connections are in the accept queue all the time.
fn kept_by(state: &'static str) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen {
        backlog: 4_096,
        accept_queue: vec![6; 11],
        held_by: vec![(812, 1, "iperf3", state)],
        cpu: 0.0,
        ..Listen::default()
    });
    f.ask(RequestMix {
        slow: (30, 4_000.0),
        unread_ms: 3_990.0,
        ..RequestMix::default()
    });
    six_wait(&mut f);
    f
}

#[test]
fn what_waits_for_a_stopped_process_is_one_finding() {
    let causes = |f: &Fixture| found(f).iter().map(|f| f.cause).collect::<Vec<_>>();
    let both = [Id::SLOW_APPLICATION, Id::SLOW_ACCEPT];
    assert_eq!(causes(&kept_by("S")), both);
    let all = found(&kept_by("T"));
    let [one] = &all[..] else {
        panic!("{all:#?}");
    };
    assert_eq!(one.cause, Id::SLOW_APPLICATION);
    let says = |says: &str| one.evidence.iter().any(|s| s.says.starts_with(says));
    assert!(says("Of the same stop: "), "{:?}", one.evidence);
    assert!(
        one.impact.says.contains("6 connections"),
        "{}",
        one.impact.says
    );
    let since = one.since.as_ref().expect("of the stop");
    assert_eq!(since.began, Began::Seen, "{since:?}");
    let ruled_out = one.ruled_out.iter().find(|r| r.cause == Id::SLOW_ACCEPT);
    assert!(ruled_out.is_some(), "{:?}", one.ruled_out);
}

/// A server answers 30 requests late. Its thread waits in a call, and a process connects to a port without a
/// listener.
fn proxy(waits_in: &'static str, pid: u32) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.ask(RequestMix {
        slept_in: Some(waits_in),
        ..RequestMix::default()
    });
    for i in 0..60 {
        f.dial(Dial {
            client: Some(SERVER),
            server: Some(CLIENT),
            from: format!("10.79.0.1:{}", 50_000 + i),
            to: "10.79.0.2:9002",
            at_ms: 1_000.0 + f64::from(i) * 100.0,
            fate: Fate::Refused,
            ..Dial::default()
        });
    }
    for event in f.events.iter_mut().filter(|e| e.remote_port == 9_002) {
        event.pid = event.pid.map(|_| pid);
    }
    f
}

#[test]
fn a_process_whose_connects_fail_is_late_for_that() {
    let both = [Id::SLOW_APPLICATION, Id::CONNECTION_REFUSED];
    let causes = |f: &Fixture| found(f).iter().map(|f| f.cause).collect::<Vec<_>>();
    // Another process's connects, or a lock, are not the reason.
    assert_eq!(causes(&proxy("epoll_wait", 4_000)), both);
    assert_eq!(causes(&proxy("futex", 812)), both);
    let all = found(&proxy("epoll_wait", 812));
    let [one] = &all[..] else {
        panic!("{all:#?}");
    };
    assert_eq!(one.cause, Id::CONNECTION_REFUSED);
    let says = |says: &str| one.evidence.iter().any(|s| s.says.starts_with(says));
    assert!(says("Its own clients wait for it: "), "{:?}", one.evidence);
    let lost = one.lost_s.seconds().expect("measured");
    assert!((35.0..37.0).contains(&lost), "{lost}");
}

/// A consequence is never the reason for its cause, at whatever distance: chains end. A cause about connects also takes
/// in the late answers of who made them.
#[test]
fn no_cause_explains_what_explains_it() {
    let takes_in = |cause: &Cause| -> Vec<Id> {
        let of_connects = cause.symptom == Some(Symptom::Connects);
        let late = of_connects.then_some(Id::SLOW_APPLICATION);
        cause.explains.iter().copied().chain(late).collect()
    };
    for cause in ALL {
        let mut reached = takes_in(cause);
        let mut at = 0;
        while let Some(id) = reached.get(at).copied() {
            for further in declared(id).map_or(Vec::new(), takes_in) {
                if !reached.contains(&further) {
                    reached.push(further);
                }
            }
            at += 1;
        }
        assert!(!reached.contains(&cause.id), "{}: {reached:?}", cause.id);
    }
}
