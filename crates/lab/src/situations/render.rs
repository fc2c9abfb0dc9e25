//! Situations in words: a line each, the counts on a terminal, and the page of the book.

use std::fmt::{self, Write};

use super::grade::{Mark, Marked, SituationGrade, Tally};
use super::kinds::word;
use super::row::in_words;
use super::situation::Situation;

/// One situation in a line: what was planted, what it cost, what was said, what that is worth.
pub fn render_marked(marked: &Marked) -> String {
    let (played, said) = (&marked.played, &marked.said);
    let told: Vec<String> = said.all().map(|t| t.cause.clone()).collect();
    let told = match (
        played.failed.as_ref().or(said.failed.as_ref()),
        told.is_empty(),
    ) {
        (Some(why), _) => why.clone(),
        (None, true) => "nothing".into(),
        (None, false) => told.join(", "),
    };
    let felt = match played.situation.fault {
        None => String::new(),
        Some(_) => format!(
            " ({:.1} s lost, ×{:.1})",
            played.met.felt.lost_s(),
            played.met.severity()
        ),
    };
    let mark = word(&marked.mark);
    format!(
        "{mark:<11} {:<5} {}{felt} -> {told}",
        played.situation.seed,
        in_words(&played.situation)
    )
}

/// What a seed draws, in a line.
pub fn render_composed(situation: &Situation) -> String {
    format!("{:<5} {}", situation.seed, in_words(situation))
}

/// The counts, and each answer that is not right.
pub fn render_situations(grade: &SituationGrade, all: &[Marked]) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_text(&mut text, grade, all);
    text
}

fn percent(part: u64, of: u64) -> String {
    match of {
        0 => "-".into(),
        _ => format!("{:.0} %", 100.0 * part as f64 / of as f64),
    }
}

fn is_good(mark: Mark) -> bool {
    matches!(
        mark,
        Mark::Right | Mark::Quiet | Mark::Unseen | Mark::Unfelt
    )
}

fn write_text(text: &mut String, grade: &SituationGrade, all: &[Marked]) -> fmt::Result {
    for marked in all.iter().filter(|m| !is_good(m.mark)) {
        writeln!(text, "{}", render_marked(marked))?;
        let right = &marked.right;
        if let Some((fault, _)) = marked.played.situation.fault {
            writeln!(text, "            planted: {}", fault.what())?;
        }
        if right.best.is_empty() {
            writeln!(text, "            right: nothing; {}", right.why)?;
        } else {
            let or = if right.silence { ", or nothing" } else { "" };
            writeln!(
                text,
                "            right: {}{or}; {}",
                right.best.join(", "),
                right.why
            )?;
        }
        if !marked.ruled_out.is_empty() {
            writeln!(
                text,
                "            called ruled out: {}",
                marked.ruled_out.join(", ")
            )?;
        }
    }
    writeln!(text)?;
    for (what, right, of) in scores(grade) {
        writeln!(text, "{:>6}  {right} of {of}  {what}", percent(right, of))?;
    }
    writeln!(text)?;
    for (name, rows) in &grade.by {
        for (which, tally) in rows {
            writeln!(text, "{name:<15} {which:<20} {}", counts(tally))?;
        }
    }
    Ok(())
}

