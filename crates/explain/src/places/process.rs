//! A process, and the connections that it opened or accepted.

use std::collections::BTreeSet;

use analysis::{Conn, ConnId, Story};

/// Processes that hold listeners, or that called connect().
pub(crate) fn owners(story: &Story) -> BTreeSet<u32> {
    let holders = story.listeners.all.iter().flat_map(|l| &l.holders);
    let callers = story.conns.iter().filter_map(|c| c.pid);
    holders.map(|h| h.pid).chain(callers).collect()
}

/// Whether a process holds a listener.
pub(crate) fn listens(story: &Story, pid: u32) -> bool {
    let mut holders = story.listeners.all.iter().flat_map(|l| &l.holders);
    holders.any(|h| h.pid == pid)
}

/// Connections that a process opened or accepted.
pub(crate) fn connections(story: &Story, pid: u32) -> Vec<(ConnId, &Conn)> {
    let listeners = story.listeners.all.iter();
    let held = listeners.filter(|l| l.holders.iter().any(|h| h.pid == pid));
    let accepted = held.flat_map(|l| story.all(&l.accepted));
    let mut ids: BTreeSet<ConnId> = accepted.map(|(id, _)| id).collect();
    let conns = story.conns.iter().zip(0..);
    ids.extend(conns.filter(|(c, _)| c.pid == Some(pid)).map(|(_, id)| id));
    let all = ids.into_iter();
    all.filter_map(|id| Some((id, story.conn(id)?))).collect()
}
