//! The answer in a line or two, and as a ticket: for readers who stop there, and for those it is sent on to.

use explain::{Explanation, Finding, Summary};

use super::page::{Facts, Verdict, VerdictKind};
use super::services::asked;
use super::short;
use crate::text;

/// Findings that a ticket has in full; of the others it has the titles.
const WHOLE: usize = 3;
/// Symptoms that the head names.
const NAMED: usize = 3;
/// Services whose unexplained time is reported.
const MAX_UNEXPLAINED: usize = 3;

/// The verdict of a recording that goes by `name`.
pub(super) fn verdict(name: &str, facts: &Facts, explanation: &Explanation) -> Verdict {
    let (summary, findings) = (&explanation.summary, &explanation.findings);
    let moved = !summary.symptoms.is_empty() || !explanation.unexplained.is_empty();
    let nothing = || text::nothing_found(summary);
    let (kind, layer, says, also) = match (&findings[..], &summary.not_tcp) {
        ([only], _) => (
            VerdictKind::Found,
            only.layer.says(),
            only.title.clone(),
            String::new(),
        ),
        ([first, ..], _) => {
            let says = text::count_of_problems(findings, summary);
            (VerdictKind::Found, first.layer.says(), says, String::new())
        }
        ([], Some(not_tcp)) => (
            VerdictKind::NotTcp,
            not_tcp.whose.label(),
            not_tcp.says.clone(),
            nothing(),
        ),
        ([], None) if moved => (VerdictKind::Unexplained, "", nothing(), seen(summary)),
        ([], None) => {
            let also = "No symptom was seen: nothing was retransmitted, dropped or reset.";
            (VerdictKind::Clean, "", nothing(), also.into())
        }
    };
    let unexplained = explanation.unexplained.iter().take(MAX_UNEXPLAINED);
    // The service whose bar is the first.
    let asked = asked(&explanation.account);
    let first = asked.first().map(|(service, _)| *service);
    let first = first.or_else(|| explanation.account.first());
    let mut verdict = Verdict {
        kind,
        layer: layer.into(),
        says: short(&says),
        also,
        time: first.map_or_else(String::new, text::account),
        unexplained: unexplained.map(text::unexplained_line).collect(),
        ticket: String::new(),
    };
    verdict.ticket = ticket(name, facts, explanation, &verdict);
    verdict
}

/// What moved, the first of it by name.
fn seen(summary: &Summary) -> String {
    let symptoms = &summary.symptoms;
    let told = symptoms.iter().take(NAMED).map(text::symptom);
    let told: Vec<_> = told.collect();
    match (symptoms.len(), symptoms.len().saturating_sub(NAMED)) {
        (0, _) => "Services lost time that nothing explains.".into(),
        (_, 0) => format!("Seen but unexplained: {}.", told.join(", ")),
        (_, more) => format!(
            "Seen but unexplained: {}, and {more} more.",
            told.join(", ")
        ),
    }
}

fn ticket(name: &str, facts: &Facts, explanation: &Explanation, verdict: &Verdict) -> String {
    let mut out = format!("## {}\n\n", marked(&headed(&verdict.layer, &verdict.says)));
    if !verdict.also.is_empty() {
        out += &format!("{}\n\n", marked(&verdict.also));
    }
    out += &format!(
        "- **Host:** {}, kernel {}\n",
        marked(&facts.host),
        marked(&facts.kernel)
    );
    out += &format!("- **When:** {}\n", window(facts));
    let start = explanation.summary.recording.start_unix_ns;
    let several = explanation.findings.len() > 1;
    for (i, finding) in explanation.findings.iter().enumerate() {
        if several {
            out += &format!("\n### {}. {}\n\n", i + 1, marked(&text::title(finding)));
        }
        if i < WHOLE {
            out += &case(finding, start);
        }
    }
    if explanation.findings.is_empty() && !verdict.time.is_empty() {
        out += &format!("- **Where the time went:** {}\n", marked(&verdict.time));
    }
    for says in &verdict.unexplained {
        out += &format!("- {}\n", marked(says));
    }
    for symptom in explanation.summary.symptoms.iter().take(8) {
        if explanation.findings.is_empty() {
            let means = symptom.means.as_ref();
            let means = means.map_or(String::new(), |means| format!(": {means}"));
            out += &format!(
                "- {} {}{}\n",
                symptom.count,
                marked(&symptom.says),
                marked(&means)
            );
        }
    }
    let (version, name) = (env!("CARGO_PKG_VERSION"), marked(name));
    out + &format!("\nFrom the recording {name}, explained by tcpwhy {version}.\n")
}

