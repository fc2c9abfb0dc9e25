//! A command that is recorded, and does not outlive the recorder.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Gid, Signal, Uid, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

/// Has the kernel send SIGTERM to `command` when the thread that spawns it ends, so that one killed by
/// SIGKILL leaves nothing running. Spawn it from a thread that lives as long as the process.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // Whoever started it may have ended before.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes three system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(bind) }
}

/// Whose rights a command has.
#[derive(Clone, Debug)]
pub struct Identity {
    /// His user.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// All his groups.
    pub groups: Vec<u32>,
}

/// Gives `command` these rights. What binds it to us comes after this: to change rights looses it.
pub fn runs_as(command: &mut Command, identity: Identity) -> &mut Command {
    let groups: Vec<Gid> = identity
        .groups
        .iter()
        .map(|gid| Gid::from_raw(*gid))
        .collect();
    let change = move || {
        set_thread_groups(&groups)?;
        set_thread_gid(Gid::from_raw(identity.gid))?;
        set_thread_uid(Uid::from_raw(identity.uid))?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes three system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(change) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    #[ignore = "needs root: make test-live"]
    fn it_has_the_rights_of_who_is_named_and_ends_with_us_all_the_same() {
        let identity = Identity {
            uid: 65_534,
            gid: 65_533,
            groups: vec![65_533, 7],
        };
        let start = move || {
            let mut command = Command::new("sh");
            let says = "printf '%s,%s,%s' $(id -u) $(id -g) \"$(id -G)\"; exec sleep 600";
            let command = runs_as(command.args(["-c", says]), identity);
            let mut child = ends_with_us(command)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = [0; 64];
            let n = child.stdout.as_mut().unwrap().read(&mut said).unwrap();
            (child, String::from_utf8_lossy(&said[..n]).into_owned())
        };
        let (mut child, said) = std::thread::spawn(start).join().unwrap();
        assert_eq!(said, "65534,65533,65533 7");
        let signal = std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap());
        assert_eq!(signal, Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn it_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            let command = ends_with_us(command.arg("600")).stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        // Its end of the pipe is closed by its end.
        let mut none = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut none)
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(Signal::TERM.as_raw())
        );
    }
}
