//! Functions of the kernel in which CPUs were found.

use super::{Content, plain};
use crate::numbers::tenth;
use crate::style::Look;
use crate::top::snapshot::Snapshot;
use crate::top::state::Target;
use crate::top::table::{Column, Entry, gauge, left, right};

const GAUGE: usize = 10;
const COLUMNS: &[Column] = &[
    right("SELF%", 6, 0),
    right("TOTAL%", 6, 1),
    left("", GAUGE, 2),
    left("FUNCTION", 16, 0),
];

pub(super) fn content(snapshot: &Snapshot, live: bool) -> Content {
    let (all, idle) = snapshot.samples;
    let share = |n: u64| n as f64 / all.max(1) as f64;
    let entries = snapshot.functions.iter().map(|f| Entry {
        target: Target::Function(f.name.clone()),
        cells: vec![
            plain(tenth(share(f.itself) * 100.0)),
            plain(tenth(share(f.total) * 100.0)),
            (Look::Command, gauge(share(f.itself), GAUGE)),
            plain(&*f.name),
        ],
    });
    let nothing = match (snapshot.has("sample"), live) {
        (true, _) => "No CPU was found in the kernel.",
        (false, true) => "CPUs are not sampled: `tcpwhy top --with profile` does.",
        (false, false) => "This recording has no CPU profile: record it `--with profile`.",
    };
    let note = match all {
        0 => String::new(),
        all => format!("of {all} samples; idle {} %", tenth(share(idle) * 100.0)),
    };
    Content {
        note,
        columns: COLUMNS,
        entries: entries.collect(),
        nothing: nothing.into(),
    }
}
