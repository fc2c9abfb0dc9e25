//! The chain of a made-up reset: who got it, what it answered, what the other end did.

use analysis::words::{bytes, count, list, plural};

use super::Case;

impl Case<'_> {
    pub(super) fn evidence(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend(self.refused_step());
        steps.extend(self.broken_step());
        steps.extend(self.firewall_step());
        steps.extend(self.other_end_step());
        steps
    }

    fn refused_step(&self) -> Option<Step> {
        let n = self.refused();
        let refused = self.story.all(&self.place.refused);
        let rows = refused.filter_map(|(_, c)| c.refused.map(RowRef::from));
        let step = Step::new(format!(
            "{} to {} got a reset in answer to the SYN.",
            plural(n, "connect"),
            self.at
        ))
        .number("refused", n)
        .number("tried", self.of())
        .rows(rows.take(SHOWN_ROWS));
        (n > 0).then_some(step)
    }

    fn broken_step(&self) -> Option<Step> {
        let n = self.broken();
        let received = &self.story.resets.received;
        let rows = self.place.broken.iter().filter_map(|id| received.get(id));
        let moved = |of: fn(&Conn) -> u64| {
            let ends = self.story.all(&self.place.broken);
            ends.map(|(_, c)| of(c)).fold(0, u64::saturating_add)
        };
        let step = Step::new(format!(
            "{} with {} got a reset in the middle, after {} received and {} sent in all.",
            plural(n, "connection"),
            self.at,
            bytes(moved(|c| c.bytes_received)),
            bytes(moved(|c| c.bytes_acked))
        ))
        .number("broken", n)
        .number("connections", self.of())
        .rows(rows.map(|got| got.row()).take(SHOWN_ROWS));
        (n > 0).then_some(step)
    }

    fn firewall_step(&self) -> Option<Step> {
        let netns = self.firewall()?;
        let rejected = &self.place.rejected;
        let mut places: Vec<String> = Vec::new();
        for location in rejected.iter().filter_map(|r| r.location.as_deref()) {
            if places.len() < SHOWN_ROWS && places.iter().all(|known| known != location) {
                places.push(location.to_string());
            }
        }
        let by = match places.is_empty() {
            true => String::new(),
            false => format!(" in {}", list(&places)),
        };
        let step = Step::new(format!(
            "At the same moment the firewall of {} dropped the packet that {} of these resets \
             answer (NETFILTER_DROP{by}).",
            namespace(&self.story.netns(netns)),
            count(self.rejected())
        ))
        .number("rejected", self.rejected())
        .rows(rejected.iter().map(|r| r.row()).take(SHOWN_ROWS));
        Some(step)
    }

    /// What the kernel of the server's end says of it.
    fn other_end_step(&self) -> Option<Step> {
        let of_peers = self
            .ends()
            .filter_map(|(_, c)| self.story.conn(c.peer?)?.row());
        let listeners = self.ends().filter_map(|(_, c)| {
            let listener = self.story.listeners.all.get(c.listener? as usize)?;
            Some(listener.socks.first()?.last_row)
        });
        let step = Step::new(format!(
            "The other end is on this host, and its kernel sent none of these {}.",
            plural(self.count(), "reset")
        ))
        .number("sent", 0u64)
        .rows(of_peers.chain(listeners).take(SHOWN_ROWS));
        self.place.server_here.then_some(step)
    }
}
use crate::vocabulary::*;
