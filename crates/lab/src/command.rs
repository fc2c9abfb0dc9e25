//! Running a short command, with errors of one line that name it.

use std::process::{Command, Stdio};

use crate::Error;

/// Runs a command to its end and gives its standard output.
pub(crate) fn run<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<String, Error> {
    let words: Vec<&str> = words.into_iter().collect();
    let failed = |why: String| Error::Command {
        command: words.join(" "),
        why,
    };
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => failed(format!("{} is not installed", words[0])),
            _ => failed(e.to_string()),
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(
        one_line(&String::from_utf8_lossy(&output.stderr))
            .unwrap_or_else(|| output.status.to_string()),
    ))
}

/// The lines of a message that say something, as one; `None` when there are none.
pub(crate) fn one_line(message: &str) -> Option<String> {
    let lines: Vec<&str> = message
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}
