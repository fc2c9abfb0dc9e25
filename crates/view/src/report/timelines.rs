//! Time lines on one axis: what happened, how full queues and tables were, what the CPUs did.

use analysis::structures::Structure;
use analysis::timeline::{self, Axis, CounterName, Gauge, LoadMetric, SizeId};
use analysis::{AcceptQueue, Endpoint, Story};
use recording::{Error, Recording, Row};

use super::events;
use super::limits::{TELLING, is_pool};
use super::page::{Chart, Line, Timelines};
use super::{Names, line, short};
use crate::numbers::endpoint;

/// Listeners, CPUs, tables and counters that have lines.
const LISTENERS: usize = 6;
const CPUS: usize = 16;
const STRUCTURES: usize = 8;
const COUNTERS: usize = 8;
/// A memory pool has grown when it is this many times as large.
const POOL_GREW: f64 = 1.1;
/// From this share of its limit on, a structure is seen against it.
const NEAR: f64 = 0.5;
/// Names of lines that findings refer to.
pub(super) const SENT: &str = "sent";
pub(super) const RUNNABLE: &str = "runnable threads";

/// All charts of a recording; `evidence` has the rows behind its findings.
pub(super) fn timelines<'a>(
    recording: &Recording,
    story: &Story,
    axis: Axis,
    names: &Names,
    evidence: impl Iterator<Item = &'a Row>,
) -> Result<Timelines, Error> {
    let mut charts = events::charts(&timeline::events(recording, axis)?, axis);
    let wanted = evidence.filter_map(|row| match row {
        Row::Counter(c) => Some((c.netns, c.group.clone(), c.name.clone())),
        _ => None,
    });
    let (throughput, counters) = counters(recording, axis, names, wanted.collect())?;
    let [time_wait, structures] = structures(recording, story, axis, names)?;
    let all = [
        throughput,
        time_wait,
        backlogs(recording, story, axis, names)?,
        structures,
    ];
    charts.extend(all.into_iter().flatten());
    charts.extend(cpus(recording, story, axis)?);
    charts.extend(run_queue(recording, axis)?);
    charts.extend(counters);
    Ok(Timelines {
        bin_s: axis.bin_s(),
        bins: axis.bins as u32,
        charts,
        marks: Vec::new(),
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
    if of > shown {
        format!("The {shown} {what} of {of}.")
    } else {
        String::new()
    }
}

/// The line of a gauge, and that of its limit if it is to be seen against it.
fn against(name: &str, gauge: &Gauge, limit: bool) -> Vec<Line> {
    let mut lines = vec![line(name, gauge.value.values(), 1.0)];
    if limit {
        lines.push(Line {
            limit: true,
            ..line(name, gauge.limit.values(), 1.0)
        });
    }
    lines
}

/// How full accept queues were, for the listeners whose queue came near its limit.
fn backlogs(
    recording: &Recording,
    story: &Story,
    axis: Axis,
    names: &Names,
) -> Result<Option<Chart>, Error> {
    let all = story.listeners.all.iter();
    let all = all.flat_map(|l| {
        let id = move |sock| (l.netns, l.local, sock);
        l.socks
            .iter()
            .map(move |s| (s.fullest().share(), id(s.sock)))
    });
    let mut all: Vec<_> = all.collect();
    let of = all.len();
    all.retain(|(share, _)| *share >= TELLING);
    let healthy = of - all.len();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut note = only_the_first("fullest listeners", LISTENERS, all.len());
    all.truncate(LISTENERS);
    let ids: Vec<_> = all.iter().map(|(_, id)| *id).collect();
    let gauges = timeline::accept_queues(recording, axis, &ids)?;
    let lines = ids.iter().zip(&gauges).map(|((netns, at, _), gauge)| {
        let share = gauge.value.values().zip(gauge.limit.values());
        let share = share.map(|(waiting, backlog)| {
            let queue = AcceptQueue {
                waiting: waiting? as u32,
                backlog: backlog? as u32,
            };
            Some(queue.share() * 100.0)
        });
        line(listener_line(*at, *netns, names), share, 0.1)
    });
    if healthy > 0 {
        let says =
            format!("{healthy} of {of} listeners, which were never a tenth full, are left out.");
        note = format!("{note} {says}").trim().into();
    }
    Ok(chart(
        "backlog",
        "Accept queue fill",
        "%",
        lines.collect(),
        note,
    ))
}

/// The name of a listener's line.
pub(super) fn listener_line(at: Endpoint, netns: u32, names: &Names) -> String {
    format!("{} in {}", endpoint(at.addr, at.port), names.netns(netns))
}

/// The name of a CPU's line.
pub(super) fn cpu_line(cpu: u32) -> String {
    format!("CPU {cpu}")
}

/// The name of a counter's line.
pub(super) fn counter_line(group: &str, name: &str, netns: u32, names: &Names) -> String {
    let name = short(&format!("{group}{name}"));
    format!("{name} ({})", names.netns(netns))
}

/// Entries of TIME_WAIT, and of every other lookup structure.
fn structures(
    recording: &Recording,
    story: &Story,
    axis: Axis,
    names: &Names,
) -> Result<[Option<Chart>; 2], Error> {
    let (time_wait, of_time_wait) = most_grown(story, true);
    let (others, of_others) = most_grown(story, false);
    let mut all = time_wait;
    let first_other = all.len();
    all.extend(others);
    let ids: Vec<SizeId> = all.iter().map(|(id, _)| (*id).clone()).collect();
    let gauges = timeline::sizes(recording, axis, &ids)?;
    let lines = all.iter().zip(&gauges).zip(0..);
    let lines = lines.map(|((((structure, netns), size), gauge), i)| {
        let place = names.netns(*netns);
        let name = if i < first_other {
            place
        } else {
            format!("{} ({place})", short(structure))
        };
        against(&name, gauge, is_near_limit(size))
    });
    let mut time_wait: Vec<Vec<Line>> = lines.collect();
    let others = time_wait.split_off(first_other);
    let drawn = |id, title, unit, lines: Vec<Vec<Line>>, of| {
        let note = only_the_first("that grew most", STRUCTURES, of);
        chart(id, title, unit, lines.concat(), note)
    };
    Ok([
        drawn("time-wait", "TIME_WAIT", "sockets", time_wait, of_time_wait),
        drawn("tables", "Lookup structures", "entries", others, of_others),
    ])
}

/// The structures with a chart, those that came near to their limit or grew most, and how many there are to choose
/// from.
fn most_grown(story: &Story, time_wait: bool) -> (Vec<(&SizeId, &Structure)>, usize) {
    let all = story.structures.all().filter(|((name, _), size)| {
        // Memory pools of the whole kernel are shown only when they grew.
        let most = size.fullest.entries;
        let grew = most as f64 > size.least as f64 * POOL_GREW;
        let tells = most > 0 && (grew || !is_pool(name));
        tells && (&**name == "time-wait") == time_wait
    });
    let mut all: Vec<_> = all.collect();
    let weight = |size: &Structure| (is_near_limit(size), size.range(), size.fullest.entries);
    all.sort_by(|((a_name, a_netns), a), ((b_name, b_netns), b)| {
        let by_name = || (a_netns, a_name).cmp(&(b_netns, b_name));
        weight(b).cmp(&weight(a)).then_with(by_name)
    });
    let of = all.len();
    all.truncate(STRUCTURES);
    (all, of)
}

fn is_near_limit(size: &Structure) -> bool {
    size.fullest.share().is_some_and(|share| share > NEAR)
}

/// How busy the CPUs were, and with softirqs.
fn cpus(recording: &Recording, story: &Story, axis: Axis) -> Result<Vec<Chart>, Error> {
    let all = timeline::cpus(recording, axis, &story.cpus.busiest(CPUS))?;
    let line = |cpu: u32, values| line(cpu_line(cpu), values, 0.1);
    let busy = all.iter().map(|c| line(c.cpu, c.busy.percent_of(&c.all)));
    let softirq = all
        .iter()
        .map(|c| line(c.cpu, c.softirq.percent_of(&c.all)));
    let note = only_the_first("busiest CPUs", CPUS, story.cpus.all().count());
    let busy = chart("cpu", "CPUs, busy", "%", busy.collect(), note.clone());
    let softirq = chart("softirq", "CPUs, in softirqs", "%", softirq.collect(), note);
    Ok([busy, softirq].into_iter().flatten().collect())
}

/// Threads that want to run, and the load.
fn run_queue(recording: &Recording, axis: Axis) -> Result<Option<Chart>, Error> {
    let all = timeline::load(recording, axis)?;
    let lines = all.iter().map(|(metric, gauge)| {
        let name = match metric {
            LoadMetric::Load => "load1",
            LoadMetric::Runnable => RUNNABLE,
        };
        line(name, gauge.value.values(), 0.01)
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
    wanted: Vec<CounterName>,
) -> Result<(Option<Chart>, Option<Chart>), Error> {
    let mut behind: Vec<CounterName> = Vec::new();
    for counter in wanted {
        if behind.len() < COUNTERS && !behind.contains(&counter) {
            behind.push(counter);
        }
    }
    behind.sort();
    let rates = timeline::counters(recording, axis, &behind)?;
    let lines = [(SENT, &rates.sent), ("received", &rates.received)].into_iter();
    let lines = lines.filter(|(_, amounts)| amounts.total() > 0.0);
    let lines = lines.map(|(name, amounts)| line(name, amounts.per_s(), 0.001));
    let which = match rates.folded {
        0 => "All namespaces",
        _ => "The first namespaces",
    };
    let note = format!(
        "{which} together, headers of IP included: what stays on the host counts as sent and as \
         received."
    );
    let throughput = chart("throughput", "Throughput", "Mbit/s", lines.collect(), note);
    let lines = behind.iter().zip(&rates.of);
    let lines = lines.map(|((netns, group, name), amounts)| {
        let name = counter_line(group, name, *netns, names);
        line(name, amounts.per_s(), 0.1)
    });
    let behind = chart(
        "counters",
        "Counters behind the findings",
        "per s",
        lines.collect(),
        String::new(),
    );
    Ok((throughput, behind))
}
