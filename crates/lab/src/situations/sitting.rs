//! What one situation came to, what is said of it, and the files in which both stand: a line of JSON each.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::log::Met;
use super::situation::Situation;
use crate::Error;
use crate::recorder::Diagnosis;

/// What was planted and met.
const PLAYED: &str = "situations.jsonl";
/// What was said.
const SAID: &str = "said.jsonl";
/// Where the recordings are.
const RECORDINGS: &str = "recordings";

/// One situation, played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// What was planted.
    pub situation: Situation,
    /// The recorded namespaces, and whose each is: `client`, `router`, `proxy0`, `server`.
    pub hosts: Vec<(String, String)>,
    /// What its caller met.
    pub met: Met,
    /// Packets that the planted rules dropped or answered.
    pub dropped: u64,
    /// What the server took by itself beyond its work, s.
    pub own_s: f64,
    /// The run failed: why.
    pub failed: Option<String>,
    /// How long it took, s.
    pub seconds: f64,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The cause; of time that was not TCP's `not-tcp:` and whose.
    pub cause: String,
    /// `high`, `medium`, `low`; empty of what is no finding.
    pub confidence: String,
    /// Whose host it is on, where one is named.
    pub host: Option<String>,
    /// What it says first.
    pub says: String,
    /// Seconds that it claims.
    pub lost_s: Option<f64>,
}

/// What is said of a situation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The seed.
    pub seed: u64,
    /// Findings in their order.
    pub findings: Vec<Told>,
    /// Whose time it was, where it was not TCP's.
    pub not_tcp: Option<Told>,
    /// Causes that hold and cost too little.
    pub notes: Vec<String>,
    /// Causes that are ruled out.
    pub ruled_out: Vec<String>,
    /// Explaining failed: why.
    pub failed: Option<String>,
}

impl Said {
    /// Of what `explain --json` printed.
    pub(super) fn of(played: &Played, diagnosis: &Diagnosis) -> Said {
        let hosts: BTreeMap<&str, &str> = played
            .hosts
            .iter()
            .map(|(n, h)| (n.as_str(), h.as_str()))
            .collect();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let told = |finding: &Value| Told {
            cause: text(&finding["cause"]),
            confidence: text(&finding["confidence"]["level"]),
            host: finding["scope"]["netns"]["name"]
                .as_str()
                .and_then(|n| hosts.get(n))
                .map(|h| (*h).to_string()),
            says: text(&finding["title"]),
            lost_s: finding["lost_s"].as_f64(),
        };
        let summary = diagnosis.summary.as_ref();
        let not_tcp = summary.map(|s| &s["not_tcp"]).filter(|v| !v.is_null());
        let answers = summary.and_then(|s| s["causes"].as_array());
        let ruled_out = answers
            .into_iter()
            .flatten()
            .filter(|a| a["answer"] == "ruled-out");
        Said {
            seed: played.situation.seed,
            findings: diagnosis.findings.iter().map(told).collect(),
            not_tcp: not_tcp.map(|v| Told {
                cause: format!("not-tcp:{}", text(&v["whose"])),
                confidence: String::new(),
                host: None,
                says: text(&v["says"]),
                lost_s: None,
            }),
            notes: diagnosis.notes.iter().map(|n| text(&n["cause"])).collect(),
            ruled_out: ruled_out.map(|a| text(&a["cause"])).collect(),
            failed: None,
        }
    }

    /// Findings, and whose time it was where it was not TCP's.
    pub(super) fn all(&self) -> impl Iterator<Item = &Told> {
        self.findings.iter().chain(&self.not_tcp)
    }
}

/// The situations of a directory.
#[derive(Debug, Default)]
pub struct Sat {
    dir: PathBuf,
    /// By seed: the last of each.
    pub played: BTreeMap<u64, Played>,
    /// What is said of them.
    pub said: BTreeMap<u64, Said>,
}

impl Sat {
    /// Those of a directory, which need not be there yet.
    pub fn open(dir: &Path) -> Result<Sat, Error> {
        let played = lines::<Played>(&dir.join(PLAYED))?;
        let said = lines::<Said>(&dir.join(SAID))?;
        Ok(Sat {
            dir: dir.to_path_buf(),
            played: played.into_iter().map(|p| (p.situation.seed, p)).collect(),
            said: said.into_iter().map(|s| (s.seed, s)).collect(),
        })
    }

    /// Where the recording of a seed is.
    pub(super) fn recording(&self, seed: u64) -> PathBuf {
        self.dir.join(RECORDINGS).join(format!("{seed}.tcpwhy"))
    }

    /// Makes the directory.
    pub(super) fn make(&self) -> Result<(), Error> {
        let dir = self.dir.join(RECORDINGS);
        fs::create_dir_all(&dir).map_err(Error::io(format!("making {}", dir.display())))
    }

    pub(super) fn add(&mut self, played: Played) -> Result<(), Error> {
        append(&self.dir.join(PLAYED), &played)?;
        self.played.insert(played.situation.seed, played);
        Ok(())
    }

    pub(super) fn say(&mut self, said: Said) -> Result<(), Error> {
        append(&self.dir.join(SAID), &said)?;
        self.said.insert(said.seed, said);
        Ok(())
    }
}

/// The lines of a file; the last may have been cut off by whatever ended the run.
fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(Error::io(format!("reading {}", path.display())))?,
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parsed = whole.lines().enumerate().map(|(at, line)| {
        serde_json::from_str(line).map_err(Error::io(format!(
            "line {} of {}",
            at + 1,
            path.display()
        )))
    });
    parsed.collect()
}

fn append<T: Serialize>(path: &Path, line: &T) -> Result<(), Error> {
    let writing = || Error::io(format!("writing {}", path.display()));
    let text =
        serde_json::to_string(line).map_err(Error::io(format!("writing {}", path.display())))?;
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| writeln!(file, "{text}"))
        .map_err(writing())
}
