//! Which listener a connection belongs to, on either side.

use ahash::{AHashMap, AHashSet};
use recording::Addr;

use super::conn::{Conn, ConnId, Side};
use super::listeners::Listeners;
use super::place::Endpoint;

/// Gives every connection its listener, and every listener its connections.
pub fn link(conns: &mut [Conn], listeners: &mut Listeners) {
    accepted(conns, listeners);
    clients(conns, listeners);
    for (id, conn) in conns.iter().enumerate() {
        let Some(index) = conn.listener else { continue };
        let listener = &mut listeners.all[index as usize];
        if conn.connects() {
            listener.clients.push(id as ConnId)
        } else {
            // Among those older than the recording, only accepted ones have a listener.
            listener.accepted.push(id as ConnId)
        }
    }
}

/// Accepted ends: the listener in their own namespace that takes their local address.
fn accepted(conns: &mut [Conn], listeners: &mut Listeners) {
    for conn in conns.iter_mut() {
        conn.listener = match conn.side {
            Side::Opened => None,
            Side::Older if conn.connects() => None,
            Side::Older => listeners.taking(conn.netns, conn.local, conn.family),
            // One that was accepted had a listener, even if no sample shows it.
            Side::Accepted => listeners
                .taking(conn.netns, conn.local, conn.family)
                .or_else(|| listeners.at(conn.netns, conn.local)),
        };
    }
}

/// Connecting ends: the listener of their other end; for those that have none, the listener that others reached at
/// the same address, or that must be meant.
fn clients(conns: &mut [Conn], listeners: &Listeners) {
    // Behind one translated address there may be several listeners: then it is none of them in particular.
    let mut reached: AHashMap<(u32, Endpoint), Option<u32>> = AHashMap::new();
    let mut local: AHashSet<(u32, Addr)> = AHashSet::new();
    for listener in &listeners.all {
        local.insert((listener.netns, listener.local.addr));
    }
    for id in 0..conns.len() {
        let conn = &conns[id];
        if conn.local.port != 0 {
            local.insert((conn.netns, conn.local.addr));
        }
        let peer = conn.peer.and_then(|peer| conns.get(peer as usize));
        if conn.connects()
            && let Some(listener) = peer.and_then(|p| p.listener)
        {
            let at = reached.entry((conn.netns, conn.remote));
            at.and_modify(|known| *known = known.filter(|known| *known == listener))
                .or_insert(Some(listener));
            conns[id].listener = Some(listener);
        }
    }
    let mut namespaces_of: AHashMap<Addr, Vec<u32>> = AHashMap::new();
    for (netns, addr) in &local {
        namespaces_of.entry(*addr).or_default().push(*netns);
    }
    for conn in conns.iter_mut() {
        if !conn.connects() || conn.listener.is_some() {
            continue;
        }
        let (netns, to) = (conn.netns, conn.remote);
        if let Some(listener) = reached.get(&(netns, to)) {
            conn.listener = *listener;
        } else if to.is_loopback() || local.contains(&(netns, to.addr)) {
            conn.listener = listeners.taking(netns, to, conn.family);
        } else {
            // Another namespace of this host, if exactly one has the address and listens there.
            let candidates = namespaces_of.get(&to.addr).into_iter().flatten();
            let mut taking = candidates.filter_map(|n| listeners.taking(*n, to, conn.family));
            conn.listener = match (taking.next(), taking.next()) {
                (Some(only), None) => Some(only),
                _ => None,
            };
        }
        if let Some(listener) = conn.listener {
            reached.insert((netns, to), Some(listener));
        }
    }
}
