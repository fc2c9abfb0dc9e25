//! Loss over load: which share of packets was lost at which load, over recordings at different loads.

use analysis::Story;
use analysis::stats::{ratio, tau};
use analysis::words::rounded;
use recording::counter;
use serde::Serialize;

use super::{LEAST_CHANGE, LEAST_TAU};

/// Fewer a second are no load: two connections of a recording are twice as many as one.
const LEAST_PER_S: f64 = 1.0;
/// Runs of one load differ by up to this factor, and tell nothing of what another load does.
const SAME_LOAD: f64 = 1.1;
/// A count of independent losses lies within so many of its square roots, 95 times of 100.
const SPREAD: f64 = 1.96;
/// Where nothing was lost of n, less than 3 ÷ n is lost, 95 times of 100 (the rule of three).
const NOTHING_SEEN: f64 = 3.0;

/// What is lost: what it is called, of what it is a share, the counters that count it, those counted
/// among them that are told apart, and those of what got through.
struct Kind {
    what: &'static str,
    of: &'static str,
    lost: &'static str,
    apart: Option<&'static str>,
    through: &'static [&'static str],
}

/// Counters, not events: they miss nothing and are there when events were shed.
const KINDS: &[Kind] = &[
    Kind {
        what: "segments retransmitted after handshakes",
        of: "segments sent",
        lost: counter::RETRANS_SEGS,
        apart: Some(counter::TCP_SYN_RETRANS),
        through: &[counter::OUT_SEGS],
    },
    Kind {
        what: "SYNs and SYN-ACKs retransmitted",
        of: "those sent",
        lost: counter::TCP_SYN_RETRANS,
        apart: None,
        through: &[counter::ACTIVE_OPENS, counter::PASSIVE_OPENS],
    },
    Kind {
        what: "SYNs and last ACKs dropped at listeners",
        of: "handshakes that came",
        lost: counter::LISTEN_DROPS,
        apart: None,
        through: &[counter::PASSIVE_OPENS],
    },
    Kind {
        what: "packets dropped because the queue of the IP interrupt was full",
        of: "packets that came",
        lost: counter::INTR_QUEUE_DROPS,
        apart: None,
        through: &[counter::IN_SEGS],
    },
];

/// What a load is measured in; the first that varies and goes with a loss is told. What is asked of a
/// host comes before what it achieved, which a loss itself lowers.
const LOADS: [Unit; 4] = [
    Unit::Connects,
    Unit::Accepts,
    Unit::Exchanges,
    Unit::MbitPerS,
];

/// What a load is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unit {
    /// connect() calls a second, whether they succeeded or not.
    Connects,
    /// Handshakes completed at listeners a second.
    Accepts,
    /// Requests and their answers a second.
    Exchanges,
    /// Throughput of all connections, Mbit/s.
    MbitPerS,
}

/// A loss that rises with the load.
#[derive(Clone, Debug, Serialize)]
pub struct LoadLoss {
    /// What is lost.
    pub what: &'static str,
    /// Of what `share` is a share.
    pub of: &'static str,
    /// What the load is measured in.
    pub unit: Unit,
    /// One per recording, by load.
    pub points: Vec<Point>,
    /// Kendall's tau over the pairs of recordings that differ in load and in loss: 1, the more load
    /// always has the more loss.
    pub tau: f64,
    /// The load of the last recording that loses no more than the one with the least load, and that of
    /// the first that does.
    pub begins: [f64; 2],
}

/// One recording's load and loss.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Which of the recordings, from 0.
    pub run: usize,
    /// Its load.
    pub load: f64,
    /// How many were lost.
    pub lost: u64,
    /// How many there were, those lost included.
    pub sent: u64,
    /// The one ÷ the other.
    pub share: f64,
}

/// What one recording gives.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    /// By [`LOADS`].
    loads: [f64; LOADS.len()],
    /// By [`KINDS`]: lost, and sent.
    lost: Vec<(u64, u64)>,
}

