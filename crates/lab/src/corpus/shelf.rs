//! The directory of the corpus: a packed recording each, and `truth.tsv`, which says what is true of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::Error;

/// The file of the truths.
const TRUTHS: &str = "truth.tsv";
/// Its first line.
const COLUMNS: &str = "recording\tkind\twhat\tright\tmay";

/// What is true of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTruth {
    /// Its name.
    pub recording: String,
    /// `planted`, `healthy`, `exam`, `model`, `program`.
    pub kind: String,
    /// What was recorded, in words.
    pub what: String,
    /// Per fault the ids of causes of which one is right, between `|`.
    pub right: Vec<String>,
    /// Ids of causes that may be told too.
    pub may: Vec<String>,
}

/// The corpus in its directory.
#[derive(Debug)]
pub struct CorpusShelf {
    dir: PathBuf,
    truths: BTreeMap<String, RecordedTruth>,
}

impl CorpusShelf {
    /// Opens the one in a directory, which is made where it is missing.
    pub fn open(dir: &Path) -> Result<CorpusShelf, Error> {
        fs::create_dir_all(dir).map_err(Error::io(dir.display().to_string()))?;
        let path = dir.join(TRUTHS);
        let mut truths = BTreeMap::new();
        if path.exists() {
            let reading = || Error::io(format!("reading {}", path.display()));
            let text = fs::read_to_string(&path).map_err(reading())?;
            for line in text.lines().skip(1) {
                let truth = RecordedTruth::from_line(line).ok_or_else(|| Error::NoTruth {
                    path: path.clone(),
                    line: line.to_string(),
                })?;
                truths.insert(truth.recording.clone(), truth);
            }
        }
        Ok(CorpusShelf {
            dir: dir.to_path_buf(),
            truths,
        })
    }

    /// Takes a recording in, in place of one of that name; not one that is larger than `most`, bytes. Whether it did.
    pub(super) fn keep(
        &mut self,
        recording: &Path,
        truth: &RecordedTruth,
        most: u64,
    ) -> Result<bool, Error> {
        let path = self.path(&truth.recording);
        let failed = || Error::io(format!("writing {}", path.display()));
        let file = File::create(&path).map_err(failed())?;
        let mut packed = GzEncoder::new(BufWriter::new(file), Compression::best());
        recording::pack(recording, &mut packed).map_err(|e| Error::Command {
            command: format!("packing {}", recording.display()),
            why: e.to_string(),
        })?;
        let mut file = packed.finish().map_err(failed())?;
        file.flush().map_err(failed())?;
        let bytes = fs::metadata(&path).map_err(failed())?.len();
        if bytes > most {
            fs::remove_file(&path).map_err(failed())?;
            return Ok(false);
        }
        self.truths.insert(truth.recording.clone(), truth.clone());
        self.write().map(|()| true)
    }

    fn path(&self, recording: &str) -> PathBuf {
        self.dir.join(format!("{recording}.{}", recording::PACKED))
    }

    /// Removes what was recorded of a subject before.
    pub fn forget(&mut self, is: impl Fn(&str) -> bool) -> Result<(), Error> {
        let gone: Vec<String> = self.truths.keys().filter(|n| is(n)).cloned().collect();
        for name in gone {
            // It may be there as a line only.
            let _ = fs::remove_file(self.path(&name));
            self.truths.remove(&name);
        }
        self.write()
    }

    /// Written whole, each time: a run that is ended keeps what it has.
    fn write(&self) -> Result<(), Error> {
        let path = self.dir.join(TRUTHS);
        let failed = || Error::io(format!("writing {}", path.display()));
        let lines = self.truths.values().map(|truth| truth.line() + "\n");
        let text = format!("{COLUMNS}\n{}", lines.collect::<String>());
        let writing = path.with_extension("writing");
        fs::write(&writing, text).map_err(failed())?;
        fs::rename(&writing, &path).map_err(failed())
    }
}

impl RecordedTruth {
    fn line(&self) -> String {
        let list = |ids: &[String]| {
            if ids.is_empty() {
                "-".to_string()
            } else {
                ids.join(",")
            }
        };
        let mut may = self.may.clone();
        may.sort();
        may.dedup();
        let (right, may) = (list(&self.right), list(&may));
        let RecordedTruth {
            recording,
            kind,
            what,
            ..
        } = self;
        format!("{recording}\t{kind}\t{what}\t{right}\t{may}")
    }

    /// A line of the file, as [`CorpusShelf`] writes it.
    pub fn from_line(line: &str) -> Option<RecordedTruth> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [recording, kind, what, right, may] = columns[..] else {
            return None;
        };
        let list = |text: &str| match text {
            "-" => Vec::new(),
            ids => ids.split(',').map(String::from).collect(),
        };
        Some(RecordedTruth {
            recording: recording.into(),
            kind: kind.into(),
            what: what.into(),
            right: list(right),
            may: list(may),
        })
    }
}
