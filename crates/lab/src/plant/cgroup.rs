//! A cgroup with a limit of CPU time, v2 or v1, that exists as long as its value does.

use std::fs;
use std::path::{Path, PathBuf};

use recording::Owner;

use crate::Error;

/// The time over which a quota is counted, µs; the kernel's default.
const PERIOD_US: u64 = 100_000;
/// How often the kernel is asked to remove a cgroup whose processes are just ending.
const TRIES: u32 = 100;

/// A cgroup of ours, removed when dropped.
#[derive(Debug)]
pub(super) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Makes a cgroup whose processes together get `quota` CPUs.
    pub(super) fn new(name: &str, quota: f64) -> Result<Cgroup, Error> {
        let (root, version) = cpu_root().ok_or_else(|| Error::Command {
            command: "limiting the CPU time of a server".into(),
            why: "no cgroup hierarchy of this host has the cpu controller".into(),
        })?;
        let dir = root.join(Owner::new_run().name(name));
        fs::create_dir(&dir).map_err(Error::io(format!("making {}", dir.display())))?;
        let cgroup = Cgroup { dir };
        let quota_us = (quota * PERIOD_US as f64) as u64;
        match version {
            Version::Two => cgroup.write("cpu.max", &format!("{quota_us} {PERIOD_US}"))?,
            Version::One => {
                cgroup.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                cgroup.write("cpu.cfs_quota_us", &quota_us.to_string())?;
            }
        }
        Ok(cgroup)
    }

    /// Moves a process into it.
    pub(super) fn take_in(&self, pid: u32) -> Result<(), Error> {
        self.write("cgroup.procs", &pid.to_string())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.dir.join(file);
        fs::write(&path, value).map_err(Error::io(format!("writing {}", path.display())))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(e) = remove(&self.dir) {
            eprintln!(
                "tcpwhy lab: removing {}: {e}; the next run of the lab tries again",
                self.dir.display()
            );
        }
    }
}

/// Removes a cgroup. A process that was killed a moment ago may still be in it.
pub(crate) fn remove(dir: &Path) -> std::io::Result<()> {
    for _ in 1..TRIES {
        if fs::remove_dir(dir).is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    fs::remove_dir(dir)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    One,
    Two,
}

/// Where cgroups that limit CPU time are made.
pub(crate) fn cpu_hierarchy() -> Option<PathBuf> {
    cpu_root().map(|(root, _)| root)
}

fn cpu_root() -> Option<(PathBuf, Version)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (path, kind, options) = (words.nth(1)?, words.next()?, words.next()?);
        let root = PathBuf::from(path);
        match kind {
            // A child has the controller only when the root passes it on.
            "cgroup2" => {
                let passed = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
                let cpu = passed.split_whitespace().any(|c| c == "cpu");
                cpu.then_some((root, Version::Two))
            }
            "cgroup" => options
                .split(',')
                .any(|o| o == "cpu")
                .then_some((root, Version::One)),
            _ => None,
        }
    });
    let mut mounted: Vec<_> = mounted.collect();
    mounted.sort_by_key(|(_, version)| *version == Version::One);
    mounted.into_iter().next()
}
