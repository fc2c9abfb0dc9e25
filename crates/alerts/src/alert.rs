//! A finding over time, in the one shape that every receiver is told.

use std::hash::{Hash, Hasher};

use explain::{Explanation, Finding, Id, Layer, Level};
use recording::cut;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// Steps of the evidence that are kept: the first ones carry the finding.
const SHOWN_EVIDENCE: usize = 5;
/// Bytes of a text that is kept: receivers cut longer ones themselves, each elsewhere.
const MAX_TEXT: usize = 1024;

/// Whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It holds, as far as is known.
    Raised,
    /// It does not hold any more.
    Resolved,
}

/// A window of time, and what explain says of it.
#[derive(Clone, Copy, Debug)]
pub struct Told<'e> {
    /// What it says.
    pub explanation: &'e Explanation,
    /// The end of the window, ns since 1970.
    pub to_ns: i64,
    /// Now, ns since 1970.
    pub now_ns: i64,
}

/// A finding over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// What it is known by: the same cause at the same place has the same one, on every day. No process, no port of a client
    /// and no time goes into it.
    pub fingerprint: String,
    /// The cause.
    pub cause: Id,
    /// Whose trouble it is.
    pub layer: Layer,
    /// One sentence: what is wrong, as it was said when it was worst.
    pub title: String,
    /// One sentence: what to do.
    pub fix: String,
    /// How many suffer, in one sentence.
    pub impact: String,
    /// The steps from the symptom to the cause, the first ones.
    pub evidence: Vec<String>,
    /// The listener, the destination, or what else it is about.
    pub place: String,
    /// The network namespace: its name; empty where it has none.
    pub netns: String,
    /// The program to look at, by its command name.
    pub comm: Option<String>,
    /// What runs it: a unit, a pod, a container.
    pub home: Option<String>,
    /// How sure it was at its surest.
    pub confidence: Level,
    /// Whether it holds.
    pub state: State,
    /// When the trouble began, as far as is known, ns since 1970.
    pub began_unix_ns: i64,
    /// When it was raised last, ns since 1970.
    pub raised_unix_ns: i64,
    /// The end of the last window in which it held, ns since 1970.
    pub last_unix_ns: i64,
    /// When it was resolved, ns since 1970; null while it holds.
    pub resolved_unix_ns: Option<i64>,
    /// How often it was raised: more than once if it came back soon after it had gone.
    pub times: u32,
    /// Time that connections lost to it in the worst window, all ends together, s; null where there is nothing to measure it
    /// against.
    pub lost_s: Option<f64>,
}

impl Alert {
    /// A finding that is raised now.
    pub(crate) fn new(finding: &Finding, told: Told) -> Alert {
        let recording = &told.explanation.summary.recording;
        let since = finding.since.as_ref();
        let after_ns = since.map_or(0.0, |since| since.after_start_s * 1e9);
        Alert {
            fingerprint: fingerprint(finding, &recording.host),
            cause: finding.cause,
            layer: finding.layer,
            title: text(&finding.title),
            fix: text(&finding.fix),
            impact: text(&finding.impact.says),
            evidence: evidence(finding),
            place: text(finding.scope.place()),
            netns: text(finding.scope.netns.name.as_deref().unwrap_or_default()),
            comm: finding.scope.comm.as_deref().map(text),
            home: finding.scope.home.as_deref().map(text),
            confidence: finding.confidence.level,
            state: State::Raised,
            began_unix_ns: recording.start_unix_ns.saturating_add(after_ns as i64),
            raised_unix_ns: told.now_ns,
            last_unix_ns: told.to_ns,
            resolved_unix_ns: None,
            times: 1,
            lost_s: finding.lost_s.seconds(),
        }
    }

    /// It holds in one more window, which ends at `to_ns`: what is said is what was said when it was worst.
    pub(crate) fn holds(&mut self, finding: &Finding, to_ns: i64) {
        self.last_unix_ns = self.last_unix_ns.max(to_ns);
        let (lost, level) = (finding.lost_s.seconds(), finding.confidence.level);
        let is_worse = lost.unwrap_or(0.0) > self.lost_s.unwrap_or(0.0);
        if level > self.confidence || level == self.confidence && is_worse {
            self.title = text(&finding.title);
            self.fix = text(&finding.fix);
            self.impact = text(&finding.impact.says);
            self.evidence = evidence(finding);
            self.comm = finding.scope.comm.as_deref().map(text);
            self.home = finding.scope.home.as_deref().map(text);
        }
        self.confidence = self.confidence.max(level);
        if is_worse {
            self.lost_s = lost;
        }
    }

    /// Whether it holds.
    pub fn is_raised(&self) -> bool {
        self.state == State::Raised
    }
}

/// What a finding of this host is known by: 16 hexadecimal digits.
pub(crate) fn fingerprint(finding: &Finding, host: &str) -> String {
    // It has to be the same after the next start: no seed.
    let mut hasher = SipHasher13::new();
    (host, finding.key()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn evidence(finding: &Finding) -> Vec<String> {
    let steps = finding.evidence.iter().take(SHOWN_EVIDENCE);
    steps.map(|step| text(&step.says)).collect()
}

/// No longer than may be.
fn text(text: &str) -> String {
    cut(text, MAX_TEXT).to_string()
}
