//! What the commands are made of: only licences that we may pass on, and nothing of the lab in the
//! command that goes to a host that hurts.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, LicenseReq};

/// Licences that ask for no more than their text, which packages carry.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Those that ask for more, each named in NOTICE.
const NAMED: &[(&str, &str)] = &[("inferno", "CDDL-1.0")];

/// What a host is spared: the lab, the models, and what only they need.
const NOT_ON_A_HOST: &[&str] = &[
    "lab", "models", "synth", "plotters", "tun-rs", "toml", "rand", "arrow",
];

/// The package graph for Linux on both processors that we build for, as `cargo metadata` has it.
fn metadata() -> Value {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .args(["--manifest-path", manifest])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().unwrap().iter()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn every_licence_may_be_passed_on() {
    let metadata = metadata();
    let allowed = |name: &str, req: &LicenseReq| {
        let Some(id) = req.license.id() else {
            return false;
        };
        ALLOWED.contains(&id.name) || NAMED.contains(&(name, id.name))
    };
    let mut checked = 0;
    for package in packages(&metadata).filter(|p| !p["source"].is_null()) {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        let parsed = Expression::parse_mode(licence, spdx::ParseMode::LAX);
        let parsed = parsed.unwrap_or_else(|e| panic!("{name}: `{licence}`: {e}"));
        assert!(
            parsed.evaluate(|req| allowed(name, req)),
            "{name} is under `{licence}`: see whether we may pass that on, then name it here and in NOTICE"
        );
        checked += 1;
    }
    assert!(checked > 100, "{checked} packages are too few to be all");

    let notice = include_str!("../NOTICE");
    for (name, licence) in NAMED {
        assert!(
            notice.contains(name) && notice.contains(licence),
            "{name} is not in NOTICE"
        );
    }
}

#[test]
fn a_host_gets_nothing_of_the_lab() {
    let metadata = metadata();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|n| (text(n, "id"), n)).collect();
    let names: BTreeMap<&str, &str> = packages(&metadata)
        .map(|p| (text(p, "id"), text(p, "name")))
        .collect();
    let start = names.iter().find(|(_, name)| **name == "tcpwhy").unwrap().0;
    // What is linked: neither tests' dependencies nor the build's.
    let linked = |dep: &&Value| {
        let kinds = dep["dep_kinds"].as_array().unwrap();
        kinds.iter().any(|k| k["kind"].is_null())
    };
    let (mut seen, mut next) = (BTreeSet::new(), vec![*start]);
    while let Some(id) = next.pop() {
        if seen.insert(names[id]) {
            let deps = nodes[id]["deps"].as_array().unwrap().iter();
            next.extend(deps.filter(linked).map(|dep| text(dep, "pkg")));
        }
    }
    assert!(
        seen.contains("observe") && seen.contains("parquet"),
        "{seen:?}"
    );
    let there: Vec<&&str> = NOT_ON_A_HOST
        .iter()
        .filter(|name| seen.contains(**name))
        .collect();
    assert!(there.is_empty(), "linked into tcpwhy: {there:?}");
}
