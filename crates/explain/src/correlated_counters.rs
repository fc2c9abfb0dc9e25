//! Counters that moved with a symptom, ranked over all of them.

use std::net::SocketAddr;

use ahash::AHashMap;
use analysis::words::{figure, list, plural};
use analysis::{Conn, Endpoint, Side, Story, strongest_correlation};
use recording::{RowRef, counter};

use crate::finding::{Scope, Step};
use crate::limits;

/// Which symptom of a cause is counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symptom {
    /// Connects that retransmitted their SYN, or failed.
    Connects,
    /// Segments retransmitted.
    Retransmits,
}

/// A counter that moved with the symptom.
#[derive(Debug)]
struct Moved {
    /// `Tcp.OutRsts`.
    name: String,
    /// Its correlation with the symptom over the intervals between samples.
    correlation: f64,
    /// By how much it changed in all.
    by: f64,
    /// Where it changed most.
    row: RowRef,
}

/// Counters that count retransmissions themselves: they move with what is retransmitted by definition.
const THE_SYMPTOM: &[&str] = &[
    counter::RETRANS_SEGS,
    counter::TCP_SYN_RETRANS,
    counter::TCP_TIMEOUTS,
    counter::TCP_TIMEOUT_REHASH,
    counter::TCP_LOST_RETRANSMIT,
];
/// Counters of the load itself: where all of it is in trouble, they say nothing.
const THE_LOAD: &[&str] = &[
    counter::ACTIVE_OPENS,
    counter::PASSIVE_OPENS,
    counter::IN_SEGS,
    counter::OUT_SEGS,
];
/// Counters shown.
const SHOWN_COUNTERS: usize = 3;

/// The step of evidence that tells which counters moved with the symptom of a finding.
pub(crate) fn step(story: &Story, symptom: Symptom, scope: &Scope) -> Option<Step> {
    let (what, count, moved) = match symptom {
        Symptom::Connects => connects(story, scope)?,
        Symptom::Retransmits => retransmits(story, scope.netns.inode)?,
    };
    let told = moved.iter().map(|m| {
        let name = m.name.replace('.', "");
        format!(
            "{name} +{} (correlation {})",
            figure(m.by),
            figure(m.correlation)
        )
    });
    let told: Vec<String> = told.collect();
    let step = Step::new(format!(
        "These counters moved with the {what}: {}.",
        list(&told)
    ))
    .number("symptoms", count)
    .rows(moved.iter().map(|m| m.row));
    (!moved.is_empty()).then_some(step)
}

/// The connects of a scope that retransmitted their SYN or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTrouble {
    /// To an address and port; for a loopback address, in this namespace.
    To(Option<u32>, Endpoint),
    /// To a port at any address: for a listener at the wildcard, or behind another address.
    ToPort(u16),
    /// From a namespace.
    From(u32),
}

impl InTrouble {
    pub(crate) fn of(story: &Story, scope: &Scope) -> InTrouble {
        let netns = scope.netns.inode;
        let Ok(at) = scope.listener.parse::<SocketAddr>() else {
            return InTrouble::From(netns);
        };
        let at = Endpoint::new(at.ip().into(), at.port());
        // Any other address is one place in all namespaces: that of a scope may be the server's, or a firewall's.
        let exactly = InTrouble::To(at.is_loopback().then_some(netns), at);
        if story.conns.iter().any(|c| exactly.has(c)) {
            exactly
        } else {
            InTrouble::ToPort(at.port)
        }
    }

    /// Whether a connection is one of them.
    pub(crate) fn has(self, conn: &Conn) -> bool {
        let there = match self {
            InTrouble::To(netns, at) => conn.remote == at && netns.is_none_or(|n| n == conn.netns),
            InTrouble::ToPort(port) => conn.remote.port == port,
            InTrouble::From(netns) => conn.netns == netns,
        };
        there && conn.connects() && (conn.syn_retries > 0 || conn.failed())
    }
}

