//! The events of the time lines: connections, what was retransmitted, resets, drops.

use analysis::Activity;
use analysis::timeline::{Axis, ByName, Counts, Events};
use recording::RetransmitKind;
use recording::tables::Event;

use super::page::{Chart, Line};
use super::{line, short};

/// Reasons of drops that have a line of their own.
const TOLD: usize = 5;

/// The line of a rate per second.
fn rate(name: impl Into<String>, counts: &Counts, axis: Axis) -> Line {
    line(name, counts.per_s(axis), 0.1)
}

/// A line for each kind or reason, the most frequent first; those beyond `told` as one.
fn by_name(all: &ByName, told: usize, axis: Axis) -> Vec<Line> {
    let all = all.most_frequent();
    let (first, rest) = all.split_at(told.min(all.len()));
    let named = first
        .iter()
        .map(|(name, counts)| rate(short(name), counts, axis));
    let mut lines: Vec<Line> = named.collect();
    if !rest.is_empty() {
        let mut others = axis.counts();
        rest.iter().for_each(|(_, counts)| others.join(counts));
        lines.push(rate(format!("{} others", rest.len()), &others, axis));
    }
    lines
}

/// The chart and the line that count an event, by the chart's id.
pub(super) fn line_of(event: &Event) -> Option<(&'static str, String)> {
    let unknown = "unknown";
    let (chart, line) = match Activity::of(event)? {
        Activity::Opened | Activity::Connected => ("connections", "opened"),
        Activity::Accepted => ("connections", "accepted"),
        Activity::Failed => ("connections", "failed"),
        Activity::SynRetransmitted => ("retransmits", "SYN"),
        Activity::SynAckRetransmitted => ("retransmits", "SYN-ACK"),
        Activity::Retransmitted => {
            let kind = event.retransmit_kind.as_ref();
            ("retransmits", kind.map_or(unknown, RetransmitKind::as_str))
        }
        Activity::ResetSent => ("resets", "sent"),
        Activity::ResetReceived => ("resets", "received"),
        Activity::Dropped => ("drops", event.reason.as_deref().unwrap_or(unknown)),
        Activity::Closed => return None,
    };
    Some((chart, short(line)))
}

/// The charts; one without any event is left out.
pub(super) fn charts(events: &Events, axis: Axis) -> Vec<Chart> {
    let lines = |named: &[(&str, &Counts)]| -> Vec<Line> {
        let some = named.iter().filter(|(_, counts)| counts.total() > 0);
        some.map(|(name, counts)| rate(*name, counts, axis))
            .collect()
    };
    let mut sent_again = lines(&[("SYN", &events.syns), ("SYN-ACK", &events.synacks)]);
    sent_again.extend(by_name(&events.retransmits, usize::MAX, axis));
    let chart = |id: &str, title: &str, lines| Chart {
        id: id.into(),
        title: title.into(),
        unit: "per s".into(),
        lines,
        note: String::new(),
    };
    let charts = [
        chart(
            "connections",
            "Connections",
            lines(&[
                ("opened", &events.opened),
                ("accepted", &events.accepted),
                ("failed", &events.failed),
            ]),
        ),
        chart("retransmits", "Retransmitted", sent_again),
        chart(
            "resets",
            "Resets",
            lines(&[
                ("sent", &events.resets_sent),
                ("received", &events.resets_received),
            ]),
        ),
        chart(
            "drops",
            "Packets dropped, by reason",
            by_name(&events.drops, TOLD, axis),
        ),
    ];
    charts.into_iter().filter(|c| !c.lines.is_empty()).collect()
}
