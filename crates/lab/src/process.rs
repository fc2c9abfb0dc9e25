//! A program the lab started: watched while it runs, killed when its value is dropped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::one_line;
use crate::{Error, Stop};

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    /// How errors call it.
    name: String,
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    /// Where all that it prints goes instead.
    log: Option<PathBuf>,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`. It gets a process group of its own: Ctrl-C on the terminal is for the
    /// lab, which then ends its programs in the right order.
    pub(crate) fn start(name: impl Into<String>, mut command: Command) -> Result<Process, Error> {
        let name = name.into();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!(
                "starting {}",
                command.get_program().to_string_lossy()
            )))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            // What cannot be read is not worth failing for: it only words an error.
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Ok(Process {
            name,
            child,
            lines,
            errors: Some(errors),
            log: None,
            ended: None,
        })
    }

    /// The same of a program that prints nothing that the lab reads: all of it goes to a file, of which
    /// errors tell the end.
    pub(crate) fn start_logged(
        name: impl Into<String>,
        mut command: Command,
        log: &Path,
    ) -> Result<Process, Error> {
        let name = name.into();
        let failed = || Error::io(format!("starting {name}"));
        let out = File::create(log).map_err(failed())?;
        let err = out.try_clone().map_err(failed())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(failed())?;
        Ok(Process {
            name,
            child,
            lines: channel().1,
            errors: None,
            log: Some(log.to_path_buf()),
            ended: None,
        })
    }

    /// What it has printed so far into its file.
    pub(crate) fn log(&self) -> String {
        let bytes = self.log.as_ref().and_then(|log| std::fs::read(log).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    /// How errors call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended; never blocks.
    fn poll(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.ended.is_none() {
            self.ended = self
                .child
                .try_wait()
                .map_err(Error::io(format!("waiting for {}", self.name)))?;
        }
        Ok(self.ended)
    }

    /// Fails when it has ended, with its own words.
    pub(crate) fn check_runs(&mut self) -> Result<(), Error> {
        match self.poll()? {
            None => Ok(()),
            Some(status) => Err(self.failure(status)),
        }
    }

    /// Fails when it has ended with an error.
    pub(crate) fn check_well(&mut self) -> Result<(), Error> {
        match self.poll()? {
            Some(status) if !status.success() => Err(self.failure(status)),
            _ => Ok(()),
        }
    }

    /// Waits for the line that says it is ready.
    pub(crate) fn wait_ready(&mut self, stop: &Stop, budget: Duration) -> Result<(), Error> {
        let what = format!("{} getting ready", self.name);
        stop.wait(&what, budget, || match self.lines.try_recv() {
            Ok(line) if line == "ready" => Ok(Some(())),
            Ok(_) | Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                // Its output is closed, so it ends; the status may take a moment more.
                let status = self.child.wait().map_err(Error::io(&self.name))?;
                self.ended = Some(status);
                Err(self.failure(status))
            }
        })
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // Once waited for, the pid may be somebody else's.
        if self.ended.is_none()
            && let Some(pid) = Pid::from_raw(self.child.id() as i32)
        {
            // It may have ended by itself just now.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end and gives the lines it printed.
    pub(crate) fn finish(&mut self, stop: &Stop, budget: Duration) -> Result<Vec<String>, Error> {
        let what = format!("the end of {}", self.name);
        let status = stop.wait(&what, budget, || self.poll())?;
        if !status.success() {
            return Err(self.failure(status));
        }
        // The sender goes when the program's output ends, and the program has ended.
        Ok(self.lines.iter().collect())
    }

    /// Waits for its end, however it ends.
    pub(crate) fn wait_end(&mut self, stop: &Stop, budget: Duration) -> Result<(), Error> {
        let what = format!("the end of {}", self.name);
        stop.wait(&what, budget, || self.poll()).map(drop)
    }

    /// Asks it to end with `signal`, and then as [`Process::finish`].
    pub(crate) fn end(
        &mut self,
        signal: Signal,
        stop: &Stop,
        budget: Duration,
    ) -> Result<Vec<String>, Error> {
        self.signal(signal);
        self.finish(stop, budget)
    }

    fn failure(&mut self, status: ExitStatus) -> Error {
        let text = self
            .errors
            .take()
            .and_then(|t| t.join().ok())
            .unwrap_or_else(|| last_lines(&self.log()));
        Error::Command {
            command: self.name.clone(),
            why: one_line(&text).unwrap_or_else(|| status.to_string()),
        }
    }
}

/// The end of what a program printed.
fn last_lines(text: &str) -> String {
    const LINES: usize = 3;
    let mut lines: Vec<&str> = text.lines().rev().take(LINES).collect();
    lines.reverse();
    lines.join("\n")
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Both fail only when it has ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
