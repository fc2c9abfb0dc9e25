//! What the causes of resets share: the connections of a listener that this host itself reset while their clients still
//! held them.

use std::collections::BTreeMap;

use analysis::stats::median;
use analysis::words::{bytes, percent};
use analysis::{Conn, ConnId, Sent, Side, Story, Why};

use crate::callers::one_failed_again;
use crate::case::Case;
use crate::cause::Cause;
use crate::checks::{at_least, same_count};
use crate::finding::{Check, Impact, Level, Scope, Step};
use crate::limits;
use crate::lost::Lost;
use crate::place::Place;
use crate::places::listener::{ListenerPlace, SHOWN_ROWS, listener_places};
use crate::say::{Quantity, say};
use crate::scope::process;
use crate::verdict::{Answered, Test, Verdict, every};
use crate::whole::{NO_CONNECTION, Whole};

/// A way to close a socket that has the kernel send a reset.
pub(crate) struct Closing {
    pub(crate) why: Why,
    /// As a sentence says it: `with SO_LINGER 0`.
    pub(crate) how: &'static str,
    /// The kernel's name of the reason.
    pub(crate) reason: &'static str,
    /// The counter for it.
    pub(crate) counter: &'static str,
    /// Whether it counts nothing else.
    pub(crate) exact: bool,
}

/// The connections of a listener that were reset by one way of closing them.
pub(crate) struct ServerResets<'a> {
    pub(crate) here: ListenerPlace<'a>,
    closing: &'static Closing,
    /// Each with the reset that ended it.
    all: Vec<(ConnId, &'a Conn, &'a Sent)>,
}

/// Whether it was a transfer that nobody calls slow, to which nothing is ever answered: its receiver ends it as it likes
/// (iperf3, a sink), and no answer can be lost.
fn is_sink(conn: &Conn) -> bool {
    let lasted = conn.ended_ns.zip(conn.established_ns);
    let lasted_ns = lasted.map_or(0, |(to, from)| to.saturating_sub(from));
    let fast = limits::ANSWER_FAST.number() * lasted_ns as f64 / 1e9;
    conn.bytes_acked == 0 && lasted_ns >= limits::HELD.ns() && conn.bytes_received as f64 >= fast
}

/// The listeners that often reset their clients this way. A client that leaves before it has read everything resets as
/// well: that is its own affair, and not reported here.
pub(crate) fn places<'a>(
    story: &'a Story,
    closing: &'static Closing,
) -> impl Iterator<Item = ServerResets<'a>> {
    let mut by_listener: BTreeMap<u32, Vec<(ConnId, &Conn, &Sent)>> = BTreeMap::new();
    for sent in story.resets.sent.iter().filter(|s| s.why == closing.why) {
        let conn = sent.conn.and_then(|id| Some((id, story.conn(id)?)));
        let conn = conn.filter(|(_, c)| c.side != Side::Opened && held_by_client(c));
        let conn = conn.filter(|(_, c)| !is_idle(story, c) && !is_sink(c));
        if let Some((id, conn)) = conn
            && let Some(listener) = conn.listener
        {
            by_listener
                .entry(listener)
                .or_default()
                .push((id, conn, sent));
        }
    }
    listener_places(story).filter_map(move |here| {
        let mut all = by_listener.remove(&here.index)?;
        if let Some(closed) = here.listener.closed_ns {
            all.retain(|(_, _, s)| s.time_ns.saturating_add(limits::BETWEEN_SAMPLES.ns()) < closed);
        }
        let resets = ServerResets { here, closing, all };
        resets.matters().then_some(resets)
    })
}

/// Whether the client had sent something, and had not closed its side: it waits for an answer.
fn held_by_client(conn: &Conn) -> bool {
    conn.bytes_received > 0 && !conn.peer_closed
}

/// Whether nothing had been sent for a while when it ended, as far as samples tell.
fn is_idle(story: &Story, conn: &Conn) -> bool {
    let said = (conn.bytes_acked, conn.bytes_received);
    story.samples(conn).is_some_and(|s| {
        let ended_ns = conn.ended_ns.unwrap_or(0);
        let quiet = ended_ns.saturating_sub(s.last.time_ns) >= limits::CLOSED_IDLE.ns();
        quiet && (s.last.bytes_acked, s.last.bytes_received) == said
    })
}

