//! C15 is named when softnet drops what TCP missed.

use crate::causes::testing::{found, only, sysctls};
use crate::{Level, explain};
use recording::counter;
use recording::tables::Cpu;
use synth::{Fixture, SERVER, START_NS, cases};

const ID: &str = "receive-backlog-drop";

/// CPU 1 took 100,000 packets and dropped some.
fn full(dropped: u64, out_of_order: i64) -> Fixture {
    let mut f = cases::bulk();
    let row = |second: u64, cpu: u32, n: u64, dropped: u64| Cpu {
        time_ns: START_NS + second * 1_000_000_000,
        cpu,
        softnet_processed: Some(n),
        softnet_dropped: Some(dropped),
        softnet_squeezed: Some(0),
        ..Cpu::default()
    };
    f.cpus.extend([
        row(0, 0, 9, 3),
        row(0, 1, 7, 4),
        row(9, 0, 30_009, 3),
        row(9, 1, 70_007, 4 + dropped),
    ]);
    f.set(0, "net.core.netdev_max_backlog", "1000");
    f.raise(SERVER, counter::TCP_OFO_QUEUE, out_of_order);
    f
}

#[test]
fn a_queue_that_is_full() {
    let f = only(&full(400, 300), ID);
    assert_eq!(f.scope.resource.as_deref(), Some("CPU 1"));
    assert_eq!((f.impact.affected, f.impact.of), (400, 70_400));
    assert_eq!(
        sysctls(&f),
        [(0, "net.core.netdev_max_backlog=4000".to_string())]
    );
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.arithmetic.iter().all(|c| c.agrees));
}

#[test]
fn few_or_unmissed_are_not_it() {
    assert!(found(&full(19, 300)).is_empty());
    assert!(found(&full(60, 300)).is_empty(), "a small share");
    let unmissed = full(400, 2);
    assert!(found(&unmissed).is_empty());
    let notes = explain(&unmissed.write().unwrap()).unwrap().notes;
    assert!(notes.iter().any(|n| n.cause == ID));
}
