//! Rows of a recording as they are: every column with its unit, as its table declares it.

use std::io::{self, Write};

use recording::{Column, Row, RowRef, Unit, Value};
use serde::{Serialize, Serializer};
use unicode_width::UnicodeWidthStr;

use crate::ascii::plain;
use crate::escape::escape;
use crate::how::How;

/// What a null is written as.
const NULL: &str = "-";

/// One column per line: its name, its value, its unit; for a null, what that means. Before them the row's place, its
/// table and when it was, after them an empty line.
pub fn text<'r>(
    rows: impl IntoIterator<Item = (&'r RowRef, &'r Row)>,
    how: &How,
    out: &mut impl Write,
) -> io::Result<()> {
    for (place, row) in rows {
        let table = row.info();
        let doc = table.doc.trim();
        let what = doc.split_once(". ").map_or(doc, |(first, _)| first);
        writeln!(out, "{place}  {}", what.trim_end_matches('.'))?;
        let lines: Vec<_> = columns(row).collect();
        let widest = |of: fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or(0);
        let (names, values) = (widest(|l| l.name().width()), widest(|l| l.shown.width()));
        for line in &lines {
            let name = line.name();
            // Nothing at all would look as if the column were missing.
            let value = if line.shown.is_empty() {
                "\"\""
            } else {
                &line.shown
            };
            let pad = " ".repeat(values.min(MOST_PADDED).saturating_sub(value.width()));
            let says = line.says(how);
            let text = format!("  {name:names$}  {value}{pad}  {says}");
            writeln!(out, "{}", plain(text.trim_end(), how.ascii))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Units are aligned unless a value is longer than this.
const MOST_PADDED: usize = 40;

struct Line<'r> {
    column: &'static Column,
    value: Value<'r>,
    shown: String,
}

impl Line<'_> {
    fn name(&self) -> &'static str {
        self.column.name
    }

    /// Its unit, and what a reader would look up next.
    fn says(&self, how: &How) -> String {
        match (self.value, self.column.null) {
            (Value::Null, Some(null)) => null.to_string(),
            // The first column of every table is when.
            (Value::Unsigned(ns), _) if self.column.name == "time_ns" => {
                format!("{} ({})", self.column.unit.label(), how.time(ns))
            }
            // A text needs no unit.
            (Value::Text(_) | Value::Addr(_) | Value::Flag(_), _) => String::new(),
            _ if self.column.unit == Unit::Id => String::new(),
            _ => self.column.unit.label().to_string(),
        }
    }
}

fn columns(row: &Row) -> impl Iterator<Item = Line<'_>> {
    let declared = row.info().columns.iter();
    declared.zip(row.cells()).map(|(column, (_, value))| Line {
        shown: match value {
            Value::Null => NULL.into(),
            value => escape(&value.to_string()).into_owned(),
        },
        column,
        value,
    })
}

/// One object per row: its place (`row`), its `table`, its columns (`values`) and their `units`.
pub fn json<'r>(
    rows: impl IntoIterator<Item = (&'r RowRef, &'r Row)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let rows = rows.into_iter().map(|(place, row)| Object {
        kind: "row",
        row: place.to_string(),
        table: place.table,
        values: Columns(row, |line| {
            serde_json::to_value(line.value).unwrap_or_default()
        }),
        units: Columns(row, |line| line.column.unit.label().into()),
    });
    crate::json::lines(rows, out)
}

#[derive(Serialize)]
struct Object<'r> {
    #[serde(rename = "type")]
    kind: &'static str,
    row: String,
    table: &'static str,
    values: Columns<'r>,
    units: Columns<'r>,
}

/// Something of each column, by its name.
struct Columns<'r>(&'r Row, fn(&Line) -> serde_json::Value);

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(columns(self.0).map(|line| (line.name(), (self.1)(&line))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::Manifest;
    use recording::tables::{Counter, Wait};

    fn how() -> How {
        How::of(&Manifest::default())
    }

    fn place(table: &'static str) -> RowRef {
        RowRef {
            table,
            segment: 1,
            row: 7,
        }
    }

    #[test]
    fn every_column_is_a_line_with_its_unit() {
        let wait = Wait {
            time_ns: 1_500_000_000,
            pid: 7,
            comm: "a\x1b[2Jb".into(),
            ..Wait::default()
        };
        let row = Row::from(wait);
        let mut out = Vec::new();
        text([(&place("wait"), &row)], &how(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("wait/000001#7  "), "{text}");
        assert!(
            !text.contains('\x1b') && text.contains("a\\x1b[2Jb"),
            "{text}"
        );
        for column in row.info().columns {
            let line = text
                .lines()
                .find(|l| l.trim_start().split(' ').next() == Some(column.name));
            let line = line.unwrap_or_else(|| panic!("{}: {text}", column.name));
            assert!(line.len() > column.name.len() + 4, "{line}");
        }
        assert!(
            text.contains("1500000000") && text.contains("ns ("),
            "{text}"
        );
        assert!(
            text.contains("  -  ") || text.contains("  -"),
            "nulls say what they mean: {text}"
        );
    }

    #[test]
    fn json_has_values_and_units() {
        let counter = Counter {
            time_ns: 5,
            name: "a\u{202e}".into(),
            value: 9,
            ..Counter::default()
        };
        let row = Row::from(counter);
        let mut out = Vec::new();
        json([(&place("counter"), &row)], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\\u202e"), "{text}");
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["type"], "row");
        assert_eq!(object["row"], "counter/000001#7");
        assert_eq!(object["values"]["value"], 9);
        assert_eq!(object["units"]["time_ns"], "ns");
        let columns = row.info().columns.len();
        assert_eq!(object["values"].as_object().unwrap().len(), columns);
    }
}
