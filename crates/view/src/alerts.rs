//! Findings as they came and went, as text: those that hold first, then those that are over, the last one first.

use alerts::Alert;
use analysis::words::{duration, plural};
use jiff::Timestamp;

use crate::page::Page;
use crate::style::{Look, Style};

/// Those of them that are shown in text; JSON has all.
const SHOWN: usize = 50;
/// What is recorded so long before and after a finding is worth reading, s.
const ADVISED_AROUND_S: i64 = 30;
const S: i64 = 1_000_000_000;

/// What was raised, `now` (ns since 1970); `look` is the command that explains the time that ends at a moment (s since
/// 1970) and lasts so long (s).
pub fn text(
    alerts: &[&Alert],
    now_ns: i64,
    look: impl Fn(i64, i64) -> String,
    style: &Style,
) -> String {
    let mut page = Page::new(style);
    let (raised, over): (Vec<&Alert>, Vec<&Alert>) = alerts.iter().partition(|a| a.is_raised());
    if alerts.is_empty() {
        page.paragraph("", Look::Title, "No finding.");
    }
    for alert in raised.iter().rev().take(SHOWN) {
        let lasts = duration(between(alert.began_unix_ns, now_ns));
        let since = time(alert.began_unix_ns, style);
        let says = format!("{} · {}", alert.layer, alert.title);
        page.paragraph("", Look::Title, &says);
        let holds = format!("since {since} ({lasts}), {}", sure(alert));
        page.paragraph("  ", Look::Plain, &holds);
        more(alert, &look, &mut page);
    }
    if !over.is_empty() && !raised.is_empty() {
        page.heading("RESOLVED");
    }
    for alert in over.iter().rev().take(SHOWN) {
        let says = format!("resolved: {} · {}", alert.layer, alert.title);
        page.paragraph("", Look::Fix, &says);
        let lasted = duration(between(alert.began_unix_ns, alert.last_unix_ns));
        let (from, to) = (alert.began_unix_ns, alert.last_unix_ns);
        let held = format!(
            "{} to {} ({lasted}), {}",
            time(from, style),
            time(to, style),
            sure(alert)
        );
        page.paragraph("  ", Look::Plain, &held);
        more(alert, &look, &mut page);
    }
    let hidden = raised.len().saturating_sub(SHOWN) + over.len().saturating_sub(SHOWN);
    if hidden > 0 {
        page.blank();
        page.paragraph(
            "",
            Look::Faint,
            &format!("{} more: --json has all.", plural(hidden as u64, "finding")),
        );
    }
    page.end()
}

fn more(alert: &Alert, look: impl Fn(i64, i64) -> String, page: &mut Page) {
    if let Some(home) = &alert.home {
        page.paragraph("  in:   ", Look::Plain, home);
    }
    page.paragraph("  fix:  ", Look::Plain, &alert.fix);
    let to_s = alert.last_unix_ns / S + ADVISED_AROUND_S;
    let from_s = alert.began_unix_ns / S - ADVISED_AROUND_S;
    page.paragraph("  look: ", Look::Command, &look(to_s, to_s - from_s));
    page.blank();
}

fn sure(alert: &Alert) -> String {
    let mut says = format!("{}, confidence {}", alert.cause, alert.confidence);
    if let Some(lost_s) = alert.lost_s.filter(|s| *s > 0.0) {
        says += &format!(
            ", {} lost in the worst window",
            duration((lost_s * 1e9) as u64)
        );
    }
    if alert.times > 1 {
        says += &format!(", raised {} times", alert.times);
    }
    says
}

/// Who wrote it need not be trusted.
fn between(from_ns: i64, to_ns: i64) -> u64 {
    u64::try_from(to_ns.saturating_sub(from_ns)).unwrap_or(0)
}

fn time(unix_ns: i64, style: &Style) -> String {
    let stamp = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or_default();
    style.zone.to_datetime(stamp).strftime("%F %T").to_string()
}
