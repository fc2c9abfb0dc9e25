//! The cluster that floods its own listeners: its recordings explained and compared, and its check.

use std::path::PathBuf;

use explain::compare::{self, By, Comparison};
use explain::{Change, Explanation, Level};
use models::find;
use recording::tables::{Counter, Event, Socket};
use recording::{Error, EventKind, Recording, TcpState};
use tempfile::TempDir;

use crate::common::content;

fn compare(paths: &[PathBuf]) -> Result<Comparison, Error> {
    let open = |path: &PathBuf| Ok((path.display().to_string(), Recording::open(path)?));
    compare::compare(paths.iter().map(open))
}

const NAME: &str = "linux-syn-queue";

fn record(preset: &str, set: &[&str], seed: u64) -> (TempDir, PathBuf) {
    crate::common::record(NAME, preset, set, seed)
}

fn explained(preset: &str, set: &[&str]) -> Explanation {
    crate::common::explained(NAME, preset, set)
}

#[test]
fn explain_names_the_listener_the_backlog_and_what_it_costs() {
    let told = explained("cookie-crumbs", &[]);
    assert!(
        told.findings
            .iter()
            .all(|f| f.cause == "syn-cookie-options-lost")
    );
    let first = &told.findings[0];
    assert_eq!(
        first.confidence.level,
        Level::High,
        "{:?}",
        first.confidence
    );
    assert_eq!(first.scope.backlog, Some(5));
    assert!(first.scope.pid.is_some() && first.scope.listener.ends_with(":9000"));
    assert!(
        first
            .title
            .contains("1 of 9 connections lost SACK and window scaling"),
        "{}",
        first.title
    );
    // As the article has it: windows smaller by 90 to 99.5 %.
    let ratio = first.impact.cwnd_ratio.unwrap();
    assert!((0.005..=0.1).contains(&ratio), "{ratio}");
    assert!(first.arithmetic.len() == 2 && first.arithmetic.iter().all(|c| c.agrees));
    let says = |what: &str| first.evidence.iter().any(|s| s.says.contains(what));
    assert!(says("the backlog that meshd gave to listen(): 5"));
    assert!(says("net.ipv4.tcp_timestamps=0"));
    assert!(says("The namespace sent 1 cookie and got 1 back"));
    assert!(matches!(
        first.advice[0].change,
        Some(Change::Backlog { .. })
    ));
}

#[test]
fn what_mends_it_leaves_no_finding() {
    for (preset, set) in [
        ("cookie-crumbs-backlog", &[][..]),
        ("cookie-crumbs-timestamps", &[]),
        ("cookie-crumbs-fast", &[]),
        // Too few nodes and sockets to fill the queue.
        ("cookie-crumbs", &["sockets=1"]),
        // Every connection by cookie, and nothing lost.
        (
            "cookie-crumbs-timestamps",
            &["tcp_syncookies=2", "family=4"],
        ),
    ] {
        let told = explained(preset, &[set, &["duration=3"]].concat());
        let found: Vec<_> = told.findings.iter().map(|f| &f.title).collect();
        assert!(found.is_empty(), "{preset} {set:?}: {found:?}");
    }
}

#[test]
fn one_slow_link_is_told_from_the_fast_ones_by_its_options() {
    let (_a, fast) = record("cookie-crumbs-backlog", &["duration=4"], 1);
    let (_b, slow) = record("cookie-crumbs", &["duration=4"], 1);
    let c = compare(&[fast, slow]).unwrap();
    assert_eq!(c.by, By::Order);
    assert!(c.fast.unwrap().mean > 1.05 * c.slow.unwrap().mean);
    let sockets = c.sockets.unwrap();
    assert_eq!((sockets.slow, sockets.compared), (1, 12));
    let exact = sockets.attributes.iter().filter(|a| a.fit() == 1.0);
    let exact: Vec<_> = exact.map(|a| (a.attribute, &*a.value)).collect();
    for tells in [
        ("SACK", "no"),
        ("window scaling", "no"),
        ("SYN cookie", "yes"),
    ] {
        assert!(exact.contains(&tells), "{tells:?} not in {exact:?}");
    }
    let counters: Vec<_> = c.counters.iter().map(|c| &*c.counter).collect();
    assert!(counters.contains(&"TcpExt.SyncookiesRecv"), "{counters:?}");
    let backlog = c.settings.iter().find(|s| s.setting.contains("backlog"));
    let backlog = backlog.map(|s| (s.fast.join(" "), s.slow.join(" ")));
    assert_eq!(backlog, Some(("128".into(), "5".into())));
}

