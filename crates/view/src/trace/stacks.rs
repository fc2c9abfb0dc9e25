//! Kernel stacks as lines: one function with its offset per frame.

use std::io;

use recording::Row;

use crate::screen::Screen;

/// The tables that it reads.
pub(super) const TABLES: &[&str] = &["stack", "frame"];

/// The stacks seen so far.
#[derive(Default)]
pub(super) struct Stacks(recording::Stacks);

impl Stacks {
    /// Keeps a row of its tables.
    pub(super) fn take(&mut self, row: &Row) {
        match row {
            Row::Frame(f) => self.0.frame(f),
            Row::Stack(s) => self.0.stack(s),
            _ => {}
        }
    }

    /// The timer that a stack ran for, in words.
    pub(super) fn timer(&self, stack: u64) -> Option<String> {
        let places = self.0.places(stack)?;
        analysis::timer(places.iter().flatten().map(|place| &*place.function))
    }

    /// The functions of a stack, the innermost first.
    pub(super) fn functions(&self, stack: u64) -> Option<Vec<String>> {
        let places = self.0.places(stack)?.into_iter();
        let lines = places.map(|place| match place {
            Some(place) => format!("{}+{:#x}", place.function, place.offset),
            None => "?".into(),
        });
        Some(lines.collect())
    }
}

/// A line for each function, below the line that they belong to.
pub(super) fn show(functions: Option<&[String]>, screen: &mut Screen) -> io::Result<()> {
    for function in functions.unwrap_or_default() {
        screen.more(&format!("              {function}"))?;
    }
    Ok(())
}
