//! For each finding, the line of the time lines that shows its symptom, and from when to when it held.

use std::collections::BTreeMap;

use analysis::Endpoint;
use explain::Explanation;
use recording::{Row, RowRef};

use super::Names;
use super::events::line_of;
use super::page::{Course, Finding, Line, Mark, Timelines};
use super::timelines::{RUNNABLE, SENT, counter_line, cpu_line, listener_line};

/// Findings and stretches that are marked: more would cover what is drawn.
const MAX_MARKED: usize = 6;
const MAX_SPANS: usize = 8;

/// Gives each finding of the page its course and its spans, and marks them in the time lines.
pub(super) fn add(
    findings: &mut [Finding],
    explanation: &Explanation,
    rows: &BTreeMap<RowRef, Row>,
    lines: &mut Timelines,
    names: &Names,
    length_s: f64,
) {
    for (finding, of) in findings.iter_mut().zip(&explanation.findings) {
        finding.course = course(of, rows, lines, names);
        finding.spans = spans(of, finding.course.as_ref(), lines, length_s);
    }
    let marked = findings.iter().zip(0..).take(MAX_MARKED);
    let marks = marked.flat_map(|(finding, i)| {
        finding.spans.iter().map(move |(from, to)| Mark {
            finding: i,
            at_s: *from,
            to_s: *to,
            says: finding.cause.clone(),
        })
    });
    lines.marks = marks.collect();
}

/// The lines that show what a step of its evidence tells of, the first that has some: those that count it,
/// else those of the host as a whole.
fn course(
    finding: &explain::Finding,
    rows: &BTreeMap<RowRef, Row>,
    lines: &Timelines,
    names: &Names,
) -> Option<Course> {
    let steps = || {
        let steps = finding.evidence.iter();
        steps.map(|step| step.rows.iter().filter_map(|at| rows.get(at)))
    };
    let counted = steps().find_map(|told| of_step(told, |row| counted(row, names), lines));
    counted.or_else(|| steps().find_map(|told| of_step(told, of_host, lines)))
}

/// The lines of a step's rows that are in the chart of the first of them.
fn of_step<'r>(
    told: impl Iterator<Item = &'r Row>,
    of_row: impl Fn(&Row) -> Option<(&'static str, String)>,
    lines: &Timelines,
) -> Option<Course> {
    let places = told.filter_map(|row| {
        let (chart, line) = of_row(row)?;
        place(lines, chart, &line)
    });
    let places: Vec<_> = places.collect();
    let chart = places.first()?.0;
    let own = places.iter().filter(|p| p.0 == chart);
    let mut own: Vec<u32> = own.map(|p| p.1).collect();
    own.sort_unstable();
    own.dedup();
    let of = &lines.charts[chart as usize];
    // Levels cannot be added up.
    if of.unit != "per s" {
        own.truncate(1);
    }
    let said: Vec<&str> = own.iter().map(|l| &*of.lines[*l as usize].name).collect();
    Some(Course {
        chart,
        says: format!("{}: {}", of.title, said.join(", ")),
        lines: own,
    })
}

/// The chart, by its id, and the line that a row is counted in.
fn counted(row: &Row, names: &Names) -> Option<(&'static str, String)> {
    Some(match row {
        Row::Event(event) => line_of(event)?,
        Row::Counter(c) => ("counters", counter_line(&c.group, &c.name, c.netns, names)),
        Row::Listener(l) => {
            let at = Endpoint::new(l.local_addr, l.local_port);
            ("backlog", listener_line(at, l.netns, names))
        }
        _ => return None,
    })
}

/// The same for the host, for what has no line of its own: what it sends, how busy a CPU is.
fn of_host(row: &Row) -> Option<(&'static str, String)> {
    Some(match row {
        Row::Socket(_) => ("throughput", SENT.into()),
        Row::Cpu(cpu) => ("cpu", cpu_line(cpu.cpu)),
        Row::Thread(_) | Row::Resource(_) => ("run-queue", RUNNABLE.into()),
        _ => return None,
    })
}

fn place(lines: &Timelines, chart: &str, line: &str) -> Option<(u32, u32)> {
    let (at, chart) = lines
        .charts
        .iter()
        .zip(0..)
        .find_map(|(c, i)| (c.id == chart).then_some((i, c)))?;
    let line = chart
        .lines
        .iter()
        .position(|l| l.name == line && !l.limit)?;
    Some((at, line as u32))
}

/// Its episodes; without any, from its beginning to when its symptom was last seen.
fn spans(
    finding: &explain::Finding,
    course: Option<&Course>,
    lines: &Timelines,
    length_s: f64,
) -> Vec<(f64, f64)> {
    if !finding.episodes.is_empty() {
        let episodes = finding.episodes.iter().take(MAX_SPANS);
        return episodes.map(|e| (e.from_s, e.to_s)).collect();
    }
    let Some(since) = &finding.since else {
        return Vec::new();
    };
    let from = since.after_start_s;
    // Connections that were opened or accepted suffer from the trouble, but are not it: it may last longer.
    let counts = |course: &&Course| {
        let chart = &lines.charts[course.chart as usize];
        chart.unit == "per s"
            && !course.lines.iter().any(|l| {
                let name = &*chart.lines[*l as usize].name;
                chart.id == "connections" && name != "failed"
            })
    };
    let last = course.filter(counts).and_then(|course| {
        let chart = &lines.charts[course.chart as usize];
        let last = course
            .lines
            .iter()
            .map(|l| last_seen(&chart.lines[*l as usize]));
        last.max().flatten()
    });
    let to = match last {
        Some(bin) => ((bin + 1) as f64 * lines.bin_s).min(length_s),
        None => length_s,
    };
    vec![(from, if to > from { to } else { length_s.max(from) })]
}

/// The last bin in which there was any.
fn last_seen(line: &Line) -> Option<usize> {
    let mut sum = 0;
    let values = line.values.deltas.iter().map(|delta| {
        sum += delta.unwrap_or(0);
        delta.is_some() && sum > 0
    });
    values
        .enumerate()
        .filter(|(_, some)| *some)
        .map(|(i, _)| i)
        .last()
}
