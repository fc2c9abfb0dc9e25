//! The answer of every requested cause: found, ruled out by which number, or cannot tell and why.

use std::borrow::Cow;

use analysis::account::Role;
use analysis::{ConnId, Side, Story, words};
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Ground};
use crate::finding::Finding;
use crate::id::Id;
use crate::verdict::{Refuted, Verdict};
use crate::who_wins;
use crate::whole::Whole;

/// The answer of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Id of the cause.
    pub cause: Id,
    /// The answer.
    pub answer: Holds,
    /// For a cause that was not found: the severity from which it would have been.
    pub seen_from: Cow<'static, str>,
    /// Which number rules it out and how far that is from a finding, why it cannot tell, or why what was found is not
    /// shown; null if there is nothing to say.
    pub because: Option<String>,
    /// The number that rules it out, the limit that it misses, and their rows; null if the cause is not ruled out.
    #[serde(default)]
    pub refuted: Option<Refuted>,
    /// The missing parts of the recording, as `tcpwhy record --with` takes them.
    pub record: Vec<Cow<'static, str>>,
}

/// Whether a cause holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// It holds: there are findings or notes of it.
    #[serde(rename = "found")]
    Yes,
    /// A number refutes it.
    #[serde(rename = "ruled-out")]
    No,
    /// The data that would show it was not recorded, is not on this host, or does not refute it.
    CannotTell,
}

/// What there was to examine.
struct Grounds {
    connections: u64,
    sampled: u64,
    /// Connects whose listener is on another host, and all connects.
    elsewhere: u64,
    opened: u64,
    listened: u64,
    /// Services that received requests, and services to which requests were sent.
    answering: u64,
    asking: u64,
}

/// What the causes found.
pub(crate) struct Found<'a> {
    /// The causes with findings or notes, whether or not these are shown.
    pub(crate) holding: &'a [Id],
    /// The causes that saw something, and what became of it if they have no finding.
    pub(crate) seen: &'a [(Id, &'static str)],
    /// The findings that are shown.
    pub(crate) shown: &'a [Finding],
    /// The notes that are shown, each with the reason.
    pub(crate) little: &'a [(Finding, String)],
}

/// The answers of the causes, in their order.
pub(crate) fn answers(whole: &Whole, causes: &[Cause], found: &Found) -> Vec<Answer> {
    let story = whole.story;
    let grounds = Grounds::of(story);
    let answer = |cause: &Cause| {
        let mut answer = Answer {
            cause: cause.id,
            answer: Holds::Yes,
            seen_from: (cause.seen_from)(),
            because: None,
            refuted: None,
            record: Vec::new(),
        };
        let lacking = Lacking::of(story, cause);
        let verdict = match lacking.says() {
            _ if found.holding.contains(&cause.id) => Verdict::Yes,
            Some(because) => {
                answer.record = lacking.parts;
                Verdict::CannotTell(because)
            }
            None => grounds.judge(cause, whole, found),
        };
        match verdict {
            Verdict::Yes => answer.because = found.unshown(cause.id),
            Verdict::No(step, refuted) => {
                answer.answer = Holds::No;
                answer.because = Some(step.says);
                answer.refuted = refuted;
            }
            Verdict::CannotTell(because) => {
                answer.answer = Holds::CannotTell;
                answer.because = Some(because);
            }
        }
        answer
    };
    causes.iter().map(answer).collect()
}

impl Found<'_> {
    /// Why no finding of the cause is shown; `None` if one is.
    fn unshown(&self, id: Id) -> Option<String> {
        if self.shown.iter().any(|f| f.cause == id) {
            return None;
        }
        let mut notes = self.little.iter().filter(|(f, _)| f.cause == id);
        Some(match notes.next() {
            Some((_, why)) => format!("a note, no finding: {why}"),
            None => "not shown: see the filter and the notes".into(),
        })
    }

    /// What became of the traces of a cause that has no finding.
    fn left_out(&self, id: Id) -> Option<String> {
        let (_, became) = self.seen.iter().find(|(seen, _)| *seen == id)?;
        let explains = |f: &&Finding| who_wins::explains(f).contains(&id);
        let under = self.shown.iter().find(explains);
        Some(match under {
            Some(finding) => format!("its symptoms are a consequence of {}", finding.cause),
            None => (*became).to_string(),
        })
    }

    /// A shown finding at whose place this cause could not be ruled out.
    fn unsure(&self, id: Id) -> Option<&Finding> {
        let mut shown = self.shown.iter();
        shown.find(|f| f.unsure_of.contains(&id))
    }
}

/// What a cause needs and the recording lacks.
#[derive(Default)]
struct Lacking {
    /// Parts that were not asked for.
    parts: Vec<Cow<'static, str>>,
    /// Sources that failed, with the reason, or that belong to no known part.
    sources: Vec<String>,
}

impl Lacking {
    fn of(story: &Story, cause: &Cause) -> Lacking {
        let health = &story.health;
        let mut lacking = Lacking::default();
        for any in cause.needs {
            // The first of them is the most informative.
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

    /// What is lacking, in words; `None` if nothing is.
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

    /// The answer of a cause that was not found.
    fn judge(&self, cause: &Cause, whole: &Whole, found: &Found) -> Verdict {
        if let Some(why) = found
            .left_out(cause.id)
            .or_else(|| self.nothing(cause.ground))
        {
            return Verdict::CannotTell(why);
        }
        match ((cause.rule_out)(whole), found.unsure(cause.id)) {
            (Verdict::No(..), Some(finding)) => Verdict::cannot(format!(
                "it could not be ruled out where {} was found",
                finding.cause
            )),
            (Verdict::No(mut step, refuted), None) => {
                if let Some(but) = self.not_everywhere(cause.ground) {
                    step.says = format!("{}; {but}", step.says);
                }
                Verdict::No(step, refuted)
            }
            (verdict, _) => verdict,
        }
    }

    /// Why there was nothing to examine on this ground.
    fn nothing(&self, ground: Ground) -> Option<String> {
        let plural = words::plural;
        if ground != Ground::Host && self.connections == 0 {
            return Some("no connection was seen".into());
        }
        match ground {
            Ground::Transfers if self.sampled == 0 => Some(format!(
                "none of {} lived long enough for a sample",
                plural(self.connections, "connection")
            )),
            Ground::Answers if self.answering == 0 => {
                Some("no request came to a listener of this host".into())
            }
            Ground::Requests if self.asking == 0 => {
                Some("no request went out from this host".into())
            }
            Ground::Listeners if self.listened == 0 => Some(format!(
                "the listener is not on this host: record there ({})",
                plural(self.opened, "connect")
            )),
            _ => None,
        }
    }

    /// The connects for which an answer does not hold.
    fn not_everywhere(&self, ground: Ground) -> Option<String> {
        (ground == Ground::Listeners && self.elsewhere > 0).then(|| {
            format!(
                "not for {} of {}: their listener is not on this host",
                words::count(self.elsewhere),
                words::plural(self.opened, "connect")
            )
        })
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
        assert!(answer(&f, "cpu-contention").record.is_empty());
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
