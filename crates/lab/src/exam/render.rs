//! An exam in words, as CSV, and as a page of the book.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use super::{Exam, Matrix, Score};

/// The matrix with a letter per column, the scores, and what was wrong.
pub fn render_exam(exam: &Exam) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_text(&mut text, exam);
    text
}

/// A line per planted cause: its id, how often each was named first, runs that failed.
pub fn exam_csv(exam: &Exam) -> String {
    let mut text = format!("planted,{},failed\n", exam.matrix.causes.join(","));
    for (cause, row, failed) in exam.matrix.each() {
        let row: Vec<_> = row.iter().map(u64::to_string).collect();
        let _ = writeln!(text, "{cause},{},{failed}", row.join(","));
    }
    text
}

/// The page of the book.
pub fn exam_markdown(exam: &Exam) -> String {
    let mut page = String::new();
    let _ = write_markdown(&mut page, exam);
    page
}

/// `a` to `z`, then `aa`.
fn letters(column: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    match column.checked_div(26) {
        None | Some(0) => letter(column).to_string(),
        Some(n) => format!("{}{}", letter(n - 1), letter(column)),
    }
}

fn write_text(text: &mut String, exam: &Exam) -> fmt::Result {
    let Matrix { causes, .. } = &exam.matrix;
    for column in 0..causes.len() {
        write!(text, "{:>4}", letters(column))?;
    }
    writeln!(text, "   <- named first")?;
    for (cause, row, failed) in exam.matrix.each() {
        for n in row {
            match n {
                0 => write!(text, "{:>4}", ".")?,
                n => write!(text, "{n:>4}")?,
            }
        }
        let column = causes.iter().position(|c| c == cause).unwrap_or(0);
        write!(text, "   {:>2} {cause}", letters(column))?;
        match failed {
            0 => writeln!(text)?,
            n => writeln!(text, " ({n} failed)")?,
        }
    }
    let planted = exam.matrix.rows.len();
    for (column, cause) in causes.iter().enumerate().skip(planted) {
        writeln!(
            text,
            "{:>w$} {cause}",
            letters(column),
            w = 4 * causes.len() + 5
        )?;
    }
    writeln!(text)?;
    for score in &exam.scores {
        writeln!(text, "{}", score_line(score))?;
    }
    for (line, runs) in beside(exam) {
        writeln!(text, "beside    {line} (in {runs} of its runs)")?;
    }
    let wrong = exam.sittings.iter().filter(|s| !s.passed);
    for s in wrong {
        writeln!(
            text,
            "wrong     {} --seed {}: {}",
            s.scenario,
            s.seed,
            s.why.join("; ")
        )?;
    }
    writeln!(
        text,
        "{} runs, the longest {:.1} s",
        exam.sittings.len(),
        exam.longest_s
    )?;
    writeln!(text, "{}", if exam.passed() { "passed" } else { "FAILED" })
}

/// What was found and not planted, by scenario, and in how many runs.
fn beside(exam: &Exam) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    for sitting in &exam.sittings {
        let others: BTreeSet<_> = sitting.beside().collect();
        for other in others {
            *lines
                .entry(format!("{}: {other}", sitting.scenario))
                .or_default() += 1;
        }
    }
    lines
}

fn score_line(score: &Score) -> String {
    let Score {
        what, right, of, ..
    } = score;
    let mark = if score.met { "met   " } else { "MISSED" };
    let share = 100.0 * *right as f64 / *of as f64;
    format!(
        "{mark}  {share:5.1} % (bar {:.0} %)  {right} of {of}  {what}",
        100.0 * score.bar
    )
}

