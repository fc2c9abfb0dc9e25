//! A computed recording of illumos-dce reads like a live one: explain names the cause, and nothing
//! where it is mended.

use crate::common::{content, explained, record, rows};
use explain::Level;
use models::find;
use recording::Recording;
use recording::tables::{Counter, Cpu, Resource, Sample, Stack, TableSize};

const NAME: &str = "illumos-dce";

#[test]
fn explain_names_the_table_that_grew() {
    let told = explained(NAME, "dce-flame-graph", &["duration=10"]);
    assert_eq!(told.findings.len(), 1);
    let first = &told.findings[0];
    assert_eq!(first.cause, "lookup-table-growth");
    assert_eq!(
        first.confidence.level,
        Level::High,
        "{:?}",
        first.confidence
    );
    assert_eq!(first.scope.resource.as_deref(), Some("dce"));
    assert_eq!(
        first.scope.function.as_deref(),
        Some("dce_lookup_and_add_v4")
    );
    assert!(first.title.contains("in 256 buckets"), "{}", first.title);
    assert!(first.arithmetic.len() == 2 && first.arithmetic.iter().all(|c| c.agrees));
    let says = |what: &str| first.evidence.iter().any(|s| s.says.contains(what));
    assert!(says("CPU 23 was in the kernel"));
    assert!(says("97,5"), "entries in a chain");
    assert!(says(
        "has been up for 14.3 days: it holds everything ever added"
    ));
    assert!(says("30") && says("ns per entry passed"));
    assert!(
        first.fix.contains("_dce_reclaim_threshold=32"),
        "{}",
        first.fix
    );
    assert!(first.advice[0].expected.contains("of a CPU is free again"));
}

#[test]
fn each_fix_leaves_no_finding_and_a_short_work_around_does() {
    for preset in [
        "after-boot",
        "more-buckets",
        "reclaim-threshold",
        "reclaim-worker",
        "memory-pressure-3-minutes",
    ] {
        // The table of a kernel that reclaims is what it is after minutes.
        let set = if preset.starts_with("reclaim") {
            &["duration=10", "uptime=1"][..]
        } else {
            &["duration=10"]
        };
        let told = explained(NAME, preset, set);
        let found: Vec<_> = told.findings.iter().map(|f| &f.title).collect();
        assert!(found.is_empty(), "{preset}: {found:?}");
    }
    for set in ["lotsfree_raised=2", "ip_dce_hash_size=1024"] {
        let told = explained(NAME, "dce-flame-graph", &["duration=10", set]);
        let found: Vec<_> = told.findings.iter().map(|f| f.cause).collect();
        assert_eq!(found, ["lookup-table-growth"], "{set}");
    }
}

#[test]
fn a_table_that_was_reclaimed_does_not_hold_what_ever_came() {
    let told = explained(NAME, "memory-pressure", &["duration=10"]);
    let mut steps = told.findings[0].evidence.iter();
    assert!(!steps.any(|s| s.says.contains("everything ever added")));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    // Longer than a segment.
    let set = ["duration=12", "uptime=2"];
    let (_a, a) = record(NAME, "dce-flame-graph", &set, 5);
    let (_b, b) = record(NAME, "dce-flame-graph", &set, 5);
    let (_c, c) = record(NAME, "dce-flame-graph", &set, 6);
    let (a, b, c) = (content(&a), content(&b), content(&c));
    assert!(a.len() > 10, "{} files", a.len());
    assert!(a == b);
    assert!(a != c);
}

#[test]
fn the_recording_says_what_the_run_came_to() {
    let model = find(NAME).unwrap();
    let parameters = model.parameters().unwrap();
    let mut values = parameters.defaults();
    parameters.set(&mut values, "duration=10").unwrap();
    let report = model.run(&values, 1).unwrap();
    let figure = |name: &str| {
        let found = report.figures.iter().find(|f| f.name == name);
        found.unwrap_or_else(|| panic!("{name}")).value
    };
    let (_keep, dir) = record(NAME, "dce-flame-graph", &["duration=10"], 1);
    let recording = Recording::open(&dir).unwrap();
    // The recording's clock begins with the host.
    let days = recording.manifest.start_ns as f64 / 86_400e9;
    assert!((days - 14.32).abs() < 0.01, "{days}");

    let sizes: Vec<TableSize> = rows(&recording);
    assert_eq!(sizes.len(), 11);
    assert_eq!(sizes[10].entries as f64, figure("entries"));

    let counters: Vec<Counter> = rows(&recording);
    let opened: i64 = counters.iter().filter_map(|c| c.delta).sum();
    assert_eq!(opened as f64, (figure("lookups") * 10.0).round());

    let cpus: Vec<Cpu> = rows(&recording);
    let of_23: Vec<&Cpu> = cpus.iter().filter(|c| c.cpu == 23).collect();
    let idle = of_23[10].idle_ms - of_23[0].idle_ms;
    let busy = 100.0 - idle as f64 / 100.0;
    assert!(
        (busy - figure("interrupts' CPU busy")).abs() < 0.1,
        "{busy}"
    );
    // Every millisecond since boot is somewhere.
    for cpu in &cpus {
        let all = cpu.user_ms + cpu.system_ms + cpu.irq_ms + cpu.idle_ms;
        let since_boot = (cpu.time_ns - 1_000_000_000_000) / 1_000_000;
        assert!(all.abs_diff(since_boot) <= 3, "{all} {since_boot}");
    }

    let resources: Vec<Resource> = rows(&recording);
    let load = resources.iter().rfind(|r| &*r.metric == "load15").unwrap();
    assert!((load.value - figure("load average, 15 minutes")).abs() < 0.006);
}

#[test]
fn the_profile_shows_the_lookups_and_has_every_tick() {
    let (_keep, dir) = record(NAME, "dce-flame-graph", &["duration=10"], 1);
    let recording = Recording::open(&dir).unwrap();
    let samples: Vec<Sample> = rows(&recording);
    assert_eq!(samples.len(), 24 * 97 * 10);
    assert!(samples.windows(2).all(|p| p[0].time_ns <= p[1].time_ns));
    let stacks: Vec<Stack> = rows(&recording);
    let known = |id: u64| stacks.iter().any(|s| s.stack == id);
    assert!(samples.iter().filter_map(|s| s.kernel_stack).all(known));
    // In 23, the article's share; 2.3 CPUs in all.
    let walks = |s: &&Sample| matches!(s.kernel_stack, Some(1..=3));
    let all = samples.iter().filter(walks).count() as f64 / 970.0;
    let here = samples.iter().filter(walks).filter(|s| s.cpu == 23).count() as f64 / 970.0;
    assert!((all - 2.28).abs() < 0.15, "{all}");
    assert!((here - 0.66).abs() < 0.08, "{here}");
}
