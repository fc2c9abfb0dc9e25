//! What runs of the lab that were killed left behind, found by its name and removed.

use std::fs;
use std::io;
use std::path::Path;

use recording::{Owner, Scratch};

use crate::Error;
use crate::command::run;
use crate::netns::NETNS_DIR;
use crate::plant::cgroup;

/// A directory that is removed with its value, or by the next run of the lab.
pub(crate) fn temp_dir() -> Result<Scratch, Error> {
    Scratch::make(&std::env::temp_dir(), "recordings")
        .map_err(Error::io("making a directory for the recording"))
}

/// Removes what killed runs left behind, and says what it was. What belongs to a run that
/// lives, in this process or another, is not touched.
pub fn clean_leftovers() -> Result<Vec<String>, Error> {
    let mut removed = Vec::new();
    for name in orphans(Path::new(NETNS_DIR))? {
        match run(["ip", "netns", "del", &name]) {
            Ok(_) => removed.push(format!("namespace {name}")),
            // Another run may be cleaning up too.
            Err(_) if !Path::new(NETNS_DIR).join(&name).exists() => {}
            Err(e) => return Err(e),
        }
    }
    // A killed run's servers died with it, so its cgroups are empty.
    if let Some(root) = cgroup::cpu_hierarchy() {
        for name in orphans(&root)? {
            if cgroup::remove(&root.join(&name)).is_ok() {
                removed.push(format!("cgroup {name}"));
            }
        }
    }
    let swept = recording::sweep(&std::env::temp_dir());
    removed.extend(swept.iter().map(|dir| dir.display().to_string()));
    Ok(removed)
}

/// The entries of a directory that a run of the lab made which lives no more.
fn orphans(dir: &Path) -> Result<Vec<String>, Error> {
    let failed = || Error::io(dir.display().to_string());
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed())?,
    };
    let mut orphans = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed())?.file_name();
        let Some(name) = name.to_str() else { continue };
        if Owner::of(name).is_some_and(|owner| !owner.lives()) {
            orphans.push(name.to_string());
        }
    }
    Ok(orphans)
}
