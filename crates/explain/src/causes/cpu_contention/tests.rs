//! C35 is named when a thread that owns connections waits for a CPU, and only then.

use recording::SourceName;
use recording::tables::Process;

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Advice, Change, Finding, Holds, Level, Number, explain};
use synth::{CLIENT, Dial, Fixture, Listen, OnCpu, START_NS, Task, cases};

const ID: &str = "cpu-contention";

/// The server runs for a tenth of the time and waits for most of it; 40 connections.
fn waiting(share: f64) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..40 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            ..Dial::default()
        });
    }
    f.thread(812, "iperf3", [0.1, share]);
    on_cpu(&mut f, 812, "iperf3", 0, 1_000);
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

fn behind_others() -> Fixture {
    let mut f = waiting(0.7);
    on_cpu(&mut f, 900, "batch", 0, 9_000);
    f
}

#[test]
fn behind_others_on_its_cpu() {
    let f = only(&behind_others(), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.scope.resource.as_deref(), Some("CPU 1"));
    assert_eq!(
        (f.scope.pid, f.scope.comm.as_deref()),
        (Some(812), Some("iperf3"))
    );
    assert_eq!((f.impact.affected, f.impact.of), (40, 40));
    assert_eq!(number(&f, "mean_wait_ms"), &Number::Real(3.5));
    assert_eq!(
        f.advice[0].change,
        Some(Change::RunWhenIdle { pids: vec![900] })
    );
    assert!(ruled_out(&f, "softirq-starvation").contains("iperf3"));
}

#[test]
fn a_reader_that_it_keeps_off_the_cpu_is_no_finding_of_its_own() {
    let mut f = cases::slow_reader();
    only(&f, "slow-reader");
    f.thread(812, "iperf3", [0.1, 0.7]);
    on_cpu(&mut f, 812, "iperf3", 0, 1_000);
    on_cpu(&mut f, 900, "batch", 0, 9_000);
    only(&f, ID);
}

/// The only finding, though its advice has no change that a program could apply.
fn needs_more_cpu(f: &Fixture) -> Finding {
    let mut found = explain(&f.write().unwrap()).unwrap().findings;
    assert_eq!(found.len(), 1);
    let f = found.remove(0);
    assert_eq!(f.cause, ID);
    let idle = |a: &Advice| matches!(a.change, Some(Change::RunWhenIdle { .. }));
    assert!(!f.advice.iter().any(idle), "{:?}", f.advice);
    assert!(f.advice[0].action.starts_with("Give iperf3 more CPU"));
    f
}

#[test]
fn its_own_workers_do_not_stand_back() {
    let mut f = waiting(0.7);
    on_cpu(&mut f, 813, "iperf3", 0, 8_000);
    on_cpu(&mut f, 900, "batch", 8_000, 1_000);
    let f = only(&f, "cpu-saturated");
    assert!(ruled_out(&f, ID).contains("its own service for"));
}

#[test]
fn threads_of_the_kernel_do_not_stand_back() {
    let mut f = waiting(0.7);
    let at = OnCpu {
        cpu: 1,
        pid: 14,
        comm: "ksoftirqd/1",
        softirq: true,
        stack: &["net_rx_action", "run_ksoftirqd"],
    };
    f.on_cpu(at, 0, 8_000);
    assert!(needs_more_cpu(&f).fix.contains("CPU 1"));
}

#[test]
fn who_serves_others_does_not_stand_back() {
    let mut f = waiting(0.7);
    f.listen(Listen {
        at: "10.79.0.1:6379",
        held_by: vec![(900, 1, "redis-server", "R")],
        ..Listen::default()
    });
    on_cpu(&mut f, 900, "redis-server", 0, 9_000);
    let f = needs_more_cpu(&f);
    assert!(f.title.contains("behind redis-server"), "{}", f.title);
}

