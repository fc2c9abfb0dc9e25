//! What the causes of slow transfers share: the connections between two addresses, in one
//! direction, seen from the end that sends.

use std::collections::BTreeMap;

use analysis::account::{self, State};
use analysis::stats::{median, ratio};
use analysis::{Conn, ConnId, Outcome, Side, Story, Stuck, Transfer, Way};
use recording::{Addr, RowRef, counter};

use crate::checks::at_least;
use crate::finding::{Check, Role, Scope};
use crate::limits;
use crate::lost::Lost;
use crate::place::Place;
use crate::places::listener::SHOWN_ROWS;

/// One end of a connection, with what its samples say.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) id: ConnId,
    pub(crate) conn: &'a Conn,
    pub(crate) transfer: &'a Transfer,
}

impl<'a> End<'a> {
    /// How it hung in its last sample; `None` for one that had recovered by then.
    pub(crate) fn stuck(&self, story: &Story) -> Option<Stuck> {
        let last = story.samples(self.conn)?.last.row;
        self.transfer.stall.seen.filter(|seen| seen.row == last)
    }

    /// This end, if it was sampled.
    pub(crate) fn of(story: &'a Story, id: ConnId) -> Option<End<'a>> {
        let transfer = story.transfers.of(id).filter(|t| t.samples > 0)?;
        let conn = story.conn(id)?;
        Some(End { id, conn, transfer })
    }
}

/// All ends of a namespace that send from one address to another.
pub(crate) struct Path<'a> {
    pub(crate) story: &'a Story,
    pub(crate) netns: u32,
    pub(crate) from: Addr,
    pub(crate) to: Addr,
    /// Those that sent enough to judge by.
    pub(crate) ends: Vec<End<'a>>,
}

/// Every end that was sampled.
pub(crate) fn ends(story: &Story) -> impl Iterator<Item = End<'_>> {
    (0..story.conns.len() as ConnId).filter_map(|id| End::of(story, id))
}

/// The paths of a story that leave their host, in a fixed order.
pub(crate) fn paths(story: &Story) -> Vec<Path<'_>> {
    paths_of(story, limits::ENOUGH.count())
}

/// The same, with the ends that sent at least this many segments.
pub(crate) fn paths_of(story: &Story, segments: u64) -> Vec<Path<'_>> {
    let mut by_key: BTreeMap<(u32, Addr, Addr), Vec<End>> = BTreeMap::new();
    let sending = ends(story).filter(|e| e.transfer.segments() >= segments);
    for end in sending.filter(|e| !e.conn.remote.is_loopback()) {
        let key = (end.conn.netns, end.conn.local.addr, end.conn.remote.addr);
        by_key.entry(key).or_default().push(end);
    }
    let paths = by_key.into_iter().map(|((netns, from, to), ends)| Path {
        story,
        netns,
        from,
        to,
        ends,
    });
    paths.collect()
}

impl Place {
    /// The ends.
    pub(crate) fn ends(ends: &[End]) -> Place {
        Place::Ends(ends.iter().map(|e| e.id).collect())
    }
}

impl<'a> Path<'a> {
    /// Shortest round trip that any of its connections measured, µs.
    pub(crate) fn min_rtt_us(&self) -> Option<u32> {
        min_rtt_us(&self.ends)
    }

    /// The way that its packets take.
    pub(crate) fn way(&self) -> Way {
        (self.netns, self.from, self.to)
    }

    /// Whether the receiving ends are on this host as well: then drops there would be seen too.
    pub(crate) fn whole(&self) -> bool {
        self.ends.iter().all(|e| e.conn.peer.is_some())
    }

    /// The connections that go this way.
    pub(crate) fn conns(&self) -> impl Iterator<Item = &'a Conn> + Clone + use<'a> {
        self.story.on_way(self.way()).map(|(_, c)| c)
    }

    /// Whether a connection goes this way.
    pub(crate) fn has(&self, conn: &Conn) -> bool {
        (conn.netns, conn.local.addr, conn.remote.addr) == self.way()
    }

    /// Whether full segments of this size passed after a moment: among what was sampled, or over a connection too short
    /// for that.
    pub(crate) fn full_passed(&self, mss: u32, since_ns: u64) -> bool {
        let passed = self.story.transfers.passed(self.way());
        let sampled = passed.is_some_and(|p| p.full_since(mss, since_ns));
        sampled || self.conns().any(|c| sent_full(c, mss, since_ns))
    }

    /// Segments retransmitted after handshakes as the kernel counted them, against those seen; `None` without counters.
    pub(crate) fn counted_again(&self) -> Option<Check> {
        let rise = |name| self.story.counters.rise(self.netns, name).by;
        let after = rise(counter::RETRANS_SEGS).checked_sub(rise(counter::TCP_SYN_RETRANS))?;
        // The kernel reports a retransmission once for all segments that it sends together.
        let formula = "RetransSegs − TCPSynRetrans of the namespace ≥ retransmissions seen";
        let seen = self.story.transfers.resent_in(self.netns);
        let covered = self.story.counters.covers(self.netns);
        covered.then(|| at_least(formula, seen, after, "segments"))
    }