/// Of a recording with this throughput, bytes per second.
pub(super) fn read(story: &Story, throughput: f64) -> Losses {
    let rise = |name: &str| {
        let rises = story.counters.rises(name).into_values();
        rises.fold(0, |sum: u64, rise| sum.saturating_add(rise.by))
    };
    let per_s = |n: u64| ratio(n as f64, story.seconds()).unwrap_or(0.0);
    let loads = LOADS.map(|unit| match unit {
        Unit::Connects => per_s(rise(counter::ACTIVE_OPENS)),
        Unit::Accepts => per_s(rise(counter::PASSIVE_OPENS)),
        Unit::Exchanges => per_s(story.exchanged()),
        Unit::MbitPerS => throughput * 8.0 / 1e6,
    });
    let lost = KINDS.iter().map(|kind| {
        let lost = rise(kind.lost).saturating_sub(kind.apart.map_or(0, rise));
        let through = kind.through.iter().map(|name| rise(name));
        (lost, through.fold(lost, u64::saturating_add))
    });
    Losses {
        loads,
        lost: lost.collect(),
    }
}

/// The losses of recordings that rise with their load, in the order of what is told first.
pub(super) fn losses(runs: &[&Losses]) -> Vec<LoadLoss> {
    let of_kind = |nth: usize, kind: &'static Kind| {
        let of_load = |(at, unit): (usize, &Unit)| {
            let points = runs.iter().enumerate().filter_map(|(run, of)| {
                let (lost, sent) = *of.lost.get(nth)?;
                let share = ratio(lost as f64, sent as f64)?;
                Some(Point {
                    run,
                    load: of.loads[at],
                    lost,
                    sent,
                    share,
                })
            });
            rises(kind, *unit, points.collect())
        };
        LOADS.iter().enumerate().find_map(of_load)
    };
    let kinds = KINDS.iter().enumerate();
    kinds.filter_map(|(nth, kind)| of_kind(nth, kind)).collect()
}

/// Whether the loss of these recordings rises with their load.
fn rises(kind: &'static Kind, unit: Unit, mut points: Vec<Point>) -> Option<LoadLoss> {
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    let (first, last) = (points.first()?, points.last()?);
    let varies = last.load >= LEAST_PER_S && last.load >= LEAST_CHANGE * first.load;
    if !varies || !last.is_more_than(first) {
        return None;
    }
    // Of two that do not differ neither way is told.
    let pairs = points.iter().enumerate().flat_map(|(n, high)| {
        let lower = points[..n].iter();
        let lower = lower.filter(|low| high.load >= SAME_LOAD * low.load);
        lower.filter_map(
            |low| match (high.is_more_than(low), low.is_more_than(high)) {
                (true, _) => Some(1.0),
                (_, true) => Some(-1.0),
                _ => None,
            },
        )
    });
    let tau = tau(pairs).filter(|tau| *tau >= LEAST_TAU)?;
    let above = points.iter().position(|p| p.is_more_than(first))?;
    let below = points.get(above.checked_sub(1)?)?;
    Some(LoadLoss {
        what: kind.what,
        of: kind.of,
        unit,
        begins: [below.load, points[above].load].map(rounded),
        tau: rounded(tau),
        points: points.iter().map(Point::told).collect(),
    })
}

impl Point {
    /// It lost a greater share, and more of it than chance makes of the other's.
    fn is_more_than(&self, other: &Point) -> bool {
        let spread = |of: &Point| SPREAD * (of.lost as f64).sqrt();
        let least = (self.lost as f64 - spread(self)) / self.sent as f64;
        let most = (other.lost as f64 + spread(other).max(NOTHING_SEEN)) / other.sent as f64;
        least > most && self.share >= LEAST_CHANGE * other.share
    }

    fn told(&self) -> Point {
        Point {
            load: rounded(self.load),
            share: rounded(self.share),
            ..self.clone()
        }
    }
}
