//! What explain says as JSON: what is written can be read, and the book says what it is.

use std::path::Path;

use explain::{Change, Id, Line, explain, schema};
use serde::Serialize;
use serde_json::Value;
use synth::{Fixture, cases};

/// The lines of an explanation.
fn lines(f: &Fixture) -> Vec<Value> {
    let e = explain(&f.write().expect("it can be written")).expect("a recording of our own reads");
    fn all<T: Serialize>(of: &[T]) -> Vec<Value> {
        let written = of
            .iter()
            .map(|t| serde_json::to_value(t).expect("it can be written"));
        written.collect()
    }
    [
        all(&e.findings),
        all(&e.notes),
        all(&e.account),
        all(&[&e.summary]),
    ]
    .concat()
}

#[test]
fn every_line_can_be_read_and_says_the_same_again() {
    let all = [
        cases::accept_queue(),
        cases::stopped_worker(),
        cases::syn_queue(),
        cases::syn_cookies(),
        cases::stripped(),
        cases::refused(),
        cases::slow_reader(),
        cases::lossy(),
    ];
    for f in all {
        let written = lines(&f);
        assert!(written.len() >= 3, "a finding, an account, a summary");
        for line in written {
            let read: Line = serde_json::from_value(line.clone()).expect("it can be read");
            let again = match read {
                Line::Finding(f) => serde_json::to_value(f),
                Line::Note(n) => serde_json::to_value(n),
                Line::Account(a) => serde_json::to_value(a),
                Line::Unexplained(u) => serde_json::to_value(u),
                Line::Summary(s) => serde_json::to_value(s),
                _ => panic!("a line of no kind"),
            };
            assert_eq!(again.expect("it can be written"), line);
        }
    }
}

#[test]
fn a_cause_of_another_build_keeps_its_id_and_a_wrong_row_is_refused() {
    let mut finding = lines(&cases::refused()).remove(0);
    finding["cause"] = "warp-drive-misaligned".into();
    let Line::Finding(read) = serde_json::from_value(finding.clone()).expect("it can be read")
    else {
        panic!("a finding");
    };
    assert_eq!(read.cause, "warp-drive-misaligned");
    assert_ne!(read.cause, Id::CONNECTION_REFUSED);
    finding["cause"] = "x".repeat(10_000).into();
    assert!(serde_json::from_value::<Line>(finding.clone()).is_err());
    finding["cause"] = "connection-refused".into();
    finding["evidence"][0]["rows"] = serde_json::json!(["../etc/passwd#1"]);
    let wrong = serde_json::from_value::<Line>(finding).expect_err("no such table");
    assert!(
        wrong.to_string().contains("is not a valid row; a row is"),
        "{wrong}"
    );
    assert!(serde_json::from_str::<Change>(r#"{"kind":"reboot"}"#).is_err());
}

fn is_current(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("it can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/{name} is not current: run make docs");
}

#[test]
fn the_book_and_the_schema_are_those_of_the_types() {
    let page = schema::page();
    assert!(page.contains("| `lost_s` |") && page.contains("| `clamp-mss` |"));
    // Nothing is said without words.
    let bare: Vec<&str> = page.lines().filter(|l| l.ends_with("|  |")).collect();
    assert!(bare.is_empty(), "{bare:?}");
    is_current("explain-json.md", &page);
    let schema = serde_json::to_string_pretty(&schema::schema()).expect("it can be written");
    is_current("explain.schema.json", &(schema + "\n"));
}
