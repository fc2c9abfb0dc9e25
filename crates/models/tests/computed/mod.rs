//! What the tests of several models share: recordings, and their bytes.

use std::fs;
use std::path::{Path, PathBuf};

use models::find;
use tempfile::TempDir;

/// Computes a recording, which is there as long as the directory is kept.
pub fn record(name: &str, preset: &str, set: &[&str], seed: u64) -> (TempDir, PathBuf) {
    let model = find(name).unwrap();
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

/// Every file below `dir` with its content, in order.
pub fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true => all.extend(
                content(&path)
                    .into_iter()
                    .map(|(n, c)| (format!("{name}/{n}"), c)),
            ),
            false => all.push((name, fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}
