//! The summary of a recording: what was examined, what shows without a cause, how complete it is.

use analysis::words;
use analysis::{HealthNote, NoteKind};
use analysis::{Outcome, Side, Story};
use recording::Recording;
use serde::{Deserialize, Serialize};

use crate::answers::Answer;
use crate::command::{self, CommandTime};
use crate::not_tcp::NotTcp;
use crate::resources::ResourceLine;
use crate::symptoms::Symptom;
use crate::waits::WaitSummary;

/// The version of the JSON format of an explanation.
pub const SCHEMA: u32 = 1;

/// What was examined.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "summary")]
#[non_exhaustive]
pub struct Summary {
    /// The version of the format of these lines. Fields may be added, but none changes its meaning.
    pub schema: u32,
    /// The number of findings.
    pub findings: usize,
    /// Whether anything that the filter asks for was seen; null without a filter, and with one of namespaces only.
    pub matched: Option<bool>,
    /// The length of the recording, s.
    pub duration_s: f64,
    /// Connections by outcome.
    pub connections: Connections,
    /// The number of listeners seen.
    pub listeners: u64,
    /// The number of event rows read.
    pub events: u64,
    /// The number of counters read, over all namespaces.
    pub counters: u64,
    /// The answer of each cause, by number.
    pub causes: Vec<Answer>,
    /// Counters and other symptoms that moved, whether or not a finding explains them.
    pub symptoms: Vec<Symptom>,
    /// The host's resources, scarce or not.
    pub resources: Vec<ResourceLine>,
    /// What threads waited for; null when waits were not recorded.
    pub waits: Option<WaitSummary>,
    /// How the recorded command spent its time, if most of it was not TCP; null if it was, or if there was no command.
    pub command: Option<CommandTime>,
    /// Whose time it was, if it was not TCP's; null if TCP had its part, or if nothing was slow.
    #[serde(default)]
    pub not_tcp: Option<NotTcp>,
    /// What the recording lacks, and what explain itself left out.
    pub health: Vec<HealthNote>,
    /// Whether the recorder ended the recording itself.
    pub complete: bool,
    /// The origin of the recording.
    pub recording: Facts,
}

/// The connections of a recording. Each end on this host counts once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connections {
    /// Ends that called connect().
    pub opened: u64,
    /// Ends that were accepted.
    pub accepted: u64,
    /// Ends older than the recording.
    pub older: u64,
    /// Connects that failed, including the refused ones.
    pub failed: u64,
    /// Connects that were answered by a reset.
    pub refused: u64,
    /// Connects that had no answer when the recording ended.
    pub pending: u64,
    /// Counted but not examined one by one, because there were too many.
    pub folded: u64,
}

/// The origin of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// `live`, or the model that computed it.
    pub producer: String,
    /// Version of the tcpwhy that made the recording.
    pub tcpwhy: String,
    /// Start, ns since 1970.
    pub start_unix_ns: i64,
    /// Whether addresses and names are pseudonyms; omitted if they are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

impl Summary {
    /// Whether the recording has everything that was asked for.
    pub fn is_whole(&self) -> bool {
        self.complete && !self.health.iter().any(|note| note.kind.is_hole())
    }

    /// Whether records were lost, too few to change a finding.
    pub fn lost_little(&self) -> bool {
        self.health
            .iter()
            .any(|note| note.kind == NoteKind::LostLittle)
    }

    pub(crate) fn of(recording: &Recording, story: &Story) -> Summary {
        let manifest = &recording.manifest;
        Summary {
            schema: SCHEMA,
            findings: 0,
            matched: None,
            duration_s: words::rounded(story.seconds()),
            connections: connections(story),
            listeners: story.listeners.all.len() as u64,
            events: story.tally.events,
            counters: story.counters.count(),
            causes: Vec::new(),
            symptoms: Vec::new(),
            resources: crate::resources::resources(story),
            waits: crate::waits::summary(&story.waits),
            command: command::time(story, manifest),
            not_tcp: None,
            health: health(story),
            complete: manifest.complete,
            recording: Facts {
                host: manifest.host.name.clone(),
                kernel: manifest.host.kernel.clone(),
                producer: manifest.producer.clone(),
                tcpwhy: manifest.tcpwhy.clone(),
                start_unix_ns: manifest.start_unix_ns(),
                redacted: manifest.redacted,
            },
        }
    }
}

fn connections(story: &Story) -> Connections {
    let mut c = Connections {
        folded: story.tally.folded,
        ..Connections::default()
    };
    for conn in &story.conns {
        match conn.side {
            Side::Accepted => c.accepted += 1,
            Side::Older => c.older += 1,
            Side::Opened => c.opened += 1,
        }
        if conn.side == Side::Opened {
            c.failed += u64::from(conn.outcome == Outcome::Failed);
            c.refused += u64::from(conn.refused.is_some());
        }
        c.pending += u64::from(conn.connects() && conn.outcome == Outcome::Pending);
    }
    c
}

fn health(story: &Story) -> Vec<HealthNote> {
    let mut notes = story.health.notes();
    let folded = story.folded().into_iter();
    notes.extend(folded.map(|(n, says)| HealthNote {
        source: "explain".into(),
        kind: NoteKind::LeftOut,
        says: format!("{} {says}", words::count(n)),
    }));
    notes
}
