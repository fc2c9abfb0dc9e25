//! C31: TCP as a whole has as much memory as it may.

use analysis::resources::Line;

use crate::finding::RuledOut;
use crate::limits;

use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::TCP_MEMORY_PRESSURE,
    number: "C31",
    title: "TCP has no memory left, or too many orphans",
    page: include_str!("tcp_memory_pressure.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[&[SourceName::Counters], &[SourceName::Resources]],
    seen_from: || {
        "TCP's memory at the second number of net.ipv4.tcp_mem; 5 connections reset for memory"
            .into()
    },
    signature: &[
        "TCP: out of memory -- consider tuning tcp_mem",
        "TCP: too many orphaned sockets",
        "all connections of a host became slow, windows shrank",
        "TCPAbortOnMemory or TCPMemoryPressures rises in nstat",
    ],
    rivals: &[],
    explains: &[],
    told_with: None,
    no: None,
    rule_out,
    symptom: None,
    find: |whole| judge(whole.story).into_iter().collect(),
};

/// By how much more is advised.
const ADVISED_TIMES: u64 = 2;

/// The most that was used of a kind of memory.
fn line<'a>(story: &'a Story, metric: &'a str) -> Option<&'a Line> {
    let mut lines = story.resources.of("socket-memory", metric);
    lines.next().map(|(_, line)| line)
}

/// The rise of a counter over all namespaces, which share the memory.
fn risen(story: &Story, name: &str) -> Quantity {
    let rises = story.counters.rises(name);
    let by: u64 = rises.values().map(|rise| rise.by).sum();
    let rows = rises.values().flat_map(|rise| rise.rows());
    Quantity::times(by).rows(rows.take(SHOWN_ROWS))
}

fn sum(story: &Story, name: &str) -> u64 {
    let rises = story.counters.rises(name);
    rises.values().map(|rise| rise.by).sum()
}

fn judge(story: &Story) -> Option<Finding> {
    let aborted = sum(story, counter::TCP_ABORT_ON_MEMORY);
    let began = sum(story, counter::TCP_MEMORY_PRESSURES);
    let memory = line(story, "tcp_bytes_to_pressure")?;
    let at_mark = memory.share().is_some_and(|share| share >= 1.0);
    // The mark may also be passed between two readings.
    let pressed = at_mark || began > 0;
    if !pressed && aborted < limits::OFTEN.count() {
        return None;
    }
    let (bytes, mark) = (
        Quantity::bytes(memory.most.max(0.0) as u64).rows([memory.row]),
        Quantity::bytes(memory.limit.unwrap_or(0.0).max(0.0) as u64),
    );
    let orphans = line(story, "orphans").filter(|_| !pressed);
    let scope = Scope {
        resource: Some("TCP memory".into()),
        ..Scope::default()
    };
    let of = story.conns.len() as u64;
    let times = Quantity::of(aborted, "connection");
    let says = if pressed {
        format!("Windows shrink and sends wait on all connections; {times} were reset for memory.")
    } else {
        format!("{times} without a process were reset.")
    };
    let affected = if pressed { of } else { aborted };
    Some(
        Case::new(story, CAUSE, scope)
            .title(if pressed { [
                format!("TCP has {bytes} of memory, beyond the mark of {mark}: windows shrink."),
                "TCP is under memory pressure: windows shrink.".into(),
            ] } else { [
                format!("{times} reset for memory: too many without a process (orphans)."),
                format!("{times} reset for memory."),
            ] })
            .fix([if pressed { "Find what holds it (`ss -tm`), or raise net.ipv4.tcp_mem." } else { "Have applications close when peers have read, or raise net.ipv4.tcp_max_orphans." }
            .to_string()])
            .affects(
                Impact::of(affected, of.max(aborted), "connections", says),
                Lost::unknown(),
            )
            .because("the kernel counts when it comes under pressure, and the connections that it resets for memory")
            .at_most_if(
                Level::Medium,
                !at_mark && pressed,
                "no reading found the memory beyond the mark: it lasted less than a second",
            )
            .steps([say!(
                "TCP had {tcp_bytes} at most; the second number of net.ipv4.tcp_mem is {mark}. It came under pressure \
                 {pressures} and reset connections {aborts} (TCPAbortOnMemory).",
                tcp_bytes = bytes,
                mark,
                pressures = risen(story, counter::TCP_MEMORY_PRESSURES),
                aborts = risen(story, counter::TCP_ABORT_ON_MEMORY)
            )])
            .steps(orphans.map(|line| {
                say!(
                    "At most {orphans} connections had no process, of {most} (net.ipv4.tcp_max_orphans).",
                    orphans = Quantity::count(line.most.max(0.0) as u64).rows([line.row]),
                    most = Quantity::count(line.limit.unwrap_or(0.0).max(0.0) as u64)
                )
            }))
            .rules_out([told_apart(story, pressed)])
            .checks(at_mark.then(|| counted(story, began)))
            .advise([advice(story, pressed)])
            .verify("`nstat -az TcpExtTCPMemoryPressures TcpExtTCPAbortOnMemory` no longer rises."),
    )
}

