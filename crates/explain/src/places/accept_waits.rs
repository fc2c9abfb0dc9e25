//! What connections waited for accept() at a listener, as requests and samples show it.

use ahash::AHashSet;
use analysis::account::{self, Exchanges, Role, Slow, State, exchanged_ns};
use analysis::words::rounded;
use analysis::{Conn, ConnId, Side, Story};
use recording::RowRef;
use recording::tables::Exchange;

use crate::finding::{Check, Step};
use crate::limits;
use crate::lost::{Lost, OfExchanges};
use crate::moment::{Began, Since};
use crate::place::Place;
use crate::places::listener::{ListenerPlace, SHOWN_ROWS, listener_places};
use crate::places::outage::Outage;
use crate::places::slow_exchanges::end;
use crate::say::{Quantity, say};

/// Connections that waited for accept().
pub(crate) struct AcceptWaits<'a> {
    pub(crate) here: ListenerPlace<'a>,
    exchanges: Option<&'a Exchanges>,
    /// Requests that came before accept() and waited for it for most of their time, the slowest first.
    told: Vec<(RowRef, Exchange, Option<ConnId>)>,
    /// When no connection was accepted at all, though some waited.
    pub(crate) outage: Option<Outage>,
    /// Ends that still wait, without such a request, and for how long samples saw them wait, ns.
    standing: Vec<(ConnId, u64)>,
    /// Time in the queue that nobody is told to have waited: one stays in it after its client has closed, and one
    /// that has asked for nothing yet, or came a moment ago, is in it as well; ns.
    unclaimed_ns: u64,
}

/// All listeners where some waited.
pub(crate) fn all(story: &Story) -> Vec<AcceptWaits<'_>> {
    let all = listener_places(story).filter_map(|here| AcceptWaits::of(here, its(here)));
    all.collect()
}

/// Those of one listener.
pub(crate) fn at<'a>(here: ListenerPlace<'a>) -> Option<AcceptWaits<'a>> {
    AcceptWaits::of(here, its(here))
}

/// How long requests waited to be read on connections not yet accepted when they came, ns. Only samples tell whether
/// these waited for accept(), or were accepted and read late.
pub(crate) fn unread_ns(here: ListenerPlace) -> u64 {
    let slowest = its(here).into_iter().flat_map(|e| &e.slowest);
    let waits = slowest.filter(|(_, x)| waited(x));
    let waits = waits.map(|(_, x)| (x.began_ns, x.began_ns.saturating_add(x.accept_ns)));
    let mut waits: Vec<(u64, u64)> = waits.collect();
    waits.sort_unstable();
    let mut until = 0;
    let mut sum = 0u64;
    for (from, to) in waits {
        sum = sum.saturating_add(to.saturating_sub(from.max(until)));
        until = until.max(to);
    }
    sum
}

/// Whether a request waited long before it was read, and for most of its time, on a connection that was not yet
/// accepted when it came.
fn waited(x: &Exchange) -> bool {
    let most = limits::MOST.reached(x.accept_ns, Slow::took_ns(x));
    x.accept_ns >= limits::NOTICED.ns() && most && !x.overlapped
}

/// The exchanges of a listener.
fn its(here: ListenerPlace<'_>) -> Option<&Exchanges> {
    let service = (here.listener.netns, Role::Server, here.listener.local);
    here.story.exchanges_of(service)
}

