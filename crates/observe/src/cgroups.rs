//! Control groups (v2): from a path or an id to the ids of the group and of all below it; what ids are called.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recording::tables::Cgroup;
use recording::{TableWriter, monotonic_ns};

use crate::error::Error;
use crate::runtimes;

/// As many as the programs in the kernel compare with.
const MOST: usize = 64;

/// The ids of the cgroups that `words` name and of all below each: a path, absolute under the
/// mount or within the hierarchy, or an id.
pub fn resolve(words: &[String]) -> Result<Vec<u64>, String> {
    let mut ids = Vec::new();
    if words.is_empty() {
        return Ok(ids);
    }
    let root = mount().ok_or("--cgroup needs cgroup v2, which is not mounted here")?;
    for word in words {
        let dir = match word.parse() {
            Ok(id) => with_id(&root, id),
            Err(_) => directory(&root, word),
        };
        let dir = dir.ok_or_else(|| {
            format!(
                "no cgroup {word:?} in {}; `systemd-cgls` lists them",
                root.display()
            )
        })?;
        below(&dir, &mut ids).map_err(|e| format!("{}: {e}", dir.display()))?;
        if ids.len() > MOST {
            return Err(format!(
                "--cgroup {word:?}: with those below it these are more than {MOST} cgroups, \
                 which is as many as can be asked for; name one deeper in the hierarchy"
            ));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Where the v2 hierarchy is mounted.
fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|l| l.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// `/sys/fs/cgroup/a/b`, `/a/b` as in /proc/PID/cgroup, or `a/b`.
fn directory(root: &Path, word: &str) -> Option<PathBuf> {
    let given = Path::new(word);
    let within = given.strip_prefix(root).unwrap_or(given);
    let within = within.strip_prefix("/").unwrap_or(within);
    let plain = |c| matches!(c, std::path::Component::Normal(_));
    let dir = root.join(within);
    (!word.is_empty() && within.components().all(plain) && dir.join("cgroup.procs").exists())
        .then_some(dir)
}

/// The directory of an id, which is the directory's inode number.
fn with_id(root: &Path, id: u64) -> Option<PathBuf> {
    let mut found = None;
    let mut look = |dir: &Path, ino| {
        if ino == id {
            found = Some(dir.to_path_buf());
        }
        found.is_none()
    };
    walk(root, &mut look).ok()?;
    found
}

fn below(dir: &Path, ids: &mut Vec<u64>) -> io::Result<()> {
    walk(dir, &mut |_, id| {
        ids.push(id);
        ids.len() <= MOST
    })
}

/// As many as are called by their paths, of one walk.
const MOST_NAMED: usize = 20_000;

/// What cgroups are called, as told before.
#[derive(Default)]
pub struct Cgroups {
    known: HashMap<u64, PathBuf>,
}

impl Cgroups {
    /// Writes the ids and paths of those not told before.
    pub fn sample(&mut self, rows: &mut TableWriter<Cgroup>) -> Result<(), Error> {
        let Some(root) = mount() else {
            return Ok(());
        };
        for (path, cgroup) in named(&root) {
            if self.known.get(&cgroup) == Some(&path) {
                continue;
            }
            rows.push(Cgroup {
                time_ns: monotonic_ns(),
                cgroup,
                path: path.to_string_lossy().as_ref().into(),
                name: runtimes::name(&path.to_string_lossy()).map(Into::into),
            })?;
            if self.known.len() > MOST_NAMED {
                self.known.clear();
            }
            self.known.insert(cgroup, path);
        }
        Ok(())
    }
}

/// Paths below a root, which itself is `/`, and their ids.
fn named(root: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let each = &mut |dir: &Path, id| {
        let within = dir.strip_prefix(root).unwrap_or(dir);
        found.push((Path::new("/").join(within), id));
        found.len() < MOST_NAMED
    };
    // One that cannot be read is left out: its ids stay numbers.
    let _ = walk(root, each);
    found
}

/// Calls `each` with every directory from `top` down, until it answers no.
fn walk(top: &Path, each: &mut impl FnMut(&Path, u64) -> bool) -> io::Result<()> {
    let mut left = vec![top.to_path_buf()];
    while let Some(dir) = left.pop() {
        // Groups come and go while we look.
        let Ok(meta) = fs::metadata(&dir) else {
            continue;
        };
        if !each(&dir, meta.ino()) {
            return Ok(());
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                left.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_called_by_their_paths_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("system.slice/web.service")).unwrap();
        let mut found = named(root.path());
        found.sort_unstable();
        let id = |path: &str| fs::metadata(root.path().join(path)).unwrap().ino();
        let expected = [
            ("/", id("")),
            ("/system.slice", id("system.slice")),
            ("/system.slice/web.service", id("system.slice/web.service")),
        ];
        assert_eq!(found, expected.map(|(path, id)| (path.into(), id)));
    }

    #[test]
    fn a_cgroup_is_found_by_path_and_by_id() {
        let Some(root) = mount() else {
            return;
        };
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let Some(own) = own.lines().find_map(|l| l.strip_prefix("0::")) else {
            return;
        };
        let Some(dir) = directory(&root, own) else {
            return; // a cgroup namespace hides it
        };
        let id = fs::metadata(&dir).unwrap().ino();
        let by_path = |p: &str| resolve(&[p.to_string()]);
        if let Ok(ids) = by_path(own) {
            assert!(ids.contains(&id));
            assert_eq!(by_path(dir.to_str().unwrap()), Ok(ids.clone()));
            assert_eq!(by_path(own.trim_start_matches('/')).is_ok(), own != "/");
            assert_eq!(by_path(&id.to_string()), Ok(ids));
        }
        for wrong in ["", "no/such/group", "../..", "18446744073709551615"] {
            assert!(by_path(wrong).is_err(), "{wrong}");
        }
    }
}
