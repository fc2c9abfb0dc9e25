//! What the keys do, and what the panes say.

use super::panes::LETTERS;
use crate::page::Page;
use crate::style::{Look, Style};

const KEYS: &[(&str, &str)] = &[
    ("Tab, 1-6", "another pane; Shift-Tab the one before"),
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
        "sort sockets by round trip, retransmissions, rate, queues",
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
    ("?", "this"),
    ("q, Ctrl-C", "end"),
];

const PANES: &[(&str, &str)] = &[
    (
        "Findings",
        "what explain says of the last seconds, or of the whole recording. Enter: the whole case, with its evidence, what was ruled out, and what to do.",
    ),
    (
        "Connections",
        "what happened per second: in the last second and over the window. Retransmissions, resets and drops with their kinds and reasons.",
    ),
    (
        "Listeners",
        "the queue that accept() takes from, against its backlog; half-open connections; packets dropped there within the window.",
    ),
    (
        "Sockets",
        "connections that did something in the last seconds. AGAIN: segments retransmitted since the sample before; EVER: since the connection began.",
    ),
    (
        "Threads",
        "what each did with its time in the window; those first that did, or were kept from doing, the most.",
    ),
    (
        "Functions",
        "where in the kernel the CPUs were: in the function itself, and with all that it called.",
    ),
];

/// The text.
pub(super) fn lines(width: usize) -> Vec<(Look, String)> {
    let style = Style {
        width,
        colour: false,
        rows: false,
    };
    let mut page = Page::new(&style);
    page.paragraph("", Look::Heading, "KEYS");
    for (key, does) in KEYS {
        page.item(key, Look::Plain, does);
    }
    page.heading("PANES");
    for (name, says) in PANES {
        page.item(name, Look::Plain, says);
    }
    page.heading("PARTS OF A THREAD'S TIME");
    let says = [
        "on a CPU in user mode",
        "on a CPU in the kernel",
        "waiting for a CPU",
        "asleep in a system call",
        "waiting for a lock (futex)",
        "uninterruptible, mostly disk",
        "in a page fault",
        "stopped or traced",
    ];
    for ((letter, name), says) in LETTERS.iter().zip(says) {
        page.item(&format!("{name}  {letter}"), Look::Plain, says);
    }
    page.lines()
}
