//! Services that answer nothing any more, as the sockets of those who wait tell it: also where all requests are older
//! than the recording.

use std::collections::BTreeMap;

use analysis::account::{self, Exchanges, Owed, Role, ServiceKey, State};
use analysis::{ConnId, Story};
use recording::RowRef;

use crate::finding::Step;
use crate::limits;
use crate::lost::Lost;
use crate::moment::{Began, Since};
use crate::place::Place;
use crate::places::listener::SHOWN_ROWS;
use crate::places::slow_exchanges::{Rule, SlowService};
use crate::say::{Quantity, say};

/// Why nothing is found where all that wait had asked before, or at once.
pub(crate) const MAY_WAIT: &str = "all that have asked wait, and nobody asks anew: they may wait for an event, as the workers of \
                        an empty queue do, or it hangs";

/// Why nothing is found where nothing has ever been answered.
const ONE_WAY: &str =
    "nothing was ever answered on these connections: it may be a protocol without answers";

/// A service on which everybody waits.
pub(crate) struct Hanging<'a> {
    pub(crate) story: &'a Story,
    pub(crate) service: ServiceKey,
    /// Those that wait, and since when, ns; who has waited longest first.
    pub(crate) ends: Vec<(ConnId, u64)>,
    /// How many of them asked when nothing had been answered for a second.
    arrived: u64,
    /// Since when it has answered nothing, ns.
    from_ns: u64,
    answers: bool,
}

/// All of a role, but for those whose slow exchanges are reported already.
pub(crate) fn all<'a>(story: &'a Story, role: Role, slow: &[SlowService]) -> Vec<Hanging<'a>> {
    let slow: BTreeMap<ServiceKey, Rule> =
        slow.iter().map(|s| (s.exchanges.service, s.rule)).collect();
    let owed = story.owed().into_iter();
    let owed = owed.filter(|(key, owed)| key.1 == role && !owed.busy);
    let hanging = owed.filter_map(|(key, owed)| Hanging::of(story, key, owed));
    let told = |h: &Hanging| match slow.get(&h.service) {
        Some(Rule::OnlyIfAsked) => h.is_alone(),
        Some(_) => true,
        None => false,
    };
    hanging.filter(|h| !told(h)).collect()
}

/// Whether a service whose exchanges are slow is reported as one that hangs.
pub(crate) fn tells(hanging: &[Hanging], slow: &SlowService) -> bool {
    let mut hanging = hanging.iter();
    hanging.any(|h| h.service == slow.exchanges.service)
}

/// Whether all that was answered are logins and the like: no answer took a tenth of the time that is waited now, and who
/// waits and asked in the recording did so as soon as the connection was made.
fn are_greetings(story: &Story, exchanges: &Exchanges, ends: &[(ConnId, u64)]) -> bool {
    let first = ends.first().map_or(story.end_ns, |(_, since_ns)| *since_ns);
    let longest_ns = story.end_ns.saturating_sub(first);
    let (slow, _) = exchanges.beyond(longest_ns / limits::SLOW_TIMES_USUAL.count());
    let new = |(id, since_ns): &(ConnId, u64)| {
        let made_ns = story.conn(*id).and_then(|c| c.established_ns);
        let at_once =
            made_ns.is_some_and(|ns| since_ns.saturating_sub(ns) <= limits::BETWEEN_SAMPLES.ns());
        at_once || *since_ns < story.start_ns
    };
    slow == 0 && ends.iter().all(new)
}

