//! Listeners, local ports, lookup structures and resources against their limits.

use std::collections::BTreeMap;

use analysis::words::count;
use recording::tables::{Listener, PortUse, Resource, TableSize};
use recording::{Addr, Error, Recording, Text};

use super::page::Limits;
use super::{Names, Thinned, short};
use crate::numbers::{endpoint, number, or_dash, tenth};

/// Rows of a table that a page has.
const MAX_ROWS: usize = 200;
/// Things looked at before those are chosen.
const MAX_SEEN: usize = 1 << 16;

/// A listening socket: namespace, address, port, id.
type Socket = (u32, Addr, u16, u64);

/// A row before it is chosen: how full it was at most, and its cells.
type Row = (Option<f64>, Vec<String>);

/// The tables that have rows.
pub(super) fn limits(
    recording: &Recording,
    names: &Names,
    thinned: &mut Thinned,
) -> Result<Vec<Limits>, Error> {
    let all = [
        listeners(recording, names, thinned)?,
        ports(recording, names, thinned)?,
        tables(recording, names, thinned)?,
        resources(recording, names, thinned)?,
    ];
    Ok(all.into_iter().filter(|t| !t.rows.is_empty()).collect())
}

/// The fullest first.
fn table(id: &str, title: &str, columns: &[&str], mut rows: Vec<Row>) -> Limits {
    rows.sort_by(|a, b| {
        let full = |row: &Row| row.0.unwrap_or(-1.0);
        full(b).total_cmp(&full(a))
    });
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    Limits {
        id: id.into(),
        title: title.into(),
        columns: columns.iter().map(|c| (*c).into()).collect(),
        rows: rows
            .into_iter()
            .map(|(full, cells)| (cells, full))
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

fn listeners(recording: &Recording, names: &Names, thinned: &mut Thinned) -> Result<Limits, Error> {
    let mut all: BTreeMap<Socket, (Listener, u32, u32, u32)> = BTreeMap::new();
    for batch in recording.scan::<Listener>()? {
        for (_, l) in batch?.rows() {
            let key = (l.netns, l.local_addr, l.local_port, l.sock);
            if room(&all, &key) {
                let drops = l.drops;
                let seen = all.entry(key).or_insert_with(|| (l.clone(), 0, 0, drops));
                (seen.1, seen.2) = (seen.1.max(l.accept_queue), seen.2.max(l.syn_queue));
                seen.0 = l;
            }
        }
    }
    full(&all, "listeners", thinned);
    let rows = all
        .into_values()
        .map(|(l, accept_queue, syn_queue, drops)| {
            let full = f64::from(accept_queue) / f64::from(l.backlog.max(1));
            let cells = vec![
                endpoint(l.local_addr, l.local_port),
                names.netns(l.netns),
                count(accept_queue.into()),
                count(l.backlog.into()),
                count(syn_queue.into()),
                count(l.drops.saturating_sub(drops).into()),
            ];
            (Some(full), cells)
        });
    Ok(table(
        "listeners",
        "Listeners",
        &[
            "listens at",
            "namespace",
            "waiting for accept(), at most",
            "backlog",
            "half open, at most",
            "dropped",
        ],
        rows.collect(),
    ))
}

fn ports(recording: &Recording, names: &Names, thinned: &mut Thinned) -> Result<Limits, Error> {
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
    let rows = all.into_values().map(|p| {
        let range = u32::from(p.range_high.saturating_sub(p.range_low)) + 1;
        let of = range.saturating_sub(p.reserved);
        let cells = vec![
            p.local_addr.to_string(),
            endpoint(p.remote_addr, p.remote_port),
            names.netns(p.netns),
            count(p.ports_used.into()),
            count(of.into()),
            count(p.time_wait.into()),
            count(p.established.into()),
        ];
        (Some(f64::from(p.ports_used) / f64::from(of.max(1))), cells)
    });
    Ok(table(
        "ports",
        "Local ports by destination",
        &[
            "from",
            "to",
            "namespace",
            "ports in use, at most",
            "of",
            "in TIME_WAIT",
            "established",
        ],
        rows.collect(),
    ))
}

fn tables(recording: &Recording, names: &Names, thinned: &mut Thinned) -> Result<Limits, Error> {
    let mut all: BTreeMap<(u32, Text), (u64, TableSize)> = BTreeMap::new();
    for batch in recording.scan::<TableSize>()? {
        for (_, t) in batch?.rows() {
            let key = (t.netns, t.structure.clone());
            if room(&all, &key) {
                let first = t.entries;
                let seen = all.entry(key).or_insert_with(|| (first, t.clone()));
                if t.entries >= seen.1.entries {
                    seen.1 = t;
                }
            }
        }
    }
    full(&all, "lookup structures", thinned);
    let rows = all.into_values().map(|(first, t)| {
        let share = |of: Option<u64>| Some(t.entries as f64 / of.filter(|n| *n > 0)? as f64);
        let cells = vec![
            short(&t.structure),
            names.netns(t.netns),
            count(first),
            count(t.entries),
            or_dash(t.limit.map(count)),
            or_dash(t.buckets.map(count)),
            or_dash(share(t.buckets).map(|mean| format!("{mean:.3}"))),
            or_dash(t.longest_chain.map(count)),
            or_dash(t.bytes.map(count)),
        ];
        (share(t.limit), cells)
    });
    Ok(table(
        "tables",
        "Lookup structures of the kernel",
        &[
            "structure",
            "namespace",
            "entries at first",
            "at most",
            "limit",
            "buckets",
            "mean chain",
            "longest chain",
            "bytes",
        ],
        rows.collect(),
    ))
}

/// A resource's value, over time.
struct Seen {
    row: Resource,
    first_ns: u64,
    first: f64,
    most: f64,
}

fn resources(recording: &Recording, names: &Names, thinned: &mut Thinned) -> Result<Limits, Error> {
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
    let rows = all.into_values().filter_map(|seen| resource(seen, names));
    Ok(table(
        "resources",
        "Resources",
        &[
            "resource",
            "which",
            "namespace",
            "aspect",
            "metric",
            "at most",
            "unit",
            "limit",
        ],
        rows.collect(),
    ))
}

/// A resource that has a limit, is short, or failed; others say nothing here.
fn resource(seen: Seen, names: &Names) -> Option<Row> {
    let Seen {
        row,
        first_ns,
        first,
        most,
    } = seen;
    let seconds = row.time_ns.saturating_sub(first_ns) as f64 / 1e9;
    let grew = row.value - first;
    // Of what counts up the limit is per second.
    let (value, against, unit) = match row.cumulative {
        true if seconds > 0.0 => (grew, grew / seconds, format!("{} more", row.unit)),
        true => return None,
        false => (most, most, row.unit.to_string()),
    };
    let full = row
        .limit
        .filter(|limit| *limit > 0.0)
        .map(|limit| against / limit);
    if full.is_none() && (value <= 0.0 || &*row.aspect == "utilisation") {
        return None;
    }
    let cells = vec![
        short(&row.resource),
        short(&row.instance),
        match row.netns {
            0 => String::new(),
            netns => names.netns(netns),
        },
        short(&row.aspect),
        short(&row.metric),
        match value.abs() < 1_000.0 {
            true => tenth(value),
            false => number(value),
        },
        short(&unit),
        or_dash(row.limit.map(number)),
    ];
    Some((full, cells))
}
