//! What is slow of the exchanges of a service: which ones, by which rule, and whose time that was.

mod told;

use std::collections::BTreeMap;

use ahash::AHashSet;
use analysis::account::{Exchanges, Role, Silence, State, exchanged_ns};
use analysis::{Conn, ConnId, Outcome, Story};
use recording::RowRef;
use recording::tables::Exchange;

use crate::finding::Step;
use crate::lost::{Lost, OfExchanges};
use crate::matters::MUCH_OF_TIME;
use crate::moment::{Began, Since};
use crate::place::Place;
use crate::places::outage::LEAST_NS;
use crate::say::{Quantity, say};

pub(crate) use told::{Ends, Told, sleeps, slept};
use told::{STALL_NS, alone_ns, is_stalled, part, unserved_ns};

/// A slow exchange takes so many times as long as half of them do: of times that are spread as those of a
/// queue (exponentially), one in a thousand does.
const TIMES_USUAL: u64 = 10;
/// And the 99th percentile is one: that is ten times as many as chance gives.
const SLOW_SHARE: f64 = 0.01;
/// And so much longer than those: a person notices, ns.
const NOTICED_NS: u64 = 200_000_000;
/// Or so much longer, where they take most of the time of all, ns: others have the CPU for that long at times, on a
/// busy host.
const SOON_NS: u64 = 30_000_000;
const MOST_OF_TIME: f64 = 0.75;
/// Of a peer, so much longer where something was lost on the way there: an answer that was lost on the way back comes
/// after 200 ms, 600 ms, 1.4 s, and the other host alone knows that it sent it before, ns.
const PEERS_NS: u64 = 1_000_000_000;
/// Whoever asks about an exchange asks about one of this length, ns.
const ASKED_NS: u64 = 1_000_000_000;
/// Threads that were kept from working cost each exchange so much on average: waits below are not recorded
/// one by one, and a scheduler's turn takes as long, ns.
const KEPT_NS: u64 = 10_000_000;
/// Where so many answers would have come, none by chance is out of the question.
const EXPECTED: f64 = 20.0;
/// Fewer callers that give up may have their own reasons: one that is interrupted, a program that ends.
const OFTEN: u64 = 5;
/// Where nothing at all is answered nobody knows what is usual: callers that gave up after so long, ns, …
const PATIENT_NS: u64 = 1_000_000_000;
/// … and after waits that differ by no more than this share, waited for an answer: it is their timeout.
const ALIKE: f64 = 0.2;
/// One that waits may have its own reason.
const WAITING: u64 = 2;
/// Of fewer exchanges percentiles say nothing that the slowest does not.
const FEW: u64 = 10;
/// Exchanges are typical when the slowest ones take no more than so many times as long as half of all.
const TYPICAL: u64 = 3;

/// By which rule a service is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Some of its exchanges take much longer than it usually does.
    Excess(Excess),
    /// It left a request unread, or a connection unaccepted, for seconds.
    Stalled,
    /// Callers gave up on some of its exchanges, after much longer than it usually takes.
    GivenUp,
    /// It answers nothing any more, and more and more is asked.
    Silent,
    /// Its threads were kept from working for at least half of their thinking.
    Kept(Keeper),
    /// An exchange took a second or longer: worth telling whoever asked about it, and nobody else.
    Asked,
}

/// How slow exchanges are more than chance gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// They are many.
    Many,
    /// They take much of the time of all: of times that are spread so, ten times what chance gives.
    Dear,
    /// They are many and take most of the time of all, though a person alone would not notice one; after accept().
    Most,
}

/// What keeps a thread from working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// Others have the CPU.
    Runqueue,
    /// A lock (futex).
    Lock,
    /// It is stopped (SIGSTOP, a debugger).
    Stopped,
}

