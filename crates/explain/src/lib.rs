//! tcpwhy's judgement: reads a recording once, builds the story, asks every cause.
//!
//! Nothing here knows which producer made the recording, needs root, or looks at the host.

#![doc = include_str!("../README.md")]
#![warn(clippy::missing_errors_doc)]

mod actions;
mod advice;
mod answers;
mod asked;
mod callers;
mod case;
mod cause;
mod causes;
mod changes;
mod checks;
mod command;
pub mod compare;
mod correlated_counters;
mod drop_owners;
mod episodes;
mod explanation;
mod filter_findings;
mod finding;
mod found;
mod handshakes;
mod id;
mod inquiry;
mod judge;
mod kernel;
mod layer;
pub mod limits;
mod line;
mod lockstep;
mod lost;
mod matters;
mod modes;
mod moment;
mod name_waits;
mod named;
mod not_tcp;
mod options;
mod other_family;
mod paths;
mod place;
mod places;
mod programs;
mod rank;
mod reading;
mod resources;
mod rows;
mod rule;
mod run;
mod say;
#[cfg(feature = "schema")]
pub mod schema;
mod scope;
mod sentence;
mod shared_paths;
mod shell;
mod since;
mod stopped_by;
mod summary;
mod symptom_search;
mod symptoms;
mod undo;
mod unexplained;
mod validate;
mod verdict;
mod vocabulary;
mod waits;
mod who_wins;
mod whole;

use recording::{Error, Recording, SourceName};

pub use advice::{Advice, Change};
pub use analysis::account::{self, Service, State};
pub use analysis::{Arrival, Doing, HealthNote, Netns, NoteKind};
pub use answers::{Answer, Holds};
pub use case::Case;
pub use cause::{Cause, Ground, ToldWith};
pub use command::CommandTime;
pub use episodes::Episode;
pub use explanation::{Explanation, Note};
pub use finding::{
    Check, Confidence, Finding, Impact, Latency, Level, Number, Numbers, Role, RuledOut, Scope,
    Step,
};
pub use found::Found;
pub use handshakes::on_new_connections;
pub use id::Id;
pub use layer::Layer;
pub use line::Line;
pub use lost::Lost;
pub use moment::{Began, Since};
pub use not_tcp::{NotTcp, TimeOf};
pub use options::{Options, UnknownCause};
pub use reading::{Cluster, Connect, End, Reading};
pub use resources::ResourceLine;
pub use sentence::Sentence;
pub use shell::{ShellCommand, all_given};
pub use summary::{Connections, Facts, SCHEMA, Summary};
pub use symptom_search::nearest as nearest_symptoms;
pub use symptoms::Symptom;
pub use undo::Undo;
pub use unexplained::{DroppedFor, Unexplained};
pub use verdict::{Refuted, Told};
pub use waits::{EndedBy, WaitSummary, Walk, WalkHop};
pub use who_wins::page as who_wins_page;
pub use whole::Whole;

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

/// The book's page of causes, as Markdown, with the scenarios in which the lab plants each, and how many of how many
/// faults the exam found; `make docs` writes it.
pub fn causes_page(
    planted: impl Fn(Id) -> Vec<String>,
    examined: impl Fn(Id) -> Option<(u64, u64)>,
) -> String {
    let mut page = String::from(
        "# The causes\n\n\
         Made from `crates/explain/src/causes/`, one `.md` per cause; `make docs` writes it.\n\
         `tcpwhy explain` tests each of them; `tcpwhy explain --cause ID` tests one.\n",
    );
    page.push_str(
        "[What people see](symptoms.md) leads from a symptom to the causes; `tcpwhy explain --symptom WORDS` as well.\n",
    );
    page.push_str(
        "\nNumbers that are missing below are causes that a recording does not show:\n\n",
    );
    page.push_str("| no | cause | why it is not reported |\n|---|---|---|\n");
    for (number, name, why) in causes::NOT_TOLD {
        page.push_str(&format!("| {number} | {name} | {why} |\n"));
    }
    page.push_str(
        "\nFor each of the others: what it needs, at least one source of each group (with the part that `--with` records \
         it by, where the name differs); its look-alikes; where [the lab](lab.md) plants it, or that only synthetic \
         recordings test it; and how many of the faults that a user notices [the exam](exam.md) found, whatever else was \
         wrong beside them and whichever side was recorded.\n\n\
         | cause | needs | look-alikes | planted by | found |\n|---|---|---|---|---|\n",
    );
    let mut all: Vec<&Cause> = causes::ALL.iter().collect();
    all.sort_by_key(|cause| cause.number);
    for cause in &all {
        page.push_str(&row_of(cause, &planted(cause.id), examined(cause.id)));
    }
    for cause in all {
        let Cause {
            id, number, title, ..
        } = cause;
        let text = cause.page.trim();
        page.push_str(&format!("\n## {number} `{id}`: {title}\n\n{text}\n"));
        let seen_from = (cause.seen_from)();
        if !seen_from.is_empty() {
            page.push_str(&format!("\n**Reported from.** {seen_from}.\n"));
        }
    }
    page
}

/// A line of the table of causes.
fn row_of(cause: &Cause, planted: &[String], examined: Option<(u64, u64)>) -> String {
    let code = |names: &mut dyn Iterator<Item = String>, between: &str| {
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        names.join(between)
    };
    let source = |source: &SourceName| match source.part() {
        Some(part) if part != source.to_string() => format!("`{source}` ({part})"),
        _ => format!("`{source}`"),
    };
    let any = |group: &&[SourceName]| {
        let sources: Vec<String> = group.iter().map(source).collect();
        sources.join(" or ")
    };
    let needs: Vec<String> = cause.needs.iter().map(any).collect();
    let planted = match planted {
        [] => "synthetic recordings only".to_string(),
        names => code(&mut names.iter().cloned(), ", "),
    };
    let found = examined.map_or("".into(), |(found, of)| format!("{found} of {of}"));
    format!(
        "| {} `{}` | {} | {} | {planted} | {found} |\n",
        cause.number,
        cause.id,
        needs.join("; "),
        code(&mut cause.rivals.iter().map(|id| id.to_string()), ", ")
    )
}

/// The book's index of symptoms, as Markdown; `make docs` writes it.
pub fn symptoms_page() -> String {
    let mut page = String::from(
        "# What people see\n\n\
         Made from the declarations in `crates/explain/src/causes/`; `make docs` writes it.\n\
         `tcpwhy explain --symptom WORDS` lists the five causes nearest to what you see.\n\n\
         | what is seen | it may be |\n|---|---|\n",
    );
    for (seen, cause) in signatures() {
        let (id, number) = (cause.id, cause.number);
        let anchor = format!("{}-{id}-{}", number.to_lowercase(), anchor(cause.title));
        let seen = seen.replace('|', "\\|");
        page.push_str(&format!("| {seen} | [`{id}`](causes.md#{anchor}) |\n"));
    }
    page
}

/// A heading's text as the anchor that viewers of Markdown give it.
fn anchor(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// What people see of the causes, in alphabetical order.
pub fn signatures() -> Vec<(&'static str, &'static Cause)> {
    let all = causes::ALL.iter();
    let all = all.flat_map(|cause| cause.signature.iter().map(move |seen| (*seen, cause)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(seen, cause)| (seen.to_lowercase(), cause.number));
    all
}
