//! A command that is recorded, and does not outlive the recorder.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

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
