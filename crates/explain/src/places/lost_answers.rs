//! Listeners whose answers to SYNs get lost: SYNs come in and are answered, and come again.

use std::collections::BTreeMap;
use std::rc::Rc;

use analysis::{Conn, Endpoint, Group, Story, What};
use recording::{RowRef, counter};

use crate::limits;
use crate::places::listener::{ListenerPlace, SHOWN_ROWS, listener_places};
use crate::places::lost_syn::ConnectTimes;
use crate::places::unanswered_syns::UnansweredSyns;

/// An address of a listener from which SYN-ACKs do not reach the clients, and no firewall of this host drops them.
pub(crate) struct LostAnswers<'a> {
    pub(crate) here: ListenerPlace<'a>,
    pub(crate) at: Endpoint,
    groups: Vec<&'a Group>,
    /// SYN-ACKs that it repeated.
    pub(crate) repeated: u64,
    /// SYNs that came again though they had been answered: of somebody who waits. A forged one never comes again.
    pub(crate) again: u64,
    /// What connects of this host saw, where there are some.
    pub(crate) silent: Option<Rc<UnansweredSyns<'a>>>,
}

/// Every such address; `silent` are the places where connects of this host got no answer.
pub(crate) fn places<'a>(
    story: &'a Story,
    silent: &[Rc<UnansweredSyns<'a>>],
) -> Vec<LostAnswers<'a>> {
    let silent = silent
        .iter()
        .filter(|place| place.times.total() > 0 || place.answers_dropped() > 0);
    let silent: BTreeMap<Endpoint, &Rc<UnansweredSyns>> =
        silent.map(|place| (place.at, place)).collect();
    let mut found = Vec::new();
    for here in listener_places(story) {
        let mut groups: BTreeMap<Endpoint, Vec<&Group>> = BTreeMap::new();
        for group in story.packets_at(here.index, What::SynAckRepeated) {
            groups.entry(group.local).or_default().push(group);
        }
        let lost = groups.into_iter().filter_map(|(at, groups)| {
            LostAnswers::of(
                here,
                at,
                groups,
                silent.get(&at).map(|place| Rc::clone(place)),
            )
        });
        found.extend(lost);
    }
    found
}

impl<'a> LostAnswers<'a> {
    fn of(
        here: ListenerPlace<'a>,
        at: Endpoint,
        groups: Vec<&'a Group>,
        silent: Option<Rc<UnansweredSyns<'a>>>,
    ) -> Option<LostAnswers<'a>> {
        let repeated: u64 = groups.iter().map(|g| g.count).sum();
        // A full queue drops the last ACK of handshakes, TCP_DEFER_ACCEPT ignores it, and a flood never sends one.
        let own = here.dropped().saturating_add(here.ghosts().0);
        let own = own.saturating_add(here.rise(counter::DEFER_ACCEPT_DROP).by);
        let flooded = here.rise(counter::SYNCOOKIES_SENT).by > 0;
        if flooded || limits::MOST.reached(own, repeated) {
            return None;
        }
        let times = silent.as_ref().map(|place| &place.times);
        let times = times.filter(|times| times.total() > 0);
        let again = match times {
            // Each SYN that arrives again is answered again.
            Some(times) => times.retries.min(repeated),
            // What its own timer did not repeat, a SYN asked for.
            None if here.is_counted() => {
                repeated.saturating_sub(here.rise(counter::TCP_TIMEOUTS).by)
            }
            None => 0,
        };
        let syns = times.map_or(0, |times| times.unanswered_syns());
        let dropped = silent.as_ref().map_or(0, |place| place.answers_dropped());
        let is_lost = again > 0
            && (syns == 0 || limits::MOST.reached(repeated, syns))
            && (dropped == 0 || !limits::MOST.reached(dropped, repeated));
        is_lost.then_some(LostAnswers {
            here,
            at,
            groups,
            repeated,
            again,
            silent,
        })
    }

    /// What connects of this host saw.
    pub(crate) fn times(&self) -> Option<&ConnectTimes> {
        let times = self.silent.as_ref().map(|place| &place.times);
        times.filter(|times| times.total() > 0)
    }

    /// Connects that got no answer, and all of them: of this host, or else SYNs that came again and connections.
    pub(crate) fn in_vain(&self) -> (u64, u64) {
        match self.times() {
            Some(times) => (times.silent(), times.total()),
            None => (self.again, self.again.saturating_add(self.here.accepted())),
        }
    }

    /// Whether as large a share of the listener's connections retransmitted data, at either end: then the path loses
    /// packets of every kind.
    pub(crate) fn data_too(&self) -> bool {
        let story = self.here.story;
        let (mut resent, mut established) = (0u64, 0u64);
        for (_, conn) in story.all(&self.here.listener.accepted) {
            let peer = conn.peer.and_then(|id| story.conn(id));
            let again = conn.retransmits > 0 || peer.is_some_and(|peer| peer.retransmits > 0);
            established += 1;
            resent += u64::from(again);
        }
        let (n, of) = self.in_vain();
        // As shares: resent ÷ established against n ÷ of.
        let at_least = resent
            .saturating_mul(of)
            .saturating_mul(limits::TWICE.count());
        established > 0 && at_least > n.saturating_mul(established)
    }

    /// Connects of this host that got no answer.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Conn> + Clone {
        let ids = self.times().map_or(&[][..], |times| times.delayed_ids());
        self.here.story.all(ids).map(|(_, c)| c)
    }

    /// The addresses that it answers in vain, most first.
    pub(crate) fn remotes(&self) -> Vec<String> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for remote in self.groups.iter().flat_map(|g| &g.remotes) {
            *counts.entry(remote.addr.to_string()).or_default() += remote.count;
        }
        let mut all: Vec<(String, u64)> = counts.into_iter().collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.into_iter().map(|(addr, _)| addr).collect()
    }

    /// Some rows of repeated SYN-ACKs.
    pub(crate) fn rows(&self) -> Vec<RowRef> {
        let rows = self.groups.iter().flat_map(|g| g.rows.iter().copied());
        rows.take(SHOWN_ROWS).collect()
    }
}
