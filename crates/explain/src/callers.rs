//! Who connects, and where to: a process, or the program of processes that ask once and end.

use std::collections::BTreeMap;

use ahash::AHashSet;
use analysis::{Conn, Endpoint, Story};
use recording::Text;

use crate::limits;

/// Who connects, and where to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Caller {
    pub(crate) netns: u32,
    pub(crate) who: Who,
    pub(crate) to: Endpoint,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Who {
    /// On another host, or not known.
    Unknown,
    Process(u32),
    /// A program that a script starts for each request: all its processes fail as one.
    Program(Text),
}

/// Where an end asks, or is asked: its peer may have asked a listener of this host.
pub(crate) fn place(conn: &Conn) -> (u32, Endpoint) {
    let to = if conn.asks() {
        conn.remote
    } else {
        Endpoint::new(conn.remote.addr, conn.local.port)
    };
    (conn.netns, to)
}

/// Whether one caller failed again and again: enough of its attempts, over long enough. `failures` are its ends that
/// failed, each with the moment.
pub(crate) fn one_failed_again<'a>(
    story: &'a Story,
    failures: impl Iterator<Item = (&'a Conn, u64)> + Clone,
) -> bool {
    let places: AHashSet<_> = failures.clone().map(|(c, _)| place(c)).collect();
    if places.is_empty() {
        return false;
    }
    let there = |c: &Conn| c.asks() && places.contains(&place(c));
    let callers = Callers::of(story, there);
    let mut tried: BTreeMap<Caller, u64> = BTreeMap::new();
    for conn in story.conns.iter().filter(|c| there(c)) {
        *tried.entry(callers.caller(conn)).or_default() += 1;
    }
    let mut met: BTreeMap<Caller, (u64, u64, u64)> = BTreeMap::new();
    for (conn, time_ns) in failures {
        let of_caller = met.entry(callers.caller(conn));
        let of_caller = of_caller.or_insert((0, u64::MAX, 0));
        of_caller.0 += 1;
        of_caller.1 = of_caller.1.min(time_ns);
        of_caller.2 = of_caller.2.max(time_ns);
    }
    met.iter().any(|(caller, (n, first, last))| {
        let tried = tried.get(caller).copied().unwrap_or(0);
        *n >= limits::FAILED_AGAIN.count()
            && last.saturating_sub(*first) >= limits::FAILED_OVER.ns()
            && limits::FAILED_SHARE.reached(*n, tried)
    })
}

/// The callers of a story.
pub(crate) struct Callers {
    /// Processes that asked there more than once.
    again: AHashSet<(u32, u32, Endpoint)>,
}

impl Callers {
    /// The callers of the connections that matter.
    pub(crate) fn of(story: &Story, matters: impl Fn(&Conn) -> bool) -> Callers {
        Callers::among(story.conns.iter().filter(|c| matters(c)))
    }

    /// The callers of these connections.
    pub(crate) fn among<'a>(conns: impl IntoIterator<Item = &'a Conn>) -> Callers {
        let (mut once, mut again) = (AHashSet::new(), AHashSet::new());
        for conn in conns.into_iter().filter(|c| c.asks()) {
            let Some(pid) = conn.pid else { continue };
            let asks = (conn.netns, pid, conn.remote);
            if !once.insert(asks) {
                again.insert(asks);
            }
        }
        Callers { again }
    }

    /// The caller of one end.
    pub(crate) fn caller(&self, conn: &Conn) -> Caller {
        let (netns, to) = place(conn);
        let who = match (conn.pid, &conn.comm) {
            _ if !conn.asks() => Who::Unknown,
            (Some(pid), Some(comm)) if !self.again.contains(&(netns, pid, to)) => {
                Who::Program(comm.clone())
            }
            (Some(pid), _) => Who::Process(pid),
            (None, _) => Who::Unknown,
        };
        Caller { netns, who, to }
    }
}