    /// The path, as a scope and a sentence name it.
    pub(crate) fn name(&self) -> String {
        format!("{} → {}", self.from, self.to)
    }

    /// The scope of a finding about the path: its busiest sender.
    pub(crate) fn scope(&self) -> Scope {
        let resource = Some(format!("path {}", self.name()));
        senders(self.story, self.netns, &self.ends, resource)
    }
}

/// A scope that names the processes of the ends, the one that sent most first.
pub(crate) fn senders(story: &Story, netns: u32, ends: &[End], resource: Option<String>) -> Scope {
    let mut by_pid: BTreeMap<u32, (u64, String)> = BTreeMap::new();
    for end in ends {
        if let Some((pid, comm)) = story.owner(end.conn) {
            let sent = by_pid.entry(pid).or_insert((0, comm));
            sent.0 = sent.0.saturating_add(end.transfer.segments());
        }
    }
    let first = by_pid.iter().max_by_key(|(_, (sent, _))| *sent);
    let listens = ends.iter().all(|e| e.conn.side == Side::Accepted);
    Scope {
        netns: story.netns(netns),
        resource,
        role: if listens {
            Role::Listener
        } else {
            Role::Client
        },
        pid: first.map(|(pid, _)| *pid),
        comm: first.map(|(_, (_, comm))| comm.clone()),
        pids: by_pid.keys().copied().collect(),
        ..Scope::default()
    }
}

/// Whether a connection that was never sampled got full segments acknowledged after a moment.
fn sent_full(conn: &Conn, mss: u32, since_ns: u64) -> bool {
    let (Some(from), Some(to)) = (conn.established_ns, conn.ended_ns) else {
        return false;
    };
    let short =
        to.saturating_sub(from) <= limits::BETWEEN_SAMPLES.ns() && conn.outcome == Outcome::Closed;
    let large = conn.mss >= mss && conn.bytes_acked >= limits::ENOUGH.count() * u64::from(mss);
    short && large && conn.sampled.is_none() && to >= since_ns
}

/// The median over ends of something each of them has.
pub(crate) fn median_of(ends: &[End], value: impl Fn(&End) -> Option<f64>) -> Option<f64> {
    median(&mut ends.iter().filter_map(value).collect::<Vec<_>>())
}

/// Shortest round trip that any of the ends measured, µs.
pub(crate) fn min_rtt_us(ends: &[End]) -> Option<u32> {
    let known = ends.iter().map(|e| e.transfer.min_rtt_us);
    known.filter(|us| *us > 0).min()
}

/// The longest round trip at which no queue stood, µs.
pub(crate) fn empty_us(min_rtt_us: u32) -> f64 {
    f64::from(min_rtt_us) * limits::EMPTY_QUEUE_TIMES.times()
        + f64::from(limits::EMPTY_QUEUE_DELAY.us())
}

/// Bytes per second of all ends together.
pub(crate) fn rate(ends: &[End]) -> f64 {
    ends.iter().map(|e| e.transfer.rate()).sum()
}

/// Segments that ends retransmitted and that the receiver did not have yet.
pub(crate) fn lost(ends: &[End]) -> u64 {
    let lost = |e: &End| {
        e.transfer
            .resends
            .count()
            .saturating_sub(e.transfer.twice())
    };
    ends.iter().map(lost).sum()
}

/// Median smoothed round trip of an end while it had data in flight, µs.
pub(crate) fn usual_rtt(end: &End) -> Option<u32> {
    median(&mut end.transfer.rtts.all().to_vec())
}

/// The share of their time with something to send that ends spent waiting for the peer's window.
pub(crate) fn rwnd_share(ends: &[End]) -> f64 {
    let waited: u64 = ends.iter().map(|e| e.transfer.rwnd_us()).sum();
    let busy: u64 = ends.iter().map(|e| e.transfer.busy_us()).sum();
    (waited as f64 / busy.max(1) as f64).min(1.0)
}

/// What losses cost the ends: the time in which they sent more slowly than the best rate that one of them reached on
/// the same path between two samples; or, where the rate did not vary, the time spent in repair.
pub(crate) fn limited(story: &Story, ends: &[End]) -> Lost {
    let path = |e: &End| (e.conn.local.addr, e.conn.remote.addr);
    let mut best: BTreeMap<_, f64> = BTreeMap::new();
    for end in ends {
        let best = best.entry(path(end)).or_default();
        *best = best.max(end.transfer.peak);
    }
    let mut lost = Lost::unknown();
    for end in ends {
        let best = best.get(&path(end)).copied().unwrap_or(0.0);
        let spent = account::of_end(story, end.conn);
        let slower = 1.0
            - ratio(end.transfer.busy_rate(), best)
                .unwrap_or(1.0)
                .min(1.0);
        let sending = spent.of(State::Path) as f64 * slower;
        lost.add(end.conn, State::Path, sending as u64);
        lost.add(end.conn, State::Repair, spent.of(State::Repair));
    }
    lost
}

/// Rows that show how ends sent, one or two of each.
pub(crate) fn sample_rows(ends: &[End]) -> Vec<RowRef> {
    let rows = ends.iter().flat_map(|e| e.transfer.rows.iter().take(2));
    rows.copied().take(2 * SHOWN_ROWS).collect()
}
