//! C04 is named when the accept queue overflows, with the process that does not accept.

use recording::tables::{Event, Wait};
use recording::{EventKind, SourceName, TcpState, Waker, counter};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Began, Change, Level, Number};
use synth::{CLIENT, Dial, Fate, Fixture, HOST, Listen, SERVER, START_NS, Task, cases};

const ID: &str = "accept-queue-overflow";

#[test]
fn both_ends_here() {
    let f = only(&cases::accept_queue(), ID);
    assert_eq!((f.impact.affected, f.impact.of), (2_000, 3_000));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    let added = f.impact.added_latency_ms.expect("clients are here");
    assert_eq!(added.p50.round(), 1_004.0);
    assert_eq!(number(&f, "longest_accept_queue"), &Number::Count(9));
    assert_eq!(number(&f, "TCPReqQFullDrop"), &Number::Count(100));
    assert_eq!(f.arithmetic.len(), 4);
    assert!(f.arithmetic.iter().all(|c| c.agrees), "{:?}", f.arithmetic);
    assert!(matches!(
        f.advice[0].change,
        Some(Change::AcceptFaster { .. })
    ));
    assert!(ruled_out(&f, "syn-queue-overflow").contains("consequence"));
    assert!(ruled_out(&f, "local-firewall-drop").contains("0 SYNs"));
}

#[test]
fn the_longest_time_without_a_handshake_is_told() {
    let even = only(&cases::accept_queue(), ID);
    assert!(!even.impact.says.contains("at all"), "{}", even.impact.says);
    let mut recording = cases::accept_queue();
    // The last of them was established 7.0 s after the start.
    for i in 0..100u32 {
        recording.dial(Dial {
            from: format!("10.79.0.2:{}", 30_000 + i),
            at_ms: 9_000.0 + f64::from(i),
            took_ms: 0.08,
            ..Dial::default()
        });
    }
    let f = only(&recording, ID);
    let Number::Real(pause) = number(&f, "outage_ms") else {
        panic!("a measure");
    };
    assert!((1_990.0..2_010.0).contains(pause), "{pause}");
    let says = "Outage: it accepted nothing for 2 s, beginning ";
    assert!(f.impact.says.contains(says), "{}", f.impact.says);
    // More arrived than were taken: here the advice is about that.
    assert!(f.advice.iter().any(|a| a.expected.contains("overload")));
    // What its one thread did meanwhile.
    recording.thread(812, "iperf3", [0.01, 0.0]);
    let slept = |recording: &Fixture, call: &str| {
        let mut recording = recording.clone();
        recording.waits.push(Wait {
            syscall: Some(call.into()),
            state: "S".into(),
            waker: Waker::Timer,
            ..Task::new(812, "iperf3").wait(START_NS + 8_900_000_000, SERVER, 1_800_000_000)
        });
        let f = only(&recording, ID);
        let mut steps = f.evidence.into_iter().map(|s| s.says);
        steps.find(|says| says.starts_with("The only thread"))
    };
    let says = "The only thread of iperf3 (pid 812) slept in recvfrom for 1.8 s of it, until its timeout expired: \
                meanwhile no other client was served.";
    assert_eq!(slept(&recording, "recvfrom").as_deref(), Some(says));
    assert_eq!(slept(&recording, "epoll_wait"), None);
    for row in &mut recording.threads.clone() {
        row.tid += 1;
        recording.threads.push(row.clone());
    }
    assert_eq!(slept(&recording, "recvfrom"), None);
}

#[test]
fn a_server_that_kept_up_but_for_a_pause_is_not_told_to_be_faster() {
    let mut recording = cases::accept_queue();
    // Enough are taken at once to make the mean that of the arrivals.
    for i in 0..30_000u32 {
        recording.dial(Dial {
            from: format!("10.79.{}.2:{}", 10 + i / 3_000, 30_000 + i % 3_000),
            at_ms: 9_000.0 + f64::from(i) / 10.0,
            took_ms: 0.08,
            ..Dial::default()
        });
    }
    let f = only(&recording, ID);
    let effects: Vec<&str> = f.advice.iter().map(|a| &*a.expected).collect();
    let pause = |e: &&&str| {
        (e.contains("in which nothing") || e.contains("rides out")) && !e.contains("overload")
    };
    assert_eq!(effects.iter().filter(pause).count(), 2, "{effects:?}");
}

#[test]
fn only_the_server_here() {
    let mut recording = cases::accept_queue();
    recording.seen_from(SERVER);
    let f = only(&recording, ID);
    assert_eq!((f.impact.affected, &*f.impact.counted), (2_300, "SYNs"));
    assert_eq!(f.impact.added_latency_ms, None);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
}

#[test]
fn a_client_alone_cannot_tell_a_full_queue_from_a_path_that_drops_syns() {
    let mut recording = cases::accept_queue();
    recording.seen_from(CLIENT);
    let f = only(&recording, "path-drops-syn");
    assert_eq!(f.confidence.level, Level::Low);
}

