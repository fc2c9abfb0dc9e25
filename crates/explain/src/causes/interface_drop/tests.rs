//! C43 is named when an interface lost what TCP missed; a note where TCP missed none.

use crate::causes::testing::{found, only, softnet};
use crate::{Change, Level, explain};
use recording::counter;
use synth::{CLIENT, Fixture, HOST, SERVER, cases};

const ID: &str = "interface-drop";

/// An interface that received 100,000 packets, with the counter that rose.
fn lost(metric: &str, n: f64, out_of_order: i64) -> Fixture {
    let mut f = cases::bulk();
    f.resources
        .retain(|r| r.netns == SERVER || r.netns == CLIENT);
    for (name, values) in [
        ("rx_packets", [5.0, 100_005.0]),
        ("tx_packets", [0.0, 50_000.0]),
        (metric, [7.0, 7.0 + n]),
    ] {
        f.resource("network", "eth0", name, values);
    }
    f.resources
        .iter_mut()
        .filter(|r| &*r.instance == "eth0")
        .for_each(|r| r.netns = HOST);
    f.raise(SERVER, counter::TCP_OFO_QUEUE, out_of_order);
    softnet(&mut f, 0);
    f
}

#[test]
fn a_queue_of_a_cpu_that_is_full_is_not_ruled_out() {
    let mut f = lost("rx_fifo", 700.0, 600);
    f.cpus.clear();
    softnet(&mut f, 290);
    let all = found(&f);
    let interface = all.iter().find(|f| f.cause == ID).expect(ID);
    assert_eq!(interface.confidence.level, Level::Medium);
    assert!(interface.ruled_out.is_empty(), "{:?}", interface.ruled_out);
    assert!(all.iter().any(|f| f.cause == "receive-backlog-drop"));
}

#[test]
fn a_ring_that_overflows() {
    let f = only(&lost("rx_fifo", 300.0, 250), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!((f.impact.affected, f.impact.of), (300, 100_300));
    assert_eq!(f.scope.resource.as_deref(), Some("eth0"));
    assert!(f.arithmetic.iter().all(|c| c.agrees));
    let longer = Change::InterfaceQueues {
        netns: HOST,
        device: "eth0".into(),
    };
    assert_eq!(f.advice[0].change, Some(longer));
    // The kernel identifies the queue only for the ring.
    assert_eq!(
        only(&lost("rx_dropped", 300.0, 350), ID).confidence.level,
        Level::Medium
    );
    let damaged = only(&lost("rx_errors", 300.0, 250), ID);
    assert!(damaged.title.contains("damaged"), "{}", damaged.title);
}

#[test]
fn what_tcp_did_not_miss_is_a_note() {
    // Dropped frames may be unwanted ones: as many segments must have been missed.
    for (metric, out_of_order) in [("rx_dropped", 250), ("rx_fifo", 20)] {
        let f = lost(metric, 300.0, out_of_order);
        assert!(found(&f).is_empty());
        let notes = explain(&f.write().unwrap()).unwrap().notes;
        assert!(notes.iter().any(|n| n.cause == ID), "{notes:?}");
    }
}

#[test]
fn look_alikes_are_not_it() {
    // Few; a small share; the kernel's own queue, which has a cause of its own.
    assert!(found(&lost("rx_dropped", 19.0, 350)).is_empty());
    assert!(found(&lost("rx_dropped", 90.0, 350)).is_empty());
    let mut queue = lost("rx_dropped", 300.0, 350);
    queue.cpus.clear();
    softnet(&mut queue, 290);
    assert!(found(&queue).iter().all(|f| f.cause != ID));
}

#[test]
fn what_tcp_missed_came_by_the_interface_that_carries_most() {
    let mut f = lost("rx_dropped", 300.0, 350);
    only(&f, ID);
    let quiet: Vec<_> = f
        .resources
        .iter()
        .filter(|r| &*r.instance == "eth0" && &*r.metric == "rx_packets")
        .cloned()
        .collect();
    for mut row in quiet {
        row.instance = "eth1".into();
        row.value *= 10.0;
        f.resources.push(row);
    }
    assert!(found(&f).is_empty());
    // What its ring had no room for was wanted, whatever else is busy.
    f.resources
        .iter_mut()
        .filter(|r| &*r.metric == "rx_dropped")
        .for_each(|r| r.metric = "rx_fifo".into());
    only(&f, ID);
}
