//! The answer on one screen: what is wrong and whose it is, what it costs, what to do, how sure that is.

use analysis::words::{list, plural};
use explain::{Advice, Answer, Explanation, Finding, Holds, Level, Summary};

use super::case::{during, kind, lost, since, title, who};
use super::{CUT_SHORT, REDACTED, services};
use crate::numbers::number;
use crate::page::Page;
use crate::style::{Look, Style};

/// Lines of an ordinary screen, less one for the prompt.
const LINES: usize = 23;
/// Problems that are listed; the rest is counted.
const MAX_LISTED: usize = 5;
/// Services whose time is shown beside a finding, and without one.
const BESIDE: usize = 2;
const ALONE: usize = 4;
/// Look-alikes that are named as ruled out: those that the cause names first.
const MAX_RULED_OUT: usize = 2;
/// Symptoms that are shown where there is no finding.
const MAX_SYMPTOMS: usize = 6;
/// Causes that are named where nothing can be said about them.
const MAX_NAMED: usize = 4;

/// How much a block matters: where the screen is full, the last of the least rank goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Good to know.
    More,
    /// Carries the answer.
    Why,
    /// The answer itself.
    Answer,
}

/// Blocks of lines in their order; as many are shown as fit.
struct Screen<'a> {
    style: &'a Style,
    blocks: Vec<(Rank, Page<'a>)>,
}

impl<'a> Screen<'a> {
    fn block(&mut self, rank: Rank, write: impl FnOnce(&mut Page)) {
        let mut page = Page::new(self.style);
        write(&mut page);
        self.blocks.push((rank, page));
    }

    fn lines(&self) -> usize {
        self.blocks.iter().map(|(_, page)| page.len()).sum()
    }

    /// As much of it as fits.
    fn end(mut self) -> String {
        while self.lines() > LINES {
            let least = self.blocks.iter().map(|(rank, _)| *rank).min();
            let least = least.filter(|rank| *rank < Rank::Answer);
            let Some(at) = self
                .blocks
                .iter()
                .rposition(|(rank, _)| Some(*rank) == least)
            else {
                break;
            };
            self.blocks.remove(at);
        }
        let mut page = Page::new(self.style);
        self.blocks.into_iter().for_each(|(_, b)| page.append(b));
        page.end()
    }
}

/// The answer, on a screen of 24 lines; `more` says how to get everything. Ends with a newline.
pub fn answer(explanation: &Explanation, style: &Style, more: &str) -> String {
    let summary = &explanation.summary;
    let mut screen = Screen {
        style,
        blocks: Vec::new(),
    };
    let first = explanation.findings.first();
    let command = first.and(summary.command.as_ref());
    let command = command.map(|command| format!("NOT TCP · {}", command.says));
    // Who ran a command asked about that one: what others suffer comes after it.
    let is_asked = first.is_some_and(|finding| finding.asked);
    if let (Some(says), false) = (&command, is_asked) {
        screen.block(Rank::Answer, |page| {
            page.paragraph_within("", Look::Title, says, 4);
            page.blank();
        });
    }
    match &explanation.findings[..] {
        [] => nothing(&mut screen, explanation),
        [only] => {
            screen.block(Rank::Answer, |page| {
                page.paragraph_within("", Look::Title, &title(only), 3);
            });
            finding(&mut screen, only, summary.recording.start_unix_ns);
        }
        all => {
            screen.block(Rank::Answer, |page| listed(page, all, summary));
            finding(&mut screen, &all[0], summary.recording.start_unix_ns);
        }
    }
    let most = if explanation.findings.is_empty() {
        ALONE
    } else {
        BESIDE
    };
    if let (Some(says), true) = (&command, is_asked) {
        screen.block(Rank::Why, |page| {
            page.blank();
            page.paragraph_within("", Look::Warning, says, 4);
        });
    }
    if let [first, others @ ..] = &services::lines(&explanation.account)[..] {
        screen.block(Rank::Why, |page| {
            page.heading("WHERE THE TIME WENT");
            page.paragraph_within("  ", Look::Plain, first, 2);
        });
        for line in others.iter().take(most - 1) {
            screen.block(Rank::More, |page| {
                page.paragraph_within("  ", Look::Plain, line, 2)
            });
        }
    }
    for service in explanation.unexplained.iter().take(most) {
        screen.block(Rank::Why, |page| {
            page.paragraph_within("  ", Look::Warning, &services::unexplained_line(service), 2);
        });
    }
    screen.block(Rank::Answer, |page| foot(page, explanation, more));
    screen.end()
}

