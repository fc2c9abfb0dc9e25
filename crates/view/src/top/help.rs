//! What the keys do, and what the panes say.

use super::panes;
use super::state::Pane;
use crate::page::Page;
use crate::style::{Look, Style};

const KEYS: &[(&str, &str)] = &[
    ("Tab, 1-7", "another pane; Shift-Tab the one before"),
    (
        "↑ ↓, j k",
        "another line; PgUp PgDn by pages, g G first and last",
    ),
    ("Enter", "all about the line; Esc or Backspace goes back"),
    (
        "/",
        "show only lines with these letters; Esc shows all again",
    ),
    (
        "s",
        "sort sockets by trouble, round trip, retransmissions, rate, queues",
    ),
    (
        "p, space",
        "stop here, and go on; recording goes on meanwhile",
    ),
    (
        "← →",
        "back and forth in time; with Shift, or [ ], ten times as far",
    ),
    (
        "Home, End",
        "as far back as there is, and the end, which is followed",
    ),
    (
        "y",
        "copy the command of the finding to the terminal's clipboard (OSC 52, where the terminal has it)",
    ),
    (
        "w",
        "write the last minute as a recording, for explain, report and top; a line says under which name",
    ),
    ("r", "write a report of it, one HTML file"),
    ("?", "this"),
    ("q, Ctrl-C", "end"),
];

/// What each pane shows, in the order of [`Pane::ALL`].
const PANES: [&str; Pane::ALL.len()] = [
    "what explain says of the last seconds, or of the whole recording; below the selected one what to do. Enter: the whole case, with its evidence, what was ruled out, and what to do.",
    "what happened per second, what did not happen last; in the title how long connects took, those under way with what they have taken so far. Retransmissions, resets and drops with their kinds and reasons.",
    "requests and their answers by listener (server) and destination (client): how long, and whose time it was: the application's, TCP's, the network's, the peer's; where most time went first. Enter: the parts, and the slowest with their threads.",
    "the queue that accept() takes from, against its backlog; requests in SYN_RECV; packets dropped there.",
    "connections that did something in the last seconds; those that retransmit first, then those whose queues wait longest.",
    "what each did with its time, in shares of the window; those first that are stopped or wait for a CPU, then those that did most, tcpwhy's own last. A letter that is missing is time of which nothing was told.",
    "where in the kernel the CPUs were: in the function itself, and with all that it called.",
];

/// The text.
pub(super) fn lines(width: usize) -> Vec<(Look, String)> {
    let style = Style {
        width,
        rows: false,
        ..Style::default()
    };
    let mut page = Page::new(&style);
    page.paragraph("", Look::Heading, "KEYS");
    for (key, does) in KEYS {
        page.item(key, Look::Plain, does);
    }
    page.heading("PANES");
    let says = "What has no lines is not shown, unless its key asks for it; where not all have room, what warns comes first.";
    page.paragraph("  ", Look::Plain, says);
    for ((_, name), says) in Pane::ALL.iter().zip(PANES) {
        page.item(name, Look::Plain, says);
    }
    for (pane, name) in Pane::ALL {
        page.heading(&format!("COLUMNS OF {}", name.to_uppercase()));
        for column in panes::columns(pane) {
            if !column.head.help.is_empty() {
                page.item(column.head.name, Look::Plain, column.head.help.trim());
            }
        }
    }
    page.lines()
}
