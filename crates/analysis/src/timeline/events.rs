//! How often connections began, failed, retransmitted, were reset and had packets dropped, over time.

use std::collections::BTreeMap;

use recording::tables::Event;
use recording::{Error, Recording, RetransmitKind, Text};

use super::{Axis, Counts};
use crate::Activity;

/// Kinds and reasons counted apart; a kernel has a few hundred.
const MAX_NAMES: usize = 256;

/// Events per bin.
#[derive(Debug)]
pub struct Events {
    /// connect() calls.
    pub opened: Counts,
    /// Connections accepted.
    pub accepted: Counts,
    /// Attempts to connect that failed.
    pub failed: Counts,
    /// SYNs retransmitted.
    pub syns: Counts,
    /// SYN-ACKs retransmitted.
    pub synacks: Counts,
    /// Other segments retransmitted, by what sent them.
    pub retransmits: ByName,
    /// Resets sent.
    pub resets_sent: Counts,
    /// Resets received.
    pub resets_received: Counts,
    /// Packets dropped, by reason.
    pub drops: ByName,
}

/// Events by kind or reason.
#[derive(Debug, Default)]
pub struct ByName(BTreeMap<Text, Counts>);

impl ByName {
    fn add(&mut self, name: &str, bin: usize, axis: Axis) {
        if let Some(counts) = self.0.get_mut(name) {
            counts.add(bin);
            return;
        }
        let name = if self.0.len() < MAX_NAMES {
            name.into()
        } else {
            "other".into()
        };
        let counts = self.0.entry(name).or_insert_with(|| axis.counts());
        counts.add(bin);
    }

    /// The most frequent first.
    pub fn most_frequent(&self) -> Vec<(&Text, &Counts)> {
        let mut all: Vec<(&Text, &Counts)> = self.0.iter().collect();
        all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total()));
        all
    }
}

/// The events of a recording over time.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn events(recording: &Recording, axis: Axis) -> Result<Events, Error> {
    let mut events = Events {
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
            events.add(&event, bin, axis);
        }
    }
    Ok(events)
}

impl Events {
    fn add(&mut self, event: &Event, bin: usize, axis: Axis) {
        let unknown = "unknown";
        match Activity::of(event) {
            Some(Activity::Opened) => self.opened.add(bin),
            Some(Activity::Accepted) => self.accepted.add(bin),
            Some(Activity::Failed) => self.failed.add(bin),
            Some(Activity::SynRetransmitted) => self.syns.add(bin),
            Some(Activity::Retransmitted) => {
                let kind = event.retransmit_kind.as_ref();
                let kind = kind.map_or(unknown, RetransmitKind::as_str);
                self.retransmits.add(kind, bin, axis);
            }
            Some(Activity::SynAckRetransmitted) => self.synacks.add(bin),
            Some(Activity::ResetSent) => self.resets_sent.add(bin),
            Some(Activity::ResetReceived) => self.resets_received.add(bin),
            Some(Activity::Dropped) => {
                let reason = event.reason.as_deref().unwrap_or(unknown);
                self.drops.add(reason, bin, axis);
            }
            Some(Activity::Connected | Activity::Closed) | None => {}
        }
    }
}
