//! `check` agrees with the cases, and notices a wrong mechanism.

use models::{CheckRow, check, render_check};

/// Fewer than the command takes: medians of five lie within the tolerances.
const SEEDS: u64 = 5;

fn rows(changes: &[&str]) -> Vec<CheckRow> {
    let changes: Vec<String> = changes.iter().map(|c| c.to_string()).collect();
    let checks = check(&changes, SEEDS).unwrap();
    assert_eq!(
        checks.iter().all(|c| c.passed),
        checks.iter().flat_map(|c| &c.rows).all(|r| r.passed)
    );
    checks.into_iter().flat_map(|c| c.rows).collect()
}

fn failed(changes: &[&str]) -> Vec<String> {
    let failed = rows(changes).into_iter().filter(|r| !r.passed);
    failed.map(|r| r.figure).collect()
}

#[test]
fn every_figure_agrees_or_differs_for_a_known_reason() {
    let checks = check(&[], SEEDS).unwrap();
    let text = render_check(&checks);
    assert!(checks.iter().all(|c| c.passed), "{text}");
    for row in checks.iter().flat_map(|c| &c.rows) {
        assert!(row.agrees || row.why.is_some(), "{}: no reason", row.figure);
    }
    assert!(
        !text.contains("FAILED") && text.lines().any(|l| l.starts_with("[1] ")),
        "{text}"
    );
}

#[test]
fn half_the_increment_per_connection_is_noticed() {
    // As if only connect() drew a sequence number: the rate would break after 17,180 connections.
    let failed = failed(&["tcp_iss_incr=125000"]);
    for figure in [
        "connects opened in second 3",
        "clients blocked after second 2",
    ] {
        assert!(
            failed.iter().any(|f| f == figure),
            "{figure} not in {failed:?}"
        );
    }
}

#[test]
fn another_timeout_or_a_time_wait_that_is_left_alone_is_noticed() {
    let other_timeout = failed(&["tcp_rexmit_interval_initial=3000"]);
    assert!(
        other_timeout
            .iter()
            .any(|f| f.starts_with("SYNs resent per second")),
        "{other_timeout:?}"
    );
    let fixed = failed(&["loopback_fix=1"]);
    assert!(
        fixed.iter().any(|f| f == "connects opened in second 4"),
        "{fixed:?}"
    );
}
