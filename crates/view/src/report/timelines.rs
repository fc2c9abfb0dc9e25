//! Time lines on one axis: what happened, how full queues and tables were, what the CPUs did.

use std::collections::BTreeMap;

use recording::tables::{Counter, Cpu, Listener, Resource, TableSize};
use recording::{Addr, Error, Recording, Row, Text};

use super::axis::{Amounts, Axis, Steps};
use super::events::Events;
use super::page::{Chart, Line, Mark, Timelines};
use super::{Names, short};
use crate::numbers::endpoint;

/// Listeners, CPUs, tables and counters that have lines.
const LISTENERS: usize = 6;
const CPUS: usize = 16;
const TABLES: usize = 8;
const COUNTERS: usize = 8;
/// A memory pool has grown when it is so many times as large.
const POOL_GREW: f64 = 1.1;
/// Series followed before the fullest are chosen; beyond, the first ones.
const MAX_SERIES: usize = 2_048;

/// All charts of a recording; `evidence` has the rows behind its findings.
pub(super) fn timelines<'a>(
    recording: &Recording,
    axis: Axis,
    names: &Names,
    evidence: impl Iterator<Item = &'a Row>,
    marks: Vec<Mark>,
) -> Result<Timelines, Error> {
    let mut charts = Events::read(recording, axis)?.charts();
    let wanted = evidence.filter_map(|row| match row {
        Row::Counter(c) => Some((c.netns, format!("{}.{}", c.group, c.name))),
        _ => None,
    });
    let (throughput, counters) = counters(recording, axis, names, wanted.collect())?;
    let [time_wait, structures] = table_sizes(recording, axis, names)?;
    let all = [
        throughput,
        time_wait,
        backlogs(recording, axis, names)?,
        structures,
    ];
    charts.extend(all.into_iter().flatten());
    charts.extend(cpus(recording, axis)?);
    charts.extend(run_queue(recording, axis)?);
    charts.extend(counters);
    Ok(Timelines {
        bin_s: axis.bin_s(),
        bins: axis.bins as u32,
        charts,
        marks,
    })
}

fn chart(id: &str, title: &str, unit: &str, lines: Vec<Line>, note: String) -> Option<Chart> {
    (!lines.is_empty()).then(|| Chart {
        id: id.into(),
        title: title.into(),
        unit: unit.into(),
        lines,
        note,
    })
}

fn only_the_first(what: &str, shown: usize, of: usize) -> String {
    match of {
        MAX_SERIES.. => format!("The {shown} {what} of the first {MAX_SERIES}."),
        of if of > shown => format!("The {shown} {what} of {of}."),
        _ => String::new(),
    }
}

/// Values of one series over time, and when the last one was.
struct Gauge {
    steps: Steps,
    limit: Steps,
    last_ns: Option<u64>,
    /// How full it was at most, against its limit.
    fullness: f64,
}

impl Gauge {
    fn new(axis: Axis) -> Gauge {
        Gauge {
            steps: axis.steps(),
            limit: axis.steps(),
            last_ns: None,
            fullness: 0.0,
        }
    }

    fn add(&mut self, time_ns: u64, value: f64, limit: Option<f64>) {
        let from = self.last_ns.replace(time_ns).unwrap_or(time_ns);
        self.steps.hold(from, time_ns, value);
        if let Some(limit) = limit {
            self.limit.hold(from, time_ns, limit);
            self.fullness = self.fullness.max(value / limit.max(1.0));
        }
    }

    /// The line, with that of the limit when something comes near to it.
    fn lines(&self, name: &str, always: bool) -> Vec<Line> {
        let mut lines = vec![self.steps.line(name, 1.0)];
        if always || self.fullness > 0.5 {
            lines.push(self.limit.limit(name, 1.0));
        }
        lines
    }
}

/// A gauge of a series, if there is room for it.
fn gauge<K: Ord>(all: &mut BTreeMap<K, Gauge>, key: K, axis: Axis) -> Option<&mut Gauge> {
    if all.len() >= MAX_SERIES && !all.contains_key(&key) {
        return None;
    }
    Some(all.entry(key).or_insert_with(|| Gauge::new(axis)))
}

