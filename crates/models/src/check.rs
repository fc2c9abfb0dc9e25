//! `check`: what models say of the cases, figure by figure, beside what the articles report.

use std::fmt::Write;

use serde::Serialize;

use crate::report::{columns, number};

/// One figure: theirs, ours, and whether that is as it should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckRow {
    /// The case: its letter.
    pub case: &'static str,
    /// What is compared.
    pub figure: String,
    /// The unit of both values; empty for a plain number.
    pub unit: &'static str,
    /// Where their value is from.
    pub theirs: Theirs,
    /// Their value.
    pub value: f64,
    /// The model's.
    pub model: Spread,
    /// How close the model's median has to be.
    pub tolerance: Band,
    /// Whether it is.
    pub agrees: bool,
    /// What the model gives where the mechanism does not give their figure; `None` where it does.
    pub ours: Option<f64>,
    /// What has to be assumed, or why the figure does not come out.
    pub why: Option<&'static str>,
    /// What that it agrees, or does not, is worth.
    pub standing: Standing,
    /// It agrees, or differs by what it is known to differ.
    pub passed: bool,
}

/// What a figure shows of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Little: a parameter was chosen so that it comes out.
    Fitted,
    /// It follows, with every parameter fixed by something else.
    Predicted,
    /// It does not come out.
    Unexplained,
}

/// Where a value is from that the model is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Theirs {
    /// Printed in the article.
    Article,
    /// Follows from what the article prints, or from its words ("steady" is a ratio of 1).
    Derived,
    /// Computed by a formula, without simulation.
    ClosedForm,
}

/// A figure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number the lower of the two in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
}

/// How close is close enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Band {
    /// By such a share of the value.
    Share(f64),
    /// By so much, in the figure's unit.
    By(f64),
}

/// All figures of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The model.
    pub model: &'static str,
    /// Seeds 1 to this.
    pub seeds: u64,
    /// Figure by figure.
    pub rows: Vec<CheckRow>,
    /// Every row passed.
    pub passed: bool,
}

impl Spread {
    /// Of one value per seed; zeros when there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_unstable_by(f64::total_cmp);
        let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
        Spread {
            median: at(values.len().saturating_sub(1) / 2),
            least: at(0),
            most: at(values.len().saturating_sub(1)),
        }
    }
}

impl Band {
    fn holds(self, expected: f64, value: f64) -> bool {
        let by = match self {
            Band::Share(share) => share * expected.abs(),
            Band::By(by) => by,
        };
        (value - expected).abs() <= by
    }

    fn says(self) -> String {
        match self {
            Band::Share(share) => format!("±{} %", (share * 1_000.0).round() / 10.0),
            Band::By(by) => format!("±{by}"),
        }
    }
}

impl CheckRow {
    /// A figure that the mechanism gives.
    pub(crate) fn new(
        case: &'static str,
        figure: impl Into<String>,
        unit: &'static str,
        (theirs, value): (Theirs, f64),
        values: Vec<f64>,
        tolerance: Band,
    ) -> CheckRow {
        let model = Spread::of(values);
        let agrees = tolerance.holds(value, model.median);
        CheckRow {
            case,
            figure: figure.into(),
            unit,
            theirs,
            value,
            model,
            tolerance,
            agrees,
            ours: None,
            why: None,
            standing: Standing::Predicted,
            passed: agrees,
        }
    }

    /// What has to be said of a figure that agrees.
    pub(crate) fn note(self, why: &'static str) -> CheckRow {
        CheckRow {
            why: Some(why),
            ..self
        }
    }

    /// A parameter was chosen by this figure: which one.
    pub(crate) fn fitted(self, why: &'static str) -> CheckRow {
        CheckRow {
            standing: Standing::Fitted,
            ..self.note(why)
        }
    }

    /// The mechanism does not give this figure but `ours`, within the same tolerance: it passes if
    /// that is so. One that agrees after all does not pass either, as the reason is then wrong.
    pub(crate) fn differs(self, ours: f64, why: &'static str) -> CheckRow {
        CheckRow {
            ours: Some(ours),
            why: Some(why),
            standing: Standing::Unexplained,
            passed: !self.agrees && self.tolerance.holds(ours, self.model.median),
            ..self
        }
    }
}

