//! How text looks here: its colour, width and letters, by the flag, the terminal and the environment.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;
use rustix::termios::tcgetwinsize;
use view::Style;

/// Columns where nobody says how many there are.
const COLUMNS: usize = 80;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Also in a pipe.
    Always,
    /// Nowhere.
    Never,
}

/// What the command line says of looks.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LooksArgs {
    /// When to use colour: auto, always, never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Output"
    )]
    color: Colour,
    /// Print and read times in UTC, not in the local time zone
    #[arg(long, global = true, help_heading = "Output")]
    utc: bool,
}

static WISH: OnceLock<LooksArgs> = OnceLock::new();

/// Keeps what the command line says; the first time counts.
pub fn wish(looks: LooksArgs) {
    let _ = WISH.set(looks);
}

fn wished() -> LooksArgs {
    WISH.get().copied().unwrap_or_default()
}

/// The zone of times in text.
pub fn zone() -> TimeZone {
    if wished().utc {
        TimeZone::UTC
    } else {
        view::local_zone()
    }
}

/// Whether to paint.
pub fn colour() -> bool {
    let set = |name| env::var_os(name).is_some_and(|v| !v.is_empty());
    match wished().color {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if set("NO_COLOR") => false,
        Colour::Auto if env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0") => true,
        Colour::Auto => on_terminal(),
    }
}

/// Whether a reader sits before standard output, at a terminal that can do more than print.
pub fn on_terminal() -> bool {
    io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of the terminal; `None` in a pipe.
pub fn terminal_columns() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let columns = usize::from(size.ws_col);
    (io::stdout().is_terminal() && columns > 0).then_some(columns)
}

/// Letters beyond ASCII, unless the locale has none.
pub fn ascii() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        let value = env::var(name).ok()?;
        (!value.is_empty()).then_some(value)
    });
    locale.is_some_and(|locale| locale == "C" || locale == "POSIX")
}

/// For paragraphs.
pub fn style(rows: bool) -> Style {
    let asked = env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    Style {
        colour: colour(),
        width: terminal_columns().or(asked).unwrap_or(COLUMNS),
        ascii: ascii(),
        zone: zone(),
        rows,
    }
}
