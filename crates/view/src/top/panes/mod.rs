//! The panes: what each shows in lines.

mod connections;
mod findings;
mod functions;
mod listeners;
mod requests;
mod sockets;
mod threads;

use analysis::owners::Owner;

use super::about::About;
use super::findings::Findings;
use super::snapshot::Snapshot;
use super::state::{Pane, State, Target};
use super::table::{self, Below, Entry, Placed};
use crate::columns::{Column, Head, Unit, left};
use crate::how::How;
use crate::style::Look;

pub(super) use connections::took;
pub(super) use threads::{OWN, PARTS};

/// The owner of a line: the program and its process.
const OWNER: Head =
    left("OWNER", 14, &[], Unit::Name).saying("The program that owns it, and its process.");

/// What a pane shows.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Said beside its name.
    pub(super) note: String,
    pub(super) columns: Vec<Placed>,
    pub(super) entries: Vec<Entry>,
    /// Said instead of lines, when there are none.
    pub(super) nothing: String,
}

/// A column of a pane: how soon it goes when there is no room, and how its cells look.
struct Shown<L: 'static> {
    column: Column<L>,
    goes: u8,
    look: fn(&L) -> Look,
    folds: bool,
}

/// A column that is always shown.
const fn stays<L>(column: Column<L>) -> Shown<L> {
    goes(0, column)
}

/// A column that goes when there is no room, the sooner the higher the number.
const fn goes<L>(goes: u8, column: Column<L>) -> Shown<L> {
    Shown {
        column,
        goes,
        look: |_| Look::Plain,
        folds: false,
    }
}

impl<L> Shown<L> {
    /// With cells that look so.
    const fn looking(self, look: fn(&L) -> Look) -> Shown<L> {
        Shown { look, ..self }
    }

    /// Going on below where it has no room.
    const fn folding(self) -> Shown<L> {
        Shown {
            folds: true,
            ..self
        }
    }
}

/// A look that warns, or none.
fn warning_if(trouble: bool) -> Look {
    if trouble { Look::Warning } else { Look::Plain }
}

impl Content {
    /// Content of these lines, each with what it is about.
    fn of<L>(
        columns: &[Shown<L>],
        lines: impl Iterator<Item = (Target, L)>,
        how: &How,
        note: String,
        nothing: &str,
    ) -> Content {
        let entry = |(target, line): (Target, L)| Entry {
            target,
            cells: columns
                .iter()
                .map(|shown| ((shown.look)(&line), shown.column.text(&line, how)))
                .collect(),
            below: Vec::new(),
        };
        Content {
            note,
            columns: placed(columns),
            entries: lines.map(entry).collect(),
            nothing: nothing.into(),
        }
    }
}

impl Content {
    /// Whether anything in it warns.
    pub(super) fn warns(&self) -> bool {
        self.entries.iter().any(Entry::warns)
    }

    /// What its lines are about.
    pub(super) fn targets(&self) -> Vec<Target> {
        self.entries.iter().map(|e| e.target.clone()).collect()
    }

    /// The lines that one of them takes.
    pub(super) fn lines(&self, at: usize, width: usize, open: bool) -> Vec<Vec<(Look, String)>> {
        let entry = self.entries.get(at);
        entry.map_or_else(Vec::new, |entry| {
            table::lines(&self.columns, entry, width, open)
        })
    }

    /// With what is below each line while it is the selected one.
    fn with(mut self, below: impl Iterator<Item = Vec<Below>>) -> Content {
        for (entry, below) in self.entries.iter_mut().zip(below) {
            entry.below = below;
        }
        self
    }
}

fn placed<L>(columns: &[Shown<L>]) -> Vec<Placed> {
    let placed = columns.iter().map(|shown| Placed {
        head: shown.column.head,
        goes: shown.goes,
        folds: shown.folds,
    });
    placed.collect()
}

/// The columns of a pane, for its help.
pub(super) fn columns(pane: Pane) -> Vec<Placed> {
    match pane {
        Pane::Findings => placed(findings::COLUMNS),
        Pane::Connections => placed(connections::COLUMNS),
        Pane::Requests => placed(requests::COLUMNS),
        Pane::Listeners => placed(listeners::COLUMNS),
        Pane::Sockets => placed(sockets::COLUMNS),
        Pane::Threads => placed(threads::COLUMNS),
        Pane::Functions => placed(functions::COLUMNS),
    }
}

/// What a pane shows now.
pub(super) fn content(
    pane: Pane,
    state: &State,
    snapshot: &Snapshot,
    findings: &Findings,
    about: &About,
) -> Content {
    let (live, how) = (about.live, &about.how);
    let mut content = match pane {
        Pane::Findings => findings::content(snapshot, findings, live, how),
        Pane::Connections => connections::content(snapshot, how),
        Pane::Requests => requests::content(snapshot, live, how),
        Pane::Listeners => listeners::content(snapshot, how),
        Pane::Sockets => sockets::content(snapshot, state.order, how),
        Pane::Threads => threads::content(snapshot, live, how),
        Pane::Functions => functions::content(snapshot, live, how),
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

pub(super) fn who(owner: &Owner) -> String {
    let comm = owner.comm.as_deref().unwrap_or("");
    match (owner.pid, comm) {
        (Some(pid), comm) => format!("{comm} {pid}").trim().to_string(),
        (None, "") => "-".into(),
        (None, comm) => comm.to_string(),
    }
}
