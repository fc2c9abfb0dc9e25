//! The individually recorded slow exchanges, and the ends that they used.

use analysis::account::{self, Slow, State};
use analysis::{Conn, ConnId, Endpoint, Side, Story, Waited};
use recording::tables::Exchange;
use recording::{Addr, RowRef};

use crate::limits;

/// An exchange that is recorded individually.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) row: RowRef,
    pub(crate) x: Exchange,
    /// This end of its connection, if it was kept.
    pub(crate) end: Option<ConnId>,
    /// The part of its service time in which one thread did nothing else, ns.
    pub(crate) alone_ns: u64,
    /// The time of the answering side: for a server its not accepting, not reading and service time; for a client the
    /// wait for the answer beyond a round trip.
    pub(crate) own_ns: u64,
}

impl Told {
    pub(crate) fn took_ns(&self) -> u64 {
        Slow::took_ns(&self.x)
    }

    /// The two ends of its connection.
    pub(super) fn ends(&self) -> [(Addr, u16); 2] {
        let x = &self.x;
        [(x.local_addr, x.local_port), (x.remote_addr, x.remote_port)]
    }

    /// The client closed the connection before the answer.
    pub(crate) fn is_given_up(&self) -> bool {
        self.x.given_up == Some(true)
    }

    /// When it ended; for an open one, when it was looked at.
    pub(crate) fn end_ns(&self) -> u64 {
        self.x.began_ns.saturating_add(self.took_ns())
    }

    /// The known part of its own time: not accepting, not reading, and service time where one thread did nothing else
    /// meanwhile.
    pub(super) fn known_ns(&self) -> u64 {
        let x = &self.x;
        let waited = x.accept_ns.saturating_add(x.unread_ns);
        waited.saturating_add(self.alone_ns)
    }
}

/// The part of the service time in which one thread did nothing else, ns. If a request has no answer, its thread has
/// not come back to it, and is known to have done nothing else if it slept for most of the time.
pub(super) fn alone_ns(story: &Story, x: &Exchange) -> u64 {
    if !x.open {
        return x.think_alone_ns.min(x.think_ns);
    }
    let slept = sleeps(story, x).map(|(_, ns)| ns);
    let slept = slept.fold(0, u64::saturating_add).min(x.think_ns);
    if limits::MOST.reached(slept, x.think_ns) {
        slept
    } else {
        0
    }
}

/// The service that answered another thread, which then woke this one: a future, a pool of connections. The call is
/// that of a lock, but the wait was not for a lock.
pub(crate) fn fetched_from(story: &Story, wait: &Waited) -> Option<Endpoint> {
    let hops = story.waits.walk(wait);
    let from = hops.iter().find_map(|hop| hop.cause.as_ref())?.from;
    let mut asked = story.exchanges().iter();
    let asked = asked.any(|e| e.role() == account::Role::Client && e.service.2 == from);
    asked.then_some(from)
}

/// The waits of its thread that were under way after it had read the request, and for how long of that, ns.
pub(crate) fn sleeps<'a>(
    story: &'a Story,
    x: &Exchange,
) -> impl Iterator<Item = (&'a Waited, u64)> + use<'a> {
    let from_ns = x.began_ns.saturating_add(unserved_ns(x));
    let to_ns = x.began_ns.saturating_add(Slow::took_ns(x));
    let tid = x.tid.into_iter();
    tid.flat_map(move |tid| slept(story, tid, from_ns, to_ns))
}

/// The waits of a thread that were under way between two moments, and for how much of that time, ns: one may have ended
/// later.
pub(crate) fn slept(
    story: &Story,
    tid: u32,
    from_ns: u64,
    to_ns: u64,
) -> impl Iterator<Item = (&Waited, u64)> {
    let began_ns = |wait: &Waited| wait.end_ns.saturating_sub(wait.waited_ns);
    story
        .waits_of(tid, from_ns, u64::MAX)
        .take_while(move |wait| began_ns(wait) < to_ns)
        .map(move |wait| {
            let within = wait.end_ns.min(to_ns);
            (wait, within.saturating_sub(began_ns(wait).max(from_ns)))
        })
}

/// The end that an exchange went over.
pub(crate) fn end<'a>(story: &'a Story, x: &Exchange) -> Option<(ConnId, &'a Conn)> {
    let local = Endpoint::new(x.local_addr, x.local_port);
    let remote = Endpoint::new(x.remote_addr, x.remote_port);
    let conns = story.between(x.netns, local, remote);
    let began = conns.filter(|(_, c)| c.side == Side::Older || c.start_ns <= x.time_ns);
    began.max_by_key(|(_, c)| c.start_ns)
}

/// The state of the account in which a server's exchange spent most of its time.
pub(super) fn part(x: &Exchange) -> State {
    let parts = [
        (x.think_ns, State::Owing),
        (x.unread_ns, State::Unread),
        (x.accept_ns, State::Unaccepted),
    ];
    let longest = parts.into_iter().max_by_key(|(ns, _)| *ns);
    longest.map_or(State::Owing, |(_, state)| state)
}

/// Whether a request stayed unaccepted or unread for seconds on end: over an hour's upload, moments add up to that, and
/// the reader of a fast transfer finds data whenever it looks.
pub(super) fn is_stalled(told: &Told) -> bool {
    let unserved = unserved_ns(&told.x);
    let at_once = told.x.unread_longest_ns.unwrap_or(unserved);
    at_once.min(unserved) >= limits::STALL.ns() && limits::MOST.reached(unserved, told.took_ns())
}

/// How long a request waited to be accepted and read, ns.
pub(super) fn unserved_ns(x: &Exchange) -> u64 {
    x.accept_ns.saturating_add(x.unread_ns)
}
