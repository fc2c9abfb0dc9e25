//! A page being written: paragraphs with hanging indents, escaped, folded and painted.

use unicode_width::UnicodeWidthStr;

use crate::escape::escape;
use crate::style::{Look, Style};
use crate::wrap::wrap;

/// The text so far.
pub(crate) struct Page<'a> {
    style: &'a Style,
    text: String,
    /// The look of each line.
    looks: Vec<Look>,
}

impl<'a> Page<'a> {
    pub(crate) fn new(style: &'a Style) -> Page<'a> {
        Page {
            style,
            text: String::new(),
            looks: Vec::new(),
        }
    }

    pub(crate) fn style(&self) -> &Style {
        self.style
    }

    pub(crate) fn end(self) -> String {
        self.text
    }

    /// The text line by line, for those who paint it themselves: print it without colour.
    pub(crate) fn lines(self) -> Vec<(Look, String)> {
        let lines = self.text.lines().map(String::from);
        self.looks.into_iter().zip(lines).collect()
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
        self.looks.push(Look::Plain);
    }

    /// A paragraph; `label` stands before its first line, the others are indented as deep.
    pub(crate) fn paragraph(&mut self, label: &str, look: Look, text: &str) {
        let indent = label.width();
        let columns = self.style.columns().saturating_sub(indent);
        let lines = wrap(&escape(text), columns, columns);
        for (i, line) in lines.iter().enumerate() {
            match i {
                0 => self.text.push_str(label),
                _ => self.text.push_str(&" ".repeat(indent)),
            }
            self.text.push_str(&self.style.paint(look, line));
            self.text.push('\n');
            self.looks.push(look);
        }
    }

    /// A heading on its own line, after an empty one.
    pub(crate) fn heading(&mut self, text: &str) {
        self.blank();
        self.paragraph("", Look::Heading, text);
    }

    /// A short label in a column of its own, then a paragraph.
    pub(crate) fn item(&mut self, label: &str, look: Look, text: &str) {
        self.paragraph(&format!("  {label:<11} "), look, text);
    }
}