/// How many connections waited for accept(), of the fullest listeners.
fn backlogs(recording: &Recording, axis: Axis, names: &Names) -> Result<Option<Chart>, Error> {
    let mut all: BTreeMap<(u32, Addr, u16, u64), Gauge> = BTreeMap::new();
    for batch in recording.scan::<Listener>()? {
        for (_, l) in batch?.rows() {
            let key = (l.netns, l.local_addr, l.local_port, l.sock);
            if let Some(gauge) = gauge(&mut all, key, axis) {
                gauge.add(l.time_ns, l.accept_queue.into(), Some(l.backlog.into()));
            }
        }
    }
    let of = all.len();
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.fullness.total_cmp(&a.1.fullness));
    all.truncate(LISTENERS);
    let lines = all.iter().flat_map(|((netns, addr, port, _), gauge)| {
        let name = format!("{} in {}", endpoint(*addr, *port), names.netns(*netns));
        gauge.lines(&name, true)
    });
    let note = only_the_first("fullest listeners", LISTENERS, of);
    Ok(chart(
        "backlog",
        "Waiting for accept()",
        "connections",
        lines.collect(),
        note,
    ))
}

/// Lookup structures by namespace and name.
type Structures = BTreeMap<(u32, Text), Gauge>;

/// Entries of TIME_WAIT, and of every other lookup structure.
fn table_sizes(
    recording: &Recording,
    axis: Axis,
    names: &Names,
) -> Result<[Option<Chart>; 2], Error> {
    let (mut time_wait, mut others) = (Structures::new(), Structures::new());
    for batch in recording.scan::<TableSize>()? {
        for (_, t) in batch?.rows() {
            let all = match &*t.structure {
                "time-wait" => &mut time_wait,
                _ => &mut others,
            };
            if let Some(gauge) = gauge(all, (t.netns, t.structure.clone()), axis) {
                gauge.add(t.time_ns, t.entries as f64, t.limit.map(|l| l as f64));
            }
        }
    }
    Ok([
        structures(time_wait, names, true),
        structures(others, names, false),
    ])
}

/// Those that grew most.
fn structures(mut all: Structures, names: &Names, time_wait: bool) -> Option<Chart> {
    let followed = all.len();
    all.retain(|(_, structure), gauge| {
        // Memory pools of the whole kernel are told only when they grew.
        let (least, most) = gauge.steps.range();
        let pool = structure.starts_with("slab:");
        most > 0.0 && (!pool || most > least * POOL_GREW)
    });
    let of = if followed >= MAX_SERIES {
        followed
    } else {
        all.len()
    };
    let mut all: Vec<_> = all.into_iter().collect();
    let weight = |g: &Gauge| {
        let (least, most) = g.steps.range();
        (g.fullness > 0.5, most - least, most)
    };
    all.sort_by(|a, b| {
        let (a, b) = (weight(&a.1), weight(&b.1));
        let by_growth = b.1.total_cmp(&a.1).then(b.2.total_cmp(&a.2));
        b.0.cmp(&a.0).then(by_growth)
    });
    all.truncate(TABLES);
    let lines = all.iter().flat_map(|((netns, structure), gauge)| {
        let place = names.netns(*netns);
        let name = match time_wait {
            true => place,
            false => format!("{} ({place})", short(structure)),
        };
        gauge.lines(&name, false)
    });
    let (id, title, unit) = match time_wait {
        true => ("time-wait", "TIME_WAIT", "sockets"),
        false => ("tables", "Lookup structures", "entries"),
    };
    let note = only_the_first("that grew most", TABLES, of);
    chart(id, title, unit, lines.collect(), note)
}

/// What one CPU did, ms.
struct Usage {
    last: (u64, [u64; 3]),
    busy: Amounts,
    softirq: Amounts,
    all: Amounts,
}

/// How busy the CPUs were, and with softirqs.
fn cpus(recording: &Recording, axis: Axis) -> Result<Vec<Chart>, Error> {
    let mut all: BTreeMap<u32, Usage> = BTreeMap::new();
    for batch in recording.scan::<Cpu>()? {
        for (_, c) in batch?.rows() {
            let sum = |parts: &[u64]| parts.iter().fold(0, |a: u64, b| a.saturating_add(*b));
            let idle = sum(&[c.idle_ms, c.iowait_ms]);
            let parts = [
                c.user_ms,
                c.nice_ms,
                c.system_ms,
                c.irq_ms,
                c.softirq_ms,
                c.steal_ms,
            ];
            let now = (
                c.time_ns,
                [sum(&parts), c.softirq_ms, sum(&parts).saturating_add(idle)],
            );
            if all.len() >= MAX_SERIES && !all.contains_key(&c.cpu) {
                continue;
            }
            let usage = all.entry(c.cpu).or_insert_with(|| Usage {
                last: now,
                busy: axis.amounts(),
                softirq: axis.amounts(),
                all: axis.amounts(),
            });
            let (from, last) = std::mem::replace(&mut usage.last, now);
            let amounts = [&mut usage.busy, &mut usage.softirq, &mut usage.all];
            for ((amount, now), last) in amounts.into_iter().zip(now.1).zip(last) {
                if from < c.time_ns {
                    amount.spread(from, c.time_ns, now.saturating_sub(last) as f64);
                }
            }
        }
    }
    let of = all.len();
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.busy.total().total_cmp(&a.1.busy.total()));
    all.truncate(CPUS);
    all.sort_by_key(|(cpu, _)| *cpu);
    let lines = |part: fn(&Usage) -> &Amounts| -> Vec<Line> {
        let line =
            |(cpu, usage): &(u32, Usage)| part(usage).share_line(&usage.all, format!("CPU {cpu}"));
        all.iter().map(line).collect()
    };
    let note = only_the_first("busiest CPUs", CPUS, of);
    let busy = chart("cpu", "CPUs, busy", "%", lines(|u| &u.busy), note.clone());
    let softirq = chart(
        "softirq",
        "CPUs, in softirqs",
        "%",
        lines(|u| &u.softirq),
        note,
    );
    Ok([busy, softirq].into_iter().flatten().collect())
}

