//! Lines on standard error, without anything that a terminal would obey.

use std::io::{self, Write};
use std::sync::OnceLock;

use clap::Args;

/// What the command line says of how much is told beside the answer.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct TalkArgs {
    /// Also report on standard error which sources could be recorded, and how long each step took
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "quiet",
        help_heading = "Looks"
    )]
    verbose: bool,
    /// Print only errors on standard error, and no progress
    #[arg(short, long, global = true, help_heading = "Looks")]
    quiet: bool,
}

static TALK: OnceLock<TalkArgs> = OnceLock::new();

/// Keeps what the command line says; the first time counts.
pub fn talk(args: TalkArgs) {
    let _ = TALK.set(args);
}

fn asked() -> TalkArgs {
    TALK.get().copied().unwrap_or_default()
}

/// Whether only errors are to be said.
pub fn is_quiet() -> bool {
    asked().quiet
}

/// Whether details are asked for.
pub fn is_verbose() -> bool {
    asked().verbose
}

/// Prints a line on standard error, unless only errors are to be said.
pub fn say(line: &str) {
    if !is_quiet() {
        error(line);
    }
}

/// The same, where details are asked for.
pub fn detail(line: &str) {
    if is_verbose() {
        error(line);
    }
}

/// Prints a line on standard error, whatever was asked for. What is in it may come from a host or a recording. Where
/// nobody can read it, nothing is said: a terminal that has gone must not end orderly work.
pub fn error(line: &str) {
    let _ = writeln!(io::stderr(), "{}", view::escape(line));
}
