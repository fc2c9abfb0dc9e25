//! The summary of a recording: what was looked at, what shows without a cause, how whole it is.

use analysis::words;
use analysis::{HealthNote, NoteKind};
use analysis::{Outcome, Side, Story};
use recording::{Recording, RetransmitKind, Text, counter};
use serde::{Deserialize, Serialize};

use crate::answers::Answer;
use crate::resources::ResourceLine;
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
    /// What threads waited for; `None` when waits were not recorded.
    pub waits: Option<WaitSummary>,
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

/// Something that moved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Symptom {
    /// What: an event in words, or the name of a counter as nstat prints it.
    pub says: String,
    /// How often, over all namespaces.
    pub count: u64,
    /// Whether it is a counter: events and counters may tell of the same thing.
    pub counter: bool,
    /// What it means, the same for all of its kind; may be empty.
    #[serde(skip)]
    pub means: &'static str,
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

/// Counters whose rise is worth a line although no finding may rest on them.
const TELLING: &[&str] = &[
    counter::LISTEN_OVERFLOWS,
    counter::LISTEN_DROPS,
    counter::TCP_REQ_Q_FULL_DROP,
    counter::TCP_REQ_Q_FULL_DO_COOKIES,
    counter::SYNCOOKIES_FAILED,
    counter::TCP_TIMEOUTS,
    counter::TCP_BACKLOG_DROP,
    counter::TCP_RCV_Q_DROP,
    counter::PRUNE_CALLED,
    counter::TCP_MEMORY_PRESSURES,
    counter::TCP_ABORT_ON_MEMORY,
    counter::TCP_TIME_WAIT_OVERFLOW,
    counter::PAWS_ESTAB,
    counter::PAWS_TIMEWAIT,
    counter::TCP_ACK_SKIPPED_TIME_WAIT,
    counter::ATTEMPT_FAILS,
    counter::ESTAB_RESETS,
    counter::IN_ERRS,
];

impl Summary {
    /// Whether nothing is missing of what was asked for.
    pub fn is_whole(&self) -> bool {
        self.complete && !self.health.iter().any(|note| note.kind.is_hole())
    }

    pub(crate) fn of(recording: &Recording, story: &Story) -> Summary {
        let manifest = &recording.manifest;
        let start = i64::try_from(manifest.start_ns).unwrap_or(i64::MAX);
        Summary {
            schema: SCHEMA,
            findings: 0,
            duration_s: words::rounded(story.seconds()),
            connections: connections(story),
            listeners: story.listeners.all.len() as u64,
            events: story.tally.events,
            counters: story.counters.count(),
            causes: Vec::new(),
            symptoms: symptoms(story),
            resources: crate::resources::resources(story),
            waits: crate::waits::summary(&story.waits),
            health: health(story),
            complete: manifest.complete,
            recording: Facts {
                host: manifest.host.name.clone(),
                kernel: manifest.host.kernel.clone(),
                producer: manifest.producer.clone(),
                tcpwhy: manifest.tcpwhy.clone(),
                start_unix_ns: start.saturating_add(manifest.clock_offset_ns),
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

fn symptoms(story: &Story) -> Vec<Symptom> {
    let tally = &story.tally;
    let mut all = Vec::new();
    let mut say = |noun: &str, what: String, count: u64, means: &'static str| {
        if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            all.push(Symptom {
                says: format!("{noun}{s} {what}"),
                count,
                counter: false,
                means,
            });
        }
    };
    say(
        "SYN",
        "retransmitted".into(),
        tally.syn_retries,
        "no answer came in time: a firewall, a full queue or the path dropped the SYN or its answer",
    );
    say(
        "SYN-ACK",
        "retransmitted".into(),
        tally.synack_retries,
        "the last ACK of a handshake did not come, or met a full accept queue",
    );
    for (kind, n) in &tally.retransmits {
        let means = retransmitted(&RetransmitKind::from(Text::from(kind.as_str())));
        say("segment", format!("retransmitted ({kind})"), *n, means);
    }
    for (reason, n) in &tally.resets_sent {
        let means = "this host refused or ended a connection, for the kernel's reason in brackets";
        say("reset", format!("sent ({reason})"), *n, means);
    }
    say(
        "reset",
        "received".into(),
        tally.resets_received,
        "a peer, or a box on the path, refused or ended a connection",
    );
    for (reason, n) in &tally.drops {
        say("packet", format!("dropped ({reason})"), *n, dropped(reason));
    }
    let counters = story.counters.risen(TELLING).into_iter();
    all.extend(counters.map(|(name, count)| Symptom {
        says: name.replace('.', ""),
        count,
        counter: true,
        means: counter::definition(name).map_or("", |d| d.says),
    }));
    all
}

/// What a retransmission of an established connection means.
fn retransmitted(kind: &RetransmitKind) -> &'static str {
    match kind {
        RetransmitKind::Rto => {
            "nothing was acknowledged for a whole retransmission timeout: the connection stood still"
        }
        RetransmitKind::Tlp => {
            "the end of what was sent was not acknowledged in two round trips: lost, or a peer that \
             answers late"
        }
        RetransmitKind::Fast | RetransmitKind::Rack => {
            "later packets were acknowledged before it: lost, or overtaken, and repaired in about a \
             round trip"
        }
        RetransmitKind::Other | RetransmitKind::Unknown(_) => {
            "a packet was not acknowledged in time"
        }
    }
}

/// What the kernel means by a reason for which it drops packets.
fn dropped(reason: &str) -> &'static str {
    match reason {
        "NETFILTER_DROP" => "a rule of this host's firewall dropped them",
        "NO_SOCKET" => "nobody listens there, or the connection is over",
        "TCP_LISTEN_OVERFLOW" => "the accept queue of their listener was full",
        "TCP_OLD_SEQUENCE" | "TCP_OLD_DATA" | "TCP_OLD_ACK" => "duplicates of what had come",
        "SOCKET_RCVBUFF" | "SOCKET_BACKLOG" | "PROTO_MEM" => {
            "the receiver's buffer, or TCP's memory, was full"
        }
        "TCP_CSUM" | "IP_CSUM" => "they came damaged",
        "QDISC_DROP" => "the queue of an interface of this host was full",
        _ => "the kernel dropped them, for the reason in brackets",
    }
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
