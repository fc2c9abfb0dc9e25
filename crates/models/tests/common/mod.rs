//! What the tests of computed recordings share.
// Each test program uses some of it.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use explain::{Explanation, explain};
use models::find;
use recording::{Recording, Table};
use tempfile::TempDir;

/// Computes a recording.
pub fn record(model: &str, preset: &str, set: &[&str], seed: u64) -> (TempDir, PathBuf) {
    let model = find(model).unwrap();
    let parameters = model.parameters().unwrap();
    let mut values = parameters.preset(preset).unwrap();
    for one in set {
        parameters.set(&mut values, one).unwrap();
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("a.tcpwhy");
    model.record(&values, seed, &dir).unwrap();
    (temporary, dir)
}

/// Computes one and explains it.
pub fn explained(model: &str, preset: &str, set: &[&str]) -> Explanation {
    let (_keep, dir) = record(model, preset, set, 1);
    explain(&Recording::open(&dir).unwrap()).unwrap()
}

/// All rows of a table.
pub fn rows<T: Table>(recording: &Recording) -> Vec<T> {
    let batches = recording.scan::<T>().unwrap();
    let rows = batches.flat_map(|batch| {
        batch
            .unwrap()
            .rows()
            .map(|(_, row)| row)
            .collect::<Vec<_>>()
    });
    rows.collect()
}

/// Every file below `dir` with its content, in order.
pub fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            all.extend(
                content(&path)
                    .into_iter()
                    .map(|(n, c)| (format!("{name}/{n}"), c)),
            )
        } else {
            all.push((name, fs::read(&path).unwrap()))
        }
    }
    all.sort();
    all
}
