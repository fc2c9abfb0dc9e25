//! Every file of tests is run: it is a target, or a module of one; and what needs root says so by
//! the name of its target, for `make test` to tell them apart.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of Rust in a directory, by name; none where there is no directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let all = entries.map(|e| e.unwrap().path());
    let mut files: Vec<_> = all
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .collect();
    files.sort();
    files
}

fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("crates")).unwrap();
    entries.map(|e| e.unwrap().path()).collect()
}

/// Each target of tests: its name, its file, whether plain `cargo test` runs it.
fn targets() -> Vec<(String, PathBuf, bool)> {
    let mut targets = Vec::new();
    for dir in crates() {
        let text = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let declared = manifest.get("test").and_then(toml::Value::as_array);
        for test in declared.into_iter().flatten() {
            let path = dir.join(test["path"].as_str().unwrap());
            let plain = test.get("test").is_none_or(|t| t.as_bool().unwrap());
            let name = test["name"].as_str().unwrap().to_string();
            targets.push((name, path.canonicalize().unwrap(), plain));
        }
    }
    targets
}

/// The files of a target: its own, and the modules that it declares beside it.
fn modules(target: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(target).unwrap();
    let names = text
        .lines()
        .filter_map(|l| l.strip_prefix("mod ")?.strip_suffix(';'));
    let beside = names.map(|name| target.with_file_name(format!("{name}.rs")));
    let mut all: Vec<_> = beside.filter(|p| p.is_file()).collect();
    all.push(target.to_path_buf());
    all
}

#[test]
fn no_file_of_tests_is_forgotten() {
    let run: BTreeSet<PathBuf> = targets().iter().flat_map(|t| modules(&t.1)).collect();
    let mut dirs = vec![workspace().join("tests"), workspace().join("tests/hostile")];
    dirs.extend(crates().iter().map(|c| c.join("tests")));
    let all = dirs.iter().flat_map(|dir| files(dir));
    let all: Vec<_> = all.map(|f| f.canonicalize().unwrap()).collect();
    assert!(all.len() > 30, "{all:?}");
    let forgotten: Vec<_> = all.iter().filter(|f| !run.contains(*f)).collect();
    assert!(forgotten.is_empty(), "in no target: {forgotten:?}");
}

#[test]
fn what_needs_root_is_told_by_its_name() {
    for (name, path, plain) in targets() {
        // `make test-lab` and `make test-browser` run those two.
        let live = name.starts_with("live_") || ["lab_live", "browser"].contains(&&*name);
        assert_eq!(
            live, !plain,
            "{name}: `live_` and `test = false` go together"
        );
        for file in modules(&path).iter().filter(|_| !live) {
            let text = fs::read_to_string(file).unwrap();
            let asks = text.contains(concat!("need_", "root()"));
            assert!(!asks, "{} of {name} needs root", file.display());
        }
    }
}

/// A live test that no target of the Makefile runs is none.
#[test]
fn make_runs_every_live_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let of_make = makefile.lines().find_map(|l| l.strip_prefix("LIVE := "));
    let mut run: Vec<&str> = of_make.unwrap().split(' ').collect();
    // It has a target of its own.
    run.push("live_scenarios");
    run.sort();
    let mut declared = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap().flatten() {
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        let names = manifest.lines().filter_map(|l| l.strip_prefix("name = "));
        let names = names.map(|name| name.trim_matches('"').to_string());
        declared.extend(names.filter(|name| name.starts_with("live_")));
    }
    declared.sort();
    assert_eq!(run, declared);
}

/// What `.ci/run` takes for a room that only reads is one, and any other is proven by everything.
#[test]
fn ci_knows_what_only_reads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ci = fs::read_to_string(root.join(".ci/run")).unwrap();
    let named = |line: &str| -> Vec<String> {
        let crates = line.split("crates/").skip(1);
        crates
            .filter_map(|rest| Some(rest.split_once("/*")?.0.to_string()))
            .collect()
    };
    let mut reads: Vec<String> = ci.lines().flat_map(named).collect();
    reads.sort();
    assert_eq!(reads, ["analysis", "explain", "models", "view"]);
    for name in reads {
        let manifest = root.join("crates").join(&name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let needs = manifest.split("[dev-dependencies]").next().unwrap();
        for recorder in ["observe", "lab"] {
            let line = format!("\n{recorder} = ");
            assert!(!needs.contains(&line), "{name} uses {recorder}");
        }
    }
}
