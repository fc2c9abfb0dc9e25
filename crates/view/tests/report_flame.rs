//! The flame graphs of the report.

use recording::Waker;
use recording::tables::*;

use crate::common::*;

fn profile(functions: &[(&str, u64)]) -> Rec {
    let frames = functions.iter().enumerate().map(|(i, (name, _))| Frame {
        time_ns: START,
        frame: i as u64,
        function: (*name).into(),
        module: "kernel".into(),
        offset: 0,
    });
    let stacks = (0..functions.len() as u64).map(|i| Stack {
        time_ns: START,
        stack: i,
        depth: 0,
        frame: i,
    });
    let samples = functions.iter().enumerate().flat_map(|(i, (_, n))| {
        let sample = Sample {
            time_ns: START + MS,
            cpu: 3,
            pid: 7,
            tid: 7,
            comm: "app".into(),
            softirq: false,
            kernel_stack: Some(i as u64),
            user_stack: None,
        };
        std::iter::repeat_n(sample, *n as usize)
    });
    Rec::new()
        .rows(frames.collect::<Vec<_>>())
        .rows(stacks.collect::<Vec<_>>())
        .rows(samples.collect::<Vec<_>>())
}

#[test]
fn flame_trees_fold_what_is_small_and_tell_what_grew() {
    let before = profile(&[("tcp_ack", 5_000), ("gone", 5_000)]);
    let after = profile(&[
        ("tcp_ack", 9_990),
        ("rare_a", 3),
        ("rare_b", 3),
        ("some", 4),
    ]);
    let report = report(vec![("before", before.open()), ("after", after.open())]);
    let ids: Vec<_> = report.page.runs[1].flames.iter().map(|f| &*f.id).collect();
    assert_eq!(ids, ["cpu", "cpu-3"]);
    let flame = &report.page.runs[1].flames[0];
    let app = &flame.root.children[0];
    let told: Vec<_> = app.children.iter().map(|n| (&*n.name, n.value)).collect();
    assert_eq!(told, [("tcp_ack_[k]", 9_990.0), ("…", 10.0)]);
    let differences = &report.page.comparison.as_ref().unwrap().flames;
    let app = &differences[0].root.children[0];
    assert_eq!(app.delta, Some(0.0));
    assert_eq!(app.children[0].delta, Some(0.499));
    assert!(app.children.iter().all(|n| n.value > 0.0));
}

#[test]
fn waits_make_an_off_cpu_graph() {
    let wait = |waker: Waker, ms: u64| Wait {
        time_ns: START + S,
        pid: 7,
        tid: 7,
        comm: "app".into(),
        state: "S".into(),
        syscall: Some("recvfrom".into()),
        waited_ns: ms * MS,
        waker,
        waker_comm: "evil;name".into(),
        ..Wait::default()
    };
    let rec = Rec::new().rows([
        wait(Waker::Task, 30),
        wait(Waker::Softirq, 10),
        wait(Waker::Task, 5),
    ]);
    let profile = view::flame::off_cpu(&rec.open(), &Default::default()).unwrap();
    let stacks: Vec<(&str, u64)> = profile.stacks.iter().map(|(s, n)| (&**s, *n)).collect();
    assert_eq!(
        stacks,
        [
            ("app;recvfrom;woken by a softirq", 10_000),
            ("app;recvfrom;woken by evil:name", 35_000),
        ]
    );
    let run = run_of(rec.open());
    assert_eq!(
        (&*run.flames[0].id, run.flames[0].root.value),
        ("off-cpu", 45.0)
    );
}
