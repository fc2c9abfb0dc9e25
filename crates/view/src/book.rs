//! What the book says of the views of `stat` and `trace`: their columns, made from the declarations.

use std::fmt::Write;

use crate::columns::{Head, Line};
use crate::stat::{
    checked, counters, cpus, listeners, ports, pressure, rank, requests, sockets, tables, threads,
};
use crate::trace::{
    About, accept_waits, accepts, connects, drops, gaps, handshakes, resets, retransmits, states,
    timeline, timewait, wakeups,
};

/// The lines of a view, for the book.
#[derive(Clone, Debug)]
pub struct Documented {
    /// The page that has the view: `stat` or `trace`.
    pub page: &'static str,
    /// The `type` of its lines in JSON.
    pub kind: &'static str,
    /// A table of its columns, as Markdown.
    pub columns: String,
    /// Its keys in JSON, in their order, as Markdown.
    pub fields: String,
}

/// Every kind of line that `stat` and `trace` show.
pub fn documented() -> Vec<Documented> {
    vec![
        of::<counters::Moving>("stat"),
        of::<rank::Ranked>("stat"),
        of::<cpus::Busy>("stat"),
        of::<cpus::Interrupted>("stat"),
        of::<threads::Timed>("stat"),
        of::<sockets::Sampled>("stat"),
        of::<listeners::Listening>("stat"),
        of::<ports::Used>("stat"),
        of::<requests::Exchanged>("stat"),
        of::<tables::Structure>("stat"),
        of::<checked::Checked>("stat"),
        of::<pressure::Pressed>("stat"),
        of::<About<retransmits::Retransmitted>>("trace"),
        of::<About<resets::Reset>>("trace"),
        of::<About<timewait::Met>>("trace"),
        of::<wakeups::Woken>("trace"),
        of::<About<handshakes::Handshake>>("trace"),
        of::<About<connects::Connect>>("trace"),
        of::<About<accepts::Accept>>("trace"),
        of::<accept_waits::Waited>("trace"),
        of::<About<drops::Dropped>>("trace"),
        of::<About<states::Changed>>("trace"),
        of::<timeline::Moment>("trace"),
        of::<gaps::Late>("trace"),
        of::<gaps::Followed>("trace"),
    ]
}

fn of<L: Line>(page: &'static str) -> Documented {
    let text = || L::TEXT.iter().map(|c| c.head);
    let shown = |head: &Head| text().any(|h| (h.name, h.keys) == (head.name, head.keys));
    let json = || L::JSON.iter().map(|c| c.head);
    let mut columns =
        String::from("| column | in JSON | unit there | what it says |\n|---|---|---|---|\n");
    for head in text().chain(json().filter(|h| !shown(h))) {
        let name = if shown(&head) {
            format!("`{}`", head.name)
        } else {
            String::new()
        };
        let (keys, unit) = (keys(&head), head.unit.label());
        let _ = match head.table {
            Some(_) => writeln!(columns, "| | {keys} | | |"),
            None => writeln!(
                columns,
                "| {name} | {keys} | {unit} | {} |",
                head.help.trim()
            ),
        };
    }
    let fields: Vec<String> = json().map(|head| keys(&head)).collect();
    Documented {
        page,
        kind: L::KIND,
        columns,
        fields: fields.join(", "),
    }
}

/// What a column is in JSON.
fn keys(head: &Head) -> String {
    match head.table {
        Some(table) => format!("every column of [`{0}`](tables.md#{0})", table.name),
        None => {
            let keys: Vec<String> = head.keys.iter().map(|key| format!("`{key}`")).collect();
            keys.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_column_says_what_it_is_and_no_key_is_there_twice() {
        for view in documented() {
            let mut keys = BTreeSet::new();
            for key in view.fields.split(", ").filter(|key| key.starts_with('`')) {
                assert!(keys.insert(key), "{}: {key}", view.kind);
            }
            let rows = view.columns.lines().skip(2);
            for row in rows.filter(|row| !row.contains("every column of")) {
                let says = row.split('|').nth(4).unwrap_or_default();
                assert!(!says.trim().is_empty(), "{}: {row}", view.kind);
            }
        }
    }
}
