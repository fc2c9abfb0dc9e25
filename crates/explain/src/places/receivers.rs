//! Ends that receive, by service: how fast they are read, and by which process.

use std::collections::BTreeMap;

use analysis::account::{self, ServiceKey};
use analysis::stats::ratio;
use analysis::{Endpoint, Side, Story};

use crate::finding::{Role, Scope};
use crate::limits;
use crate::places::listener::ListenerPlace;
use crate::places::path::{End, ends};
use crate::scope::owners;

/// Those that received enough to judge by. Each client has its own port: clients are grouped by where they connect to.
pub(crate) fn receivers(story: &Story) -> BTreeMap<ServiceKey, Vec<End<'_>>> {
    let mut services: BTreeMap<ServiceKey, Vec<End>> = BTreeMap::new();
    for end in ends(story).filter(|e| e.transfer.received() >= limits::BULK.bytes()) {
        let key = account::service(story, end.conn);
        services.entry(key).or_default().push(end);
    }
    services
}

/// The end that is on this host and sends to this one, or receives from it.
pub(crate) fn other<'a>(story: &'a Story, end: &End) -> Option<End<'a>> {
    End::of(story, end.conn.peer?)
}

/// Bytes per second that an end received.
pub(crate) fn per_s(end: &End) -> f64 {
    let ns = end.transfer.span_ns as f64;
    ratio(end.transfer.received() as f64 * 1e9, ns).unwrap_or(0.0)
}

/// Bytes per second that its application read.
pub(crate) fn read_per_s(end: &End) -> f64 {
    let ns = end.transfer.span_ns as f64;
    ratio(end.transfer.read() as f64 * 1e9, ns).unwrap_or(0.0)
}

/// The receiver over these ends: a listener, or the processes that connected to an address.
pub(crate) fn scope(story: &Story, netns: u32, at: Endpoint, ends: &[End]) -> Scope {
    let first = ends.first().map(|e| e.conn);
    let accepted = first.filter(|c| c.side == Side::Accepted);
    if let Some(listener) = accepted.and_then(|c| ListenerPlace::at(story, c.listener?)) {
        return listener.scope();
    }
    let owners = owners(story, ends.iter().map(|e| e.conn));
    let seen = owners.pid.and_then(|pid| story.processes.get(pid));
    let cmdline = seen.map(|s| s.cmdline.to_string());
    Scope {
        netns: story.netns(netns),
        listener: at.to_string(),
        role: Role::Client,
        cmdline: cmdline.filter(|c| !c.is_empty()),
        ..owners
    }
}