/// How many problems there are.
pub(crate) fn count_of_problems(all: &[Finding], summary: &Summary) -> String {
    let asked = all.iter().filter(|finding| finding.asked).count();
    let order = if asked > 0 && asked < all.len() {
        "what the command met first"
    } else {
        "the worst first"
    };
    format!(
        "{} in {} s of host {}, {order}",
        plural(all.len() as u64, "problem"),
        number(summary.duration_s),
        summary.recording.host,
    )
}

/// All problems, a line or two each, so that reading does not stop after the first.
fn listed(page: &mut Page, all: &[Finding], summary: &Summary) {
    let says = format!("{}:", count_of_problems(all, summary));
    page.paragraph_within("", Look::Fix, &says, 1);
    for (i, finding) in all.iter().take(MAX_LISTED).enumerate() {
        let look = match i {
            0 => Look::Title,
            _ => Look::Plain,
        };
        let most = if i == 0 { 3 } else { 2 };
        page.paragraph_within(&format!("  {}. ", i + 1), look, &title(finding), most);
    }
    let more = all.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        page.paragraph("  ", Look::Plain, &format!("and {more} more"));
    }
    let first_is_worst = all
        .iter()
        .skip(1)
        .all(|f| f.lost_s.seconds() <= all[0].lost_s.seconds());
    page.heading(if first_is_worst {
        "THE WORST"
    } else {
        "THE FIRST"
    });
}

/// Who, since when, what it costs, what to do, how sure.
fn finding(screen: &mut Screen, finding: &Finding, start_unix_ns: i64) {
    let scope = &finding.scope;
    if let (Some(pid), Some(comm)) = (scope.pid, &scope.comm) {
        let who = who(scope, pid, comm);
        screen.block(Rank::Why, |page| {
            page.item_within("who", Look::Plain, &who, 2)
        });
    }
    let when = match (during(&finding.episodes), &finding.since) {
        (Some(during), _) => Some(("during", during)),
        (None, Some(began)) => Some(("since", since(began, start_unix_ns, &screen.style.zone))),
        (None, None) => None,
    };
    if let Some((label, says)) = when {
        screen.block(Rank::More, |page| {
            page.item_within(label, Look::Plain, &says, 1)
        });
    }
    let cost = match lost(&finding.lost_s) {
        Some(lost) => format!("{lost}. {}", finding.impact.says),
        None => finding.impact.says.clone(),
    };
    screen.block(Rank::Answer, |page| {
        page.item_within("cost", Look::Plain, &cost, 4)
    });
    let mut advice = finding.advice.iter();
    let first = advice.next();
    screen.block(Rank::Answer, |page| {
        page.item_within("do", Look::Fix, &finding.fix, 2);
        if let Some(first) = first {
            command(page, first);
        }
    });
    if let Some(first) = first.filter(|first| !first.only_looks()) {
        screen.block(Rank::Why, |page| {
            page.item_within("risk", Look::Plain, &first.risk, 2)
        });
    }
    if let Some(second) = advice.next() {
        screen.block(Rank::More, |page| {
            page.item_within("or", Look::Plain, &after_or(&second.action), 2);
            command(page, second);
        });
    }
    screen.block(Rank::Why, |page| {
        let look = match finding.confidence.level {
            Level::High => Look::Plain,
            Level::Medium | Level::Low => Look::Warning,
        };
        page.item_within("confidence", look, &sure(finding), 2);
    });
}

/// The command of an advice, with what it does.
fn command(page: &mut Page, advice: &Advice) {
    if let Some(command) = &advice.command {
        let label = format!("  {:<11} {} ", "", kind(advice));
        page.paragraph(&label, Look::Command, command);
    }
}

