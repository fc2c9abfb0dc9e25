//! A computed recording reads like a live one: explain names the cause, and nothing where it is mended.

use std::fs;
use std::path::{Path, PathBuf};

use explain::{Explanation, Level, explain};
use models::{Error, find};
use recording::Recording;
use recording::tables::{Call, Sample, Thread};
use tempfile::TempDir;

const NAME: &str = "illumos-time-wait";
const FREEBSD: &str = "freebsd-tcptw";

/// Computes a recording.
fn record(preset: &str, set: &[&str], seed: u64) -> (TempDir, PathBuf) {
    record_of(NAME, preset, set, seed)
}

fn record_of(name: &str, preset: &str, set: &[&str], seed: u64) -> (TempDir, PathBuf) {
    let model = find(name).unwrap();
    let parameters = model.parameters().unwrap();
    let mut values = parameters.preset(preset).unwrap();
    for one in set {
        parameters.set(&mut values, one).unwrap();
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("a.tcpwhy");
    model.record(&values, seed, &dir).unwrap();
    (temporary, dir)
}

fn explained(preset: &str, set: &[&str]) -> Explanation {
    explained_of(NAME, preset, set)
}

fn explained_of(name: &str, preset: &str, set: &[&str]) -> Explanation {
    let (_keep, dir) = record_of(name, preset, set, 1);
    explain(&Recording::open(&dir).unwrap()).unwrap()
}

/// Every file below `dir` with its content, in order.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true => all.extend(
                content(&path)
                    .into_iter()
                    .map(|(n, c)| (format!("{name}/{n}"), c)),
            ),
            false => all.push((name, fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

#[test]
fn explain_names_the_cause_with_the_chain_and_the_ceiling() {
    let told = explained("clumsy-kernel", &[]);
    let first = &told.findings[0];
    assert_eq!(first.cause, "time-wait-collision");
    assert_eq!(told.findings.len(), 1);
    assert_eq!(
        first.confidence.level,
        Level::High,
        "{:?}",
        first.confidence
    );
    // From what the server can answer, after two seconds.
    let fell = "the rate fell from 5,790 to";
    assert!(first.title.contains(fell), "{}", first.title);
    let ceiling = first
        .arithmetic
        .iter()
        .find(|c| c.formula.starts_with("ceiling: 100 clients"));
    let ceiling = ceiling.expect("the ceiling is computed");
    assert!(ceiling.agrees && ceiling.expected == 88.89, "{ceiling:?}");
    let sequence = first
        .arithmetic
        .iter()
        .find(|c| c.formula.contains("tcp_iss_incr"));
    assert!(
        sequence.is_some_and(|c| c.agrees && c.measured > 1_000.0),
        "{sequence:?}"
    );
    let says = |what: &str| first.evidence.iter().any(|s| s.says.contains(what));
    assert!(says("(when SYN 2 was sent)"));
    assert!(says("woken by retransmission 1 (SYN_SENT)"));
    assert!(says("17,179 go half around"));
    assert!(
        first
            .advice
            .iter()
            .any(|a| a.action.contains("tcp_time_wait_interval=5000"))
    );
}

#[test]
fn what_mended_the_cases_leaves_no_finding() {
    for set in [
        &["loopback_fix=1"][..],
        &["requests_per_connection=100"],
        &["client_addresses=100", "separate_hosts=1"],
    ] {
        let set = [set, &["duration=10"]].concat();
        let told = explained("clumsy-kernel", &set);
        let found: Vec<_> = told.findings.iter().map(|f| &f.title).collect();
        assert!(found.is_empty(), "{set:?}: {found:?}");
    }
}

#[test]
fn the_balancer_is_explained_and_its_tuning_mends_it() {
    let told = explained("unicorn", &["duration=240"]);
    assert_eq!(told.findings.len(), 1);
    let first = &told.findings[0];
    assert_eq!(first.cause, "time-wait-collision");
    assert!(first.fix.contains("tcp_iss_incr=25000"), "{}", first.fix);
    let tuned = explained("unicorn-tuned", &["duration=240"]);
    assert!(tuned.findings.is_empty(), "{}", tuned.findings[0].title);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    // Longer than a segment.
    let set = ["duration=23", "clients=50"];
    let (_a, a) = record("clumsy-kernel", &set, 5);
    let (_b, b) = record("clumsy-kernel", &set, 5);
    let (_c, c) = record("clumsy-kernel", &set, 6);
    let (a, b, c) = (content(&a), content(&b), content(&c));
    assert!(a.len() > 20, "{} files", a.len());
    assert!(a == b);
    assert!(a != c);
}

#[test]
fn the_manifest_says_that_it_is_computed_and_from_what() {
    let (_keep, dir) = record("clumsy-kernel", &["duration=2", "clients=7"], 9);
    let manifest = Recording::open(&dir).unwrap().manifest;
    assert_eq!(manifest.producer, "model illumos-time-wait");
    assert!(manifest.complete);
    assert_eq!(manifest.length().as_secs(), 2);
    let parameter = |name: &str| manifest.parameters.get(name).map(String::as_str);
    assert_eq!(parameter("clients"), Some("7"));
    assert_eq!(parameter("seed"), Some("9"));
    assert_eq!(parameter("tcp_iss_incr"), Some("250000"));
}

#[test]
fn connections_and_counters_of_the_recording_are_those_of_the_run() {
    let model = find(NAME).unwrap();
    let parameters = model.parameters().unwrap();
    let mut values = parameters.defaults();
    parameters.set(&mut values, "duration=12").unwrap();
    let report = model.run(&values, 1).unwrap();
    let column = |name: &str| {
        let nth = report
            .series
            .columns
            .iter()
            .position(|c| *c == name)
            .unwrap();
        report.series.rows.iter().map(|r| r[nth]).sum::<f64>() as u64
    };
    let told = explained("clumsy-kernel", &["duration=12"]);
    assert_eq!(told.summary.connections.opened, column("active opens"));
    assert_eq!(told.summary.connections.accepted, column("passive opens"));
    let symptom = |says: &str| {
        let all = &told.summary.symptoms;
        all.iter().find(|s| s.says == says).map_or(0, |s| s.count)
    };
    assert_eq!(symptom("SYNs sent again"), column("SYNs resent"));
    assert_eq!(
        symptom("resets sent (TCPS_SYN_SENT-Bad_seq)"),
        column("resets")
    );
}

#[test]
fn a_recording_is_not_overwritten() {
    let (_keep, dir) = record("clumsy-kernel", &["duration=1"], 1);
    let before = content(&dir);
    let model = find(NAME).unwrap();
    let values = model.parameters().unwrap().defaults();
    let again = model.record(&values, 1, &dir);
    assert!(matches!(
        again,
        Err(Error::Recording(recording::Error::Exists(_)))
    ));
    assert!(before == content(&dir));
}

#[test]
fn explain_names_the_walk_past_the_lists_of_servers() {
    let told = explained_of(FREEBSD, "in-pcb", &[]);
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
    assert!(first.fix.contains("net.inet.ip.portrange.last=59999"));
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
        let told = explained_of(FREEBSD, preset, &all);
        let found: Vec<_> = told.findings.iter().map(|f| &f.title).collect();
        assert!(found.is_empty(), "{preset} {set}: {found:?}");
    }
    // Without the fix that is enough.
    let told = explained_of(FREEBSD, "in-pcb", &["duration=12", "next_port=59400"]);
    assert_eq!(told.findings.len(), 1);
}

#[test]
fn calls_threads_and_samples_tell_the_same_search() {
    let set = ["duration=30", "next_port=59000", "load=0.5"];
    let (_keep, dir) = record_of(FREEBSD, "in-pcb", &set, 3);
    let recording = Recording::open(&dir).unwrap();
    let rows = |all: Vec<u64>| all.into_iter().sum::<u64>() as f64 / 1e9;
    let calls = recording.scan::<Call>().unwrap();
    let calls = calls.flat_map(|b| b.unwrap().rows().map(|(_, c)| c).collect::<Vec<_>>());
    let searched = rows(calls.filter_map(|c| c.port_search_ns).collect());
    let threads = recording.scan::<Thread>().unwrap();
    let threads = threads.flat_map(|b| b.unwrap().rows().map(|(_, t)| t).collect::<Vec<_>>());
    let on_cpu = rows(threads.map(|t| t.system_ns).collect());
    let samples = recording.scan::<Sample>().unwrap();
    let samples = samples.map(|b| b.unwrap().rows().count()).sum::<usize>() as f64 / 997.0;
    assert!(searched > 0.5, "{searched}");
    for other in [on_cpu, samples] {
        assert!((other / searched - 1.0).abs() < 0.01, "{searched} {other}");
    }
}

#[test]
fn the_other_model_gives_the_same_bytes_too() {
    let set = ["duration=12", "lead_in=70", "load=0.2"];
    let (_a, a) = record_of(FREEBSD, "in-pcb", &set, 5);
    let (_b, b) = record_of(FREEBSD, "in-pcb", &set, 5);
    let (_c, c) = record_of(FREEBSD, "in-pcb", &set, 6);
    assert!(content(&a) == content(&b));
    assert!(content(&a) != content(&c));
}