#[test]
fn the_stopped_worker_is_named_not_its_master() {
    let f = only(&cases::stopped_worker(), ID);
    assert_eq!(f.scope.listener, "0.0.0.0:80");
    assert_eq!(
        (f.scope.pid, &f.scope.pids[..]),
        (Some(101), &[100, 101][..])
    );
    assert_eq!((f.impact.affected, f.impact.of), (44, 50));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.title.contains("pid 101 is stopped"), "{}", f.title);
    assert_eq!(f.advice[0].command.as_deref(), Some("kill -CONT 101"));
    assert_eq!(number(&f, "state"), &Number::Text("stopped".into()));
}

#[test]
fn bursts_ask_for_a_backlog_first() {
    let mut recording = cases::accept_queue();
    for row in &mut recording.listeners {
        row.accept_queue = row.accept_queue.min(4);
    }
    let f = only(&recording, ID);
    assert!(matches!(
        f.advice[0].change,
        Some(Change::Backlog { value: 1_024, .. })
    ));
    assert!(f.title.contains("in bursts"), "{}", f.title);
}

#[test]
fn ghost_connections_are_told() {
    let mut f = Fixture::new();
    f.listen(Listen {
        backlog: 8,
        accept_queue: vec![9, 9, 9],
        drops: 40,
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.ListenOverflows", 0, 40);
    f.count(SERVER, "TcpExt.ListenDrops", 0, 40);
    for i in 0..40u16 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            fate: Fate::Ghost,
            resends: if i < 30 { 3 } else { 0 },
            ..Dial::default()
        });
    }
    let f = only(&f, ID);
    assert_eq!(number(&f, "late_acks"), &Number::Count(40));
    // Those that sent a request wait for its answer; the others have not noticed.
    assert_eq!((f.impact.affected, f.impact.of), (30, 40));
    assert!(f.impact.says.ends_with("; 30 still pending at the end."));
}

#[test]
fn a_server_that_gets_ready_late_delays_its_client() {
    let mut f = cases::accept_queue();
    f.events.retain(|e| e.kind == EventKind::State);
    for event in &mut f.events {
        let ends = event.state == Some(TcpState::Close);
        if event.cookie.is_some() || ends {
            event.time_ns += 1_000_000_000;
        }
    }
    let f = only(&f, ID);
    assert_eq!(number(&f, "last_ack_dropped"), &Number::Count(2_000));
}

#[test]
fn without_listener_samples_dropped_acks_name_the_listener() {
    let mut f = Fixture::new();
    f.count(SERVER, "TcpExt.ListenOverflows", 0, 40);
    for i in 0..60u16 {
        f.dial(Dial {
            client: None,
            from: format!("10.79.0.2:{}", 40_000 + i),
            fate: if i < 40 {
                Fate::Ghost
            } else {
                Fate::Established
            },
            ..Dial::default()
        });
    }
    f.without(SourceName::Sockets);
    let f = only(&f, ID);
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
    assert_eq!(f.confidence.level, Level::Medium);
}

#[test]
fn a_few_overflows_at_a_start_are_none() {
    let mut f = cases::churn();
    for row in &mut f.listeners {
        row.drops += 4;
    }
    f.listeners[0].drops -= 4;
    f.count(SERVER, "TcpExt.ListenOverflows", 0, 4);
    f.count(SERVER, "TcpExt.ListenDrops", 0, 4);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn drops_of_one_listener_are_not_blamed_on_another() {
    let mut f = cases::accept_queue();
    f.listen(Listen {
        at: "10.79.0.1:6000",
        held_by: vec![(900, 1, "idle", "S")],
        ..Listen::default()
    });
    // The namespace's overflows belong to the listener with the full queue; this one drops packets that fit no
    // connection.
    f.listen(Listen {
        at: "10.79.0.1:7000",
        held_by: vec![(901, 1, "public", "S")],
        drops: 500,
        ..Listen::default()
    });
    let f = only(&f, ID);
    assert_eq!(f.scope.listener, "10.79.0.1:5000");
}

#[test]
fn a_dual_stack_listener_owns_its_mapped_clients() {
    let mut f = Fixture::new();
    f.listen(Listen {
        netns: HOST,
        at: "[::]:80",
        backlog: 4,
        accept_queue: vec![0, 5, 5, 5],
        drops: 30,
        ..Listen::default()
    });
    f.count(HOST, "TcpExt.ListenOverflows", 0, 30);
    f.count(HOST, "TcpExt.ListenDrops", 0, 30);
    for i in 0..20u16 {
        f.dial(Dial {
            client: Some(HOST),
            server: Some(HOST),
            from: format!("127.0.0.1:{}", 40_000 + i),
            to: "127.0.0.1:80",
            took_ms: 1_002.0,
            retries: 1,
            mapped: true,
            ..Dial::default()
        });
    }
    let f = only(&f, ID);
    assert_eq!(f.scope.listener, "[::]:80");
    assert_eq!((f.impact.affected, f.impact.of), (20, 20));
}

#[test]
fn a_listener_made_during_the_recording_dropped_all_of_its_drops_in_it() {
    let mut f = cases::accept_queue();
    // Sampled late: it had dropped most of it before.
    for row in &mut f.listeners {
        row.drops = 2_400;
    }
    assert_eq!(found(&f).len(), 0);
    let row = f.listeners[0].clone();
    f.events.push(Event {
        time_ns: START_NS,
        kind: EventKind::State,
        netns: SERVER,
        sock: Some(row.sock),
        family: 4,
        local_addr: row.local_addr,
        local_port: row.local_port,
        old_state: Some(TcpState::Close),
        state: Some(TcpState::Listen),
        pid: Some(812),
        comm: Some("iperf3".into()),
        backlog: Some(8),
        ..Event::default()
    });
    let f = only(&f, ID);
    assert_eq!(number(&f, "listener_drops"), &Number::Count(2_400));
}

#[test]
fn a_queue_that_is_caught_just_after_an_accept_is_still_crowded() {
    let mut recording = cases::accept_queue();
    for (i, row) in recording.listeners.iter_mut().enumerate() {
        row.accept_queue = [0, 9, 7, 8][i % 4];
    }
    let f = only(&recording, ID);
    assert!(f.title.contains("accepts too slowly"), "{}", f.title);
}

/// A listener that has been full since before the recording, and the connections that wait in it.
fn standing(queue: Vec<u32>, state: &'static str) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen {
        backlog: 4,
        accept_queue: queue,
        held_by: vec![(812, 1, "api", state)],
        cpu: 0.0,
        ..Listen::default()
    });
    for i in 0..5u32 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            to: "10.79.0.1:5000",
            older: true,
            ..Dial::default()
        });
    }
    for socket in f.sockets.iter_mut().filter(|s| s.netns == SERVER) {
        socket.inode = None;
    }
    f
}