/// How sure, in a line: what lowers it, or what it rests on; and what is ruled out by name.
fn sure(finding: &Finding) -> String {
    let confidence = &finding.confidence;
    let out = finding.ruled_out.iter().take(MAX_RULED_OUT);
    let out: Vec<_> = out.map(|r| r.cause.as_str().replace('-', " ")).collect();
    let more = finding.ruled_out.len().saturating_sub(MAX_RULED_OUT);
    let more = match more {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let out = if out.is_empty() {
        String::new()
    } else {
        format!("; ruled out: {}{more}", out.join(", "))
    };
    // The reason for a doubt is worth more than that for a certainty.
    let why = match confidence.level {
        Level::High => String::new(),
        Level::Medium | Level::Low => confidence
            .because
            .last()
            .map_or(String::new(), |why| format!(" ({why})")),
    };
    format!("{}{why}{out}", confidence.level)
}

/// Advice that begins with "Or", beside a label that says so already.
fn after_or(action: &str) -> String {
    let rest = action.strip_prefix("Or ").unwrap_or(action);
    let mut letters = rest.chars();
    let first = letters.next().map(|first| first.to_uppercase());
    first.into_iter().flatten().chain(letters).collect()
}

/// Lines of a note: its reason stands at its end.
const MAX_NOTE_LINES: usize = 4;

/// No finding: whose time it was, and what was seen all the same.
fn nothing(screen: &mut Screen, explanation: &Explanation) {
    let summary = &explanation.summary;
    screen.block(Rank::Answer, |page| none(page, explanation));
    if !summary.symptoms.is_empty() {
        screen.block(Rank::Why, |page| {
            page.heading("ALSO SEEN, TOO SMALL TO REPORT");
            for symptom in summary.symptoms.iter().take(MAX_SYMPTOMS) {
                page.paragraph_within("  ", Look::Warning, &super::rest::symptom(symptom), 2);
            }
        });
    }
    for note in explanation.notes.iter().take(2) {
        screen.block(Rank::Why, |page| {
            let says = format!("{} ({})", note.title, note.because);
            page.paragraph_within("  note: ", Look::Plain, &says, MAX_NOTE_LINES);
        });
    }
}

/// That there is no finding, and whose time it was.
pub(super) fn none(page: &mut Page, explanation: &Explanation) {
    let summary = &explanation.summary;
    if let Some(not_tcp) = &summary.not_tcp {
        page.paragraph_within(
            "",
            Look::Title,
            &format!("{} · {}", not_tcp.whose.label(), not_tcp.says),
            4,
        );
    }
    page.paragraph("", Look::Fix, &nothing_found(summary));
}

/// That nothing was found.
pub(crate) fn nothing_found(summary: &Summary) -> String {
    let found = if summary.not_tcp.is_some() {
        "No TCP problem"
    } else {
        "No cause"
    };
    let whole = if summary.is_whole() {
        ""
    } else {
        " (the recording is not whole, see below)"
    };
    format!(
        "{found} found in {} s of host {}{whole}.",
        number(summary.duration_s),
        summary.recording.host,
    )
}

/// How many causes answer what.
fn judged(causes: &[Answer]) -> String {
    let of = |holds| causes.iter().filter(move |a| a.answer == holds);
    let noted = of(Holds::Yes).filter(|a| a.because.is_some()).count();
    let counts = [
        (of(Holds::Yes).count() - noted, "found"),
        (noted, "found but not reported"),
        (of(Holds::No).count(), "ruled out"),
        (of(Holds::CannotTell).count(), "cannot tell"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 0);
    let counts: Vec<String> = counts.map(|(n, what)| format!("{n} {what}")).collect();
    let causes = plural(causes.len() as u64, "cause");
    format!("{causes} judged: {}", counts.join(", "))
}

/// What was recorded, how whole it is, what the causes answer, and where the rest is.
fn foot(page: &mut Page, explanation: &Explanation, more: &str) {
    let summary = &explanation.summary;
    page.blank();
    let causes = &summary.causes;
    let of = |verdict| causes.iter().filter(move |a| a.answer == verdict);
    let mut says = judged(causes);
    let unknown: Vec<_> = of(Holds::CannotTell).map(|a| a.cause.to_string()).collect();
    if !unknown.is_empty() && unknown.len() <= MAX_NAMED {
        says += &format!(" ({})", list(&unknown));
    }
    says += match summary.is_whole() {
        true if summary.lost_little() => "; almost nothing was lost.",
        true => "; nothing was lost.",
        false => ".",
    };
    page.paragraph_within("", Look::Faint, &says, 2);
    if !summary.complete {
        page.paragraph_within("", Look::Warning, CUT_SHORT, 2);
    }
    let holes: Vec<_> = summary.health.iter().filter(|n| n.kind.is_hole()).collect();
    if let Some(hole) = holes.first() {
        let others = match holes.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let says = format!("Not recorded: {}: {}{others}", hole.source, hole.says);
        page.paragraph_within("", Look::Warning, &says, 2);
    }
    if summary.recording.redacted {
        page.paragraph("", Look::Faint, REDACTED);
    }
    page.paragraph_within("", Look::Faint, more, 2);
}
