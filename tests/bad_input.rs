//! Bad input: each one clear line that names the thing, and the right exit code.

use std::fs;

use crate::common::{arg, one_event, one_line, run, stderr, stdout, tcpwhy};

#[test]
fn recordings_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    one_line(
        &["explain", "/nonexistent.tcpwhy"],
        "/nonexistent.tcpwhy: no such recording",
    );

    let text = dir.path().join("notes.txt");
    fs::write(&text, "not a recording").unwrap();
    one_line(
        &["explain", arg(&text)],
        "notes.txt: not a tcpwhy recording",
    );

    one_line(&["explain", arg(dir.path())], "manifest.json");
    one_line(
        &["compare", "/nonexistent.tcpwhy", arg(&text)],
        "/nonexistent.tcpwhy: no such recording",
    );
}

#[test]
fn a_truncated_segment() {
    let dir = tempfile::tempdir().unwrap();
    let path = one_event(dir.path());
    assert_eq!(run(&["explain", arg(&path)]).status.code(), Some(0));

    let segment = path.join("event/000001.parquet");
    let whole = fs::read(&segment).unwrap();
    fs::write(&segment, &whole[..whole.len() / 2]).unwrap();
    one_line(&["explain", arg(&path)], "event/000001.parquet: damaged");
}

#[test]
fn a_newer_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = one_event(dir.path());
    fs::write(path.join("manifest.json"), "{\"format\": 999}").unwrap();
    one_line(&["explain", arg(&path)], "update tcpwhy");
}

#[test]
fn unknown_names() {
    let output = run(&["explain", "x.tcpwhy", "--cause", "gremlins"]);
    assert_eq!(output.status.code(), Some(2));
    let says = stderr(&output);
    assert!(
        says.contains("gremlins") && says.contains("--symptom"),
        "{says}"
    );
    one_line(&["lab", "run", "no-such-scenario"], "no-such-scenario");
}

#[test]
fn parameters_of_models_are_checked() {
    let model = |set| ["model", "run", "illumos-time-wait", "--set", set];
    one_line(&["model", "run", "no-such-model"], "no-such-model");
    one_line(&model("buckets=1"), "has no parameter `buckets`");
    one_line(
        &model("request_rate=-1"),
        "request_rate=-1: allowed is 0 to 50000 1/s",
    );
    one_line(
        &model("clients=0.5"),
        "clients=0.5: allowed is 0 to 10000, whole",
    );
    one_line(&model("clients"), "NAME=VALUE");
    let sweep = |range| ["model", "run", "illumos-time-wait", "--sweep", range];
    one_line(&sweep("clients=1"), "NAME=A..B");
    one_line(
        &sweep("clients=1..20000"),
        "clients=20000: allowed is 0 to 10000",
    );
}

#[test]
fn a_model_is_run_recorded_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tcpwhy");
    let output = run(&["model", "run", "illumos-time-wait", "-o", arg(&path)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("SYNs resent"),
        "{}",
        stdout(&output)
    );
    let output = run(&["explain", "--full", arg(&path), "--fail-on-finding"]);
    assert_eq!(output.status.code(), Some(10), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("time-wait-collision (C01)"), "{text}");
    assert!(text.contains("model illumos-time-wait"), "{text}");
    one_line(
        &["model", "run", "illumos-time-wait", "-o", arg(&path)],
        "exists already",
    );
}

#[test]
fn a_sweep_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.svg");
    let sweep = |more: &[&'static str]| {
        let base = ["model", "run", "freebsd-tcptw", "--set", "duration=2"];
        let load = ["--set", "lead_in=9", "--sweep", "load=0..1", "--steps", "3"];
        [&base[..], &load, more].concat()
    };
    let drawing = ["--plot", arg(&path)];
    let args = [
        &sweep(&["--seeds", "3", "--figure", "TIME_WAIT at most"])[..],
        &drawing,
    ]
    .concat();
    let output = run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).ends_with("▁▅█  TIME_WAIT at most\n"),
        "{}",
        stdout(&output)
    );
    let svg = fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("<polygon"), "{svg}");
    assert!(
        svg.contains("over 3 seeds") && svg.contains("TIME_WAIT at most"),
        "{svg}"
    );
    one_line(
        &sweep(&["--figure", "bogus"]),
        "no figure `bogus`; there are",
    );
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [
        &["explain", "--for", "never"] as &[&str],
        &["explain", "x.tcpwhy", "--for", "1s"],
        &["explain", "x.tcpwhy", "--interval", "-1s"],
        &["no-such-verb"],
        &["lab", "run"],
        &["model", "run"],
        &["model", "run", "illumos-time-wait", "--steps", "5"],
        &["model", "run", "illumos-time-wait", "--plot", "x.svg"],
        &["model", "run", "illumos-time-wait", "--seeds", "5"],
        &[],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn readers_that_leave_early_are_no_error() {
    let mut child = tcpwhy(&["lab", "list"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