#[test]
fn workers_of_one_program_meet_one_bottleneck() {
    let mut f = waiting(0.7);
    f.listen(Listen {
        held_by: vec![(812, 1, "iperf3", "R"), (813, 1, "iperf3", "R")],
        ..Listen::default()
    });
    f.thread(813, "iperf3", [0.1, 0.6]);
    on_cpu(&mut f, 813, "iperf3", 0, 1_000);
    on_cpu(&mut f, 900, "batch", 0, 8_000);
    let f = only(&f, ID);
    assert_eq!(
        (f.scope.pid, &f.scope.pids[..]),
        (Some(812), &[812, 813][..])
    );
    assert!(
        f.title
            .starts_with("iperf3 (pid 812 and 1 more) waits 70 %"),
        "{}",
        f.title
    );
    assert_eq!((f.impact.affected, f.impact.of), (40, 40));
}

/// A cgroup that was kept off the CPU for 6.5 of 10 s.
fn throttled(f: &mut Fixture) {
    f.resource("cgroup", "/shop", "throttled_ms", [100.0, 6_600.0]);
    f.resource("cgroup", "/shop", "cpu_ms", [0.0, 1_000.0]);
    for line in f.resources.iter_mut().filter(|r| &*r.metric == "cpu_ms") {
        line.limit = Some(100.0);
    }
}

