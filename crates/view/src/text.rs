//! Explanations as text: a short case report, what is wrong and what to do in its first lines.

use std::collections::BTreeMap;

use analysis::Endpoint;
use analysis::account::Spent;
use analysis::words::{count, duration, percent, plural};
use explain::{
    Advice, Answer, Check, Episode, Explanation, Finding, Holds, Level, Note, ResourceLine, Role,
    Scope, Service, Since, State, Step, Summary, Unexplained, WaitSummary, account,
};

use crate::numbers::number;
use crate::page::Page;
use crate::requests;
use crate::style::{Look, Style};

/// What is said of a recording that has no end.
pub(crate) const CUT_SHORT: &str =
    "the recorder did not end this recording itself; it reads up to its last segment";

/// Notes and episodes that are told; the rest is in the JSON.
const MAX_NOTES: usize = 8;
const MAX_EPISODES: usize = 3;

/// Services whose account is told, ahead of the evidence: it shall be on the first screen. The rest is in the
/// JSON.
const MAX_SERVICES: usize = 3;
/// A smaller share of a service's time is not told.
const LEAST_SHARE: f64 = 0.005;

/// What is said of a recording that is redacted.
pub(crate) const REDACTED: &str = "addresses and names are pseudonyms";

/// The whole explanation; ends with a newline.
pub fn explanation(explanation: &Explanation, style: &Style) -> String {
    let mut page = Page::new(style);
    let findings = &explanation.findings;
    match findings.first() {
        Some(first) => headline(&mut page, first),
        None => nothing(&mut page, explanation),
    }
    accounts(&mut page, &explanation.account);
    unexplained(&mut page, &explanation.unexplained);
    for (i, finding) in findings.iter().enumerate() {
        if i > 0 {
            page.blank();
            let rule = format!("---- {} of {} ----", i + 1, findings.len());
            page.paragraph("", Look::Faint, &rule);
            headline(&mut page, finding);
        }
        page.blank();
        let start_unix_ns = explanation.summary.recording.start_unix_ns;
        details(&mut page, finding, start_unix_ns);
        if i == 0 && findings.len() > 1 {
            others(&mut page, &findings[1..]);
        }
    }
    noted(&mut page, &explanation.notes);
    resources(&mut page, &explanation.summary.resources);
    if let Some(waits) = &explanation.summary.waits {
        page.heading("WAITS");
        waited(&mut page, waits);
    }
    page.heading("RECORDING");
    recording(&mut page, &explanation.summary);
    answers(&mut page, &explanation.summary);
    page.end()
}

/// Whether the host's resources are to blame.
fn resources(page: &mut Page, lines: &[ResourceLine]) {
    if lines.is_empty() {
        return;
    }
    page.heading("RESOURCES OF THE HOST");
    for line in lines {
        let look = match line.scarce {
            true => Look::Warning,
            false => Look::Plain,
        };
        page.item(&line.resource, look, &line.says);
    }
}

/// One finding with all that is behind it.
pub(crate) fn case(page: &mut Page, finding: &Finding, start_unix_ns: i64) {
    headline(page, finding);
    page.blank();
    details(page, finding, start_unix_ns);
}

/// What is wrong and what to do: whoever reads no more knows that.
fn headline(page: &mut Page, finding: &Finding) {
    page.paragraph("", Look::Title, &finding.title);
    page.paragraph("", Look::Fix, &finding.fix);
}

