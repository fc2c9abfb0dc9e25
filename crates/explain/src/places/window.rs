//! What a window or a buffer lets pass once per round trip, compared with what passed: whether its size holds a
//! transfer back.

use std::collections::BTreeMap;

use analysis::Story;
use analysis::stats::median;
use analysis::words::rounded;
use recording::{Addr, RowRef};

use crate::finding::Step;
use crate::limits;
use crate::places::path::{End, empty_us, ends, rwnd_share, sample_rows, usual_rtt};
use crate::say::{Quantity, say};
use crate::verdict::{Answered, Test, every};

/// The rate that a number of bytes per round trip allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) bytes: u32,
    pub(crate) min_rtt_us: u32,
    pub(crate) usual_rtt_us: u32,
    /// Bytes per second that were acknowledged while there was something to send.
    pub(crate) rate: f64,
    pub(crate) row: Option<RowRef>,
    acked: u64,
}

impl Allowance {
    /// The allowance of an end with this many bytes; `None` when its round trip or the bytes are unknown.
    fn of(end: &End, bytes: u32) -> Option<Allowance> {
        let min_rtt_us = end.transfer.min_rtt_us;
        (bytes > 0 && min_rtt_us > 0).then(|| Allowance {
            bytes,
            min_rtt_us,
            usual_rtt_us: usual_rtt(end).unwrap_or(min_rtt_us).max(min_rtt_us),
            rate: end.transfer.busy_rate(),
            row: end.transfer.rows.first().copied(),
            acked: end.transfer.acked(),
        })
    }

    /// The widest window of its peer.
    pub(crate) fn of_window(story: &Story, end: &End) -> Option<Allowance> {
        Allowance::of(end, story.samples(end.conn)?.snd_wnd_max)
    }

    /// Its own send buffer.
    pub(crate) fn of_send_buffer(end: &End) -> Option<Allowance> {
        Allowance::of(end, end.transfer.sndbuf)
    }

    /// Bytes per second on an empty path.
    pub(crate) fn per_s(&self) -> f64 {
        f64::from(self.bytes) / f64::from(self.min_rtt_us) * 1e6
    }

    /// It allowed far more than passed: its size is not the limit.
    pub(crate) fn has_room(&self) -> bool {
        self.rate * limits::TWICE.times() <= self.per_s()
    }

    /// It was filled once per round trip, for longer than it takes to grow, and no queue stood: the path had room.
    pub(crate) fn is_too_small(&self) -> bool {
        self.is_path_empty() && self.is_lasting() && !self.has_room()
    }

    /// It was filled once per round trip, for longer than it takes to grow. Where it is the limit, less stands in
    /// queues than it holds itself: the round trip is below twice the shortest.
    pub(crate) fn is_filled(&self) -> bool {
        let below =
            f64::from(self.usual_rtt_us) < limits::TWICE.times() * f64::from(self.min_rtt_us);
        let per_s = f64::from(self.bytes) / f64::from(self.usual_rtt_us) * 1e6;
        self.is_too_small()
            || below && self.is_lasting() && self.rate * limits::TWICE.times() > per_s
    }

    /// Round trips were as on an empty path.
    pub(crate) fn is_path_empty(&self) -> bool {
        f64::from(self.usual_rtt_us) <= empty_us(self.min_rtt_us)
    }

    fn is_lasting(&self) -> bool {
        self.acked >= limits::GROWN_BY.count().saturating_mul(self.bytes.into())
    }

    /// A window and what passed, and what that says.
    pub(crate) fn told(&self, why: &str) -> Step {
        say!(
            "The widest window was {window}, which once per {min_rtt_us} allows {allowed}; {rate} passed: {why}.",
            window = Quantity::bytes(self.bytes).rows(self.row),
            min_rtt_us = Quantity::us(self.min_rtt_us),
            allowed = Quantity::rate(rounded(self.per_s())),
            rate = Quantity::rate(rounded(self.rate))
        )
    }

    /// The median by what it lets pass.
    pub(crate) fn usual(all: impl IntoIterator<Item = Allowance>) -> Option<Allowance> {
        let mut all: Vec<Allowance> = all.into_iter().collect();
        let usual = median(&mut all.iter().map(Allowance::per_s).collect::<Vec<_>>())?;
        let nearest = |a: &Allowance| (a.per_s() - usual).abs();
        all.sort_by(|a, b| nearest(a).total_cmp(&nearest(b)));
        all.into_iter().next()
    }
}

/// The ends that send from a namespace to a host whose windows hold them back.
pub(crate) struct HeldBack<'a> {
    pub(crate) netns: u32,
    pub(crate) to: Addr,
    pub(crate) held: Vec<End<'a>>,
    /// Transfers to it, held back or not.
    pub(crate) all: u64,
}

/// Whether it moved enough to judge by, to another host or namespace, over windows that are not those of old stacks.
fn moves(end: &End) -> bool {
    let scaled = end.conn.agreed.is_some_and(|a| a.window_scaling);
    let bulk = end.transfer.acked() >= limits::BULK.bytes()
        && end.transfer.samples >= limits::SEEN_TWICE.as_u32();
    scaled && bulk && !end.conn.remote.is_loopback()
}

/// All of them, in a fixed order.
pub(crate) fn held_back(story: &Story) -> Vec<HeldBack<'_>> {
    let mut places: BTreeMap<(u32, Addr), Vec<End>> = BTreeMap::new();
    for end in ends(story).filter(moves) {
        let key = (end.conn.netns, end.conn.remote.addr);
        places.entry(key).or_default().push(end);
    }
    let places = places.into_iter().map(|((netns, to), ends)| HeldBack {
        netns,
        to,
        all: ends.len() as u64,
        held: ends
            .into_iter()
            .filter(|e| rwnd_share(&[*e]) >= limits::MOST.share())
            .collect(),
    });
    places.filter(|p| !p.held.is_empty()).collect()
}

/// The ends waiting for their peer's window that fill it once per round trip.
pub(crate) fn filled(story: &Story, ends: &[End]) -> Vec<Allowance> {
    let allowances = ends.iter().filter_map(|e| Allowance::of_window(story, e));
    allowances.filter(Allowance::is_filled).collect()
}
/// Whether a sending end waited for its peer's window for as long as a finding needs.
pub(crate) fn waited_for_window(end: &End) -> Option<Answered> {
    let share = rwnd_share(&[*end]);
    let step = say!(
        "a transfer waited {window_limited} of its busy time for the peer's window",
        window_limited = Quantity::share(share).rows(sample_rows(&[*end]))
    );
    every([Test::from(share, &limits::MOST, step)])
}
