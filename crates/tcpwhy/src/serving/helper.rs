//! The process that explains what is recorded, as the recorder sees it: started, and started again when it has ended.

use std::env;
use std::ffi::OsString;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use observe::Identity;
use rustix::process::{Pid, Signal, kill_process};

/// It is started again after so long, and after twice as long each time that it did not last.
const AGAIN: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);

/// The process that explains.
pub struct Helper {
    args: Vec<OsString>,
    /// Whose rights it has; `None`: ours.
    user: Option<Identity>,
    child: Option<Child>,
    started: Instant,
    pause: Duration,
}

impl Helper {
    /// Starts it with these arguments, and the rights of `user` where one is given.
    pub fn start(args: Vec<OsString>, user: Option<Identity>) -> Result<Helper> {
        let mut helper = Helper {
            args,
            user,
            child: None,
            started: Instant::now(),
            pause: AGAIN,
        };
        helper.child = Some(helper.spawn()?);
        Ok(helper)
    }

    /// Starts it again where it has ended. Recording goes on meanwhile.
    pub fn care(&mut self) {
        if let Some(child) = &mut self.child {
            let Ok(Some(status)) = child.try_wait() else {
                return;
            };
            let lasted = self.started.elapsed();
            self.pause = if lasted >= MOST {
                AGAIN
            } else {
                (self.pause * 2).min(MOST)
            };
            self.child = None;
            cli::say(&format!(
                "tcpwhy: the process that explains has ended ({status}); recording goes on, and it is started again in {} s",
                self.pause.as_secs()
            ));
        }
        if self.child.is_none() && self.started.elapsed() >= self.pause {
            self.started = Instant::now();
            match self.spawn() {
                Ok(child) => self.child = Some(child),
                Err(why) => cli::say(&format!("tcpwhy: {why:#}")),
            }
        }
    }

    /// This thread ends with the process: it does, too.
    fn spawn(&self) -> Result<Child> {
        let program = env::current_exe().context("starting the process that explains")?;
        let mut command = Command::new(program);
        command.args(&self.args);
        if let Some(user) = &self.user {
            observe::runs_as(&mut command, user.clone());
        }
        let child = observe::ends_with_us(&mut command).spawn();
        child.context("starting the process that explains")
    }
}

impl Drop for Helper {
    /// Told to end, it writes down what it knows. Without CAP_KILL we may not tell another user's process,
    /// nor does the kernel when we end: who started us has to.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child
            && kill_process(Pid::from_child(child), Signal::TERM).is_ok()
        {
            let _ = child.wait();
        }
    }
}