fn details(page: &mut Page, finding: &Finding, start_unix_ns: i64) {
    for (label, text) in facts(finding, start_unix_ns) {
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

    page.heading("EVIDENCE");
    for (i, step) in finding.evidence.iter().enumerate() {
        evidence(page, i + 1, step);
    }
    if !finding.arithmetic.is_empty() {
        page.heading("ARITHMETIC");
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
    page.heading("WHAT TO DO");
    for (i, advice) in finding.advice.iter().enumerate() {
        advise(page, i + 1, advice);
    }
    page.heading("HOW TO CHECK");
    page.paragraph("  ", Look::Plain, &finding.verify);
}

/// The other findings in a line each, so that nobody stops reading after the first.
fn others(page: &mut Page, others: &[Finding]) {
    page.heading("ALSO FOUND");
    for finding in others {
        page.paragraph("  - ", Look::Plain, &finding.title);
    }
}

/// What holds and cost too little to be a finding.
fn noted(page: &mut Page, notes: &[Note]) {
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
        let says = format!("{} more, told by --json", plural(more as u64, "note"));
        page.paragraph("  - ", Look::Faint, &says);
    }
}

/// Where, who, since when, how much: label and text, in the order in which they are told.
pub(crate) fn facts(finding: &Finding, start_unix_ns: i64) -> Vec<(&'static str, String)> {
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
            .map(|s| ("since", since(s, start_unix_ns))),
    );
    facts.extend(during(&finding.episodes).map(|says| ("during", says)));
    facts.push(("impact", finding.impact.says.clone()));
    facts.extend(finding.lost_s.seconds().map(|s| ("lost", lost(s))));
    facts.push(("cause", format!("{} ({})", finding.cause, finding.number)));
    facts
}

