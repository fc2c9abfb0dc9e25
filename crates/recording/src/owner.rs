//! Who made a directory or a namespace: a name that says it, so that what a killed run left behind
//! can be told from what a live run is using.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every name that is given to something that may outlive its process begins so.
const PREFIX: &str = "tcpwhy";

/// One run: the process, and a number because a process may run several.
///
/// A pid alone is not enough: pids are used again, and a stranger that got ours would keep our
/// leftovers alive for ever. The pid and the time the process started are unique until reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// When the process started, in clock ticks since boot.
    started: u64,
    run: u32,
}

impl Owner {
    /// A new run of this process; no other run, of this or another process, is equal to it.
    pub fn new_run() -> Owner {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let pid = std::process::id();
        Owner {
            pid,
            started: started(pid).unwrap_or_default(),
            run: RUNS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The owner that a name speaks of; `None` for names that others gave.
    pub fn of(name: &str) -> Option<Owner> {
        let mut parts = name.splitn(5, '-');
        if parts.next() != Some(PREFIX) {
            return None;
        }
        let owner = Owner {
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
            run: parts.next()?.parse().ok()?,
        };
        parts
            .next()
            .is_some_and(|rest| !rest.is_empty())
            .then_some(owner)
    }

    /// The name of something of this run: `tcpwhy-PID-STARTED-RUN-THING`.
    pub fn name(&self, thing: &str) -> String {
        format!("{self}-{thing}")
    }

    /// Whether the process that made it still runs. Only processes of our pid namespace can be
    /// seen: what a container shares with its host needs another sign of life besides.
    pub fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}-{}-{}-{}", self.pid, self.started, self.run)
    }
}

/// When a process that still runs started (field 22 of /proc/PID/stat, clock ticks since boot).
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command, field 2, may hold spaces and parentheses; the last one ends it.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    // A zombie has given everything back already.
    (state != "Z" && state != "X").then_some(())?;
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_who_made_it() {
        let owner = Owner::new_run();
        assert_eq!(Owner::of(&owner.name("web-server")), Some(owner));
        assert!(owner.lives());
    }

    #[test]
    fn two_runs_of_one_process_differ() {
        assert_ne!(Owner::new_run(), Owner::new_run());
    }

    #[test]
    fn a_reused_pid_is_not_the_owner() {
        let mut owner = Owner::new_run();
        owner.started += 1;
        assert!(!owner.lives());
    }

    #[test]
    fn names_of_others_are_nobodys() {
        for name in [
            "",
            "tcpwhy",
            "tcpwhy-1",
            "tcpwhy-1-2-3",
            "tcpwhy-1-2-3-",
            "web-1-2-3-a",
            "tcpwhy-x-2-3-a",
        ] {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }
}