impl<'a> AcceptWaits<'a> {
    fn of(here: ListenerPlace<'a>, exchanges: Option<&'a Exchanges>) -> Option<AcceptWaits<'a>> {
        let story = here.story;
        // What is accepted at once and read late waits as well, but not in the queue.
        if !anybody_waited(here) {
            return None;
        }
        let (waiting, _) = waiting_samples(here);
        let slowest = exchanges.iter().flat_map(|e| &e.slowest);
        let told: Vec<_> = slowest
            .filter(|(_, x)| waited(x))
            .map(|(row, x)| (*row, x.clone(), end(story, x).map(|(id, _)| id)))
            .collect();
        let known: AHashSet<ConnId> = told.iter().filter_map(|(.., end)| *end).collect();
        let others = story.all(&here.listener.accepted);
        let unaccepted = |conn: &Conn| story.samples(conn).is_some_and(|s| s.last.unaccepted);
        // A connection that was answered after its last sample has been accepted: the sums of requests have its wait.
        let answered = |conn: &Conn| !told.is_empty() && conn.bytes_acked > 0;
        let others = others
            .filter(|(id, c)| waiting > 1 && !known.contains(id) && unaccepted(c) && !answered(c));
        let served = Served::of(here);
        let mut queued_ns = 0u64;
        let standing = others.map(|(id, conn)| {
            let ns = account::of_end(story, conn).of(State::Unaccepted);
            let longest_ns = served.longest_ns(story, conn);
            queued_ns = queued_ns.saturating_add(longest_ns);
            (id, ns.min(longest_ns))
        });
        let standing: Vec<_> = standing.collect();
        let outage = Outage::of(here).filter(|outage| outage.ns() >= limits::OUTAGE.ns());
        // A connection that waits while none is accepted has no reason of its own to wait.
        let least = outage.map_or(limits::STALL.ns(), |outage| {
            limits::STALL.ns().min(outage.ns() / 2)
        });
        let standing = standing.into_iter().filter(|(_, ns)| *ns >= least);
        let mut standing: Vec<_> = standing.collect();
        // A connection opened in advance (a pool) waits for nothing; where none of them has sent a request, the server
        // may be the one that speaks first.
        let asked = |id: ConnId| story.conn(id).is_some_and(|c| c.bytes_received > 0);
        if standing.iter().any(|(id, _)| asked(*id)) {
            standing.retain(|(id, _)| asked(*id));
        }
        let claimed_ns = standing.iter().map(|(_, ns)| *ns);
        let claimed_ns = claimed_ns.fold(0, u64::saturating_add);
        (!told.is_empty() || !standing.is_empty()).then_some(AcceptWaits {
            here,
            exchanges,
            outage,
            told,
            standing,
            unclaimed_ns: queued_ns.saturating_sub(claimed_ns),
        })
    }

    /// Time that requests waited: those accepted in the end, and those that still wait; ns.
    fn of_requests_ns(&self) -> u64 {
        if self.told.is_empty() {
            return 0;
        }
        // The sum is that of all requests, also of hundreds of thousands that waited some microseconds: those that count
        // waited no longer than the longest of them.
        let all = self.exchanges.as_ref().map_or(0, |e| e.all.accept_ns);
        let ended = self.told.iter().filter(|(_, x, _)| !x.open);
        let longest = ended.map(|(_, x, _)| x.accept_ns).max().unwrap_or(0);
        let ended = all.min(longest.saturating_mul(self.ended()));
        let open = self.told.iter().filter(|(_, x, _)| x.open);
        open.fold(ended, |sum, (_, x, _)| sum.saturating_add(x.accept_ns))
    }

    /// The whole wait, ns.
    pub(crate) fn waited_ns(&self) -> u64 {
        let standing = self.standing.iter().map(|(_, ns)| *ns);
        standing.fold(self.of_requests_ns(), u64::saturating_add)
    }

    /// Whether requests show it, and not samples alone.
    pub(crate) fn are_measured(&self) -> bool {
        !self.told.is_empty()
    }

    /// Whether none of them was ever accepted, as far as it was recorded.
    pub(crate) fn still_wait(&self) -> bool {
        let story = self.here.story;
        let stands = |id| story.conn(id).is_some_and(|c| c.ended_ns.is_none());
        self.told.is_empty() && self.standing.iter().all(|(id, _)| stands(*id))
    }

    /// The process that read them all in the end, where several accept there.
    pub(crate) fn reader(&self) -> Option<u32> {
        let mut read = self.told.iter().filter_map(|(_, x, _)| x.pid);
        let first = read.next()?;
        (self.standing.is_empty() && read.all(|pid| pid == first)).then_some(first)
    }

    /// Connections that came while the longest of them waited, and had been served by its end.
    pub(crate) fn overtaken_by(&self) -> u64 {
        let longest = self.told.iter().max_by_key(|(_, x, _)| x.accept_ns);
        let Some((_, x, _)) = longest else { return 0 };
        let until = x.began_ns.saturating_add(x.accept_ns);
        let accepted = self.here.story.all(&self.here.listener.accepted);
        let served = accepted.filter(|(_, c)| {
            let ended = c.ended_ns.filter(|_| c.bytes_acked > 0);
            c.start_ns > x.began_ns && ended.is_some_and(|at| at < until)
        });
        served.count() as u64
    }

    /// How many waited long enough to be noticed.
    pub(crate) fn count(&self) -> u64 {
        let open = self.told.iter().filter(|(_, x, _)| x.open);
        open.count() as u64 + self.ended() + self.standing.len() as u64
    }

    /// Of these, those that were accepted in the end and whose requests show it.
    fn ended(&self) -> u64 {
        let ended = self.told.iter().filter(|(_, x, _)| !x.open).count() as u64;
        let long = self.exchanges.as_ref().filter(|_| ended > 0);
        let long = long.map_or(0, |e| {
            // The histogram counts all that took at least this long: the recorded ones' share of those that waited
            // applies to it, and each waited at least that long.
            let told = e.slowest.iter().map(|(_, x)| x);
            let told = told.filter(|x| !x.open && Slow::took_ns(x) >= limits::NOTICED.ns());
            let share = ended as f64 / (told.count() as f64).max(ended as f64);
            let likewise = e.as_long(limits::NOTICED.ns()) as f64 * share;
            (likewise as u64).min(e.all.accept_ns / limits::NOTICED.ns())
        });
        long.max(ended)
    }

    /// The total that `count` is out of.
    pub(crate) fn of_all(&self) -> u64 {
        let asked = self.exchanges.as_ref().map_or(0, |e| e.all.exchanges);
        let all = asked.max(self.here.listener.accepted.len() as u64);
        all.max(self.count())
    }

    /// The average wait, ns.
    pub(crate) fn each_ns(&self) -> u64 {
        self.waited_ns() / self.count().max(1)
    }

    /// The longest wait, ns.
    pub(crate) fn longest_ns(&self) -> u64 {
        let told = self.told.iter().map(|(_, x, _)| x.accept_ns);
        told.chain(self.standing.iter().map(|(_, ns)| *ns))
            .max()
            .unwrap_or(0)
    }

    /// The ends that are recorded individually.
    pub(crate) fn ids(&self) -> Vec<ConnId> {
        let standing = self.standing.iter().map(|(id, _)| *id);
        let told = self.told.iter().filter_map(|(.., end)| *end);
        told.chain(standing).collect()
    }

    /// What it cost: the caller's time, where the caller is on this host.
    pub(crate) fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        let mut left = self.of_requests_ns();
        let told = self.told.iter();
        let told = told.filter_map(|(_, x, end)| Some(((*end)?, x.accept_ns)));
        for (id, ns) in told {
            let ns = ns.min(left);
            left -= ns;
            self.claim(&mut lost, id, ns);
        }
        for (id, ns) in &self.standing {
            self.claim(&mut lost, *id, *ns);
        }
        let lost = lost
            .and(Lost::elsewhere(left))
            .in_outage(self.outage.map(|o| o.ns()));
        let Some(all) = self.exchanges.as_ref().filter(|_| !self.told.is_empty()) else {
            return lost;
        };
        lost.of_exchanges(OfExchanges {
            slow: self.count(),
            of: self.of_all(),
            // A connection waits for accept() once, and few of them are recorded individually.
            connections: self.count(),
            lost_ns: self.waited_ns(),
            whole_ns: exchanged_ns(&all.all).max(self.waited_ns()),
            stalled_ns: self.longest_ns(),
            failed: (0, 0),
        })
    }

    fn claim(&self, lost: &mut Lost, id: ConnId, ns: u64) {
        let story = self.here.story;
        let Some(conn) = story.conn(id) else { return };
        match conn.peer.and_then(|id| story.conn(id)) {
            Some(caller) => lost.add(caller, State::Awaiting, ns),
            None => lost.add(conn, State::Unaccepted, ns),
        }
    }

    /// The place that rivals are asked about.
    pub(crate) fn place(&self) -> Place {
        let listener = self.here.listener;
        let story = self.here.story;
        let own = self.ids();
        let peers = own.iter().filter_map(|id| story.conn(*id)?.peer);
        let mut ids: Vec<ConnId> = own.iter().copied().chain(peers).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut pids: Vec<u32> = self.told.iter().filter_map(|(_, x, _)| x.pid).collect();
        pids.extend(listener.holders.iter().map(|h| h.pid));
        pids.sort_unstable();
        pids.dedup();
        Place::Service {
            key: (listener.netns, Role::Server, listener.local),
            listener: Some(self.here.index),
            pids,
            ids,
        }
    }

    /// When the first of those recorded individually began to wait.
    pub(crate) fn since(&self) -> Since {
        let story = self.here.story;
        let told = self.told.iter();
        let told = told.map(|(_, x, _)| (x.began_ns, x.began_ns.saturating_add(x.accept_ns)));
        let standing = self
            .standing
            .iter()
            .filter_map(|(id, ns)| Some((story.conn(*id)?, *ns)));
        let standing = standing.map(|(c, ns)| match c.side {
            Side::Older => (0, u64::MAX),
            _ => (c.start_ns, c.start_ns.saturating_add(ns)),
        });
        // What waited and was served before an outage waited for something else.
        let waits = told.chain(standing);
        let waits = waits.filter(|(_, until)| self.outage.is_none_or(|o| *until > o.from_ns));
        let at = waits.map(|(from, _)| from).min().unwrap_or(story.start_ns);
        let began = if at < story.start_ns {
            Began::Before
        } else {
            Began::Seen
        };
        Since::at(story, at.max(story.start_ns), began)
    }

    /// How many waited, and for how long.
    pub(crate) fn step(&self) -> Step {
        let story = self.here.story;
        let rows = self.told.iter().map(|(row, ..)| *row);
        let sampled = self.standing.iter();
        let sampled = sampled.filter_map(|(id, _)| Some(story.samples(story.conn(*id)?)?.last.row));
        say!(
            "{waited} of {all} waited for accept() for {waited_ms} in total, {longest_ms} at most; their \
             handshakes were complete, so their clients were already connected.",
            waited = Quantity::of(self.count(), "connection"),
            all = Quantity::count(self.of_all()),
            waited_ms = Quantity::ns(self.waited_ns()),
            longest_ms =
                Quantity::ns(self.longest_ns()).rows(rows.chain(sampled).take(2 * SHOWN_ROWS))
        )
    }

    /// The queue that they waited in.
    pub(crate) fn queue_step(&self) -> Step {
        let listener = self.here.listener;
        let (waiting, samples) = waiting_samples(self.here);
        let fullest = listener.fullest();
        let longest = fullest.map_or(0, |s| s.longest_accept_queue.0);
        let rows = fullest.map(|s| s.longest_accept_queue.1);
        say!(
            "Its accept queue held at most {longest}, with a backlog of {backlog}, and was not empty in \
             {waiting} of {samples}; it dropped {dropped}.",
            longest = Quantity::of(longest, "connection").rows(rows),
            backlog = Quantity::count(listener.backlog().unwrap_or(0)),
            waiting = Quantity::count(waiting),
            samples = Quantity::of(samples, "sample"),
            dropped = Quantity::of(listener.drops().unwrap_or(0), "packet")
        )
    }

    /// How long a connection was seen to wait there.
    pub(crate) fn seen_step(&self) -> Option<Step> {
        let socks = self.here.listener.socks.iter();
        let (ns, row) = socks
            .filter_map(|s| s.longest_wait())
            .max_by_key(|(ns, _)| *ns)?;
        (ns >= limits::ACCEPT_WAIT_SEEN.ns()).then(|| {
            say!(
                "Between samples, the first connection in the queue was found to have waited for up to \
                 {longest_wait_ms}.",
                longest_wait_ms = Quantity::ns(ns).rows([row])
            )
        })
    }

    /// By Little's law, the queue's mean length gives the sum of all waits in it: what is accepted at once and read
    /// late waits in no queue. The queue also holds whom its program never accepts, after the client has closed. `None`
    /// where too few samples found somebody waiting.
    pub(crate) fn check(&self) -> Option<Check> {
        let story = self.here.story;
        let over_ns = story.end_ns.saturating_sub(story.start_ns);
        let queued_ns = self.waited_ns().saturating_add(self.unclaimed_ns);
        let expected = queued_ns as f64 / over_ns.max(1) as f64;
        let socks = self.here.listener.socks.iter();
        let measured: f64 = socks.map(|s| s.mean_queue()).sum();
        let (waiting, samples) = waiting_samples(self.here);
        let Some(error) = sampling_error(waiting, samples) else {
            return self.looks_check();
        };
        let off = measured * error;
        Some(Check {
            formula: "connections in the accept queue, on average over its samples = time that connections were in \
                      it ÷ time recorded"
                .into(),
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "connections".into(),
            agrees: (expected - measured).abs() <= off,
            tolerance: format!(
                "± {} (the queue was sampled {samples} times)",
                rounded(off)
            ),
        })
    }

    /// For waits that the samples missed: the longest, by looks at the queue between samples.
    fn looks_check(&self) -> Option<Check> {
        let socks = self.here.listener.socks.iter();
        let (looked, _) = socks
            .filter_map(|s| s.longest_wait())
            .max_by_key(|(ns, _)| *ns)?;
        let longest = self.longest_ns();
        let ms = |ns: u64| rounded(ns as f64 / 1e6);
        Some(Check {
            formula: "longest wait of the first connection in the queue, by looks between samples = longest wait for \
                      accept()"
                .into(),
            expected: ms(longest),
            measured: ms(looked),
            unit: "ms".into(),
            agrees: limits::MOST.reached(looked, longest),
            tolerance: "at least half of it: a look comes before the wait ends".into(),
        })
    }
}

