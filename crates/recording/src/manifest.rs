//! `manifest.json`: what a recording is of: host, kernel, clock, namespaces, sources, own cost.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::files::{MANIFEST, make_file, open_file, open_given_dir};
use crate::vocabulary::SourceName;
use crate::{Error, Filter, limits, scrub, without_backquotes};

/// The newest format this code writes and reads. Raised when an old reader would misread.
pub const FORMAT: u64 = 1;

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
    /// The command line of the recorder; what looks like a secret in it is `***`.
    pub command_line: Vec<String>,
    /// The command that ran meanwhile; absent when there was none, or its number is not known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Ran>,
    /// What was asked for when it was made; absent when that was everything.
    #[serde(default, skip_serializing_if = "asks_nothing")]
    pub asked: Filter,
    /// What whoever made it calls it, with `--label`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Addresses and names are pseudonyms.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The namespaces that were seen.
    pub namespaces: Vec<Namespace>,
    /// The sources, each with its intent and its verdict.
    pub sources: Vec<Source>,
    /// What the recording cost.
    pub cost: OwnCost,
}

fn asks_nothing(filter: &Filter) -> bool {
    !filter.asks()
}

/// The command that ran while it was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Its process.
    pub pid: u32,
    /// When it was started, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it was seen to have ended, ns of CLOCK_MONOTONIC; null where it was ended with the recording.
    pub end_ns: Option<u64>,
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
    pub name: SourceName,
    /// What it gives, in plain words.
    pub gives: String,
    /// Whether a recording makes sense without it.
    pub intent: Intent,
    /// What came of it.
    pub verdict: Verdict,
    /// Records that were lost.
    pub lost: u64,
    /// When it was switched off before the end, and why (`--max-cpu`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shed: Option<String>,
    /// What lasted shorter than this was not recorded, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_ns: Option<u64>,
}

impl Source {
    /// A source without which recording fails.
    pub fn required(name: SourceName, gives: &str, verdict: Verdict) -> Source {
        Source {
            name,
            gives: gives.into(),
            intent: Intent::Required,
            verdict,
            lost: 0,
            shed: None,
            least_ns: None,
        }
    }

    /// A source that a recording can do without.
    pub fn optional(name: SourceName, gives: &str, verdict: Verdict) -> Source {
        Source {
            intent: Intent::Optional,
            ..Source::required(name, gives, verdict)
        }
    }

    /// The same source, which records only what lasts so long.
    pub fn with_least(self, least: Duration) -> Source {
        Source {
            least_ns: u64::try_from(least.as_nanos()).ok(),
            ..self
        }
    }

    /// What it says of the next recording, which follows: what it gives of one of them only, it does not give.
    fn follow(&mut self, next: Source) {
        self.lost += next.lost;
        if next.verdict != Verdict::Attached {
            self.verdict = next.verdict;
        }
        self.shed = self.shed.take().or(next.shed);
        self.least_ns = self.least_ns.max(next.least_ns);
    }

