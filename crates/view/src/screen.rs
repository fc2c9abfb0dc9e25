//! Where a view prints: fixed columns under a header, or one JSON object per line.

use std::io::{self, Write};

use analysis::words::plural;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::ascii::plain;
use crate::columns::{Column, Head, Line, Object, Unit};
use crate::escape::escape;
use crate::how::How;

/// On a terminal the header is shown again after this many lines.
const HEADER_EVERY: usize = 25;

/// Prints lines.
pub struct Screen<'a> {
    out: &'a mut dyn Write,
    pub(crate) how: &'a How,
    /// Lines since the header; `None` before the first.
    since_header: Option<usize>,
    /// Reports that were completed: what COUNT counts.
    reports: u64,
    /// After this many, nothing more is printed.
    most: Option<u64>,
}

impl<'a> Screen<'a> {
    /// Prints to `out`.
    pub fn new(out: &'a mut dyn Write, how: &'a How) -> Screen<'a> {
        Screen {
            out,
            how,
            since_header: None,
            reports: 0,
            most: None,
        }
    }

    /// Prints at most this many reports.
    pub fn at_most(self, most: Option<u64>) -> Screen<'a> {
        Screen { most, ..self }
    }

    /// Whether as many reports were printed as were asked for.
    pub fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.reports >= most)
    }

    /// Whether it prints JSON.
    pub fn is_json(&self) -> bool {
        self.how.json
    }

    /// Makes what was printed visible.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub(crate) fn end_report(&mut self) {
        self.reports += 1;
    }

    /// One object on a line of its own, whatever was printed before.
    pub(crate) fn last(&mut self, object: &impl Serialize) -> io::Result<()> {
        self.most = None;
        self.json(object)
    }

    /// One object on a line of its own.
    pub(crate) fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        if self.is_full() {
            return Ok(());
        }
        crate::json::lines([object], &mut self.out)
    }

    /// A line: its cells under their header, which may hold anything, or an object.
    pub(crate) fn show<L: Line>(&mut self, line: &L) -> io::Result<()> {
        if self.how.json {
            return self.json(&Object(line, self.how));
        }
        let due = match self.since_header {
            None => true,
            Some(lines) => self.how.width.is_some() && lines >= HEADER_EVERY,
        };
        if due {
            let name = |head: Head| match head.unit {
                Unit::Time => format!("{}({})", head.name, self.how.zone_name),
                _ => head.name.to_string(),
            };
            let heads = self.shown::<L>().map(|c| (c.head, name(c.head)));
            let line = aligned(heads);
            self.put(&line)?;
            self.since_header = Some(0);
        }
        let cell = |c: &Column<L>| (c.head, escape(&c.text(line, self.how)).into_owned());
        let line = aligned(self.shown::<L>().map(cell));
        self.put(&line)
    }

    /// The columns that text has here.
    fn shown<L: Line>(&self) -> impl Iterator<Item = &'static Column<L>> + use<L> {
        let several = self.how.names.len() > 1;
        let columns = L::TEXT.iter();
        columns.filter(move |c| several || !c.head.of_several)
    }

    /// A line that belongs to the one before it; JSON has it in its object.
    pub(crate) fn more(&mut self, text: &str) -> io::Result<()> {
        if self.how.json {
            Ok(())
        } else {
            self.put(&escape(text))
        }
    }

    /// The rows of a kind that a report does not show: there are too many, and these are the smallest.
    pub(crate) fn left_out(&mut self, time_ns: u64, of: &str, rows: u64) -> io::Result<()> {
        if self.how.json {
            return self.json(&LeftOut {
                kind: "left_out",
                of,
                time_ns,
                unix_ns: self.how.unix_ns(time_ns),
                rows,
            });
        }
        let time = self.how.time(time_ns);
        let rows = plural(rows, "further row");
        self.put(&format!("{time} {rows} left out, the smallest of all"))
    }

    fn put(&mut self, line: &str) -> io::Result<()> {
        if self.is_full() {
            return Ok(());
        }
        let line = plain(line.trim_end(), self.how.ascii);
        let shown = match self.how.width {
            Some(width) => cut(&line, width),
            None => &line,
        };
        self.since_header = self.since_header.map(|n| n + 1);
        self.out.write_all(shown.as_bytes())?;
        self.out.write_all(b"\n")
    }
}

/// Rows that a report does not show.
#[derive(Serialize)]
struct LeftOut<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    /// The type of the objects that are missing.
    of: &'a str,
    time_ns: u64,
    unix_ns: i64,
    rows: u64,
}

/// Cells, each as wide as its column at least, and a blank between.
fn aligned(cells: impl Iterator<Item = (Head, String)>) -> String {
    let mut line = String::new();
    for (head, cell) in cells {
        if !line.is_empty() {
            line.push(' ');
        }
        let pad = std::iter::repeat_n(' ', head.width.saturating_sub(cell.width()));
        if head.left {
            line.extend(cell.chars().chain(pad))
        } else {
            line.extend(pad.chain(cell.chars()))
        }
    }
    line
}

/// As much of the line as fits.
fn cut(line: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in line.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return line[..at].trim_end();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use recording::Manifest;

    use super::*;

    use crate::columns::{Unit, columns, left, right};

    struct Pair([&'static str; 2]);
    columns! {
        Pair = "pair" { text NAME N; json NAME N; }
        NAME: left("NAME", 6, &["name"], Unit::Name) => |l, _| l.0[0].into();
        N: right("N", 4, &["n"], Unit::Count) => |l, _| l.0[1].into();
    }

    fn shown(width: Option<usize>, cells: &[[&'static str; 2]]) -> String {
        let mut how = How::of(&Manifest::default());
        how.width = width;
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, &how);
        for cells in cells {
            screen.show(&Pair(*cells)).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_what_acts_is_escaped() {
        let text = shown(None, &[["a", "1"], ["数据", "23"], ["\x1b[2J", "4"]]);
        assert_eq!(
            text,
            "NAME      N\na         1\n数据     23\n\\x1b[2J    4\n"
        );
    }

    #[test]
    fn a_terminal_is_never_overrun_and_sees_the_header_again() {
        let text = shown(Some(8), &[["a", "1"]; 60]);
        assert!(text.lines().all(|l| l.width() <= 8));
        assert_eq!(text.lines().filter(|l| l.starts_with("NAME")).count(), 3);
        let piped = shown(None, &[["a", "1"]; 60]);
        assert_eq!(piped.lines().filter(|l| l.starts_with("NAME")).count(), 1);
    }
}
