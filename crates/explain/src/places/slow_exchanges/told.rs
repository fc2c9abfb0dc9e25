//! The slow exchanges that are told one by one, and the ends that they went over.

use ahash::AHashMap;
use analysis::account::{Slow, State};
use analysis::{Conn, ConnId, Endpoint, Side, Story};
use recording::RowRef;
use recording::tables::Exchange;

/// Somebody gives up when what he sent was not read or accepted for so long, ns.
const STALL_NS: u64 = 3_000_000_000;
/// An exchange that is told by itself.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) row: RowRef,
    pub(crate) x: Exchange,
    /// This end of its connection, if that was kept.
    pub(crate) end: Option<ConnId>,
    /// The time of whoever answers: of a server its not accepting, not reading and thinking; of a client the
    /// wait for the answer beyond a round trip.
    pub(crate) own_ns: u64,
}

impl Told {
    pub(crate) fn took_ns(&self) -> u64 {
        Slow::took_ns(&self.x)
    }

    /// When it ended; of an open one, when it was looked at.
    pub(crate) fn end_ns(&self) -> u64 {
        self.x.began_ns.saturating_add(self.took_ns())
    }

    /// Of its own time, what is known: not accepting, not reading, and thinking where one thread did nothing
    /// else meanwhile.
    pub(super) fn known_ns(&self) -> u64 {
        let x = &self.x;
        let waited = x.accept_ns.saturating_add(x.unread_ns);
        waited.saturating_add(x.think_alone_ns.min(x.think_ns))
    }
}

/// The ends of connections by their addresses, in order of time.
pub(crate) struct Ends<'a> {
    story: &'a Story,
    by_place: AHashMap<(u32, Endpoint, Endpoint), Vec<ConnId>>,
}

impl<'a> Ends<'a> {
    pub(crate) fn of(story: &'a Story) -> Ends<'a> {
        let mut by_place: AHashMap<_, Vec<ConnId>> = AHashMap::new();
        for (conn, id) in story.conns.iter().zip(0..) {
            let place = (conn.netns, conn.local, conn.remote);
            by_place.entry(place).or_default().push(id);
        }
        Ends { story, by_place }
    }

    /// The end that an exchange went over.
    pub(crate) fn end(&self, x: &Exchange) -> Option<(ConnId, &'a Conn)> {
        let local = Endpoint::new(x.local_addr, x.local_port);
        let remote = Endpoint::new(x.remote_addr, x.remote_port);
        let ids = self.by_place.get(&(x.netns, local, remote))?;
        let conns = ids
            .iter()
            .filter_map(|id| Some((*id, self.story.conn(*id)?)));
        let began = conns.filter(|(_, c)| c.side == Side::Older || c.start_ns <= x.time_ns);
        began.max_by_key(|(_, c)| c.start_ns)
    }
}

/// The state of the account in which most of a server's exchange was.
pub(super) fn part(x: &Exchange) -> State {
    let parts = [
        (x.think_ns, State::Owing),
        (x.unread_ns, State::Unread),
        (x.accept_ns, State::Unaccepted),
    ];
    let longest = parts.into_iter().max_by_key(|(ns, _)| *ns);
    longest.map_or(State::Owing, |(_, state)| state)
}

/// Whether nobody accepted or read a request for seconds on end: of an upload of an hour moments add up to that.
pub(super) fn is_stalled(told: &Told) -> bool {
    let unserved = unserved_ns(&told.x);
    unserved >= STALL_NS && unserved.saturating_mul(2) >= told.took_ns()
}

/// How long a request waited to be accepted and read, ns.
pub(super) fn unserved_ns(x: &Exchange) -> u64 {
    x.accept_ns.saturating_add(x.unread_ns)
}
