//! tcpwhy's judgement: reads a recording once, builds the story, asks every cause.
//!
//! Nothing here knows which producer made the recording, needs root, or looks at the host.

#![doc = include_str!("../README.md")]

mod answers;
mod case;
mod causes;
mod changes;
pub mod compare;
mod correlated_counters;
mod filter_findings;
mod finding;
mod id;
mod lost;
mod modes;
mod reading;
mod say;
mod since;
mod summary;
mod validate;
mod waits;

use std::fmt;

use recording::{Error, Filter, Recording};

pub use analysis::account::{self, Service, State};
pub use analysis::{Arrival, Doing, HealthNote, Netns, NoteKind};
pub use answers::{Answer, Ground, Holds};
pub use case::Case;
pub use causes::Cause;
pub use finding::{
    Advice, Change, Check, Confidence, Explanation, Finding, Impact, Latency, Level, Number,
    Numbers, Role, RuledOut, Scope, Step,
};
pub use id::Id;
pub use lost::Lost;
pub use reading::{Cluster, Connect, End, Reading};
pub use since::{Began, Since};
pub use summary::{Connections, Facts, Summary, Symptom};
pub use waits::{EndedBy, WaitSummary, Walk, WalkHop};

use analysis::{Story, words};
use validate::Validator;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Options {
    causes: Vec<Cause>,
    filter: Filter,
}

impl Default for Options {
    /// Every cause.
    fn default() -> Options {
        Options {
            causes: causes::ALL.to_vec(),
            filter: Filter::default(),
        }
    }
}

impl Options {
    /// Only the named cause.
    pub fn only(id: &str) -> Result<Options, UnknownCause> {
        let known = causes::ALL.iter().find(|c| c.id == id);
        let cause = known.ok_or_else(|| UnknownCause(id.to_string()))?;
        Ok(Options {
            causes: vec![*cause],
            filter: Filter::default(),
        })
    }
}

impl Options {
    /// Tests this cause, too.
    pub fn also(mut self, cause: Cause) -> Options {
        self.causes.push(cause);
        self
    }

    /// Reports only findings about what the filter asks for.
    pub fn about(self, filter: Filter) -> Options {
        Options { filter, ..self }
    }
}

/// No cause has this id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCause(pub String);

impl fmt::Display for UnknownCause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let known: Vec<_> = causes::ALL.iter().map(|c| c.id.as_str()).collect();
        let known = known.join(", ");
        write!(f, "no cause is called {:?}; known are: {known}", self.0)
    }
}

impl std::error::Error for UnknownCause {}

/// Every cause that is known, by number.
pub fn causes() -> &'static [Cause] {
    causes::ALL
}

/// Says why TCP is slow in this recording: tests every cause.
pub fn explain(recording: &Recording) -> Result<Explanation, Error> {
    explain_with(recording, &Options::default())
}

/// Says why TCP is slow in this recording: tests the causes that are asked for.
pub fn explain_with(recording: &Recording, options: &Options) -> Result<Explanation, Error> {
    Reading::of(recording)?.explain(recording, options)
}

fn of_story(story: &Story, recording: &Recording, options: &Options) -> Result<Explanation, Error> {
    let mut summary = Summary::of(recording, story);
    let (mut found, cut) = causes::find(story, &options.causes);
    let holding: Vec<_> = found.iter().map(|f| f.cause).collect();
    filter_findings::narrow(&mut found, story, recording, &options.filter)?;
    let mut note = |says: String| {
        let (source, kind) = ("explain".into(), NoteKind::LeftOut);
        summary.health.push(HealthNote { source, kind, says });
    };
    for (cause, more) in cut {
        note(format!("{more} further findings of {cause} are not shown"));
    }
    let mut validator = Validator::new(recording);
    let mut findings = Vec::new();
    for finding in found {
        match validator.check(&finding) {
            Ok(()) => findings.push(finding),
            // A finding we cannot stand by is a bug of ours: withheld, and said.
            Err(why) => note(format!(
                "internal error: a finding of {} is withheld because {why}; please report this",
                finding.cause
            )),
        }
    }
    since::tell(&mut findings, story, recording)?;
    let (mut account, folded) = account::account(story);
    filter_findings::services(&mut account, recording, &options.filter)?;
    if folded > 0 {
        let ends = words::plural(folded, "end");
        note(format!(
            "{ends} of connections to further services are in no account"
        ));
    }
    summary.findings = findings.len();
    summary.causes = answers::answers(story, &options.causes, &holding, &findings);
    Ok(Explanation {
        findings,
        account,
        summary,
    })
}

/// The book's page of causes, as Markdown; `make docs` writes it.
pub fn causes_page() -> String {
    let mut page = String::from(
        "# The causes\n\n\
         Made from `crates/explain/src/causes/`, one `.md` per cause; `make docs` writes it.\n\
         `tcpwhy explain` tests each of them; `tcpwhy explain --cause ID` tests one.\n",
    );
    for cause in causes::ALL {
        let Cause {
            id, number, title, ..
        } = cause;
        let text = cause.page.trim();
        page.push_str(&format!("\n## {number} `{id}`: {title}\n\n{text}\n"));
    }
    page
}
