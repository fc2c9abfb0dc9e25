//! What the causes of resets share: the connections of a listener that this host itself reset while
//! their clients still held them.

use std::collections::BTreeMap;

use analysis::stats::median;
use analysis::words::{bytes, count, percent, plural};
use analysis::{Conn, ConnId, Sent, Side, Story, Why};
use recording::SourceName;

use crate::checks::{at_least, same_count};
use crate::finding::{Check, Confidence, Impact, Level, Scope, Step};
use crate::lost::Lost;
use crate::places::listener::{SHOWN_ROWS, Scene, doubts, scenes};
use crate::scope::process;

/// Fewer are clients that were given up now and then.
const MIN_RESET: usize = 10;
/// A smaller share of a listener's connections is the odd client that misbehaves.
const MIN_SHARE: f64 = 0.02;
/// Sockets that are closed within this time of each other were closed by a process that ended, ns.
const AT_ONCE_NS: u64 = 200_000_000;
/// A connection on which nothing moved for so long is between requests: nobody waits, ns.
const IDLE_NS: u64 = 100_000_000;
/// So long before its listener closed, a server was on its way down, ns.
const GOING_DOWN_NS: u64 = 1_000_000_000;

/// The connections of a listener that were reset for one reason.
pub(crate) struct ServerResets<'a> {
    pub(crate) scene: Scene<'a>,
    pub(crate) why: Why,
    /// Each with the reset that ended it.
    all: Vec<(&'a Conn, &'a Sent)>,
}

/// The listeners of a story that often reset their clients for this reason. A client that leaves
/// before it has read everything resets as well: that is its own affair, and not told here.
pub(crate) fn aborted(story: &Story, why: Why) -> impl Iterator<Item = ServerResets<'_>> {
    let mut by_listener: BTreeMap<u32, Vec<(&Conn, &Sent)>> = BTreeMap::new();
    for sent in story.resets.sent.iter().filter(|s| s.why == why) {
        let conn = sent.conn.and_then(|id| story.conn(id));
        let conn = conn.filter(|c| c.side != Side::Opened && held_by_client(c));
        let conn = conn.filter(|c| !is_idle(story, c));
        if let Some((conn, listener)) = conn.and_then(|c| Some((c, c.listener?))) {
            by_listener.entry(listener).or_default().push((conn, sent));
        }
    }
    scenes(story).filter_map(move |scene| {
        let mut all = by_listener.remove(&scene.index)?;
        if let Some(closed) = scene.listener.closed_ns {
            all.retain(|(_, s)| s.time_ns.saturating_add(GOING_DOWN_NS) < closed);
        }
        let aborted = ServerResets { scene, why, all };
        aborted.matters().then_some(aborted)
    })
}

/// Whether the client had said something, and had not closed its side: it waits for an answer.
fn held_by_client(conn: &Conn) -> bool {
    conn.bytes_received > 0 && !conn.peer_closed
}

/// Whether nothing had been said for a while when it ended, as far as samples tell.
fn is_idle(story: &Story, conn: &Conn) -> bool {
    let said = (conn.bytes_acked, conn.bytes_received);
    story.samples(conn).is_some_and(|s| {
        let ended_ns = conn.ended_ns.unwrap_or(0);
        let quiet = ended_ns.saturating_sub(s.last.time_ns) >= IDLE_NS;
        quiet && (s.last.bytes_acked, s.last.bytes_received) == said
    })
}