impl<'a> Hanging<'a> {
    fn of(story: &'a Story, service: ServiceKey, owed: Owed) -> Option<Hanging<'a>> {
        let Owed {
            mut ends,
            answered_ns,
            answers,
            ..
        } = owed;
        ends.sort_by_key(|(_, since_ns)| *since_ns);
        // Who asked before others were answered may wait for an event.
        let after = |ends: &mut Vec<(ConnId, u64)>, answered_ns: Option<u64>| {
            ends.retain(|(_, since_ns)| answered_ns.is_none_or(|ns| *since_ns >= ns));
        };
        after(&mut ends, answered_ns);
        let exchanges = story.exchanges_of(service);
        if exchanges.is_some_and(|x| !are_greetings(story, x, &ends)) {
            after(&mut ends, exchanges.and_then(|x| x.answered_ns));
        }
        let answers = answers || exchanges.is_some_and(|x| x.answered_ns.is_some());
        let (_, from_ns) = *ends.first()?;
        let waited_ns = story.end_ns.saturating_sub(from_ns);
        // That answers ended connections before the recording is not known.
        let seen_ns = from_ns.max(story.start_ns);
        let second_ns = seen_ns.saturating_add(limits::BETWEEN_SAMPLES.ns());
        let late = ends.iter().filter(|(_, since_ns)| *since_ns >= second_ns);
        let arrived = late.count() as u64;
        (waited_ns >= limits::STALL.ns()).then_some(Hanging {
            story,
            service,
            ends,
            arrived,
            from_ns,
            answers,
        })
    }

    /// How long the one that has waited longest has, ns.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.story.end_ns.saturating_sub(self.from_ns)
    }

    /// How many wait.
    pub(crate) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// It is reported only if somebody asked: a single one may wait for anything.
    pub(crate) fn is_alone(&self) -> bool {
        self.count() < limits::OFTEN_TO_SEVERAL.count()
    }

    /// Why it is a note, if it is. Where waiting is usual, as many are answered as ask, in the long run: that of five
    /// none is, has a chance of less than one in a hundred.
    pub(crate) fn note(&self) -> Option<&'static str> {
        if !self.answers {
            return Some(ONE_WAY);
        }
        (self.arrived < limits::OFTEN.count()).then_some(MAY_WAIT)
    }

    pub(crate) fn ids(&self) -> Vec<ConnId> {
        self.ends.iter().map(|(id, _)| *id).collect()
    }

    pub(crate) fn since(&self) -> Since {
        let kind = if self.from_ns < self.story.start_ns {
            Began::Before
        } else {
            Began::Seen
        };
        Since::at(self.story, self.from_ns.max(self.story.start_ns), kind)
    }

    /// The place, whose listener and processes are these.
    pub(crate) fn place(&self, listener: Option<u32>, pids: Vec<u32>) -> Place {
        let mut ids = self.ids();
        ids.sort_unstable();
        Place::Service {
            key: self.service,
            listener,
            pids,
            ids,
        }
    }

    /// The time that was waited while it was recorded.
    pub(crate) fn lost(&self) -> Lost {
        let state = match self.service.1 {
            Role::Server => State::Owing,
            Role::Client | Role::Unknown => State::Awaiting,
        };
        let mut lost = Lost::default();
        for (id, since_ns) in &self.ends {
            let Some(conn) = self.story.conn(*id) else {
                continue;
            };
            let waited_ns = self
                .story
                .end_ns
                .saturating_sub((*since_ns).max(self.story.start_ns));
            let counted_ns = account::of_end(self.story, conn).of(state);
            lost.add(conn, state, waited_ns.min(counted_ns));
        }
        lost
    }

    /// Rows of samples that show it.
    fn rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        let conns = self.ends.iter().filter_map(|(id, _)| self.story.conn(*id));
        let samples = conns.filter_map(|c| self.story.samples(c));
        samples.map(|s| s.last.row).take(SHOWN_ROWS)
    }

    /// What the sockets show.
    pub(crate) fn step(&self) -> Step {
        let last_word = match self.service.1 {
            Role::Server => "data came last, was read, and nothing was sent since",
            Role::Client | Role::Unknown => {
                "data was sent last, was acknowledged, and nothing came since"
            }
        };
        let step = say!(
            "{connections}, the first for {longest_ms}; {arrived} of them asked when nothing had been answered for a \
             second.",
            connections = Quantity::of(self.count(), "connection").rows(self.rows()),
            longest_ms = Quantity::ns(self.longest_ns()),
            arrived = Quantity::count(self.arrived)
        );
        Step {
            says: format!("Over its connections {last_word}: {}", step.says),
            ..step
        }
    }
}
