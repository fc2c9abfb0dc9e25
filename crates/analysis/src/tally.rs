//! Totals over all events: what the summary says of a recording in which nothing is wrong.

use std::collections::BTreeMap;

use ahash::AHashMap;
use recording::tables::Event;
use recording::{RetransmitKind, SourceName};

use crate::{Activity, Endpoint};

/// Distinct reasons and kinds counted apart; a kernel has a few hundred.
const MAX_NAMES: usize = 1_000;

/// Places counted apart per reason.
const MAX_PLACES: usize = 1_000;

/// How often, and where.
#[derive(Debug, Default)]
pub struct Places {
    /// In all.
    pub count: u64,
    /// By network namespace and local end: the destination of a packet that was dropped, the sender of a reset. Those
    /// beyond a bound are in `count` alone.
    at: AHashMap<(u32, Endpoint), u64>,
}

impl Places {
    fn add(&mut self, row: &Event) {
        self.count += 1;
        let at = (row.netns, Endpoint::new(row.local_addr, row.local_port));
        let room = self.at.len() < MAX_PLACES;
        match self.at.get_mut(&at) {
            Some(n) => *n += 1,
            None if room => drop(self.at.insert(at, 1)),
            None => {}
        }
    }

    /// The place with most, if it has more than half.
    pub fn most(&self) -> Option<(u32, Endpoint)> {
        let (at, n) = self.at.iter().max_by_key(|(at, n)| (**n, **at))?;
        (n * 2 > self.count).then_some(*at)
    }

    /// The namespace that all of it was in, as far as it was counted apart.
    pub fn netns(&self) -> Option<u32> {
        let mut all = self.at.keys().map(|(netns, _)| *netns);
        let first = all.next()?;
        all.all(|netns| netns == first).then_some(first)
    }
}

/// Totals.
#[derive(Debug, Default)]
pub struct Tally {
    /// Events of every kind.
    pub events: u64,
    /// The same by source.
    pub by_source: BTreeMap<SourceName, u64>,
    /// SYNs retransmitted.
    pub syn_retries: u64,
    /// SYN-ACKs retransmitted.
    pub synack_retries: u64,
    /// Segments retransmitted after the handshake, by what sent them.
    pub retransmits: BTreeMap<String, u64>,
    /// Resets sent, by reason.
    pub resets_sent: BTreeMap<String, Places>,
    /// Resets received.
    pub resets_received: u64,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, Places>,
    /// Connections beyond the bound, counted and not examined.
    pub folded: u64,
    /// Samples not kept, because there were too many connections to keep those of each.
    pub unsampled: u64,
}

impl Tally {
    pub(crate) fn event(&mut self, activity: Option<Activity>, row: &Event) {
        self.events += 1;
        if let Some(source) = row.kind.source() {
            *self.by_source.entry(source).or_default() += 1;
        }
        match activity {
            Some(Activity::SynRetransmitted) => self.syn_retries += 1,
            Some(Activity::Retransmitted) => count(
                &mut self.retransmits,
                row.retransmit_kind.as_ref().map(RetransmitKind::as_str),
            ),
            Some(Activity::SynAckRetransmitted) => self.synack_retries += 1,
            Some(Activity::ResetSent) => place(&mut self.resets_sent, row),
            Some(Activity::ResetReceived) => self.resets_received += 1,
            Some(Activity::Dropped) => place(&mut self.drops, row),
            _ => {}
        }
    }
}

fn place(names: &mut BTreeMap<String, Places>, row: &Event) {
    let name = row.reason.as_deref().unwrap_or("unknown");
    if let Some(places) = names.get_mut(name) {
        places.add(row);
    } else if names.len() < MAX_NAMES {
        names.entry(name.to_string()).or_default().add(row);
    }
}

fn count(names: &mut BTreeMap<String, u64>, name: Option<&str>) {
    let name = name.unwrap_or("unknown");
    if let Some(n) = names.get_mut(name) {
        *n += 1;
    } else if names.len() < MAX_NAMES {
        names.insert(name.to_string(), 1);
    }
}
