//! A computed recording reads like a live one: explain names the cause, and nothing where it is mended.

use std::path::PathBuf;

use explain::{Explanation, Level};
use models::{Error, find};
use recording::tables::{Socket, TableSize};
use recording::{Recording, TcpState};
use tempfile::TempDir;

use crate::common::content;

const NAME: &str = "illumos-time-wait";

fn record(preset: &str, set: &[&str], seed: u64) -> (TempDir, PathBuf) {
    crate::common::record(NAME, preset, set, seed)
}

fn explained(preset: &str, set: &[&str]) -> Explanation {
    crate::common::explained(NAME, preset, set)
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
        .find(|c| c.formula.contains("replayed"));
    assert!(
        sequence.is_some_and(|c| c.agrees && c.measured > 1_000.0),
        "{sequence:?}"
    );
    let says = |what: &str| first.evidence.iter().any(|s| s.says.contains(what));
    assert!(says("(when SYN 2 was sent)"));
    assert!(says("woken by retransmission 1 (SYN_SENT)"));
    assert!(says("17,179 of them cover half"));
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
    assert_eq!(symptom("SYNs retransmitted"), column("SYNs resent"));
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
fn each_time_wait_is_told_once_when_it_is_found() {
    let (_keep, dir) = record("clumsy-kernel", &["duration=6"], 1);
    let recording = Recording::open(&dir).unwrap();
    let sockets: Vec<Socket> = crate::common::rows(&recording);
    let sizes: Vec<TableSize> = crate::common::rows(&recording);
    assert!(
        sockets
            .iter()
            .all(|s| s.state == TcpState::TimeWait && s.tw_rcv_nxt.is_some())
    );
    // So far none has expired: the first two seconds' are all there.
    let until = |n: usize| {
        sockets
            .iter()
            .filter(|s| s.time_ns <= sizes[n].time_ns)
            .count()
    };
    assert_eq!(until(1) as u64, sizes[1].entries);
    let mut ids: Vec<u64> = sockets.iter().map(|s| s.sock).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), sockets.len());
    let (_keep, dir) = record("clumsy-kernel", &["duration=3", "loopback_fix=1"], 1);
    let none: Vec<Socket> = crate::common::rows(&Recording::open(&dir).unwrap());
    assert!(none.is_empty());
}