fn connects(story: &Story, scope: &Scope) -> Option<(String, u64, Vec<Moved>)> {
    // By namespace: when connects in trouble began, and when all did. What refuses or loses a SYN
    // counts at once, not when the client notices.
    let in_trouble = InTrouble::of(story, scope);
    let mut by_netns: AHashMap<u32, (Vec<u64>, Vec<u64>)> = AHashMap::new();
    for conn in story.conns.iter().filter(|c| c.side == Side::Opened) {
        let (troubled, all) = by_netns.entry(conn.netns).or_default();
        all.push(conn.start_ns);
        if in_trouble.has(conn) {
            troubled.push(conn.start_ns);
        }
    }
    let most = by_netns.into_iter().max_by_key(|(n, t)| (t.0.len(), *n));
    let (clients, (troubled, all)) = most?;
    // What the clients' end counts, and the other when that is on this host.
    let mut netns = vec![clients, scope.netns.inode];
    netns.dedup();
    let moved = netns.iter().flat_map(|netns| {
        let samples = story.series.times(*netns);
        let [symptom, load] = [&troubled, &all].map(|times| per_interval(times, samples));
        with(story, *netns, &symptom, &load)
    });
    let count = troubled.len() as u64;
    let moved = closest(moved.collect(), count as f64);
    let what = format!(
        "{} that retransmitted a SYN or failed",
        plural(count, "connect")
    );
    Some((what, count, moved))
}

fn retransmits(story: &Story, netns: u32) -> Option<(String, u64, Vec<Moved>)> {
    let line = |name| story.series.lines(netns).find(|l| l.name == name);
    let (sent_again, sent) = (line(counter::RETRANS_SEGS)?, line(counter::OUT_SEGS)?);
    let count = sent_again.deltas.iter().sum::<f64>() as u64;
    let moved = with(story, netns, &sent_again.deltas, &sent.deltas);
    let what = format!("{} retransmitted", plural(count, "segment"));
    Some((what, count, closest(moved, count as f64)))
}

/// How many of `times` lie in each interval between samples.
fn per_interval(times: &[u64], samples: &[u64]) -> Vec<f64> {
    let mut counts = vec![0.0; samples.len().saturating_sub(1)];
    for time in times {
        let after = samples.partition_point(|t| t < time);
        if let Some(count) = after.checked_sub(1).and_then(|i| counts.get_mut(i)) {
            *count += 1.0;
        }
    }
    counts
}

/// The counters of a namespace that moved with `symptom`, and less with `load`; both are counted
/// per interval between samples.
fn with(story: &Story, netns: u32, symptom: &[f64], load: &[f64]) -> Vec<Moved> {
    let lines = story.series.lines(netns);
    let lines = lines.filter(|l| !THE_SYMPTOM.contains(&l.name) && !THE_LOAD.contains(&l.name));
    let moved = lines.filter_map(|line| {
        let by = line.deltas.iter().sum();
        // A gauge comes back to where it was.
        let correlation = moves_with(symptom, load, &line.deltas).filter(|_| by >= 1.0)?;
        Some(Moved {
            name: line.name.to_string(),
            correlation,
            by,
            row: line.row,
        })
    });
    moved.collect()
}

/// The correlation with the symptom, when it is more than chance and more than that with the load,
/// or when there were as many of both.
fn moves_with(symptom: &[f64], load: &[f64], counter: &[f64]) -> Option<f64> {
    if symptom.len() < limits::CORRELATED_INTERVALS.as_usize() {
        return None;
    }
    // The order of a lag is known to one sample only: at most one is taken for "together".
    let (correlation, _) = strongest_correlation(symptom, counter)?;
    let deviations = correlation.min(1.0 - 1e-6).atanh() * (symptom.len() as f64 - 3.0).sqrt();
    let with_load = strongest_correlation(load, counter).map_or(0.0, |(r, _)| r);
    let beyond_chance = deviations >= limits::CORRELATED_DEVIATIONS.times()
        && with_load + limits::SMALL_PART.share() <= correlation;
    let (symptoms, by): (f64, f64) = (symptom.iter().sum(), counter.iter().sum());
    let as_many = symptoms >= limits::ENOUGH.number()
        && (by - symptoms).abs() <= limits::SAME_COUNT.share() * symptoms;
    (correlation >= limits::CORRELATED.share() && (beyond_chance || as_many)).then_some(correlation)
}