/// The episodes, in a sentence; nothing when it held all the time.
fn during(episodes: &[Episode]) -> Option<String> {
    let told = episodes.iter().take(MAX_EPISODES).map(|e| {
        let ns = |s: f64| (s.max(0.0) * 1e9) as u64;
        let lasted = duration(ns(e.to_s - e.from_s));
        match ns(e.from_s) {
            0 => format!("{lasted} from the start on"),
            from => format!("{lasted} from {} after the start on", duration(from)),
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
fn lost(seconds: f64) -> String {
    format!(
        "{} of waiting, all its connections together",
        self::seconds(seconds)
    )
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

fn who(scope: &Scope, pid: u32, comm: &str) -> String {
    let doing = scope.processes.iter().find(|p| p.pid == pid);
    let doing = doing.map(|d| format!(": {}", d.says)).unwrap_or_default();
    let mut who = format!("{comm}, pid {pid}{doing}");
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
fn since(since: &Since, start_unix_ns: i64) -> String {
    let unix_ns = i128::from(start_unix_ns) + (since.after_start_s * 1e9) as i128;
    let stamp = jiff::Timestamp::from_nanosecond(unix_ns).ok();
    let clock = stamp.map(|stamp| format!(" ({} UTC)", stamp.strftime("%H:%M:%S")));
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
    let (label, look) = match check.agrees {
        true => ("  fits  ", Look::Plain),
        false => ("  NOT   ", Look::Warning),
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

fn advise(page: &mut Page, number: usize, advice: &Advice) {
    page.paragraph(&format!("{number:>3}. "), Look::Plain, &advice.action);
    if let Some(command) = &advice.command {
        page.paragraph("     $ ", Look::Command, command);
    }
    for (label, text) in [
        ("where ", Some(&advice.r#where)),
        ("effect", Some(&advice.expected)),
        ("risk  ", Some(&advice.risk)),
        ("undo  ", advice.undo.as_ref()),
    ] {
        if let Some(text) = text {
            page.paragraph(&format!("     {label}  "), Look::Plain, text);
        }
    }
}

fn nothing(page: &mut Page, explanation: &Explanation) {
    let summary = &explanation.summary;
    let whole = match summary.is_whole() {
        true => "",
        false => " (but see HEALTH below: the recording is not whole)",
    };
    // Whose time it was is an answer, too.
    let whose = requests::headline(&explanation.account);
    let found = match whose {
        Some(_) => "No TCP problem",
        None => "No cause",
    };
    let says = format!(
        "{found} found in {} s of host {}{whole}.",
        number(summary.duration_s),
        summary.recording.host,
    );
    page.paragraph("", Look::Fix, &says);
    if let Some(whose) = whose {
        page.paragraph("", Look::Title, &whose);
    }
}

/// What the causes answer that have no finding: what cannot be told, and why, comes first.
fn answers(page: &mut Page, summary: &Summary) {
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
    let (partly, whole): (Vec<&Answer>, Vec<_>) = out.iter().partition(|a| a.because.is_some());
    // Beside findings a list of names will do.
    if summary.findings > 0 {
        let ids: Vec<_> = whole.iter().map(|a| a.cause.as_str()).collect();
        if !ids.is_empty() {
            page.paragraph("  - ", Look::Plain, &ids.join(", "));
        }
    } else {
        let says = "Each would be a finding from what stands beside it on:";
        page.paragraph("  ", Look::Plain, says);
        for answer in whole {
            let says = format!("{}: {}", answer.cause, answer.seen_from);
            page.paragraph("  - ", Look::Plain, &says);
        }
    }
    for answer in partly {
        let but = answer.because.as_deref().unwrap_or("");
        let says = format!("{}: {} ({but})", answer.cause, answer.seen_from);
        page.paragraph("  - ", Look::Plain, &says);
    }
}

/// Where time went, a line for each service; nothing when no connection was seen.
fn accounts(page: &mut Page, services: &[Service]) {
    if services.is_empty() {
        return;
    }
    page.heading("WHERE THE TIME WENT");
    for service in services.iter().take(MAX_SERVICES) {
        page.paragraph("  - ", Look::Plain, &account(service));
    }
    let more = services.len().saturating_sub(MAX_SERVICES);
    if more > 0 {
        let says = format!("{} more, told by --json", plural(more as u64, "service"));
        page.paragraph("  - ", Look::Faint, &says);
    }
}

/// What nothing claims, a line for each service.
fn unexplained(page: &mut Page, services: &[Unexplained]) {
    for service in services.iter().take(MAX_SERVICES) {
        let place = named(service.role, service.at, &service.comm, service.pid);
        let says = format!(
            "unexplained at {place}: {} of {} in which it was not idle ({})",
            seconds(service.unexplained_s),
            seconds(service.awake_s),
            states(&service.spent_s)
        );
        page.paragraph("  - ", Look::Warning, &says);
    }
}

/// A service by its place and its process.
fn named(role: account::Role, at: Endpoint, comm: &Option<String>, pid: Option<u32>) -> String {
    let arrow = match role {
        account::Role::Server => "",
        account::Role::Client | account::Role::Unknown => "→ ",
    };
    match (comm, pid) {
        (Some(comm), Some(pid)) => format!("{arrow}{at} ({comm}, pid {pid})"),
        _ => format!("{arrow}{at}"),
    }
}

/// States with their shares, the longest first.
fn states(spent: &Spent) -> String {
    let total = spent.total().max(1) as f64;
    let share = |state: State| spent.of(state) as f64 / total;
    let mut states: Vec<State> = State::ALL.into_iter().collect();
    states.sort_by(|a, b| share(*b).total_cmp(&share(*a)));
    let told = states.into_iter().filter(|s| share(*s) >= LEAST_SHARE);
    let told = told.map(|s| format!("{} {}", s.says(), percent(share(s))));
    told.collect::<Vec<_>>().join(", ")
}

fn seconds(s: f64) -> String {
    duration((s.max(0.0) * 1e9) as u64)
}

/// One service: whose, how much, and its states, the longest first.
fn account(service: &Service) -> String {
    let place = named(service.role, service.at, &service.comm, service.pid);
    let requests = service
        .requests
        .as_ref()
        .map(|r| requests::line(service.role, r));
    if let Some(requests) = requests.flatten() {
        return format!("{place}: {requests}");
    }
    format!(
        "{place}: {}, {}: {}",
        plural(service.ends, "connection"),
        duration(service.spent_s.total()),
        states(&service.spent_s),
    )
}

/// How waits ended, and the longest that a retransmission ended, walked from waker to waker.
fn waited(page: &mut Page, waits: &WaitSummary) {
    let ended = waits.ended_by.iter();
    let ended = ended.map(|e| {
        let (n, longest) = (count(e.count), number(e.longest_ms));
        format!("{n} by {} (longest {longest} ms)", e.what)
    });
    let ended: Vec<_> = ended.collect();
    let says = format!(
        "{} ended: {}",
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

fn recording(page: &mut Page, summary: &Summary) {
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
    let symptoms = summary.symptoms.iter().map(|s| match s.counter {
        true => format!("{} +{}", s.says, count(s.count)),
        false => format!("{} {}", count(s.count), s.says),
    });
    let symptoms: Vec<_> = symptoms.collect();
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
    if summary.is_whole() {
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
