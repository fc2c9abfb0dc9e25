//! Sums per namespace that checks compare with the namespace's counters.

use ahash::AHashMap;

use super::conn::{Conn, Side};
use super::listeners::Listeners;

/// Sums over one namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Connections made from a SYN cookie.
    pub cookies: u64,
    /// Connects that failed.
    pub failed: u64,
    /// Listeners that dropped packets.
    pub dropping: u64,
}

/// Adds a connection that no further row will be about.
pub(super) fn add(sums: &mut AHashMap<u32, Sums>, conn: &Conn) {
    let failed = conn.side == Side::Opened && conn.failed();
    let cookie = conn.cookie == Some(true);
    if failed || cookie {
        let of = sums.entry(conn.netns).or_default();
        of.cookies += u64::from(cookie);
        of.failed += u64::from(failed);
    }
}

/// Adds what was kept.
pub(super) fn add_kept(sums: &mut AHashMap<u32, Sums>, conns: &[Conn], listeners: &Listeners) {
    for conn in conns {
        add(sums, conn);
    }
    for listener in &listeners.all {
        if listener.drops().is_some_and(|n| n > 0) {
            sums.entry(listener.netns).or_default().dropping += 1;
        }
    }
}