impl<'a> ServerResets<'a> {
    fn matters(&self) -> bool {
        let times = self.all.iter().map(|(_, _, s)| s.time_ns);
        let span = match (times.clone().min(), times.max()) {
            (Some(first), Some(last)) => last - first,
            _ => 0,
        };
        let many = self.all.len() >= limits::OFTEN.as_usize()
            && self.share() >= limits::RESETS_SHARE.share();
        many && span >= limits::ONE_MOMENT.ns() || self.met_one_again()
    }

    /// Whether one caller of this host met several.
    fn met_one_again(&self) -> bool {
        let story = self.here.story;
        let met = self.all.iter();
        let met = met.filter_map(|(_, c, sent)| Some((story.conn(c.peer?)?, sent.time_ns)));
        one_failed_again(story, met)
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// Connections that the listener accepted, at any time.
    pub(crate) fn of(&self) -> u64 {
        self.here.connections().max(self.count())
    }

    pub(crate) fn share(&self) -> f64 {
        self.count() as f64 / self.of().max(1) as f64
    }

    /// A case of the cause that closes this way; the caller adds title, fix and advice.
    pub(crate) fn case(&self, cause: Cause, scope: &Scope) -> Case<'a> {
        let told = self.all.iter().all(|(_, _, s)| s.told);
        let case = Case::new(self.here.story, cause, scope.clone())
            .placed(Place::Resets(self.all.iter().map(|(id, ..)| *id).collect()))
            .affects(self.impact(), self.lost());
        let case = if told {
            case.because("the kernel reports that it sent the resets, and why")
        } else {
            case.at_most(
                Level::Medium,
                "this kernel gives no reason for a reset: it is inferred from the stack that sent it",
            )
        };
        case.steps([self.reset_step(scope), self.bytes_step()])
            .steps(self.clients_step())
            .steps(self.counter_step())
            .checks(self.counted())
            .checks(self.received())
    }

    /// The other ends that are on this host.
    fn clients(&self) -> impl Iterator<Item = (ConnId, &'a Conn)> + Clone {
        let story = self.here.story;
        let ids = self.all.iter().filter_map(|(_, c, _)| c.peer);
        ids.filter_map(move |id| Some((id, story.conn(id)?)))
    }

    /// A request that failed costs its client the time until the next one that did not.
    fn lost(&self) -> Lost {
        let story = self.here.story;
        let client = |c: &'a Conn| c.peer.and_then(|id| story.conn(id)).unwrap_or(c);
        Lost::outages(story, self.all.iter().map(|(_, c, _)| client(c)))
    }

    fn impact(&self) -> Impact {
        let (n, of) = (
            Quantity::count(self.count()),
            Quantity::of(self.of(), "connection"),
        );
        let got = match self.got() {
            Some(got) => format!("{} had arrived on each", bytes(got)),
            None => format!("{} had been acknowledged on each", self.answered()),
        };
        let says = format!(
            "{n} of {of} ({}) ended with ECONNRESET for the client; {got} by then (median).",
            percent(self.share())
        );
        Impact::of(self.count(), self.of(), "connections", says)
    }

    /// Bytes of an answer that clients of this host had received when they were reset (median).
    fn got(&self) -> Option<u64> {
        let received = self.clients().map(|(_, c)| c.bytes_received);
        median(&mut received.collect::<Vec<_>>())
    }

    /// Bytes of an answer that clients had acknowledged when they were reset (median).
    fn answered(&self) -> Quantity {
        let acked = self.all.iter().map(|(_, c, _)| c.bytes_acked);
        Quantity::bytes(median(&mut acked.collect::<Vec<_>>()).unwrap_or(0))
    }

    /// Which process reset how many.
    fn reset_step(&self, scope: &Scope) -> Step {
        let (who, at, how) = (process(scope), self.here.address(), self.closing.how);
        let by = if self.all.iter().any(|(_, _, s)| s.told) {
            format!("reason {}", self.closing.reason)
        } else {
            "by its stack; this kernel gives no reason".to_string()
        };
        let rows = self.all.iter().map(|(_, _, s)| s.row());
        say!(
            "{who} closed {reset} of {accepted} that {at} accepted {how}: the kernel sent a reset \
             ({by}).",
            reset = Quantity::count(self.count()).rows(rows.take(SHOWN_ROWS)),
            accepted = Quantity::of(self.of(), "connection")
        )
        .number("share", self.share())
    }

