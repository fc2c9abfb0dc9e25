//! The report as a user makes it: one file that holds everything, or one clear line why not.

use std::fs;

use crate::common::{arg, run, stderr, stdout};
use serde_json::Value;

/// A recording of a model, made without root in no time.
fn model(dir: &std::path::Path, seed: &str) -> std::path::PathBuf {
    let path = dir.join(format!("mesh-{seed}.tcpwhy"));
    let output = run(&[
        "model",
        "run",
        "linux-syn-queue",
        "--seed",
        seed,
        "-o",
        arg(&path),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    path
}

#[test]
fn the_report_of_a_model_is_one_file_that_asks_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let recording = model(dir.path(), "1");
    let file = dir.path().join("report.html");
    let output = run(&["report", arg(&recording), "-o", arg(&file)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("report.html"));
    let html = fs::read_to_string(&file).unwrap();
    // A tab or a mail says what is wrong, of which host, and when.
    let (_, title) = html.split_once("<title>").unwrap();
    let title = title.split("</title>").next().unwrap();
    assert!(
        title.starts_with("APPLICATION · ") || title.starts_with("THIS HOST · "),
        "{title}"
    );
    assert!(
        title.contains(" — computed, ") && title.contains(" UTC ("),
        "{title}"
    );
    // What `explain` says is in it for those who run no scripts.
    let explained = stdout(&run(&["explain", "--full", arg(&recording)]));
    let first = explained.lines().next().unwrap();
    assert!(html.contains(first), "{first}");
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(outside), "{outside}");
    }
    // It is written anew, without a question.
    let again = run(&["report", arg(&recording), "-o", arg(&file)]);
    assert_eq!(again.status.code(), Some(0));
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        html,
        "the same each time"
    );
}

#[test]
fn the_document_of_several_says_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (model(dir.path(), "1"), model(dir.path(), "2"));
    let output = run(&["report", arg(&a), arg(&b), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<&str> = page["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mesh-1", "mesh-2"]);
    assert!(!page["comparison"]["says"].as_array().unwrap().is_empty());
    let explained = stdout(&run(&["explain", arg(&a), "--json"]));
    let finding: Value = serde_json::from_str(explained.lines().next().unwrap()).unwrap();
    let told = &page["runs"][0]["findings"][0];
    assert_eq!(told["title"], finding["title"]);
    assert_eq!(told["since_s"], finding["since"]["after_start_s"]);
    assert!(told["since_s"].is_f64());
}

#[test]
fn what_cannot_be_written_or_read_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let recording = model(dir.path(), "1");
    let nowhere = dir.path().join("no/such/place.html");
    for (args, says) in [
        (
            vec!["report", "/nonexistent.tcpwhy", "-o", "x.html"],
            "no such recording",
        ),
        (
            vec!["report", arg(&recording), "-o", arg(&nowhere)],
            "no/such/place.html",
        ),
        (
            vec!["report", arg(&recording), "-o", arg(dir.path())],
            "is a directory",
        ),
    ] {
        let output = run(&args);
        let message = stderr(&output);
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
        assert!(message.contains(says), "{args:?}: {message}");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = run(&["report", "-"]);
    assert_ne!(output.status.code(), Some(0), "a stream has no name");
}

#[test]
fn off_cpu_graphs_need_waits() {
    let dir = tempfile::tempdir().unwrap();
    let recording = model(dir.path(), "1");
    let output = run(&["flame", arg(&recording), "--off-cpu"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("record it `--with waits`"),
        "{}",
        stderr(&output)
    );
}