/// A service whose exchanges are slow.
pub(crate) struct SlowService<'a> {
    pub(crate) story: &'a Story,
    pub(crate) exchanges: &'a Exchanges,
    pub(crate) rule: Rule,
    /// The slow exchanges that are told one by one, the slowest first.
    pub(crate) slow: Vec<Told>,
    /// How many are slow.
    pub(crate) count: u64,
    /// What they took longer than half of all, as far as it was the time of whoever answers; ns.
    pub(crate) lost_ns: u64,
    /// How long half of all took, ns; `None` when none has ended.
    pub(crate) usual_ns: Option<u64>,
    /// The shortest round trip of its connections, ns.
    pub(crate) round_trip_ns: Option<u64>,
    /// Ends that exchanges of a second or longer went over.
    pub(crate) if_asked: Vec<ConnId>,
    /// The listener that the exchanges came to, of those on this host.
    pub(crate) listener: Option<u32>,
    /// Connections of the service.
    over: u64,
}

/// The services of a role that are slow.
pub(crate) fn services(story: &Story, role: Role) -> Vec<SlowService<'_>> {
    let all = story.exchanges();
    let ends = Ends::of(story);
    // Where both ends are here the one that answers knows.
    let answered: AHashSet<u32> = all.iter().filter_map(|e| listener(story, e)).collect();
    let asked = all.iter().filter(|e| e.role() == role);
    let slow = asked.filter_map(|e| SlowService::of(story, e, &ends));
    slow.filter(|s| role == Role::Server || s.listener.is_none_or(|l| !answered.contains(&l)))
        .collect()
}

/// The exchanges of one service.
pub(crate) fn at<'a>(story: &'a Story, place: &Place) -> Option<&'a Exchanges> {
    let Place::Service { key, .. } = place else {
        return None;
    };
    story.exchanges_of(*key)
}

/// The listener of a server's exchanges.
fn listener(story: &Story, exchanges: &Exchanges) -> Option<u32> {
    let (netns, role, at) = exchanges.service;
    let mut all = story.listeners.all.iter().zip(0..);
    let here = all.find(|(l, _)| l.netns == netns && l.local == at);
    here.filter(|_| role == Role::Server).map(|(_, i)| i)
}

