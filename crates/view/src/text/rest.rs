//! What a recording tells besides its findings: notes, resources, waits, what was recorded, and what each cause
//! answers.

use std::collections::BTreeMap;

use analysis::words::{count, plural};
use explain::{Answer, Holds, Note, Refuted, ResourceLine, Summary, Symptom, WaitSummary};

use super::{CUT_SHORT, REDACTED};
use crate::numbers::number;
use crate::page::Page;
use crate::style::Look;

/// Notes that are shown; the rest is in the JSON.
const MAX_NOTES: usize = 8;

/// What holds and cost too little to be a finding.
pub(super) fn noted(page: &mut Page, notes: &[Note]) {
    if notes.is_empty() {
        return;
    }
    page.heading("NOTED, NO FINDING");
    for note in notes.iter().take(MAX_NOTES) {
        let says = format!("{} ({}: {})", note.title, note.cause, note.because);
        page.paragraph("  - ", Look::Plain, &says);
    }
    let more = notes.len().saturating_sub(MAX_NOTES);
    if more > 0 {
        let says = format!("{} more in --json", plural(more as u64, "note"));
        page.paragraph("  - ", Look::Faint, &says);
    }
}

/// Whether the host's resources are to blame.
pub(super) fn resources(page: &mut Page, lines: &[ResourceLine]) {
    if lines.is_empty() {
        return;
    }
    page.heading("RESOURCES OF THE HOST");
    for line in lines {
        let look = if line.scarce {
            Look::Warning
        } else {
            Look::Plain
        };
        page.item(&line.resource, look, &line.says);
    }
}

/// How waits ended, and the longest that a retransmission ended, walked from waker to waker.
pub(super) fn waited(page: &mut Page, waits: &WaitSummary) {
    let ended = waits.ended_by.iter();
    let ended = ended.map(|e| {
        let (n, longest) = (count(e.count), number(e.longest_ms));
        format!("{} {n} (longest {longest} ms)", e.what)
    });
    let ended: Vec<_> = ended.collect();
    let says = format!(
        "{}; what ended them: {}",
        plural(waits.count, "wait"),
        ended.join(", ")
    );
    page.paragraph("  ", Look::Plain, &says);
    for walk in &waits.walks {
        for (i, hop) in walk.hops.iter().enumerate() {
            let label = if i == 0 { "  - " } else { "    ← " };
            page.paragraph(label, Look::Plain, &hop.says);
        }
    }
}

pub(super) fn recording(page: &mut Page, summary: &Summary) {
    let facts = &summary.recording;
    let of = format!(
        "{} (kernel {}), {} s, {}, recorded by tcpwhy {}",
        facts.host,
        facts.kernel,
        number(summary.duration_s),
        facts.producer,
        facts.tcpwhy,
    );
    page.item("of", Look::Plain, &of);
    if facts.redacted {
        page.item("redacted", Look::Plain, REDACTED);
    }
    page.item("looked at", Look::Plain, &looked_at(summary));
    let symptoms: Vec<_> = summary.symptoms.iter().map(symptom).collect();
    let symptoms = match (symptoms.is_empty(), summary.counters) {
        (false, _) => symptoms.join("; "),
        (true, 0) => "no retransmissions, drops or resets; no counter was read".to_string(),
        (true, _) => "no retransmissions, drops or resets, and no error counter rose".to_string(),
    };
    page.item("symptoms", Look::Plain, &symptoms);
    if !summary.complete {
        page.item("HEALTH", Look::Warning, CUT_SHORT);
    }
    let (holes, notes): (Vec<_>, Vec<_>) = summary.health.iter().partition(|n| n.kind.is_hole());
    for hole in holes {
        let says = format!("{}: {}", hole.source, hole.says);
        page.item("HEALTH", Look::Warning, &says);
    }
    if summary.is_whole() && !summary.lost_little() {
        page.item(
            "health",
            Look::Plain,
            "every source worked, nothing was lost",
        );
    }
    for note in notes {
        let says = format!("{}: {}", note.source, note.says);
        page.item("note", Look::Plain, &says);
    }
}

/// One symptom with its count.
pub(crate) fn symptom(symptom: &Symptom) -> String {
    let says = if symptom.counter {
        format!("{} +{}", symptom.says, count(symptom.count))
    } else {
        format!("{} {}", count(symptom.count), symptom.says)
    };
    match &symptom.means {
        // For a counter this is its definition, which `stat counters` has.
        Some(means) if !symptom.counter => format!("{says}: {means}"),
        _ => says,
    }
}

fn looked_at(summary: &Summary) -> String {
    let c = &summary.connections;
    let mut says = format!(
        "{}, {} accepted and {} older connections, {}, {}, {}",
        plural(c.opened, "connect"),
        count(c.accepted),
        count(c.older),
        plural(summary.listeners, "listener"),
        plural(summary.events, "event"),
        plural(summary.counters, "counter"),
    );
    for (n, what) in [
        (c.refused, "refused"),
        (c.failed.saturating_sub(c.refused), "failed otherwise"),
        (c.pending, "without an answer at the end"),
    ] {
        if n > 0 {
            says += &format!("; {} {what}", count(n));
        }
    }
    says
}
/// What the causes without a finding answer: those that cannot be told, and why, come first.
pub(super) fn answers(page: &mut Page, summary: &Summary) {
    let causes = &summary.causes;
    let of = |verdict| causes.iter().filter(move |a| a.answer == verdict);
    // The recording of a model has what its kernel had.
    let live = summary.recording.producer == "live";
    let mut unknown: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for answer in of(Holds::CannotTell) {
        let how = match &answer.record[..] {
            parts if parts.is_empty() || !live => String::new(),
            parts => format!(" (tcpwhy record --with {})", parts.join(",")),
        };
        let because = answer.because.as_deref().unwrap_or("");
        unknown
            .entry((because, how))
            .or_default()
            .push(answer.cause.as_str());
    }
    if !unknown.is_empty() {
        page.heading("CANNOT TELL");
    }
    for ((because, how), causes) in unknown {
        let says = format!("{because}{how}: {}", causes.join(", "));
        page.paragraph("  - ", Look::Warning, &says);
    }
    let out: Vec<&Answer> = of(Holds::No).collect();
    if out.is_empty() {
        return;
    }
    page.heading("NOT FOUND");
    let unseen = |a: &&Answer| a.refuted.as_ref().is_some_and(Refuted::is_of_nothing);
    let (unseen, nearest): (Vec<&Answer>, Vec<_>) = out.into_iter().partition(unseen);
    for answer in nearest {
        let because = answer.because.as_deref().unwrap_or("");
        page.paragraph("  - ", Look::Plain, &format!("{}: {because}", answer.cause));
    }
    let ids: Vec<_> = unseen.iter().map(|a| a.cause.as_str()).collect();
    if !ids.is_empty() {
        let says = format!("no sign of {}", ids.join(", "));
        page.paragraph("  - ", Look::Plain, &says);
    }
}
