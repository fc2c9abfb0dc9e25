//! One finding with all that is behind it.

use analysis::words::duration;
use explain::{Advice, Check, Episode, Finding, Level, Lost, Role, Scope, Since, Step};
use jiff::tz::TimeZone;

use super::seconds;
use crate::numbers::number;
use crate::page::Page;
use crate::style::Look;

/// Episodes that are shown; the rest is in the JSON.
const MAX_EPISODES: usize = 3;

/// One finding, from what is wrong to how to check that it is fixed.
pub(crate) fn case(page: &mut Page, finding: &Finding, start_unix_ns: i64) {
    headline(page, finding);
    page.blank();
    details(page, finding, start_unix_ns);
}

/// Whose trouble it is, and what is wrong.
pub(crate) fn title(finding: &Finding) -> String {
    format!("{} · {}", finding.layer, finding.title)
}

/// What is wrong and what to do, for those who read no further.
fn headline(page: &mut Page, finding: &Finding) {
    page.paragraph("", Look::Title, &title(finding));
    page.paragraph("", Look::Fix, &finding.fix);
}

fn details(page: &mut Page, finding: &Finding, start_unix_ns: i64) {
    let zone = &page.style().zone;
    for (label, text) in facts(finding, start_unix_ns, zone) {
        let look = match label {
            "command" => Look::Faint,
            _ => Look::Plain,
        };
        page.item(label, look, &text);
    }
    let confidence = &finding.confidence;
    let look = match confidence.level {
        Level::High => Look::Plain,
        Level::Medium | Level::Low => Look::Warning,
    };
    let sure = format!("{}: {}", confidence.level, confidence.because.join("; "));
    page.item("confidence", look, &sure);

    page.heading("WHAT TO DO");
    for (i, advice) in finding.advice.iter().enumerate() {
        advise(page, i + 1, advice);
    }
    page.heading("EVIDENCE");
    for (i, step) in finding.evidence.iter().enumerate() {
        evidence(page, i + 1, step);
    }
    if !finding.arithmetic.is_empty() {
        page.heading("CROSS-CHECKS");
        finding.arithmetic.iter().for_each(|c| check(page, c));
    }
    if !finding.ruled_out.is_empty() {
        page.heading("RULED OUT");
    }
    for ruled_out in &finding.ruled_out {
        page.paragraph(
            "  - ",
            Look::Plain,
            &format!("{}: {}", ruled_out.cause, ruled_out.because),
        );
    }
    page.heading("HOW TO CHECK");
    page.paragraph("  ", Look::Plain, &finding.verify);
}

/// Where, who, since when, how much: label and text, in display order.
pub(crate) fn facts(
    finding: &Finding,
    start_unix_ns: i64,
    zone: &TimeZone,
) -> Vec<(&'static str, String)> {
    let scope = &finding.scope;
    let mut facts = vec![("where", place(scope))];
    if let (Some(pid), Some(comm)) = (scope.pid, &scope.comm) {
        facts.push(("who", who(scope, pid, comm)));
    }
    facts.extend(scope.cmdline.clone().map(|line| ("command", line)));
    facts.extend(
        finding
            .since
            .as_ref()
            .map(|s| ("since", since(s, start_unix_ns, zone))),
    );
    facts.extend(during(&finding.episodes).map(|says| ("during", says)));
    facts.push(("impact", finding.impact.says.clone()));
    facts.extend(lost(&finding.lost_s).map(|says| ("lost", says)));
    facts.push(("cause", format!("{} ({})", finding.cause, finding.number)));
    facts
}

/// The episodes, in a sentence; nothing when it held all the time.
pub(super) fn during(episodes: &[Episode]) -> Option<String> {
    let told = episodes.iter().take(MAX_EPISODES).map(|e| {
        let ns = |s: f64| (s.max(0.0) * 1e9) as u64;
        let lasted = duration(ns(e.to_s - e.from_s));
        match ns(e.from_s) {
            0 => format!("{lasted} from the start"),
            from => format!("{lasted} from {} after the start", duration(from)),
        }
    });
    let told: Vec<_> = told.collect();
    let more = match episodes.len().saturating_sub(MAX_EPISODES) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    (!told.is_empty()).then(|| format!("{}{more}", told.join(", ")))
}