    /// There was none for a part of the time: why it is not to be relied on.
    fn only_in_part(&mut self, why: &str) {
        self.shed.get_or_insert_with(|| why.into());
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

impl OwnCost {
    /// What the next recording cost, which follows.
    fn follow(&mut self, next: &OwnCost) {
        self.user_ms += next.user_ms;
        self.system_ms += next.system_ms;
        self.max_rss_bytes = self.max_rss_bytes.max(next.max_rss_bytes);
        self.ring_bytes = self.ring_bytes.max(next.ring_bytes);
        self.longest_round_us = self.longest_round_us.max(next.longest_round_us);
        self.longest_snapshot_us = self.longest_snapshot_us.max(next.longest_snapshot_us);
    }
}

impl Manifest {
    /// The same as sentences are made of it: without backquotes.
    pub(crate) fn for_sentences(&self) -> Manifest {
        let mut manifest = self.clone();
        let host = &mut manifest.host;
        let names = manifest.namespaces.iter_mut().map(|n| &mut n.name);
        let sources = manifest.sources.iter_mut().flat_map(|source| {
            let why = match &mut source.verdict {
                Verdict::Unsupported(why) | Verdict::Failed(why) => Some(why),
                Verdict::Attached => None,
            };
            [Some(&mut source.gives), why, source.shed.as_mut()]
        });
        let texts = [
            &mut manifest.producer,
            &mut manifest.tcpwhy,
            &mut host.name,
            &mut host.kernel,
            &mut host.machine,
        ];
        let texts = texts.into_iter().chain(names).chain(sources.flatten());
        let texts = texts.chain(&mut manifest.command_line);
        for text in texts.chain(&mut manifest.labels) {
            if let Cow::Owned(told) = without_backquotes(text) {
                *text = told;
            }
        }
        manifest
    }

    /// The sources that should have worked and did not, each with its reason. What they give is missing, and not absent.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.sources.iter().filter_map(|s| match &s.verdict {
            Verdict::Failed(why) => Some(format!("{} failed: {why}", s.name)),
            Verdict::Unsupported(why) if s.intent == Intent::Required => {
                Some(format!("{} is not supported: {why}", s.name))
            }
            _ => None,
        })
    }

    /// When it began, ns since 1970.
    pub fn start_unix_ns(&self) -> i64 {
        let start = i64::try_from(self.start_ns).unwrap_or(i64::MAX);
        start.saturating_add(self.clock_offset_ns)
    }

    /// How long the recording is; of one that was cut short, as far as is known.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.end_ns.saturating_sub(self.start_ns))
    }

    /// What the next recording of the same host says as well, which follows this one.
    pub(crate) fn follow(&mut self, next: Manifest) -> Result<(), Error> {
        if next.host.boot_id != self.host.boot_id {
            return Err(Error::Apart(
                "recordings of several hosts, or of several starts of one",
            ));
        }
        let mut inodes: HashSet<u32> = self.namespaces.iter().map(|n| n.inode).collect();
        let namespaces = next.namespaces.into_iter();
        self.namespaces
            .extend(namespaces.filter(|n| inodes.insert(n.inode)));
        for before in &mut self.sources {
            if !next.sources.iter().any(|s| s.name == before.name) {
                before.only_in_part("it was not recorded to the end");
            }
        }
        for mut source in next.sources {
            let before = self.sources.iter_mut().find(|s| s.name == source.name);
            match before {
                Some(before) => before.follow(source),
                None => {
                    source.only_in_part("it was not recorded from the beginning");
                    self.sources.push(source);
                }
            }
        }
        self.end_ns = next.end_ns;
        self.complete = next.complete;
        self.cost.follow(&next.cost);
        Ok(())
    }

    /// The namespaces that `words` name: by the name they had, or by inode number.
    ///
    /// # Errors
    ///
    /// A word that is neither a number nor a namespace or process of this host.
    pub fn resolve_netns(&self, words: &[String]) -> Result<Vec<u32>, String> {
        let one = |word: &String| {
            let by_name = self.namespaces.iter().find(|n| n.name == *word);
            let by_inode = || {
                let number: u32 = word.parse().ok()?;
                self.namespaces.iter().find(|n| n.inode == number)
            };
            let found = by_name.or_else(by_inode).map(|n| n.inode);
            found.ok_or_else(|| {
                let names = self.namespaces.iter().take(20).map(|n| &*n.name);
                let names = names.collect::<Vec<_>>().join(", ");
                format!("the recording has no network namespace {word:?}; it has: {names}")
            })
        };
        words.iter().map(one).collect()
    }

    /// Writes `manifest.json` into `dir`, replacing an older one in one step.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let open = dir.join("manifest.json.open");
        let path = dir.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&self.clone().bounded()).map_err(|e| Error::Io {
            path: path.clone(),
            why: e.into(),
        })?;
        let write = || make_file(&open)?.write_all(&text);
        write().map_err(Error::io(&open))?;
        fs::rename(&open, &path).map_err(Error::io(&path))
    }

    /// Without secrets, and with texts no longer than a recording's may be.
    fn bounded(mut self) -> Manifest {
        let cut = |text: &mut String| {
            if text.len() > limits::TEXT {
                *text = limits::text(text).into_owned();
            }
        };
        self.command_line.truncate(limits::LIST);
        self.command_line = scrub::arguments(&self.command_line);
        self.command_line.iter_mut().for_each(cut);
        self.asked.comms.truncate(limits::LIST);
        self.asked.comms.iter_mut().for_each(cut);
        self.asked.addrs.truncate(limits::LIST);
        for ids in [&mut self.asked.netns, &mut self.asked.pids] {
            ids.truncate(limits::LIST);
        }
        self.asked.cgroups.truncate(limits::LIST);
        self.asked.ports.truncate(limits::LIST);
        let host = &mut self.host;
        let texts = [
            &mut self.tcpwhy,
            &mut self.producer,
            &mut host.name,
            &mut host.kernel,
        ];
        texts.into_iter().for_each(cut);
        cut(&mut host.machine);
        cut(&mut host.boot_id);
        self.namespaces.iter_mut().for_each(|n| cut(&mut n.name));
        for source in &mut self.sources {
            cut(&mut source.gives);
            if let Verdict::Unsupported(why) | Verdict::Failed(why) = &mut source.verdict {
                cut(why);
            }
            source.shed.iter_mut().for_each(cut);
        }
        self.parameters.values_mut().for_each(cut);
        self
    }

    /// Reads the manifest of the recording `dir`.
    ///
    /// # Errors
    ///
    /// There is no manifest, it is damaged, or of a newer format.
    pub fn read(dir: &Path) -> Result<Manifest, Error> {
        Manifest::read_as(dir, dir)
    }

    /// The same of a recording that errors call `shown`.
    pub(crate) fn read_as(dir: &Path, shown: &Path) -> Result<Manifest, Error> {
        let foreign = |why: &str| Error::Foreign {
            path: shown.to_path_buf(),
            why: why.into(),
        };
        let within = open_given_dir(dir).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::Missing(shown.to_path_buf()),
            std::io::ErrorKind::NotADirectory => foreign("this is a file, not a directory"),
            _ => Error::io(shown)(e),
        })?;
        Manifest::read_in(&within, shown)
    }

    /// The same of a recording whose directory is open.
    pub(crate) fn read_in(within: &OwnedFd, shown: &Path) -> Result<Manifest, Error> {
        let foreign = |why: &str| Error::Foreign {
            path: shown.to_path_buf(),
            why: why.into(),
        };
        let path = shown.join(MANIFEST);
        let file = open_file(within, MANIFEST, &path)?;
        let (file, size) = file.ok_or_else(|| foreign("it has no manifest.json"))?;
        if size > limits::MANIFEST {
            return Err(Error::damaged(&path, "larger than a manifest can be"));
        }
        let mut text = Vec::with_capacity(size as usize);
        let read = file.take(size).read_to_end(&mut text);
        read.map_err(Error::io(&path))?;
        // The format is looked at first: a newer manifest may not parse as ours.
        let format: Format = serde_json::from_slice(&text).map_err(|e| Error::damaged(&path, e))?;
        match format.format.0 {
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
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|e| Error::damaged(&path, e))?;
        let lists = [
            (manifest.namespaces.len(), limits::NAMESPACES, "namespaces"),
            (manifest.sources.len(), limits::LIST, "sources"),
            (manifest.command_line.len(), limits::LIST, "arguments"),
            (manifest.parameters.len(), limits::LIST, "parameters"),
        ];
        for (found, most, what) in lists {
            if found > most {
                let why = format!("{found} {what}, more than {most}");
                return Err(Error::damaged(&path, why));
            }
        }
        Ok(manifest.bounded())
    }
}

/// What of a manifest is looked at first.
#[derive(Deserialize)]
struct Format {
    #[serde(default)]
    format: Number,
}

/// A number; `None` for anything else, of which nothing is kept.
#[derive(Default)]
struct Number(Option<u64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        from.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number")
    }
    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number(Some(number)))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Number, E> {
        Ok(Number(None))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Number, E> {
        Ok(Number(None))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number(None))
    }
    fn visit_str<E>(self, _: &str) -> Result<Number, E> {
        Ok(Number(None))
    }
    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number(None))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Number, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_found_by_the_name_they_had() {
        let mut manifest = Manifest::default();
        let (inode, name) = (4026531840, "host".to_string());
        manifest.namespaces.push(Namespace { inode, name });
        let resolve = |w: &str| manifest.resolve_netns(&[w.to_string()]);
        assert_eq!(resolve("host"), Ok(vec![inode]));
        assert_eq!(resolve("4026531840"), Ok(vec![inode]));
        assert!(resolve("17").unwrap_err().contains("it has: host"));
    }
}
