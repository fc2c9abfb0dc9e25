//! Which sockets are slow among their like, and which attribute tells them from the fast.

use std::collections::{BTreeMap, BTreeSet};

use analysis::ConnId;
use analysis::stats::median;
use analysis::words::rounded;
use recording::Text;
use serde::Serialize;

use super::modes::{self, Split};
use super::run::Socket;

/// Attributes told: beyond the first few they are accidents.
const TOLD: usize = 12;
/// Distinct values that are looked at, over all attributes.
const MAX_VALUES: usize = 4_096;

/// Slow sockets among their like.
#[derive(Clone, Debug, Serialize)]
pub struct Sockets {
    /// What they were split by: `rate` (the best between two samples), `cwnd` (the largest) or
    /// `rate-and-cwnd` (their product).
    pub by: &'static str,
    /// How many were compared.
    pub compared: usize,
    /// How many of them are slow.
    pub slow: usize,
    /// The split, in natural logarithms of shares of what the peers of each socket reach, in all runs and in
    /// its own.
    pub split: Split,
    /// Median rate of the slow, Mbit/s.
    pub slow_mbit_per_s: f64,
    /// Median rate of the others, Mbit/s.
    pub fast_mbit_per_s: f64,
    /// What tells them apart, the best first.
    pub attributes: Vec<Attribute>,
}

/// A value of an attribute, as a test for being slow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attribute {
    /// Which.
    pub attribute: &'static str,
    /// Its value.
    pub value: String,
    /// Of the sockets that have it, the share that is slow.
    pub precision: f64,
    /// Of the slow sockets, the share that has it.
    pub recall: f64,
    /// Slow sockets that have it.
    pub slow: usize,
    /// All sockets that have it.
    pub of: usize,
}

/// Steps of the round trip, per factor of two, in which peers are told nearer or farther.
const STEPS: f64 = 2.0;

/// What each socket is compared by, as a share of what its peers reach.
type Measure = fn(&Socket) -> f64;

/// Either alone is disturbed by a busy host or a loss; a connection that is limited for life is low
/// in both. With each, what is slow on average: less than half, as one loss halves a window (RFC 5681),
/// and those who share a link lose in turn.
const MEASURES: &[(&str, Measure, f64)] = &[
    ("rate", |s| s.rate, 0.5),
    ("cwnd", |s| f64::from(s.cwnd), 0.5),
    ("rate-and-cwnd", |s| s.rate * f64::from(s.cwnd), 0.25),
];

/// The slow sockets of all runs; with, per run, which they are. `None` when all are alike.
pub(crate) fn compare(runs: &[&[Socket]]) -> Option<(Sockets, Vec<Vec<ConnId>>)> {
    let all: Vec<(usize, &Socket)> = runs
        .iter()
        .enumerate()
        .flat_map(|(i, run)| run.iter().map(move |s| (i, s)))
        .collect();
    // What its application held and still is fast shows what can be reached; if it is slow it shows nothing.
    let rates = shares(&all, |s| s.rate)?;
    let judged = all.iter().zip(rates);
    let judged = judged.filter(|((_, s), share)| s.had_bulk || *share >= 0.5);
    let all: Vec<(usize, &Socket)> = judged.map(|(of, _)| *of).collect();
    let splits = MEASURES.iter().filter_map(|(name, measure, least)| {
        let shares = shares(&all, *measure)?;
        // Shares multiply: half is as far from one as double.
        let logs: Vec<f64> = shares.iter().map(|share| share.ln()).collect();
        let split = modes::split_few(&logs)?;
        // Where the lower mode is what peers reach, the upper one is a few that had it better.
        if split.is_low(0.0) || split.low.mean > least.ln() {
            return None;
        }
        let slow: Vec<bool> = logs.iter().map(|log| split.is_low(*log)).collect();
        let attributes = attributes(&all, &slow);
        Some((*name, split, slow, attributes))
    });
    // A split that an attribute explains says more than one that is only wide.
    let fit = |ranked: &[Attribute]| ranked.first().map_or(0.0, Attribute::fit);
    let (by, split, slow, attributes) = splits.max_by(|a, b| {
        let by_fit = fit(&a.3).total_cmp(&fit(&b.3));
        by_fit.then_with(|| a.1.distance.total_cmp(&b.1.distance))
    })?;
    let rate = |wanted: bool| {
        let rates = all.iter().zip(&slow);
        let rates = rates.filter(|(_, slow)| **slow == wanted);
        let mut rates: Vec<f64> = rates.map(|((_, s), _)| s.rate).collect();
        rounded(median(&mut rates).unwrap_or(0.0) * 8.0 / 1e6)
    };
    // A small window that sends as fast as the others is not slow.
    let (slow_rate, fast_rate) = (rate(true), rate(false));
    if slow_rate >= fast_rate {
        return None;
    }
    let mut of_run = vec![Vec::new(); runs.len()];
    for ((run, socket), _) in all.iter().zip(&slow).filter(|(_, slow)| **slow) {
        of_run[*run].push(socket.conn);
    }
    let sockets = Sockets {
        by,
        compared: all.len(),
        slow: split.low.count,
        slow_mbit_per_s: slow_rate,
        fast_mbit_per_s: fast_rate,
        attributes,
        split,
    };
    Some((sockets, of_run))
}

