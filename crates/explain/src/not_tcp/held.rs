//! Requests that an event loop holds: until something happens that it has no part in, or until another client leaves.

use std::collections::BTreeMap;

use analysis::account::{Requests, Role, Service, Slow};
use analysis::{Endpoint, Side, Story};
use recording::Waker;

use super::chain::asks;
use crate::limits;

/// When clients ended the connections that were accepted here.
#[derive(Debug, Default)]
pub(super) struct Departures(pub(super) BTreeMap<Endpoint, Departure>);

/// One of them.
#[derive(Debug)]
pub(super) struct Departure {
    /// S after the start of the recording.
    pub(super) after_s: f64,
    /// The namespace and the port that it was accepted at.
    pub(super) at: (u32, u16),
}

impl Departures {
    pub(super) fn of(story: &Story) -> Departures {
        let accepted = story.conns.iter().filter(|c| c.side == Side::Accepted);
        let ended = accepted.filter_map(|c| {
            let after_s = c.ended_ns? as f64 / 1e9 - story.start_ns as f64 / 1e9;
            let at = (c.netns, c.local.port);
            Some((c.remote, Departure { after_s, at }))
        });
        Departures(ended.collect())
    }

    /// Whether clients of a service leave with a word that needs no answer (Terminate, QUIT). One that leaves when its
    /// request is answered has said something to the service, which may be what the others wait for.
    fn take_leave(&self, service: &Service, r: &Requests) -> bool {
        let at = (service.netns.inode, service.at.port);
        let left = self.0.values().filter(|d| d.at == at).count() as u64;
        left > 0 && limits::MOST.reached(r.unanswered, left)
    }

    /// Whether a request was answered as soon as another client had left: it had waited for its place.
    fn waited_for_one(&self, slow: &Slow) -> bool {
        let last = slow.answered_after.as_ref();
        let from = last.and_then(|wait| wait.awaited);
        let other = from.filter(|from| *from != slow.remote);
        let left = other.and_then(|from| self.0.get(&from));
        let until = slow.after_start_s + slow.took_s;
        left.is_some_and(|d| (until - d.after_s).abs() * 1e9 <= Slow::JUST_NS as f64)
    }

    /// That the slowest waited for a place, if most did: as it continues a sentence.
    pub(super) fn says(&self, service: &Service, r: &Requests) -> &'static str {
        let ended = || r.slowest.iter().filter(|slow| !slow.open);
        let waited = ended().filter(|slow| self.waited_for_one(slow)).count() as u64;
        let most = waited > 0 && limits::MOST.reached(waited, ended().count() as u64);
        if most && self.take_leave(service, r) {
            "; the slowest waited until another client left: its pool, or its limit of connections, is full"
        } else {
            ""
        }
    }
}

/// An event loop answered when something else had happened: another client's word (BRPOP, chats), or a timer after a
/// second or longer (heartbeats, long polls). It did nothing for the request until then, and owed nothing. A client that
/// leaves makes room for the next, who did wait for the service.
pub(super) fn is_event(
    services: &[Service],
    service: &Service,
    r: &Requests,
    departures: &Departures,
) -> bool {
    if service.role != Role::Server || r.thinking.alone >= limits::MOST.share() * r.spent_s.think {
        return false;
    }
    let leave = departures.take_leave(service, r);
    let is_asked = |at| asks(services, service).any(|(s, _)| s.at == at);
    let is_event = |slow: &Slow| {
        let last = slow.answered_after.as_ref();
        last.is_some_and(|wait| match wait.awaited {
            Some(from) => {
                from != slow.remote
                    && !is_asked(from)
                    && !(leave && departures.waited_for_one(slow))
            }
            None => wait.woken_by == Waker::Timer.as_str() && slow.took_s >= limits::HELD.s(),
        })
    };
    let ended = r.slowest.iter().filter(|slow| !slow.open);
    let events = ended.clone().filter(|slow| is_event(slow)).count() as u64;
    events > 0 && limits::MOST.reached(events, ended.count() as u64)
}
