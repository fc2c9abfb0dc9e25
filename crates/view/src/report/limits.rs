//! Listeners, local ports, lookup structures and resources against their limits.

use std::collections::BTreeMap;

use recording::tables::{Listener, PortUse, Resource, TableSize};
use recording::{Addr, Error, Recording, Text};

use super::page::Limits;
use super::{Thinned, short};
use crate::columns::{Column, Unit, columns, left, right};
use crate::numbers::{number, tenth};
use crate::screen::How;
use crate::stat::listeners::Listening;
use crate::stat::ports::Used;
use crate::stat::tables::Structure;
use crate::stat::usage::Checked;

/// Rows of a table that a page has.
const MAX_ROWS: usize = 200;
/// Things looked at before those are chosen.
const MAX_SEEN: usize = 1 << 16;

/// A listening socket: namespace, address, port, id.
type Socket = (u32, Addr, u16, u64);

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
        MOST: right("VALUE", 14, &[], Unit::Measure) => |l, _| match l.row.value.abs() < 1_000.0 {
            true => tenth(l.row.value).into(),
            false => number(l.row.value).into(),
        };
        /// Unit of that.
        UNIT_OF_MOST: left("UNIT", 7, &[], Unit::Name) => |l, _| match l.row.cumulative {
            true => format!("{} more", l.row.unit).into(),
            false => (&l.row.unit).into(),
        };
    }
}

/// The tables that have rows.
pub(super) fn limits(recording: &Recording, thinned: &mut Thinned) -> Result<Vec<Limits>, Error> {
    let how = How::of(&recording.manifest);
    let all = [
        table(
            "listeners",
            "Listeners",
            LISTENERS,
            listeners(recording, thinned)?,
            &how,
        ),
        table(
            "ports",
            "Local ports by destination",
            PORTS,
            ports(recording, thinned)?,
            &how,
        ),
        table(
            "tables",
            "Lookup structures of the kernel",
            TABLES,
            tables(recording, thinned)?,
            &how,
        ),
        table(
            "resources",
            "Resources",
            RESOURCES,
            resources(recording, thinned)?,
            &how,
        ),
    ];
    Ok(all.into_iter().filter(|t| !t.rows.is_empty()).collect())
}

/// Lines as rows, the fullest first: each comes with how full it was at most.
fn table<L>(
    id: &str,
    title: &str,
    columns: &[Shown<L>],
    mut lines: Vec<(Option<f64>, L)>,
    how: &How,
) -> Limits {
    let full = |line: &(Option<f64>, L)| line.0.unwrap_or(-1.0);
    lines.sort_by(|a, b| full(b).total_cmp(&full(a)));
    let left_out = lines.len().saturating_sub(MAX_ROWS);
    lines.truncate(MAX_ROWS);
    let cells = |line: &L| {
        let cells = columns.iter().map(|c| c.column.grouped(line, how));
        cells.map(|cell| short(&cell)).collect()
    };
    let heading = |c: &Shown<L>| match c.at_most {
        true => format!("{}, at most", c.column.head.name),
        false => c.column.head.name.to_string(),
    };
    Limits {
        id: id.into(),
        title: title.into(),
        columns: columns.iter().map(heading).collect(),
        rows: lines
            .iter()
            .map(|(full, line)| (cells(line), *full))
            .collect(),
        left_out: left_out as f64,
    }
}

/// Whether there is room for one more thing.
fn room<K: Ord, V>(all: &BTreeMap<K, V>, key: &K) -> bool {
    all.len() < MAX_SEEN || all.contains_key(key)
}

/// Says that there may have been more.
fn full<K, V>(all: &BTreeMap<K, V>, what: &str, thinned: &mut Thinned) {
    thinned.say(all.len() >= MAX_SEEN, || {
        format!("Of {what} only the first {MAX_SEEN} are held against their limits.")
    });
}

/// Lines, each with how full it was at most.
type Lines<L> = Vec<(Option<f64>, L)>;

