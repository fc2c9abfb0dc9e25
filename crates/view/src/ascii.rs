//! The letters beyond ASCII that tcpwhy itself uses, for terminals that have none.

use std::borrow::Cow;

const LETTERS: &[(char, &str)] = &[
    ('µ', "u"),
    ('…', "..."),
    ('÷', "/"),
    ('×', "x"),
    ('·', "-"),
    ('→', "->"),
    ('←', "<-"),
    ('↔', "<->"),
    ('±', "+/-"),
    ('≥', ">="),
    ('≤', "<="),
    ('−', "-"),
    ('√', "sqrt "),
    ('λ', "lambda"),
];

/// The text as such a terminal shows it; names of the host stay as they are.
pub(crate) fn plain(text: &str, ascii: bool) -> Cow<'_, str> {
    if !ascii || text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match LETTERS.iter().find(|(letter, _)| *letter == c) {
            Some((_, ascii)) => out.push_str(ascii),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn only_where_it_is_asked_for() {
        assert_eq!(plain("a → b: 3 µs ± 1 …", false), "a → b: 3 µs ± 1 …");
        assert_eq!(plain("a → b: 3 µs ± 1 …", true), "a -> b: 3 us +/- 1 ...");
        assert_eq!(plain("数 µs", true), "数 us");
    }
}
