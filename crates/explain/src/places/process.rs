//! A process, and the connections that it opened or accepted.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Conn, ConnId, Story};

/// Processes that hold listeners, or that called connect().
pub(crate) fn owners(story: &Story) -> BTreeSet<u32> {
    let holders = story.listeners.all.iter().flat_map(|l| &l.holders);
    let callers = story.conns.iter().filter_map(|c| c.pid);
    holders.map(|h| h.pid).chain(callers).collect()
}

/// Whether a process holds a listener.
pub(crate) fn listens(story: &Story, pid: u32) -> bool {
    !story.listeners.of_holder(pid).is_empty()
}

/// Connections that a process opened or accepted.
pub(crate) fn connections(story: &Story, pid: u32) -> Vec<(ConnId, &Conn)> {
    let all = connections_of(story, &BTreeSet::from([pid]));
    all.into_iter().collect()
}

/// The same of several processes.
pub(crate) fn connections_of<'a>(
    story: &'a Story,
    pids: &BTreeSet<u32>,
) -> BTreeMap<ConnId, &'a Conn> {
    let held = pids.iter().flat_map(|pid| story.listeners.of_holder(*pid));
    // A listener that several of them hold counts once.
    let held: BTreeSet<u32> = held.copied().collect();
    let held = held
        .iter()
        .filter_map(|index| story.listeners.all.get(*index as usize));
    let accepted = held.flat_map(|l| story.all(&l.accepted));
    let own = pids.iter().flat_map(|pid| story.of_pid(*pid));
    accepted.chain(own).collect()
}
