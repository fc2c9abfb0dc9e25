//! The panes: what each shows in lines.

mod connections;
mod findings;
mod functions;
mod listeners;
mod sockets;
mod threads;

use analysis::owners::Owner;

use super::findings::Findings;
use super::snapshot::Snapshot;
use super::state::{Pane, State};
use super::table::{Column, Entry};
use crate::style::Look;

pub(super) use threads::{LETTERS, shares};

/// What a pane shows.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Said beside its name.
    pub(super) note: String,
    pub(super) columns: &'static [Column],
    pub(super) entries: Vec<Entry>,
    /// Said instead of lines, when there are none.
    pub(super) nothing: String,
}

/// What a pane shows now.
pub(super) fn content(
    pane: Pane,
    state: &State,
    snapshot: &Snapshot,
    findings: &Findings,
    live: bool,
) -> Content {
    let mut content = match pane {
        Pane::Findings => findings::content(snapshot, findings, live),
        Pane::Connections => connections::content(snapshot),
        Pane::Listeners => listeners::content(snapshot),
        Pane::Sockets => sockets::content(snapshot, state.order),
        Pane::Threads => threads::content(snapshot, live),
        Pane::Functions => functions::content(snapshot, live),
    };
    // Rates are always all there: a reader who looks for a name still wants to know how it goes.
    if !state.filter.is_empty() && pane != Pane::Connections {
        let all = content.entries.len();
        content.entries.retain(|e| e.has(&state.filter));
        if content.entries.is_empty() && all > 0 {
            content.nothing = format!("None of {all} has {:?}; Esc shows them all.", state.filter);
        }
    }
    content
}

/// A rate, as short as its size allows.
pub(super) fn rate(per_s: f64) -> String {
    match per_s {
        r if r >= 100.0 => group(r.round()),
        r if r > 0.0 => format!("{r:.1}"),
        _ => "0".into(),
    }
}

/// A whole number with thousands apart.
pub(super) fn group(v: f64) -> String {
    crate::text::group(v.clamp(0.0, 1e18) as u64)
}

/// Milliseconds with the digits that matter.
pub(super) fn ms(us: f64) -> String {
    let ms = us / 1000.0;
    match ms {
        v if v >= 100.0 => format!("{v:.0} ms"),
        v if v >= 10.0 => format!("{v:.1} ms"),
        v => format!("{v:.2} ms"),
    }
}

pub(super) fn who(owner: &Owner) -> String {
    let comm = owner.comm.as_deref().unwrap_or("");
    match (owner.pid, comm) {
        (Some(pid), comm) => format!("{comm} {pid}").trim().to_string(),
        (None, "") => "-".into(),
        (None, comm) => comm.to_string(),
    }
}

pub(super) fn plain(text: impl Into<String>) -> (Look, String) {
    (Look::Plain, text.into())
}

pub(super) fn warning_if(trouble: bool, text: impl Into<String>) -> (Look, String) {
    match trouble {
        true => (Look::Warning, text.into()),
        false => plain(text),
    }
}

/// How long ago, or for how long.
pub(super) fn age(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{} min", s / 60),
        _ => format!("{} h", s / 3_600),
    }
}
