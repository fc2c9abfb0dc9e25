//! Listeners, local ports, lookup structures and resources against their limits.

use std::collections::BTreeMap;

use analysis::ports::Use;
use analysis::resources::Line;
use analysis::structures::Structure as Size;
use analysis::{ListenSock, Story};
use recording::tables::{Listener, Resource};
use recording::{Error, Recording, Row, RowRef};

use super::page::Limits;
use super::short;
use crate::columns::{Column, Unit, columns, left, right};
use crate::how::How;
use crate::numbers::{number, tenth};
use crate::stat::checked::Checked;
use crate::stat::listeners::Listening;
use crate::stat::ports::Used;
use crate::stat::tables::Structure;

/// Rows of a table that a page has.
const MAX_ROWS: usize = 200;
/// From this share of its limit on, a thing is worth a look.
pub(super) const TELLING: f64 = 0.1;

/// A column of a table, and whether its values are the most that there were.
struct Shown<L: 'static> {
    column: Column<L>,
    at_most: bool,
}

const fn last<L>(column: Column<L>) -> Shown<L> {
    Shown {
        column,
        at_most: false,
    }
}

const fn most<L>(column: Column<L>) -> Shown<L> {
    Shown {
        column,
        at_most: true,
    }
}

const LISTENERS: &[Shown<Listening>] = &[
    last(Listening::LOCAL),
    last(Listening::NETNS),
    most(Listening::ACCEPTQ),
    last(Listening::BACKLOG),
    most(Listening::WAITED),
    most(Listening::SYNQ),
    last(Listening::DROPPED),
];

const PORTS: &[Shown<Used>] = &[
    last(Used::FROM),
    last(Used::TO),
    last(Used::NETNS),
    most(Used::USED),
    last(Used::OF),
    last(Used::TIME_WAIT),
    last(Used::ESTAB),
];

const TABLES: &[Shown<Structure>] = &[
    last(Structure::STRUCTURE),
    last(Structure::NETNS),
    last(Structure::AT_FIRST),
    most(Structure::ENTRIES),
    last(Structure::LIMIT),
    last(Structure::BUCKETS),
    last(Structure::MEAN),
    last(Structure::LONGEST),
    last(Structure::BYTES),
];

const RESOURCES: &[Shown<Checked>] = &[
    last(Checked::RESOURCE),
    last(Checked::INSTANCE),
    last(Checked::ASPECT),
    last(Checked::METRIC),
    most(Checked::MOST),
    last(Checked::UNIT_OF_MOST),
    last(Checked::LIMIT),
];

impl Structure {
    columns! {
        /// Entries when it was first sampled.
        AT_FIRST: right("ENTRIES, at first", 10, &[], Unit::Count) => |l, _| l.at_first.into();
    }
}

impl Checked {
    columns! {
        /// The greatest value; of what counts up, by how much it rose.
        MOST: right("VALUE", 14, &[], Unit::Measure) => |l, _| if l.row.value.abs() < 1_000.0 { tenth(l.row.value).into() } else { number(l.row.value).into() };
        /// Unit of that.
        UNIT_OF_MOST: left("UNIT", 7, &[], Unit::Name) => |l, _| if l.row.cumulative { format!("{} more", l.row.unit).into() } else { (&l.row.unit).into() };
    }
}

/// The tables that have rows.
pub(super) fn limits(recording: &Recording, story: &Story) -> Result<Vec<Limits>, Error> {
    let how = How::of(&recording.manifest);
    let (listeners, ports) = (listeners(story), ports(story));
    let (tables, resources) = (tables(story), resources(story));
    let all = [
        listeners.rows(),
        ports.rows(),
        tables.rows(),
        resources.rows(),
    ];
    let rows = recording.pick(all.into_iter().flatten())?;
    let all = [
        listeners.table("listeners", "Listeners", LISTENERS, &rows, &how),
        ports.table("ports", "Local ports by destination", PORTS, &rows, &how),
        tables.table(
            "tables",
            "Lookup structures of the kernel",
            TABLES,
            &rows,
            &how,
        ),
        resources.table("resources", "Resources", RESOURCES, &rows, &how),
    ];
    Ok(all.into_iter().filter(|t| !t.rows.is_empty()).collect())
}

/// The fullest things of one kind: `T` is what the story has of one, `L` its line.
struct Fullest<'s, T, L> {
    /// The row about each, and how full it was at most.
    all: Vec<(RowRef, Option<f64>, &'s T)>,
    left_out: usize,
    /// Makes the line from that row; `None` for a row of another table.
    line: fn(&Row, &T) -> Option<L>,
}

