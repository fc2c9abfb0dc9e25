//! The findings, and the rows behind each step of their evidence.

use std::collections::BTreeMap;

use analysis::timeline::Axis;
use explain::{Explanation, Number};
use jiff::tz::TimeZone;
use recording::{Error, EventKind, Recording, Row, RowRef, Value};

use super::page::{Advice, CauseDoc, Check, EvidenceRow, Finding, Noted, Step, StepKind, TableDoc};
use super::{Thinned, short};
use crate::numbers::number;
use crate::text::{advice_kind, facts, lost, place};

/// Findings, notes, rows of one step, and rows of all that a page has.
const MAX_FINDINGS: usize = 50;
const MAX_NOTES: usize = 50;
const ROWS_PER_STEP: usize = 12;
const MAX_ROWS: usize = 2_000;

/// The rows behind the findings that a page has.
pub(super) fn evidence(
    recording: &Recording,
    explanation: &Explanation,
) -> Result<BTreeMap<RowRef, Row>, Error> {
    let steps = explanation
        .findings
        .iter()
        .take(MAX_FINDINGS)
        .flat_map(|f| &f.evidence);
    let rows = steps.flat_map(|step| step.rows.iter().take(ROWS_PER_STEP));
    recording.pick(rows.copied().take(MAX_ROWS))
}

/// The findings in the page's form.
pub(super) fn findings(
    explanation: &Explanation,
    rows: &BTreeMap<RowRef, Row>,
    thinned: &mut Thinned,
) -> Vec<Finding> {
    let all = &explanation.findings;
    thinned.say(all.len() > MAX_FINDINGS, || {
        format!(
            "The page has the first {MAX_FINDINGS} of {} findings.",
            all.len()
        )
    });
    let start = explanation.summary.recording.start_unix_ns;
    let findings = all
        .iter()
        .take(MAX_FINDINGS)
        .map(|f| finding(f, rows, start));
    findings.collect()
}

/// What holds and cost too little to be a finding, in the page's form.
pub(super) fn noted(explanation: &Explanation, thinned: &mut Thinned) -> Vec<Noted> {
    let all = &explanation.notes;
    thinned.say(all.len() > MAX_NOTES, || {
        format!("The page has the first {MAX_NOTES} of {} notes.", all.len())
    });
    let noted = all.iter().take(MAX_NOTES).map(|note| Noted {
        cause: note.cause.to_string(),
        title: note.title.clone(),
        at: place(&note.scope),
        because: note.because.clone(),
    });
    noted.collect()
}

fn finding(f: &explain::Finding, rows: &BTreeMap<RowRef, Row>, start_unix_ns: i64) -> Finding {
    // The page says these where they are read first.
    let elsewhere = ["impact", "lost", "cause"];
    let facts = facts(f, start_unix_ns, &TimeZone::UTC).into_iter();
    let facts = facts.filter(|(label, _)| !elsewhere.contains(label));
    Finding {
        cause: f.cause.to_string(),
        number: f.number.to_string(),
        layer: f.layer.says().into(),
        title: f.title.clone(),
        impact: f.impact.says.clone(),
        lost: lost(&f.lost_s).unwrap_or_default(),
        fix: f.fix.clone(),
        facts: facts.map(|(label, text)| (label.into(), text)).collect(),
        since_s: f.since.as_ref().map(|s| s.after_start_s),
        spans: Vec::new(),
        course: None,
        confidence: f.confidence.level.to_string(),
        because: f.confidence.because.clone(),
        steps: f.evidence.iter().map(|s| step(s, rows)).collect(),
        arithmetic: f.arithmetic.iter().map(check).collect(),
        ruled_out: f.ruled_out.iter().map(ruled_out).collect(),
        advice: f.advice.iter().map(advice).collect(),
        verify: f.verify.clone(),
    }
}

