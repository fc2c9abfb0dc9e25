//! Makes text from a host harmless to a terminal: nothing in a name may move the cursor.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with every character that a terminal would act on, or that hides or reorders others,
/// written as `\x1b` or `\u{202e}`.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if !acts(c) {
            out.push(c);
        } else if c.is_ascii() {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        } else {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal acts on the character instead of showing it, or it changes how others look.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            // Zero-width and bidirectional marks, line and paragraph separators, overrides.
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            // No characters, and not allowed in XML.
            | '\u{fffe}' | '\u{ffff}'
            // Variation selectors and invisible tags.
            | '\u{fe00}'..='\u{fe0f}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(escape("nginx: worker"), "nginx: worker");
        assert_eq!(escape("a\x1b[2Jb\n"), "a\\x1b[2Jb\\x0a");
        assert_eq!(escape("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(escape("evil\u{202e}gpj"), "evil\\u{202e}gpj");
        assert_eq!(escape("数据库"), "数据库");
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left(text in any::<String>()) {
            let shown = escape(&text);
            prop_assert!(!shown.chars().any(acts));
            // Harmless text is left alone, so escaping twice is escaping once.
            prop_assert_eq!(escape(&shown).into_owned(), shown.clone().into_owned());
        }

        #[test]
        fn control_sequences_never_survive(head in ".*", code in 0u32..0xa0, tail in ".*") {
            let Some(control) = char::from_u32(code).filter(|c| c.is_control()) else {
                return Ok(());
            };
            let shown = escape(&format!("{head}{control}{tail}")).into_owned();
            prop_assert!(!shown.contains(control));
        }
    }
}