    /// Bytes of a request received when it was reset (median).
    pub(crate) fn asked_bytes(&self) -> u64 {
        let asked = self.all.iter().map(|(_, c, _)| c.bytes_received);
        median(&mut asked.collect::<Vec<_>>()).unwrap_or(0)
    }

    /// How much either side had sent.
    fn bytes_step(&self) -> Step {
        let rows = self.all.iter().filter_map(|(_, c, _)| c.row());
        say!(
            "When they were reset, {request_bytes} of a request had arrived (median), and clients had acknowledged \
             {acknowledged_bytes} of an answer; none of them had closed its side.",
            request_bytes = Quantity::bytes(self.asked_bytes()).rows(rows.take(SHOWN_ROWS)),
            acknowledged_bytes = self.answered()
        )
    }

    /// What clients on this host saw.
    fn clients_step(&self) -> Option<Step> {
        let resets = &self.here.story.resets.received;
        let got = self.clients().filter_map(|(id, _)| resets.get(&id));
        let rows = got.clone().map(|got| got.row()).take(SHOWN_ROWS);
        let empty = self.clients().filter(|(_, c)| c.bytes_received == 0);
        let n = got.clone().count() as u64;
        (n > 0).then(|| {
            say!(
                "{received} of {clients} on this host received the reset in the middle of the connection; \
                 {without_answer} had received no byte of an answer, and {received_bytes} (median).",
                clients = Quantity::of(self.clients().count() as u64, "client"),
                received = Quantity::count(n).rows(rows),
                without_answer = Quantity::count(empty.count() as u64),
                received_bytes = Quantity::bytes(self.got().unwrap_or(0))
            )
        })
    }

    /// What the namespace's counter says.
    fn counter_step(&self) -> Option<Step> {
        let counted = self.here.rise(self.closing.counter);
        let name = self.closing.counter.replace('.', "");
        let rise = Quantity::count(counted.by).rows(counted.rows());
        (counted.by > 0).then(|| say!("{name} rose by {rise}.", rise))
    }

    /// The namespace's counter, against the resets that were seen to be sent.
    fn counted(&self) -> Option<Check> {
        let (story, netns) = (self.here.story, self.here.listener.netns);
        let name = self.closing.counter.replace('.', "");
        let sent = story.resets.sent_for(netns, self.closing.why);
        let rise = self.here.rise(self.closing.counter).by;
        let formula = "resets of this kind in the namespace";
        story.counters.covers(netns).then(|| {
            if self.closing.exact {
                same_count(&format!("{formula} = rise of {name}"), sent, rise, "resets")
            } else {
                at_least(&format!("{formula} ≤ rise of {name}"), sent, rise, "resets")
            }
        })
    }

    /// What was sent to clients of this host, against what they received.
    fn received(&self) -> Option<Check> {
        let resets = &self.here.story.resets.received;
        let here = self.clients().count() as u64;
        let received = self.clients().filter(|(id, _)| resets.contains_key(id));
        let received = received.count() as u64;
        let formula = "resets sent to clients of this host = resets that they received";
        (here > 0).then(|| same_count(formula, here, received, "resets"))
    }
}

/// For each listener, how many connections were reset by one way of closing them; `others` are further ways.
pub(crate) fn rule_out<const N: usize>(
    whole: &Whole,
    closing: &'static Closing,
    others: [Option<Answered>; N],
) -> Verdict {
    let resets = &whole.story.resets;
    if resets.folded > 0 {
        return Verdict::cannot("not every sent reset is known");
    }
    let sent = resets.sent.iter().filter(|s| s.why == closing.why);
    // A client that leaves before it has read everything resets as well.
    let conn = |s: &Sent| s.conn.and_then(|id| whole.story.conn(id));
    let sent = sent.filter(|s| conn(s).is_none_or(|c| c.side != Side::Opened));
    let n = Whole::most_by(sent.clone().map(|s| conn(s).and_then(|c| c.listener)));
    let of = whole.story.conns.len() as u64;
    let step = say!(
        "{reset} of {connections} were closed {how}, at the listener with most of them",
        reset = Quantity::count(n).rows(sent.map(Sent::row).take(SHOWN_ROWS)),
        connections = Quantity::of(of, "connection"),
        how = Quantity::new(closing.how, closing.how)
    );
    // One caller that meets it repeatedly needs fewer than many callers do.
    let closed = every([Test::events(n, of, &limits::FAILED_AGAIN, step)]);
    Verdict::nearest(others.into_iter().chain([closed]), NO_CONNECTION)
}
