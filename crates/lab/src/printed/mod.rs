//! The commands of tcpwhy's advice, run as they are printed, where all that they change is the lab's.

mod allowed;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

pub(crate) use allowed::Planted;
use allowed::{Shell, is_answer, missing, until_stopped};

use crate::command::one_line;
use crate::judge::cause;
use crate::outcome::{Kind, Printed};

/// What a command may take: `tcpwhy record --for 10s` and what reads it, on a busy machine.
const WITHIN: Duration = Duration::from_secs(90);
/// Then one that goes on until it is stopped is stopped, as with Ctrl-C.
const LONG_ENOUGH: Duration = Duration::from_secs(4);
/// What is kept of an error.
const MAX_STDERR: usize = 400;

/// Runs what the advice of findings has: of the first what changes something and, where a command takes it back,
/// that too and the first again; of all what only looks.
pub(crate) fn run_all(findings: &[Value], planted: &Planted, tcpwhy: &Path) -> Vec<Printed> {
    let mut done = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        for advice in finding["advice"].as_array().into_iter().flatten() {
            let Some(command) = advice["command"].as_str() else {
                continue;
            };
            let undo = advice["undo"].as_str();
            let kinds: &[(Kind, &str)] = match undo {
                None => &[(Kind::Look, command)],
                // What the advice of others does would be taken for that of the first.
                Some(_) if at > 0 => continue,
                Some(undo) if allowed::is_command_like(undo, command) => &[
                    (Kind::Fix, command),
                    (Kind::Undo, undo),
                    (Kind::Fix, command),
                ],
                Some(_) => &[(Kind::Fix, command)],
            };
            for (kind, command) in kinds {
                let printed = run(cause(finding), *kind, command, planted, tcpwhy);
                if !done.contains(&printed) {
                    done.push(printed);
                }
            }
        }
    }
    done
}

/// Runs one, unless it would change what is not the lab's.
fn run(cause: &str, kind: Kind, command: &str, planted: &Planted, tcpwhy: &Path) -> Printed {
    let mut printed = Printed {
        cause: cause.to_string(),
        kind,
        command: command.to_string(),
        rc: None,
        stderr: None,
        not_run: None,
        unknown: false,
        answer: None,
    };
    let shell = match Shell::of(command) {
        Ok(shell) => shell,
        Err(why) => return not_run(printed, why),
    };
    let looks = kind == Kind::Look;
    if let Err(why) = shell.may_run(looks, planted) {
        // What is to change something may be the host's; what is to look is known, or to be made so.
        printed.unknown = looks;
        return not_run(printed, why);
    }
    if let Some(program) = missing(&shell) {
        return not_run(printed, format!("{program} is not installed"));
    }
    let stopped = until_stopped(&shell);
    let at_most = if stopped { LONG_ENOUGH } else { WITHIN };
    let output = bash(command, at_most, tcpwhy);
    match output {
        Err(why) => not_run(printed, why),
        Ok((rc, stderr)) => {
            printed.rc = Some(rc);
            printed.answer = is_answer(&shell, rc).map(str::to_string);
            printed.stderr = one_line(&stderr).map(|line| line.chars().take(MAX_STDERR).collect());
            printed
        }
    }
}

fn not_run(printed: Printed, why: String) -> Printed {
    Printed {
        not_run: Some(why),
        ..printed
    }
}

/// As a person pastes it, with this tcpwhy first on the path, in a directory for what it writes: how it ended, and
/// what it said on standard error.
fn bash(command: &str, at_most: Duration, tcpwhy: &Path) -> Result<(i32, String), String> {
    let dir = crate::leftovers::temp_dir().map_err(|e| e.to_string())?;
    let mut path = OsString::new();
    if let Some(beside) = tcpwhy.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        path.push(beside);
        path.push(":");
    }
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .args(["--preserve-status", "--signal=INT", "--kill-after=20"])
        .arg(at_most.as_secs().to_string())
        .args(["bash", "-c", command])
        .env("PATH", path)
        .current_dir(dir.path())
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|e| format!("timeout: {e}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    // A signal ended it.
    Ok((output.status.code().unwrap_or(-1), stderr))
}