/// One finding as a list.
fn case(finding: &Finding, start_unix_ns: i64) -> String {
    let mut out = String::new();
    for (label, says) in text::facts(finding, start_unix_ns, &jiff::tz::TimeZone::UTC) {
        if label != "command" {
            out += &format!("- **{label}:** {}\n", marked(&says));
        }
    }
    out += &format!("- **do:** {}\n", marked(&finding.fix));
    for advice in finding.advice.iter().take(1) {
        if let Some(command) = &advice.command {
            let fence = fence(command);
            out += &format!(
                "\n  {}\n\n  {fence}sh\n",
                text::advice_kind(advice).trim_end()
            );
            for line in command.lines() {
                out += &format!("  {line}\n");
            }
            out += &format!("  {fence}\n\n");
        }
        let undo = advice.undo.as_ref().map(|undo| format!(" Undo: {undo}"));
        if !advice.risk.is_empty() {
            let undo = undo.unwrap_or_default();
            out += &format!(
                "- **risk:** {}\n",
                marked(&format!("{}{undo}", advice.risk))
            );
        }
    }
    let why = finding.confidence.because.join("; ");
    let sure = format!("{}: {why}", finding.confidence.level);
    out += &format!("- **confidence:** {}\n", marked(&sure));
    let out_ruled: Vec<_> = finding
        .ruled_out
        .iter()
        .map(|r| r.cause.to_string())
        .collect();
    if !out_ruled.is_empty() {
        out += &format!("- **ruled out:** {}\n", marked(&out_ruled.join(", ")));
    }
    out
}

/// A sentence after the layer whose trouble it is.
pub(super) fn headed(layer: &str, says: &str) -> String {
    match layer {
        "" => says.into(),
        layer => format!("{layer} · {says}"),
    }
}

/// From when to when, in UTC.
pub(super) fn window(facts: &Facts) -> String {
    let at = |ms: f64, how: &str| {
        let stamp = jiff::Timestamp::from_millisecond(ms as i64).ok();
        stamp.map_or_else(|| "unknown".into(), |s| s.strftime(how).to_string())
    };
    let end = facts.start_unix_ms + facts.length_s * 1e3;
    format!(
        "{} to {} UTC ({} s)",
        at(facts.start_unix_ms, "%Y-%m-%d %H:%M:%S"),
        at(end, "%H:%M:%S"),
        crate::numbers::number(facts.length_s),
    )
}

/// A fence that no line of the text can close.
fn fence(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(3.max(longest + 1))
}

/// Text in Markdown: names of the host make neither markup nor links, and a line stays one.
pub(super) fn marked(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '<' | '>' | '[' | ']' | '*' | '!' | '|' | '#' | '\\' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_host_make_no_markup_in_a_ticket() {
        assert_eq!(
            marked("<img src=x>\n# [a](b)"),
            "\\<img src=x\\> \\# \\[a\\](b)"
        );
        assert_eq!(fence("ss -t"), "```");
        assert_eq!(fence("echo ```` #"), "`````");
    }

    #[test]
    fn the_window_of_a_ticket_has_both_ends() {
        let facts = Facts {
            start_unix_ms: 1_763_841_131_000.0,
            length_s: 60.0,
            ..Facts::default()
        };
        assert_eq!(window(&facts), "2025-11-22 19:52:11 to 19:53:11 UTC (60 s)");
    }
}