impl<'s, T, L> Fullest<'s, T, L> {
    /// All of them: their names, rows, how full each was, and what the story has of them.
    fn of<K: Ord>(
        all: impl Iterator<Item = (K, RowRef, Option<f64>, &'s T)>,
        line: fn(&Row, &T) -> Option<L>,
    ) -> Self {
        let mut all: Vec<_> = all.collect();
        let full = |full: Option<f64>| full.unwrap_or(-1.0);
        all.sort_by(|a, b| {
            let by_full = full(b.2).total_cmp(&full(a.2));
            by_full.then_with(|| a.0.cmp(&b.0))
        });
        let left_out = all.len().saturating_sub(MAX_ROWS);
        let first = all.into_iter().take(MAX_ROWS);
        Fullest {
            all: first.map(|(_, row, full, of)| (row, full, of)).collect(),
            left_out,
            line,
        }
    }

    fn rows(&self) -> Vec<RowRef> {
        self.all.iter().map(|(row, ..)| *row).collect()
    }

    /// The table of their lines.
    fn table(
        &self,
        id: &str,
        title: &str,
        columns: &[Shown<L>],
        rows: &BTreeMap<RowRef, Row>,
        how: &How,
    ) -> Limits {
        let cells = |line: &L| {
            let cells = columns.iter().map(|c| c.column.grouped(line, how));
            cells.map(|cell| short(&cell)).collect()
        };
        let heading = |c: &Shown<L>| {
            if c.at_most {
                format!("{}, at most", c.column.head.name)
            } else {
                c.column.head.name.to_string()
            }
        };
        let lines = self.all.iter().filter_map(|(row, full, of)| {
            let line = (self.line)(rows.get(row)?, of)?;
            Some((cells(&line), *full))
        });
        let rows: Vec<_> = lines.collect();
        let telling = rows
            .iter()
            .take_while(|(_, full)| full.is_some_and(|full| full >= TELLING));
        Limits {
            id: id.into(),
            title: title.into(),
            columns: columns.iter().map(heading).collect(),
            telling: telling.count() as u32,
            rows,
            left_out: self.left_out as f64,
        }
    }
}

/// The last sample of each listening socket, with the most that its queues held.
fn listeners(story: &Story) -> Fullest<'_, ListenSock, Listening> {
    let all = story.listeners.all.iter();
    let all = all.flat_map(|l| l.socks.iter().map(move |s| ((l.netns, l.local, s.sock), s)));
    let all = all.map(|(name, s)| (name, s.last_row, Some(s.fullest().share()), s));
    Fullest::of(all, |row, sock| match row {
        Row::Listener(row) => Some(Listening {
            dropped: sock.drops(),
            row: Listener {
                accept_queue: sock.longest_accept_queue.0,
                syn_queue: sock.longest_syn_queue.0,
                ..(**row).clone()
            },
            ..Listening::default()
        }),
        _ => None,
    })
}

/// For each destination the count in which most ports were in use.
fn ports(story: &Story) -> Fullest<'_, Use, Used> {
    let all = story.ports.all();
    let all = all.map(|(path, ports)| (path, ports.most.row, ports.share(), ports));
    Fullest::of(all, |row, _| match row {
        Row::PortUse(row) => Some(Used((**row).clone())),
        _ => None,
    })
}

/// For each structure the sample in which it had most entries.
fn tables(story: &Story) -> Fullest<'_, Size, Structure> {
    // Pools of memory have no limit, and there are hundreds.
    let all = story.structures.all();
    let all = all.filter(|((name, _), _)| !is_pool(name));
    let all = all.map(|((name, netns), size)| {
        let full = &size.fullest;
        ((netns, name), full.row, full.share(), size)
    });
    Fullest::of(all, |row, size| match row {
        Row::TableSize(row) => Some(Structure {
            at_first: Some(size.first.entries),
            row: (**row).clone(),
        }),
        _ => None,
    })
}

/// Whether a structure is a pool of memory of the whole kernel.
pub(super) fn is_pool(structure: &str) -> bool {
    structure.starts_with("slab:")
}

/// Resources that have a limit, are short, or failed; others say nothing here.
fn resources(story: &Story) -> Fullest<'_, Line, Checked> {
    let all = story.resources.all();
    let telling = all.filter(|(name, line)| match line.share() {
        _ if line.cumulative && !line.compares() => false,
        Some(_) => true,
        None => line.amount() > 0.0 && &*name.aspect != "utilisation",
    });
    // What waits for a resource may be any multiple of it: that is not a limit.
    let telling = telling.map(|(name, line)| {
        let share = line.share().filter(|_| &*name.aspect != "saturation");
        (name, line.row, share, line)
    });
    Fullest::of(telling, |row, line| match row {
        Row::Resource(row) => Some(Checked {
            row: Resource {
                value: line.amount(),
                ..(**row).clone()
            },
            per_s: None,
        }),
        _ => None,
    })
}