/// What single sockets, or their applications, would show.
fn told_apart(story: &Story, pressed: bool) -> RuledOut {
    if pressed {
        RuledOut::by(
            Id::RECEIVE_QUEUE_PRUNED,
            say!(
                "the limit is on the memory of all sockets: sockets dropped for their own limit {dropped} \
                 (RcvPruned)",
                dropped = risen(story, counter::RCV_PRUNED)
            ),
        )
    } else {
        RuledOut::by(
            Id::RESET_BY_APPLICATION,
            say!(
                "the kernel attributes these resets to memory: {aborts}",
                aborts = risen(story, counter::TCP_ABORT_ON_MEMORY)
            ),
        )
    }
}

/// Memory beyond the mark has been counted as pressure, then or before.
fn counted(story: &Story, began: u64) -> Check {
    let ever = story.counters.rises(counter::TCP_MEMORY_PRESSURES);
    let ever: u64 = ever.values().map(|rise| rise.value).sum();
    Check {
        formula: "memory beyond the mark: the kernel came under pressure at least once (TCPMemoryPressures)".into(),
        expected: 1.0,
        measured: ever.max(began) as f64,
        unit: "times".into(),
        agrees: ever.max(began) >= 1,
        tolerance: "not below it".into(),
    }
}

fn advice(story: &Story, pressed: bool) -> Advice {
    let now = story.settings.get(0, sysctl::TCP_MEM);
    let larger = |nth| {
        now.as_ref()
            .and_then(|v| v.number(nth))
            .map(|n| n.saturating_mul(ADVISED_TIMES))
    };
    let values = [larger(0), larger(1), larger(2)].map(|n| n.map(|n| n.to_string()));
    let values: Option<Vec<String>> = values.into_iter().collect();
    let name = if pressed {
        sysctl::TCP_MEM
    } else {
        sysctl::TCP_MAX_ORPHANS
    };
    let orphans = line(story, "orphans")
        .and_then(|line| line.limit)
        .unwrap_or(65_536.0);
    let known = values.is_some() || !pressed;
    let value = if pressed {
        values.map_or_else(|| "twice the present values".into(), |v| v.join(" "))
    } else {
        (orphans.max(0.0) as u64)
            .saturating_mul(ADVISED_TIMES)
            .to_string()
    };
    // Three numbers for tcp_mem, or none.
    let set = shell!("sysctl -w {name}={value}", name, value = &value);
    let set = set.filter(|_| known);
    Advice::to(format!(
        "Find what holds the memory (`ss -tmn`: Recv-Q, Send-Q and skmem), and stop it; or set {name}=\"{value}\"."
    ))
    .by(set)
    .at("the host's own namespace: one value for all; the numbers of tcp_mem are pages")
    .risk("The kernel's memory cannot be swapped: leave enough for everything else.")
    .effect("Windows grow again, and nothing is reset for memory.")
    .change(Change::Sysctl {
        netns: 0,
        name: name.into(),
        value,
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let Some(memory) = line(story, "tcp_bytes_to_pressure") else {
        return Verdict::cannot("how much memory TCP has was not read");
    };
    let began = say!(
        "TCP had {tcp_bytes} at most, of a mark of {mark}, and came under pressure {pressures}",
        tcp_bytes = Quantity::bytes(memory.most.max(0.0) as u64).rows([memory.row]),
        mark = Quantity::bytes(memory.limit.unwrap_or(0.0).max(0.0) as u64),
        pressures = risen(story, counter::TCP_MEMORY_PRESSURES)
    );
    let aborted = say!(
        "connections were reset for memory {aborts} (TCPAbortOnMemory)",
        aborts = risen(story, counter::TCP_ABORT_ON_MEMORY)
    );
    let sum = |name| sum(story, name) as f64;
    let ways = [
        every([Test::from(
            sum(counter::TCP_MEMORY_PRESSURES),
            &limits::ONE,
            began,
        )]),
        every([Test::from(
            sum(counter::TCP_ABORT_ON_MEMORY),
            &limits::OFTEN,
            aborted,
        )]),
    ];
    Verdict::nearest(ways, NOT_COUNTED)
}

#[cfg(test)]
mod tests;
