//! Every scenario of the lab on the real kernel: the planted cause is named first, the healthy
//! ones give no finding, and a recording means the same elsewhere and without root.

mod common;

use std::fs;
use std::process::Command;

use common::{TCPWHY, arg, json_lines, root, run, stderr};
use serde_json::Value;

fn lab(args: &[&str]) -> Value {
    let output = run(&[&["lab", "run"], args, &["--json"]].concat());
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 1, "{}", stderr(&output));
    let outcome = lines[0].clone();
    assert_eq!(outcome["passed"], true, "{outcome:#}");
    assert!(output.status.success());
    outcome
}

fn names_first(scenario: &str, cause: &str) -> Value {
    let outcome = lab(&[scenario]);
    let first = outcome["findings"][0].clone();
    assert_eq!(first["cause"], cause);
    assert!(
        first["scope"]["pid"].as_u64().is_some_and(|pid| pid > 0),
        "{first:#}"
    );
    first
}

#[test]
fn healthy_scenarios_give_no_finding() {
    if !root() {
        return;
    }
    for scenario in [
        "healthy-churn",
        "healthy-bulk",
        "healthy-keepalive",
        "healthy-idle",
        "healthy-path",
    ] {
        let outcome = lab(&[scenario]);
        assert_eq!(
            outcome["findings"].as_array().map(Vec::len),
            Some(0),
            "{outcome:#}"
        );
    }
}

#[test]
fn syn_cookies() {
    if !root() {
        return;
    }
    let finding = names_first("syn-cookies", "syn-cookie-options-lost");
    assert_eq!(finding["scope"]["backlog"], 5);
    assert_eq!(finding["scope"]["comm"], "store");
    let ratio = finding["impact"]["cwnd_ratio"].as_f64().unwrap();
    assert!(ratio > 0.0 && ratio < 0.7, "{ratio}");
    let says = finding["evidence"].to_string();
    assert!(says.contains("tcp_timestamps=0"), "the co-cause: {says}");
}

#[test]
fn accept_queue() {
    if !root() {
        return;
    }
    names_first("accept-queue-overflow", "accept-queue-overflow");
}

#[test]
fn syn_queue() {
    if !root() {
        return;
    }
    names_first("syn-queue-overflow", "syn-queue-overflow");
}

#[test]
fn middlebox() {
    if !root() {
        return;
    }
    names_first("middlebox-strips-options", "middlebox-strips-options");
}

#[test]
fn refused() {
    if !root() {
        return;
    }
    names_first("refused", "connection-refused");
}

#[test]
fn slow_transfers() {
    if !root() {
        return;
    }
    for cause in ["path-loss", "nagle-delayed-ack"] {
        names_first(cause, cause);
    }
}

#[test]
fn slow_transfers_are_mended() {
    if !root() {
        return;
    }
    for cause in ["qdisc-drop", "bufferbloat", "slow-reader"] {
        let outcome = lab(&[cause, "--fix"]);
        assert_eq!(outcome["findings"][0]["cause"], cause);
        assert_eq!(outcome["fix"]["gone"], true, "{:#}", outcome["fix"]);
    }
}

/// Of these seeds, some are bad and some are good.
#[test]
fn crumbs_separate_by_their_options() {
    if !root() {
        return;
    }
    let runs = lab(&["cookie-crumbs", "--seed", "2", "--runs", "5"]);
    let found = |run: &&Value| run["found"].as_array().is_some_and(|f| !f.is_empty());
    let all = runs["runs"].as_array().unwrap();
    let bad = all.iter().filter(found).count();
    assert!((1..all.len()).contains(&bad), "{runs:#}");
    let attributes = runs["comparison"]["sockets"]["attributes"].as_array();
    for name in ["SACK", "window scaling"] {
        let of_name = |a: &&Value| a["attribute"] == name && a["value"] == "no";
        let attribute = attributes.unwrap().iter().find(of_name).unwrap();
        let exact = (&attribute["precision"], &attribute["recall"]);
        assert_eq!(exact, (&1.0.into(), &1.0.into()), "{attribute:#}");
    }
}

#[test]
fn the_fix_fixes() {
    if !root() {
        return;
    }
    let outcome = lab(&["refused", "--fix"]);
    assert!(outcome["fix"]["after"].is_object(), "{outcome:#}");
}

#[test]
fn a_copied_recording_means_the_same_without_root() {
    if !root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let outcome = lab(&["refused", "--keep", arg(&kept)]);
    let recording = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();

    let told = run(&["explain", arg(&recording), "--fail-on-finding"]);
    assert_eq!(told.status.code(), Some(10));

    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(&recording)
        .arg(&elsewhere)
        .status()
        .unwrap();
    assert!(copied.success());
    fs::copy(TCPWHY, elsewhere.join("tcpwhy")).unwrap();
    let chowned = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(dir.path())
        .status();
    assert!(chowned.unwrap().success());

    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(elsewhere.join("tcpwhy")).arg("explain");
    command
        .arg(elsewhere.join(recording.file_name().unwrap()))
        .arg("--json");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut lines = json_lines(&output);
    lines.pop();
    assert_eq!(
        Value::from(lines),
        outcome["findings"],
        "the same findings as live"
    );
}
