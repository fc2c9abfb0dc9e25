//! Which connections are forgotten when there are more than are kept: those that are over and had no trouble.

use ahash::AHashSet;

use super::conn::{Conn, ConnId, Sampled};
use super::connections::Connections;

/// Making room for so small a part of all is not worth the work.
const LEAST_PART: usize = 8;
/// The largest part forgotten at a time, as long as more than that had no trouble.
const LARGEST_PART: usize = 2;
/// A socket's sample may come this long after its end, ns: until then its end is remembered.
const LATE_NS: u64 = 1_000_000_000;
/// The new id of a connection that is gone.
const GONE: ConnId = ConnId::MAX;

/// The new ids of connections, by their old ones.
#[derive(Debug)]
pub(super) struct Moved(Vec<ConnId>);

impl Moved {
    /// The id that it has now; `None` when it is gone.
    pub(super) fn to(&self, id: ConnId) -> Option<ConnId> {
        let to = self.0.get(id as usize).copied()?;
        (to != GONE).then_some(to)
    }
}

/// How much happened to a connection that may be asked about.
fn trouble(conn: &Conn) -> u32 {
    let odd = conn.failed()
        || conn.refused.is_some()
        || conn.cookie == Some(true)
        || conn.agreed.is_some_and(|agreed| agreed.bare());
    let repeated = conn.syn_retries.saturating_add(conn.retransmits);
    repeated.saturating_add(odd.into())
}

impl Connections {
    /// Whether there is no room for another connection, and some can be made.
    pub(super) fn wants_room(&self) -> bool {
        self.all.len() >= self.most && self.ended >= self.most / LEAST_PART
    }

    /// Forgets connections that have ended: first those with no trouble at either end, the oldest first among equals.
    /// `reset` are those that a reset ended. `tell` gets each before it goes.
    pub(super) fn make_room(
        &mut self,
        now_ns: u64,
        reset: &AHashSet<ConnId>,
        mut tell: impl FnMut(&Conn, Option<&Sampled>),
    ) -> Option<Moved> {
        let of_one = |id: ConnId| {
            let conn = &self.all[id as usize];
            trouble(conn).saturating_add(reset.contains(&id).into())
        };
        let mut over: Vec<(u32, ConnId)> = Vec::new();
        for (conn, id) in self.all.iter().zip(0..) {
            let since = conn.ended_ns.map(|ns| now_ns.saturating_sub(ns));
            if since.is_some_and(|ns| ns > LATE_NS) {
                let peer = conn.peer.map_or(0, of_one);
                over.push((of_one(id).max(peer), id));
            }
        }
        let least = (self.most / LEAST_PART).max(1);
        if over.len() < least {
            // Look again when as many more have ended.
            self.ended = 0;
            return None;
        }
        let well = over.iter().filter(|(trouble, _)| *trouble == 0).count();
        let most = (self.most / LARGEST_PART).max(least);
        let n = well.clamp(least, most).min(over.len());
        over.select_nth_unstable(n - 1);
        let mut moved: Vec<ConnId> = vec![0; self.all.len()];
        for (_, id) in &over[..n] {
            moved[*id as usize] = GONE;
            let conn = &self.all[*id as usize];
            tell(
                conn,
                conn.sampled.and_then(|i| self.samples.get(i as usize)),
            );
        }
        self.folded += n as u64;
        self.ended = over.len() - n;
        let stay = moved.iter_mut().filter(|to| **to != GONE);
        stay.zip(0..).for_each(|(to, id)| *to = id);
        let moved = Moved(moved);
        self.renumber(&moved);
        Some(moved)
    }

    fn renumber(&mut self, moved: &Moved) {
        let mut id = 0..;
        self.all
            .retain(|_| id.next().and_then(|id| moved.to(id)).is_some());
        let mut samples = Vec::new();
        for conn in &mut self.all {
            conn.peer = conn.peer.and_then(|peer| moved.to(peer));
            if let Some(sampled) = &mut conn.sampled {
                samples.push(self.samples[*sampled as usize].clone());
                *sampled = samples.len() as u32 - 1;
            }
        }
        self.samples = samples;
        let stays = |id: &mut ConnId| moved.to(*id).map(|to| *id = to).is_some();
        self.of_sock.retain(|_, id| stays(id));
        self.pairs.renumber(stays);
        self.unowned.retain(|_, id| stays(id));
    }
}

#[cfg(test)]
mod tests;
