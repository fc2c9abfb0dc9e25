//! What version 0.5 found in its recordings is what this one finds, but for the differences that
//! `fixtures/0.5/differences.toml` lists with their reasons.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use serde::Deserialize;
use serde_json::Value;

use crate::common::{json_lines, stderr, tcpwhy};

/// A difference, and why it is right.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    recording: String,
    cause: String,
    how: How,
    because: String,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum How {
    /// Found by 0.5 only.
    Gone,
    /// Found by this version only.
    New,
}

#[derive(Deserialize)]
struct Differences {
    #[serde(default)]
    difference: Vec<Difference>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.5")
}

/// Its findings: cause and place.
fn findings(lines: &[Value]) -> BTreeSet<(String, String)> {
    let found = lines.iter().filter(|l| l["type"] == "finding");
    found
        .map(|f| {
            let text = |v: &Value| v.as_str().unwrap_or("").to_string();
            let scope = &f["scope"];
            let place = [
                scope["netns"].to_string(),
                text(&scope["listener"]),
                text(&scope["resource"]),
            ];
            (text(&f["cause"]), place.join(" "))
        })
        .collect()
}

/// The states in which the ends of a service spent most, as the fault of each recording demands; that the
/// parts of each account sum to its whole.
#[test]
fn the_account_says_where_the_time_went() {
    let told = [
        (
            "slow-reader",
            "client",
            "198.18.1.2:7000",
            &["peer_window"][..],
        ),
        ("slow-reader", "server", "0.0.0.0:7000", &["unread"]),
        (
            "accept-queue-overflow",
            "server",
            "0.0.0.0:7000",
            &["unaccepted"],
        ),
        ("cpu-contention", "server", "0.0.0.0:7000", &["unread"]),
        ("cpu-contention", "client", "198.18.1.2:7000", &["awaiting"]),
        (
            "path-loss",
            "client",
            "198.18.1.2:7000",
            &["path", "repair"],
        ),
        ("real-redis-slow", "server", "0.0.0.0:6379", &["owing"]),
        (
            "real-haproxy-path-drops-syn",
            "client",
            "10.7.2.1:8000",
            &["connecting"],
        ),
        (
            "real-socat-slow-reader",
            "client",
            "10.7.2.1:9000",
            &["peer_window"],
        ),
    ];
    for (name, role, at, states) in told {
        let lines = explained(&fixtures().join(format!("{name}.tar.xz")), name);
        let accounts: Vec<_> = lines.iter().filter(|l| l["type"] == "account").collect();
        let sum = |a: &Value, of: &[&str]| -> f64 {
            let spent = a["spent_s"].as_object().expect("states");
            let asked = spent
                .iter()
                .filter(|(k, _)| of.is_empty() || of.contains(&k.as_str()));
            asked.filter_map(|(_, s)| s.as_f64()).sum()
        };
        for account in &accounts {
            let total = account["total_s"].as_f64().expect("a total");
            let parts = sum(account, &[]);
            // Each is told with four digits.
            assert!(
                (parts - total).abs() <= total * 2e-3,
                "{name}: {parts} of {total} s"
            );
        }
        let account = accounts.iter().find(|a| a["role"] == role && a["at"] == at);
        let account = account.unwrap_or_else(|| panic!("{name} has no account of {at}"));
        let share = sum(account, states) / sum(account, &[]);
        assert!(
            share > 0.7,
            "{name}: {at} {role}: {states:?} are {share} of {account}"
        );
    }
}

/// What differs: cause, and how.
fn differing(old: &[Value], new: &[Value]) -> Vec<(String, How)> {
    let (old, new) = (findings(old), findings(new));
    let gone = old
        .difference(&new)
        .map(|(cause, _)| (cause.clone(), How::Gone));
    let come = new
        .difference(&old)
        .map(|(cause, _)| (cause.clone(), How::New));
    gone.chain(come).collect()
}

/// What this version finds in the recording of an archive.
fn explained(archive: &Path, name: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    unpack(archive, dir.path());
    let recording = format!("{name}.tcpwhy");
    let output = tcpwhy(&["explain", &recording, "--json"])
        .current_dir(dir.path())
        .output();
    let output = output.expect("tcpwhy runs");
    assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    json_lines(&output)
}

fn unpack(archive: &Path, into: &Path) {
    let unpacked = Command::new("tar")
        .arg("-xJf")
        .arg(archive)
        .arg("-C")
        .arg(into)
        .status();
    assert!(
        unpacked.expect("tar").success(),
        "unpacking {archive:?} (is xz-utils there?)"
    );
}

/// A recording of these, unpacked there.
pub fn unpacked(name: &str, into: &Path) -> PathBuf {
    unpack(&fixtures().join(format!("{name}.tar.xz")), into);
    into.join(format!("{name}.tcpwhy"))
}

/// What of the recording `name` is not as the list says.
fn unlisted(name: &str, listed: &[Difference]) -> Vec<String> {
    let dir = fixtures();
    let old = fs::read_to_string(dir.join(format!("{name}.json"))).expect("what 0.5 found");
    let old = old
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON of 0.5"));
    let new = explained(&dir.join(format!("{name}.tar.xz")), name);
    let mut listed: Vec<&Difference> = listed.iter().filter(|d| d.recording == name).collect();
    let mut wrong = Vec::new();
    let old: Vec<Value> = old.collect();
    for (cause, how) in differing(&old, &new) {
        let is = |d: &&Difference| d.cause == cause && d.how == how;
        match listed.iter().position(is) {
            Some(nth) => drop(listed.remove(nth)),
            None => wrong.push(format!("{name}: {cause} {how:?}")),
        }
    }
    let left = listed
        .iter()
        .map(|d| format!("{name}: {} is listed, and not so", d.cause));
    wrong.extend(left);
    wrong
}

#[test]
fn findings_are_those_of_0_5_or_listed_with_a_reason() {
    let text = fs::read_to_string(fixtures().join("differences.toml")).expect("the list");
    let listed: Differences = toml::from_str(&text).expect("a list of differences");
    let listed = listed.difference;
    assert!(
        listed.iter().all(|d| d.because.len() >= 20),
        "a reason says why"
    );

    let entries = fs::read_dir(fixtures()).expect("fixtures").flatten();
    let names =
        entries.filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".tar.xz")?.into()));
    let names: Vec<String> = names.collect();
    assert!(names.len() >= 75, "{} recordings", names.len());
    for d in &listed {
        assert!(
            names.contains(&d.recording),
            "{}: no such recording",
            d.recording
        );
    }
    let (todo, wrong) = (Mutex::new(names), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(name) = todo.lock().expect("names").pop() else {
                        return;
                    };
                    let of_name = unlisted(&name, &listed);
                    wrong.lock().expect("results").extend(of_name);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("results");
    assert!(
        wrong.is_empty(),
        "not as 0.5 found, and not listed:\n{}",
        wrong.join("\n")
    );
}
