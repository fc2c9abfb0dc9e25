//! C52 is named when a service waits for itself, or for the hypervisor; not when others could yield.

use crate::causes::testing::{found, only, ruled_out};
use crate::{Advice, Change, Level};
use synth::{Dial, Fixture, Listen, OnCpu};

const ID: &str = "cpu-saturated";

/// Three workers with 40 connections, each of them running for a third of the time and waiting for the rest; the
/// profile of their CPU, with this many ms used by others.
fn workers(others: u64) -> Fixture {
    let mut f = Fixture::new();
    let held_by = vec![(812, 1, "a", "R"), (813, 1, "b", "R"), (814, 1, "c", "R")];
    f.listen(Listen {
        held_by,
        ..Listen::default()
    });
    for i in 0..40 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            ..Dial::default()
        });
    }
    for (nth, (pid, comm)) in [(812, "a"), (813, "b"), (814, "c")].into_iter().enumerate() {
        f.thread(pid, comm, [0.3, 0.6]);
        on_cpu(&mut f, pid, comm, nth as u64 * 3_000, 3_000);
    }
    on_cpu(&mut f, 900, "batch", 0, others);
    f
}

fn on_cpu(f: &mut Fixture, pid: u32, comm: &str, from_ms: u64, count: u64) {
    let at = OnCpu {
        cpu: 1,
        pid,
        comm,
        softirq: false,
        stack: &[],
    };
    f.on_cpu(at, from_ms, count);
}

#[test]
fn a_service_waits_for_itself() {
    let f = only(&workers(0), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(
        f.title.contains("wants 2.7 CPUs and has 0.9"),
        "{}",
        f.title
    );
    assert_eq!(f.scope.pids, [812, 813, 814]);
    assert_eq!(f.scope.resource.as_deref(), Some("CPU 1"));
    let idle = |a: &Advice| matches!(a.change, Some(Change::RunWhenIdle { .. }));
    assert!(!f.advice.iter().any(idle), "{:?}", f.advice);
    assert!(ruled_out(&f, "cpu-contention").contains("its own service for"));
}

#[test]
fn behind_others_it_is_contention() {
    let told = found(&workers(9_000));
    assert!(told.iter().all(|f| f.cause == "cpu-contention"), "{told:?}");
    assert!(ruled_out(&told[0], ID).contains("its own service used"));
}

#[test]
fn a_thread_that_runs_when_it_wants_to_is_well() {
    let mut f = workers(0);
    f.threads.clear();
    f.thread(812, "a", [0.9, 0.1]);
    assert!(found(&f).is_empty());
}

#[test]
fn the_hypervisor_takes_them() {
    let stolen = |steal_ms| {
        let mut f = workers(0);
        f.threads.clear();
        f.samples.clear();
        f.cpu_times(0, [5_000, steal_ms, 5_000 - steal_ms]);
        f.cpu_times(1, [5_000, steal_ms, 5_000 - steal_ms]);
        f
    };
    let f = only(&stolen(2_500), ID);
    assert!(f.title.contains("takes 25 % of the time"), "{}", f.title);
    assert_eq!(
        f.confidence.level,
        Level::Medium,
        "nothing else measures it"
    );
    assert!(found(&stolen(500)).is_empty());
}