impl<'a> SlowService<'a> {
    fn of(story: &'a Story, exchanges: &'a Exchanges, ends: &Ends<'a>) -> Option<SlowService<'a>> {
        let response = exchanges.response();
        if response.is_none() && exchanges.all.exchanges > 0 {
            return None;
        }
        let is_server = exchanges.role() == Role::Server;
        let slowest = exchanges.slowest.iter().filter(|(_, x)| !x.overlapped);
        let with_ends: Vec<_> = slowest.map(|(row, x)| (*row, x, ends.end(x))).collect();
        let known = with_ends.iter().filter_map(|(_, _, end)| *end);
        let round_trips = known.filter_map(|(id, conn)| story.round_trip_ns(id, conn));
        let round_trip_ns = round_trips.min();
        let own = |x: &Exchange| match (is_server, round_trip_ns) {
            (true, _) => [x.accept_ns, x.unread_ns, x.think_ns]
                .into_iter()
                .fold(0, u64::saturating_add),
            // What was retransmitted may have been lost, and so may the answer.
            (false, Some(ns)) if x.retransmits == 0 => x.await_ns.saturating_sub(ns),
            (false, _) => 0,
        };
        let told: Vec<Told> = with_ends
            .iter()
            .map(|(row, x, end)| Told {
                row: *row,
                end: end.map(|(id, _)| id),
                alone_ns: alone_ns(story, x),
                own_ns: own(x),
                x: (*x).clone(),
            })
            .collect();
        let mostly_own = |t: &&Told| t.own_ns.saturating_mul(2) >= t.took_ns() && t.own_ns > 0;
        let long = told.iter().filter(|t| t.took_ns() >= ASKED_NS);
        let if_asked = long.clone().filter(mostly_own).filter_map(|t| t.end);
        let here = |conn: &Conn| conn.listener.or_else(|| story.conn(conn.peer?)?.listener);
        let client_of = with_ends.iter().find_map(|(_, _, end)| here((*end)?.1));
        let mut service = SlowService {
            listener: if is_server {
                listener(story, exchanges)
            } else {
                client_of
            },
            story,
            rule: Rule::Asked,
            slow: Vec::new(),
            count: 0,
            lost_ns: 0,
            usual_ns: response.map(|p| (p.p50_s * 1e9) as u64),
            round_trip_ns,
            if_asked: if_asked.collect(),
            over: ends.of_service(exchanges.service),
            exchanges,
        };
        let asked = long.filter(mostly_own).count() > 0;
        // That nobody was served at all says more than that few took much of the time.
        let ruled = service.excess(&told, Excess::Many)
            || service.given_up(&told)
            || is_server && service.stalled(&told)
            || service.silent(&told)
            || is_server && service.kept(&told)
            || service.excess(&told, Excess::Dear)
            || is_server && service.excess(&told, Excess::Most);
        if !ruled && !asked {
            return None;
        }
        service.slow = told;
        match service.rule {
            Rule::Excess(by) => {
                let least_ns = service.least_ns(by);
                service
                    .slow
                    .retain(|t| !t.x.open && t.took_ns() >= least_ns);
            }
            Rule::Stalled => service.slow.retain(is_stalled),
            Rule::GivenUp => service.slow.retain(Told::is_given_up),
            Rule::Silent => service.slow.retain(|t| t.x.open && !t.is_given_up()),
            Rule::Kept(_) => {}
            Rule::Asked => {
                let slow = |t: &Told| t.took_ns() >= ASKED_NS && mostly_own(&t);
                service.slow.retain(slow);
            }
        }
        if matches!(service.rule, Rule::Stalled | Rule::Asked) {
            service.count_likewise();
        }
        Some(service)
    }

    /// Counts the slow ones: of a busy service some are told one by one, and the histogram says for how many
    /// they stand.
    fn count_likewise(&mut self) {
        let of = |open: bool| self.slow.iter().filter(move |t| t.x.open == open);
        let own = |all: &mut dyn Iterator<Item = &Told>| {
            all.map(|t| t.own_ns).fold(0, u64::saturating_add)
        };
        let (open, ended) = (of(true).count() as u64, of(false).count() as u64);
        let shortest = of(false).map(Told::took_ns).min();
        let likewise = shortest
            .map_or(0, |ns| self.exchanges.as_long(ns))
            .max(ended);
        let each_ns = own(&mut of(false)) / ended.max(1);
        self.lost_ns = own(&mut of(true)).saturating_add(each_ns.saturating_mul(likewise));
        self.count = open + likewise;
    }

    /// From how long on an exchange is slow here, ns.
    fn least_ns(&self, by: Excess) -> u64 {
        let usual = self.usual_ns.unwrap_or(0);
        let longer = match self.exchanges.role() {
            _ if by == Excess::Most => SOON_NS,
            Role::Server => NOTICED_NS,
            _ if self.exchanges.all.retransmits == 0 => NOTICED_NS,
            Role::Client | Role::Unknown => PEERS_NS,
        };
        usual
            .saturating_mul(TIMES_USUAL)
            .max(usual.saturating_add(longer))
    }

    fn excess(&mut self, told: &[Told], by: Excess) -> bool {
        let (Some(usual_ns), of) = (self.usual_ns, self.exchanges.all.exchanges) else {
            return false;
        };
        let least_ns = self.least_ns(by);
        let (count, all_ns) = self.exchanges.beyond(least_ns);
        let slow = told.iter().filter(|t| !t.x.open && t.took_ns() >= least_ns);
        // The steps of the histogram are no finer than an eighth; none took longer than the slowest.
        let slowest_ns = slow.clone().map(Told::took_ns).max().unwrap_or(0);
        let all_ns = all_ns.min(count.saturating_mul(slowest_ns));
        // The first request of a connection may wait for a fork or a thread of its own, on a busy host.
        let first = |t: &Told| match by {
            Excess::Most => t.x.accept_ns,
            Excess::Many | Excess::Dear => 0,
        };
        let sums = slow.fold((0u64, 0u64), |(own, took), t| {
            (
                own.saturating_add(t.own_ns.saturating_sub(first(t))),
                took.saturating_add(t.took_ns()),
            )
        });
        let share = sums.0 as f64 / sums.1.max(1) as f64;
        let many = count > 0 && count as f64 >= SLOW_SHARE * of as f64;
        let takes = |share: f64| {
            let whole_ns = exchanged_ns(&self.exchanges.all) as f64;
            count >= FEW && all_ns as f64 >= share * whole_ns
        };
        let enough = match by {
            Excess::Many => many,
            Excess::Dear => takes(MUCH_OF_TIME),
            Excess::Most => many && takes(MOST_OF_TIME),
        };
        if !enough || share < 0.5 {
            return false;
        }
        let longer = all_ns.saturating_sub(count.saturating_mul(usual_ns));
        self.rule = Rule::Excess(by);
        (self.count, self.lost_ns) = (count, (longer as f64 * share) as u64);
        true
    }

    /// What was not answered took at least as long as its caller waited.
    fn given_up(&mut self, told: &[Told]) -> bool {
        let all = &self.exchanges.all;
        let (count, waited_ns) = (all.given_up.unwrap_or(0), all.given_up_ns.unwrap_or(0));
        let of = all.exchanges.saturating_add(count);
        // A program that ends closes all at one moment, whatever it waited for.
        let often = count >= OFTEN && self.exchanges.given_up_in > 1;
        if !often || (count as f64) < SLOW_SHARE * of as f64 {
            return false;
        }
        let told = told.iter().filter(|t| t.is_given_up());
        let sum = |of: fn(&Told) -> u64| told.clone().map(of).fold(0, u64::saturating_add);
        let share = sum(|t| t.own_ns) as f64 / sum(Told::took_ns).max(1) as f64;
        let waits = told.clone().map(Told::took_ns);
        let (shortest, longest) = (waits.clone().min(), waits.max().unwrap_or(0));
        let alike = shortest.is_some_and(|ns| ns as f64 >= (1.0 - ALIKE) * longest as f64);
        let long = match (self.usual_ns, self.exchanges.role()) {
            (Some(_), _) if all.exchanges >= FEW => {
                waited_ns / count >= self.least_ns(Excess::Many)
            }
            // What nobody answers may be a protocol without answers: the end that asks knows how long it waits for one.
            (_, Role::Client) => alike && longest >= PATIENT_NS,
            _ => false,
        };
        if !long || share < 0.5 {
            return false;
        }
        self.rule = Rule::GivenUp;
        let usual = count.saturating_mul(self.usual_ns.unwrap_or(0));
        let longer = waited_ns.saturating_sub(usual);
        (self.count, self.lost_ns) = (count, (longer as f64 * share) as u64);
        true
    }

    /// What waits in a pool that asks and waits may wait for something to happen (long polling, a queue); where more and
    /// more is asked somebody expects answers.
    fn silent(&mut self, told: &[Told]) -> bool {
        let Some(silence) = self.exchanges.silent_now else {
            return false;
        };
        let waiting = told.iter().filter(|t| t.x.open && !t.is_given_up());
        let sum = |of: fn(&Told) -> u64| waiting.clone().map(of).fold(0, u64::saturating_add);
        let share = sum(|t| t.own_ns) as f64 / sum(Told::took_ns).max(1) as f64;
        let long = silence.ns() >= STALL_NS && self.would_have_answered(silence);
        if !long || silence.asked < OFTEN || share < 0.5 {
            return false;
        }
        self.rule = Rule::Silent;
        (self.count, self.lost_ns) = (silence.open, (silence.waited_ns as f64 * share) as u64);
        true
    }

    /// Whether by its usual rate others would have been answered in that time.
    fn would_have_answered(&self, silence: Silence) -> bool {
        let elsewhere = (self.story.seconds() * 1e9) as u64;
        let elsewhere = elsewhere.saturating_sub(silence.ns());
        let rate = self.exchanges.all.exchanges as f64 / elsewhere.max(1) as f64;
        rate * silence.ns() as f64 >= EXPECTED
    }

    /// How many exchanges there were, those that were given up included where these are what is slow.
    pub(crate) fn asked(&self) -> u64 {
        let all = self.exchanges.all.exchanges;
        match self.rule {
            Rule::GivenUp | Rule::Silent => all.saturating_add(self.count),
            _ => all.max(self.count),
        }
    }

    fn stalled(&mut self, told: &[Told]) -> bool {
        let stalled = told.iter().any(is_stalled);
        if stalled {
            self.rule = Rule::Stalled;
        }
        stalled
    }

    fn kept(&mut self, told: &[Told]) -> bool {
        let all = &self.exchanges.all;
        let Some((keeper, kept_ns)) = self.keeper(told) else {
            return false;
        };
        let each_ns = kept_ns / all.exchanges.max(1);
        let most = kept_ns.saturating_mul(2) >= all.think_ns && all.think_ns > 0;
        if !most || each_ns < KEPT_NS {
            return false;
        }
        self.rule = Rule::Kept(keeper);
        (self.count, self.lost_ns) = (all.exchanges, kept_ns);
        true
    }

    /// What kept threads longest, and for how long in all exchanges together, ns.
    fn keeper(&self, told: &[Told]) -> Option<(Keeper, u64)> {
        let all = &self.exchanges.all;
        let mut kept: BTreeMap<&str, (Keeper, u64)> = BTreeMap::new();
        let (mut thought, mut each) = (0u64, Vec::new());
        for t in told.iter().filter(|t| !t.x.open) {
            thought = thought.saturating_add(t.x.think_ns);
            each.push(t.took_ns());
            let mut left = t.alone_ns;
            for (wait, ns) in sleeps(self.story, &t.x) {
                let ns = ns.min(left);
                left -= ns;
                let keeper = match (wait.syscall.as_deref(), &*wait.state) {
                    (_, "T" | "t") => Keeper::Stopped,
                    (Some("futex"), _) => Keeper::Lock,
                    _ => continue,
                };
                let sum = kept.entry(keeper.name()).or_insert((keeper, 0));
                sum.1 = sum.1.saturating_add(ns);
            }
        }
        // The slowest stand for all where all are like them.
        each.sort_unstable();
        let median = each.get(each.len() / 2).copied().unwrap_or(0);
        let typical = median <= self.usual_ns.unwrap_or(0).saturating_mul(TYPICAL);
        let stand_for = match typical && thought > 0 {
            true => (all.think_ns as f64 / thought as f64).max(1.0),
            false => 1.0,
        };
        let waited = kept.into_values();
        let waited = waited.map(|(keeper, ns)| (keeper, (ns as f64 * stand_for) as u64));
        let runnable = std::iter::once((Keeper::Runqueue, all.think_runqueue_ns));
        waited.chain(runnable).max_by_key(|(_, ns)| *ns)
    }

    /// The time in which it answered nothing, where that is what its slow exchanges waited for: nearly all of them
    /// were under way, and by its usual rate many others would have been answered. A request that is answered
    /// when something happens (long polling) waits while others are served.
    pub(crate) fn silence(&self) -> Option<Silence> {
        if self.rule == Rule::Silent {
            return self.exchanges.silent_now;
        }
        let silence = self.exchanges.silence?;
        let waited = silence.open >= WAITING && self.count * 2 <= silence.open * 3;
        let is_one = silence.ns() >= LEAST_NS && self.would_have_answered(silence);
        (matches!(self.rule, Rule::Excess(_)) && waited && is_one).then_some(silence)
    }

    /// Whether most of what its slow exchanges were thought about is told by threads that did nothing else.
    pub(crate) fn is_known(&self) -> bool {
        let sum = |of: fn(&Told) -> u64| self.slow.iter().map(of).fold(0, u64::saturating_add);
        sum(Told::known_ns).saturating_mul(2) >= sum(|t| t.own_ns)
    }

    /// Whether most of the time of its slow exchanges passed before accept().
    pub(crate) fn waited_for_accept(&self) -> bool {
        let sum = |of: fn(&Told) -> u64| self.slow.iter().map(of).fold(0, u64::saturating_add);
        sum(|t| t.x.accept_ns).saturating_mul(2) >= sum(|t| t.own_ns) && !self.slow.is_empty()
    }

    /// Time of the slow ones that are told, ns: their own, and all.
    pub(crate) fn own_and_all_ns(&self) -> (u64, u64) {
        let sum = |of: fn(&Told) -> u64| self.slow.iter().map(of).fold(0, u64::saturating_add);
        (sum(|t| t.own_ns), sum(Told::took_ns))
    }

    /// How long a slow one takes on average, ns; of those that are open, so far.
    pub(crate) fn each_ns(&self) -> u64 {
        let longer = self.lost_ns / self.count.max(1);
        match self.rule {
            Rule::Excess(_) | Rule::GivenUp => longer.saturating_add(self.usual_ns.unwrap_or(0)),
            Rule::Silent => self.silence().map_or(0, |s| s.ns()),
            _ => self.slow.first().map_or(0, Told::took_ns),
        }
    }

    /// So late came the answers of a peer that they may have been sent in time and lost on the way.
    pub(crate) fn may_be_lost(&self) -> bool {
        matches!(self.rule, Rule::Excess(_) | Rule::GivenUp)
            && self.lost_ns < self.count.saturating_mul(PEERS_NS)
    }

    /// What it cost: the caller's time, where the caller is here.
    pub(crate) fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        let (mut left, usual) = (self.lost_ns, self.usual_ns.unwrap_or(0));
        for t in &self.slow {
            let Some(conn) = t.end.and_then(|id| self.story.conn(id)) else {
                continue;
            };
            let less = match self.rule {
                Rule::Excess(_) | Rule::GivenUp => usual,
                _ => 0,
            };
            let own = t.own_ns.saturating_sub(less).min(left);
            left -= own;
            let server = self.exchanges.role() == Role::Server;
            let peer = conn.peer.and_then(|id| self.story.conn(id));
            match peer.filter(|_| server) {
                Some(caller) => lost.add(caller, State::Awaiting, own),
                None if server => lost.add(conn, part(&t.x), own),
                None => lost.add(conn, State::Awaiting, own),
            }
        }
        let stalled = self.slow.iter().map(|t| unserved_ns(&t.x)).max();
        let outage = self.silence().map(|s| s.ns());
        let lost = lost.and(Lost::elsewhere(left)).in_outage(outage);
        lost.of_exchanges(OfExchanges {
            slow: self.count,
            of: self.asked(),
            connections: self.connections(),
            lost_ns: self.lost_ns,
            whole_ns: self.whole_ns(),
            stalled_ns: match self.rule {
                Rule::Stalled => stalled.unwrap_or(0),
                Rule::Silent => outage.unwrap_or(0),
                _ => 0,
            },
        })
    }