/// By what share an average over samples may be off, if so many of them found something: the standard error of that
/// number, and a sample at either end of a wait. `None` if they are too few.
fn sampling_error(waiting: u64, samples: u64) -> Option<f64> {
    if waiting < limits::SEEN_TWICE.count() {
        return None;
    }
    let (k, n) = (waiting as f64, samples as f64);
    let standard = ((1.0 - k / n) / k).sqrt();
    Some(limits::ACCEPT_WAITS_DEVIATIONS.number() * standard + 2.0 / k)
}

/// A queue is served in order: a connection that came before an accepted one had been accepted as well, whatever its
/// last sample showed.
struct Served {
    /// For each connection known to have been accepted: when it was established, and by when it, or a later one, had
    /// been accepted; sorted by the former, ns.
    by: Vec<(u64, u64)>,
}

impl Served {
    fn of(here: ListenerPlace) -> Served {
        let story = here.story;
        let accepted = story.all(&here.listener.accepted).filter_map(|(_, conn)| {
            // A program can only close what it has accepted.
            let closed = conn.ended_ns.filter(|_| conn.closed_first);
            let sampled = story.samples(conn).map(|s| &s.last);
            let sampled = sampled.filter(|last| !last.unaccepted).map(|s| s.time_ns);
            Some((conn.established_ns?, closed.or(sampled)?))
        });
        // Each socket of a port has a queue of its own.
        let one = here.listener.socks.len() <= 1;
        let mut by: Vec<(u64, u64)> = accepted.filter(|_| one).collect();
        by.sort_unstable();
        let mut least = u64::MAX;
        for (_, accepted) in by.iter_mut().rev() {
            least = least.min(*accepted);
            *accepted = least;
        }
        Served { by }
    }

