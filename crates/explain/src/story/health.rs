//! How far the recording can be trusted: sources that failed, records that were lost.

use std::collections::BTreeMap;

use recording::tables::Health as Row;
use recording::{Error, Manifest, Recording, Verdict};

use crate::summary::{HealthNote, NoteKind};
use crate::words;

/// Names of the sources whose absence or losses weigh on a finding, as the recorder calls them.
pub(crate) mod source {
    /// State changes.
    pub(crate) const STATES: &str = "state";
    /// Segments sent again.
    pub(crate) const RETRANSMITS: &str = "retransmit";
    /// SYN-ACKs sent again.
    pub(crate) const SYNACKS: &str = "synack-retransmit";
    /// Resets sent.
    pub(crate) const RESETS_SENT: &str = "reset-sent";
    /// Resets sent for packets of no socket: refused connects.
    pub(crate) const REFUSALS: &str = "reset-unmatched";
    /// Resets received.
    pub(crate) const RESETS_RECEIVED: &str = "reset-received";
    /// Packets dropped.
    pub(crate) const DROPS: &str = "drop";
    /// Kernel symbols: SYN cookies told from ordinary handshakes.
    pub(crate) const SYMBOLS: &str = "symbols";
    /// Samples of connections and listeners.
    pub(crate) const SOCKETS: &str = "sockets";
    /// SNMP and TcpExt counters.
    pub(crate) const COUNTERS: &str = "counters";
    /// The CPU profile.
    pub(crate) const PROFILE: &str = "profile";
    /// Names of its functions.
    pub(crate) const PROFILE_SYMBOLS: &str = "profile-symbols";
    /// How full lookup structures are.
    pub(crate) const TABLES: &str = "tables";
    /// Local ports in use.
    pub(crate) const PORTS: &str = "ports";
    /// System calls that failed or took long.
    pub(crate) const CALLS: &str = "calls";
    /// What threads do with their time.
    pub(crate) const THREADS: &str = "threads";
    /// CPU time and throttling of cgroups.
    pub(crate) const CGROUPS: &str = "cgroups";
}

/// Health rows kept; a recorder in trouble repeats itself.
const KEPT_NOTES: usize = 100;

/// What is known of the sources.
#[derive(Debug, Default)]
pub(crate) struct Health {
    absent: BTreeMap<String, String>,
    lost: BTreeMap<String, u64>,
    notes: Vec<HealthNote>,
    more: u64,
    /// One of those tells of a hole.
    more_holes: bool,
}

impl Health {
    pub(crate) fn read(recording: &Recording) -> Result<Health, Error> {
        let mut health = Health::default();
        health.manifest(&recording.manifest);
        let mut lost: BTreeMap<String, u64> = BTreeMap::new();
        for batch in recording.scan::<Row>()? {
            for (_, row) in batch?.rows() {
                if &*row.what == "lost" {
                    let sum = lost.entry(row.source.to_string()).or_default();
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
        for (source, count) in lost {
            let known = health.lost.entry(source).or_default();
            *known = (*known).max(count);
        }
        health.lost.retain(|_, count| *count > 0);
        Ok(health)
    }

    fn manifest(&mut self, manifest: &Manifest) {
        for source in &manifest.sources {
            match &source.verdict {
                Verdict::Attached => {}
                Verdict::Unsupported(why) | Verdict::Failed(why) => {
                    self.absent.insert(source.name.clone(), why.clone());
                    let says = format!("not available: {why}");
                    self.note(&source.name, NoteKind::Missing, says);
                }
            }
            self.lost.insert(source.name.clone(), source.lost);
        }
    }

    fn note(&mut self, source: &str, kind: NoteKind, says: String) {
        self.notes.push(HealthNote {
            source: source.to_string(),
            kind,
            says,
        });
    }

    /// Whether the source worked: of what it would have told, nothing seen means nothing otherwise.
    pub(crate) fn sees(&self, source: &str) -> bool {
        !self.absent.contains_key(source)
    }

    /// Why a finding that rests on the source is less sure; `None` when it is whole.
    pub(crate) fn doubt(&self, source: &str) -> Option<String> {
        if let Some(why) = self.absent.get(source) {
            return Some(format!("the source \"{source}\" was not available: {why}"));
        }
        let lost = self.lost.get(source)?;
        Some(format!(
            "the source \"{source}\" lost {}: its counts are lower bounds",
            words::plural(*lost, "record")
        ))
    }

    /// Records that a source lost.
    pub(crate) fn lost(&self, source: &str) -> u64 {
        self.lost.get(source).copied().unwrap_or(0)
    }

    /// Everything there is to say, in a fixed order.
    pub(crate) fn notes(&self) -> Vec<HealthNote> {
        let mut notes = self.notes.clone();
        for (source, count) in &self.lost {
            notes.push(HealthNote {
                source: source.clone(),
                kind: NoteKind::Lost,
                says: format!("lost {}", words::plural(*count, "record")),
            });
        }
        if self.more > 0 {
            notes.push(HealthNote {
                source: "recorder".into(),
                kind: match self.more_holes {
                    true => NoteKind::LeftOut,
                    false => NoteKind::Note,
                },
                says: format!("{} not shown", words::plural(self.more, "further note")),
            });
        }
        notes
    }
}
