//! What a full queue does to clients, the same whichever queue it is: SYNs without an answer.

use recording::RowRef;

use super::scene::{SHOWN_ROWS, Scene, same_count};
use crate::finding::{Check, Impact, Latency, RuledOut, Step};
use crate::story::Outcome;
use crate::story::stats::{median, quantile};
use crate::words::{count, duration, percent, plural};

/// A client whose SYN is dropped waits a second. Fewer drops than this, in a recording of
/// seconds, is one burst at a start.
pub(crate) const MIN_DROPS: u64 = 10;
/// Below this share of what arrives, drops do not move the 99.9th percentile of connects.
pub(crate) const MIN_SHARE: f64 = 0.001;
/// Linux sends the first SYN again after this (TCP_TIMEOUT_INIT).
const FIRST_RETRY_MS: f64 = 1_000.0;
/// A timer fires up to a few ticks late, and the round trip is added.
const RETRY_TOLERANCE: f64 = 0.15;

pub(crate) const OVERFLOWS: &str = "TcpExt.ListenOverflows";
pub(crate) const DROPS: &str = "TcpExt.ListenDrops";
pub(crate) const FULL_DROPS: &str = "TcpExt.TCPReqQFullDrop";
pub(crate) const FULL_COOKIES: &str = "TcpExt.TCPReqQFullDoCookies";

/// Whether so many drops matter among so many arrivals.
pub(crate) fn matters(dropped: u64, accepted: u64) -> bool {
    let arrived = dropped.saturating_add(accepted) as f64;
    dropped >= MIN_DROPS && dropped as f64 >= MIN_SHARE * arrived
}

/// Connect times of the clients on this host, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectTimes {
    /// Connects that needed one SYN.
    pub(crate) at_once: Vec<u64>,
    /// Connects that needed more; those still without an answer count with what they waited.
    pub(crate) retried: Vec<u64>,
    /// When each of all these connects began.
    pub(crate) began: Vec<u64>,
    /// Successful connects that needed exactly two SYNs.
    after_one: Vec<u64>,
    /// SYNs sent again.
    retries: u64,
    /// Of the retried, those that never got an answer.
    unanswered: u64,
    /// Of those, the ones that gave up.
    given_up: u64,
    /// Some of the rows.
    pub(crate) rows: Vec<RowRef>,
}

impl ConnectTimes {
    /// What connecting took, as the listener's clients on this host saw it.
    pub(crate) fn of(scene: Scene) -> ConnectTimes {
        let mut times = ConnectTimes::default();
        for (_, conn) in scene.story.all(&scene.listener.clients) {
            let took = conn.connect_ns();
            if conn.refused.is_some() || (conn.syn_retries == 0 && took.is_none()) {
                // Refused is another matter; neither answered nor sent again is too young.
                continue;
            }
            times.began.push(conn.start_ns);
            let until = conn.ended_ns.unwrap_or(scene.story.end_ns);
            let waited = until.saturating_sub(conn.start_ns);
            if conn.syn_retries == 0 {
                times.at_once.extend(took);
                continue;
            }
            times.retries += u64::from(conn.syn_retries);
            times.unanswered += u64::from(took.is_none());
            times.given_up += u64::from(conn.outcome == Outcome::Failed);
            if conn.syn_retries == 1 {
                times.after_one.extend(took);
            }
            times.retried.push(took.unwrap_or(waited));
            if times.rows.len() < SHOWN_ROWS {
                let retry = conn.first_retry.map(RowRef::from);
                times.rows.extend(retry.or(conn.row()));
            }
        }
        times
    }

    pub(crate) fn total(&self) -> u64 {
        self.began.len() as u64
    }

    /// By how much the retried took longer than the others' median.
    fn added(&self) -> Option<Latency> {
        let usual = median(&mut self.at_once.clone()).unwrap_or(0);
        let mut retried = self.retried.clone();
        let mut added = |share| {
            let ns = quantile(&mut retried, share)?.saturating_sub(usual);
            Some(crate::words::rounded(ns as f64 / 1e6))
        };
        Some(Latency {
            p50: added(0.5)?,
            p99: added(0.99)?,
        })
    }