/// Threads that want to run, and the load.
fn run_queue(recording: &Recording, axis: Axis) -> Result<Option<Chart>, Error> {
    const METRICS: &[&str] = &["runnable_threads", "load1"];
    let mut all: BTreeMap<&str, Gauge> = BTreeMap::new();
    for batch in recording.scan::<Resource>()? {
        for (_, r) in batch?.rows() {
            let metric = METRICS.iter().find(|m| **m == &*r.metric);
            if let (Some(metric), "cpu") = (metric, &*r.resource)
                && let Some(gauge) = gauge(&mut all, *metric, axis)
            {
                gauge.add(r.time_ns, r.value, None);
            }
        }
    }
    let lines = all.iter().map(|(metric, gauge)| {
        let name = metric.replace('_', " ");
        gauge.steps.line(name, 0.01)
    });
    Ok(chart(
        "run-queue",
        "Run queue and load",
        "threads",
        lines.collect(),
        String::new(),
    ))
}

/// Throughput of the host's interfaces by IP's own counters, and the counters behind findings.
fn counters(
    recording: &Recording,
    axis: Axis,
    names: &Names,
    wanted: Vec<(u32, String)>,
) -> Result<(Option<Chart>, Option<Chart>), Error> {
    let mut last_sample: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut octets = [axis.amounts(), axis.amounts()];
    let mut behind: BTreeMap<(u32, String), Amounts> = BTreeMap::new();
    for key in wanted {
        if behind.len() < COUNTERS || behind.contains_key(&key) {
            behind.insert(key, axis.amounts());
        }
    }
    for batch in recording.scan::<Counter>()? {
        for (_, c) in batch?.rows() {
            // The counters of a sample are read within some ms of each other.
            const ONE_SAMPLE: u64 = 50_000_000;
            if last_sample.len() >= MAX_SERIES && !last_sample.contains_key(&c.netns) {
                continue;
            }
            let sample = last_sample.entry(c.netns).or_insert((c.time_ns, c.time_ns));
            if c.time_ns > sample.1.saturating_add(ONE_SAMPLE) {
                *sample = (sample.1, c.time_ns);
            }
            let (from, to) = *sample;
            let Some(delta) = c.delta.filter(|_| from < to) else {
                continue;
            };
            match (&*c.group, &*c.name) {
                ("IpExt", "OutOctets") => octets[0].spread(from, to, delta as f64 * 8e-6),
                ("IpExt", "InOctets") => octets[1].spread(from, to, delta as f64 * 8e-6),
                _ => {}
            }
            if !behind.is_empty()
                && let Some(amounts) = behind.get_mut(&(c.netns, format!("{}.{}", c.group, c.name)))
            {
                amounts.spread(from, to, delta as f64);
            }
        }
    }
    let lines = ["sent", "received"].into_iter().zip(&octets);
    let lines = lines.filter(|(_, amounts)| amounts.total() > 0.0);
    let lines = lines.map(|(name, amounts)| amounts.line(name, 0.001));
    let which = match last_sample.len() {
        MAX_SERIES.. => format!("The first {MAX_SERIES} namespaces"),
        _ => "All namespaces".into(),
    };
    let note = format!(
        "{which} together, headers of IP included: what stays on the host counts as sent and as \
         received."
    );
    let throughput = chart("throughput", "Throughput", "Mbit/s", lines.collect(), note);
    let lines = behind.iter().map(|((netns, name), amounts)| {
        let name = short(&name.replace('.', ""));
        let name = format!("{name} ({})", names.netns(*netns));
        amounts.line(name, 0.1)
    });
    let lines = lines.collect();
    let note = String::new();
    let behind = chart(
        "counters",
        "Counters behind the findings",
        "per s",
        lines,
        note,
    );
    Ok((throughput, behind))
}
