//! C14 is named when the kernel reports drops by a queueing discipline, and only then.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use recording::{EventKind, RetransmitKind};
use synth::{CLIENT, Fixture, Flow, Listen, SERVER, cases, place};

const ID: &str = "qdisc-drop";

#[test]
fn drops_are_told_with_their_device() {
    let f = only(&cases::shaped(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.scope.pid), (4, Some(77)));
    assert_eq!(f.scope.resource.as_deref(), Some("qdisc of to-server"));
    assert_eq!(number(&f, "dropped"), &Number::Count(4 * 8 * 7));
    assert!(ruled_out(&f, "path-loss").starts_with("0 of"));
    // Two round trips of 20 ms at 1 MB/s are less than the smallest advised queue.
    let limit = Change::QueueLimit {
        netns: CLIENT,
        device: Some("to-server".into()),
        bytes: 100_000,
    };
    assert_eq!(f.advice[0].change, Some(limit));
}

#[test]
fn what_a_node_drops_of_packets_that_pass_through_it_is_told_of_those_who_sent_them() {
    const NODE: u32 = 4_026_539_999;
    for from in ["192.0.2.1:1", "10.79.0.2:1"] {
        let f = only(&dropped_by_a_node(NODE, from), ID);
        assert_eq!(f.scope.netns.inode, NODE);
        assert_eq!(number(&f, "dropped"), &Number::Count(4 * 8 * 7), "{from}");
        assert_eq!(f.impact.affected, 4);
    }
}

#[test]
fn flows_of_others_are_told_apart() {
    let mut f = dropped_by_a_node(4_026_539_999, "192.0.2.1:1");
    let drops = f.events.iter_mut().filter(|e| e.kind == EventKind::Drop);
    for (event, nth) in drops.zip(0u16..) {
        event.remote_port = 1_000 + nth % 20;
    }
    let f = only(&f, ID);
    assert_eq!((f.impact.affected, f.impact.of), (4, 4));
    assert_eq!(number(&f, "dropped"), &Number::Count(4 * 8 * 7));
    let says = &f.impact.says;
    assert!(
        says.contains("16 connections that this host forwards"),
        "{says}"
    );
}

/// Drops of four uploads; the node knows their source by this address.
fn dropped_by_a_node(node: u32, from: &str) -> Fixture {
    let mut recording = Fixture::new();
    recording.listen(Listen::default());
    for i in 0..4 {
        recording.flow(Flow {
            from: format!("10.79.0.2:{}", 40_000 + i),
            again: vec![(RetransmitKind::Fast, 20_000); 7],
            dropped: 7,
            ..Flow::default()
        });
    }
    let (addr, ..) = place(from);
    for event in recording
        .events
        .iter_mut()
        .filter(|e| e.kind == EventKind::Drop)
    {
        event.netns = node;
        event.remote_addr = addr;
    }
    recording.events.retain(|e| e.netns != SERVER);
    recording.sockets.retain(|s| s.netns != SERVER);
    recording
}

#[test]
fn of_several_devices_none_is_accused() {
    let mut recording = cases::shaped();
    let others: Vec<_> = recording.resources.clone();
    recording.resources.extend(others.into_iter().map(|mut r| {
        r.instance = "to-archive".into();
        r
    }));
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Medium);
    let limit = f.advice[0].change.clone();
    assert!(matches!(
        limit,
        Some(Change::QueueLimit { device: None, .. })
    ));
}

/// A device over which a node sends acknowledgements to the senders that go through it.
#[test]
fn a_device_that_sent_less_than_arrived_did_not_drop_it() {
    let mut recording = cases::shaped();
    // Each of the four flows wrote only its own bytes.
    recording.resources.iter_mut().for_each(|r| r.value *= 4.0);
    let others: Vec<_> = recording.resources.clone();
    recording.resources.extend(others.into_iter().map(|mut r| {
        r.instance = "to-pod".into();
        r.value /= 20.0;
        r
    }));
    let f = only(&recording, ID);
    assert_eq!(f.scope.resource.as_deref(), Some("qdisc of to-server"));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    let says = |words: &str| f.evidence.iter().any(|s| s.says.contains(words));
    assert!(says("the only interface"), "{:?}", f.evidence);
    assert!(says("as much as these connections"), "{:?}", f.evidence);
}

#[test]
fn a_few_drops_and_other_reasons_are_not_it() {
    let mut few = cases::bulk();
    few.flow(Flow {
        rate: 10_000_000,
        dropped: 2,
        ..Flow::default()
    });
    assert!(found(&few).is_empty());
    let mut firewall = cases::shaped();
    for event in firewall.events.iter_mut().filter(|e| e.reason.is_some()) {
        event.reason = Some("NETFILTER_DROP".into());
    }
    assert!(found(&firewall).iter().all(|f| f.cause != ID));
}

#[test]
fn who_was_not_hit_lost_nothing_by_it() {
    let mut f = cases::shaped();
    let alone = only(&f, ID).lost_s.seconds();
    for client in 0..20 {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", 50_000 + client),
            to: "10.79.0.1:6000",
            rate: 1_000,
            ..Flow::default()
        });
    }
    let f = only(&f, ID);
    assert_eq!((f.lost_s.seconds(), f.impact.affected), (alone, 4));
}
