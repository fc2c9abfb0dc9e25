//! Lines on standard error, without anything that a terminal would obey.

use std::io::{self, Write};

/// Prints a line on standard error. What is in it may come from a host or a recording. Where nobody
/// can read it, nothing is said: a terminal that has gone must not end orderly work.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", view::escape(line));
}