/// Each socket's measure ÷ what its peers reach, and that ÷ what is reached of it in its run: a run in which
/// everything is slower has no slow sockets. `None` when it is not known of all.
fn shares(all: &[(usize, &Socket)], measure: Measure) -> Option<Vec<f64>> {
    let mut groups: BTreeMap<&(Text, u16), Vec<(i32, f64)>> = BTreeMap::new();
    for (_, socket) in all {
        let of_group = groups.entry(&socket.group).or_default();
        of_group.push((distance(socket), measure(socket)));
    }
    let reached: BTreeMap<_, BTreeMap<i32, f64>> = groups
        .into_iter()
        .map(|(group, peers)| (group, by_distance(&peers)))
        .collect();
    let share = |(_, socket): &(usize, &Socket)| {
        let reached = reached.get(&socket.group)?.get(&distance(socket))?;
        analysis::stats::ratio(measure(socket), *reached)
    };
    let of_group: Vec<f64> = all.iter().map(share).collect::<Option<_>>()?;
    let mut runs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for ((run, _), share) in all.iter().zip(&of_group) {
        runs.entry(*run).or_default().push(*share);
    }
    let reached: BTreeMap<usize, f64> = runs
        .into_iter()
        .filter_map(|(run, mut shares)| Some((run, reach(&mut shares)?)))
        .collect();
    let of_run = all.iter().zip(&of_group);
    of_run
        .map(|((run, _), share)| analysis::stats::ratio(*share, *reached.get(run)?))
        .collect()
}

/// How far away the other end is, in steps of the round trip.
fn distance(socket: &Socket) -> i32 {
    (f64::from(socket.min_rtt_us.max(1)).log2() * STEPS) as i32
}

/// What peers reach for each distance: those count that are no nearer than half the way, as a window goes
/// the farther in the longer time. Who is farther and reaches more shows it all the better.
fn by_distance(peers: &[(i32, f64)]) -> BTreeMap<i32, f64> {
    let distances: BTreeSet<i32> = peers.iter().map(|(at, _)| *at).collect();
    let reached = distances.into_iter().filter_map(|at| {
        let near = at - STEPS as i32;
        let far = peers.iter().filter(|(peer, _)| *peer >= near);
        let mut values: Vec<f64> = far.map(|(_, value)| *value).collect();
        Some((at, reach(&mut values)?))
    });
    reached.collect()
}

/// What peers reach: not their median, which is that of the slow ones where most are slow, but what one in
/// ten attains, and two at the least: what one alone attained may be luck, what two did others can.
fn reach(values: &mut [f64]) -> Option<f64> {
    let nth = values.len().div_ceil(10).max(2).min(values.len());
    values.sort_by(|a, b| b.total_cmp(a));
    values.get(nth.checked_sub(1)?).copied()
}

fn attributes(all: &[(usize, &Socket)], slow: &[bool]) -> Vec<Attribute> {
    let mut counts: BTreeMap<(&'static str, String), (usize, usize)> = BTreeMap::new();
    for ((_, socket), is_slow) in all.iter().zip(slow) {
        for key in socket.attributes() {
            if counts.len() < MAX_VALUES || counts.contains_key(&key) {
                let count = counts.entry(key).or_default();
                count.0 += usize::from(*is_slow);
                count.1 += 1;
            }
        }
    }
    let total = slow.iter().filter(|s| **s).count();
    let mut ranked: Vec<Attribute> = counts
        .into_iter()
        // What all have tells nothing.
        .filter(|(_, (hit, of))| *hit > 0 && *of < all.len())
        .map(|((attribute, value), (hit, of))| Attribute {
            attribute,
            value,
            precision: rounded(hit as f64 / of as f64),
            recall: rounded(hit as f64 / total as f64),
            slow: hit,
            of,
        })
        .collect();
    ranked.sort_by(|a, b| b.fit().total_cmp(&a.fit()));
    ranked.truncate(TOLD);
    ranked
}

impl Attribute {
    /// Harmonic mean of precision and recall.
    pub fn fit(&self) -> f64 {
        let sum = self.precision + self.recall;
        if sum > 0.0 {
            2.0 * self.precision * self.recall / sum
        } else {
            0.0
        }
    }
}
