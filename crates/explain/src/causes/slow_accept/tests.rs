//! C49 is named when connections wait in a queue that has room, not when they are read late or rejected.

use recording::{TcpState, counter};

use crate::causes::testing::{found, only, ruled_out};
use crate::{Change, Level};
use synth::{Dial, Fixture, Listen, RequestMix, SERVER};

const ID: &str = "slow-accept";

/// Requests, 30 of which take this long, and this much of it before accept(); and a queue as samples see it.
pub(crate) fn late(slow_ms: f64, accept_ms: f64, queue: Vec<u32>) -> Fixture {
    so_many_late(30, slow_ms, accept_ms, queue)
}

fn so_many_late(n: u64, slow_ms: f64, accept_ms: f64, queue: Vec<u32>) -> Fixture {
    let listen = Listen {
        accept_queue: queue,
        ..Listen::default()
    };
    late_at(listen, (n, slow_ms), accept_ms)
}

fn late_at(listen: Listen, slow: (u64, f64), accept_ms: f64) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen {
        backlog: 4_096,
        ..listen
    });
    f.ask(RequestMix {
        slow,
        accept_ms,
        ..RequestMix::default()
    });
    f.thread(812, "iperf3", [0.01, 0.0]);
    f
}

/// Six connections, older than the recording, that were never accepted.
pub(crate) fn six_wait(f: &mut Fixture) {
    for i in 0..6 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 50_000 + i),
            older: true,
            ..Dial::default()
        });
    }
    for row in f.sockets.iter_mut().filter(|s| s.remote_port >= 50_000) {
        row.inode = None;
    }
}

/// A queue in which four wait for most of the time.
fn four() -> Vec<u32> {
    vec![0, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0]
}

#[test]
fn haproxy_sleeps_when_it_has_all_the_connections_that_it_may_have() {
    let told = |comm| {
        let mut f = Fixture::new();
        f.listen(Listen {
            backlog: 4_096,
            accept_queue: four(),
            held_by: vec![(812, 1, comm, "S")],
            ..Listen::default()
        });
        f.ask(RequestMix {
            slow: (30, 1_200.0),
            accept_ms: 1_190.0,
            ..RequestMix::default()
        });
        only(&f, ID).fix
    };
    assert!(told("haproxy").contains("`maxconn`"), "{}", told("haproxy"));
    assert!(told("shopd").contains("accept()"), "{}", told("shopd"));
}

#[test]
fn what_others_waited_for_microseconds_is_not_theirs() {
    let mut f = late(421.0, 400.0, four());
    let seen = |f: &Fixture| {
        let written = f.write().expect("writes");
        let story = analysis::Story::read(&written.recording).expect("reads");
        let all = crate::places::accept_waits::all(&story);
        let waits = all.first().expect("some waited");
        (waits.count(), waits.waited_ns(), waits.longest_ns())
    };
    let (count, waited_ns, longest_ns) = seen(&f);
    assert!(
        count >= 10 && waited_ns <= count * longest_ns,
        "{waited_ns}"
    );
    // Hundreds of thousands that waited some microseconds each.
    for row in &mut f.requests {
        row.accept_ns += 117_000_000_000;
    }
    let (count, waited_ns, longest_ns) = seen(&f);
    assert!(
        waited_ns <= count * longest_ns,
        "{count} × {longest_ns} < {waited_ns}"
    );
}

