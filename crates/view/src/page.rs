//! A page being written: paragraphs with hanging indents, escaped and folded; painted at its end.

use unicode_width::UnicodeWidthStr;

use crate::ascii::plain;
use crate::escape::escape;
use crate::style::{Look, Style};
use crate::wrap::wrap;

/// One line: what goes before the text, and the text.
struct Row {
    label: String,
    look: Look,
    text: String,
}

/// The lines so far.
pub(crate) struct Page<'a> {
    style: &'a Style,
    rows: Vec<Row>,
}

impl<'a> Page<'a> {
    pub(crate) fn new(style: &'a Style) -> Page<'a> {
        Page {
            style,
            rows: Vec::new(),
        }
    }

    pub(crate) fn style(&self) -> &'a Style {
        self.style
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The text, painted; each line ends with a newline.
    pub(crate) fn end(self) -> String {
        let mut text = String::new();
        for row in self.rows {
            text.push_str(&row.label);
            text.push_str(&self.style.paint(row.look, &row.text));
            text.push('\n');
        }
        text
    }

    /// The text line by line, for callers that paint it themselves.
    pub(crate) fn lines(self) -> Vec<(Look, String)> {
        let rows = self.rows.into_iter();
        rows.map(|row| (row.look, row.label + &row.text)).collect()
    }

    /// Appends what another page holds.
    pub(crate) fn append(&mut self, other: Page) {
        self.rows.extend(other.rows);
    }

    pub(crate) fn blank(&mut self) {
        self.rows.push(Row {
            label: String::new(),
            look: Look::Plain,
            text: String::new(),
        });
    }

    /// A paragraph; `label` goes before its first line, the others are indented as far.
    pub(crate) fn paragraph(&mut self, label: &str, look: Look, text: &str) {
        self.paragraph_within(label, look, text, usize::MAX);
    }

    /// The same in at most this many lines; the last ends with … where there was more to say.
    pub(crate) fn paragraph_within(&mut self, label: &str, look: Look, text: &str, most: usize) {
        let (label, text) = (plain(label, self.style.ascii), escape(text));
        let text = plain(&text, self.style.ascii);
        let indent = label.width();
        let columns = self.style.columns().saturating_sub(indent);
        let mut lines = wrap(&text, columns, columns);
        if lines.len() > most {
            lines.truncate(most);
            if let Some(last) = lines.last_mut() {
                cut(last, columns, &plain(" …", self.style.ascii));
            }
        }
        for (i, text) in lines.into_iter().enumerate() {
            let label = match i {
                0 => label.to_string(),
                _ => " ".repeat(indent),
            };
            self.rows.push(Row { label, look, text });
        }
    }

    /// A heading on its own line, after an empty one.
    pub(crate) fn heading(&mut self, text: &str) {
        self.blank();
        self.paragraph("", Look::Heading, text);
    }

    /// A short label in a column of its own, then a paragraph.
    pub(crate) fn item(&mut self, label: &str, look: Look, text: &str) {
        self.item_within(label, look, text, usize::MAX);
    }

    /// The same in at most this many lines.
    pub(crate) fn item_within(&mut self, label: &str, look: Look, text: &str, most: usize) {
        self.paragraph_within(&format!("  {label:<11} "), look, text, most);
    }
}

/// Ends a line that would go on with `mark`: between words where it can, so that no number is cut in two.
fn cut(line: &mut String, columns: usize, mark: &str) {
    while line.width() + mark.width() > columns && !line.is_empty() {
        match line.rfind(' ') {
            Some(at) => line.truncate(at),
            None => drop(line.pop()),
        }
    }
    let kept = line.trim_end_matches([',', ';', ':', ' ', '(']).len();
    line.truncate(kept);
    line.push_str(mark);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(text: &str, width: usize, most: usize) -> String {
        let style = Style {
            width,
            ..Style::default()
        };
        let mut page = Page::new(&style);
        page.paragraph_within("  ", Look::Plain, text, most);
        page.end()
    }

    #[test]
    fn what_does_not_fit_ends_between_words() {
        let text = "one two three four five six seven eight nine ten eleven, twelve thirteen";
        assert_eq!(
            within(text, 40, 1),
            "  one two three four five six seven …\n"
        );
        assert_eq!(within("one two", 40, 1), "  one two\n");
        let long = "x".repeat(200);
        assert!(within(&long, 40, 2).lines().all(|line| line.width() <= 40));
        let list = "a, b, c, d, e, f, g, h, i, j, k, l, m, n, o";
        assert_eq!(
            within(list, 40, 1),
            "  a, b, c, d, e, f, g, h, i, j, k, l …\n"
        );
    }
}
