//! What a trial left behind: files, processes, BPF programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::trial::Ended;

/// Everything of the trial that is still there, in words.
pub fn left(ended: &Ended, programs_before: &BTreeSet<u64>) -> Vec<String> {
    let mut left = Vec::new();
    let files = entries(&ended.tmp).into_iter();
    left.extend(files.map(|path| path.display().to_string()));
    // Names of ours say whose they are.
    let ours = format!("tcpwhy-{}-", ended.pid);
    for place in ["/dev/shm", "/run", "/run/netns"] {
        let named = entries(Path::new(place)).into_iter();
        let named = named.filter(|p| p.file_name().is_some_and(|n| is_named(n, &ours)));
        left.extend(named.map(|path| path.display().to_string()));
    }
    left.extend(processes(&ended.mark).map(|pid| format!("process {pid}")));
    let programs = unheld_programs();
    let new = programs.difference(programs_before);
    left.extend(new.map(|id| format!("BPF program {id}")));
    left
}

fn is_named(name: &std::ffi::OsStr, prefix: &str) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(prefix))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.path()).collect()
}

/// Processes with a mark in their environment.
fn processes(mark: &str) -> impl Iterator<Item = u32> {
    let pids = entries(Path::new("/proc")).into_iter();
    let pids = pids.filter_map(|p| p.file_name()?.to_str()?.parse().ok());
    pids.filter(move |pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut words = environment.split(|b| *b == 0);
        words.any(|word| word == mark.as_bytes())
    })
}

/// BPF programs that no process holds, itself or through a link: a recorder's go with it.
pub fn unheld_programs() -> BTreeSet<u64> {
    let output = Command::new("bpftool")
        .args(["prog", "show", "--json"])
        .output();
    let output = output.expect("bpftool runs (make test installs it)");
    let all: Value = serde_json::from_slice(&output.stdout).expect("bpftool prints JSON");
    let all = all.as_array().into_iter().flatten();
    let mut ids: BTreeSet<u64> = all.filter_map(|p| p["id"].as_u64()).collect();
    for process in entries(Path::new("/proc")) {
        for file in entries(&process.join("fdinfo")) {
            let info = fs::read_to_string(file).unwrap_or_default();
            let held = info.lines().filter_map(|l| l.strip_prefix("prog_id:"));
            for id in held.filter_map(|id| id.trim().parse().ok()) {
                ids.remove(&id);
            }
        }
    }
    ids
}
