//! What threads did with their time, as bands.

use std::collections::BTreeMap;

use ahash::AHashMap;
use recording::tables::Thread;
use recording::{Error, Recording, Text};

use super::axis::Axis;
use super::page::{Band, Threads};
use super::{Thinned, short};
use crate::stat::threads::parts;

/// Threads that a page has, and intervals of each.
const MAX_THREADS: usize = 40;
const MAX_INTERVALS: usize = 300;
/// Threads looked at before those are chosen.
const MAX_SEEN: usize = 1 << 17;

const STATES: &[&str] = &["USR", "SYS", "LAT", "SLP", "LCK", "DSK", "FLT", "STP"];
/// Which of the states is sleep: it says least.
const SLEEP: usize = 3;

type Key = (u32, u32);

/// An interval of a thread: from, to, and its parts, ns.
type Interval = (u64, u64, [u64; 8]);

/// The threads that did or waited most; `None` when threads were not recorded.
pub(super) fn threads(
    recording: &Recording,
    axis: Axis,
    thinned: &mut Thinned,
) -> Result<Option<Threads>, Error> {
    let mut did: AHashMap<Key, u64> = AHashMap::new();
    for batch in recording.scan::<Thread>()? {
        for (_, t) in batch?.rows() {
            let key = (t.pid, t.tid);
            if did.len() < MAX_SEEN || did.contains_key(&key) {
                let sum = did.entry(key).or_default();
                let awake = parts(&t)
                    .into_iter()
                    .enumerate()
                    .filter(|(i, _)| *i != SLEEP);
                *sum = awake.fold(*sum, |sum, (_, ns)| sum.saturating_add(ns));
            }
        }
    }
    if did.is_empty() {
        return Ok(None);
    }
    let total = did.len();
    let mut order: Vec<(Key, u64)> = did.into_iter().collect();
    order.sort_by_key(|(key, ns)| (std::cmp::Reverse(*ns), *key));
    order.truncate(MAX_THREADS);
    thinned.say(total >= MAX_SEEN, || {
        format!("Of threads only the first {MAX_SEEN} are looked at.")
    });
    thinned.say(total > order.len(), || {
        format!(
            "Of {total} threads the page has the {} that ran or waited for something most.",
            order.len()
        )
    });
    let intervals = intervals(recording, &order)?;
    let bands = order.iter().filter_map(|(key, _)| {
        let (comm, intervals) = intervals.get(key)?;
        Some(band(*key, comm, intervals, axis))
    });
    Ok(Some(Threads {
        total: total as f64,
        states: STATES.iter().map(|s| (*s).into()).collect(),
        bands: bands.collect(),
    }))
}

/// The intervals of the chosen threads, neighbours joined until they are few enough.
fn intervals(
    recording: &Recording,
    chosen: &[(Key, u64)],
) -> Result<BTreeMap<Key, (Text, Vec<Interval>)>, Error> {
    let mut all: BTreeMap<Key, (Text, Vec<Interval>)> = BTreeMap::new();
    for (key, _) in chosen {
        all.insert(*key, Default::default());
    }
    for batch in recording.scan::<Thread>()? {
        for (_, t) in batch?.rows() {
            if let Some((comm, intervals)) = all.get_mut(&(t.pid, t.tid)) {
                let from = t.time_ns.saturating_sub(t.interval_ns);
                intervals.push((from, t.time_ns, parts(&t)));
                *comm = t.comm;
                if intervals.len() > 2 * MAX_INTERVALS {
                    halve(intervals);
                }
            }
        }
    }
    for (_, intervals) in all.values_mut() {
        if intervals.len() > MAX_INTERVALS {
            halve(intervals);
        }
    }
    Ok(all)
}

/// Joins each two neighbours.
fn halve(intervals: &mut Vec<Interval>) {
    let joined = intervals.chunks(2).filter_map(|pair| {
        let (first, last) = (pair.first()?, pair.last()?);
        let mut parts = [0_u64; 8];
        for (_, _, more) in pair {
            for (sum, part) in parts.iter_mut().zip(more) {
                *sum = sum.saturating_add(*part);
            }
        }
        Some((first.0, last.1, parts))
    });
    *intervals = joined.collect();
}

fn band((pid, tid): Key, comm: &str, intervals: &[Interval], axis: Axis) -> Band {
    let shares = intervals.iter().map(|(_, _, parts)| {
        let all: f64 = parts.iter().map(|ns| *ns as f64).sum();
        let share = |ns: &u64| match all > 0.0 {
            true => (1_000.0 * *ns as f64 / all).round() / 10.0,
            false => 0.0,
        };
        parts.iter().map(share).collect()
    });
    let times = intervals.iter();
    let times = times.map(|(from, to, _)| (axis.seconds(*from), axis.seconds(*to)));
    Band {
        name: short(&format!("{comm}/{tid}")),
        pid,
        intervals: times.collect(),
        shares: shares.collect(),
    }
}
