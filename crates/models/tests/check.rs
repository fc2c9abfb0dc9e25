//! `check` agrees with the cases, and notices a wrong mechanism.

use models::{Standing, check, find, render_check};

/// Fewer than the command takes: medians of five lie within the tolerances.
const SEEDS: u64 = 5;

const FREEBSD: &str = "freebsd-tcptw";

/// The figures of a model that fail with such changes.
fn failed(model: &str, changes: &[&str]) -> Vec<String> {
    let changes: Vec<String> = changes.iter().map(|c| c.to_string()).collect();
    // A wrong mechanism is not missed by chance: the figures that it changes change by factors.
    let seeds = if model == FREEBSD { 1 } else { SEEDS };
    let check = find(model).unwrap().check(&changes, seeds).unwrap();
    let failed: Vec<_> = check.rows.into_iter().filter(|r| !r.passed).collect();
    assert_eq!(check.passed, failed.is_empty());
    failed.into_iter().map(|r| r.figure).collect()
}

#[test]
fn every_figure_agrees_or_differs_for_a_known_reason() {
    let checks = check(SEEDS).unwrap();
    let text = render_check(&checks);
    assert!(checks.iter().all(|c| c.passed), "{text}");
    for row in checks.iter().flat_map(|c| &c.rows) {
        let unexplained = row.standing == Standing::Unexplained;
        assert_eq!(unexplained, !row.agrees, "{}", row.figure);
        let told = row.standing == Standing::Predicted || row.why.is_some();
        assert!(told, "{}: no reason", row.figure);
    }
    assert!(
        !text.contains("FAILED") && text.lines().any(|l| l.starts_with("[1] ")),
        "{text}"
    );
}

#[test]
fn half_the_increment_per_connection_is_noticed() {
    // As if only connect() drew a sequence number: the rate would break after 17,180 connections.
    let failed = failed("illumos-time-wait", &["tcp_iss_incr=125000"]);
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
    let other_timeout = failed("illumos-time-wait", &["tcp_rexmit_interval_initial=3000"]);
    assert!(
        other_timeout
            .iter()
            .any(|f| f.starts_with("SYNs resent per second")),
        "{other_timeout:?}"
    );
    let fixed = failed("illumos-time-wait", &["loopback_fix=1"]);
    assert!(
        fixed.iter().any(|f| f == "connects opened in second 4"),
        "{fixed:?}"
    );
}

#[test]
fn a_destination_cache_of_another_shape_is_noticed() {
    for (change, figure) in [
        ("ip_dce_hash_size=512", "lookup after 14.3 days"),
        ("entry_walk=60", "load average, 15 minutes"),
        ("returning_since_boot=0", "CPUs in lookups"),
        ("interrupt_share=0.76", "CPU 23 busy"),
    ] {
        let failed = failed("illumos-dce", &[change]);
        assert!(
            failed.iter().any(|f| f == figure),
            "{change}: {figure} not in {failed:?}"
        );
    }
}

#[test]
fn a_purge_that_goes_on_where_it_is_is_noticed() {
    // Without the restart each entry is passed once: 17,000, not 65 million.
    let failed = failed(FREEBSD, &["restart=0"]);
    for figure in ["iterations, look-up 1", "that connect()"] {
        assert!(
            failed.iter().any(|f| f == figure),
            "{figure} not in {failed:?}"
        );
    }
}
