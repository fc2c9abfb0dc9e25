//! JSON lines: for an explanation, one object per finding, then the summary.
//!
//! What a terminal would obey, or what would reorder the text around it, is written as `\u202e`: the same text when
//! parsed, and harmless when displayed.

use std::io::{self, Write};

use explain::Explanation;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use crate::escape::{acts, escape};

/// Writes one object per line: each finding (`"type":"finding"`), the worst first, what is no more than a
/// note (`"type":"note"`), the account of each service (`"type":"account"`), trouble that nothing
/// claims (`"type":"unexplained"`), and last the summary
/// (`"type":"summary"`).
pub fn explanation(explanation: &Explanation, out: &mut impl Write) -> io::Result<()> {
    lines(&explanation.findings, out)?;
    lines(&explanation.notes, out)?;
    lines(&explanation.account, out)?;
    lines(&explanation.unexplained, out)?;
    lines([&explanation.summary], out)
}

/// One object per line.
pub fn lines<T: Serialize>(
    rows: impl IntoIterator<Item = T>,
    out: &mut impl Write,
) -> io::Result<()> {
    for row in rows {
        row.serialize(&mut Serializer::with_formatter(&mut *out, Harmless))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// An object whose texts are to be shown: they are as [`escape`] shows them.
pub(crate) fn shown<T: Serialize>(object: &T, out: &mut impl Write) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(out, Shown);
    Ok(object.serialize(&mut serializer)?)
}

/// Writes what acts as JSON writes control characters.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(acts) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let mut chars = from.chars();
            let acting = chars.next().into_iter();
            for unit in acting.flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec()) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

/// Writes what acts in letters, but for ends of lines and tabs, which a page shows as spaces.
struct Shown;

impl Formatter for Shown {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let text = escape(text);
        // What is left needs no escape but for the backslashes that it has now.
        out.write_all(text.replace('\\', "\\\\").as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        escaped: CharEscape,
    ) -> io::Result<()> {
        match escaped {
            CharEscape::AsciiControl(byte) => write!(out, "\\\\x{byte:02x}"),
            CharEscape::Backspace => out.write_all(b"\\\\x08"),
            CharEscape::FormFeed => out.write_all(b"\\\\x0c"),
            plain => CompactFormatter.write_char_escape(out, plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(text: &str) -> String {
        let mut out = Vec::new();
        lines([text], &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn on_a_page(text: &str) -> String {
        let mut out = Vec::new();
        shown(&text, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn what_acts_is_written_as_its_number() {
        assert_eq!(printed("evil\u{202e}gpj"), "\"evil\\u202egpj\"\n");
        assert_eq!(printed("\u{9b}31m\x7f"), "\"\\u009b31m\\u007f\"\n");
        assert_eq!(printed("\u{e0041}"), "\"\\udb40\\udc41\"\n");
        assert_eq!(printed("\x1b数"), "\"\\u001b数\"\n");
    }

    #[test]
    fn a_page_shows_it_in_letters() {
        assert_eq!(
            on_a_page("evil\u{202e}gpj\x1b[2J"),
            "evil\\u{202e}gpj\\x1b[2J"
        );
        assert_eq!(
            on_a_page("C:\\x \"quoted\"\n\ttab"),
            "C:\\x \"quoted\"\n\ttab"
        );
        assert_eq!(on_a_page("\x08\x0c"), "\\x08\\x0c");
    }

    proptest! {
        #[test]
        fn the_meaning_is_the_same(text in any::<String>()) {
            let printed = printed(&text);
            prop_assert!(!printed.trim_end().chars().any(acts));
            prop_assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), text);
        }

        #[test]
        fn nothing_acts_on_a_page(text in any::<String>()) {
            let shown = on_a_page(&text);
            prop_assert!(!shown.chars().any(|c| acts(c) && !matches!(c, '\n' | '\r' | '\t')));
            let plain = text.replace(['\n', '\r', '\t'], "");
            if !plain.chars().any(acts) {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
