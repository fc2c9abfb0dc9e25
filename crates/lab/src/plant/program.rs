//! Programs of the distribution that take part: nginx, redis, postgres, each in a node, with a directory of its own.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::BUDGET;
use crate::netns::Netns;
use crate::process::Process;
use crate::scenario::ProgramSpec;
use crate::{Error, Stop};

/// Where Debian has programs that a shell of root does not look for.
const ELSEWHERE: &[&str] = &["/usr/sbin", "/usr/local/sbin"];
/// Below these a directory per version has them.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Whose processes are nobody's.
const DEFAULT_USER: &str = "root";

/// A program that runs, and all that it has started.
#[derive(Debug)]
pub(crate) struct Program {
    process: Process,
    port: Option<u16>,
    ready: Option<String>,
    /// What is run once it is ready, with where that logs.
    first: Option<(Command, PathBuf)>,
}

impl Program {
    /// Writes what the program reads, below `dir`, and runs what it wants to be run before it.
    pub(crate) fn prepare(
        spec: &ProgramSpec,
        dir: &Path,
        netns: &Netns,
        stop: &Stop,
    ) -> Result<(), Error> {
        let dir = place(spec, dir);
        let writing = || Error::io(format!("writing the files of {}", spec.name));
        let owner = owner(spec)?;
        fs::create_dir(&dir).map_err(writing())?;
        for (name, text) in &spec.files {
            let text = filled(text, &dir);
            fs::write(dir.join(name), text).map_err(writing())?;
        }
        for (name, bytes) in &spec.blobs {
            let file = fs::File::create(dir.join(name));
            file.and_then(|f| f.set_len(*bytes)).map_err(writing())?;
        }
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).map_err(writing())?;
        chown(&dir, Some(owner), None).map_err(writing())?;
        if !spec.prepare.is_empty() {
            let command = command(spec, &spec.prepare, &dir, netns)?;
            let name = format!("preparing {}", spec.name);
            let mut process = Process::start_logged(name, command, &dir.join("prepare.log"))?;
            process.finish(stop, BUDGET)?;
        }
        Ok(())
    }

    /// Starts it.
    pub(crate) fn start(spec: &ProgramSpec, dir: &Path, netns: &Netns) -> Result<Program, Error> {
        let dir = place(spec, dir);
        let command = command(spec, &spec.command, &dir, netns)?;
        let log = dir.join("log");
        let first = match &spec.first[..] {
            [] => None,
            words => Some((
                self::command(spec, words, &dir, netns)?,
                dir.join("first.log"),
            )),
        };
        Ok(Program {
            process: Process::start_logged(format!("program {}", spec.name), command, &log)?,
            port: spec.port,
            ready: spec.ready.clone(),
            first,
        })
    }

    /// Waits until it listens and has said that it is ready, if it says so, and then for what is run first.
    pub(crate) fn wait_ready(&mut self, stop: &Stop) -> Result<(), Error> {
        let what = format!("{} listening", self.process.name());
        stop.wait(&what, BUDGET, || {
            self.process.check_runs()?;
            let listens = self
                .port
                .is_none_or(|port| listens(self.process.pid(), port));
            let says = |text: &String| self.process.log().contains(text.as_str());
            let is_ready = listens && self.ready.as_ref().is_none_or(says);
            Ok(is_ready.then_some(()))
        })?;
        if let Some((command, log)) = self.first.take() {
            let name = format!("what is run first of {}", self.process.name());
            Process::start_logged(name, command, &log)?.finish(stop, BUDGET)?;
        }
        Ok(())
    }

    /// Fails when it has ended, unless it is one that ends by itself.
    pub(crate) fn check_runs(&mut self) -> Result<(), Error> {
        match self.port {
            Some(_) => self.process.check_runs(),
            None => self.process.check_well(),
        }
    }

    /// Its processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        // The first waits for the program, and is none of it.
        let mut pids = vec![self.process.pid()];
        let processes = processes();
        let mut at = 0;
        while let Some(parent) = pids.get(at).copied() {
            pids.extend(processes.iter().filter(|p| p.1 == parent).map(|p| p.0));
            at += 1;
        }
        pids.split_off(1)
    }

    /// Ends it: the kernel ends whatever it has started with the first of its namespace of processes.
    pub(crate) fn end(mut self, stop: &Stop) -> Result<(), Error> {
        let first = self
            .pids()
            .first()
            .and_then(|pid| Pid::from_raw(*pid as i32));
        if let Some(first) = first {
            // It may have ended by itself just now.
            let _ = kill_process(first, Signal::KILL);
        }
        self.process.wait_end(stop, BUDGET)
    }
}

