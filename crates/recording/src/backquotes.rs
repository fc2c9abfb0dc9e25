//! Backquotes in texts of a recording, out of which sentences are made: there they enclose commands, and no name may make one.

use std::borrow::Cow;

/// What is told instead: no shell knows it.
const INSTEAD: &str = "ˋ";

/// The text without backquotes.
pub fn without_backquotes(text: &str) -> Cow<'_, str> {
    if text.contains('`') {
        Cow::Owned(text.replace('`', INSTEAD))
    } else {
        Cow::Borrowed(text)
    }
}
