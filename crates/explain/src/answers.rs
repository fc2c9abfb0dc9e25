//! What every cause that was asked for answers: found, ruled out, or that it cannot tell, and why.

use std::borrow::Cow;

use analysis::account::Role;
use analysis::{ConnId, Side, Story, words};
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Ground};
use crate::finding::Finding;
use crate::id::Id;

/// What one cause answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Id of the cause.
    pub cause: Id,
    /// What it answers.
    pub answer: Holds,
    /// Of one that was not found: from which severity on it would have been.
    pub seen_from: Cow<'static, str>,
    /// Why it cannot tell, or what its answer does not hold for; null when there is nothing to say.
    pub because: Option<String>,
    /// The parts of a recording that are missing, as `tcpwhy record --with` takes them.
    pub record: Vec<Cow<'static, str>>,
}

/// Whether a cause holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// It does: there are findings of it.
    #[serde(rename = "found")]
    Yes,
    /// It was looked for and is not there.
    #[serde(rename = "ruled-out")]
    No,
    /// What would show it was not recorded, or not here.
    CannotTell,
}

/// What there was to look at.
struct Grounds {
    connections: u64,
    sampled: u64,
    /// Connects whose listener is on another host, and how many there were of them all.
    elsewhere: u64,
    opened: u64,
    listened: u64,
    /// Services to which requests came, and to which they went out.
    answering: u64,
    asking: u64,
}

/// The answers of the causes, in their order: `found` are those that have findings, `shown` the findings
/// that are told.
pub(crate) fn answers(
    story: &Story,
    causes: &[Cause],
    found: &[Id],
    shown: &[Finding],
) -> Vec<Answer> {
    let grounds = Grounds::of(story);
    let answer = |cause: &Cause| {
        let mut answer = Answer {
            cause: cause.id,
            answer: Holds::Yes,
            seen_from: cause.seen_from.into(),
            because: None,
            record: Vec::new(),
        };
        if found.contains(&cause.id) {
            let told = shown.iter().any(|f| f.cause == cause.id);
            answer.because =
                (!told).then(|| "none of it is shown: see the filter and the notes".into());
            return answer;
        }
        let lacking = Lacking::of(story, cause);
        if let Some(because) = lacking.says() {
            answer.answer = Holds::CannotTell;
            answer.because = Some(because);
            answer.record = lacking.parts;
            return answer;
        }
        (answer.answer, answer.because) = grounds.allow(cause.ground);
        answer
    };
    causes.iter().map(answer).collect()
}

/// What the recording lacks of what a cause needs.
#[derive(Default)]
struct Lacking {
    /// Parts that were not asked for.
    parts: Vec<Cow<'static, str>>,
    /// Sources that failed, and why, or of which no part is known.
    sources: Vec<String>,
}

impl Lacking {
    fn of(story: &Story, cause: &Cause) -> Lacking {
        let health = &story.health;
        let mut lacking = Lacking::default();
        for any in cause.needs {
            // The first of them is the one that tells most.
            let Some(source) = any.first().filter(|_| !any.iter().any(|s| health.has(s))) else {
                continue;
            };
            let failed = any.iter().find_map(|s| Some((s, health.absent(s)?)));
            match (failed, source.part()) {
                (Some((source, why)), _) => {
                    let says = format!("the source \"{source}\" was not available ({why})");
                    lacking.sources.push(says);
                }
                (None, Some(part)) if lacking.parts.iter().any(|p| p == part) => {}
                (None, Some(part)) => lacking.parts.push(part.into()),
                (None, None) => {
                    let says = format!("the source \"{source}\" was not recorded");
                    lacking.sources.push(says);
                }
            }
        }
        lacking
    }

    /// In words; `None` when nothing is lacking.
    fn says(&self) -> Option<String> {
        let parts: Vec<String> = self.parts.iter().map(|p| p.to_string()).collect();
        let (were, s) = match parts.len() {
            0 => return (!self.sources.is_empty()).then(|| self.sources.join("; ")),
            1 => ("was", ""),
            _ => ("were", "s"),
        };
        let parts = format!("the part{s} {} {were} not recorded", words::list(&parts));
        let all = std::iter::once(parts).chain(self.sources.iter().cloned());
        Some(all.collect::<Vec<_>>().join("; "))
    }
}

