//! tcpwhy's judgement: reads a recording once, builds the story, asks every cause.
//!
//! Nothing here knows which producer made the recording, needs root, or looks at the host.

#![doc = include_str!("../README.md")]
#![warn(clippy::missing_errors_doc)]

mod actions;
mod advice;
mod answers;
mod asked;
mod case;
mod cause;
mod causes;
mod changes;
mod checks;
pub mod compare;
mod concentrate;
mod correlated_counters;
mod episodes;
mod explanation;
mod filter_findings;
mod finding;
mod id;
mod inquiry;
mod judge;
mod kernel;
mod late_behind;
mod layer;
mod line;
mod lost;
mod matters;
mod modes;
mod moment;
mod one_stop;
mod options;
mod place;
mod places;
mod programs;
mod reading;
mod resources;
mod rows;
mod run;
mod say;
#[cfg(feature = "schema")]
pub mod schema;
mod scope;
mod since;
mod summary;
mod symptoms;
mod unexplained;
mod validate;
mod vocabulary;
mod waits;

use recording::{Error, Recording};

pub use advice::{Advice, Change};
pub use analysis::account::{self, Service, State};
pub use analysis::{Arrival, Doing, HealthNote, Netns, NoteKind};
pub use answers::{Answer, Holds};
pub use case::Case;
pub use cause::{Cause, Ground};
pub use episodes::Episode;
pub use explanation::{Explanation, Note};
pub use finding::{
    Check, Confidence, Finding, Impact, Latency, Level, Number, Numbers, Role, RuledOut, Scope,
    Step,
};
pub use id::Id;
pub use layer::Layer;
pub use line::Line;
pub use lost::Lost;
pub use moment::{Began, Since};
pub use options::{Options, UnknownCause};
pub use reading::{Cluster, Connect, End, Reading};
pub use resources::ResourceLine;
pub use summary::{Connections, Facts, SCHEMA, Summary};
pub use symptoms::Symptom;
pub use unexplained::Unexplained;
pub use waits::{EndedBy, WaitSummary, Walk, WalkHop};

/// Every cause that is known, by number.
pub fn causes() -> &'static [Cause] {
    causes::ALL
}

/// Says why TCP is slow in this recording: tests every cause.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn explain(recording: &Recording) -> Result<Explanation, Error> {
    explain_with(recording, &Options::default())
}

/// Says why TCP is slow in this recording: tests the causes that are asked for.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn explain_with(recording: &Recording, options: &Options) -> Result<Explanation, Error> {
    Reading::of(recording)?.explain(recording, options)
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
