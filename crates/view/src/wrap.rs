//! Folds text to a number of columns, counting what a terminal shows, not bytes.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Units stay on the line of their number.
const UNITS: &[&str] = &[
    "%", "µs", "ms", "s", "bytes", "kB", "MB", "GB", "kbit/s", "Mbit/s", "Gbit/s",
];

/// Code in backticks longer than this may be broken after all.
const LONGEST_CODE: usize = 60;

/// The lines of a text, the first at most `first` columns wide, the others `rest`.
pub fn wrap(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words(text) {
        let columns = if lines.is_empty() { first } else { rest };
        if !line.is_empty() && line.width() + 1 + word.width() > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
        // A word longer than a line (an argument of 500 letters) is cut.
        loop {
            let columns = if lines.is_empty() { first } else { rest };
            if line.width() <= columns {
                break;
            }
            let cut = cut_at(&line, columns.max(2));
            // Between words if there is a place, and not with a blank at the end.
            let space = line[..cut].rfind(' ').filter(|at| *at > 0);
            let tail = line.split_off(space.unwrap_or(cut));
            lines.push(std::mem::replace(&mut line, tail.trim_start().to_string()));
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// What must stay on one line: words, numbers with their unit, and short code in backticks.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        match words.last_mut() {
            Some(last) if belongs(word, last) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_string()),
        }
    }
    words
}

/// Whether the word goes with what is before it.
fn belongs(word: &str, before: &str) -> bool {
    let bare = word.trim_end_matches(['.', ',', ';', ':', ')']);
    let after_number = before.ends_with(|c: char| c.is_ascii_digit());
    let in_code = before.matches('`').count() % 2 == 1 && before.width() < LONGEST_CODE;
    in_code || (after_number && UNITS.contains(&bare))
}

/// The byte where the text reaches `columns`; after the first character at least.
fn cut_at(text: &str, columns: usize) -> usize {
    let mut width = 0;
    for (at, c) in text.char_indices() {
        width += c.width().unwrap_or(0);
        if width > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_stay_with_their_number() {
        assert_eq!(
            wrap("took 1,004 ms each", 10, 10),
            ["took", "1,004 ms", "each"]
        );
        assert_eq!(wrap("", 10, 10), [""]);
        assert_eq!(wrap("数据库 数据库", 7, 7), ["数据库", "数据库"]);
        assert_eq!(
            wrap("see `ss -tien` there", 9, 9),
            ["see", "`ss", "-tien`", "there"]
        );
        assert_eq!(
            wrap("see `ss -tien` there", 11, 11),
            ["see", "`ss -tien`", "there"]
        );
    }

    proptest! {
        #[test]
        fn no_line_is_wider_and_no_letter_is_lost(
            text in "[a-z数%0-9 `]{0,300}",
            first in 2usize..50,
            rest in 2usize..50,
        ) {
            let lines = wrap(&text, first, rest);
            for (i, line) in lines.iter().enumerate() {
                let columns = if i == 0 { first } else { rest };
                prop_assert!(line.width() <= columns, "{line:?} over {columns}");
            }
            let letters = |s: &str| s.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