/// Time lost, in a sentence.
pub(crate) fn lost(lost: &Lost) -> Option<String> {
    let time = seconds(lost.seconds()?);
    Some(if lost.is_without_service() {
        format!("{time} without service in total")
    } else {
        format!("{time} waited in total")
    })
}

/// The place of a finding or a note, in words.
pub(crate) fn place(scope: &Scope) -> String {
    let netns = match &scope.netns.name {
        Some(name) => format!("network namespace {name} ({})", scope.netns.inode),
        None if scope.netns.inode == 0 => "the whole host".into(),
        None => format!("network namespace {}", scope.netns.inode),
    };
    let backlog = match scope.backlog {
        Some(backlog) => format!(", backlog {backlog}"),
        None => String::new(),
    };
    format!("{}{backlog}, {netns}", scope.place())
}

pub(super) fn who(scope: &Scope, pid: u32, comm: &str) -> String {
    let doing = scope.processes.iter().find(|p| p.pid == pid);
    let doing = doing.map(|d| format!(": {}", d.says)).unwrap_or_default();
    let home = scope.home.as_ref().filter(|_| scope.pid == Some(pid));
    let home = home.map_or(String::new(), |home| format!(", {home}"));
    let mut who = format!("{comm}, pid {pid}{home}{doing}");
    let others: Vec<_> = scope.pids.iter().filter(|p| **p != pid).collect();
    if !others.is_empty() {
        let shown: Vec<_> = others.iter().take(6).map(|p| p.to_string()).collect();
        let more = if others.len() > 6 { ", …" } else { "" };
        let also = match scope.role {
            Role::Listener => "also held by",
            Role::Client => "and likewise",
        };
        who += &format!("; {also} {}{more}", shown.join(", "));
    }
    who
}

/// The moment, with the time of day where it is known.
pub(super) fn since(since: &Since, start_unix_ns: i64, zone: &TimeZone) -> String {
    let unix_ns = i128::from(start_unix_ns) + (since.after_start_s * 1e9) as i128;
    let stamp = jiff::Timestamp::from_nanosecond(unix_ns).ok();
    let clock = stamp.map(|stamp| {
        let at = stamp.to_zoned(zone.clone());
        at.strftime(" (%H:%M:%S %Z)").to_string()
    });
    format!("{}{}", since.says, clock.unwrap_or_default())
}

fn evidence(page: &mut Page, number: usize, step: &Step) {
    let label = format!("{number:>3}. ");
    page.paragraph(&label, Look::Plain, &step.says);
    if page.style().rows && !step.rows.is_empty() {
        let rows: Vec<_> = step.rows.iter().map(|r| r.to_string()).collect();
        page.paragraph("     ", Look::Faint, &format!("[{}]", rows.join(" ")));
    }
}

fn check(page: &mut Page, check: &Check) {
    let (label, look) = if check.agrees {
        ("  ok        ", Look::Plain)
    } else {
        ("  mismatch  ", Look::Warning)
    };
    let says = format!(
        "{}: expected {} {unit}, measured {} {unit} ({})",
        check.formula,
        number(check.expected),
        number(check.measured),
        check.tolerance,
        unit = check.unit,
    );
    page.paragraph(label, look, &says);
}

/// Whether its command does it, or shows where to.
pub(crate) fn kind(advice: &Advice) -> &'static str {
    if advice.only_looks() {
        "look:"
    } else {
        "fix: "
    }
}

fn advise(page: &mut Page, number: usize, advice: &Advice) {
    page.paragraph(&format!("{number:>3}. "), Look::Plain, &advice.action);
    if let Some(command) = &advice.command {
        let label = format!("     {} $ ", kind(advice));
        page.paragraph(&label, Look::Command, command);
    }
    for (label, text) in [
        ("where ", Some(&*advice.r#where)),
        ("effect", Some(&*advice.expected)),
        ("risk  ", Some(&*advice.risk)),
        ("undo  ", advice.undo.as_deref()),
    ] {
        if let Some(text) = text {
            page.paragraph(&format!("     {label}  "), Look::Plain, text);
        }
    }
}
