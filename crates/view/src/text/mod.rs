//! Explanations as text: the answer on one screen, and everything behind it.

mod answer;
mod case;
mod rest;
mod services;

use analysis::words::duration;
use explain::Explanation;

use crate::page::Page;
use crate::style::{Look, Style};

pub use answer::answer;
pub(crate) use answer::{count_of_problems, nothing_found};
pub(crate) use case::{case, facts, kind as advice_kind, lost, place, title};
pub(crate) use rest::symptom;
pub use services::account;
pub(crate) use services::unexplained_line;

/// What is said of a recording that has no end.
pub(crate) const CUT_SHORT: &str =
    "the recorder was killed; the recording is readable up to its last segment";
/// What is said of a recording that is redacted.
pub(crate) const REDACTED: &str = "addresses and names are pseudonyms";

/// Everything behind the answer; ends with a newline.
pub fn full(explanation: &Explanation, style: &Style) -> String {
    let mut page = Page::new(style);
    let summary = &explanation.summary;
    let findings = &explanation.findings;
    if findings.is_empty() {
        answer::none(&mut page, explanation);
    }
    for (i, finding) in findings.iter().enumerate() {
        if i > 0 {
            page.blank();
        }
        if findings.len() > 1 {
            let rule = format!("---- {} of {} ----", i + 1, findings.len());
            page.paragraph("", Look::Faint, &rule);
        }
        case(&mut page, finding, summary.recording.start_unix_ns);
    }
    if let (false, Some(command)) = (findings.is_empty(), &summary.command) {
        page.heading("THE COMMAND");
        page.paragraph("  ", Look::Plain, &command.says);
    }
    services::accounts(&mut page, &explanation.account);
    services::unexplained(&mut page, &explanation.unexplained);
    rest::noted(&mut page, &explanation.notes);
    rest::resources(&mut page, &summary.resources);
    if let Some(waits) = &summary.waits {
        page.heading("WAITS");
        rest::waited(&mut page, waits);
    }
    page.heading("RECORDING");
    rest::recording(&mut page, summary);
    rest::answers(&mut page, summary);
    page.end()
}

fn seconds(s: f64) -> String {
    duration((s.max(0.0) * 1e9) as u64)
}