/// Of each its last sample, with the most that its queues held.
fn listeners(recording: &Recording, thinned: &mut Thinned) -> Result<Lines<Listening>, Error> {
    let mut all: BTreeMap<Socket, (Listener, u32)> = BTreeMap::new();
    for batch in recording.scan::<Listener>()? {
        for (_, l) in batch?.rows() {
            let key = (l.netns, l.local_addr, l.local_port, l.sock);
            if room(&all, &key) {
                let drops = l.drops;
                let seen = &mut all.entry(key).or_insert_with(|| (l.clone(), drops)).0;
                *seen = Listener {
                    accept_queue: l.accept_queue.max(seen.accept_queue),
                    syn_queue: l.syn_queue.max(seen.syn_queue),
                    ..l
                };
            }
        }
    }
    full(&all, "listeners", thinned);
    let lines = all.into_values().map(|(row, drops)| {
        let full = f64::from(row.accept_queue) / f64::from(row.backlog.max(1));
        let line = Listening {
            dropped: row.drops.saturating_sub(drops),
            row,
            ..Listening::default()
        };
        (Some(full), line)
    });
    Ok(lines.collect())
}

/// Of each destination the sample in which most ports were in use.
fn ports(recording: &Recording, thinned: &mut Thinned) -> Result<Lines<Used>, Error> {
    let mut all: BTreeMap<(u32, Addr, Addr, u16), PortUse> = BTreeMap::new();
    for batch in recording.scan::<PortUse>()? {
        for (_, p) in batch?.rows() {
            let key = (p.netns, p.local_addr, p.remote_addr, p.remote_port);
            let more = all
                .get(&key)
                .is_none_or(|seen| p.ports_used > seen.ports_used);
            if more && room(&all, &key) {
                all.insert(key, p);
            }
        }
    }
    full(&all, "destinations", thinned);
    let lines = all.into_values().map(Used);
    Ok(lines.map(|line| (line.used_share(), line)).collect())
}

/// Of each structure the sample in which it had most entries.
fn tables(recording: &Recording, thinned: &mut Thinned) -> Result<Lines<Structure>, Error> {
    let mut all: BTreeMap<(u32, Text), Structure> = BTreeMap::new();
    for batch in recording.scan::<TableSize>()? {
        for (_, row) in batch?.rows() {
            let key = (row.netns, row.structure.clone());
            if room(&all, &key) {
                let seen = all.entry(key).or_insert_with(|| Structure {
                    at_first: Some(row.entries),
                    row: row.clone(),
                });
                if row.entries >= seen.row.entries {
                    seen.row = row;
                }
            }
        }
    }
    full(&all, "lookup structures", thinned);
    let lines = all.into_values();
    Ok(lines.map(|line| (line.limit_share(), line)).collect())
}

/// A resource's value, over time.
struct Seen {
    row: Resource,
    first_ns: u64,
    first: f64,
    most: f64,
}

fn resources(recording: &Recording, thinned: &mut Thinned) -> Result<Lines<Checked>, Error> {
    let mut all: BTreeMap<(u32, Text, Text, Text, Text), Seen> = BTreeMap::new();
    for batch in recording.scan::<Resource>()? {
        for (_, r) in batch?.rows() {
            let key = (
                r.netns,
                r.resource.clone(),
                r.instance.clone(),
                r.aspect.clone(),
                r.metric.clone(),
            );
            if room(&all, &key) {
                let (first_ns, first) = (r.time_ns, r.value);
                let seen = all.entry(key).or_insert_with(|| Seen {
                    row: r.clone(),
                    first_ns,
                    first,
                    most: f64::MIN,
                });
                seen.most = seen.most.max(r.value);
                seen.row = r;
            }
        }
    }
    full(&all, "resources", thinned);
    Ok(all.into_values().filter_map(resource).collect())
}

/// A resource that has a limit, is short, or failed; others say nothing here.
fn resource(seen: Seen) -> Option<(Option<f64>, Checked)> {
    let seconds = seen.row.time_ns.saturating_sub(seen.first_ns) as f64 / 1e9;
    let grew = seen.row.value - seen.first;
    // Of what counts up the limit is per second.
    let (value, against) = match seen.row.cumulative {
        true if seconds > 0.0 => (grew, grew / seconds),
        true => return None,
        false => (seen.most, seen.most),
    };
    let limit = seen.row.limit.filter(|limit| *limit > 0.0);
    let full = limit.map(|limit| against / limit);
    if full.is_none() && (value <= 0.0 || &*seen.row.aspect == "utilisation") {
        return None;
    }
    let row = Resource { value, ..seen.row };
    Some((full, Checked { row, per_s: None }))
}