fn step(step: &explain::Step, rows: &BTreeMap<RowRef, Row>) -> Step {
    let shown = step.rows.iter().filter(|row| rows.contains_key(row));
    Step {
        kind: kind(step, rows),
        says: step.says.clone(),
        numbers: step
            .numbers
            .0
            .iter()
            .map(|(name, n)| (name.replace('_', " "), shown_number(n)))
            .collect(),
        rows: shown.take(ROWS_PER_STEP).map(RowRef::to_string).collect(),
    }
}

/// The kind of most of its rows; the first of several as frequent. Counters confirm other rows: they count where
/// there is nothing else.
fn kind(step: &explain::Step, rows: &BTreeMap<RowRef, Row>) -> StepKind {
    let kinds = step.rows.iter().filter_map(|at| rows.get(at)).map(kind_of);
    let mut counts: Vec<(StepKind, usize)> = Vec::new();
    for kind in kinds {
        match counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, n)) => *n += 1,
            None => counts.push((kind, 1)),
        }
    }
    if counts.iter().any(|(kind, _)| *kind != StepKind::Counter) {
        counts.retain(|(kind, _)| *kind != StepKind::Counter);
    }
    let most = counts.iter().map(|(_, n)| *n).max();
    let first = counts.iter().find(|(_, n)| Some(*n) == most);
    first.map_or(StepKind::Other, |(kind, _)| *kind)
}

fn kind_of(row: &Row) -> StepKind {
    match row {
        Row::Event(e) => match e.kind {
            EventKind::Retransmit | EventKind::SynAckRetransmit => StepKind::Segment,
            EventKind::Drop | EventKind::ResetSent | EventKind::ResetReceived => StepKind::Refusal,
            _ => StepKind::Connection,
        },
        Row::Packet(_) => StepKind::Segment,
        Row::Call(_) | Row::Socket(_) => StepKind::Connection,
        Row::Wait(_) | Row::Request(_) | Row::RequestTime(_) | Row::Exchange(_) => StepKind::Wait,
        Row::Gap(_) | Row::Heartbeat(_) => StepKind::Wait,
        Row::Counter(_) => StepKind::Counter,
        Row::Setting(_) | Row::InterfaceAddress(_) | Row::HostName(_) => StepKind::Setting,
        Row::Listener(_) | Row::PortUse(_) | Row::TableSize(_) | Row::Resource(_) => {
            StepKind::Limit
        }
        Row::Holder(_)
        | Row::Process(_)
        | Row::Cgroup(_)
        | Row::Thread(_)
        | Row::ThreadSleep(_)
        | Row::Epoll(_)
        | Row::Signal(_)
        | Row::Sample(_)
        | Row::Cpu(_)
        | Row::Interrupt(_) => StepKind::Time,
        Row::Stack(_)
        | Row::Frame(_)
        | Row::Health(_)
        | Row::Finding(_)
        | Row::Episode(_)
        | Row::Answer(_) => StepKind::Other,
    }
}

fn shown_number(n: &Number) -> String {
    match n {
        Number::Count(n) => number(*n as f64),
        Number::Real(v) => number(*v),
        Number::Text(text) => text.clone(),
        Number::Flag(yes) => if *yes { "yes" } else { "no" }.into(),
    }
}

fn check(check: &explain::Check) -> Check {
    let with_unit = |v: f64| {
        format!("{} {}", number(v), check.unit)
            .trim_end()
            .to_string()
    };
    Check {
        formula: check.formula.clone(),
        expected: with_unit(check.expected),
        measured: with_unit(check.measured),
        agrees: check.agrees,
        tolerance: check.tolerance.clone(),
    }
}

fn ruled_out(out: &explain::RuledOut) -> (String, String, String) {
    let known = explain::causes().iter().find(|c| c.id == out.cause);
    let title = known.map_or("", |c| c.title);
    (out.cause.to_string(), title.into(), out.because.clone())
}

