//! From what a recording tells to what is said of it: findings that hold up, the account, the summary.

use analysis::account;
use analysis::{HealthNote, NoteKind, Story, words};
use recording::{Error, Recording};

use crate::answers::Found;
use crate::episodes::{Stretch, episodes};
use crate::explanation::{Explanation, Note};
use crate::id::Id;
use crate::inquiry::Inquiry;
use crate::judge::{Judged, judge};
use crate::name_waits::name_waits;
use crate::not_tcp::{TimeOf, not_tcp, standstill};
use crate::options::Options;
use crate::summary::Summary;
use crate::symptoms::{Symptom, symptoms};
use crate::unexplained::unexplained;
use crate::validate::Validator;
use crate::whole::Whole;
use crate::{answers, filter_findings, since};

pub(crate) fn of_story(
    story: &Story,
    recording: &Recording,
    options: &Options,
) -> Result<Explanation, Error> {
    let recording = &recording.for_sentences();
    let mut summary = Summary::of(recording, story);
    let mut note = |says: String| {
        let (source, kind) = ("explain".into(), NoteKind::LeftOut);
        summary.health.push(HealthNote { source, kind, says });
    };
    let inquiry = Inquiry::of(story, recording, &options.filter);
    let whole = Whole::of(story, inquiry);
    let (mut judged, mut holding) = (judge(&whole, &options.causes), Vec::new());
    narrow(&mut judged, &mut holding, story, recording, options)?;
    since::tell(&mut judged.findings, story, recording)?;
    for stretch in episodes(story) {
        let part = in_part(stretch, &mut holding, story, recording, options)?;
        judged.seen.extend(&part.seen);
        judged.take(part, stretch.told(story), story.seconds());
    }
    for (cause, more) in judged.cut {
        note(format!("{more} further findings of {cause} are not shown"));
    }
    for finding in &mut judged.findings {
        finding.asked = whole.inquiry.suffers(finding);
    }
    let little = judged.little.iter_mut().map(|(finding, _)| finding);
    for finding in judged.findings.iter_mut().chain(little) {
        let home = finding.scope.pid.and_then(|pid| story.homes.of(pid));
        finding.scope.home = home.map(String::from);
        let netns = finding.scope.netns.inode;
        if let Some(named) = story.host_names.named(netns, &finding.title) {
            finding.title = named;
        }
    }
    // What the command met comes first, whatever else is worse.
    judged.findings.sort_by_key(|finding| !finding.asked);
    let mut validator = Validator::new(recording);
    let mut findings = Vec::new();
    for finding in judged.findings {
        match validator.check(&finding) {
            Ok(()) => findings.push(finding),
            // A finding we cannot stand by is a bug of ours: withheld, and said.
            Err(why) => note(format!(
                "internal error: a finding of {} is withheld because {why}; please report this",
                finding.cause
            )),
        }
    }
    let (mut account, folded) = account::account(story);
    filter_findings::services(&mut account, recording, &options.filter)?;
    summary.symptoms = symptoms(story, &account);
    let names = name_waits(story, &recording.manifest, &options.filter);
    summary.not_tcp = not_tcp(summary.command.as_ref(), names.as_ref(), story, &account)
        .or_else(|| standstill(&judged.little));
    let told = summary.not_tcp.as_ref().map(|told| told.whose);
    let has_names = names.is_some();
    let untold = names.filter(|_| told != Some(TimeOf::NameServer));
    summary.symptoms.extend(untold.map(|names| {
        Symptom {
            says: if names.count() == 1 {
                "wait for a name server"
            } else {
                "waits for a name server"
            }
            .into(),
            count: names.count(),
            counter: false,
            means: Some(names.says()),
        }
    }));
    // Who waits for a name server has no connection yet.
    let saw = filter_findings::saw(story, &options.filter, &account);
    summary.matched = saw.map(|saw| saw || has_names);
    let little = judged.little.iter().map(|(f, _)| f);
    let claiming: Vec<_> = findings.iter().chain(little).collect();
    let unexplained = unexplained(story, &account, &claiming);
    let found = Found {
        holding: &holding,
        seen: &judged.seen,
        shown: &findings,
        little: &judged.little,
    };
    summary.causes = answers::answers(&whole, &options.causes, &found);
    let notes = judged.little.into_iter().map(|(finding, because)| Note {
        cause: finding.cause,
        number: finding.number,
        title: finding.title,
        scope: finding.scope,
        because,
    });
    let notes = notes.collect();
    if folded > 0 {
        let ends = words::plural(folded, "end");
        note(format!(
            "{ends} of connections to further services are missing from the account"
        ));
    }
    summary.findings = findings.len();
    Ok(Explanation {
        findings,
        notes,
        account,
        unexplained,
        summary,
    })
}

/// What becomes of what costs too little in its worst part.
const IN_A_PART: &str = "it was seen in part of the recording, where it cost too little";

/// Keeps what the filter asks for; all that holds goes to `holding`.
fn narrow(
    judged: &mut Judged,
    holding: &mut Vec<Id>,
    story: &Story,
    recording: &Recording,
    options: &Options,
) -> Result<(), Error> {
    let little = judged.little.iter().map(|(f, _)| f);
    holding.extend(judged.findings.iter().chain(little).map(|f| f.cause));
    let selection = filter_findings::Selection::of(story, recording, &options.filter)?;
    judged.findings.retain(|f| selection.shows(f));
    judged.little.retain(|(f, _)| selection.shows(f));
    Ok(())
}

/// What holds in a part of the time, with its moments as the whole recording counts them.
fn in_part(
    stretch: Stretch,
    holding: &mut Vec<Id>,
    whole: &Story,
    recording: &Recording,
    options: &Options,
) -> Result<Judged, Error> {
    let part = recording.within(stretch.from_ns, stretch.to_ns);
    let story = Story::read(&part)?;
    let inquiry = Inquiry::of(&story, &part, &options.filter);
    let mut judged = judge(&Whole::of(&story, inquiry), &options.causes);
    // What costs too little in its worst part was a note of the whole, or is not worth one.
    let little = judged.little.drain(..);
    judged
        .seen
        .extend(little.map(|(f, _)| (f.cause, IN_A_PART)));
    narrow(&mut judged, holding, &story, &part, options)?;
    since::tell(&mut judged.findings, &story, &part)?;
    let after_ns = stretch.from_ns.saturating_sub(whole.start_ns);
    for since in judged.findings.iter_mut().filter_map(|f| f.since.as_mut()) {
        since.count_from(after_ns);
    }
    Ok(judged)
}