/// The table, and below it what there is to say of its rows.
pub fn render_check(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let _ = writeln!(
            out,
            "{}: median and range over {} seeds; * not printed in the article but following from \
             it; = by a closed form\n\
             fitted: a parameter was chosen by it; predicted: it follows with every parameter fixed \
             elsewhere; unexplained: it does not agree\n",
            check.model, check.seeds
        );
        let head = [
            "case",
            "figure",
            "article",
            "model",
            "range",
            "tolerance",
            "agrees",
            "standing",
            "",
        ];
        let mut notes: Vec<&str> = Vec::new();
        let rows = check.rows.iter().map(|row| {
            let note = row.why.map_or(String::new(), |why| {
                let known = notes.iter().position(|n| *n == why);
                let nth = known.unwrap_or_else(|| {
                    notes.push(why);
                    notes.len() - 1
                });
                format!("[{}]", nth + 1)
            });
            row.cells(note)
        });
        out += &columns(2, head.map(Into::into).into(), rows.collect());
        out.push('\n');
        for (i, note) in notes.iter().enumerate() {
            let _ = writeln!(out, "[{}] {note}", i + 1);
        }
        let wrong = check.rows.iter().filter(|r| !r.passed).count();
        let agree = check.rows.iter().filter(|r| r.agrees);
        let (fitted, predicted): (Vec<_>, Vec<_>) =
            agree.partition(|r| r.standing == Standing::Fitted);
        let _ = writeln!(
            out,
            "\n{} of {} figures agree ({} fitted, {} predicted); {}",
            fitted.len() + predicted.len(),
            check.rows.len(),
            fitted.len(),
            predicted.len(),
            match wrong {
                0 => "the others are unexplained, and differ by what the mechanism makes them differ."
                    .into(),
                n => format!("{n} FAILED."),
            }
        );
    }
    out
}

impl Standing {
    fn says(self) -> &'static str {
        match self {
            Standing::Fitted => "fitted",
            Standing::Predicted => "predicted",
            Standing::Unexplained => "unexplained",
        }
    }
}

impl CheckRow {
    fn cells(&self, note: String) -> Vec<String> {
        let mark = match self.theirs {
            Theirs::Article => "",
            Theirs::Derived => "*",
            Theirs::ClosedForm => "=",
        };
        let agrees = match (self.passed, self.agrees) {
            (true, true) => "yes",
            (true, false) => "no",
            (false, _) => "FAILED",
        };
        let figure = match self.unit {
            "" => self.figure.clone(),
            unit => format!("{}, {unit}", self.figure),
        };
        vec![
            self.case.into(),
            figure,
            format!("{}{mark}", number(self.value)),
            number(self.model.median),
            format!("{}..{}", number(self.model.least), number(self.model.most)),
            self.tolerance.says(),
            agrees.into(),
            self.standing.says().into(),
            note,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64, ours: Vec<f64>) -> CheckRow {
        CheckRow::new(
            "A",
            "x",
            "",
            (Theirs::Article, value),
            ours,
            Band::Share(0.1),
        )
    }

    #[test]
    fn the_median_decides() {
        assert!(row(100.0, vec![300.0, 109.0, 0.0]).passed);
        assert!(!row(100.0, vec![111.0]).passed);
        assert_eq!(
            Spread::of(vec![]),
            Spread {
                median: 0.0,
                least: 0.0,
                most: 0.0
            }
        );
    }

    #[test]
    fn a_known_difference_has_to_be_the_known_one() {
        assert!(row(100.0, vec![50.0]).differs(52.0, "why").passed);
        assert!(!row(100.0, vec![50.0]).differs(80.0, "why").passed);
        assert!(!row(100.0, vec![101.0]).differs(101.0, "why").passed);
    }

    #[test]
    fn the_table_says_each_reason_once() {
        let rows = vec![
            row(1.0, vec![1.0]).note("why"),
            row(1.0, vec![1.0]).fitted("why"),
            row(1.0, vec![2.0]).differs(2.0, "why"),
        ];
        let check = Check {
            model: "m",
            seeds: 1,
            passed: true,
            rows,
        };
        let text = render_check(&[check]);
        assert_eq!(text.matches("why").count(), 1, "{text}");
        let sum = "2 of 3 figures agree (1 fitted, 1 predicted); the others are unexplained";
        assert!(text.contains(sum), "{text}");
        for (line, standing) in text
            .lines()
            .skip(4)
            .zip(["predicted", "fitted", "unexplained"])
        {
            assert!(line.contains(standing), "{line}");
        }
    }
}
