//! `tcpwhy-lab case`: the well-known investigations, step by step, with the command that does each today.

use std::env;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use view::wrap;

/// Prose is no wider than this.
const WIDTH: usize = 100;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Letter {
    /// A connection rate that falls to a fifth: SYNs meet TIME_WAIT sockets (illumos)
    #[value(name = "A", alias = "a")]
    A,
    /// A cache of 25 million entries in 256 buckets, and the CPU that walks it (illumos)
    #[value(name = "B", alias = "b")]
    B,
    /// Requests that wait 1.1 s, or 3.4 s (illumos)
    #[value(name = "C", alias = "c")]
    C,
    /// Two modes of throughput: a cluster's own connections get SYN cookies (Linux)
    #[value(name = "D", alias = "d")]
    D,
    /// A connect() that passes 65 million entries (FreeBSD)
    #[value(name = "E", alias = "e")]
    E,
}

/// Arguments of `tcpwhy-lab case`.
#[derive(Args, Debug)]
pub struct CaseArgs {
    #[arg(value_name = "CASE", value_enum)]
    letter: Letter,
    /// Write the recordings to this directory and keep them
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print as a page of the book
    #[arg(long, hide = true)]
    markdown: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    title: String,
    source: String,
    host: String,
    conclusion: String,
    /// Its twin on the kernel that runs.
    live: String,
    step: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// What the author did.
    did: String,
    /// And saw.
    saw: Option<String>,
    /// The commands of today, for a shell: one in a line.
    run: String,
    /// How to read what they print.
    tells: Option<String>,
}

impl Letter {
    fn text(self) -> &'static str {
        match self {
            Letter::A => include_str!("cases/a.toml"),
            Letter::B => include_str!("cases/b.toml"),
            Letter::C => include_str!("cases/c.toml"),
            Letter::D => include_str!("cases/d.toml"),
            Letter::E => include_str!("cases/e.toml"),
        }
    }

    fn read(self) -> Result<Case> {
        toml::from_str(self.text()).with_context(|| format!("case {self:?}"))
    }
}

/// Runs the verb: every step is printed before it is run, as it may take some seconds.
pub fn run(args: &CaseArgs, out: &mut dyn Write) -> Result<ExitCode> {
    let case = args.letter.read()?;
    let room = Room::new(args.keep.as_deref())?;
    let says = |text: &str, out: &mut dyn Write| -> Result<()> {
        let wrapped = if args.markdown {
            text.to_string()
        } else {
            wrap(text, WIDTH, WIDTH).join("\n")
        };
        writeln!(out, "{wrapped}\n")?;
        Ok(())
    };
    let head = if args.markdown { "# " } else { "" };
    writeln!(out, "{head}Case {:?}: {}\n", args.letter, case.title)?;
    says(&format!("{}. {}.", case.source, case.host), out)?;
    for (nth, step) in (1..).zip(&case.step) {
        let head = if args.markdown { "## " } else { "" };
        writeln!(out, "{head}{nth}. {}\n", step.did)?;
        if let Some(saw) = &step.saw {
            says(saw, out)?;
        }
        for line in step.run.lines() {
            writeln!(out, "    $ {line}")?;
        }
        out.flush()?;
        for line in room.run(&step.run)?.trim_end().lines() {
            writeln!(out, "{}", format!("    {line}").trim_end())?;
        }
        writeln!(out)?;
        if let Some(tells) = &step.tells {
            says(tells, out)?;
        }
    }
    let head = if args.markdown { "## " } else { "" };
    writeln!(out, "{head}What the author concluded\n")?;
    says(&case.conclusion, out)?;
    writeln!(out, "{head}On the kernel that runs here\n")?;
    says(&case.live, out)?;
    if let Some(dir) = &args.keep {
        says(&format!("The recordings are in {}.", dir.display()), out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the commands run: a directory of their own, with this build's programs before others.
struct Room {
    dir: PathBuf,
    is_ours: bool,
    path: std::ffi::OsString,
}

impl Room {
    fn new(keep: Option<&Path>) -> Result<Room> {
        let programs = env::current_exe().context("where this program is")?;
        let programs = programs.parent().context("its directory")?.to_path_buf();
        if !programs.join("tcpwhy").exists() {
            bail!(
                "tcpwhy is not beside tcpwhy-lab in {}: install it there",
                programs.display()
            );
        }
        let others = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([programs].into_iter().chain(env::split_paths(&others)))?;
        let dir = match keep {
            Some(dir) => dir.to_path_buf(),
            None => env::temp_dir().join(format!("tcpwhy-case-{}", std::process::id())),
        };
        std::fs::create_dir(&dir).with_context(|| format!("{}", dir.display()))?;
        Ok(Room {
            dir,
            is_ours: keep.is_none(),
            path,
        })
    }

    /// What a shell prints.
    fn run(&self, command: &str) -> Result<String> {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(&self.dir)
            .env("PATH", &self.path)
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .context("running sh")?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("{command}: {errors}");
        }
        for line in errors.lines().filter(|l| !l.starts_with("wrote ")) {
            writeln!(text, "{line}")?;
        }
        Ok(text)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_whole() {
        for letter in Letter::value_variants() {
            let case = letter.read().unwrap();
            assert!(case.step.len() >= 6, "{letter:?}");
            let last = case.step.last().map(|s| s.run.as_str());
            assert!(
                last.is_some_and(|run| run.starts_with("tcpwhy explain")),
                "{letter:?}"
            );
            assert!(case.conclusion.ends_with('.') && case.live.starts_with("`tcpwhy-lab lab run"));
        }
    }
}
