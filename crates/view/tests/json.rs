//! What programs read: the names that `explain --json` promises.

use explain::explain;
use serde_json::Value;
use synth::{Fixture, cases};

/// The objects that are written, one per line.
fn objects(f: &Fixture) -> Vec<Value> {
    let explanation = explain(&f.write().unwrap()).expect("a recording of our own reads");
    let mut out = Vec::new();
    view::json::explanation(&explanation, &mut out).expect("memory takes it");
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|l| serde_json::from_str(l).expect("one object per line"))
        .collect()
}

#[test]
fn findings_come_first_and_the_summary_last() {
    let objects = objects(&cases::syn_cookies());
    let types: Vec<_> = objects
        .iter()
        .map(|o| o["type"].as_str().expect("text"))
        .collect();
    assert_eq!(
        types,
        ["finding", "account", "account", "unexplained", "summary"]
    );
    let finding = &objects[0];
    assert_eq!(finding["cause"], "syn-cookie-options-lost");
    assert_eq!(finding["scope"]["pid"], 812);
    assert_eq!(finding["scope"]["backlog"], 5);
    assert_eq!(finding["confidence"]["level"], "high");
    assert_eq!(finding["impact"]["cwnd_ratio"], 0.03929);
    assert_eq!(finding["impact"]["added_latency_ms"], Value::Null);
    assert_eq!(finding["evidence"][0]["rows"][0], "event/000001#111");
    let numbers = finding["evidence"][0]["numbers"]
        .as_object()
        .expect("a map");
    assert_eq!(numbers["without"], 92);
    let change = &finding["advice"][0]["change"];
    assert_eq!(change["kind"], "backlog");
    assert_eq!(change["value"], 1_024);
    let sysctl = &finding["advice"][1]["change"];
    assert_eq!(sysctl["kind"], "sysctl");
    assert_eq!(sysctl["name"], "net.ipv4.tcp_timestamps");
    assert_eq!(objects[1]["type"], "account");
    assert_eq!(objects[1]["role"], "client");
    let summary = objects.last().expect("the summary");
    assert_eq!(summary["findings"], 1);
    assert_eq!(summary["connections"]["accepted"], 98);
    assert_eq!(summary["recording"]["kernel"], "6.18.44");
    assert_eq!(summary["complete"], true);
}

#[test]
fn nothing_found_is_an_account_and_a_summary() {
    let objects = objects(&cases::churn());
    let types: Vec<_> = objects.iter().map(|o| &o["type"]).collect();
    assert_eq!(types, ["account", "account", "summary"]);
    assert_eq!(objects[2]["findings"], 0);
    assert_eq!(objects[2]["health"], Value::Array(Vec::new()));
}

#[test]
fn the_whole_object_is_as_documented() {
    let finding = &objects(&cases::refused())[0];
    insta::assert_snapshot!(serde_json::to_string_pretty(finding).expect("it was JSON"));
}
