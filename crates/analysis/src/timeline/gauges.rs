//! What is sampled and holds until the next sample: queues, sizes, the load.

use std::collections::BTreeMap;

use recording::tables::{Listener, Resource, TableSize};
use recording::{Error, Recording, Table, Text};

use super::{Axis, Steps};
use crate::Endpoint;

/// A listening socket: its namespace, where it listens, its id.
pub type ListenId = (u32, Endpoint, u64);
/// A lookup structure: its name and namespace.
pub type SizeId = (Text, u32);

/// A value over time, and its limit.
#[derive(Clone, Debug)]
pub struct Gauge {
    /// The value.
    pub value: Steps,
    /// The limit, where there is one.
    pub limit: Steps,
    last_ns: Option<u64>,
}

/// One sample of a gauge.
struct Point {
    time_ns: u64,
    value: f64,
    limit: Option<f64>,
}

impl Gauge {
    fn new(axis: Axis) -> Gauge {
        Gauge {
            value: axis.steps(),
            limit: axis.steps(),
            last_ns: None,
        }
    }

    fn add(&mut self, point: Point) {
        let to = point.time_ns;
        let from = self.last_ns.replace(to).unwrap_or(to);
        self.value.hold(from, to, point.value);
        if let Some(limit) = point.limit {
            self.limit.hold(from, to, limit);
        }
    }
}

/// The gauges with these keys, in their order.
fn gauges<T: Table, K: Ord>(
    recording: &Recording,
    axis: Axis,
    keys: impl ExactSizeIterator<Item = K>,
    point: impl Fn(&T) -> Option<(K, Point)>,
) -> Result<Vec<Gauge>, Error> {
    let mut all = vec![Gauge::new(axis); keys.len()];
    if all.is_empty() {
        return Ok(all);
    }
    let places: BTreeMap<K, usize> = keys.zip(0..).collect();
    for batch in recording.scan::<T>()? {
        for (_, row) in batch?.rows() {
            if let Some((key, point)) = point(&row)
                && let Some(place) = places.get(&key)
            {
                all[*place].add(point);
            }
        }
    }
    Ok(all)
}

/// How many connections waited for accept() at each of these sockets.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn accept_queues(
    recording: &Recording,
    axis: Axis,
    of: &[ListenId],
) -> Result<Vec<Gauge>, Error> {
    gauges(recording, axis, of.iter().copied(), |l: &Listener| {
        let id = (l.netns, Endpoint::new(l.local_addr, l.local_port), l.sock);
        let point = Point {
            time_ns: l.time_ns,
            value: l.accept_queue.into(),
            limit: Some(l.backlog.into()),
        };
        Some((id, point))
    })
}

/// The entries of each of these lookup structures.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn sizes(recording: &Recording, axis: Axis, of: &[SizeId]) -> Result<Vec<Gauge>, Error> {
    gauges(recording, axis, of.iter().cloned(), |t: &TableSize| {
        let point = Point {
            time_ns: t.time_ns,
            value: t.entries as f64,
            limit: t.limit.map(|limit| limit as f64),
        };
        Some(((t.structure.clone(), t.netns), point))
    })
}

/// What tells how many threads want to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadMetric {
    /// The load average of a minute.
    Load,
    /// Threads that run or are runnable.
    Runnable,
}

/// Threads that want to run, and the load; without what was not sampled.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn load(recording: &Recording, axis: Axis) -> Result<Vec<(LoadMetric, Gauge)>, Error> {
    let metrics = [LoadMetric::Load, LoadMetric::Runnable];
    let all = gauges(recording, axis, metrics.into_iter(), |r: &Resource| {
        let metric = match (&*r.resource, &*r.metric) {
            ("cpu", "load1") => LoadMetric::Load,
            ("cpu", "runnable_threads") => LoadMetric::Runnable,
            _ => return None,
        };
        let point = Point {
            time_ns: r.time_ns,
            value: r.value,
            limit: None,
        };
        Some((metric, point))
    })?;
    let sampled = metrics.into_iter().zip(all);
    Ok(sampled.filter(|(_, g)| g.last_ns.is_some()).collect())
}