#[test]
fn a_queue_with_room() {
    let f = only(&late(1_200.0, 1_190.0, four()), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(
        (f.scope.pid, f.scope.listener.as_str()),
        (Some(812), "10.79.0.1:5000")
    );
    assert!(
        f.title.contains("took 1.19 s on average to accept"),
        "{}",
        f.title
    );
    assert_eq!((f.impact.affected, f.impact.of), (30, 1_000));
    assert!(ruled_out(&f, "accept-queue-overflow").contains("rose by 0"));
    assert!(ruled_out(&f, "descriptors-exhausted").contains("60 of 1,024"));
    assert!(ruled_out(&f, "accept-imbalance").contains("1 socket"));
    assert!(ruled_out(&f, "slow-application").contains("service time was"));
    let listener = f.scope.listener.clone();
    assert_eq!(f.advice[0].change, Some(Change::AcceptFaster { listener }));
    let lost = f.lost_s.seconds().expect("measured");
    assert!((35.0..36.5).contains(&lost), "{lost}");
}

#[test]
fn a_wait_is_a_connection_of_its_own_though_one_is_told() {
    let mut f = so_many_late(13, 1_200.0, 1_190.0, four());
    f.exchanges.truncate(1);
    let f = only(&f, ID);
    assert_eq!(f.impact.affected, 13);
}

#[test]
fn what_is_accepted_and_read_late_waits_in_no_queue() {
    let f = only(&late(1_200.0, 1_190.0, vec![0; 11]), "slow-application");
    assert!(
        f.evidence
            .iter()
            .any(|s| s.says.contains("accepted and read"))
    );
    // Most of the time was service time.
    only(&late(1_200.0, 100.0, four()), "slow-application");
}

#[test]
fn looks_between_samples_tell_who_waited_in_the_queue() {
    let looked = |accept_queue: Vec<u32>, wait_ms: Vec<u32>| {
        let listen = Listen {
            accept_queue,
            accept_wait_ms: Some(wait_ms),
            ..Listen::default()
        };
        late_at(listen, (10, 289.0), 280.0)
    };
    // No sample found a waiting connection.
    let f = only(&looked(vec![0; 7], vec![0, 0, 0, 248, 0, 272, 0]), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    let says = |f: &crate::Finding, words: &str| f.evidence.iter().any(|s| s.says.contains(words));
    assert!(says(&f, "for up to 272 ms"), "{:?}", f.evidence);
    // One found a connection that waited for a moment: accepted at once and read late.
    let f = only(
        &looked(vec![0, 1, 0, 2, 0], vec![0, 4, 0]),
        "slow-application",
    );
    ruled_out(&f, ID);
}

#[test]
fn what_no_sample_can_have_met_is_not_ruled_out() {
    let f = late_at(Listen::default(), (10, 289.0), 280.0);
    let f = only(&f, "slow-application");
    let confidence = &f.confidence;
    assert_eq!(confidence.level, Level::Medium, "{confidence:?}");
    let because = confidence.because.join("; ");
    assert!(
        because.contains("slow-accept could not be ruled out"),
        "{because}"
    );
}

#[test]
fn moments_are_none() {
    assert!(found(&late(150.0, 149.0, four())).is_empty());
}

#[test]
fn a_queue_that_overflows_explains_it() {
    let mut f = late(1_200.0, 1_190.0, vec![0]);
    f.listeners.clear();
    f.processes.clear();
    f.listen(Listen {
        backlog: 8,
        accept_queue: vec![0, 9, 9, 9, 9, 9, 9, 9, 9, 0],
        drops: 400,
        ..Listen::default()
    });
    f.count(SERVER, counter::LISTEN_OVERFLOWS, 3, 400);
    f.count(SERVER, counter::LISTEN_DROPS, 3, 400);
    only(&f, "accept-queue-overflow");
}

#[test]
fn connections_without_a_request_are_told_by_their_samples() {
    let mut f = late(4.0, 0.0, vec![6; 11]);
    six_wait(&mut f);
    let f = only(&f, ID);
    assert_eq!(f.impact.affected, 6);
    assert!(
        f.since
            .expect("a moment")
            .says
            .contains("before the recording")
    );
}

#[test]
fn the_queue_keeps_those_whose_clients_have_left() {
    let left = |queue: u32| {
        let mut f = late(4.0, 0.0, vec![queue; 11]);
        f.requests.clear();
        for i in 0..10 {
            f.dial(Dial {
                from: format!("10.79.0.2:{}", 50_000 + i),
                older: true,
                ..Dial::default()
            });
        }
        for row in f.sockets.iter_mut().filter(|s| s.remote_port >= 50_000) {
            row.inode = None;
            if row.remote_port >= 50_006 {
                row.state = TcpState::CloseWait;
            }
        }
        f
    };
    let told = only(&left(10), ID);
    let title = "has not accepted 6 connections for";
    assert!(told.title.contains(title), "{}", told.title);
    // Those that left no longer wait, and the queue's length still counts them.
    assert_eq!(told.impact.affected, 6);
    assert!(told.arithmetic.iter().all(|c| c.agrees));
    let lost = told.lost_s.seconds().expect("measured");
    assert!((50.0..=60.0).contains(&lost), "{lost}");
    // A queue that held a third of what is claimed does not fit.
    assert!(found(&left(3)).is_empty());
}

/// Short connections, none of which gets through from 3.9 s to `until_s`: 12 wait for accept(), as samples see.
fn pause(until_s: f64) -> Fixture {
    let mut f = Fixture::new();
    let waits = |s: f64| (4.0..until_s).contains(&s);
    f.listen(Listen {
        backlog: 16,
        accept_queue: (0..=10)
            .map(|s| if waits(s.into()) { 12 } else { 0 })
            .collect(),
        ..Listen::default()
    });
    let mut dial = |port: u32, at_ms: f64, ends_ms: f64| {
        f.dial(Dial {
            from: format!("10.79.0.2:{port}"),
            at_ms,
            took_ms: 0.08,
            ends_ms: Some(ends_ms),
            // Those that wait have sent their request, and are sampled.
            sends: u64::from(port >= 30_000),
            ..Dial::default()
        });
    };
    for i in (0..390).chain((until_s * 100.0) as u32..950) {
        let at_ms = f64::from(i) * 10.0;
        dial(20_000 + i, at_ms, at_ms + 5.0);
    }
    (0..12).for_each(|i| dial(30_000 + i, 3_901.0, until_s * 1_000.0 + 1.0));
    for row in f.sockets.iter_mut().filter(|s| s.remote_port >= 30_000) {
        row.inode = None;
        row.time_ns += 500_000_000;
    }
    f
}

#[test]
fn an_outage_without_an_overflow_is_told_though_few_connections_were_kept_waiting() {
    let f = only(&pause(6.5), ID);
    assert_eq!(f.impact.affected, 12);
    assert!(f.impact.says.starts_with("Outage: "), "{}", f.impact.says);
    let since = f.since.expect("a moment").after_start_s;
    assert!((3.8..4.1).contains(&since), "{since}");
}

#[test]
fn a_hiccup_is_no_outage() {
    assert!(found(&pause(4.6)).is_empty());
}
