//! What is slow among the exchanges of a service: which ones, and whose time that was.

mod rules;
mod told;

use ahash::{AHashMap, AHashSet};
use analysis::account::{Exchanges, Role, Silence, Slow, State, exchanged_ns};
use analysis::words::duration;
use analysis::{Conn, ConnId, Outcome, Side, Story};
use recording::RowRef;
use recording::tables::Exchange;

use crate::finding::Step;
use crate::limits;
use crate::lost::{Lost, OfExchanges};
use crate::moment::{Began, Since};
use crate::place::Place;
use crate::say::{Quantity, say};
use crate::verdict::{Answered, Test, every};

pub(crate) use rules::{Excess, Keeper, Rule};
pub(crate) use told::{Told, end, fetched_from, sleeps, slept};
use told::{alone_ns, is_stalled, part, unserved_ns};

/// A service whose exchanges are slow.
pub(crate) struct SlowService<'a> {
    pub(crate) story: &'a Story,
    pub(crate) exchanges: &'a Exchanges,
    pub(crate) rule: Rule,
    /// They are few, and all that were under way: a stop, or a pool that waits for an event.
    pub(crate) may_wait: bool,
    /// The slow exchanges that are recorded individually, the slowest first.
    pub(crate) slow: Vec<Told>,
    /// How many are slow.
    pub(crate) count: u64,
    /// How much longer they took than the median, as far as it was the time of the answering side; ns.
    pub(crate) lost_ns: u64,
    /// The median time of all, ns; `None` when none has ended.
    pub(crate) usual_ns: Option<u64>,
    /// The shortest round trip of its connections, ns.
    pub(crate) round_trip_ns: Option<u64>,
    /// Ends of the exchanges that took a second or longer.
    pub(crate) if_asked: Vec<ConnId>,
    /// The listener that the exchanges came to, if it is on this host.
    pub(crate) listener: Option<u32>,
    /// Connections of the service.
    over: u64,
    /// For the caller that got no answer most often: how often, and over which time, ns.
    failed: (u64, u64),
}

/// Whether nothing has ever come from its peer.
fn is_unheard(conn: &Conn) -> bool {
    conn.bytes_received == 0 && conn.established_ns.is_some()
}

/// The slow services of a role.
pub(crate) fn services(story: &Story, role: Role) -> Vec<SlowService<'_>> {
    let all = story.exchanges();
    // Where both ends are here, the answering one knows.
    let answered: AHashSet<u32> = all.iter().filter_map(|e| listener(story, e)).collect();
    let asked = all.iter().filter(|e| e.role() == role);
    let slow = asked.filter_map(|e| SlowService::of(story, e));
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
    let here = story.listeners.place(netns, at);
    here.filter(|_| role == Role::Server)
}

