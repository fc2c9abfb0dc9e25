//! When no connection got through to a listener although some waited for it.

use std::collections::BTreeSet;

use analysis::account::{self, State};
use analysis::words::duration;
use analysis::{Conn, Side, Story, Waited};
use recording::Waker;

use super::listener::ListenerPlace;
use crate::finding::Step;
use crate::limits;
use crate::say::{Quantity, say};

/// Calls that wait for connections.
const AWAIT_CONNECTIONS: &[&str] = &[
    "accept",
    "accept4",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
];

/// A time in which no handshake was completed, and connections waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Outage {
    /// The longest at a listener. `None` when the longest pause is what the rate of its connections gives by chance, or
    /// clients were just quiet; or when some connections were not kept.
    pub(crate) fn of(here: ListenerPlace) -> Option<Outage> {
        let accepted = here.story.all(&here.listener.accepted);
        let accepted = accepted.filter(|(_, c)| c.side == Side::Accepted);
        let mut times: Vec<u64> = accepted.filter_map(|(_, c)| c.established_ns).collect();
        times.sort_unstable();
        let (first, last) = (*times.first()?, *times.last()?);
        let usual = (last - first) / times.len() as u64;
        // An outage that lasts when the recording ends counts as well, and so does one under way when it begins.
        times.insert(0, here.story.start_ns.min(first));
        times.push(here.story.end_ns.max(last));
        let pauses = times.windows(2).map(|w| Outage {
            from_ns: w[0],
            to_ns: w[1],
        });
        let longest = pauses.max_by_key(Outage::ns)?;
        let is_long = longest.ns()
            >= limits::NOTICED
                .ns()
                .max(usual.saturating_mul(limits::PAUSE_TIMES_USUAL.count()));
        let whole = here.story.tally.folded == 0;
        (is_long && whole && longest.is_waited_in(here)).then_some(longest)
    }

    fn is_waited_in(&self, here: ListenerPlace) -> bool {
        let story = here.story;
        let clients = story.all(&here.listener.clients);
        let clients = clients.filter(|(_, c)| self.keeps_connecting(c));
        let accepted = story.all(&here.listener.accepted);
        let accepted = accepted.filter(|(_, c)| self.keeps_unaccepted(story, c));
        clients
            .chain(accepted)
            .take(limits::OFTEN_TO_SEVERAL.as_usize())
            .count()
            == limits::OFTEN_TO_SEVERAL.as_usize()
    }

    fn middle_ns(&self) -> u64 {
        self.from_ns + self.ns() / 2
    }

    /// Whether a connect was under way in the middle of it.
    pub(crate) fn keeps_connecting(&self, conn: &Conn) -> bool {
        let middle = self.middle_ns();
        let later = |at: Option<u64>| at.is_none_or(|at| at > middle);
        let begun = conn.connects() && conn.start_ns <= middle;
        begun && later(conn.established_ns) && later(conn.ended_ns)
    }

    /// Whether an end was in the accept queue for most of it, as its samples say.
    fn keeps_unaccepted(&self, story: &Story, conn: &Conn) -> bool {
        let over = conn.ended_ns.is_some_and(|at| at <= self.middle_ns());
        let sampled = story.samples(conn).is_some() && !over;
        let before = conn.established_ns.is_none_or(|at| at <= self.from_ns);
        let waited = || account::of_end(story, conn).of(State::Unaccepted);
        sampled && before && limits::MOST.reached(waited(), self.ns())
    }

    /// Its length, ns.
    pub(crate) fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// What the single thread of a process that accepts there slept in meanwhile, other than waiting for connections: a
    /// client that says nothing, a lock, a disk. With several threads it is unknown which should have accepted.
    pub(crate) fn asleep(&self, here: ListenerPlace) -> Option<Step> {
        let story = here.story;
        let threads = |pid| story.threads.all().filter(|t| t.pid == pid).count();
        let alone = |pid: &u32| threads(*pid) == 1;
        let holders = here.listener.holders.iter().map(|h| h.pid);
        let holders: BTreeSet<u32> = holders.filter(alone).collect();
        let of_it = |w: &Waited| {
            let began_ns = w.end_ns.saturating_sub(w.waited_ns);
            w.end_ns
                .min(self.to_ns)
                .saturating_sub(began_ns.max(self.from_ns))
        };
        let calls = |w: &&Waited| {
            let call = w.syscall.as_deref();
            call.is_some_and(|call| !AWAIT_CONNECTIONS.contains(&call))
        };
        let own = story.waits.all.iter().filter(|w| holders.contains(&w.pid));
        let longest = own.filter(calls).max_by_key(|w| of_it(w))?;
        let until = match (&longest.cause, &longest.waker) {
            (Some(packet), _) => format!("a packet from {} came", packet.from),
            (None, Waker::Timer) => "its timeout expired".into(),
            (None, _) => "it was woken".into(),
        };
        let step = say!(
            "{slept_ms} of it, until {until}: meanwhile no other client was served.",
            slept_ms = Quantity::ns(of_it(longest)).rows([longest.row])
        );
        let says = format!(
            "The only thread of {} (pid {}) slept in {} for {}",
            longest.comm,
            longest.pid,
            longest.syscall.as_deref().unwrap_or("a call"),
            step.says
        );
        limits::MOST
            .reached(of_it(longest), self.ns())
            .then_some(Step { says, ..step })
    }

    /// For how long, and since when.
    pub(crate) fn says(&self, story: &Story) -> String {
        format!(
            "Outage: it accepted nothing for {}, beginning {} after the start.",
            duration(self.ns()),
            duration(self.from_ns.saturating_sub(story.start_ns))
        )
    }
}
