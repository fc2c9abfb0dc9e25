//! What explain said, as rows of the tables `finding`, `episode` and `answer`.

use std::collections::BTreeSet;

use explain::{Explanation, Finding};
use recording::{Manifest, tables};
use serde::Serialize;

/// Rows of a finding that are named: as many as one text of a recording can hold.
const NAMED_ROWS: usize = 40;

/// An explanation as rows.
#[derive(Debug)]
pub struct Explained {
    /// One row per finding, the one that cost most first.
    pub findings: Vec<tables::Finding>,
    /// One row per episode of a finding.
    pub episodes: Vec<tables::Episode>,
    /// One row per cause.
    pub answers: Vec<tables::Answer>,
}

/// What is said of the recording of this manifest.
pub fn explained(explanation: &Explanation, of: &Manifest) -> Explained {
    let after = |s: f64| of.start_ns.saturating_add((s.max(0.0) * 1e9) as u64);
    let numbered = || (1..).zip(&explanation.findings);
    let episodes = numbered().flat_map(|(finding, f)| {
        f.episodes.iter().map(move |episode| tables::Episode {
            time_ns: after(episode.from_s),
            finding,
            ended_ns: after(episode.to_s),
        })
    });
    let answers = explanation.summary.causes.iter();
    let answers = answers.map(|answer| tables::Answer {
        time_ns: of.start_ns,
        cause: answer.cause.as_str().into(),
        answer: word(&answer.answer).into(),
        because: answer.because.as_deref().map(Into::into),
    });
    Explained {
        findings: numbered().map(|(n, f)| finding(n, f, after)).collect(),
        episodes: episodes.collect(),
        answers: answers.collect(),
    }
}

fn finding(number: u32, of: &Finding, after: impl Fn(f64) -> u64) -> tables::Finding {
    let (scope, since) = (&of.scope, of.since.as_ref());
    let rows: BTreeSet<_> = of.evidence.iter().flat_map(|step| &step.rows).collect();
    let rows: Vec<String> = rows
        .iter()
        .take(NAMED_ROWS)
        .map(ToString::to_string)
        .collect();
    tables::Finding {
        time_ns: after(since.map_or(0.0, |since| since.after_start_s)),
        finding: number,
        cause: of.cause.as_str().into(),
        layer: word(&of.layer).into(),
        title: of.title.as_str().into(),
        fix: of.fix.as_str().into(),
        confidence: word(&of.confidence.level).into(),
        netns: scope.netns.inode,
        listener: scope.listener.as_str().into(),
        resource: scope.resource.as_deref().map(Into::into),
        role: word(&scope.role).into(),
        pid: scope.pid,
        comm: scope.comm.as_deref().map(Into::into),
        backlog: scope.backlog,
        affected: of.impact.affected,
        of: of.impact.of,
        counted: of.impact.counted.as_ref().into(),
        lost_ns: of.lost_s.seconds().map(|s| (s.max(0.0) * 1e9) as u64),
        says: of.impact.says.as_str().into(),
        rows: rows.join(" ").into(),
    }
}

/// The word for a value in JSON; empty for one that has none.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
