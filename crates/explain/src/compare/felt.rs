//! What users of a recorded host felt: its findings, how long connects and requests took, what was retransmitted.

use analysis::Story;
use analysis::account::Role;
use analysis::stats::quantile;
use analysis::words::rounded;
use recording::counter;
use serde::Serialize;

use crate::explanation::Explanation;
use crate::finding::Latency;
use crate::id::Id;
use crate::layer::Layer;

/// What users of one recording felt.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Felt {
    /// Its findings, the worst first.
    pub findings: Vec<Held>,
    /// How long connects took, those that wait counted with what they have waited; null when there were none.
    pub connect_ms: Option<Latency>,
    /// How long the slowest connect took, ms; null when there were none.
    pub slowest_connect_ms: Option<f64>,
    /// Connects without an answer at the end.
    pub pending: u64,
    /// How long requests took, by service.
    pub requests: Vec<RequestTimes>,
    /// SYNs retransmitted per second.
    pub syn_retransmits_per_s: f64,
    /// Segments retransmitted per second.
    pub retransmits_per_s: f64,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The cause.
    pub cause: Id,
    /// Whose trouble it is.
    pub layer: Layer,
    /// What is wrong.
    pub title: String,
    /// What it is about.
    pub at: String,
}

impl Held {
    /// The same trouble at the same place.
    fn same(&self, other: &Held) -> bool {
        self.cause == other.cause && self.at == other.at
    }
}

/// Requests of one service.
#[derive(Clone, Debug, Serialize)]
pub struct RequestTimes {
    /// Whether it answers here, or is asked from here.
    pub role: Role,
    /// Where it listens.
    pub at: String,
    /// Requests.
    pub count: u64,
    /// How long they took, ms.
    pub took_ms: Latency,
}

impl Felt {
    pub(super) fn of(story: &Story, explanation: &Explanation) -> Felt {
        let mut took = Vec::new();
        let mut pending = 0;
        for conn in story.conns.iter().filter(|c| c.connects()) {
            match conn.connect_ns() {
                Some(ns) => took.push(ns),
                None if conn.ended_ns.is_none() => {
                    pending += 1;
                    took.push(story.end_ns.saturating_sub(conn.start_ns));
                }
                None => {}
            }
        }
        let slowest = took.iter().max().copied();
        let ms = |ns: u64| rounded(ns as f64 / 1e6);
        let mut at = |share| quantile(&mut took, share);
        let connect_ms = at(0.5).zip(at(0.99)).map(|(p50, p99)| Latency {
            p50: ms(p50),
            p99: ms(p99),
        });
        let findings = explanation.findings.iter().map(|f| Held {
            cause: f.cause,
            layer: f.layer,
            title: f.title.clone(),
            at: f.scope.place().to_string(),
        });
        let requests = explanation.account.iter().filter_map(|service| {
            let requests = service.requests.as_ref()?;
            let response = requests.response?;
            Some(RequestTimes {
                role: service.role,
                at: service.at.to_string(),
                count: requests.exchanges,
                took_ms: Latency {
                    p50: rounded(response.p50_s * 1e3),
                    p99: rounded(response.p99_s * 1e3),
                },
            })
        });
        let seconds = story.seconds().max(1e-9);
        let rises = story.counters.rises(counter::RETRANS_SEGS);
        let resent = rises.values().fold(0u64, |sum, r| sum.saturating_add(r.by));
        Felt {
            findings: findings.collect(),
            connect_ms,
            slowest_connect_ms: slowest.map(ms),
            pending,
            requests: requests.collect(),
            syn_retransmits_per_s: rounded(story.tally.syn_retries as f64 / seconds),
            retransmits_per_s: rounded(resent as f64 / seconds),
        }
    }

    /// The findings that another recording has not.
    pub fn beyond<'a>(&'a self, other: &'a Felt) -> impl Iterator<Item = &'a Held> {
        let there = |held: &&Held| !other.findings.iter().any(|h| h.same(held));
        self.findings.iter().filter(there)
    }
}
