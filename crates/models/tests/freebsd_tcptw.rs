//! The walk past the lists of a server's sockets: its recordings explained, and what they agree in.

use std::path::PathBuf;

use crate::common::content;
use explain::{Explanation, Level};
use recording::Recording;
use recording::tables::{Call, Sample, Thread};
use tempfile::TempDir;

const NAME: &str = "freebsd-tcptw";

fn record(preset: &str, set: &[&str], seed: u64) -> (TempDir, PathBuf) {
    crate::common::record(NAME, preset, set, seed)
}

fn explained(preset: &str, set: &[&str]) -> Explanation {
    crate::common::explained(NAME, preset, set)
}

fn seconds(ns: impl Iterator<Item = u64>) -> f64 {
    ns.sum::<u64>() as f64 / 1e9
}

#[test]
fn explain_names_the_walk_past_the_lists_of_servers() {
    let told = explained("in-pcb", &[]);
    assert_eq!(told.findings.len(), 1);
    let first = &told.findings[0];
    assert_eq!(first.cause, "port-search-cost");
    assert_eq!(
        first.confidence.level,
        Level::High,
        "{:?}",
        first.confidence
    );
    assert!(first.title.contains("TIME_WAITs"), "{}", first.title);
    assert_eq!(first.scope.function.as_deref(), Some("in_pcblookup_local"));
    // The connections that were recorded give the entries that were counted.
    assert_eq!(first.arithmetic.len(), 3);
    assert!(
        first
            .arithmetic
            .iter()
            .all(|c| c.agrees && c.expected > 1.0)
    );
    let law = &first.arithmetic[0];
    assert!((law.measured / law.expected - 1.0).abs() < 0.05, "{law:?}");
    let says = |what: &str| first.evidence.iter().any(|s| s.says.contains(what));
    assert!(says("3 other calls waited with it"));
    assert!(says("3 waits of proxy ended when that search was over"));
    assert!(says("listen on 60000 to 60004"));
    assert!(says("it found 60005, the next one"));
    assert!(says("no connection was accepted"));
    assert!(first.fix.contains("leaves TIME_WAITs to their timer"));
}

#[test]
fn what_mended_the_walk_leaves_no_finding() {
    // From just before the services on.
    for (preset, set) in [
        ("backed-out", ""),
        ("ports-apart", ""),
        ("no-restart", ""),
        ("in-pcb", "net.inet.ip.portrange.last=59999"),
    ] {
        let mut all = vec!["duration=12", "next_port=59400"];
        all.extend(Some(set).filter(|set| !set.is_empty()));
        let told = explained(preset, &all);
        let found: Vec<_> = told.findings.iter().map(|f| &f.title).collect();
        assert!(found.is_empty(), "{preset} {set}: {found:?}");
    }
    // Without the fix that is enough.
    let told = explained("in-pcb", &["duration=12", "next_port=59400"]);
    assert_eq!(told.findings.len(), 1);
}

#[test]
fn calls_threads_and_samples_tell_the_same_search() {
    let set = ["duration=30", "next_port=59000", "load=0.5"];
    let (_keep, dir) = record("in-pcb", &set, 3);
    let recording = Recording::open(&dir).unwrap();
    let calls: Vec<Call> = crate::common::rows(&recording);
    let searched = seconds(calls.iter().filter_map(|c| c.port_search_ns));
    let threads: Vec<Thread> = crate::common::rows(&recording);
    let on_cpu = seconds(threads.iter().map(|t| t.system_ns));
    let samples = crate::common::rows::<Sample>(&recording).len() as f64 / 997.0;
    assert!(searched > 0.5, "{searched}");
    for other in [on_cpu, samples] {
        assert!((other / searched - 1.0).abs() < 0.01, "{searched} {other}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let set = ["duration=12", "lead_in=70", "load=0.2"];
    let (_a, a) = record("in-pcb", &set, 5);
    let (_b, b) = record("in-pcb", &set, 5);
    let (_c, c) = record("in-pcb", &set, 6);
    assert!(content(&a) == content(&b));
    assert!(content(&a) != content(&c));
}
