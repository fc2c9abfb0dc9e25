//! Connections ended by resets, by their ends on this host: who sent the resets, and what they answered.

use std::collections::BTreeSet;

use analysis::{Conn, ConnId, Rejected, Sent, Side, Story, Why};
use recording::{RowRef, SourceName};

use crate::finding::Step;
use crate::limits;
use crate::place::Place;
use crate::places::listener::SHOWN_ROWS;
use crate::say::{Quantity, say};

/// Ends of connections that resets ended.
#[derive(Clone)]
pub(crate) struct ResetEnds<'a> {
    pub(crate) story: &'a Story,
    /// Connects that a reset answered.
    pub(crate) refused: Vec<ConnId>,
    /// Ends of connections that had been established.
    pub(crate) broken: Vec<ConnId>,
}

impl<'a> ResetEnds<'a> {
    pub(crate) fn none(story: &'a Story) -> ResetEnds<'a> {
        let (refused, broken) = (Vec::new(), Vec::new());
        ResetEnds {
            story,
            refused,
            broken,
        }
    }

    pub(crate) fn of(story: &'a Story, ids: &[ConnId]) -> ResetEnds<'a> {
        let mut ends = ResetEnds::none(story);
        for (id, conn) in story.all(ids) {
            if conn.refused.is_some() && conn.side == Side::Opened {
                ends.refused.push(id)
            } else {
                ends.broken.push(id)
            }
        }
        ends
    }

    /// The ends, for rivals.
    pub(crate) fn place(&self) -> Place {
        Place::Resets(self.ids().collect())
    }

    fn ids(&self) -> impl Iterator<Item = ConnId> + Clone + '_ {
        self.refused.iter().chain(&self.broken).copied()
    }

    /// The ends, the refused first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ConnId, &'a Conn)> + Clone + '_ {
        self.ids().filter_map(|id| Some((id, self.story.conn(id)?)))
    }

    pub(crate) fn count(&self) -> u64 {
        (self.refused.len() + self.broken.len()) as u64
    }

    /// The resets that answered a packet which a firewall of this host dropped.
    pub(crate) fn rejected(&self) -> Vec<&'a Rejected> {
        let resets = &self.story.resets;
        let rejected = self.all().filter_map(|(id, conn)| {
            let got = resets.received.get(&id).filter(|_| conn.refused.is_none());
            let ended_ns = conn.ended_ns.unwrap_or(conn.start_ns);
            resets.rejected(conn, got.map_or(ended_ns, |got| got.time_ns))
        });
        rejected.collect()
    }

    /// The server's end is on this host: its kernel would have reported a reset of its own.
    pub(crate) fn server_here(&self) -> bool {
        self.all()
            .any(|(_, c)| c.peer.is_some() || c.listener.is_some())
    }

    /// Rows that show it: of the server's ends, else of its listener.
    pub(crate) fn server_rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        let peers = self
            .all()
            .filter_map(|(_, c)| self.story.conn(c.peer?)?.row());
        let listeners = self.all().filter_map(|(_, c)| {
            let listener = self.story.listeners.all.get(c.listener? as usize)?;
            Some(listener.socks.first()?.last_row)
        });
        peers.chain(listeners).take(SHOWN_ROWS)
    }

    /// Rows of the resets that were received.
    pub(crate) fn received_rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        let resets = &self.story.resets;
        let rows = self.all().filter_map(|(id, conn)| {
            let answered = conn.refused.map(RowRef::from);
            answered.or_else(|| Some(resets.got(id)?.row()))
        });
        rows.take(SHOWN_ROWS)
    }

    /// The resets that sockets of this host sent on these connections, from either end.
    pub(crate) fn sent(&self) -> Vec<&'a Sent> {
        let either = self.all().flat_map(|(id, c)| [Some(id), c.peer]);
        let ours: BTreeSet<ConnId> = either.flatten().collect();
        let sent = self.story.resets.sent.iter();
        sent.filter(|s| s.conn.is_some_and(|id| ours.contains(&id)))
            .collect()
    }

    /// That sockets of this host sent none of these resets for these reasons.
    pub(crate) fn none_sent(&self, whys: &[Why], reasons: &str) -> Option<Step> {
        let resets = &self.story.resets;
        let known = self.story.health.has(&SourceName::ResetsSent) && resets.folded == 0;
        let here = self.sent().iter().filter(|s| whys.contains(&s.why)).count();
        let all = resets.sent.iter().filter(|s| whys.contains(&s.why));
        let rows = all.clone().map(Sent::row).take(SHOWN_ROWS);
        let sent = Quantity::of(all.clone().count() as u64, "reset").rows(rows);
        (known && here == 0).then(|| {
            say!(
                "sockets of this host sent {sent} for {reasons}, none of them on these connections",
                sent
            )
        })
    }

    /// That SYNs were answered, or connections even established: nothing dropped SYNs.
    pub(crate) fn answered(&self) -> Option<Step> {
        if self.refused.is_empty() {
            let established = Quantity::of(self.broken.len() as u64, "connection");
            let established = established.rows(self.received_rows());
            return Some(say!("{established} had been established", established));
        }
        let retries = self.story.all(&self.refused);
        let retries: u64 = retries.map(|(_, c)| u64::from(c.syn_retries)).sum();
        let refused = self.refused.len() as u64;
        let answered = Quantity::of(refused, "connect").rows(self.received_rows());
        let syn_retries = Quantity::of(retries, "SYN");
        (!limits::MOST.reached(retries, refused)).then(|| {
            say!(
                "{answered} got a reset in response, with {syn_retries} retransmitted before",
                answered,
                syn_retries
            )
        })
    }
}