    /// Over how many connections the slow ones went: a few are told, and the others are taken to be spread likewise.
    fn connections(&self) -> u64 {
        if self.rule == Rule::GivenUp {
            // Each closed its own.
            return self.count;
        }
        let told = self.slow.len() as u64;
        let over: AHashSet<_> = self.slow.iter().map(|t| t.ends()).collect();
        let likewise = (over.len() as u64).saturating_mul(self.count) / told.max(1);
        likewise.min(self.over).max(over.len() as u64)
    }

    /// The place: its rivals are asked about it by its exchanges, and by the ends that were slow.
    pub(crate) fn place(&self) -> Place {
        let own = self.slow.iter().filter_map(|t| t.end);
        let peers = own.clone().filter_map(|id| self.story.conn(id)?.peer);
        let ids: AHashSet<ConnId> = own.clone().chain(peers).collect();
        let mut ids: Vec<ConnId> = ids.into_iter().collect();
        ids.sort_unstable();
        let mut pids: Vec<u32> = self.slow.iter().filter_map(|t| t.x.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        Place::Service {
            key: self.exchanges.service,
            listener: self.listener,
            pids,
            ids,
        }
    }

    /// What it cost, in a sentence.
    pub(crate) fn cost(&self) -> String {
        let slow = Quantity::count(self.count);
        let (of, lost) = (
            Quantity::of(self.asked(), "request"),
            Quantity::ns(self.lost_ns),
        );
        let each = Quantity::ns(self.lost_ns / self.count.max(1));
        match self.rule {
            Rule::Excess(_) => {
                format!("{slow} of {of} took {each} longer than half of them do, on average.")
            }
            Rule::Kept(keeper) => {
                format!(
                    "The threads of {of} were {} for {lost}, all together.",
                    keeper.name()
                )
            }
            Rule::GivenUp => {
                let waited = Quantity::ns(self.each_ns());
                format!("{slow} of {of} were given up after {waited}, on average.")
            }
            Rule::Silent => {
                format!("{slow} of {of} were waiting in the end, for {lost} all together.")
            }
            Rule::Stalled | Rule::Asked => {
                format!("{slow} of {of} took {each} on average.")
            }
        }
    }

    /// How many there were, and how long they took.
    pub(crate) fn requests(&self) -> Step {
        let all = self.exchanges;
        let answered = Quantity::of(all.all.exchanges, "request").rows(all.busiest);
        let quantile = |s: f64| Quantity::ns((s * 1e9) as u64);
        match all.response().filter(|_| all.all.exchanges >= FEW) {
            Some(p) => say!(
                "Answered {answered}: half within {p50_ms}, 99 in 100 within {p99_ms}.",
                answered,
                p50_ms = quantile(p.p50_s),
                p99_ms = quantile(p.p99_s)
            ),
            None => say!("Answered {answered}.", answered),
        }
    }

    /// What became of the slowest.
    pub(crate) fn verb(&self) -> &'static str {
        match self.slow.first() {
            Some(first) if first.is_given_up() => "was given up after",
            _ if self.is_open() => "is open after",
            _ => "took",
        }
    }

