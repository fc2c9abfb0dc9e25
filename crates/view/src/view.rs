//! What every view is: it takes rows in order of time and prints lines.

use std::io;

use explain::NoteKind;
use recording::{HealthKind, Row, Rows, SourceName, tables};
use serde::Serialize;

use crate::screen::Screen;

/// One question asked of a recording, live or finished.
pub trait View {
    /// The tables that it reads.
    fn tables(&self) -> Vec<&'static str>;

    /// The next row. They come in order of time, of all tables together.
    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()>;

    /// Time has come to `time_ns`: no earlier row will follow.
    fn passed(&mut self, _time_ns: u64, _screen: &mut Screen) -> io::Result<()> {
        Ok(())
    }

    /// No row will follow.
    fn end(&mut self, _screen: &mut Screen) -> io::Result<()> {
        Ok(())
    }
}

/// What the recorder lost and could not do.
#[derive(Debug, Default, Serialize)]
pub struct HealthNotes {
    r#type: HealthType,
    /// Records lost, all sources together.
    pub lost: u64,
    /// Each note: source, what, count, detail.
    pub notes: Vec<HealthNote>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
enum HealthType {
    #[default]
    Health,
}

/// One note of the recorder.
#[derive(Debug, Serialize)]
pub struct HealthNote {
    source: SourceName,
    what: HealthKind,
    count: u64,
    detail: String,
}

/// Notes kept apart; a recorder in trouble repeats itself.
const MAX_NOTES: usize = 100;

impl HealthNotes {
    pub(crate) fn add(&mut self, row: &tables::Health) {
        if NoteKind::of(&row.what) == NoteKind::Lost {
            self.lost = self.lost.saturating_add(row.count);
        }
        let same = |n: &&mut HealthNote| {
            n.source == row.source && n.what == row.what && n.detail == *row.detail
        };
        if let Some(known) = self.notes.iter_mut().find(same) {
            known.count = known.count.saturating_add(row.count);
        } else if self.notes.len() < MAX_NOTES {
            self.notes.push(HealthNote {
                source: row.source.clone(),
                what: row.what.clone(),
                count: row.count,
                detail: row.detail.to_string(),
            });
        }
    }

    /// In one line; `None` when all is well.
    pub fn says(&self) -> Option<String> {
        // What began a little late cost nothing that anyone would miss; JSON has it.
        self.line(|n| n.what != HealthKind::Late)
    }

    /// What is missing, in one line.
    pub fn holes(&self) -> Option<String> {
        self.line(|n| NoteKind::of(&n.what).is_hole())
    }

    /// What is sampled less often than asked for, in one line.
    pub fn slowed(&self) -> Option<String> {
        self.line(|n| n.what == HealthKind::Slowed)
    }

    fn line(&self, of: impl Fn(&HealthNote) -> bool) -> Option<String> {
        let notes = self.notes.iter().filter(|n| of(n));
        let notes = notes.map(|n| match NoteKind::of(&n.what) {
            NoteKind::Lost => format!("{} lost {} records: {}", n.source, n.count, n.detail),
            _ => format!("{} {}: {}", n.source, n.what, n.detail),
        });
        let all = notes.collect::<Vec<_>>().join("; ");
        (!all.is_empty()).then(|| crate::escape(&all).into_owned())
    }

    /// As the last line of JSON output.
    pub fn print(&self, screen: &mut Screen) -> io::Result<()> {
        screen.last(self)
    }
}

/// Hands rows to a view, and keeps the recorder's notes apart.
pub struct Reader<'v> {
    view: &'v mut dyn View,
    /// What the recorder said of itself.
    pub health: HealthNotes,
}

impl<'v> Reader<'v> {
    /// For this view.
    pub fn new(view: &'v mut dyn View) -> Reader<'v> {
        Reader {
            view,
            health: HealthNotes::default(),
        }
    }

    /// The tables that must be read.
    pub fn tables(&self) -> Vec<&'static str> {
        let mut tables = self.view.tables();
        tables.push("health");
        tables
    }

    /// Shows the rows up to a time, or until the screen is full.
    pub fn show(
        &mut self,
        rows: &mut Rows,
        until_ns: u64,
        screen: &mut Screen,
    ) -> Result<(), Error> {
        while !screen.is_full()
            && let Some(row) = rows.next(until_ns)?
        {
            if let Row::Health(row) = &row {
                self.health.add(row);
                continue;
            }
            // Rows that come ahead of their time do not move it.
            if !row.comes_ahead() {
                self.view.passed(row.time_ns(), screen)?;
            }
            self.view.take(row, screen)?;
        }
        if until_ns < u64::MAX {
            self.view.passed(until_ns, screen)?;
        }
        Ok(())
    }

    /// Reads on only for what the recorder says of itself.
    pub fn only_health(&mut self, rows: &mut Rows) -> Result<(), recording::Error> {
        while let Some(row) = rows.next(u64::MAX)? {
            if let Row::Health(row) = &row {
                self.health.add(row);
            }
        }
        Ok(())
    }

    /// Shows what is left after the last row.
    pub fn end(&mut self, screen: &mut Screen) -> Result<(), Error> {
        Ok(self.view.end(screen)?)
    }
}

/// Why a view could not be shown.
#[derive(Debug)]
pub enum Error {
    /// The recording could not be read.
    Recording(recording::Error),
    /// The output could not be written.
    Output(io::Error),
}

impl From<recording::Error> for Error {
    fn from(e: recording::Error) -> Error {
        Error::Recording(e)
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::Output(e)
    }
}
