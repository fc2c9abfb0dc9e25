//! C38 is named if one of several queues stands, with the process that holds that socket.

use crate::causes::slow_accept::tests::late;
use crate::causes::testing::{found, only};
use crate::{Finding, Level};
use synth::{Dial, Fixture, Listen};

const ID: &str = "accept-imbalance";
const PIDS: [(u32, &str); 4] = [(812, "w0"), (813, "w1"), (814, "w2"), (815, "w3")];

/// Four workers with a queue each, and the holders of the sockets; late requests beside.
fn workers(
    queues: [Vec<u32>; 4],
    held_by: impl Fn(usize) -> Vec<(u32, u32, &'static str, &'static str)>,
) -> Fixture {
    let mut f = late(1_200.0, 1_190.0, vec![0]);
    f.listeners.clear();
    f.holders.clear();
    f.processes.clear();
    for (nth, queue) in queues.into_iter().enumerate() {
        f.listen(Listen {
            worker: nth as u32,
            backlog: 4_096,
            accept_queue: queue,
            held_by: held_by(nth),
            ..Listen::default()
        });
    }
    f
}

/// Each worker holds its own socket.
fn own(nth: usize) -> Vec<(u32, u32, &'static str, &'static str)> {
    let (pid, comm) = PIDS[nth];
    vec![(pid, 1, comm, "S")]
}

fn one_stands() -> [Vec<u32>; 4] {
    let idle = || vec![0; 11];
    [
        idle(),
        idle(),
        vec![0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5],
        idle(),
    ]
}

fn says(f: &Finding, words: &str) -> bool {
    f.evidence.iter().any(|s| s.says.contains(words))
}

#[test]
fn one_worker_does_not_accept() {
    let f = only(&workers(one_stands(), own), ID);
    assert_eq!(
        (f.scope.pid, f.scope.comm.as_deref()),
        (Some(814), Some("w2"))
    );
    assert_eq!(f.scope.pids, [814]);
    assert!(f.title.contains("5 connections wait"), "{}", f.title);
    assert!(says(&f, "1 of 4 sockets"), "{:?}", f.evidence);
    // It stands for part of a long recording.
    let mut for_a_while = one_stands();
    for_a_while[2] = vec![0, 0, 0, 0, 0, 0, 0, 8, 12, 16, 0];
    let all = found(&workers(for_a_while, own));
    assert_eq!(all[0].cause, ID, "{all:#?}");
    assert_eq!(all[0].scope.pid, Some(814));
}

#[test]
fn a_second_is_enough_where_requests_tell_how_long_they_waited() {
    let mut once = one_stands();
    once[2] = vec![0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 0];
    let all = found(&workers(once.clone(), own));
    assert_eq!(all[0].cause, ID, "{all:#?}");
    // Samples alone may have caught it right before it was emptied.
    let mut sampled = workers(once, own);
    sampled.requests.clear();
    sampled.exchanges.clear();
    assert!(found(&sampled).iter().all(|f| f.cause != ID));
}

#[test]
fn one_that_samples_missed_is_told_by_those_that_overtook() {
    let missed = |overtaken: u16| {
        let mut once = [vec![0; 11], vec![0; 11], vec![0; 11], vec![0; 11]];
        once[0][5] = 1;
        let mut f = workers(once, own);
        for i in 0..overtaken {
            let at_ms = 7_000.0 + 20.0 * f64::from(i);
            f.dial(Dial {
                from: format!("10.79.0.2:{}", 60_000 + i),
                at_ms,
                took_ms: 1.0,
                ends_ms: Some(at_ms + 200.0),
                ..Dial::default()
            });
        }
        // Each was answered.
        let answered = f.events.iter_mut().filter(|e| e.remote_port >= 60_000);
        answered.for_each(|e| e.bytes_acked = e.bytes_acked.map(|_| 200));
        f
    };
    let all = found(&missed(8));
    assert_eq!(all[0].cause, ID, "{all:#?}");
    assert_eq!(all[0].scope.pid, Some(812));
    assert!(
        all[0].title.contains("30 connections waited"),
        "{}",
        all[0].title
    );
    // No other connection was served meanwhile.
    let all = found(&missed(2));
    assert_eq!(all[0].cause, "slow-accept", "{all:#?}");
    assert_eq!(all[0].scope.pid, Some(812));
}

#[test]
fn one_that_samples_missed_is_told_by_looks_between_them() {
    let looked = |others_ms: u32| {
        let mut f = workers(std::array::from_fn(|_| vec![0; 11]), own);
        let first = f.listeners[0].sock;
        for (nth, row) in f.listeners.iter_mut().enumerate() {
            let ms = if row.sock == first { 1_100 } else { others_ms };
            row.accept_wait_ms = Some(if nth % 11 == 6 { ms } else { 0 });
        }
        f
    };
    let all = found(&looked(4));
    assert_eq!(all[0].cause, ID, "{all:#?}");
    assert_eq!(all[0].scope.pid, Some(812));
    assert!(
        says(&all[0], "seen to wait for 1.1 s"),
        "{:?}",
        all[0].evidence
    );
    assert!(says(&all[0], "longer than 4 ms"), "{:?}", all[0].evidence);
    // All of them did.
    let all = found(&looked(1_050));
    assert_eq!(all[0].cause, "slow-accept", "{all:#?}");
}

#[test]
fn all_of_them_accept_late() {
    let queue = || vec![0, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1];
    only(
        &workers([queue(), queue(), queue(), queue()], own),
        "slow-accept",
    );
    // A queue that is emptied does not stand.
    let mut few = one_stands();
    few[2] = vec![0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0];
    assert!(found(&workers(few, own)).iter().all(|f| f.cause != ID));
}

#[test]
fn who_serves_a_socket_that_all_hold_is_not_guessed() {
    let all = |state: &'static str| {
        move |_| {
            let held = PIDS
                .iter()
                .map(|(pid, comm)| (*pid, 1, *comm, if *pid == 814 { state } else { "S" }));
            held.collect()
        }
    };
    let f = only(&workers(one_stands(), all("S")), ID);
    assert_eq!((f.scope.pid, f.confidence.level), (None, Level::Medium));
    assert!(says(&f, "is not known"), "{:?}", f.evidence);
    let f = only(&workers(one_stands(), all("T")), ID);
    assert_eq!(f.scope.pid, Some(814));
    assert_eq!(f.advice[0].command.as_deref(), Some("kill -CONT 814"));
}
