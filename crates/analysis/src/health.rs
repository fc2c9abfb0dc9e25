//! How far the recording can be trusted: sources that failed, records that were lost.

use std::collections::{BTreeMap, BTreeSet};

use recording::tables::Health as Row;
use recording::{Error, HealthKind, Manifest, Recording, SourceName, Verdict};
use serde::{Deserialize, Serialize};

use crate::bounded::BoundedTree;
use crate::tally::Tally;
use crate::words;

/// What a source has to say of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthNote {
    /// The source.
    pub source: String,
    /// What it means for the recording.
    pub kind: NoteKind,
    /// In plain words.
    pub says: String,
}

/// What a note means for the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoteKind {
    /// Records were lost.
    Lost,
    /// Records were lost, too few to change a finding.
    LostLittle,
    /// Something could not be had or read.
    Missing,
    /// Something was recorded, and is not examined or not shown.
    LeftOut,
    /// Nothing is missing: sampled less often than asked for, or begun a moment late.
    Note,
}

impl NoteKind {
    /// What the recorder's own word for it means; a word of a later recorder may mean a hole.
    pub fn of(what: &HealthKind) -> NoteKind {
        match what {
            HealthKind::Lost | HealthKind::Dropped => NoteKind::Lost,
            HealthKind::Late | HealthKind::Slowed => NoteKind::Note,
            _ => NoteKind::Missing,
        }
    }

    /// Whether it reports a hole in what was looked at.
    pub fn is_hole(self) -> bool {
        !matches!(self, NoteKind::Note | NoteKind::LostLittle)
    }
}

/// Health rows kept; a recorder in trouble repeats itself.
const KEPT_NOTES: usize = 100;
/// Unknown sources whose losses are kept apart: a later recorder has a few.
const MAX_UNKNOWN: usize = 100;

/// Losing one record in this many changes no finding: the smallest share of connections that makes one is ten times
/// as large.
const LITTLE: u64 = 10_000;

/// What is known of the sources.
#[derive(Debug, Default)]
pub struct Health {
    /// The sources that the manifest names, whatever became of them.
    asked: BTreeSet<SourceName>,
    absent: BTreeMap<SourceName, String>,
    lost: BTreeMap<SourceName, u64>,
    /// Records that further sources lost.
    lost_more: u64,
    /// Records that arrived from each source that lost too few for anything to depend on.
    little: BTreeMap<SourceName, u64>,
    notes: Vec<HealthNote>,
    more: u64,
    /// One of the notes not kept reports a hole.
    more_holes: bool,
}

impl Health {
    pub(crate) fn read(recording: &Recording) -> Result<Health, Error> {
        let mut health = Health::default();
        health.manifest(&recording.manifest);
        let mut lost: BTreeMap<SourceName, u64> = BTreeMap::new();
        let mut unknown: BoundedTree<SourceName, u64, MAX_UNKNOWN> = BoundedTree::default();
        for batch in recording.scan::<Row>()? {
            for (_, row) in batch?.rows() {
                if row.what == HealthKind::Lost {
                    let sum = match row.source {
                        SourceName::Unknown(_) => unknown.first_come(row.source, || 0),
                        known => Some(lost.entry(known).or_default()),
                    };
                    let sum = sum.unwrap_or(&mut health.lost_more);
                    *sum = sum.saturating_add(row.count);
                    continue;
                }
                let kind = NoteKind::of(&row.what);
                if health.notes.len() < KEPT_NOTES {
                    let says = format!("{}: {}", row.what, row.detail);
                    health.note(&row.source, kind, says);
                } else {
                    health.more += 1;
                    health.more_holes |= kind.is_hole();
                }
            }
        }
        // The manifest's sum is written at the end; after a crash only the rows tell.
        let unknown = unknown
            .iter()
            .map(|(source, count)| (source.clone(), *count));
        for (source, count) in lost.into_iter().chain(unknown) {
            let known = health.lost.entry(source).or_default();
            *known = (*known).max(count);
        }
        health.lost.retain(|_, count| *count > 0);
        Ok(health)
    }

    /// Tells losses that matter from those that cannot change a finding.
    pub(crate) fn weigh(&mut self, tally: &Tally) {
        for (source, lost) in &self.lost {
            let told = tally.by_source.get(source).copied().unwrap_or(0);
            if lost.saturating_mul(LITTLE) <= told {
                self.little.insert(source.clone(), told);
            }
        }
    }

