//! A cgroup with a limit of CPU time or a share of it, v2 or v1, that exists as long as its value.

use std::fs;
use std::path::{Path, PathBuf};

use recording::Owner;

use crate::Error;

/// The time over which a quota is counted, µs; the kernel's default.
const PERIOD_US: u64 = 100_000;
/// How often the kernel is asked to remove a cgroup whose processes are just ending.
const TRIES: u32 = 100;

/// Of each second, what real-time tasks of a run may take: the kernel's own limit is 950,000.
const REAL_TIME_US: &str = "900000";

/// A cgroup of ours, removed when dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Makes a cgroup whose processes together get `quota` CPUs.
    pub(crate) fn new(name: &str, quota: f64) -> Result<Cgroup, Error> {
        let (cgroup, version) = Cgroup::make(name)?;
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

    /// Makes a cgroup that gets `weight` times the CPU time of another when both want it.
    pub(crate) fn weighted(name: &str, weight: u64) -> Result<Cgroup, Error> {
        let (cgroup, version) = Cgroup::make(name)?;
        match version {
            Version::Two => cgroup.write("cpu.weight", &(weight * 100).to_string())?,
            Version::One => {
                cgroup.write("cpu.shares", &(weight * 1024).to_string())?;
                // Where real-time tasks are scheduled by group, a new one allows none, and the files are
                // there. Of two runs at once the first gets the time; a hog of the other says why it ends.
                let _ = cgroup.write("cpu.rt_runtime_us", REAL_TIME_US);
            }
        }
        Ok(cgroup)
    }

    fn make(name: &str) -> Result<(Cgroup, Version), Error> {
        let (root, version) = cpu_root().ok_or_else(|| Error::Command {
            command: "limiting the CPU time of a server".into(),
            why: "no cgroup hierarchy of this host has the cpu controller".into(),
        })?;
        let dir = root.join(Owner::new_run().name(name));
        fs::create_dir(&dir).map_err(Error::io(format!("making {}", dir.display())))?;
        Ok((Cgroup { dir }, version))
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves a process into it.
    pub(crate) fn take_in(&self, pid: u32) -> Result<(), Error> {
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
    let remove = || {
        // The kernel gives real-time of a removed cgroup back some ms later: the next run may be sooner.
        let _ = fs::write(dir.join("cpu.rt_runtime_us"), "0");
        fs::remove_dir(dir)
    };
    for _ in 1..TRIES {
        if remove().is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    remove()
}

/// The directory of the cgroup that this process is in, of the hierarchy that limits CPU time.
pub(crate) fn own_cgroup() -> Option<PathBuf> {
    let (root, version) = cpu_root()?;
    let lines = fs::read_to_string("/proc/self/cgroup").ok()?;
    // Hierarchy, controllers, path; of v2 the hierarchy is 0 and has no names.
    let path = lines.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = if version == Version::Two {
            number == "0"
        } else {
            controllers.split(',').any(|c| c == "cpu")
        };
        ours.then(|| path.trim_start_matches('/').to_string())
    })?;
    Some(root.join(path))
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
