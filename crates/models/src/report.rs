//! What one run of a model came to: figures, and what happened step by step.

use std::fmt::Write;

use serde::Serialize;

/// What one run came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Step by step.
    pub series: Series,
}

/// One number with its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is, also as the head of a column.
    pub name: &'static str,
    /// The unit; empty for a plain number.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
}

/// What happened step by step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// What a row is of: a second of the virtual clock, or a longer time.
    pub step: &'static str,
    /// What each number of a row is.
    pub columns: &'static [&'static str],
    /// One per step, the first for the first.
    pub rows: Vec<Vec<f64>>,
}

/// The report as text.
pub fn render_report(report: &Report) -> String {
    let mut out = String::new();
    let head: Vec<String> = report
        .series
        .columns
        .iter()
        .map(|c| c.to_string())
        .collect();
    let rows = report.series.rows.iter().enumerate().map(|(nth, row)| {
        let cells = row.iter().map(|v| number(*v));
        std::iter::once((nth + 1).to_string())
            .chain(cells)
            .collect()
    });
    let head = std::iter::once(report.series.step.to_string())
        .chain(head)
        .collect();
    out += &columns(0, head, rows.collect());
    out.push('\n');
    for f in &report.figures {
        let _ = writeln!(out, "{:<44} {} {}", f.name, number(f.value), f.unit);
    }
    out.lines()
        .fold(String::new(), |all, line| all + line.trim_end() + "\n")
}

/// Columns under their heads, the first `left` of them texts, the others numbers, flush right.
pub(crate) fn columns(left: usize, head: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in std::iter::once(&head).chain(&rows) {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(nth, (cell, width))| {
            if nth < left {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        let line: Vec<String> = cells.collect();
        out += line.join("  ").trim_end();
        out.push('\n');
    }
    out
}

/// A number in about four digits: 5850, 12.3, 0.0912.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.001 => 4,
        _ => 6,
    };
    // Adding zero makes minus zero plus.
    format!("{:.digits$}", value + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_what_matters() {
        let told: Vec<_> = [5_850.4, 12.345, 1.0, 0.0912, 0.0, 2e-5].map(number).into();
        assert_eq!(told, ["5850", "12.3", "1", "0.0912", "0", "0.000020"]);
    }

    #[test]
    fn a_report_has_its_seconds_and_its_figures() {
        let report = Report {
            figures: vec![Figure {
                name: "rate",
                unit: "1/s",
                value: 10.0,
            }],
            series: Series {
                step: "second",
                columns: &["opens"],
                rows: vec![vec![4_939.0], vec![7.0]],
            },
        };
        let text = render_report(&report);
        assert!(
            text.starts_with("second  opens\n     1   4939\n     2      7\n\nrate"),
            "{text}"
        );
        assert!(text.ends_with("10 1/s\n"), "{text}");
    }
}