#[test]
fn runs_of_one_program_have_two_modes() {
    // Half of these runs have a slow link, by luck.
    let set = ["sockets=5", "start_spread=2", "runs=1", "duration=3"];
    let runs: Vec<_> = (1..=16)
        .map(|seed| record("cookie-crumbs-series", &set, seed))
        .collect();
    let paths: Vec<_> = runs.iter().map(|(_, path)| path.clone()).collect();
    let c = compare(&paths).unwrap();
    assert_eq!(c.by, By::Modes);
    assert!(c.runs.iter().all(|r| r.slow == (r.slow_sockets > 0)));
    let best = &c.sockets.unwrap().attributes[0];
    assert!(best.fit() == 1.0, "{best:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    // Longer than a segment.
    let set = ["duration=12", "loss=0.0001", "nodes=3"];
    let (_a, a) = record("cookie-crumbs", &set, 5);
    let (_b, b) = record("cookie-crumbs", &set, 5);
    let (_c, c) = record("cookie-crumbs", &set, 6);
    let (a, b, c) = (content(&a), content(&b), content(&c));
    assert!(a.len() > 10, "{} files", a.len());
    assert!(a == b);
    assert!(a != c);
}

#[test]
fn events_samples_and_counters_tell_the_same() {
    // Queues of both kinds overflow.
    let set = ["accept_time=2000", "loss=0.001", "duration=4"];
    let (_keep, dir) = record("cookie-crumbs", &set, 1);
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(recording.manifest.producer, "model linux-syn-queue");
    assert!(recording.manifest.complete);
    let counter = |name: &str| -> i64 {
        let rows = recording.scan::<Counter>().unwrap();
        let rows = rows.flat_map(|batch| batch.unwrap().rows().collect::<Vec<_>>());
        let of = rows.filter(|(_, row)| &*row.name == name);
        of.map(|(_, row)| row.delta.unwrap()).sum()
    };
    let events: Vec<Event> = recording.events().unwrap().map(|e| e.unwrap().1).collect();
    let events = |kind: EventKind, state: TcpState| -> i64 {
        let of = events.iter().filter(|e| e.kind == kind);
        of.filter(|e| e.state.as_ref() == Some(&state)).count() as i64
    };
    assert_eq!(
        counter("ActiveOpens"),
        events(EventKind::State, TcpState::SynSent)
    );
    assert_eq!(
        counter("ActiveOpens") + counter("PassiveOpens"),
        events(EventKind::State, TcpState::Established)
    );
    let (syns, data) = (
        events(EventKind::Retransmit, TcpState::SynSent),
        events(EventKind::Retransmit, TcpState::Established),
    );
    assert!(syns > 0 && data > 0);
    assert_eq!(
        (counter("TCPSynRetrans"), counter("RetransSegs")),
        (syns, syns + data)
    );
    // Every last ACK that was dropped is there, and SYNs are in the counter only.
    let dropped = events(EventKind::Drop, TcpState::Listen);
    assert!(dropped > 0 && counter("ListenOverflows") == dropped + syns);
    let rows = recording.scan::<Socket>().unwrap();
    for (_, row) in rows.flat_map(|batch| batch.unwrap().rows().collect::<Vec<_>>()) {
        let window = row.snd_wnd.unwrap();
        assert_eq!(window <= 65_535, row.window_scaling == Some(false));
        let flying = row.unacked.unwrap_or(0).saturating_sub(1) * row.snd_mss.unwrap();
        assert!(flying <= window, "{flying} of {window}");
        assert_eq!(row.sack, row.window_scaling);
    }
}

#[test]
fn the_figures_of_the_recording_are_those_of_the_run() {
    let model = find(NAME).unwrap();
    let values = model.parameters().unwrap().defaults();
    let report = model.run(&values, 1).unwrap();
    let figure = |name: &str| {
        let of = report.figures.iter().find(|f| f.name == name);
        of.unwrap().value
    };
    let told = explained("cookie-crumbs", &[]);
    let lost: u64 = told.findings.iter().map(|f| f.impact.affected).sum();
    assert_eq!(lost as f64, figure("connections that lost options"));
    assert_eq!(told.summary.connections.opened, 36);
    assert_eq!(told.summary.connections.accepted, 36);
}

#[test]
fn a_wrong_mechanism_is_noticed() {
    for (change, figure) in [
        ("backlog=6", "requests kept of 9 at once, backlog 5"),
        ("tcp_timestamps=1", "runs with options lost: 4 nodes, 3"),
        (
            "tcp_window_scaling=0",
            "largest cwnd, smaller than every other's by",
        ),
        ("loaded_rtt=300", "throughput lost by a slow link"),
    ] {
        let check = find(NAME).unwrap().check(&[change.into()], 2).unwrap();
        let failed: Vec<_> = check
            .rows
            .iter()
            .filter(|r| !r.passed)
            .map(|r| &r.figure)
            .collect();
        assert!(
            failed.iter().any(|f| f.starts_with(figure)),
            "{change}: {failed:?}"
        );
    }
}
