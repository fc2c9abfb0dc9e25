//! C31 is named when TCP's memory is at the mark, or connections are reset for memory.

use crate::Level;
use crate::causes::testing::{found, only, sysctls};
use recording::counter;
use recording::tables::Resource;
use synth::{Fixture, SERVER, START_NS, cases};

const ID: &str = "tcp-memory-pressure";

/// TCP's memory, with a mark of 100 MB, and orphans, of 1,000.
fn memory(bytes: f64, orphans: f64) -> Fixture {
    let mut f = cases::bulk();
    for (metric, value, limit) in [
        ("tcp_bytes_to_pressure", bytes, 100e6),
        ("orphans", orphans, 1_000.0),
    ] {
        for second in [0, 9] {
            f.resources.push(Resource {
                time_ns: START_NS + second * 1_000_000_000,
                resource: "socket-memory".into(),
                metric: metric.into(),
                value,
                limit: Some(limit),
                ..Resource::default()
            });
        }
    }
    f.set(0, "net.ipv4.tcp_mem", "18000 24414 36000");
    f
}

#[test]
fn beyond_the_mark() {
    let mut f = memory(110e6, 5.0);
    f.raise(SERVER, counter::TCP_MEMORY_PRESSURES, 2);
    let f = only(&f, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(
        sysctls(&f),
        [(0, "net.ipv4.tcp_mem=36000 48828 72000".to_string())]
    );
    // The kernel never reported it.
    assert_ne!(only(&memory(110e6, 5.0), ID).confidence.level, Level::High);
    // Between two readings.
    let mut short = memory(60e6, 5.0);
    short.raise(SERVER, counter::TCP_MEMORY_PRESSURES, 1);
    assert_eq!(only(&short, ID).confidence.level, Level::Medium);
}

#[test]
fn orphans() {
    let mut f = memory(1e6, 990.0);
    f.raise(SERVER, counter::TCP_ABORT_ON_MEMORY, 30);
    let f = only(&f, ID);
    assert!(f.title.contains("orphans"), "{}", f.title);
    assert_eq!(
        sysctls(&f),
        [(0, "net.ipv4.tcp_max_orphans=2000".to_string())]
    );
}

#[test]
fn memory_that_is_used_is_not_it() {
    assert!(found(&memory(99e6, 990.0)).is_empty());
    let mut two = memory(1e6, 5.0);
    two.raise(SERVER, counter::TCP_ABORT_ON_MEMORY, 2);
    assert!(found(&two).is_empty());
}
