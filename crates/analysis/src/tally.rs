//! Totals over all events: what the summary says of a recording in which nothing is wrong.

use std::collections::BTreeMap;

use recording::tables::Event;
use recording::{EventKind, RetransmitKind, TcpState};

/// Distinct reasons and kinds counted apart; a kernel has some hundred.
const MAX_NAMES: usize = 1_000;

/// Totals.
#[derive(Debug, Default)]
pub struct Tally {
    /// Events of every kind.
    pub events: u64,
    /// SYNs sent again.
    pub syn_retries: u64,
    /// SYN-ACKs sent again.
    pub synack_retries: u64,
    /// Segments sent again after the handshake, by what sent them.
    pub retransmits: BTreeMap<String, u64>,
    /// Resets sent, by reason.
    pub resets_sent: BTreeMap<String, u64>,
    /// Resets received.
    pub resets_received: u64,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Connections beyond the bound, counted and not examined.
    pub folded: u64,
}

impl Tally {
    pub(crate) fn event(&mut self, kind: &EventKind, state: &TcpState, row: &Event) {
        self.events += 1;
        match kind {
            EventKind::Retransmit if *state == TcpState::SynSent => self.syn_retries += 1,
            EventKind::Retransmit => count(
                &mut self.retransmits,
                row.retransmit_kind.as_ref().map(RetransmitKind::as_str),
            ),
            EventKind::SynAckRetransmit => self.synack_retries += 1,
            EventKind::ResetSent => count(&mut self.resets_sent, row.reason.as_deref()),
            EventKind::ResetReceived => self.resets_received += 1,
            EventKind::Drop => count(&mut self.drops, row.reason.as_deref()),
            EventKind::State | EventKind::Unknown(_) => {}
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