/// The directory of a program.
fn place(spec: &ProgramSpec, dir: &Path) -> PathBuf {
    dir.join(&spec.name)
}

fn filled(text: &str, dir: &Path) -> String {
    text.replace("{dir}", &dir.to_string_lossy())
}

/// A command of a program, in its node, under its user, in namespaces of processes and of System V memory of its
/// own: whatever it leaves behind goes with it.
fn command(
    spec: &ProgramSpec,
    words: &[String],
    dir: &Path,
    netns: &Netns,
) -> Result<Command, Error> {
    let program = find(&words[0]).ok_or_else(|| Error::Command {
        command: words[0].clone(),
        why: format!(
            "not installed; the scenario needs it: apt-get install {}",
            spec.package
        ),
    })?;
    let user = spec.user.as_deref().unwrap_or(DEFAULT_USER);
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "nsenter"])
        .arg(format!("--net={}", netns.path().display()))
        .args(["unshare", "--pid", "--ipc", "--fork", "--kill-child=KILL"])
        .args(["setpriv", "--pdeathsig", "keep", "--init-groups"])
        .args(["--reuid", user])
        .args(["--regid", &group(user)?.to_string()])
        .arg(program)
        .args(words[1..].iter().map(|word| filled(word, dir)))
        .current_dir(dir);
    Ok(command)
}

/// Where a program is.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    dirs.extend(ELSEWHERE.iter().map(PathBuf::from));
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    dirs.extend(versions.map(|version| version.path().join("bin")));
    dirs.into_iter()
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// The number of the user of a program.
fn owner(spec: &ProgramSpec) -> Result<u32, Error> {
    let user = spec.user.as_deref().unwrap_or(DEFAULT_USER);
    passwd(user, 2)
}

fn group(user: &str) -> Result<u32, Error> {
    passwd(user, 3)
}

/// A number of a line of /etc/passwd.
fn passwd(user: &str, column: usize) -> Result<u32, Error> {
    let text = fs::read_to_string("/etc/passwd").map_err(Error::io("reading /etc/passwd"))?;
    let mut users = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let of_user = users.find(|columns| columns[0] == user);
    let number = of_user.and_then(|columns| columns.get(column)?.parse().ok());
    number.ok_or_else(|| Error::Command {
        command: format!("running as {user}"),
        why: "there is no such user".to_string(),
    })
}

/// Whether somebody listens on a port in the network namespace of a process.
fn listens(pid: u32, port: u16) -> bool {
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{pid}/net/{table}"));
    let tables = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    // Number, local address and port, remote ones, state: 0A is LISTEN.
    let wanted = format!(":{port:04X}");
    tables.iter().flat_map(|table| table.lines()).any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.get(1).is_some_and(|at| at.ends_with(&wanted)) && columns.get(3) == Some(&"0A")
    })
}

/// All processes of the host, each with its parent.
fn processes() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may hold anything; the state and the parent follow it.
        let (_, rest) = stat.rsplit_once(')')?;
        Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?))
    };
    pids.filter_map(parent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_users_are_found_or_not() {
        assert!(find("sh").is_some() && find("no-such-program").is_none());
        assert_eq!((passwd("root", 2).unwrap(), group("root").unwrap()), (0, 0));
        let error = passwd("no-such-user", 2).unwrap_err().to_string();
        assert!(error.contains("no-such-user"), "{error}");
    }

    #[test]
    fn who_listens_and_who_is_whose_is_read_from_the_kernel() {
        let me = std::process::id();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(me, port));
        drop(listener);
        assert!(!listens(me, port));
        let parent = std::os::unix::process::parent_id();
        assert!(processes().contains(&(me, parent)));
    }
}
