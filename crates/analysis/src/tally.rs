//! Totals over all events: what the summary says of a recording in which nothing is wrong.

use std::collections::BTreeMap;

use recording::RetransmitKind;
use recording::tables::Event;

use crate::Activity;

/// Distinct reasons and kinds counted apart; a kernel has some hundred.
const MAX_NAMES: usize = 1_000;

/// Totals.
#[derive(Debug, Default)]
pub struct Tally {
    /// Events of every kind.
    pub events: u64,
    /// SYNs retransmitted.
    pub syn_retries: u64,
    /// SYN-ACKs retransmitted.
    pub synack_retries: u64,
    /// Segments retransmitted after the handshake, by what sent them.
    pub retransmits: BTreeMap<String, u64>,
    /// Resets sent, by reason.
    pub resets_sent: BTreeMap<String, u64>,
    /// Resets received.
    pub resets_received: u64,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Connections beyond the bound, counted and not examined.
    pub folded: u64,
    /// Samples of connections of which there were too many to keep those of each.
    pub unsampled: u64,
}

impl Tally {
    pub(crate) fn event(&mut self, activity: Option<Activity>, row: &Event) {
        self.events += 1;
        match activity {
            Some(Activity::SynRetransmitted) => self.syn_retries += 1,
            Some(Activity::Retransmitted) => count(
                &mut self.retransmits,
                row.retransmit_kind.as_ref().map(RetransmitKind::as_str),
            ),
            Some(Activity::SynAckRetransmitted) => self.synack_retries += 1,
            Some(Activity::ResetSent) => count(&mut self.resets_sent, row.reason.as_deref()),
            Some(Activity::ResetReceived) => self.resets_received += 1,
            Some(Activity::Dropped) => count(&mut self.drops, row.reason.as_deref()),
            _ => {}
        }
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