impl<'a> ServerResets<'a> {
    fn matters(&self) -> bool {
        let times = self.all.iter().map(|(_, s)| s.time_ns);
        let span = match (times.clone().min(), times.max()) {
            (Some(first), Some(last)) => last - first,
            _ => 0,
        };
        let enough = self.all.len() >= MIN_RESET && self.share() >= MIN_SHARE;
        enough && span >= AT_ONCE_NS
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// Connections that the listener accepted, whenever.
    pub(crate) fn of(&self) -> u64 {
        (self.scene.listener.accepted.len() as u64).max(self.count())
    }

    pub(crate) fn share(&self) -> f64 {
        self.count() as f64 / self.of().max(1) as f64
    }

    /// The other ends that are on this host.
    fn clients(&self) -> impl Iterator<Item = (ConnId, &'a Conn)> + Clone {
        let story = self.scene.story;
        let ids = self.all.iter().filter_map(|(c, _)| c.peer);
        ids.filter_map(move |id| Some((id, story.conn(id)?)))
    }

    /// A request that failed costs its client the time until the next one that did not.
    pub(crate) fn lost(&self) -> Lost {
        let story = self.scene.story;
        let client = |c: &'a Conn| c.peer.and_then(|id| story.conn(id)).unwrap_or(c);
        Lost::outages(story, self.all.iter().map(|(c, _)| client(c)))
    }

    pub(crate) fn impact(&self) -> Impact {
        let mut says = format!(
            "{} of {} ({}) ended with ECONNRESET for the client",
            count(self.count()),
            plural(self.of(), "connection"),
            percent(self.share())
        );
        says += &match self.received() {
            Some(got) => format!("; {} of an answer had come in by then (median)", bytes(got)),
            None => format!(
                "; {} of an answer had been acknowledged by then (median)",
                bytes(self.answered().unwrap_or(0))
            ),
        };
        Impact::of(self.count(), self.of(), "connections", says + ".")
    }

    /// Bytes of an answer that clients of this host had received when they were reset, the median.
    fn received(&self) -> Option<u64> {
        let received = self.clients().map(|(_, c)| c.bytes_received);
        median(&mut received.collect::<Vec<_>>())
    }

    /// Bytes of an answer that clients had acknowledged when they were reset, the median.
    fn answered(&self) -> Option<u64> {
        median(
            &mut self
                .all
                .iter()
                .map(|(c, _)| c.bytes_acked)
                .collect::<Vec<_>>(),
        )
    }

    /// Bytes that clients had sent when they were reset, the median.
    fn asked(&self) -> Option<u64> {
        let asked = self.all.iter().map(|(c, _)| c.bytes_received);
        median(&mut asked.collect::<Vec<_>>())
    }

    /// The step that tells who reset how many: `how` it closed them, `name` the kernel's
    /// name of the reason.
    pub(crate) fn reset_step(&self, scope: &Scope, how: &str, name: &str) -> Step {
        let told = self.all.iter().filter(|(_, s)| s.told).count();
        let by = match told {
            0 => "by its stack; this kernel gives no reason".to_string(),
            _ => format!("reason {name}"),
        };
        let rows = self.all.iter().map(|(_, s)| s.row());
        Step::new(format!(
            "{} closed {} of {} that {} accepted {how}: the kernel sent a reset ({by}).",
            process(scope),
            count(self.count()),
            plural(self.of(), "connection"),
            self.scene.address()
        ))
        .number("reset", self.count())
        .number("accepted", self.of())
        .number("share", self.share())
        .rows(rows.take(SHOWN_ROWS))
    }

    /// The step that tells how much had been said by either side.
    pub(crate) fn bytes_step(&self) -> Step {
        let (asked, answered) = (self.asked().unwrap_or(0), self.answered().unwrap_or(0));
        let rows = self.all.iter().filter_map(|(c, _)| c.row());
        Step::new(format!(
            "When they were reset {} of a request had come in, in the median, and clients had \
             acknowledged {} of an answer; none of them had closed its side.",
            bytes(asked),
            bytes(answered)
        ))
        .number("request_bytes", asked)
        .number("acknowledged_bytes", answered)
        .rows(rows.take(SHOWN_ROWS))
    }

    /// The step that tells what clients on this host saw.
    pub(crate) fn clients_step(&self) -> Option<Step> {
        let here = self.clients().count() as u64;
        let received = &self.scene.story.resets.received;
        let rows = self.clients().filter_map(|(id, _)| received.get(&id));
        let got = rows.clone().count() as u64;
        let empty = self.clients().filter(|(_, c)| c.bytes_received == 0);
        let empty = empty.count() as u64;
        let step = Step::new(format!(
            "Of {} on this host {} received the reset in the middle of the connection; {} had \
             received no byte of an answer, and {} in the median.",
            plural(here, "client"),
            count(got),
            count(empty),
            bytes(self.received().unwrap_or(0))
        ))
        .number("clients", here)
        .number("received", got)
        .number("without_answer", empty)
        .number_if("received_bytes", self.received())
        .rows(rows.map(|got| got.row()).take(SHOWN_ROWS));
        (got > 0).then_some(step)
    }

    /// The step that tells of the namespace's counter.
    pub(crate) fn counter_step(&self, counter: &str) -> Option<Step> {
        let rise = self.scene.rise(counter);
        let name = counter.replace('.', "");
        let step = Step::new(format!("{name} rose by {}.", count(rise.by)))
            .number("rise", rise.by)
            .rows(rise.rows());
        (rise.by > 0).then_some(step)
    }

    /// What must agree: the namespace's counter, which may count more unless it is `exact`, and what
    /// clients on this host received.
    pub(crate) fn arithmetic(&self, counter: &str, exact: bool) -> Vec<Check> {
        let story = self.scene.story;
        let mut checks = Vec::new();
        if story.counters.covers(self.scene.listener.netns) {
            let name = counter.replace('.', "");
            let formula = "resets of this kind in the namespace";
            let sent = story.resets.sent_for(self.scene.listener.netns, self.why);
            let rise = self.scene.rise(counter).by;
            checks.push(match exact {
                true => same_count(&format!("{formula} = rise of {name}"), sent, rise, "resets"),
                false => at_least(&format!("{formula} ≤ rise of {name}"), sent, rise, "resets"),
            });
        }
        let here = self.clients().count() as u64;
        if here > 0 {
            let received = self.clients();
            let received = received.filter(|(id, _)| story.resets.received.contains_key(id));
            let formula = "resets sent to clients of this host = resets that they received";
            let received = received.count() as u64;
            checks.push(same_count(formula, here, received, "resets"));
        }
        checks
    }

    /// How sure it is, before the arithmetic is weighed.
    pub(crate) fn confidence(&self) -> Confidence {
        let mut c = Confidence::high();
        match self.all.iter().all(|(_, s)| s.told) {
            true => c.because("the kernel says that it sent the resets, and why"),
            false => c.at_most(
                Level::Medium,
                "this kernel gives no reason for a reset: it is told by the stack that sent it",
            ),
        }
        let sources = [SourceName::ResetsSent, SourceName::States];
        doubts(self.scene.story, &mut c, &sources);
        c
    }
}