fn advice(advice: &explain::Advice) -> Advice {
    Advice {
        action: advice.action.clone(),
        command: advice.command.as_deref().map(str::to_string),
        kind: advice_kind(advice).trim_end().into(),
        at: advice.r#where.clone(),
        risk: match &advice.undo {
            Some(undo) => format!("{} Undo: {undo}", advice.risk),
            None => advice.risk.clone(),
        },
        expected: advice.expected.clone(),
    }
}

/// What the book says of each cause.
pub(super) fn causes() -> Vec<CauseDoc> {
    let docs = explain::causes().iter().map(|c| CauseDoc {
        id: c.id.to_string(),
        number: c.number.into(),
        title: c.title.into(),
        text: c.page.into(),
    });
    docs.collect()
}

/// The rows as text, by their names.
pub(super) fn rows(rows: &BTreeMap<RowRef, Row>, axis: Axis) -> BTreeMap<String, EvidenceRow> {
    let texts = rows.iter().map(|(at, row)| {
        let cells = row.cells().into_iter().filter(|(_, v)| *v != Value::Null);
        let row = EvidenceRow {
            table: at.table.into(),
            time_s: axis.seconds(row.time_ns()),
            cells: cells
                .map(|(name, value)| (name.into(), short(&value.to_string())))
                .collect(),
        };
        (at.to_string(), row)
    });
    texts.collect()
}

/// The tables of the rows, by name.
pub(super) fn tables(rows: &BTreeMap<RowRef, Row>) -> BTreeMap<String, TableDoc> {
    let infos = rows.values().map(Row::info);
    let tables = infos.map(|info| {
        let columns = info.columns.iter();
        let columns = columns.map(|c| {
            let says = c.doc.trim().to_string();
            (c.name.to_string(), c.unit.label().to_string(), says)
        });
        let doc = TableDoc {
            doc: info.doc.trim().into(),
            columns: columns.collect(),
        };
        (info.name.to_string(), doc)
    });
    tables.collect()
}

#[cfg(test)]
mod tests {
    use explain::{Episode, Line, Options, Reading};
    use serde_json::json;
    use synth::cases;

    use super::*;

    #[test]
    fn notes_and_the_episodes_of_findings_are_told() {
        let written = cases::refused().write().unwrap();
        let recording = Recording::open(written.recording.dir()).unwrap();
        let reading = Reading::of(&recording).unwrap();
        let mut explanation = reading.explain(&recording, &Options::default()).unwrap();
        assert!(noted(&explanation, &mut Thinned::default()).is_empty());
        let note = json!({
            "type": "note", "cause": "tail-loss", "number": "C18", "title": "A message waited.",
            "scope": explanation.findings[0].scope, "because": "it happened once",
        });
        for _ in 0..60 {
            let Ok(Line::Note(note)) = serde_json::from_value(note.clone()) else {
                panic!("it is a note");
            };
            explanation.notes.push(*note);
        }
        let mut thinned = Thinned::default();
        let told = noted(&explanation, &mut thinned);
        assert_eq!(told.len(), 50);
        assert_eq!(thinned.0, ["The page has the first 50 of 60 notes."]);
        let first = (&*told[0].cause, &*told[0].title, &*told[0].because);
        assert_eq!(
            first,
            ("tail-loss", "A message waited.", "it happened once")
        );
        assert!(told[0].at.contains("network namespace"), "{}", told[0].at);

        explanation.findings[0].episodes = vec![Episode {
            from_s: 2_400.0,
            to_s: 2_640.0,
        }];
        let told = findings(&explanation, &BTreeMap::new(), &mut thinned);
        let during = ("during", "240 s from 2,400 s after the start");
        let facts = told[0]
            .facts
            .iter()
            .map(|(label, text)| (&**label, &**text));
        assert!(
            facts.into_iter().any(|fact| fact == during),
            "{:?}",
            told[0].facts
        );
    }
}