/// The closest first: by correlation, and of those that correlate alike, the one that changed by as
/// much as there were symptoms.
fn closest(mut moved: Vec<Moved>, total: f64) -> Vec<Moved> {
    // Correlations of some ten samples are not known better than this.
    let alike = |m: &Moved| (m.correlation * 10.0).round();
    let unlike = |m: &Moved| (m.by.max(1.0) / total.max(1.0)).ln().abs();
    moved.sort_by(|a, b| {
        let by_correlation = alike(b).total_cmp(&alike(a));
        by_correlation.then_with(|| unlike(a).total_cmp(&unlike(b)))
    });
    moved.truncate(SHOWN_COUNTERS);
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use synth::{CLIENT, Dial, Fate, Fixture, HOST, SERVER};

    const LOAD: [f64; 8] = [50.0, 52.0, 49.0, 51.0, 20.0, 21.0, 19.0, 20.0];
    const TROUBLE: [f64; 8] = [0.0, 0.0, 1.0, 0.0, 9.0, 10.0, 8.0, 9.0];

    #[test]
    fn a_counter_moves_with_the_symptom_or_with_the_load_or_by_chance() {
        let resets = [0.0, 1.0, 1.0, 0.0, 9.0, 11.0, 8.0, 9.0];
        assert!(moves_with(&TROUBLE, &LOAD, &resets).is_some_and(|r| r > 0.98));
        let opens = LOAD.map(|n| n * 2.0 + 1.0);
        assert_eq!(moves_with(&TROUBLE, &LOAD, &opens), None, "the load");
        assert_eq!(
            moves_with(&LOAD, &LOAD, &opens),
            None,
            "trouble is the load"
        );
        let steady = [4.0, 5.0, 3.0, 6.0, 4.0, 5.0, 4.0, 6.0];
        let as_many = [4.0, 5.0, 4.0, 5.0, 4.0, 5.0, 4.0, 6.0];
        assert!(
            moves_with(&steady, &steady, &as_many).is_some(),
            "one for one"
        );
        let more = as_many.map(|n| n * 3.0);
        assert_eq!(moves_with(&steady, &steady, &more), None, "the load again");
        let noise = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        assert_eq!(moves_with(&TROUBLE, &LOAD, &noise), None, "chance");
        let few = |all: &[f64; 8]| all[3..6].to_vec();
        let short = moves_with(&few(&TROUBLE), &few(&LOAD), &few(&resets));
        assert_eq!(short, None, "three intervals prove nothing");
    }

    #[test]
    fn connects_in_trouble_are_those_to_the_address_where_any_are() {
        let mut f = Fixture::new();
        let connects = [
            (CLIENT, "192.0.2.1:443"),
            (CLIENT, "192.0.2.2:443"),
            (HOST, "192.0.2.2:443"),
            (CLIENT, "127.0.0.1:443"),
            (HOST, "127.0.0.1:443"),
            (HOST, "127.0.0.1:443"),
        ];
        for ((netns, to), port) in connects.into_iter().zip(40_000..) {
            f.dial(Dial {
                client: Some(netns),
                server: None,
                from: format!("10.79.0.2:{port}"),
                to,
                fate: Fate::Refused,
                ..Dial::default()
            });
        }
        let written = f.write().expect("writes");
        let story = Story::read(&written.recording).expect("reads");
        let of = |inode, listener: &str| {
            let scope = Scope {
                netns: story.netns(inode),
                listener: listener.into(),
                ..Scope::default()
            };
            let in_trouble = InTrouble::of(&story, &scope);
            story.conns.iter().filter(|c| in_trouble.has(c)).count()
        };
        assert_eq!(of(CLIENT, "192.0.2.1:443"), 1);
        assert_eq!(of(SERVER, "192.0.2.2:443"), 2, "of whichever namespace");
        assert_eq!(of(HOST, "127.0.0.1:443"), 2, "each has its own loopback");
        assert_eq!(of(SERVER, "0.0.0.0:443"), 6, "the wildcard");
        assert_eq!(of(SERVER, "10.79.0.1:443"), 6, "behind another address");
        assert_eq!(of(HOST, ""), 3);
    }

    #[test]
    fn times_are_counted_between_samples() {
        let counts = per_interval(&[5, 10, 11, 20, 21, 99], &[10, 20, 30]);
        assert_eq!(
            counts,
            [2.0, 1.0],
            "before the first and after the last: not"
        );
    }
}
