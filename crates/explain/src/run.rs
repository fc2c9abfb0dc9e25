//! From what a recording tells to what is said of it: findings that hold up, the account, the summary.

use analysis::account;
use analysis::{HealthNote, NoteKind, Story, words};
use recording::{Error, Recording};

use crate::explanation::Explanation;
use crate::options::Options;
use crate::summary::Summary;
use crate::validate::Validator;
use crate::{answers, filter_findings, judge, since};

pub(crate) fn of_story(
    story: &Story,
    recording: &Recording,
    options: &Options,
) -> Result<Explanation, Error> {
    let mut summary = Summary::of(recording, story);
    let (mut found, cut) = judge::find(story, &options.causes);
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
