//! How text looks: its width, whether it has colour, and what each part is painted with.

use anstyle::{AnsiColor, Style as Paint};
use jiff::tz::TimeZone;

/// How to print; the caller knows the terminal and NO_COLOR.
#[derive(Clone, Debug)]
pub struct Style {
    /// Columns; text is never wider than 100 nor folded below 40.
    pub width: usize,
    /// Colours and bold.
    pub colour: bool,
    /// Time zone of the times of day.
    pub zone: TimeZone,
    /// ASCII only, for terminals that have no other letters.
    pub ascii: bool,
    /// Print the rows that each step of the evidence rests on.
    pub rows: bool,
}

impl Default for Style {
    /// 100 columns, no colour, with rows.
    fn default() -> Style {
        Style {
            width: 100,
            colour: false,
            ascii: false,
            zone: TimeZone::UTC,
            rows: true,
        }
    }
}

/// What a part of the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    /// What is wrong.
    Title,
    /// What to do.
    Fix,
    /// A heading.
    Heading,
    /// A command to type.
    Command,
    /// Detail that may be skipped.
    Faint,
    /// Something that lowers the trust.
    Warning,
}

impl Style {
    pub(crate) fn columns(&self) -> usize {
        self.width.clamp(40, 100)
    }

    /// The text as painted; without colour, the text.
    pub(crate) fn paint(&self, look: Look, text: &str) -> String {
        let paint = match look {
            Look::Plain => Paint::new(),
            Look::Title => Paint::new().bold().fg_color(Some(AnsiColor::Red.into())),
            Look::Fix => Paint::new().bold(),
            Look::Heading => Paint::new().bold().underline(),
            Look::Command => Paint::new().fg_color(Some(AnsiColor::Cyan.into())),
            Look::Faint => Paint::new().dimmed(),
            Look::Warning => Paint::new().fg_color(Some(AnsiColor::Yellow.into())),
        };
        if !self.colour || text.is_empty() || look == Look::Plain {
            return text.to_string();
        }
        format!("{paint}{text}{paint:#}")
    }
}
