//! What one situation came to, and the file in which that stands: a line of JSON each.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::harm::Felt;
use super::situation::Situation;
use crate::Error;

/// The file in the directory of an exam.
const FILE: &str = "sittings.jsonl";

/// One situation, seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    /// What was planted.
    pub situation: Situation,
    /// Its faults, and what they cost.
    pub faults: Vec<Fault>,
    /// What tcpwhy found, in its order.
    pub findings: Vec<Found>,
    /// What it found in the same situation without the faults; `None` where there are none to be left out.
    pub without: Option<Vec<Found>>,
    /// The run failed: why.
    pub failed: Option<String>,
    /// How long it took, s.
    pub seconds: f64,
}

/// A fault of a situation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The part that it is.
    pub part: usize,
    /// Id of its cause.
    pub cause: String,
    /// Ids of the causes that are right from where it was recorded; none where it cannot be told from there.
    pub right: Vec<String>,
    /// Those that may be told too: another way of telling the same.
    pub may: Vec<String>,
    /// What each of its clients lost.
    pub felt: Vec<Felt>,
    /// What tcpwhy answers of its cause: `found`, `ruled-out`, `cannot-tell`.
    pub answer: Option<String>,
}

impl Fault {
    /// What its clients lost in all, s.
    pub fn lost_s(&self) -> f64 {
        self.felt.iter().map(Felt::lost_s).sum()
    }

    /// How severe it is to the client that it hurts most: 1 is where a user begins to notice.
    pub fn significance(&self) -> f64 {
        self.felt.iter().map(Felt::significance).fold(0.0, f64::max)
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The cause.
    pub cause: String,
    /// `high`, `medium`, `low`.
    pub confidence: String,
    /// Seconds that it claims.
    pub lost_s: Option<f64>,
    /// The part in whose nodes it is; `None` of the whole host.
    pub part: Option<usize>,
    /// What it says first.
    pub title: String,
    /// What it says wrong about whose fault it is.
    pub wrong_owner: Vec<String>,
}

/// The sittings of a directory.
#[derive(Debug)]
pub struct Sittings {
    path: PathBuf,
    /// Those that are there; of one seed the last that did not fail.
    pub all: Vec<Sitting>,
    /// The last line was torn, and is gone.
    pub torn: bool,
}

impl Sittings {
    /// Opens those of a directory; the directory need not be there yet.
    pub fn open(dir: &Path) -> Result<Sittings, Error> {
        let path = dir.join(FILE);
        let mut text = Vec::new();
        match File::open(&path) {
            Ok(mut file) => file.read_to_end(&mut text).map(drop),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
        .map_err(Error::io(format!("reading {}", path.display())))?;
        let whole = text
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let mut sittings = Sittings {
            path,
            all: Vec::new(),
            torn: whole < text.len(),
        };
        let lines = text[..whole].split(|b| *b == b'\n');
        for (number, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let sitting = serde_json::from_slice(line).map_err(Error::io(format!(
                "line {} of {}",
                number + 1,
                sittings.path.display()
            )))?;
            sittings.keep(sitting);
        }
        if sittings.torn {
            let file = OpenOptions::new().write(true).open(&sittings.path);
            file.and_then(|file| file.set_len(whole as u64))
                .map_err(Error::io(format!("mending {}", sittings.path.display())))?;
        }
        Ok(sittings)
    }

    /// Whether a seed has been seen: one whose run failed has not.
    pub fn has(&self, seed: u64) -> bool {
        let mut of_seed = self.all.iter().filter(|s| s.situation.seed == seed);
        of_seed.any(|s| s.failed.is_none())
    }

    /// Adds one.
    pub fn append(&mut self, sitting: Sitting) -> Result<(), Error> {
        let writing = format!("writing {}", self.path.display());
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir).map_err(Error::io(&writing))?;
        }
        let mut line = serde_json::to_vec(&sitting).map_err(Error::io(&writing))?;
        line.push(b'\n');
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path);
        file.and_then(|mut file| file.write_all(&line))
            .map_err(Error::io(&writing))?;
        self.keep(sitting);
        Ok(())
    }

    fn keep(&mut self, sitting: Sitting) {
        let seed = sitting.situation.seed;
        if sitting.failed.is_some() && self.has(seed) {
            return;
        }
        self.all.retain(|s| s.situation.seed != seed);
        self.all.push(sitting);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A sitting without anything in it.
    pub(in super::super) fn empty(seed: u64) -> Sitting {
        Sitting {
            situation: Situation {
                seed,
                older_ms: 0.0,
                longer_s: 0.0,
                parts: Vec::new(),
            },
            faults: Vec::new(),
            findings: Vec::new(),
            without: None,
            failed: None,
            seconds: 10.0,
        }
    }

    #[test]
    fn what_was_seen_is_there_again_and_a_torn_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut sittings = Sittings::open(dir.path()).unwrap();
        assert!(sittings.all.is_empty() && !sittings.torn);
        sittings.append(empty(1)).unwrap();
        let failed = Sitting {
            failed: Some("no room".into()),
            ..empty(2)
        };
        sittings.append(failed).unwrap();
        assert!(sittings.has(1) && !sittings.has(2));
        let path = dir.path().join(FILE);
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"situation\":{\"se").unwrap();
        let mut again = Sittings::open(dir.path()).unwrap();
        assert!(again.torn);
        assert_eq!(again.all, sittings.all);
        again.append(empty(2)).unwrap();
        let last = Sittings::open(dir.path()).unwrap();
        assert!(!last.torn && last.has(2));
        assert_eq!(last.all.len(), 2, "the run that failed is replaced");
        let mut last = last;
        let failed = Sitting {
            failed: Some("no room".into()),
            ..empty(2)
        };
        last.append(failed).unwrap();
        assert!(last.has(2), "and replaces none");
    }

    #[test]
    fn a_line_that_is_no_sitting_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "{}\n").unwrap();
        let error = Sittings::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
