//! How many files this process may have open: raised as far as it may, and put back for others.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits that we were started with.
static OWN: OnceLock<Rlimit> = OnceLock::new();

/// Raises the number of open files from what is meant for any program to what is allowed to this one: the
/// soft limit is low for the sake of programs that use select(), which we do not.
pub fn raise() {
    let own = *OWN.get_or_init(|| getrlimit(Resource::Nofile));
    if own.current != own.maximum {
        let most = Rlimit {
            current: own.maximum,
            maximum: own.maximum,
        };
        // Where it is refused, nothing is worse than before.
        let _ = setrlimit(Resource::Nofile, most);
    }
}

/// Has a program that is started by us, not for us, have the limits that we were started with.
pub fn with_own_limits(command: &mut Command) -> &mut Command {
    let Some(own) = OWN.get().copied() else {
        return command;
    };
    let put_back = move || setrlimit(Resource::Nofile, own).map_err(io::Error::from);
    // SAFETY: between fork and exec this makes one system call and nothing else.
    unsafe { command.pre_exec(put_back) }
}

/// How many files this process may have open.
pub fn files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What `explain` has open where there are two CPUs and one network namespace: measured, 118.
pub(crate) const ATTACHED: u64 = 118;

/// How many files recording that many network namespaces takes, with all parts: some 130 programs, maps
/// and files, 64 programs whose functions are named, clocks of each CPU, a packet socket for each namespace.
pub fn files_needed(namespaces: u64) -> u64 {
    let cpus = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    (200 + 2 * cpus + 2 * namespaces).next_multiple_of(256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_start_has_the_limits_that_we_had() {
        let own = getrlimit(Resource::Nofile);
        raise();
        assert_eq!(getrlimit(Resource::Nofile).current, own.maximum);
        let mut shell = Command::new("sh");
        let output = with_own_limits(shell.args(["-c", "ulimit -n"])).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let soft = own.current.map_or("unlimited".into(), |n| n.to_string());
        assert_eq!(text.trim(), soft);
    }
}
