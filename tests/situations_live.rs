//! Situations played on the real kernel: one in which nothing is wrong, and one whose fault is told.

use std::process::Command;

use serde_json::Value;

use crate::common::{arg, lab_binary, need_root, stderr, stdout};

/// Nothing is wrong; the server's address has moved away. Building seeds.
const SEEDS: [&str; 2] = ["6", "106"];

#[test]
fn a_fault_is_told_and_its_absence_is_not() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(lab_binary())
        .args(["lab", "situations", arg(dir.path()), "--json"])
        .args(["--only", SEEDS[0], "--only", SEEDS[1]])
        .output()
        .expect("the binary runs");
    let lines = stdout(&output);
    let marked: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let marks: Vec<&str> = marked.iter().filter_map(|m| m["mark"].as_str()).collect();
    assert_eq!(marks, ["quiet", "right"], "{lines}{}", stderr(&output));
    // Nothing of it is left.
    let names = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    let left = names.filter(|n| n.file_name().to_string_lossy().contains("-network"));
    assert_eq!(left.count(), 0);
}
