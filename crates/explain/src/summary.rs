//! The summary of a recording: what was looked at, what shows without a cause, how whole it is.

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

/// The version of what the JSON of an explanation looks like.
pub const SCHEMA: u32 = 1;

/// What was looked at.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "summary")]
#[non_exhaustive]
pub struct Summary {
    /// Version of what these lines look like: fields may be added to one, none changes its meaning.
    pub schema: u32,
    /// Number of findings.
    pub findings: usize,
    /// Whether anything that the filter asks for was seen; null without a filter, and with one of namespaces
    /// only.
    pub matched: Option<bool>,
    /// Length of the recording, s.
    pub duration_s: f64,
    /// Connections by what became of them.
    pub connections: Connections,
    /// Listeners seen.
    pub listeners: u64,
    /// Event rows read.
    pub events: u64,
    /// Counters read, over all namespaces.
    pub counters: u64,
    /// What each cause answers, by number.
    pub causes: Vec<Answer>,
    /// What moved, whether or not a finding explains it.
    pub symptoms: Vec<Symptom>,
    /// The host's resources: what is scarce, and what is not.
    pub resources: Vec<ResourceLine>,
    /// What threads waited for; null when waits were not recorded.
    pub waits: Option<WaitSummary>,
    /// What the command that was recorded did with its time, where most of it was no TCP; null where it was, and
    /// where there was no command.
    pub command: Option<CommandTime>,
    /// Whose time it was, where it was not TCP's; null where TCP had its part, and where nothing was slow.
    #[serde(default)]
    pub not_tcp: Option<NotTcp>,
    /// What the recording lacks, and what explain itself had to leave out.
    pub health: Vec<HealthNote>,
    /// Whether the recorder ended the recording itself.
    pub complete: bool,
    /// What the recording is of.
    pub recording: Facts,
}

/// Connections of a recording, each end on this host counted once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connections {
    /// Ends that called connect().
    pub opened: u64,
    /// Ends that were accepted.
    pub accepted: u64,
    /// Ends older than the recording.
    pub older: u64,
    /// Connects that failed, the refused ones included.
    pub failed: u64,
    /// Connects that a reset answered.
    pub refused: u64,
    /// Connects that had no answer when the recording ended.
    pub pending: u64,
    /// Counted but not examined one by one, because there were too many.
    pub folded: u64,
}

/// What a recording is of.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// `live`, or the model that computed it.
    pub producer: String,
    /// Version of the tcpwhy that recorded.
    pub tcpwhy: String,
    /// Start, ns since 1970.
    pub start_unix_ns: i64,
    /// Addresses and names are pseudonyms; left out when they are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

impl Summary {
    /// Whether nothing is missing of what was asked for.
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
