//! C02: no local port is left for another connection to a destination.

use analysis::stats::median;
use analysis::words::{count, duration, fitting, percent, plural};

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::doubts;
use crate::places::port_search::{Destination, destinations};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PORTS_EXHAUSTED,
    number: "C02",
    title: "no local port is left",
    page: include_str!("ports_exhausted.md"),
    ground: Ground::Connections,
    needs: &[&[SourceName::States]],
    seen_from: "5 connects without a local port",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: Some(Symptom::Connects),
    find,
};

/// Fewer failures than this may be one program that asked for a port of its own.
const LEAST_FAILED: u64 = 5;
/// The count of ports is of another moment than the failures.
const FULL: f64 = 0.95;

fn find(story: &Story) -> Vec<Finding> {
    let full = destinations(story).into_iter().filter(holds);
    full.map(|to| Case { to }.finding()).collect()
}

/// Whether connects to the destination failed because its ports had run out.
pub(super) fn holds(to: &Destination) -> bool {
    to.without_port().count() as u64 >= LEAST_FAILED && to.occupancy() >= FULL
}

/// A destination for which there were no ports left.
struct Case<'a> {
    to: Destination<'a>,
}

impl<'a> Case<'a> {
    fn failed(&self) -> Vec<&'a Conn> {
        self.to.without_port().collect()
    }

    fn finding(&self) -> Finding {
        let scope = self.to.scope(None);
        let advice = self.to.advice(&scope, false);
        let checks = self.arithmetic();
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: Lost::outages(self.to.story, self.failed()),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!(
                    "{} has no local port left to connect to {}: all {} are in use.",
                    process(&scope),
                    self.to.to,
                    count(self.to.ports.capacity)
                ),
                format!("No local port is left to connect to {}.", self.to.to),
            ]),
            fix: advice[0].action.clone(),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice,
            verify: format!(
                "Under the same load no connect fails, and `tcpwhy stat ports` shows free ports \
                 to {}.",
                self.to.to
            ),
            scope,
        }
    }

    fn impact(&self) -> Impact {
        let (n, of) = (self.failed().len() as u64, self.to.connects.len() as u64);
        let says = format!(
            "{} of {} ({}) failed with EADDRNOTAVAIL.",
            count(n),
            plural(of, "connect"),
            percent(n as f64 / of as f64)
        );
        Impact::of(n, of, "connections", says)
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because("sockets that failed went from SYN_SENT to CLOSE and never had a port");
        c.weigh_checks(checks);
        doubts(
            self.to.story,
            &mut c,
            &[SourceName::States, SourceName::Ports],
        );
        c
    }

    /// How long connect() took until it failed, ns.
    fn took(&self) -> Option<u64> {
        let failed = self.failed().into_iter();
        let took = failed.filter_map(|c| Some(c.ended_ns?.saturating_sub(c.start_ns)));
        median(&mut took.collect::<Vec<_>>())
    }

    fn evidence(&self) -> Vec<Step> {
        let failed = self.failed();
        let first = failed.first().map_or(0, |c| c.start_ns);
        let since = first.saturating_sub(self.to.story.start_ns);
        let took = self.took().unwrap_or(0);
        let symptom = Step::new(format!(
            "From {} after the start {} to {} failed without a local port, after {} in the median.",
            duration(since),
            plural(failed.len() as u64, "connect"),
            self.to.to,
            duration(took)
        ))
        .number("failed", failed.len())
        .number("median_us", took as f64 / 1e3)
        .rows(failed.iter().filter_map(|c| c.row()).take(SHOWN_ROWS));
        let mut steps = vec![symptom, self.to.occupancy_step()];
        steps.extend(self.to.range_step());
        steps
    }

    fn arithmetic(&self) -> Vec<Check> {
        let used = self.to.peak() as f64;
        let capacity = self.to.ports.capacity as f64;
        let full = Check {
            formula: "ports in use at most = ports of the range that are not reserved".into(),
            expected: capacity,
            measured: used,
            unit: "ports".into(),
            agrees: used >= FULL * capacity && used <= 1.01 * capacity,
            tolerance: "95 % to 101 %: a listener in the range keeps its port".into(),
        };
        vec![full, self.to.count_check()]
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let failed = self.failed();
        let refused = failed.iter().filter(|c| c.refused.is_some()).count() as u64;
        let retried = failed.iter().filter(|c| c.syn_retries > 0).count() as u64;
        vec![
            RuledOut::new(
                Id::CONNECTION_REFUSED,
                format!("{} of them got a reset", count(refused)),
            ),
            RuledOut::new(
                Id::LOCAL_FIREWALL_DROP,
                format!(
                    "{} of them sent a SYN twice, and they failed after {}",
                    count(retried),
                    duration(self.took().unwrap_or(0))
                ),
            ),
            RuledOut::new(
                Id::PORT_SEARCH_COST,
                "a search that finds a port ends in a connection; these found none".into(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
