//! Lines in columns that fit a width: what matters least is left out first.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::state::Target;
use crate::columns::Head;
use crate::escape::escape;
use crate::style::Look;
use crate::wrap::wrap;

/// A column of a pane, before it is known whether there is room for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) head: Head,
    /// 0 stays; the highest goes first.
    pub(super) goes: u8,
    /// Goes on below, as the last column, where it has no room.
    pub(super) folds: bool,
}

/// One line of a pane.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) target: Target,
    pub(super) cells: Vec<(Look, String)>,
    /// Shown below it while it is the selected one.
    pub(super) below: Vec<Below>,
}

/// A paragraph below a line.
#[derive(Clone, Debug)]
pub(super) struct Below {
    /// Goes before it.
    pub(super) label: String,
    pub(super) look: Look,
    pub(super) text: String,
}

/// Lines of one cell, and of a paragraph below a line, at most.
const CELL_LINES: usize = 3;
const BELOW_LINES: usize = 2;
/// Paragraphs below a line begin here.
const INDENT: usize = 2;

impl Entry {
    /// Whether anything in it warns.
    pub(super) fn warns(&self) -> bool {
        let warns = |look| matches!(look, Look::Warning | Look::Title);
        self.cells.iter().any(|cell| warns(cell.0))
    }

    /// Whether its words have these letters.
    pub(super) fn has(&self, letters: &str) -> bool {
        let letters = letters.to_lowercase();
        let text: Vec<String> = self.cells.iter().map(|c| c.1.to_lowercase()).collect();
        text.join(" ").contains(&letters)
    }
}

/// Which columns fit, and the width of each.
pub(super) fn fit(columns: &[Placed], width: usize) -> Vec<(usize, usize)> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let needs = |shown: &[usize]| -> usize {
        let widths = shown.iter().map(|i| columns[*i].head.width);
        widths.sum::<usize>() + shown.len().saturating_sub(1)
    };
    while needs(&shown) > width
        && let Some(at) = (0..shown.len()).max_by_key(|at| (columns[shown[*at]].goes, *at))
        && columns[shown[at]].goes > 0
    {
        shown.remove(at);
    }
    let spare = width.saturating_sub(needs(&shown));
    let last = shown.len().saturating_sub(1);
    let wide = shown.iter().enumerate().map(|(at, i)| {
        let more = if at == last && columns[*i].head.left {
            spare
        } else {
            0
        };
        (*i, columns[*i].head.width + more)
    });
    wide.collect()
}

/// The header of the columns that fit.
pub(super) fn header(columns: &[Placed], width: usize) -> String {
    let shown = fit(columns, width).into_iter();
    let cells = shown.map(|(i, width)| pad(columns[i].head.name, width, columns[i].head.left));
    cells.collect::<Vec<_>>().join(" ")
}

/// The cells of a line that fit, each as wide as its column and a blank between.
pub(super) fn line(columns: &[Placed], entry: &Entry, width: usize) -> Vec<(Look, String)> {
    let mut cells = Vec::new();
    for (i, width) in fit(columns, width) {
        let Some((look, text)) = entry.cells.get(i) else {
            continue;
        };
        if !cells.is_empty() {
            cells.push((Look::Plain, " ".to_string()));
        }
        cells.push((*look, pad(&escape(text), width, columns[i].head.left)));
    }
    cells
}

/// The lines that it takes: its cells, the last of which goes on below where it has no room, and what is below them
/// when it is `open`.
pub(super) fn lines(
    columns: &[Placed],
    entry: &Entry,
    width: usize,
    open: bool,
) -> Vec<Vec<(Look, String)>> {
    let mut lines = vec![line(columns, entry, width)];
    if let Some((i, wide)) = fit(columns, width).pop()
        && let Some((look, text)) = entry.cells.get(i)
        && columns[i].folds
        && escape(text).width() > wide
    {
        let mut folded = folded("", *look, text, wide, CELL_LINES).into_iter();
        if let (Some(cell), Some((look, text))) = (lines[0].last_mut(), folded.next()) {
            *cell = (look, pad(&text, wide, true));
        }
        let indent = " ".repeat(width.saturating_sub(wide));
        lines.extend(folded.map(|(look, text)| vec![(look, indent.clone() + &text)]));
    }
    for below in entry.below.iter().filter(|_| open) {
        let label = " ".repeat(INDENT) + &below.label;
        let folded = folded(&label, below.look, &below.text, width, BELOW_LINES);
        lines.extend(folded.into_iter().map(|line| vec![line]));
    }
    lines
}

