//! Driving the tcpwhy binary as a user does: `record` in the background, then `explain`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::process::Process;
use crate::{Error, Stop};

/// How long starting, sealing or explaining a recording of a few seconds may take, on a machine that
/// is busy or emulated.
const WORK: Duration = Duration::from_secs(120);

/// What to record, and where to.
pub(crate) struct Recorded<'a> {
    pub(crate) recording: &'a Path,
    /// The whole host when there are none.
    pub(crate) namespaces: &'a [&'a str],
    /// Parts beyond those that `explain` records.
    pub(crate) parts: &'a [String],
    /// Other options of `tcpwhy record`.
    pub(crate) options: &'a [String],
    /// The recorder ends by itself after it, should nobody be left to end it.
    pub(crate) at_most: Duration,
}

/// A recording that is being made.
pub(crate) struct Recorder {
    process: Process,
}

impl Recorder {
    /// Starts to record, and waits until it has begun.
    pub(crate) fn start(tcpwhy: &Path, what: &Recorded, stop: &Stop) -> Result<Recorder, Error> {
        Recorder::begin(tcpwhy, what)?.begun(stop)
    }

    /// Starts to record, without waiting for it: another may start meanwhile.
    pub(crate) fn begin(tcpwhy: &Path, what: &Recorded) -> Result<Starting, Error> {
        let ready = what.recording.with_extension("ready");
        let mut parts = vec!["explain"];
        parts.extend(what.parts.iter().map(String::as_str));
        let mut command = Command::new(tcpwhy);
        command
            .arg("record")
            .arg("-o")
            .arg(what.recording)
            .args(["--for", &format!("{}s", what.at_most.as_secs().max(1))])
            .args(["--with", &parts.join(",")])
            .arg("--ready-file")
            .arg(&ready)
            .args(what.options);
        if !what.namespaces.is_empty() {
            command.args(["--netns", &what.namespaces.join(",")]);
        }
        let process = Process::start("tcpwhy record", command)?;
        Ok(Starting { process, ready })
    }

    /// Ends the recording as Ctrl-C does.
    pub(crate) fn finish(mut self, stop: &Stop) -> Result<(), Error> {
        self.process.end(Signal::INT, stop, WORK).map(drop)
    }
}

/// A recorder that has been started.
pub(crate) struct Starting {
    process: Process,
    /// The file that it makes when it has begun.
    ready: PathBuf,
}

impl Starting {
    /// Waits until it has begun to record.
    pub(crate) fn begun(mut self, stop: &Stop) -> Result<Recorder, Error> {
        stop.wait("the start of the recording", WORK, || {
            if self.ready.exists() {
                return Ok(Some(()));
            }
            self.process.check_runs().map(|()| None)
        })?;
        // It has said what it had to say; a file that cannot be removed does no harm.
        let _ = std::fs::remove_file(&self.ready);
        Ok(Recorder {
            process: self.process,
        })
    }
}

/// What tcpwhy says about a recording.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// The findings, first the one that matters most.
    pub(crate) findings: Vec<Value>,
    /// What holds and is too little for a finding.
    pub(crate) notes: Vec<Value>,
    /// What is said of each service's time.
    pub(crate) accounts: Vec<Value>,
    /// The last line: what was looked at, and the recording's health.
    pub(crate) summary: Option<Value>,
}

/// Asks tcpwhy for the reasons, as JSON.
pub(crate) fn diagnose(tcpwhy: &Path, recording: &Path, stop: &Stop) -> Result<Diagnosis, Error> {
    let mut diagnosis = Diagnosis::default();
    for line in explain(tcpwhy, recording, &["--json"], stop)? {
        let value: Value = serde_json::from_str(&line).map_err(|e| Error::Command {
            command: "tcpwhy explain --json".to_string(),
            why: format!("printed a line that is not JSON ({e}): {line}"),
        })?;
        match value["type"].as_str() {
            Some("finding") => diagnosis.findings.push(value),
            Some("note") => diagnosis.notes.push(value),
            Some("account") => diagnosis.accounts.push(value),
            Some("summary") => diagnosis.summary = Some(value),
            _ => {}
        }
    }
    Ok(diagnosis)
}

/// Asks tcpwhy for the reasons, as it tells them to a person; without how to read more of a recording that
/// will be gone.
pub(crate) fn explanation(tcpwhy: &Path, recording: &Path, stop: &Stop) -> Result<String, Error> {
    let mut lines = explain(tcpwhy, recording, &[], stop)?;
    let more = lines
        .iter()
        .rposition(|l| l.starts_with("Everything behind it"));
    lines.truncate(more.unwrap_or(lines.len()));
    Ok(lines.join("\n"))
}

fn explain(
    tcpwhy: &Path,
    recording: &Path,
    options: &[&str],
    stop: &Stop,
) -> Result<Vec<String>, Error> {
    let mut command = Command::new(tcpwhy);
    command.arg("explain").arg(recording).args(options);
    Process::start("tcpwhy explain", command)?.finish(stop, WORK)
}

/// Asks tcpwhy what differs between recordings.
pub(crate) fn compare(
    tcpwhy: &Path,
    recordings: &[PathBuf],
    options: &[&str],
    stop: &Stop,
) -> Result<String, Error> {
    let mut command = Command::new(tcpwhy);
    command.arg("compare").args(recordings).args(options);
    let lines = Process::start("tcpwhy compare", command)?.finish(stop, WORK)?;
    Ok(lines.join("\n"))
}

/// Where the recordings of a run go.
pub(crate) struct Shelf {
    dir: PathBuf,
    /// Removes the directory when nobody wants to keep it.
    _temporary: Option<recording::Scratch>,
}

impl Shelf {
    /// In `keep`, which is made; or in a directory that goes with the value.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Shelf, Error> {
        if let Some(dir) = keep {
            std::fs::create_dir_all(dir).map_err(Error::io(dir.display().to_string()))?;
            return Ok(Shelf {
                dir: dir.to_path_buf(),
                _temporary: None,
            });
        }
        let temporary = crate::leftovers::temp_dir()?;
        Ok(Shelf {
            dir: temporary.path().to_path_buf(),
            _temporary: Some(temporary),
        })
    }

    /// The path of a recording that is yet to be made.
    pub(crate) fn recording(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.dir.join(format!("{name}.tcpwhy"));
        if !path.exists() {
            Ok(path)
        } else {
            Err(Error::Exists(path))
        }
    }
}