#[test]
fn its_quota_is_spent() {
    let mut f = waiting(0.7);
    throttled(&mut f);
    let guess = only(&f, ID);
    assert_eq!(guess.scope.resource.as_deref(), Some("cgroup /shop"));
    assert_eq!(guess.confidence.level, Level::Medium);
    for row in &mut f.processes {
        row.cgroup_path = "/shop/web".into();
    }
    let f = only(&f, ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(number(&f, "quota_cpus"), &Number::Real(0.1));
    assert!(matches!(
        &f.advice[0].change,
        Some(Change::CpuQuota { cgroup, cpus }) if cgroup == "/shop" && *cpus == 0.5
    ));
}

#[test]
fn a_quota_keeps_off_all_threads_of_a_process() {
    let mut f = waiting(0.4);
    f.resource("cgroup", "/shop", "throttled_ms", [100.0, 9_100.0]);
    // One thread waited 4 s of 9.
    assert_eq!(found(&f).len(), 0);
    let alone = f.threads.clone();
    for more in 1..3 {
        let others = alone.iter().cloned().map(|mut row| {
            row.tid += more;
            row
        });
        f.threads.extend(others);
    }
    let f = only(&f, ID);
    assert!(f.title.contains("has hit its CPU quota"), "{}", f.title);
    assert!(f.arithmetic[0].formula.ends_with("its threads waited"));
    assert_eq!(f.arithmetic[0].measured, 12.0);
}

#[test]
fn a_quota_that_is_spent_in_one_period_of_a_dozen() {
    let mut f = waiting(0.07);
    f.resource("cgroup", "/shop", "throttled_ms", [100.0, 700.0]);
    f.resource("cgroup", "/shop", "throttled_periods", [1.0, 9.0]);
    // No guess is possible: any cgroup of the host may have been throttled for that long.
    assert_eq!(found(&f).len(), 0);
    for row in &mut f.processes {
        row.cgroup_path = "/shop".into();
    }
    let f = only(&f, ID);
    assert_eq!(number(&f, "each_ms"), &Number::Real(75.0));
    assert!(f.title.contains("has hit its CPU quota"), "{}", f.title);
    assert!(f.verify.contains("nr_throttled"), "{}", f.verify);
}

#[test]
fn an_agent_that_nobody_connects_to_and_whose_connections_rest_is_a_note() {
    let mut f = Fixture::new();
    f.dial(Dial {
        client: Some(CLIENT),
        server: None,
        ..Dial::default()
    });
    f.thread(77, "wrk", [0.02, 0.09]);
    f.resource("cgroup", "/agent", "throttled_ms", [100.0, 1_000.0]);
    f.resource("cgroup", "/agent", "throttled_periods", [1.0, 12.0]);
    f.processes.push(Process {
        cgroup_path: "/agent".into(),
        ..Task::new(77, "wrk").process(START_NS, 1, "S")
    });
    assert!(found(&f).is_empty());
    let notes = explain(&f.write().expect("writes"));
    let notes = notes.expect("reads").notes;
    assert!(notes.iter().any(|n| n.cause == ID), "{notes:#?}");
}

#[test]
fn the_quota_of_others_is_none_of_its_matter() {
    let mut f = waiting(0.7);
    f.resource("cgroup", "/shop", "throttled_ms", [0.0, 900.0]);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn nobody_is_blamed_who_was_not_seen() {
    // A recording filtered by namespace does not see the others; a CPU busy at other times explains nothing.
    assert_eq!(found(&waiting(0.7)).len(), 0);
    let mut f = waiting(0.7);
    on_cpu(&mut f, 900, "batch", 0, 2_000);
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn a_busy_cpu_on_which_it_does_not_wait_is_well() {
    let mut f = waiting(0.05);
    on_cpu(&mut f, 900, "batch", 0, 9_000);
    assert_eq!(found(&f).len(), 0);
    let mut f = behind_others();
    for row in &mut f.threads {
        row.voluntary = 5_000;
    }
    assert_eq!(found(&f).len(), 0, "many short waits");
}

#[test]
fn a_thread_without_connections_may_wait() {
    let mut f = behind_others();
    for row in &mut f.threads {
        (row.pid, row.tid) = (5, 5);
    }
    assert_eq!(found(&f).len(), 0);
}

#[test]
fn the_kernels_thread_is_not_its_matter() {
    let mut f = behind_others();
    f.thread(22, "ksoftirqd/1", [0.02, 0.01]);
    let f = only(&f, ID);
    assert!(ruled_out(&f, "softirq-starvation").contains("100 ms"));
}

#[test]
fn what_is_there_and_was_not_recorded_is_not_called_tested() {
    let mut f = behind_others();
    f.threads.clear();
    f.samples.clear();
    let parts = ["threads", "waits", "profile"];
    let left_out = |s: &SourceName| s.part().is_some_and(|part| parts.contains(&part));
    f.manifest.sources.retain(|s| !left_out(&s.name));
    let explained = explain(&f.write().unwrap()).unwrap();
    assert!(explained.findings.is_empty());
    let mut answers = explained.summary.causes.into_iter();
    let answer = answers.find(|a| a.cause == ID).expect("each answers");
    assert_eq!(answer.answer, Holds::CannotTell);
    assert_eq!(answer.record, ["threads"]);
}

#[test]
fn losses_lower_the_confidence() {
    let mut f = behind_others();
    f.lose(SourceName::Profile, 7);
    assert_eq!(only(&f, ID).confidence.level, Level::Medium);
    f.threads.clear();
    assert_eq!(found(&f).len(), 0);
    assert_eq!(found(&cases::churn()).len(), 0);
}

/// Their threads sleep for most of the time in which data lies unread.
#[test]
fn no_connection_waits_for_a_cpu_for_longer_than_its_threads() {
    let mut f = cases::slow_reader();
    f.thread(812, "iperf3", [0.01, 0.1]);
    f.seen_from(synth::SERVER);
    let story = analysis::Story::read(&f.write().unwrap().recording).unwrap();
    let thread = story.threads.all().find(|t| t.pid == 812).unwrap();
    let lost = crate::places::runqueue::lost(&story, story.conns.iter(), &[thread]);
    let mut of_ends = std::collections::BTreeMap::new();
    for (end, _, ns) in lost.cells() {
        *of_ends.entry(end).or_insert(0) += ns;
    }
    assert_eq!(of_ends.len(), 2);
    let near = |ns: &u64| ns.abs_diff(thread.waited_ns()) < 1_000;
    assert!(of_ends.values().all(near), "{of_ends:?}");
}
