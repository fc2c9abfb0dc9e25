//! C48 is named when descriptors are at the limit and something waits, or a failed call shows it.

use recording::CallKind;

use crate::causes::slow_accept::tests::late;
use crate::causes::testing::{found, only, ruled_out};
use crate::{Change, Level, explain};
use synth::{CLIENT, Fixture, START_NS, Task};

const ID: &str = "descriptors-exhausted";

/// Connections that wait, and a process with this many open descriptors.
fn waiting(open: f64) -> Fixture {
    let mut f = late(1_200.0, 1_190.0, vec![4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
    f.resources.clear();
    f.descriptors("iperf3/812", [40.0, open], 64.0);
    f
}

/// Calls that found no descriptor left.
fn denied(f: &mut Fixture, call: CallKind, error: &str, count: u64) {
    let calls = (0..count).map(|i| {
        let mut row =
            Task::new(77, "wrk").call(START_NS + i * 1_000_000, CLIENT, call.clone(), 9_000);
        row.error = Some(error.into());
        row
    });
    f.calls.extend(calls);
}

#[test]
fn all_are_open_and_connections_wait() {
    let f = only(&waiting(64.0), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(
        f.title
            .contains("all of its 64 descriptors open: 4 connections wait"),
        "{}",
        f.title
    );
    assert_eq!((f.scope.pid, f.impact.affected), (Some(812), 30));
    let more = Change::OpenFiles {
        pid: 812,
        value: 1_024,
    };
    assert_eq!(f.advice[0].change, Some(more));
    assert_eq!(
        f.advice[0].undo.as_deref(),
        Some("prlimit --pid 812 --nofile=64:")
    );
    assert!(ruled_out(&f, "accept-imbalance").contains("1 socket"));
}

#[test]
fn one_sample_is_enough_where_requests_tell_how_long_they_waited() {
    let mut f = late(1_200.0, 1_190.0, vec![0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]);
    f.resources.clear();
    f.descriptors("iperf3/812", [40.0, 64.0], 64.0);
    only(&f, ID);
}

#[test]
fn with_room_it_accepts_late() {
    let f = only(&waiting(63.0), "slow-accept");
    assert!(ruled_out(&f, ID).contains("63 of 64"));
}

#[test]
fn nobody_waits() {
    let mut f = Fixture::new();
    f.descriptors("haproxy/900", [64.0, 64.0], 64.0);
    // A sandbox like the one around sshd's child.
    f.descriptors("sshd/901", [1.0, 1.0], 1.0);
    let explained = explain(&f.write().expect("writes")).expect("reads");
    assert!(explained.findings.is_empty(), "{:?}", explained.findings);
    assert_eq!(explained.notes.len(), 1);
    assert!(
        explained.notes[0]
            .because
            .contains("nothing was seen waiting")
    );
}

#[test]
fn calls_that_failed_say_so_themselves() {
    let mut f = Fixture::new();
    denied(&mut f, CallKind::Connect, "EMFILE", 12);
    let told = only(&f, ID);
    assert!(told.title.contains("12 calls failed"), "{}", told.title);
    let mut f = Fixture::new();
    denied(&mut f, CallKind::Accept, "ENFILE", 12);
    let told = only(&f, ID);
    assert!(
        told.evidence[0].says.contains("12 of them were accept()"),
        "{:?}",
        told.evidence
    );
    let mut f = Fixture::new();
    denied(&mut f, CallKind::Connect, "EAGAIN", 12);
    assert!(found(&f).is_empty());
}