    /// How long a connection can have waited at most, ns.
    fn longest_ns(&self, story: &Story, conn: &Conn) -> u64 {
        let came = conn.established_ns.unwrap_or(story.start_ns);
        let later = self
            .by
            .partition_point(|(established, _)| *established <= came);
        let overtaken = self.by.get(later).map(|(_, accepted)| *accepted);
        let overtaken = overtaken.map_or(u64::MAX, |at| at.saturating_sub(came));
        // Without a recorded handshake, nothing is known before the first sample.
        let until = conn.ended_ns.unwrap_or(story.end_ns);
        overtaken.min(until.saturating_sub(conn.start_ns))
    }
}

/// Whether a connection was seen waiting at one of a listener's sockets for longer than it takes to run a thread.
pub(crate) fn anybody_waited(here: ListenerPlace) -> bool {
    here.listener
        .socks
        .iter()
        .any(|s| s.waited(limits::ACCEPT_WAIT_SEEN.ns()))
}

/// Whether looks at its queue show it, and not samples alone.
pub(crate) fn was_looked_at(here: ListenerPlace) -> bool {
    here.listener
        .socks
        .iter()
        .any(|s| s.longest_wait().is_some())
}

/// Samples of a listener's sockets in which a connection waited, and all samples.
pub(crate) fn waiting_samples(here: ListenerPlace) -> (u64, u64) {
    let socks = here.listener.socks.iter();
    let each = socks.map(|s| (u64::from(s.waiting_samples), u64::from(s.samples)));
    each.fold((0, 0), |(a, b), (waiting, samples)| {
        (a + waiting, b + samples)
    })
}
