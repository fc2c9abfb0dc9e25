//! Precedence of a run over what else the host does: what a scenario plants is to be what it meets.
//!
//! On a host of two CPUs that compiles something meanwhile, a thread of a healthy scenario waits for
//! a CPU a third of its time, and a server that accepts at once does not. tcpwhy says so, and is
//! right; but it is not what the scenario is about.

use std::path::PathBuf;

use crate::plant::cgroup::{Cgroup, own_cgroup};

/// CPU time of the run against what else runs, as 1 is of any cgroup or session. Less than the
/// most there can be: kernel threads stay outside, and have to get on beside a scenario's hogs.
const WEIGHT: u64 = 10;

/// While it lives, this process and its children are in a cgroup with the greater share of the CPUs.
pub(crate) struct Shield {
    /// Where this process was before.
    home: PathBuf,
    _cgroup: Cgroup,
}

impl Shield {
    /// Moves this process; `None` where the host has no such cgroups, or this process may not.
    pub(crate) fn raise() -> Option<Shield> {
        let home = own_cgroup()?;
        let cgroup = Cgroup::weighted("run", WEIGHT).ok()?;
        cgroup.take_in(std::process::id()).ok()?;
        Some(Shield {
            home,
            _cgroup: cgroup,
        })
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // Where home has gone meanwhile, the cgroup stays until the next run removes it.
        let me = std::process::id().to_string();
        let _ = std::fs::write(self.home.join("cgroup.procs"), me);
    }
}
