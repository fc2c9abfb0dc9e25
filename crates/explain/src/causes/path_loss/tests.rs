//! C17 is named when packets vanish on the path, and not when a queue or this host drops them.

use recording::tables::Event;
use recording::{EventKind, RetransmitKind, SourceName, TcpState};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{ACK, CLIENT, Dial, End, Fixture, Flow, HOST, SERVER, START_NS, SYN, cases, place};

const ID: &str = "path-loss";

#[test]
fn both_ends_here() {
    let f = only(&cases::lossy(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (6, 6));
    assert_eq!(
        f.scope.resource.as_deref(),
        Some("path 10.79.0.2 → 10.79.0.1")
    );
    assert_eq!(number(&f, "lost"), &Number::Count(6 * 8 * 4));
    assert!(f.arithmetic.len() == 2 && f.arithmetic.iter().all(|c| c.agrees));
    assert!(ruled_out(&f, "qdisc-drop").contains("dropped 0"));
    let repair = Change::RepairPath {
        from: "10.79.0.2".into(),
        to: "10.79.0.1".into(),
    };
    assert_eq!(f.advice[0].change, Some(repair));
}

#[test]
fn the_sender_alone_cannot_be_sure() {
    let mut recording = cases::lossy();
    recording.seen_from(CLIENT);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
    let mut recording = cases::lossy();
    recording.seen_from(SERVER);
    assert!(
        found(&recording).is_empty(),
        "the receiver retransmits nothing"
    );
}

#[test]
fn drops_that_were_not_recorded_lower_the_confidence() {
    let mut recording = cases::lossy();
    recording.without(SourceName::Drops);
    assert_eq!(only(&recording, ID).confidence.level, Level::Medium);
}

#[test]
fn look_alikes_are_not_path_loss() {
    for recording in [cases::used_to_the_full(), cases::bulk(), cases::churn()] {
        assert!(found(&recording).is_empty());
    }
    only(&cases::shaped(), "qdisc-drop");
    // The receiver had all of them: nothing was lost.
    let mut spurious = cases::lossy();
    for socket in spurious.sockets.iter_mut().filter(|s| s.netns == CLIENT) {
        socket.dsack_dups = socket.data_segs_out.map(|n| n / 100);
    }
    only(&spurious, "reordering");
    // All within one second: an accident, over by now.
    let mut burst = cases::lossy();
    let start = START_NS;
    for event in burst
        .events
        .iter_mut()
        .filter(|e| e.kind == EventKind::Retransmit)
    {
        event.time_ns = start + 3_000_000_000 + (event.time_ns - start) / 100;
    }
    assert!(found(&burst).is_empty());
}

/// The same losses, each at twice the round trip of an empty path, out of all segments or a hundredth of them.
fn at_a_full_queue(fewer: u32) -> Fixture {
    let mut f = much_lost(fewer);
    let events = f.events.iter_mut();
    for event in events.filter(|e| e.kind == EventKind::Retransmit) {
        event.rtt_us = event.rtt_us.map(|us| us * 2);
    }
    f
}

/// The same losses, out of fewer segments.
fn much_lost(fewer: u32) -> Fixture {
    let mut f = cases::lossy();
    for socket in &mut f.sockets {
        socket.data_segs_out = socket.data_segs_out.map(|n| n / fewer);
    }
    f
}

/// A sender that moves more than random losses leave it loses many packets at once, and none in between.
#[test]
fn losses_that_come_together_are_a_policers() {
    let policed = only(&much_lost(100), ID);
    assert!(policed.title.contains("a policer"), "{}", policed.title);
    assert_eq!(policed.confidence.level, Level::Medium);
    let says = |f: &crate::Finding| f.evidence.iter().any(|s| s.says.contains("come together"));
    assert!(says(&policed), "{:?}", policed.evidence);
    let mut random = much_lost(100);
    for socket in &mut random.sockets {
        socket.bytes_acked = socket.bytes_acked.map(|n| n / 10);
    }
    let random = only(&random, ID);
    assert!(!random.title.contains("a policer"), "{}", random.title);
    assert!(!says(&random), "{:?}", random.evidence);
}

#[test]
fn much_that_is_lost_at_a_full_queue_is_told_and_not_as_random() {
    let f = only(&at_a_full_queue(100), ID);
    assert!(f.title.contains("full"), "{}", f.title);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert!(
        f.evidence
            .iter()
            .all(|s| !s.says.contains("no standing queue"))
    );
    assert!(
        found(&at_a_full_queue(1)).is_empty(),
        "any bottleneck has that"
    );
}

#[test]
fn what_one_port_loses_alone_no_queue_takes() {
    let beside = |again: usize| {
        let mut f = at_a_full_queue(100);
        f.flow(Flow {
            from: "10.79.0.2:45000".into(),
            to: "10.79.0.1:5001",
            rate: 10_000_000,
            rtt_us: [41_000, 300, 20_000],
            again: vec![(RetransmitKind::Fast, 41_000); again],
            ..Flow::default()
        });
        only(&f, ID)
    };
    let f = beside(0);
    assert!(f.title.contains("of port 5000"), "{}", f.title);
    assert!(
        f.advice[0]
            .command
            .as_deref()
            .is_some_and(|c| c.contains("-P 5000"))
    );
    assert_eq!(number(&f, "others_lost"), &Number::Count(0));
    // A full queue drops from all.
    let f = beside(400);
    assert!(f.title.contains("full"), "{}", f.title);
}

/// 400 short connections to a server elsewhere: this many retransmit a SYN, and this many a segment of their data.
fn short(lose_syn: u32, lose_data: u32) -> Fixture {
    short_to(None, "192.0.2.9:80", lose_syn, lose_data)
}

/// The same to this server.
fn short_to(server: Option<u32>, to: &'static str, lose_syn: u32, lose_data: u32) -> Fixture {
    let mut f = Fixture::new();
    for i in 0..400u32 {
        let at_ms = 50.0 + f64::from(i) * 20.0;
        let is = |every: u32, rest: u32| u32::from(every > 0 && i % every.max(1) == rest);
        let retries = is(lose_syn, 0);
        let took_ms = 10.4 + 1_000.0 * f64::from(retries);
        f.dial(Dial {
            server,
            from: format!("10.79.0.2:{}", 30_000 + i),
            to,
            at_ms,
            took_ms,
            retries,
            resends: is(lose_data, 1),
            ends_ms: Some(at_ms + took_ms + 300.0),
            ..Dial::default()
        });
    }
    for event in &mut f.events {
        if event.state == Some(TcpState::Close) {
            event.bytes_acked = Some(3_000);
        }
    }
    f
}

#[test]
fn short_connections_tell_of_a_lossy_path_at_their_end() {
    let f = only(&short(10, 7), ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    assert_eq!(number(&f, "syns_again"), &Number::Count(40));
    assert_eq!(number(&f, "data_again"), &Number::Count(57));
    assert!(f.arithmetic.iter().all(|c| c.agrees));
    assert!(f.title.contains("10.79.0.2 → 192.0.2.9"), "{}", f.title);
    assert!(f.lost_s.seconds() > Some(39.0), "{:?}", f.lost_s.seconds());
}

#[test]
fn a_listener_that_gets_a_syn_again_has_not_refused_it() {
    // Its socket counts each SYN whose answer was lost; ListenDrops rises for those that it refuses.
    let mut f = short_to(Some(SERVER), "10.79.0.1:5000", 10, 7);
    f.listen(synth::Listen {
        drops: 20,
        ..synth::Listen::default()
    });
    f.count(SERVER, "TcpExt.ListenDrops", 0, 0);
    only(&f, ID);
    f.count(SERVER, "TcpExt.ListenDrops", 0, 40);
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

#[test]
fn short_connections_that_lose_only_one_kind_or_next_to_nothing() {
    only(&short(10, 0), "path-drops-syn");
    // SYNs wait for a second: fewer of them are enough.
    only(&short(60, 32), ID);
    for healthy in [short(0, 0), short(0, 30), short(80, 70)] {
        assert!(found(&healthy).is_empty());
    }
}

/// A namespace drops SYNs from an address to where short connections go.
fn syns_dropped(f: &mut Fixture, netns: u32, from: &str, n: u64) {
    let (addr, ..) = place(from);
    let (remote, port, family) = place("192.0.2.9:80");
    let packet = End {
        netns,
        sock: 0,
        family,
        local: (remote, port),
        remote: (addr, 50_000),
    };
    f.events.extend((0..n).map(|i| Event {
        reason: Some("NETFILTER_DROP".into()),
        location: Some("nf_hook_slow".into()),
        ..packet.stray(START_NS + 1_000_000_000 + i, EventKind::Drop, SYN)
    }));
}

/// A node's shaper drops packets that already have the node's source address: data as well as SYNs.
#[test]
fn what_a_node_drops_after_it_has_translated_it_is_no_path() {
    let mut f = short(10, 7);
    let (source, ..) = place("10.99.0.1:1");
    let (remote, port, family) = place("192.0.2.9:80");
    let packet = End {
        netns: HOST,
        sock: 0,
        family,
        local: (remote, port),
        remote: (source, 50_000),
    };
    // 57 retransmitted segments, and 40 SYNs.
    f.events.extend((0..57).map(|i| Event {
        reason: Some("QDISC_DROP".into()),
        location: Some("__dev_queue_xmit".into()),
        ..packet.stray(START_NS + 1_000_000_000 + i, EventKind::Drop, ACK)
    }));
    assert!(found(&f).iter().all(|f| f.cause != ID));
}

#[test]
fn what_is_dropped_of_others_says_nothing_of_a_path() {
    let tells = |f: &Fixture| found(f).iter().any(|f| f.cause == ID);
    // Clients in another namespace connect there as well, and retransmit this many SYNs.
    let beside = |retries: u32| {
        let mut f = short(10, 7);
        for i in 0..10u32 {
            f.dial(Dial {
                client: Some(HOST),
                server: None,
                from: format!("10.79.0.3:{}", 40_000 + i),
                to: "192.0.2.9:80",
                took_ms: 10.4 + 1_000.0 * f64::from(retries),
                retries,
                ends_ms: Some(8_000.0),
                ..Dial::default()
            });
        }
        f
    };
    // Its own firewall objects to that.
    let mut f = beside(3);
    syns_dropped(&mut f, HOST, "10.79.0.3:1", 30);
    assert!(tells(&f));
    // Packets with its address that are not its own were translated there.
    let mut f = beside(0);
    assert!(tells(&f));
    syns_dropped(&mut f, HOST, "10.79.0.3:1", 30);
    assert!(!tells(&f));
    // The path's own SYNs are dropped here wherever they pass, and so may be those with a translated source.
    for (netns, from) in [
        (CLIENT, "10.79.0.2:1"),
        (SERVER, "10.79.0.2:1"),
        (SERVER, "192.0.2.77:1"),
    ] {
        let mut f = short(10, 7);
        syns_dropped(&mut f, netns, from, 30);
        assert!(!tells(&f), "{netns} {from}");
    }
}
