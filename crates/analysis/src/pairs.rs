//! Which two ends on this host are those of one connection.
//!
//! Addresses alone do not tell: 127.0.0.1 is in every namespace, bridges of containers use the same addresses
//! again, and what is translated on the way (a Service, a load balancer) has other ones at each end. The two
//! initial sequence numbers tell all of them apart, for ends that were sampled.

use ahash::AHashMap;

use super::conn::{Conn, ConnId, Isns, Sampled, Side};
use super::place::Endpoint;

/// Local and remote address of an end; and its namespace, where they mean nothing outside of it.
type Tuple = (Option<u32>, Endpoint, Endpoint);

/// Ends that wait for their other end.
#[derive(Debug, Default)]
pub struct Pairs {
    waiting: AHashMap<Tuple, ConnId>,
    /// Ends whose addresses another end had first.
    same: AHashMap<Tuple, Vec<ConnId>>,
}

fn tuple(conn: &Conn) -> Tuple {
    let inside = conn.local.is_loopback() || conn.remote.is_loopback();
    (inside.then_some(conn.netns), conn.local, conn.remote)
}

fn mirrored((inside, local, remote): Tuple) -> Tuple {
    (inside, remote, local)
}

fn join(conns: &mut [Conn], one: ConnId, other: ConnId) {
    conns[one as usize].peer = Some(other);
    conns[other as usize].peer = Some(one);
}

impl Pairs {
    /// An end was seen to be established: its other end is the one waiting for it.
    pub fn established(&mut self, id: ConnId, conns: &mut [Conn]) {
        let tuple = tuple(&conns[id as usize]);
        match self.only(mirrored(tuple), id, conns) {
            Some(other) => {
                self.forget(other, conns);
                join(conns, id, other);
            }
            None => self.wait(id, conns),
        }
    }

    /// An end older than the recording waits until the last: the order in which namespaces are sampled means nothing.
    pub fn wait(&mut self, id: ConnId, conns: &[Conn]) {
        let tuple = tuple(&conns[id as usize]);
        if *self.waiting.entry(tuple).or_insert(id) != id {
            self.same.entry(tuple).or_default().push(id);
        }
    }

    /// An end has ended: the next with its addresses belongs to another connection. One older than the recording
    /// existed together with all others that are older.
    pub fn ended(&mut self, id: ConnId, conns: &[Conn]) {
        if conns[id as usize].side != Side::Older {
            self.forget(id, conns);
        }
    }

    fn forget(&mut self, id: ConnId, conns: &[Conn]) {
        let tuple = tuple(&conns[id as usize]);
        if let Some(others) = self.same.get_mut(&tuple) {
            others.retain(|other| *other != id);
        }
        if self.waiting.get(&tuple) == Some(&id) {
            let next = self.same.get_mut(&tuple).and_then(Vec::pop);
            match next {
                Some(next) => self.waiting.insert(tuple, next),
                None => self.waiting.remove(&tuple),
            };
        }
        if self.same.get(&tuple).is_some_and(Vec::is_empty) {
            self.same.remove(&tuple);
        }
    }

    /// Ends have new ids, which `stays` fills in; it is false for one that is gone.
    pub fn renumber(&mut self, stays: impl Fn(&mut ConnId) -> bool) {
        self.waiting.retain(|_, id| stays(id));
        for ids in self.same.values_mut() {
            ids.retain_mut(|id| stays(id));
        }
        // The second takes over where the first is gone.
        for (tuple, ids) in &mut self.same {
            if !self.waiting.contains_key(tuple)
                && let Some(next) = ids.pop()
            {
                self.waiting.insert(*tuple, next);
            }
        }
        self.same.retain(|_, ids| !ids.is_empty());
    }

    fn at(&self, tuple: Tuple) -> impl Iterator<Item = ConnId> {
        let first = self.waiting.get(&tuple).into_iter();
        first
            .chain(self.same.get(&tuple).into_iter().flatten())
            .copied()
    }

    /// The end at the tuple that can be the other end of `id`: the one in its own namespace, where its packets stay
    /// if they can, or else the only one; with several in other namespaces, none.
    fn only(&self, tuple: Tuple, id: ConnId, conns: &[Conn]) -> Option<ConnId> {
        let netns = conns[id as usize].netns;
        let alone = |other: &ConnId| *other != id && conns[*other as usize].peer.is_none();
        let own = |other: &ConnId| conns[*other as usize].netns == netns;
        let mut all = self.at(tuple).filter(alone);
        if let Some(own) = self.at(tuple).filter(alone).find(own) {
            return Some(own);
        }
        all.next().filter(|_| all.next().is_none())
    }

    /// Everything was seen: joins the ends that still wait, and parts those that are not of one connection.
    pub fn finish(mut self, conns: &mut [Conn], samples: &[Sampled]) {
        let isns = |conn: &Conn| samples.get(conn.sampled? as usize)?.isns;
        for id in 0..conns.len() {
            let Some(peer) = conns[id].peer else { continue };
            let both = isns(&conns[id]).zip(isns(&conns[peer as usize]));
            if both.is_some_and(|(one, other)| !one.mirror(other)) {
                for id in [id as ConnId, peer] {
                    conns[id as usize].peer = None;
                    self.wait(id, conns);
                }
            }
        }
        // Ends that have ended no longer wait, and their numbers are as good.
        let all = 0..conns.len() as ConnId;
        let alone: Vec<ConnId> = all
            .filter(|id| conns[*id as usize].peer.is_none())
            .collect();
        by_isns(&alone, conns, isns);
        let mut left: Vec<ConnId> = self.waiting.values().copied().collect();
        left.extend(self.same.values().flatten());
        left.sort_unstable();
        for id in left {
            if conns[id as usize].peer.is_some() {
                continue;
            }
            let tuple = tuple(&conns[id as usize]);
            let Some(other) = self.only(mirrored(tuple), id, conns) else {
                continue;
            };
            // It must be the only one for the other, too.
            let back = self.only(tuple, other, conns) == Some(id);
            let told = isns(&conns[id as usize]).zip(isns(&conns[other as usize]));
            if back && told.is_none() {
                join(conns, id, other);
            }
        }
    }
}

/// Joins two ends when each sends what the other receives.
fn by_isns(ends: &[ConnId], conns: &mut [Conn], isns: impl Fn(&Conn) -> Option<Isns>) {
    // Two sockets with the same numbers are copies of one, and match nothing.
    let mut known: AHashMap<Isns, Option<ConnId>> = AHashMap::new();
    for id in ends {
        if let Some(isns) = isns(&conns[*id as usize]) {
            known
                .entry(isns)
                .and_modify(|id| *id = None)
                .or_insert(Some(*id));
        }
    }
    for id in ends {
        let conn = &conns[*id as usize];
        let Some(isns) = isns(conn).filter(|_| conn.peer.is_none()) else {
            continue;
        };
        if known.get(&isns) != Some(&Some(*id)) {
            continue;
        }
        let mut others = isns.mirrors().into_iter();
        let other = others.find_map(|mirror| known.get(&mirror).copied().flatten());
        if let Some(other) = other.filter(|other| other != id)
            && conns[other as usize].peer.is_none()
        {
            join(conns, *id, other);
        }
    }
}

#[cfg(test)]
mod tests;
