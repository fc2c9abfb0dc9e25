//! C14 is named when the kernel says that a queueing discipline dropped, and only then.

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use synth::{CLIENT, Flow, cases};

const ID: &str = "qdisc-drop";

#[test]
fn drops_are_told_with_their_device() {
    let f = only(&cases::shaped(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.scope.pid), (4, Some(77)));
    assert_eq!(f.scope.resource.as_deref(), Some("qdisc of to-server"));
    assert_eq!(number(&f, "dropped"), &Number::Count(4 * 8 * 7));
    assert!(ruled_out(&f, "path-loss").starts_with("0 of"));
    // Two round trips of 20 ms at 1 MB/s are less than the least that is advised.
    let limit = Change::QueueLimit {
        netns: CLIENT,
        device: Some("to-server".into()),
        bytes: 100_000,
    };
    assert_eq!(f.advice[0].change, Some(limit));
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
