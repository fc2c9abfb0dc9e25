//! C44 is named when one CPU handles the packets of a device without rest while the others have some.

use crate::causes::testing::{found, only};
use crate::{Change, Level, explain};
use recording::tables::Cpu;
use synth::{Fixture, HOST, START_NS, cases};

const ID: &str = "interrupt-imbalance";

/// Two CPUs for ten seconds: softirq and idle ms, packets, times squeezed; and interrupts of eth0.
fn host(cpus: [[u64; 4]; 2], interrupts: [u64; 2]) -> Fixture {
    let mut f = cases::bulk();
    for (number, [softirq, idle, packets, squeezed]) in (0..).zip(cpus) {
        f.cpus.extend([0, 1].map(|times| Cpu {
            time_ns: START_NS + times * 10_000_000_000,
            cpu: number,
            softirq_ms: softirq * times,
            idle_ms: idle * times,
            user_ms: (10_000 - softirq - idle) * times,
            softnet_processed: Some(packets * times),
            softnet_squeezed: Some(squeezed * times),
            softnet_dropped: Some(0),
            ..Cpu::default()
        }));
        f.interrupted(
            number,
            "virtio0-input.0 (eth0)",
            [100, 100 + interrupts[number as usize]],
        );
    }
    f.set(HOST, "eth0.virtio0-input.0.smp_affinity_list", "1");
    // The profile saw no look-up that walks.
    f.on_cpu(
        synth::OnCpu {
            cpu: 1,
            pid: 0,
            comm: "swapper/1",
            softirq: true,
            stack: &["net_rx_action"],
        },
        0,
        100,
    );
    f
}

const FULL: [u64; 4] = [8_500, 300, 900_000, 4_000];
const RESTS: [u64; 4] = [100, 8_000, 20_000, 0];

#[test]
fn one_cpu_takes_all() {
    let f = only(&host([RESTS, FULL], [5, 4_000]), ID);
    assert_eq!(f.scope.resource.as_deref(), Some("CPU 1"));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(
        f.title.contains("98 % of the packets (eth0)"),
        "{}",
        f.title
    );
    let queues = Change::InterfaceQueues {
        netns: HOST,
        device: "eth0".into(),
    };
    assert_eq!(f.advice[0].change, Some(queues));
    assert!(f.arithmetic[0].agrees);
}

#[test]
fn one_that_keeps_up_is_a_note() {
    let [softirq, idle, packets, _] = FULL;
    let f = host([RESTS, [softirq, idle, packets, 0]], [5, 4_000]);
    assert!(found(&f).is_empty());
    let notes = explain(&f.write().unwrap()).unwrap().notes;
    assert!(notes.iter().any(|n| n.cause == ID));
}

#[test]
fn look_alikes_are_not_it() {
    let none = |f: Fixture| {
        let told = explain(&f.write().unwrap()).unwrap();
        assert!(told.findings.iter().all(|f| f.cause != ID));
        assert!(told.notes.iter().all(|n| n.cause != ID));
    };
    // Both are at their limit; the packets are spread; it rests.
    none(host([[8_000, 500, 20_000, 0], FULL], [5, 4_000]));
    none(host([[100, 8_000, 500_000, 0], FULL], [5, 4_000]));
    none(host([RESTS, [8_500, 1_100, 900_000, 10]], [5, 4_000]));
    // A program uses it, not packets.
    none(host([RESTS, [4_000, 300, 900_000, 10]], [5, 4_000]));
    // Few packets; interrupts elsewhere, or none: packets between namespaces.
    none(host(
        [[100, 8_000, 100, 0], [8_500, 300, 9_000, 10]],
        [5, 4_000],
    ));
    none(host([RESTS, FULL], [2_000, 2_000]));
    none(host([RESTS, FULL], [0, 0]));
}