impl<'a> SlowService<'a> {
    fn of(story: &'a Story, exchanges: &'a Exchanges) -> Option<SlowService<'a>> {
        let response = exchanges.response();
        let multiplexed = response.is_none() && exchanges.all.exchanges > 0;
        let is_server = exchanges.role() == Role::Server;
        let slowest = exchanges.slowest.iter().filter(|(_, x)| !x.overlapped);
        let with_ends: Vec<_> = slowest.map(|(row, x)| (*row, x, end(story, x))).collect();
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
        let mostly_own = |t: &&Told| limits::MOST.reached(t.own_ns, t.took_ns()) && t.own_ns > 0;
        let long = told
            .iter()
            .filter(|t| t.took_ns() >= limits::ASKED_ABOUT.ns());
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
            rule: Rule::OnlyIfAsked,
            may_wait: false,
            slow: Vec::new(),
            count: 0,
            lost_ns: 0,
            usual_ns: response.map(|p| (p.p50_s * 1e9) as u64),
            round_trip_ns,
            if_asked: if_asked.collect(),
            over: story.of_service(exchanges.service).count() as u64,
            failed: (0, 0),
            exchanges,
        };
        if multiplexed {
            // Which answer belongs to which request is unknown; on a connection that never got a byte, none does.
            let unheard = |t: &Told| t.end.and_then(|id| story.conn(id)).is_some_and(is_unheard);
            let unheard: Vec<Told> = told.into_iter().filter(unheard).collect();
            service.slow = unheard;
            return service.unheard_of().then_some(service);
        }
        let asked = long.filter(mostly_own).count() > 0;
        // That nothing at all was served says more than that a few took much of the time.
        let ruled = service.excess(&told, Excess::Many)
            || service.given_up(&told)
            || is_server && service.stalled(&told)
            || service.silent(&told)
            || is_server && service.kept(&told)
            || service.excess(&told, Excess::Dear)
            || service.excess(&told, Excess::Together)
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
            Rule::OnlyIfAsked => {
                let slow = |t: &Told| t.took_ns() >= limits::ASKED_ABOUT.ns() && mostly_own(&t);
                service.slow.retain(slow);
            }
        }
        if matches!(service.rule, Rule::Stalled | Rule::OnlyIfAsked) {
            service.count_likewise();
        }
        Some(service)
    }

    /// Counts the slow ones: of a busy service only some are recorded individually, and the histogram gives how many
    /// they stand for.
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

    /// How many exchanges there were, including those given up if these are the slow ones.
    pub(crate) fn asked(&self) -> u64 {
        let all = self.exchanges.all.exchanges;
        match self.rule {
            Rule::GivenUp | Rule::Silent => all.saturating_add(self.count),
            _ => all.max(self.count),
        }
    }

    /// The time in which it answered nothing, if its slow exchanges waited for that: nearly all of them were under way,
    /// and at its usual rate many others would have been answered. A request that is answered when something happens
    /// (long polling) waits while others are served.
    pub(crate) fn silence(&self) -> Option<Silence> {
        match self.rule {
            Rule::Silent => self.exchanges.silent_now,
            Rule::Excess(_) => self.all_waited(self.count),
            _ => None,
        }
    }

    /// The time in which so many waited, and nothing was answered.
    fn all_waited(&self, count: u64) -> Option<Silence> {
        let silence = self.exchanges.silence?;
        let waited = silence.open >= limits::OFTEN_TO_SEVERAL.count()
            && count as f64 <= limits::TWICE.times() * silence.open as f64;
        let is_one = silence.ns() >= limits::OUTAGE.ns() && self.would_have_answered(silence);
        (waited && is_one).then_some(silence)
    }

    /// Whether its slow exchanges went over connections that do little else, while others have the quick ones: a
    /// connection opened to wait (a pop from a queue, long polling, a change stream) waits as long each time. A
    /// server's late answer is one of many over its connection.
    pub(crate) fn went_over_waiting_ones(&self) -> bool {
        let mut of_conn: AHashMap<ConnId, (u64, u64)> = AHashMap::new();
        for t in &self.slow {
            let Some(id) = t.end else { return false };
            let (slow, took_ns) = of_conn.entry(id).or_default();
            *slow += 1;
            *took_ns = took_ns.saturating_add(t.took_ns());
        }
        let waiting = |(id, (slow, took_ns)): (&ConnId, &(u64, u64))| {
            let transfer = self.story.transfers.of(*id)?;
            let conn = self.story.conn(*id)?;
            let asked = transfer.segments();
            let fills =
                limits::MOST.reached(asked.saturating_mul(took_ns / slow), transfer.span_ns);
            // One that stays and asks for nothing else has waited before the recording, and will again. Of one that is
            // opened for each request no more is known than of the others.
            let stays = conn.side == Side::Older && conn.ended_ns.is_none() && asked <= *slow;
            (fills && (stays || asked >= limits::A_FEW.count())).then_some((*slow, asked))
        };
        let waiting = of_conn.iter().filter_map(waiting);
        // A request before the first sample is not among the segments.
        let (told, asked) = waiting.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1 + 1));
        // At least half of what these connections asked is slow, where not all slow exchanges are recorded individually.
        let likewise = self.count as f64 / self.slow.len().max(1) as f64;
        let slow = told as f64 * likewise.max(1.0);
        told > 0
            && limits::NEARLY_ALL.reached(told, self.slow.len())
            && asked as f64 <= slow * limits::TWICE.times()
    }

    /// Whether most of the service time of its slow exchanges is known from threads that did nothing else.
    pub(crate) fn is_known(&self) -> bool {
        let sum = |of: fn(&Told) -> u64| self.slow.iter().map(of).fold(0, u64::saturating_add);
        limits::MOST.reached(sum(Told::known_ns), sum(|t| t.own_ns))
    }

    /// Whether most of the time of its slow exchanges passed before accept().
    pub(crate) fn waited_for_accept(&self) -> bool {
        let sum = |of: fn(&Told) -> u64| self.slow.iter().map(of).fold(0, u64::saturating_add);
        limits::MOST.reached(sum(|t| t.x.accept_ns), sum(|t| t.own_ns)) && !self.slow.is_empty()
    }

    /// Time of the slow ones recorded individually, ns: their own, and all.
    pub(crate) fn own_and_all_ns(&self) -> (u64, u64) {
        let sum = |of: fn(&Told) -> u64| self.slow.iter().map(of).fold(0, u64::saturating_add);
        (sum(|t| t.own_ns), sum(Told::took_ns))
    }

    /// How long a slow one takes on average, ns; for open ones, so far.
    pub(crate) fn each_ns(&self) -> u64 {
        let longer = self.lost_ns / self.count.max(1);
        match self.rule {
            Rule::Excess(_) | Rule::GivenUp => longer.saturating_add(self.usual_ns.unwrap_or(0)),
            Rule::Silent => self.silence().map_or(0, |s| s.ns()),
            _ => self.slow.first().map_or(0, Told::took_ns),
        }
    }

    /// Whether a peer's answers are late by little enough that they may have been sent in time and lost on the way.
    pub(crate) fn may_be_lost(&self) -> bool {
        matches!(self.rule, Rule::Excess(_) | Rule::GivenUp)
            && self.lost_ns < self.count.saturating_mul(limits::SLOW_PEER.ns())
    }

    /// What it cost: the caller's time, where the caller is on this host.
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
            failed: self.failed,
        })
    }

    /// How many connections the slow ones went over: a few are recorded, and the others are assumed to be spread in the
    /// same way.
    fn connections(&self) -> u64 {
        if self.rule == Rule::GivenUp {
            // Each closed its own connection.
            return self.count;
        }
        let told = self.slow.len() as u64;
        let over: AHashSet<_> = self.slow.iter().map(|t| t.ends()).collect();
        let likewise = (over.len() as u64).saturating_mul(self.count) / told.max(1);
        likewise.min(self.over).max(over.len() as u64)
    }

    /// The place: its rivals are asked by its exchanges, and by the ends that were slow.
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
                format!("{slow} of {of} took {each} longer than the median, on average.")
            }
            Rule::Kept(keeper) => {
                format!(
                    "The threads of {of} were {} for {lost} in total.",
                    keeper.name()
                )
            }
            Rule::GivenUp => {
                let waited = Quantity::ns(self.each_ns());
                format!("{slow} of {of} were given up after {waited} on average.")
            }
            Rule::Silent => {
                format!("{slow} of {of} were waiting at the end, for {lost} in total.")
            }
            Rule::Stalled | Rule::OnlyIfAsked => {
                format!("{slow} of {of} took {each} on average.")
            }
        }
    }

    /// How many there were, and how long they took.
    pub(crate) fn requests(&self) -> Step {
        let all = self.exchanges;
        let answered = Quantity::of(all.all.exchanges, "request").rows(all.busiest);
        let quantile = |s: f64| Quantity::ns((s * 1e9) as u64);
        match all
            .response()
            .filter(|_| all.all.exchanges >= limits::ENOUGH.count())
        {
            Some(p) => say!(
                "Answered {answered}: half within {p50_ms}, 99 % within {p99_ms}.",
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
            _ if self.is_open() => "is still open after",
            _ => "took",
        }
    }

    /// Whether the slowest was answered.
    pub(crate) fn is_answered(&self) -> bool {
        let given_up = self.slow.first().is_some_and(Told::is_given_up);
        !given_up && !self.is_open()
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

    /// When the first individually recorded slow one began.
    pub(crate) fn since(&self) -> Since {
        let began = self.slow.iter().map(|t| t.x.began_ns).min();
        let at = began.unwrap_or(self.story.start_ns);
        let kind = if at < self.story.start_ns {
            Began::Before
        } else {
            Began::Seen
        };
        Since::at(self.story, at, kind)
    }

    /// Rows of the individually recorded exchanges.
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

/// Whether the server of a client's slowest exchanges is on this host.
pub(crate) fn is_answered_here(story: &Story, exchanges: &Exchanges) -> bool {
    let mut ends = exchanges.slowest.iter().filter_map(|(_, x)| end(story, x));
    ends.any(|(_, conn)| conn.peer.is_some() || conn.listener.is_some())
}

/// The ways in which the exchanges of a service may be slow, each with the least that it needs.
pub(crate) fn refuted(exchanges: &Exchanges) -> Vec<Option<Answered>> {
    let all = &exchanges.all;
    let Some(usual) = exchanges.response() else {
        let why = "requests are sent before answers have ended (multiplexed): the time of each is unknown";
        let silent = all.given_up.unwrap_or(0) > 0 || !exchanges.slowest.is_empty();
        return vec![match all.exchanges {
            0 => silent
                .then(|| Answered::unknown("no request was answered: the usual time is unknown")),
            _ => Some(Answered::unknown(why)),
        }];
    };
    if all.exchanges < limits::ENOUGH.count() {
        let few = Quantity::of(all.exchanges, "request");
        return vec![Some(Answered::unknown(format!(
            "the usual time is unknown with {few}"
        )))];
    }
    let usual_ns = (usual.p50_s * 1e9) as u64;
    let took = exchanges.slowest.iter().filter(|(_, x)| !x.overlapped);
    let longest = took.clone().max_by_key(|(_, x)| Slow::took_ns(x));
    let longest_ns = longest.map_or(0, |(_, x)| Slow::took_ns(x));
    let row = longest.map(|(row, _)| *row).or(exchanges.busiest);
    let of = all.exchanges;
    let says = || {
        say!(
            "half of {requests} took {usual_ms}, and the slowest {longest_ms}",
            requests = Quantity::of(of, "request"),
            usual_ms = Quantity::ns(usual_ns),
            longest_ms = Quantity::ns(longest_ns).rows(row)
        )
    };
    let beyond = |longer_ns: u64, most: u64| {
        let least_ns = usual_ns.saturating_mul(limits::SLOW_TIMES_USUAL.count());
        let (n, _) = exchanges.beyond(least_ns.max(usual_ns.saturating_add(longer_ns)));
        let step = say!(
            "{slow} of {requests} took ten times as long as the median and {longer_ms} longer",
            slow = Quantity::count(n).rows(row),
            requests = Quantity::of(of, "request"),
            longer_ms = Quantity::ns(longer_ns)
        );
        (n.min(most), step)
    };
    let (many, many_step) = beyond(limits::NOTICED.ns(), of);
    let (most, most_step) = beyond(limits::SLOW_MOST.ns(), of);
    let given_up = all.given_up.unwrap_or(0);
    let given_up_step = say!(
        "callers gave up {abandoned} of {requests}",
        abandoned = Quantity::count(given_up).rows(exchanges.busiest),
        requests = Quantity::of(of.saturating_add(given_up), "request")
    );
    let thought = all.think_ns / of.max(1);
    let thought_step = say!(
        "the service time of a request was {thought_ms} on average",
        thought_ms = Quantity::ns(thought).rows(exchanges.busiest)
    );
    let server = exchanges.role() == Role::Server;
    let asked = of.saturating_add(given_up);
    // One caller that gets no answer repeatedly needs fewer than many callers do.
    let least = if server {
        &limits::OFTEN
    } else {
        &limits::FAILED_AGAIN
    };
    let ways = [
        every([Test::share(
            many,
            of,
            &limits::SLOW_SHARE,
            many_step.clone(),
        )]),
        every([Test::events(many, of, &limits::ENOUGH, many_step)]),
        every([Test::events(given_up, asked, least, given_up_step)]),
        every([Test::lasts(longest_ns, &limits::STALL, says())]),
    ];
    let own = [
        every([Test::share(most, of, &limits::SLOW_SHARE, most_step)]),
        every([Test::lasts(thought, &limits::RECORDED_WAIT, thought_step)]),
    ];
    // The first lines say so where there is no finding: what is slow now and then is not refuted.
    let tail = usual.p99_s >= limits::ANSWER_SLOW.s()
        && usual.p99_s >= limits::ANSWER_TAIL.times() * usual.p50_s;
    let tail = tail.then(|| {
        Answered::unknown(format!(
            "one answer in a hundred took {} or longer, half of all {} at most: no number refutes that",
            duration((usual.p99_s * 1e9) as u64),
            duration(usual_ns)
        ))
    });
    ways.into_iter()
        .chain(own.into_iter().filter(|_| server))
        .chain(tail.map(Some))
        .collect()
}
