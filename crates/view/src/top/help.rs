//! What the keys do, and what the panes say.

use super::panes;
use super::state::Pane;
use crate::page::Page;
use crate::style::{Look, Style};

const KEYS: &[(&str, &str)] = &[
    ("Tab, 1-7", "next pane; Shift-Tab goes back"),
    (
        "↑ ↓, j k",
        "next or previous line; PgUp PgDn by pages, g G first and last",
    ),
    ("Enter", "details of the line; Esc or Backspace goes back"),
    ("/", "show only lines with this text; Esc shows all again"),
    (
        "s",
        "sort sockets by trouble, round trip, retransmissions, rate, queues",
    ),
    (
        "p, space",
        "pause or resume the display; recording continues",
    ),
    (
        "← →",
        "back and forth in time; with Shift, or [ ], ten times as far",
    ),
    ("Home, End", "jump to the oldest data, or to live"),
    (
        "y",
        "copy the command of the finding to the terminal's clipboard (OSC 52, if the terminal supports it)",
    ),
    (
        "w",
        "write the last minute as a recording, for explain, report and top; the last line shows its name",
    ),
    ("r", "write a report of it, one HTML file"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// What each pane shows, in the order of [`Pane::ALL`].
const PANES: [&str; Pane::ALL.len()] = [
    "what explain finds in the last seconds, or in the whole recording; below the selected finding, what to do. Enter: the whole case, with its evidence, what was ruled out, and what to do.",
    "what happened per second; what did not happen comes last. The title shows how long connects took, pending ones included with their time so far. Retransmissions, resets and drops have their kinds and reasons.",
    "requests and their answers by listener (server) and destination (client): how long they took, and where the time went: application, TCP, network or peer; most time first. Enter: the parts, and the slowest with their threads.",
    "the accept queue against its backlog; requests in SYN_RECV; packets dropped there.",
    "connections that were active in the last seconds; those that retransmit come first, then those whose queues wait longest.",
    "what each thread did with its time, in shares of the window; those that are stopped or wait for a CPU come first, then those that did most, then tcpwhy's own. A missing segment is unaccounted time.",
    "the kernel functions in which CPUs spent time: in the function itself, and including what it called.",
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
    let says = "Empty panes are hidden unless selected; when space is short, panes with warnings come first.";
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
