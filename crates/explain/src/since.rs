//! The moment from which the trouble of a finding is seen.
//!
//! If the cause knows the moment, it provides it. Otherwise it comes from the symptom. For connects in trouble it is
//! when their rate rose for good, or the first of them, as all of them are known. For any other symptom it is the
//! earliest row of its first step. A row about a connection counts from the connection's start, a row of a counter from
//! its first rise.

use ahash::{AHashMap, AHashSet};
use analysis::{Endpoint, Side, Story};
use recording::{Error, EventKind, Recording, Row, RowRef};

use crate::causes::ALL;
use crate::changes::{change, per_bin};
use crate::correlated_counters::{InTrouble, Symptom};
use crate::finding::{Finding, Scope};
use crate::limits;
use crate::moment::{Began, Since};

/// Dates every finding whose cause did not.
pub(crate) fn tell(
    findings: &mut [Finding],
    story: &Story,
    recording: &Recording,
) -> Result<(), Error> {
    let unknown = || findings.iter().filter(|f| f.since.is_none());
    let rows = recording.pick(unknown().flat_map(symptom_rows))?;
    let connections = connections(story, rows.values());
    for finding in findings.iter_mut().filter(|f| f.since.is_none()) {
        let cause = ALL.iter().find(|c| c.id == finding.cause);
        let connects = matches!(cause.and_then(|c| c.symptom), Some(Symptom::Connects));
        finding.since = if connects {
            of_connects(story, &finding.scope)
        } else {
            None
        };
        if finding.since.is_none() {
            let times = symptom_rows(finding)
                .into_iter()
                .filter_map(|at| moment(story, rows.get(&at)?, &connections));
            finding.since = times.min().map(|time_ns| {
                let before = time_ns <= story.start_ns;
                let began = if before { Began::Before } else { Began::Seen };
                Since::at(story, time_ns, began)
            });
        }
    }
    Ok(())
}

/// When the connects in trouble became frequent, or else the first of them.
fn of_connects(story: &Story, scope: &Scope) -> Option<Since> {
    let in_trouble = InTrouble::of(story, scope);
    let conns = story.conns.iter().filter(|c| in_trouble.has(c));
    let older = conns.clone().any(|c| c.side == Side::Older);
    let times: Vec<u64> = conns.map(|c| c.start_ns).collect();
    let (first, last) = (*times.iter().min()?, *times.iter().max()?);
    // Starts at the first bin of the recording, so that the quiet time before counts too.
    let rates = per_bin(
        times.iter().copied(),
        story.start_ns,
        last,
        limits::RATE_BIN.ns(),
    );
    let rose = change(&rates).filter(|c| c.after > c.before && c.before > 0.0);
    let moment = rose.map(|c| {
        story
            .start_ns
            .saturating_add(c.at as u64 * limits::RATE_BIN.ns())
    });
    Some(match moment {
        Some(moment) => Since::at(story, moment, Began::Rose),
        None if older => Since::at(story, first, Began::Before),
        None => Since::at(story, first, Began::Seen),
    })
}

/// The rows of the first step whose rows have a moment.
fn symptom_rows(finding: &Finding) -> Vec<RowRef> {
    /// Tables that describe a state rather than an event.
    const TIMELESS: &[&str] = &[
        "setting",
        "interface_address",
        "host_name",
        "holder",
        "process",
        "cgroup",
        "stack",
        "frame",
        "health",
    ];
    let steps = finding.evidence.iter().map(|step| {
        let rows = step.rows.iter().copied();
        rows.filter(|row| !TIMELESS.contains(&row.table))
    });
    let mut steps = steps.map(Iterator::collect);
    steps
        .find(|rows: &Vec<_>| !rows.is_empty())
        .unwrap_or_default()
}

type Tuple = (u32, Endpoint, Endpoint);

/// The connection that a row describes.
fn tuple(row: &Row) -> Option<Tuple> {
    match row {
        Row::Socket(s) => Some((
            s.netns,
            Endpoint::new(s.local_addr, s.local_port),
            Endpoint::new(s.remote_addr, s.remote_port),
        )),
        Row::Event(e) if e.kind == EventKind::State => Some((
            e.netns,
            Endpoint::new(e.local_addr, e.local_port),
            Endpoint::new(e.remote_addr, e.remote_port),
        )),
        _ => None,
    }
}

/// The start times of the connections between these ends, in order; 0 for those older than the recording.
fn connections<'a>(
    story: &Story,
    rows: impl Iterator<Item = &'a Row>,
) -> AHashMap<Tuple, Vec<u64>> {
    let wanted: AHashSet<Tuple> = rows.filter_map(tuple).collect();
    let mut began: AHashMap<Tuple, Vec<u64>> = AHashMap::new();
    for conn in story.conns.iter() {
        let tuple = (conn.netns, conn.local, conn.remote);
        if wanted.contains(&tuple) {
            let older = conn.side == Side::Older;
            let start = if older { 0 } else { conn.start_ns };
            began.entry(tuple).or_default().push(start);
        }
    }
    began.values_mut().for_each(|starts| starts.sort_unstable());
    began
}

/// When the thing that a row describes began, ns.
fn moment(story: &Story, row: &Row, connections: &AHashMap<Tuple, Vec<u64>>) -> Option<u64> {
    let time_ns = row.time_ns();
    let known = tuple(row).and_then(|tuple| connections.get(&tuple));
    let began = known.and_then(|starts| {
        let later = starts.partition_point(|start| *start <= time_ns);
        starts.get(later.checked_sub(1)?).copied()
    });
    match row {
        Row::Event(e) => began
            .or(e.connect_ns)
            .or(e.established_ns)
            .or(Some(time_ns)),
        Row::Socket(_) => began.or(Some(time_ns)),
        Row::Call(c) => Some(time_ns.saturating_sub(c.duration_ns)),
        Row::Wait(w) => Some(time_ns.saturating_sub(w.waited_ns)),
        Row::Thread(t) => Some(time_ns.saturating_sub(t.interval_ns)),
        Row::Counter(c) => story.series.first_rise(c.netns, &c.group, &c.name),
        _ => Some(time_ns),
    }
}
