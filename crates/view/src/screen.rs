//! Where a view prints: fixed columns under a header, or one JSON object per line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::words::plural;
use jiff::tz::TimeZone;
use recording::{Filter, Manifest};
use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::ascii::plain;
use crate::columns::{Column, Head, Line, Object, Unit};
use crate::escape::escape;

/// On a terminal the header is shown again after so many lines.
const HEADER_EVERY: usize = 25;

/// How a view prints and what of.
#[derive(Clone, Debug)]
pub struct How {
    /// JSON lines instead of text.
    pub json: bool,
    /// Columns of the terminal; `None` in a pipe, where lines are as long as they are.
    pub width: Option<usize>,
    /// ASCII only in text, for terminals that have no other letters.
    pub ascii: bool,
    /// Which rows are shown.
    pub filter: Filter,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, ns.
    pub clock_offset_ns: i64,
    /// Time zone of the times in text.
    pub zone: TimeZone,
    /// Its short name at the start of the recording, which stands in the header.
    pub zone_name: String,
    /// Names of network namespaces.
    pub names: BTreeMap<u32, String>,
}

impl How {
    /// Text in a pipe, times in UTC, everything shown, of the recording with this manifest.
    pub fn of(manifest: &Manifest) -> How {
        let names = manifest.namespaces.iter();
        How {
            json: false,
            width: None,
            ascii: false,
            filter: Filter::default(),
            clock_offset_ns: manifest.clock_offset_ns,
            zone: TimeZone::UTC,
            zone_name: "UTC".into(),
            names: names.map(|n| (n.inode, n.name.clone())).collect(),
        }
    }

    /// With times of this zone.
    pub fn zoned(self, zone: TimeZone, manifest: &Manifest) -> How {
        How {
            zone_name: zone_name(&zone, manifest.start_unix_ns()),
            zone,
            ..self
        }
    }

    /// Nanoseconds since 1970.
    pub(crate) fn unix_ns(&self, time_ns: u64) -> i64 {
        let time = i64::try_from(time_ns).unwrap_or(i64::MAX);
        time.saturating_add(self.clock_offset_ns)
    }

    /// The time of day with microseconds.
    pub(crate) fn time(&self, time_ns: u64) -> String {
        let unix = i128::from(self.unix_ns(time_ns));
        let Ok(stamp) = jiff::Timestamp::from_nanosecond(unix) else {
            return "-".into();
        };
        let at = self.zone.to_datetime(stamp);
        let us = at.subsec_nanosecond() / 1_000;
        let (h, m, s) = (at.hour(), at.minute(), at.second());
        format!("{h:02}:{m:02}:{s:02}.{us:06}")
    }

    /// The name of a network namespace, or its number; 0 is the whole host.
    pub(crate) fn netns(&self, inode: u32) -> String {
        if inode == 0 {
            return "(host)".into();
        }
        let name = self.names.get(&inode).filter(|n| !n.is_empty());
        name.cloned().unwrap_or_else(|| inode.to_string())
    }
}

/// What a zone is called at a moment, ns since 1970: `CET`, `+0530`.
pub(crate) fn zone_name(zone: &TimeZone, unix_ns: i64) -> String {
    let stamp = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    zone.to_offset_info(stamp).abbreviation().to_string()
}

/// The time zone of this machine; UTC where it has none.
pub fn local_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

/// Prints lines.
pub struct Screen<'a> {
    out: &'a mut dyn Write,
    pub(crate) how: &'a How,
    /// Lines since the header; `None` before the first.
    since_header: Option<usize>,
    /// Reports that were completed: what COUNT counts.
    reports: u64,
    /// After so many, nothing more is printed.
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

    /// Prints at most so many reports.
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
        match self.how.json {
            true => Ok(()),
            false => self.put(&escape(text)),
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
        match head.left {
            true => line.extend(cell.chars().chain(pad)),
            false => line.extend(pad.chain(cell.chars())),
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

    #[test]
    fn times_of_any_recording_can_be_shown() {
        let mut how = How::of(&Manifest::default());
        assert_eq!(how.time(1_234_567_000), "00:00:01.234567");
        how.clock_offset_ns = i64::MAX;
        for extreme in [0, u64::MAX] {
            assert!(!how.time(extreme).is_empty());
        }
    }
}