    /// How many suffer: the clients themselves when they are here, else what was dropped.
    pub(crate) fn impact(&self, dropped: u64, accepted: u64) -> Impact {
        let (retried, total) = (self.retried.len() as u64, self.total());
        if retried == 0 {
            let of = dropped.saturating_add(accepted);
            let share = dropped as f64 / of as f64;
            return Impact {
                says: format!(
                    "The full queue dropped {} while {} completed: {} of what arrived. Each costs \
                     its client 1 s or more; the clients themselves are not on this host.",
                    plural(dropped, "SYN or ACK"),
                    plural(accepted, "handshake"),
                    percent(share)
                ),
                affected: dropped,
                of,
                counted: "SYNs",
                share,
                ..Impact::default()
            };
        }
        let share = retried as f64 / total as f64;
        let mut says = format!(
            "{} of {} ({}) had to send their SYN again",
            count(retried),
            plural(total, "connect"),
            percent(share)
        );
        let added = self.added();
        if let Some(l) = added {
            let time = |ms: f64| duration((ms * 1e6) as u64);
            let (p50, p99) = (time(l.p50), time(l.p99));
            says += &format!(" and took {p50} longer in the median, {p99} at p99");
        }
        if self.unanswered > 0 {
            says += &format!("; {} of them got no answer at all", count(self.unanswered));
        }
        Impact {
            says: says + ".",
            affected: retried,
            of: total,
            counted: "connections",
            share,
            added_latency_ms: added,
            ..Impact::default()
        }
    }

    /// The symptom as the clients saw it; `None` when none is on this host.
    pub(crate) fn step(&self) -> Option<Step> {
        let retried = self.retried.len() as u64;
        let took = median(&mut self.retried.clone())?;
        let usual = median(&mut self.at_once.clone());
        let mut says = format!(
            "{} got no answer to the first SYN; {} were sent again, and connecting took {} in the \
             median",
            plural(retried, "client"),
            plural(self.retries, "SYN"),
            duration(took)
        );
        if let Some(usual) = usual {
            says += &format!(", {} for the others", duration(usual));
        }
        let step = Step::new(says + ".")
            .number("retried", retried)
            .number("syn_retries", self.retries)
            .number("median_ms", took as f64 / 1e6)
            .number_if("others_median_ms", usual.map(|ns| ns as f64 / 1e6))
            .number("unanswered", self.unanswered)
            .number("given_up", self.given_up)
            .rows(self.rows.iter().copied());
        Some(step)
    }

    /// A SYN that was dropped is sent again after the initial timeout, no sooner, no later.
    pub(crate) fn retry_check(&self) -> Option<Check> {
        if self.after_one.len() < 3 {
            return None;
        }
        let took = median(&mut self.after_one.clone())? as f64 / 1e6;
        Some(Check {
            formula: "initial retransmission timeout = connect time with one SYN sent again".into(),
            expected: FIRST_RETRY_MS,
            measured: crate::words::rounded(took),
            unit: "ms",
            agrees: (took - FIRST_RETRY_MS).abs() <= FIRST_RETRY_MS * RETRY_TOLERANCE,
            tolerance: "± 15 %".into(),
        })
    }
}

/// The namespace's ListenDrops against the listener's own count, when no other listener drops.
pub(crate) fn drops_check(scene: Scene) -> Option<Check> {
    let all = scene.rise(DROPS).by;
    let own = scene.listener.drops()?;
    let listeners = scene.story.listeners.all.iter();
    let mut dropping =
        listeners.filter(|l| l.netns == scene.listener.netns && l.drops().is_some_and(|n| n > 0));
    let alone = dropping.next().is_some() && dropping.next().is_none();
    let formula = "ListenDrops of the namespace = drops of the only listener there that drops";
    (all > 0 && alone).then(|| same_count(formula, all, own, "packets"))
}

/// The look-alikes that drop SYNs before the listener sees them.
pub(crate) fn dropped_elsewhere(scene: Scene, dropped: u64) -> Vec<RuledOut> {
    let firewall = scene.syns_dropped("NETFILTER_DROP");
    vec![
        RuledOut {
            cause: "local-firewall-drop",
            because: format!(
                "netfilter dropped {} for this listener, the listener itself {}",
                plural(firewall, "SYN"),
                count(dropped)
            ),
        },
        RuledOut {
            cause: "path-drops-syn",
            because: format!(
                "the packets came as far as the listener, which counts {} dropped",
                count(dropped)
            ),
        },
    ]
}
