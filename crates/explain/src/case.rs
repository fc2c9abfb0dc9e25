//! How a cause says yes: a finding, built step by step; what all causes have in common is filled in.

use analysis::words::fitting;
use analysis::{ConnId, Story};
use recording::SourceName;

use crate::actions::former_sysctl;
use crate::advice::{Advice, Change};
use crate::cause::Cause;
use crate::finding::{Check, Confidence, Finding, Impact, Level, RuledOut, Scope, Step};
use crate::layer::Layer;
use crate::lost::Lost;
use crate::moment::Since;
use crate::place::Place;
use crate::sentence::Sentence;
use crate::shell::ShellCommand;

/// Why a case whose claim is not confirmed is no finding.
const DISPUTED: &str = "a second measurement does not confirm the time that it claims";

/// A case of a cause.
pub struct Case<'a> {
    story: &'a Story,
    sources: Vec<&'static SourceName>,
    finding: Finding,
}

impl<'a> Case<'a> {
    /// A case, with where it is and what process it is about.
    pub fn new(story: &'a Story, cause: Cause, scope: Scope) -> Case<'a> {
        let finding = Finding {
            cause: cause.id,
            number: cause.number.into(),
            layer: cause.layer,
            title: String::new(),
            fix: String::new(),
            scope,
            place: None,
            note: None,
            if_asked: Vec::new(),
            only_if_asked: false,
            asked: false,
            unsure_of: Vec::new(),
            waits_for_others: false,
            impact: Impact::default(),
            lost_s: Lost::unknown(),
            since: None,
            episodes: Vec::new(),
            confidence: Confidence::high(),
            evidence: Vec::new(),
            arithmetic: Vec::new(),
            ruled_out: Vec::new(),
            advice: Vec::new(),
            verify: String::new(),
        };
        Case {
            story,
            sources: cause
                .needs
                .iter()
                .flat_map(|any| used(story, any))
                .collect(),
            finding,
        }
    }

    /// At a place about which its rivals are asked.
    pub(crate) fn placed(mut self, place: Place) -> Self {
        self.finding.place = Some(place);
        self
    }

    /// Whose trouble it is here, where that is not what the cause says of itself.
    pub fn layer(mut self, layer: Layer) -> Self {
        self.finding.layer = layer;
        self
    }

    /// Why it is a note and no finding, if it is.
    pub(crate) fn noted(mut self, why: Option<&'static str>) -> Self {
        self.finding.note = why;
        self
    }

    /// Its process may have waited for its own connects.
    pub(crate) fn waits_for_others(mut self, waits: bool) -> Self {
        self.finding.waits_for_others = waits;
        self
    }

    /// A finding whatever it cost, if the user asked about one of these ends; with `only`, only then.
    pub(crate) fn if_asked(mut self, ends: Vec<ConnId>, only: bool) -> Self {
        (self.finding.if_asked, self.finding.only_if_asked) = (ends, only);
        self
    }

    /// Look-alikes that it rules out itself; not needed where rivals are declared.
    pub fn rules_out(mut self, ruled_out: impl IntoIterator<Item = RuledOut>) -> Self {
        self.finding.ruled_out.extend(ruled_out);
        self
    }

    /// What is wrong, in one sentence: the first that fits a line.
    pub fn title<const N: usize>(mut self, candidates: [String; N]) -> Self {
        self.finding.title = fitting(candidates);
        self
    }

    /// What to do, in one sentence: the first that fits a line.
    pub fn fix<const N: usize>(mut self, candidates: [String; N]) -> Self {
        self.finding.fix = fitting(candidates);
        self
    }

    /// How many suffer, and the time that they lost.
    pub fn affects(mut self, impact: Impact, lost: Lost) -> Self {
        (self.finding.impact, self.finding.lost_s) = (impact, lost);
        self
    }

    /// Since when, where that is no row of its evidence.
    pub(crate) fn since(mut self, since: Since) -> Self {
        self.finding.since = Some(since);
        self
    }

    /// A reason that carries it.
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.finding.confidence.because(why);
        self
    }

    /// A reason why it can be no more than `level`.
    pub fn at_most(mut self, level: Level, why: &str) -> Self {
        self.finding.confidence.at_most(level, why);
        self
    }

    /// The same, where it holds.
    pub fn at_most_if(self, level: Level, holds: bool, why: &str) -> Self {
        if holds {
            self.at_most(level, why)
        } else {
            self
        }
    }

    /// Sources that it rests on beside those that the cause needs.
    pub(crate) fn rests_on(mut self, sources: &'static [SourceName]) -> Self {
        self.sources.extend(sources);
        self
    }

    /// Steps of its evidence.
    pub fn steps(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.finding.evidence.extend(steps);
        self
    }

    /// The time that it claims, measured in a second way. If that does not fit, it is a note and no finding.
    pub(crate) fn claim_checked(mut self, check: Option<Check>) -> Self {
        if check.as_ref().is_some_and(|c| !c.agrees) {
            self.finding.note = self.finding.note.or(Some(DISPUTED));
        }
        self.checks(check)
    }

    /// Numbers that must fit, the main one first: if that one does not, the finding is hardly sure.
    pub fn checks(mut self, checks: impl IntoIterator<Item = Check>) -> Self {
        self.finding.arithmetic.extend(checks);
        self
    }

    /// What to do, the best first.
    pub fn advise(mut self, advice: impl IntoIterator<Item = Advice>) -> Self {
        let story = self.story;
        let advice = advice.into_iter().map(|advice| match &advice.change {
            Some(Change::Sysctl { netns, name, .. }) if advice.undo.is_none() => {
                let undo = former_sysctl(story, *netns, name);
                advice.undo(Some(undo))
            }
            _ => advice,
        });
        let advice = advice.inspect(|advice| {
            let changes = advice.command.as_ref().is_some_and(ShellCommand::changes);
            // What changes something is labelled by how it is taken back.
            debug_assert!(!changes || !advice.only_looks(), "{:?}", advice.command);
        });
        self.finding.advice.extend(advice);
        self
    }

    /// How to check that it worked; the finding.
    pub fn verify(mut self, how: impl Into<Sentence>) -> Finding {
        let netns = &self.finding.scope.netns;
        self.finding.verify = how.into().in_netns(netns);
        let Finding {
            confidence,
            arithmetic,
            ..
        } = &mut self.finding;
        confidence.weigh_checks(arithmetic);
        for source in self.sources {
            if let Some(doubt) = self.story.health.doubt(source) {
                confidence.at_most(Level::Medium, doubt);
            }
        }
        self.finding
    }
}

/// Where one source of several is enough, those that worked; all where none did.
fn used(story: &Story, any: &'static [SourceName]) -> impl Iterator<Item = &'static SourceName> {
    let sees = |source: &&SourceName| story.health.sees(source);
    let some = any.iter().any(|source| sees(&source));
    any.iter().filter(move |source| !some || sees(source))
}
