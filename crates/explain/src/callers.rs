//! Who connects, and where to: a process, or the program of processes that ask once and end.

use ahash::AHashSet;
use analysis::{Conn, Endpoint, Story};
use recording::Text;

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
