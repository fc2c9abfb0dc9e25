//! Running a short command, with errors of one line that name it.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::Error;

/// Runs a command to its end and gives its standard output.
pub(crate) fn run<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<String, Error> {
    run_with_input(words, "")
}

/// The same with something on its standard input.
pub(crate) fn run_with_input<'a>(
    words: impl IntoIterator<Item = &'a str>,
    input: &str,
) -> Result<String, Error> {
    let words: Vec<&str> = words.into_iter().collect();
    let failed = |why: String| Error::Command {
        command: words.join(" "),
        why,
    };
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => failed(format!("{} is not installed", words[0])),
            _ => failed(e.to_string()),
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|e| failed(e.to_string()))?;
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
