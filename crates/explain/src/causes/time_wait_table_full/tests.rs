//! C32 is a note, and a finding where resets answer late packets.

use crate::causes::testing::{found, only, sysctls};
use crate::{Level, explain};
use recording::tables::{Event, Resource};
use recording::{EventKind, counter};
use synth::{Fixture, SERVER, START_NS, cases};

const ID: &str = "time-wait-table-full";

fn full(closed: i64, resets: u64) -> Fixture {
    let mut f = cases::bulk();
    f.set(SERVER, "net.ipv4.tcp_max_tw_buckets", "1000");
    f.raise(SERVER, counter::TCP_TIME_WAIT_OVERFLOW, closed);
    f.raise(SERVER, counter::TW, 500);
    f.resources.extend(
        [900.0, 1_000.0]
            .into_iter()
            .zip([0, 9])
            .map(|(value, second)| Resource {
                time_ns: START_NS + second * 1_000_000_000,
                netns: SERVER,
                resource: "socket-memory".into(),
                metric: "time_wait".into(),
                value,
                limit: Some(1_000.0),
                ..Resource::default()
            }),
    );
    f.events.extend((0..resets).map(|nth| Event {
        time_ns: START_NS + 1_000_000_000 + nth,
        kind: EventKind::ResetSent,
        netns: SERVER,
        family: 4,
        flags: Some(17),
        reason: Some("NO_SOCKET".into()),
        ..Event::default()
    }));
    f
}

#[test]
fn with_resets_it_is_a_finding() {
    let f = only(&full(3_000, 60), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (3_000, 3_500));
    assert_eq!(
        sysctls(&f),
        [(SERVER, "net.ipv4.tcp_max_tw_buckets=4096".to_string())]
    );
    assert!(f.arithmetic[0].agrees);
}

#[test]
fn without_it_is_a_note() {
    let quiet = full(3_000, 5);
    assert!(found(&quiet).is_empty());
    let notes = explain(&quiet.write().unwrap()).unwrap().notes;
    assert!(notes.iter().any(|n| n.cause == ID));
    let few = explain(&full(99, 60).write().unwrap()).unwrap();
    assert!(few.notes.iter().all(|n| n.cause != ID));
}
