//! C16 is named when the kernel's packet-handling thread waits, and only then.

use recording::SourceName;

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Level, Number};
use recording::tables::Gap;
use synth::{Dial, Fixture, Listen, OnCpu, START_NS, cases, place};

const ID: &str = "softirq-starvation";

/// `ksoftirqd/1` wants CPU 1 for half of the time to handle what softirqs left, and a process has it.
fn starved() -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..50 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            ..Dial::default()
        });
    }
    f.thread(22, "ksoftirqd/1", [0.05, 0.5]);
    f.squeezed(1, 60_000);
    f.thread(812, "iperf3", [0.1, 0.02]);
    f.thread(900, "control", [0.8, 0.0]);
    hog(&mut f, 1);
    f
}

fn hog(f: &mut Fixture, cpu: u32) {
    let at = OnCpu {
        cpu,
        pid: 900,
        comm: "control",
        softirq: false,
        stack: &[],
    };
    f.on_cpu(at, 0, 8_000);
}

#[test]
fn the_thread_for_packets_waits() {
    let f = only(&starved(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.scope.resource.as_deref(), Some("CPU 1"));
    assert_eq!(f.scope.comm.as_deref(), Some("ksoftirqd/1"));
    // It waits half of the time.
    assert_eq!((f.impact.affected, f.impact.of), (50, 100));
    assert_eq!(number(&f, "waited_ms"), &Number::Real(5_000.0));
    assert_eq!(
        f.advice[0].change,
        Some(Change::RunWhenIdle { pids: vec![900] })
    );
    assert!(ruled_out(&f, "cpu-contention").contains("iperf3"));
}

/// A heartbeat, once a second, that came this much late on a CPU.
fn late(cpu: u32, second: u64, late_ms: u64) -> Gap {
    let (remote_addr, remote_port, family) = place("10.79.0.2:5405");
    Gap {
        time_ns: START_NS + second * 1_000_000_000,
        remote_addr,
        remote_port,
        family,
        cpu,
        sock: 9,
        every_ns: 1_000_000_000,
        gap_ns: 1_000_000_000 + late_ms * 1_000_000,
        ..Gap::default()
    }
}

#[test]
fn heartbeats_that_came_late_there_are_told() {
    let mut f = starved();
    f.gaps = vec![late(1, 5, 3_400), late(1, 9, 2_100), late(0, 9, 8_000)];
    let told = |f: &Fixture| {
        let steps = only(f, ID).evidence.into_iter().map(|step| step.says);
        steps
            .filter(|s| s.contains("heartbeat"))
            .collect::<Vec<_>>()
    };
    let says = "2 heartbeats from 10.79.0.2:5405 (every 1 s) arrived up to 3.4 s late on CPU 1.";
    assert_eq!(told(&f), [says]);
    f.gaps = vec![late(0, 9, 8_000)];
    assert_eq!(told(&f), Vec::<String>::new(), "the sender may have paused");
    f.gaps = vec![Gap {
        pending: true,
        ..late(1, 9, 8_000)
    }];
    assert_eq!(
        told(&f),
        Vec::<String>::new(),
        "it may never have been sent"
    );
}

/// On a host short of CPU the thread waits now and then, whatever else is wrong.
#[test]
fn what_hurts_more_comes_first() {
    let mut f = cases::accept_queue();
    f.thread(22, "ksoftirqd/1", [0.2, 0.12]);
    f.squeezed(1, 2_000);
    f.thread(900, "control", [0.8, 0.0]);
    hog(&mut f, 1);
    let causes: Vec<_> = found(&f).iter().map(|f| f.cause).collect();
    assert_eq!(causes, ["accept-queue-overflow", ID]);
}

#[test]
fn two_threads_behind_one_process_are_one_finding() {
    let mut f = starved();
    f.thread(30, "napi/eth0-1", [0.1, 0.7]);
    let at = OnCpu {
        cpu: 1,
        pid: 30,
        comm: "napi/eth0-1",
        softirq: true,
        stack: &["napi_threaded_poll"],
    };
    f.on_cpu(at, 0, 1_000);
    assert_eq!(only(&f, ID).scope.comm.as_deref(), Some("napi/eth0-1"));
}

/// As on a host whose cgroups have more weight than the kernel's threads: packets are handled where
/// they arrive meanwhile.
#[test]
fn it_may_wait_for_other_work_than_packets() {
    let mut f = starved();
    f.cpus.clear();
    assert_eq!(found(&f).len(), 0, "what softnet did is not known");
    f.squeezed(1, 0);
    f.squeezed(0, 2_000);
    assert_eq!(found(&f).len(), 0, "all packets were handled at once");
}

#[test]
fn an_application_that_waits_is_another_matter() {
    let mut f = starved();
    for row in f.threads.iter_mut().filter(|t| t.tid == 22) {
        row.comm = "batch".into();
    }
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn who_runs_on_another_cpu_keeps_nobody_waiting() {
    let mut f = starved();
    f.samples.clear();
    hog(&mut f, 0);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn who_waits_as_well_does_not_come_first() {
    let mut f = starved();
    f.threads.retain(|t| t.tid != 900);
    f.thread(900, "control", [0.6, 0.4]);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn short_waits_are_the_schedulers_work() {
    let mut f = starved();
    f.threads.retain(|t| t.tid != 22);
    f.thread(22, "ksoftirqd/1", [0.05, 0.2]);
    for row in &mut f.threads {
        row.voluntary = 5_000;
    }
    assert_eq!(found(&f).len(), 0);
    assert_eq!(found(&cases::churn()).len(), 0);
}

#[test]
fn losses_lower_the_confidence() {
    let mut f = starved();
    f.lose(SourceName::Threads, 7);
    assert_eq!(only(&f, ID).confidence.level, Level::Medium);
}
