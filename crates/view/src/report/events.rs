//! The events of the time lines: connections, what was retransmitted, resets, drops.

use std::collections::BTreeMap;

use analysis::Activity;
use analysis::timeline::{Axis, Counts};
use recording::tables::Event;
use recording::{Error, Recording, RetransmitKind, Text};

use super::page::{Chart, Line};
use super::{line, short};

/// Reasons of drops that have a line of their own.
const TOLD: usize = 5;
/// Kinds and reasons counted apart; a kernel has some hundred.
const MAX_NAMES: usize = 256;

/// Events per bin.
pub(super) struct Events {
    axis: Axis,
    opened: Counts,
    accepted: Counts,
    failed: Counts,
    syns: Counts,
    synacks: Counts,
    retransmits: ByName,
    resets_sent: Counts,
    resets_received: Counts,
    drops: ByName,
}

/// The line of a rate per second.
fn rate(name: impl Into<String>, counts: &Counts, axis: Axis) -> Line {
    line(name, counts.per_s(axis), 0.1)
}

/// Events by kind or reason.
#[derive(Default)]
struct ByName(BTreeMap<Text, Counts>);

impl ByName {
    fn add(&mut self, name: &str, bin: usize, axis: Axis) {
        if let Some(counts) = self.0.get_mut(name) {
            counts.add(bin);
            return;
        }
        let name = match self.0.len() < MAX_NAMES {
            true => name.into(),
            false => "other".into(),
        };
        let counts = self.0.entry(name).or_insert_with(|| axis.counts());
        counts.add(bin);
    }

    /// A line each, the most frequent first; those beyond `told` as one.
    fn lines(&self, told: usize, axis: Axis) -> Vec<Line> {
        let mut all: Vec<(&Text, &Counts)> = self.0.iter().collect();
        all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total()));
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

impl Events {
    /// Reads them all once.
    pub(super) fn read(recording: &Recording, axis: Axis) -> Result<Events, Error> {
        let mut events = Events {
            axis,
            opened: axis.counts(),
            accepted: axis.counts(),
            failed: axis.counts(),
            syns: axis.counts(),
            synacks: axis.counts(),
            retransmits: ByName::default(),
            resets_sent: axis.counts(),
            resets_received: axis.counts(),
            drops: ByName::default(),
        };
        for event in recording.events()? {
            let (_, event) = event?;
            if let Some(bin) = axis.bin(event.time_ns) {
                events.add(&event, bin);
            }
        }
        Ok(events)
    }

    fn add(&mut self, event: &Event, bin: usize) {
        let unknown = "unknown";
        match Activity::of(event) {
            Some(Activity::Opened) => self.opened.add(bin),
            Some(Activity::Accepted) => self.accepted.add(bin),
            Some(Activity::Failed) => self.failed.add(bin),
            Some(Activity::SynRetransmitted) => self.syns.add(bin),
            Some(Activity::Retransmitted) => {
                let kind = event.retransmit_kind.as_ref();
                let kind = kind.map_or(unknown, RetransmitKind::as_str);
                self.retransmits.add(kind, bin, self.axis);
            }
            Some(Activity::SynAckRetransmitted) => self.synacks.add(bin),
            Some(Activity::ResetSent) => self.resets_sent.add(bin),
            Some(Activity::ResetReceived) => self.resets_received.add(bin),
            Some(Activity::Dropped) => {
                let reason = event.reason.as_deref().unwrap_or(unknown);
                self.drops.add(reason, bin, self.axis);
            }
            Some(Activity::Connected | Activity::Closed) | None => {}
        }
    }

    /// The charts; one without any event is left out.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let axis = self.axis;
        let lines = |named: &[(&str, &Counts)]| -> Vec<Line> {
            let some = named.iter().filter(|(_, counts)| counts.total() > 0);
            some.map(|(name, counts)| rate(*name, counts, axis))
                .collect()
        };
        let mut sent_again = lines(&[("SYN", &self.syns), ("SYN-ACK", &self.synacks)]);
        sent_again.extend(self.retransmits.lines(MAX_NAMES, axis));
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
                    ("opened", &self.opened),
                    ("accepted", &self.accepted),
                    ("failed", &self.failed),
                ]),
            ),
            chart("retransmits", "Retransmitted", sent_again),
            chart(
                "resets",
                "Resets",
                lines(&[
                    ("sent", &self.resets_sent),
                    ("received", &self.resets_received),
                ]),
            ),
            chart(
                "drops",
                "Packets dropped, by reason",
                self.drops.lines(TOLD, axis),
            ),
        ];
        charts.into_iter().filter(|c| !c.lines.is_empty()).collect()
    }
}
