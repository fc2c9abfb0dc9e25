//! `store.json`: what the bounds of a store cost, and when nothing was recorded, and why.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::layout::NOTES;

/// The newest format this code writes and reads.
const FORMAT: u64 = 1;
/// Gaps that are remembered; the oldest go.
const MAX_GAPS: usize = 1_000;
/// Bytes of the file; one with as many gaps as there may be has 200 kB.
const MAX_BYTES: u64 = 4 << 20;

/// What a store remembers of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// Format version of the store.
    pub format: u64,
    /// Version of the tcpwhy that wrote it last.
    pub tcpwhy: String,
    /// Bytes of recordings that went, as they were older than may be.
    #[serde(default)]
    pub removed_for_age: u64,
    /// Bytes of recordings that went, as the store had more than it may.
    #[serde(default)]
    pub removed_for_size: u64,
    /// Bytes of recordings that went, as the disk had little left.
    #[serde(default)]
    pub removed_for_room: u64,
    /// When nothing was recorded, the oldest first.
    #[serde(default)]
    pub gaps: Vec<Gap>,
}

/// When nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// From when on, ns since 1970.
    pub from_ns: i64,
    /// Until when, ns since 1970.
    pub to_ns: i64,
    /// Why.
    pub why: String,
}

impl Notes {
    /// Of the store in `dir`; those of a new one where the file is damaged: a store is its recordings.
    pub(crate) fn read(dir: &Path) -> Notes {
        let read = || -> Option<Notes> {
            let mut text = Vec::new();
            let file = File::open(dir.join(NOTES)).ok()?;
            file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
            serde_json::from_slice(&text).ok()
        };
        let mut notes = read().unwrap_or_default();
        notes.forget();
        notes
    }

    /// Replaces those of the store in one step.
    pub(crate) fn write(&mut self, dir: &Path) -> Result<(), Error> {
        self.format = FORMAT;
        self.tcpwhy = env!("CARGO_PKG_VERSION").into();
        self.forget();
        let (path, open) = (dir.join(NOTES), dir.join("store.json.open"));
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        let write = || -> std::io::Result<()> {
            // One that was left by who was killed.
            let _ = fs::remove_file(&open);
            let mut options = fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o640)
                .open(&open)?;
            file.write_all(&text)?;
            fs::rename(&open, &path)
        };
        write().map_err(Error::io(&path))
    }

    fn forget(&mut self) {
        let old = self.gaps.len().saturating_sub(MAX_GAPS);
        self.gaps.drain(..old);
    }
}