    /// The time of all exchanges, ns.
    fn whole_ns(&self) -> u64 {
        let all = &self.exchanges.all;
        let unanswered = match self.rule {
            Rule::GivenUp => all.given_up_ns.unwrap_or(0),
            Rule::Silent => self.lost_ns,
            _ => 0,
        };
        exchanged_ns(all)
            .saturating_add(unanswered)
            .max(self.lost_ns)
    }

    /// When the first of the slow ones that are told began.
    pub(crate) fn since(&self) -> Since {
        let began = self.slow.iter().map(|t| t.x.began_ns).min();
        let at = began.unwrap_or(self.story.start_ns);
        let kind = match at < self.story.start_ns {
            true => Began::Before,
            false => Began::Seen,
        };
        Since::at(self.story, at, kind)
    }

    /// Rows of the exchanges that are told.
    pub(crate) fn rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        self.slow.iter().map(|t| t.row)
    }

    /// Whether a connection of it is still open: an exchange under way may yet be answered.
    pub(crate) fn is_open(&self) -> bool {
        let first = self.slow.first();
        let conn = first.and_then(|t| self.story.conn(t.end?));
        let stands = conn.is_none_or(|c| c.outcome == Outcome::Open);
        stands && first.is_some_and(|t| t.x.open && !t.is_given_up())
    }
}

impl Keeper {
    /// What a thread is that is kept so.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Keeper::Runqueue => "waiting for a CPU",
            Keeper::Lock => "waiting for a lock (futex)",
            Keeper::Stopped => "stopped (SIGSTOP or a debugger)",
        }
    }
}