#[test]
fn a_queue_that_was_full_before_the_recording_is_told_with_its_process() {
    let f = only(&standing(vec![5; 11], "T"), ID);
    assert!(f.title.contains("pid 812 is stopped"), "{}", f.title);
    assert_eq!(f.confidence.level, Level::Medium);
    assert_eq!(f.scope.pid, Some(812));
    assert_eq!((f.impact.affected, f.impact.of), (5, 5));
    assert_eq!(number(&f, "waiting"), &Number::Count(5));
    let since = f.since.expect("known");
    assert_eq!(since.began, Began::Before);
    assert!(f.lost_s.seconds() > Some(40.0), "{:?}", f.lost_s);
    // Asleep, as in a deadlock.
    let f = only(&standing(vec![5; 11], "S"), ID);
    assert!(f.title.contains("nothing is accepted"), "{}", f.title);
}

#[test]
fn a_queue_that_has_room_or_moves_is_not_standing() {
    for queue in [
        vec![4; 11],
        vec![5, 5, 5, 0],
        vec![0, 5, 5, 5],
        vec![5, 3, 5],
    ] {
        // Connections that wait in it are still reported, under the cause that fits.
        let told = found(&standing(queue.clone(), "S"));
        assert!(told.iter().all(|f| f.cause == "slow-accept"), "{queue:?}");
    }
    let mut served = standing(vec![5; 11], "S");
    served.dial(Dial {
        from: "10.79.0.2:50000".into(),
        to: "10.79.0.1:5000",
        ..Dial::default()
    });
    let told = found(&served);
    assert!(
        told.iter().all(|f| f.cause == "slow-accept"),
        "it takes new ones"
    );
}

#[test]
fn a_queue_that_filled_in_an_outage_is_full_since_then() {
    let mut recording = Fixture::new();
    recording.listen(Listen {
        backlog: 8,
        accept_queue: vec![0, 0, 0, 0, 9, 9, 0, 0, 0, 0, 0],
        drops: 60,
        ..Listen::default()
    });
    recording.count(SERVER, counter::LISTEN_OVERFLOWS, 3, 60);
    recording.count(SERVER, counter::LISTEN_DROPS, 3, 60);
    let mut dial = |port: u32, at_ms: f64, retries: u32| {
        recording.dial(Dial {
            from: format!("10.79.0.2:{port}"),
            at_ms,
            took_ms: if retries > 0 { 3_004.0 } else { 0.08 },
            retries,
            ..Dial::default()
        });
    };
    // A burst at the start, then quiet, then nothing is accepted for 3 s, and quiet again.
    (0..5).for_each(|i| dial(20_000 + i, 1.0, 2));
    for i in (0..400).chain(700..900) {
        dial(21_000 + i, f64::from(i) * 10.0 + 2.0, 0);
    }
    (0..30).for_each(|i| dial(30_000 + i, 4_000.0 + f64::from(i), 2));
    let f = only(&recording, ID);
    let since = f.since.as_ref().expect("it is told");
    assert_eq!(since.began, Began::Seen);
    assert!((3.9..4.1).contains(&since.after_start_s), "{since:?}");
}
