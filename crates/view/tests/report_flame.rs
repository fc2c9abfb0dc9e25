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

/// One stack of so many frames, leaf first.
fn deep(functions: &[&str], samples: u64) -> Rec {
    let frames = functions.iter().enumerate().map(|(i, name)| Frame {
        time_ns: START,
        frame: i as u64,
        function: (*name).into(),
        module: "/usr/lib/app.so".into(),
        offset: 0,
    });
    let stack = (0..functions.len() as u64).map(|i| Stack {
        time_ns: START,
        stack: 1,
        depth: i as u32,
        frame: i,
    });
    let sample = Sample {
        time_ns: START + MS,
        cpu: 3,
        pid: 7,
        tid: 7,
        comm: "app".into(),
        softirq: false,
        kernel_stack: None,
        user_stack: Some(1),
    };
    Rec::new()
        .rows(frames.collect::<Vec<_>>())
        .rows(stack.collect::<Vec<_>>())
        .rows(std::iter::repeat_n(sample, samples as usize).collect::<Vec<_>>())
}

#[test]
fn runs_of_frames_without_a_name_are_one_and_few_samples_are_said_to_be_few() {
    let of = |samples| {
        let rec = deep(&["read", "0x1", "0x2", "0x3", "main"], samples);
        report(vec![("r", rec.open())]).page.runs[0].flames[0].clone()
    };
    let flame = of(20);
    let mut names = Vec::new();
    let mut at = Some(&flame.root);
    while let Some(node) = at {
        names.push(&*node.name);
        at = node.children.first();
    }
    assert_eq!(names, ["all", "app", "main", "[app.so]", "read"]);
    assert!(
        flame.note.starts_with("20 samples: too few"),
        "{}",
        flame.note
    );
    let many = of(500).note;
    assert!(many.starts_with("500 samples;"), "{many}");
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
