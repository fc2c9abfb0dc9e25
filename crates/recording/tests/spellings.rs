//! Words of the vocabularies, counters and sysctls stand in their declarations only.

use std::fs;
use std::path::{Path, PathBuf};

use recording::{TcpState, counter, sysctl};

/// Headings of columns that happen to be a state's name.
const HEADINGS: &[(&str, &str)] = &[
    ("models/src/freebsd_tcptw/outcome.rs", "TIME_WAIT"),
    ("models/src/illumos_time_wait/outcome.rs", "TIME_WAIT"),
    ("view/src/report/timelines.rs", "TIME_WAIT"),
    ("view/src/stat/ports.rs", "TIME_WAIT"),
];

/// Where the words are declared.
const DECLARED: &[&str] = &[
    "recording/src/counter.rs",
    "recording/src/sysctl.rs",
    "recording/src/vocabulary.rs",
];

fn sources(dir: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, to);
        } else if path.extension().is_some_and(|e| e == "rs") {
            to.push(path);
        }
    }
}

/// Tests, and what stands in for a recording in them, may spell what they expect.
fn is_test(path: &str) -> bool {
    ["/tests", "/fixture/", "hostile/", "lab/"]
        .iter()
        .any(|part| path.contains(part))
}

#[test]
fn words_are_spelled_where_they_are_declared_and_nowhere_else() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace");
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        let src = entry.path().join("src");
        if src.is_dir() {
            sources(&src, &mut files);
        }
    }
    assert!(files.len() > 300, "{} files", files.len());
    let states = TcpState::ALL.iter().map(TcpState::as_str);
    let counters = counter::NAMED.iter().map(|d| d.name);
    let sysctls = [sysctl::OF_NAMESPACE, sysctl::OF_HOST, sysctl::OF_ADVICE];
    let words: Vec<&str> = states.chain(counters).chain(sysctls.concat()).collect();
    let mut found = Vec::new();
    for file in files {
        let path = file
            .strip_prefix(crates)
            .expect("below it")
            .to_string_lossy();
        if is_test(&path) || DECLARED.contains(&&*path) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let spelled = words
            .iter()
            .filter(|word| code.contains(&format!("\"{word}\"")));
        let spelled = spelled.filter(|word| !HEADINGS.contains(&(&path, word)));
        found.extend(spelled.map(|word| format!("{path}: {word}")));
    }
    assert!(
        found.is_empty(),
        "use the vocabulary:\n{}",
        found.join("\n")
    );
}