fn write_markdown(page: &mut String, exam: &Exam) -> fmt::Result {
    let Matrix { causes, .. } = &exam.matrix;
    writeln!(
        page,
        "# The exam\n\n\
         Every scenario of [the lab](lab.md) with seeds 1 to {seeds}: ports, counts, rates and sizes are \
         drawn anew for each. Made by\n\n    sudo tcpwhy lab exam --seeds {seeds} --markdown\n\n\
         A row per planted cause, a column per cause that was named first.\n",
        seeds = exam.seeds
    )?;
    let columns: Vec<_> = (0..causes.len()).map(letters).collect();
    writeln!(page, "| | planted | {} | failed |", columns.join(" | "))?;
    writeln!(page, "|---|---|{}---|", "---|".repeat(causes.len()))?;
    for (cause, row, failed) in exam.matrix.each() {
        let column = causes.iter().position(|c| c == cause).unwrap_or(0);
        let cell = |n: &u64| {
            if *n == 0 {
                String::new()
            } else {
                n.to_string()
            }
        };
        let cells: Vec<_> = row.iter().map(cell).collect();
        writeln!(
            page,
            "| {} | `{cause}` | {} | {} |",
            letters(column),
            cells.join(" | "),
            cell(&failed)
        )?;
    }
    let planted = exam.matrix.rows.len();
    for (column, cause) in causes.iter().enumerate().skip(planted) {
        writeln!(
            page,
            "\n{}: `{cause}`, which was not planted",
            letters(column)
        )?;
    }
    writeln!(
        page,
        "\n| | right | of | share | bar |\n|---|---|---|---|---|"
    )?;
    for s in &exam.scores {
        writeln!(
            page,
            "| {} | {} | {} | {:.1} % | {:.0} % |",
            s.what,
            s.right,
            s.of,
            100.0 * s.right as f64 / s.of as f64,
            100.0 * s.bar
        )?;
    }
    let beside = beside(exam);
    if !beside.is_empty() {
        writeln!(page, "\nWhat was found and not planted:\n")?;
    }
    for (line, runs) in beside {
        writeln!(page, "- {line} (in {runs} of its runs)")?;
    }
    let wrong: Vec<_> = exam.sittings.iter().filter(|s| !s.passed).collect();
    if !wrong.is_empty() {
        writeln!(page, "\nWhat was wrong:\n")?;
    }
    for s in wrong {
        writeln!(
            page,
            "- `{}`, seed {}: {}",
            s.scenario,
            s.seed,
            s.why.join("; ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Sitting;
    use super::*;

    fn sitting(truth: &str, said: Option<&str>) -> Sitting {
        Sitting {
            r#type: "sitting",
            scenario: format!("plants-{truth}"),
            seed: 1,
            truth: truth.into(),
            said: said.map(String::from),
            found: said
                .filter(|s| *s != "healthy")
                .map(String::from)
                .into_iter()
                .collect(),
            passed: said == Some(truth),
            why: match said == Some(truth) {
                true => Vec::new(),
                false => vec!["not so".into()],
            },
            seconds: 7.5,
        }
    }

    fn held() -> Exam {
        let mut sittings = vec![
            sitting("healthy", Some("healthy")),
            sitting("path-loss", Some("qdisc-drop")),
            sitting("path-loss", None),
        ];
        sittings.extend((0..18).map(|_| sitting("qdisc-drop", Some("qdisc-drop"))));
        Exam::of(1, sittings)
    }

    #[test]
    fn what_was_named_is_counted_against_what_was_planted() {
        let text = render_exam(&held());
        assert!(
            text.starts_with(
                "   a   b   c   <- named first\n   \
                    1   .   .    a healthy\n   \
                    .   .   1    b path-loss (1 failed)\n   \
                    .   .  18    c qdisc-drop\n"
            ),
            "{text}"
        );
        assert!(text.contains("MISSED   90.0 % (bar 95 %)  18 of 20  planted cause named first"));
        assert!(text.contains("met      90.0 % (bar 90 %)  18 of 20  path-loss / qdisc-drop"));
        assert!(
            text.contains("MISSED   94.7 % (bar 95 %)  18 of 19  findings, the first and all"),
            "{text}"
        );
        assert!(text.contains("beside    plants-path-loss: qdisc-drop (in 1 of its runs)"));
        assert!(text.contains("wrong     plants-path-loss --seed 1: not so"));
        assert!(text.ends_with("21 runs, the longest 7.5 s\nFAILED\n"));
        assert_eq!(
            exam_csv(&held()),
            "planted,healthy,path-loss,qdisc-drop,failed\n\
             healthy,1,0,0,0\npath-loss,0,0,1,1\nqdisc-drop,0,0,18,0\n"
        );
        let page = exam_markdown(&held());
        assert!(page.contains("| b | `path-loss` |  |  | 1 | 1 |"), "{page}");
    }

    #[test]
    fn a_finding_on_a_healthy_host_fails_the_exam() {
        let mut sittings: Vec<_> = (0..99)
            .map(|_| sitting("healthy", Some("healthy")))
            .collect();
        assert!(Exam::of(1, sittings.clone()).passed());
        sittings.push(sitting("healthy", Some("path-loss")));
        let exam = Exam::of(1, sittings);
        assert!(!exam.passed());
        assert!(
            render_exam(&exam).contains("  b path-loss\n"),
            "a column of its own"
        );
    }

    #[test]
    fn columns_go_beyond_z() {
        assert_eq!([0, 25, 26, 53].map(letters), ["a", "z", "aa", "bb"]);
    }
}
