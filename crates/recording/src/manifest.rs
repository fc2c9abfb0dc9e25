//! `manifest.json`: what a recording is of: host, kernel, clock, namespaces, sources, own cost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The newest format this code writes and reads. Raised when an old reader would misread.
pub const FORMAT: u64 = 1;

/// The largest manifest that is read; a host with 10,000 namespaces stays below.
const MAX_BYTES: u64 = 16 << 20;

/// What a recording is of, and how it was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format version of the whole recording.
    pub format: u64,
    /// Version of the tcpwhy that wrote it.
    pub tcpwhy: String,
    /// `live`, or `model` and the name of the model that computed it.
    pub producer: String,
    /// Of a computed recording: every parameter of the model and the seed, which give it again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The writer ended the recording itself; false after a crash: then it reads up to its last sealed segment.
    pub complete: bool,
    /// The host it was made on.
    pub host: Host,
    /// When it began, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended, ns of CLOCK_MONOTONIC; while it runs, a moment of the last seconds.
    pub end_ns: u64,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC at the start, ns.
    pub clock_offset_ns: i64,
    /// The command line of the recorder.
    pub command_line: Vec<String>,
    /// The namespaces that were seen.
    pub namespaces: Vec<Namespace>,
    /// The sources, each with its intent and its verdict.
    pub sources: Vec<Source>,
    /// What the recording cost.
    pub cost: OwnCost,
}

/// The host of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine (`uname -m`).
    pub machine: String,
    /// Boot id: monotonic times compare only within one boot.
    pub boot_id: String,
    /// Timer ticks per second; `None` when the kernel's configuration cannot be read.
    pub hz: Option<u32>,
    /// CPUs online.
    pub cpus: u32,
}

/// One network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// Inode of `/proc/PID/ns/net`.
    pub inode: u32,
    /// Name in /run/netns, `host` for the first, or `pid N` of a process in it.
    pub name: String,
}

/// One source and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// What it gives, in plain words.
    pub gives: String,
    /// Whether a recording makes sense without it.
    pub intent: Intent,
    /// What came of it.
    pub verdict: Verdict,
    /// Records that were lost.
    pub lost: u64,
}

impl Source {
    /// A source without which recording fails.
    pub fn required(name: &str, gives: &str, verdict: Verdict) -> Source {
        Source {
            name: name.into(),
            gives: gives.into(),
            intent: Intent::Required,
            verdict,
            lost: 0,
        }
    }

    /// A source that a recording can do without.
    pub fn optional(name: &str, gives: &str, verdict: Verdict) -> Source {
        Source {
            intent: Intent::Optional,
            ..Source::required(name, gives, verdict)
        }
    }

    /// The same source, and what it lost.
    pub fn with_lost(self, lost: u64) -> Source {
        Source { lost, ..self }
    }
}

/// Whether a recording makes sense without a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intent {
    /// Without it, recording fails.
    Required,
    /// Without it, some causes cannot be told apart.
    Optional,
}

/// What came of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "because")]
pub enum Verdict {
    /// It works.
    Attached,
    /// This kernel or machine does not have it.
    Unsupported(String),
    /// It should work and did not.
    Failed(String),
}

/// What the recording cost the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// CPU time of the recorder in user mode, ms.
    pub user_ms: u64,
    /// CPU time of the recorder in the kernel, ms (sampling sockets; not the tracepoints).
    pub system_ms: u64,
    /// Largest resident memory, bytes.
    pub max_rss_bytes: u64,
    /// Kernel memory of the ring buffer, bytes.
    pub ring_bytes: u64,
    /// The longest round of samples over all namespaces, µs; mostly the first.
    #[serde(default)]
    pub longest_round_us: u64,
    /// The longest snapshot of the sockets of one namespace, read and decoded, µs.
    #[serde(default)]
    pub longest_snapshot_us: u64,
}

impl Manifest {
    /// How long the recording is; of one that was cut short, as far as is known.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.end_ns.saturating_sub(self.start_ns))
    }

    /// Writes `manifest.json` into `dir`, replacing an older one in one step.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let open = dir.join("manifest.json.open");
        let path = dir.join("manifest.json");
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::Io {
            path: path.clone(),
            why: e.into(),
        })?;
        fs::write(&open, text).map_err(Error::io(&open))?;
        fs::rename(&open, &path).map_err(Error::io(&path))
    }

    /// Reads the manifest of the recording `dir`.
    pub fn read(dir: &Path) -> Result<Manifest, Error> {
        let foreign = |why: &str| Error::Foreign {
            path: dir.to_path_buf(),
            why: why.into(),
        };
        let meta = fs::metadata(dir).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::Missing(dir.to_path_buf()),
            _ => Error::io(dir)(e),
        })?;
        if !meta.is_dir() {
            return Err(foreign("a recording is a directory, this is a file"));
        }
        let path = dir.join("manifest.json");
        let size = match fs::metadata(&path) {
            Ok(m) if m.is_file() => m.len(),
            Ok(_) => return Err(foreign("manifest.json is not a file")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(foreign("it has no manifest.json"));
            }
            Err(e) => return Err(Error::io(&path)(e)),
        };
        if size > MAX_BYTES {
            return Err(Error::damaged(&path, "larger than a manifest can be"));
        }
        let text = fs::read(&path).map_err(Error::io(&path))?;
        // The format is looked at first: a newer manifest may not parse as ours.
        let json: serde_json::Value =
            serde_json::from_slice(&text).map_err(|e| Error::damaged(&path, e))?;
        let found = json.get("format").and_then(|f| f.as_u64());
        match found {
            None => return Err(foreign("manifest.json names no format")),
            Some(found) if found > FORMAT => {
                return Err(Error::Newer {
                    path,
                    found,
                    known: FORMAT,
                });
            }
            Some(_) => {}
        }
        serde_json::from_value(json).map_err(|e| Error::damaged(&path, e))
    }
}