/// A paragraph in at most this many lines.
fn folded(label: &str, look: Look, text: &str, width: usize, most: usize) -> Vec<(Look, String)> {
    let indent = label.width();
    let columns = width.saturating_sub(indent).max(1);
    let mut lines = wrap(&escape(text), columns, columns);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), columns);
        }
    }
    let labels = std::iter::once(label.to_string()).chain(std::iter::repeat(" ".repeat(indent)));
    let lines = labels.zip(lines);
    lines.map(|(label, text)| (look, label + &text)).collect()
}

/// The text, exactly this wide; what does not fit ends in `…`.
pub(super) fn pad(text: &str, width: usize, left: bool) -> String {
    let mut text = cut(text, width);
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    if left {
        text.push_str(&blanks);
        text
    } else {
        blanks + &text
    }
}

/// As much of the text as fits; `…` says that there is more.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// A curve of eighths of a line, the last values at its right end; a zero is a blank.
pub(super) fn curve(values: &[f64], width: usize) -> String {
    const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let eighth = |v: &f64| {
        if *v > 0.0 && most > 0.0 {
            EIGHTHS[((v / most * 8.0).ceil() as usize).clamp(1, 8) - 1]
        } else {
            ' '
        }
    };
    let curve: String = shown.iter().map(eighth).collect();
    pad(&curve, width.min(curve.width().max(width)), false)
}

/// How full something is.
pub(super) fn gauge(share: f64, width: usize) -> String {
    let full = (share * width as f64).round();
    let mut full = full.clamp(0.0, width as f64) as usize;
    // Something must look like more than nothing.
    if share > 0.0 {
        full = full.max(1);
    }
    "█".repeat(full) + &"░".repeat(width - full)
}

/// Shares of 1 as letters; each that is not zero has at least one, as far as there is room.
pub(super) fn letters(shares: &[(f64, char)], width: usize) -> String {
    let mut bar = String::new();
    let mut until = 0.0;
    for (share, letter) in shares {
        until += share;
        let to = (until * width as f64).round() as usize;
        let have = bar.chars().count();
        let least = usize::from(*share >= 0.01);
        let n = to.saturating_sub(have).max(least);
        bar.extend(std::iter::repeat_n(letter, n.min(width - have)));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Unit, left, right};
    use proptest::prelude::*;

    #[test]
    fn what_matters_least_goes_first() {
        let number = |goes| Placed {
            head: right("N", 4, &[], Unit::Count),
            goes,
            folds: false,
        };
        let words = Placed {
            head: left("W", 4, &[], Unit::Words),
            goes: 0,
            folds: true,
        };
        let columns = [number(0), number(2), number(1), words];
        let shown = |width| -> Vec<_> { fit(&columns, width).iter().map(|c| c.0).collect() };
        assert_eq!(shown(40), [0, 1, 2, 3]);
        assert_eq!(shown(18), [0, 2, 3]);
        assert_eq!(shown(10), [0, 3]);
        assert_eq!(shown(0), [0, 3]);
        assert_eq!(fit(&columns, 40)[3].1, 25, "the last takes what is left");
    }

    #[test]
    fn curves_and_gauges() {
        assert_eq!(curve(&[0.0, 1.0, 4.0, 8.0], 6), "   ▁▄█");
        assert_eq!(curve(&[9.0, 0.0, 0.0], 2), "  ");
        assert_eq!(curve(&[f64::NAN, f64::INFINITY], 2).width(), 2);
        assert_eq!(gauge(0.5, 4), "██░░");
        assert_eq!(gauge(0.001, 4), "█░░░");
        assert_eq!(gauge(7.0, 4), "████");
        assert_eq!(gauge(f64::NAN, 4), "░░░░");
    }

    #[test]
    fn a_bar_of_letters_shows_every_part() {
        let bar = |u, l, s| letters(&[(u, 'U'), (l, 'L'), (s, '·')], 20);
        assert_eq!(bar(0.5, 0.0, 0.5), "UUUUUUUUUU··········");
        let small = bar(0.02, 0.02, 0.96);
        assert!(small.starts_with("UL·"), "{small}");
        for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            assert!(bar(odd, odd, odd).chars().count() <= 20);
        }
    }

    proptest! {
        #[test]
        fn a_cell_is_as_wide_as_its_column(text in "\\PC{0,40}", width in 0usize..30, left: bool) {
            prop_assert_eq!(pad(&text, width, left).width(), width);
        }
    }
}