/// What is counted, as on the page.
fn scores(grade: &SituationGrade) -> Vec<(String, u64, u64)> {
    let felt = grade.all.felt();
    let high = grade.calibration.get("high").copied().unwrap_or_default();
    let medium = grade.calibration.get("medium").copied().unwrap_or_default();
    vec![
        (
            "faults that a user noticed, that can be known from there, and that are told rightly"
                .into(),
            grade.all.n(Mark::Right),
            felt,
        ),
        (
            "of them told in part".into(),
            grade.all.n(Mark::Partly),
            felt,
        ),
        (
            "of them met with silence".into(),
            grade.all.n(Mark::Silent),
            felt,
        ),
        (
            "of them told wrongly".into(),
            grade.all.n(Mark::Wrong),
            felt,
        ),
        (
            "faults that cannot be known from there, of which nothing is found".into(),
            grade.unseen.0,
            grade.unseen.1,
        ),
        (
            "first lines that are right, at least in part".into(),
            grade.first.0,
            grade.first.1,
        ),
        (
            "misses of which the cause is called ruled out".into(),
            grade.ruled_out.0,
            grade.ruled_out.1,
        ),
        (
            "faults with a finding beside them of what nobody planted".into(),
            grade.beside,
            felt,
        ),
        (
            "healthy situations in which nothing is found".into(),
            grade.all.n(Mark::Quiet),
            grade.all.healthy(),
        ),
        (
            "healthy situations of which somebody is said to take the time".into(),
            grade.blamed_in_health,
            grade.all.healthy(),
        ),
        (
            "findings with high confidence that fit".into(),
            high.0,
            high.1,
        ),
        (
            "findings with medium confidence that fit".into(),
            medium.0,
            medium.1,
        ),
    ]
}

fn counts(tally: &Tally) -> String {
    let all = [
        (Mark::Right, "right"),
        (Mark::Partly, "partly"),
        (Mark::Silent, "silent"),
        (Mark::Wrong, "wrong"),
        (Mark::Unseen, "unseen"),
        (Mark::Unfelt, "unfelt"),
        (Mark::Quiet, "quiet"),
        (Mark::FalseAlarm, "false alarms"),
        (Mark::Failed, "failed"),
    ];
    let there = all.iter().filter(|(mark, _)| tally.n(*mark) > 0);
    let words: Vec<String> = there
        .map(|(mark, word)| format!("{} {word}", tally.n(*mark)))
        .collect();
    words.join(", ")
}

/// The page of the book.
pub fn situations_markdown(grade: &SituationGrade, all: &[Marked]) -> String {
    let mut page = String::new();
    let _ = write_page(&mut page, grade, all);
    page
}

fn write_page(page: &mut String, grade: &SituationGrade, all: &[Marked]) -> fmt::Result {
    let seeds = || all.iter().map(|m| m.played.situation.seed);
    let kind = if grade.graded { "grading" } else { "building" };
    writeln!(
        page,
        "# Situations: what was said\n\n{} situations, seeds {} to {} ({kind} seeds). [What is drawn, and how what is \
         right is known](situations.md).\n\n| | right | of | share |\n|---|---|---|---|",
        all.len(),
        seeds().min().unwrap_or(0),
        seeds().max().unwrap_or(0),
    )?;
    for (what, right, of) in scores(grade) {
        writeln!(page, "| {what} | {right} | {of} | {} |", percent(right, of))?;
    }
    for (name, rows) in &grade.by {
        writeln!(
            page,
            "\n## By {name}\n\n| {name} | felt | right | partly | silent | wrong | healthy | false alarms |\n|---|---|---|---|---|---|---|---|"
        )?;
        for (which, t) in rows {
            writeln!(
                page,
                "| {which} | {} | {} | {} | {} | {} | {} | {} |",
                t.felt(),
                t.n(Mark::Right),
                t.n(Mark::Partly),
                t.n(Mark::Silent),
                t.n(Mark::Wrong),
                t.healthy(),
                t.n(Mark::FalseAlarm),
            )?;
        }
    }
    writeln!(page, "\n## What is not right\n")?;
    for marked in all.iter().filter(|m| !is_good(m.mark)) {
        let right = if marked.right.best.is_empty() {
            "nothing".into()
        } else {
            marked.right.best.join(", ")
        };
        let planted = marked
            .played
            .situation
            .fault
            .map_or("nothing", |(fault, _)| fault.what());
        writeln!(
            page,
            "- {}; planted: {planted}; right: {right} ({})",
            render_marked(marked),
            marked.right.why
        )?;
    }
    Ok(())
}