impl Grounds {
    fn of(story: &Story) -> Grounds {
        let opened = story.conns.iter().filter(|c| c.side == Side::Opened);
        let exchanges = story.exchanges();
        let of_role = |role| exchanges.iter().filter(|e| e.role() == role).count() as u64;
        let sampled = (0..story.conns.len() as ConnId).filter_map(|id| story.transfers.of(id));
        Grounds {
            connections: story.conns.len() as u64,
            sampled: sampled.filter(|t| t.samples > 0).count() as u64,
            elsewhere: opened.clone().filter(|c| c.listener.is_none()).count() as u64,
            opened: opened.count() as u64,
            answering: of_role(Role::Server),
            asking: of_role(Role::Client),
            listened: story.conns.iter().filter(|c| c.listener.is_some()).count() as u64,
        }
    }

    /// What can be answered of something that would show on this ground, and was not seen.
    fn allow(&self, ground: Ground) -> (Holds, Option<String>) {
        let plural = words::plural;
        let cannot = |why: String| (Holds::CannotTell, Some(why));
        if ground != Ground::Host && self.connections == 0 {
            return cannot("no connection was seen".into());
        }
        match ground {
            Ground::Transfers if self.sampled == 0 => cannot(format!(
                "none of {} lived long enough for a sample",
                plural(self.connections, "connection")
            )),
            Ground::Answers if self.answering == 0 => {
                cannot("no request came to a listener of this host".into())
            }
            Ground::Requests if self.asking == 0 => {
                cannot("no request went out from this host".into())
            }
            Ground::Listeners if self.listened == 0 => cannot(format!(
                "what listens is not on this host: record there ({})",
                plural(self.opened, "connect")
            )),
            Ground::Listeners if self.elsewhere > 0 => {
                let some = format!(
                    "not where {} of {} went: what listens there is not on this host",
                    words::count(self.elsewhere),
                    plural(self.opened, "connect")
                );
                (Holds::No, Some(some))
            }
            _ => (Holds::No, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use recording::{EventKind, SourceName};

    use super::*;
    use crate::{Options, explain, explain_with};
    use synth::{Fixture, cases};

    fn answer(f: &Fixture, cause: &str) -> Answer {
        let all = explain(&f.write().unwrap())
            .expect("a recording of our own reads")
            .summary
            .causes;
        all.into_iter().find(|a| a.cause == cause).expect(cause)
    }

    #[test]
    fn what_was_not_recorded_is_not_called_tested() {
        let mut f = cases::churn();
        assert_eq!(answer(&f, "cpu-contention").answer, Holds::No);
        f.manifest.sources.retain(|s| s.name != SourceName::Threads);
        let threads = answer(&f, "cpu-contention");
        assert_eq!(threads.answer, Holds::CannotTell);
        assert_eq!(threads.record, ["threads"]);
        assert_eq!(
            threads.because.as_deref(),
            Some("the part threads was not recorded")
        );
        f.without(SourceName::Drops);
        let drops = answer(&f, "local-firewall-drop");
        assert_eq!((drops.answer, drops.record.len()), (Holds::CannotTell, 0));
        assert!(drops.because.unwrap().contains("refused by the kernel"));
        // It has the counters to go by.
        assert_eq!(answer(&f, "accept-queue-overflow").answer, Holds::No);
    }

    #[test]
    fn a_side_that_is_not_here_is_not_called_tested() {
        let mut f = cases::churn();
        let listening = |k: &EventKind| *k == EventKind::State;
        f.listeners.clear();
        f.events.retain(|e| !listening(&e.kind) || e.pid.is_some());
        let overflow = answer(&f, "accept-queue-overflow");
        assert_eq!(overflow.answer, Holds::CannotTell);
        assert!(overflow.because.unwrap().contains("not on this host"));
        assert_eq!(answer(&f, "connection-refused").answer, Holds::No);
    }

    #[test]
    fn what_is_found_is_said_though_a_filter_hides_it() {
        let written = cases::accept_queue().write().unwrap();
        let filter = recording::Filter {
            ports: vec![9],
            ..Default::default()
        };
        let options = Options::default().about(filter);
        let explained = explain_with(&written.recording, &options).unwrap();
        let all = explained.summary.causes;
        let found = all.iter().find(|a| a.answer == Holds::Yes).expect("one");
        assert_eq!(found.cause, "accept-queue-overflow");
        assert!(found.because.is_some() && explained.findings.is_empty());
    }
}