    fn manifest(&mut self, manifest: &Manifest) {
        for source in &manifest.sources {
            self.asked.insert(source.name.clone());
            match &source.verdict {
                Verdict::Attached => {}
                Verdict::Unsupported(why) | Verdict::Failed(why) => {
                    self.absent.insert(source.name.clone(), why.clone());
                    let says = format!("not available: {why}");
                    self.note(&source.name, NoteKind::Missing, says);
                }
            }
            if let Some(shed) = &source.shed {
                // It saw nothing of the rest of the recording.
                self.absent.insert(source.name.clone(), shed.clone());
            }
            self.lost.insert(source.name.clone(), source.lost);
        }
    }

    fn note(&mut self, source: &SourceName, kind: NoteKind, says: String) {
        self.notes.push(HealthNote {
            source: source.to_string(),
            kind,
            says,
        });
    }

    /// Whether the source worked. If it did not, the absence of its records means nothing.
    pub fn sees(&self, source: &SourceName) -> bool {
        !self.absent.contains_key(source)
    }

    /// Whether the source was recorded, and worked; without sources in the manifest, any counts as recorded.
    pub fn has(&self, source: &SourceName) -> bool {
        (self.asked.is_empty() || self.asked.contains(source)) && self.sees(source)
    }

    /// Why it was not available; `None` when it was, or was not asked for.
    pub fn absent(&self, source: &SourceName) -> Option<&str> {
        self.absent.get(source).map(String::as_str)
    }

    /// Why a finding that rests on the source is less sure; `None` when it is whole.
    pub fn doubt(&self, source: &SourceName) -> Option<String> {
        if let Some(why) = self.absent.get(source) {
            return Some(format!("the source \"{source}\" was not available: {why}"));
        }
        let lost = self.lost.get(source)?;
        if self.little.contains_key(source) {
            return None;
        }
        Some(format!(
            "the source \"{source}\" lost {}: its counts are lower bounds",
            words::plural(*lost, "record")
        ))
    }

    /// Records that a source lost.
    pub fn lost(&self, source: &SourceName) -> u64 {
        self.lost.get(source).copied().unwrap_or(0)
    }

    /// Everything there is to say, in a fixed order.
    pub fn notes(&self) -> Vec<HealthNote> {
        let mut notes = self.notes.clone();
        for (source, count) in &self.lost {
            let lost = words::plural(*count, "record");
            let (kind, says) = match self.little.get(source) {
                Some(told) => (
                    NoteKind::LostLittle,
                    format!(
                        "lost {lost} and delivered {}: too few to change a finding",
                        words::count(*told)
                    ),
                ),
                None => (NoteKind::Lost, format!("lost {lost}")),
            };
            notes.push(HealthNote {
                source: source.to_string(),
                kind,
                says,
            });
        }
        if self.lost_more > 0 {
            let lost = words::plural(self.lost_more, "record");
            notes.push(HealthNote {
                source: SourceName::Recorder.to_string(),
                kind: NoteKind::Lost,
                says: format!("further sources lost {lost}"),
            });
        }
        if self.more > 0 {
            notes.push(HealthNote {
                source: SourceName::Recorder.to_string(),
                kind: if self.more_holes {
                    NoteKind::LeftOut
                } else {
                    NoteKind::Note
                },
                says: format!("{} not shown", words::plural(self.more, "further note")),
            });
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use recording::{FORMAT, Text, Writer};

    use super::*;

    #[test]
    fn what_sources_without_number_lost_is_summed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.tcpwhy");
        let manifest = Manifest {
            format: FORMAT,
            end_ns: 1,
            ..Manifest::default()
        };
        let writer = Writer::create(&path, &manifest).unwrap();
        let mut rows = writer.table::<Row>().unwrap();
        let lost = |source: SourceName, count| Row {
            source,
            what: HealthKind::Lost,
            count,
            ..Row::default()
        };
        for nth in 0..2 * MAX_UNKNOWN {
            let name = Text::from(format!("made-up-{nth}"));
            rows.push(lost(SourceName::from(name), 3)).unwrap();
        }
        rows.push(lost(SourceName::Drops, 5)).unwrap();
        rows.seal().unwrap();
        let recording = Recording::open(&path).unwrap();
        let health = Health::read(&recording).unwrap();
        assert_eq!(health.lost(&SourceName::Drops), 5);
        assert_eq!(health.lost.len(), MAX_UNKNOWN + 1);
        let notes = health.notes();
        let further = notes.iter().find(|n| n.says.starts_with("further sources"));
        let further = further.expect("told");
        assert_eq!(further.says, "further sources lost 300 records");
        assert_eq!(further.kind, NoteKind::Lost);
    }
}
