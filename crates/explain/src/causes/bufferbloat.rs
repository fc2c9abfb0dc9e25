//! C20: transfers fill a deep queue in front of a bottleneck, and everything waits in it.

use analysis::stats::median;
use analysis::words::{bit_rate, bytes, count, duration, fitting, percent, plural, rounded};

use crate::finding::Confidence;
use crate::places::listener::doubts;
use crate::places::path::{
    End, Path, lost, median_of, min_rtt_us, paths, rate, rwnd_share, sample_rows, senders,
    usual_rtt,
};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::BUFFERBLOAT,
    number: "C20",
    title: "a deep buffer at the bottleneck stays full",
    page: include_str!("bufferbloat.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: "a queue of 100 ms, three times the shortest round trip",
    rivals: &[Id::SLOW_READER, Id::PATH_LOSS],
    explains: &[],
    no: Some(no),
    symptom: Some(Symptom::Retransmits),
    find,
};

/// A request of a few round trips is then late by what people notice; and a queue of less is what
/// a bottleneck needs on a path across a continent.
const MIN_QUEUE_US: u32 = 100_000;
/// The queue is longer than the path: so many times its shortest round trip.
const MIN_TIMES: u32 = 3;
/// Bytes acknowledged from which on a connection is a bulk transfer.
const BULK: u64 = 256 * 1024;
/// A bulk transfer that fills a link has more than this in flight.
const MIN_FLIGHT: f64 = 4.0;
/// More loss than this, and it is the loss that limits.
const MAX_LOSS: f64 = 0.01;
/// A larger share of the time spent waiting for the window, and the reader limits.
const MAX_RWND: f64 = 0.3;
/// In flight is sampled once a second, the rate is a mean: they fit within this.
const LITTLE: f64 = 0.35;

/// The round trip from which on a queue counts as deep, on a path whose shortest is this.
fn least_us(shortest: u32) -> u32 {
    let times = shortest.saturating_mul(MIN_TIMES);
    times.max(shortest.saturating_add(MIN_QUEUE_US))
}

struct Case<'a> {
    path: &'a Path<'a>,
    bulk: Vec<End<'a>>,
    /// The others that suffer.
    beside: Vec<End<'a>>,
    min_rtt_us: u32,
    rtt_us: u32,
}

fn no(asked: &Asked) -> Option<Step> {
    let Some(losses) = asked.losses() else {
        return asked.brought();
    };
    let shortest = min_rtt_us(&losses.ends)?;
    let rtts = losses
        .ends
        .iter()
        .flat_map(|e| e.transfer.resends.rtts.all());
    // Of those that lost something, when they lost it; else of all samples.
    let mut at_loss: Vec<u32> = rtts.copied().collect();
    let usual = median(&mut at_loss)
        .or_else(|| Some(median_of(&losses.ends, |e| Some(usual_rtt(e)?.into()))? as u32))?;
    let (rtt_us, min_rtt_us) = (Quantity::us(usual), Quantity::us(shortest));
    (usual < least_us(shortest)).then(|| {
        say!(
            "a round trip took {rtt_us} (median), the shortest {min_rtt_us}: no deep queue stood",
            rtt_us,
            min_rtt_us
        )
    })
}

fn find(story: &Story) -> Vec<Finding> {
    findings(&paths(story), Case::of, Case::finding)
}

impl<'a> Case<'a> {
    fn of(path: &'a Path<'a>) -> Option<Case<'a>> {
        let min_rtt_us = path.min_rtt_us()?;
        let least = least_us(min_rtt_us);
        let late = path.ends.iter().copied();
        let late = late.filter(|e| usual_rtt(e).is_some_and(|rtt| rtt >= least));
        let is_bulk = |e: &End| {
            let t = e.transfer;
            let mss = f64::from(t.mss.max(1));
            t.acked() >= BULK && t.flying >= 2 && t.in_flight_bytes() >= MIN_FLIGHT * mss
        };
        let all_bulk = path.ends.iter().filter(|e| is_bulk(e)).count();
        let (bulk, beside): (Vec<End>, Vec<End>) = late.partition(is_bulk);
        // Every transfer that fills the queue waits in it.
        if bulk.is_empty() || bulk.len() * 2 < all_bulk {
            return None;
        }
        let rtt_us = median_of(&bulk, |e| Some(usual_rtt(e)?.into()))? as u32;
        let case = Case {
            path,
            bulk,
            beside,
            min_rtt_us,
            rtt_us,
        };
        (case.loss() <= MAX_LOSS && rwnd_share(&case.bulk) <= MAX_RWND).then_some(case)
    }

    fn loss(&self) -> f64 {
        let sent: u64 = self.bulk.iter().map(|e| e.transfer.segments()).sum();
        lost(&self.bulk) as f64 / sent.max(1) as f64
    }

    /// Bytes per second of all transfers together.
    fn rate(&self) -> f64 {
        rate(&self.bulk)
    }

    /// Bytes that all transfers together had in flight.
    fn in_flight(&self) -> f64 {
        self.bulk.iter().map(|e| e.transfer.in_flight_bytes()).sum()
    }

    fn queue_us(&self) -> u32 {
        self.rtt_us - self.min_rtt_us
    }

    /// Bytes that stand in the queue.
    fn queue(&self) -> u64 {
        (self.rate() * f64::from(self.queue_us()) / 1e6) as u64
    }

    fn finding(&self) -> Finding {
        let mut scope = self.path.scope();
        let named = senders(self.path.story, self.path.netns, &self.bulk, None);
        (scope.pid, scope.comm) = (named.pid, named.comm);
        let checks = self.arithmetic();
        let times = [self.min_rtt_us, self.rtt_us].map(|us| duration(u64::from(us) * 1_000));
        let [short, long] = &times;
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: Some(Place::ends(&self.bulk)),
            lost_s: self.lost(),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!(
                    "A queue of {} stands on the path {}: round trips {long}, not {short}.",
                    bytes(self.queue()),
                    self.path.name()
                ),
                format!(
                    "A queue stands on the path to {}: {long}, not {short}.",
                    self.path.to
                ),
            ]),
            fix: fitting([
                format!(
                    "Let {} send with BBR, or put fq_codel or cake before the bottleneck.",
                    scope.comm.as_deref().unwrap_or("the senders")
                ),
                "Send with BBR, or put fq_codel or cake before the bottleneck.".into(),
            ]),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: Vec::new(),
            advice: self.advice(&scope),
            verify: format!(
                "`ss -ti dst {}` shows an rtt near its minrtt of {short} while data moves.",
                self.path.to
            ),
            scope,
        }
    }

    /// What those beside the transfers waited longer than on an empty path; a transfer itself loses
    /// nothing to a queue that it keeps full.
    fn lost(&self) -> Lost {
        let beside = self.beside.iter().map(|e| e.conn);
        let longer = 1.0 - f64::from(self.min_rtt_us) / f64::from(self.rtt_us.max(1));
        let states = [State::Path, State::Awaiting, State::Repair];
        Lost::states(self.path.story, beside, &states, longer)
    }

    fn impact(&self) -> Impact {
        let affected = (self.bulk.len() + self.beside.len()) as u64;
        let of = self.path.ends.len() as u64;
        let says = format!(
            "Round trips of {} of {} to {} took {} longer; {} of them are bulk transfers.",
            count(affected),
            plural(of, "connection"),
            self.path.to,
            duration(u64::from(self.queue_us()) * 1_000),
            count(self.bulk.len() as u64)
        );
        Impact {
            added_latency_ms: self.added(),
            ..Impact::of(affected, of, "connections", says)
        }
    }

    fn added(&self) -> Option<Latency> {
        let late = self.bulk.iter().chain(&self.beside);
        let rtts = late.flat_map(|e| e.transfer.rtts.all());
        let mut rtts: Vec<u32> = rtts.copied().collect();
        let mut added = |share| {
            let rtt = analysis::stats::quantile(&mut rtts, share)?;
            let added = rtt.saturating_sub(self.min_rtt_us);
            Some(rounded(f64::from(added) / 1e3))
        };
        Some(Latency {
            p50: added(0.5)?,
            p99: added(0.99)?,
        })
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "the round trip was {} times the shortest while {} of the segments were lost",
            analysis::words::figure(f64::from(self.rtt_us) / f64::from(self.min_rtt_us)),
            percent(self.loss())
        ));
        c.weigh_checks(checks);
        let sources = [SourceName::Sockets, SourceName::Retransmits];
        doubts(self.path.story, &mut c, &sources);
        // A queue built by others, or a route that became longer, looks like ours.
        if checks.iter().all(|c| !c.agrees) {
            c.at_most(
                Level::Low,
                "what is in flight does not account for the queue",
            );
        }
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let us = |us: u32| duration(u64::from(us) * 1_000);
        let beside = &self.beside;
        if let Some(rtt) = median_of(beside, |e| Some(usual_rtt(e)?.into())) {
            steps.push(
                Step::new(format!(
                    "{} with little to send had round trips of {} in the median beside them.",
                    plural(beside.len() as u64, "connection"),
                    us(rtt as u32)
                ))
                .number("beside", beside.len())
                .number("rtt_beside_us", rtt)
                .rows(sample_rows(beside)),
            );
        }
        steps.push(
            Step::new(format!(
                "{} had round trips of {} in the median; the shortest on this path is {}.",
                plural(self.bulk.len() as u64, "transfer"),
                us(self.rtt_us),
                us(self.min_rtt_us)
            ))
            .number("transfers", self.bulk.len())
            .number("rtt_us", self.rtt_us)
            .number("min_rtt_us", self.min_rtt_us)
            .rows(sample_rows(&self.bulk)),
        );
        let flight = self.in_flight();
        let path = self.rate() * f64::from(self.min_rtt_us) / 1e6;
        steps.push(
            Step::new(format!(
                "Together they moved {} and had {} in flight, of which the path itself holds {}: \
                 {} stand in a queue.",
                bit_rate(self.rate()),
                bytes(flight as u64),
                bytes(path as u64),
                bytes(self.queue())
            ))
            .number("bytes_per_s", self.rate())
            .number("in_flight_bytes", flight)
            .number("queue_bytes", self.queue())
            .rows(sample_rows(&self.bulk)),
        );
        steps
    }

    fn arithmetic(&self) -> Vec<Check> {
        let flight = self.in_flight();
        let expected = self.rate() * f64::from(self.rtt_us) / 1e6;
        vec![Check {
            formula: format!(
                "rate × round trip = bytes in flight (Little's law): {} × {}",
                bit_rate(self.rate()),
                duration(u64::from(self.rtt_us) * 1_000)
            ),
            expected: rounded(expected / 1e3),
            measured: rounded(flight / 1e3),
            unit: "kB".into(),
            agrees: (expected - flight).abs() <= expected * LITTLE,
            tolerance: "± 35 %: in flight is sampled once a second".into(),
        }]
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let netns = &scope.netns;
        let uses = self.bulk.iter().map(|e| &*e.transfer.congestion);
        let uses = uses.max().unwrap_or("cubic").to_string();
        let small = (self.rate() * f64::from(self.min_rtt_us) / 1e6).max(15_000.0) as u64;
        vec![
            Advice {
                action: format!(
                    "Let {} send with BBR instead of {uses}.",
                    scope.comm.as_deref().unwrap_or("the senders")
                ),
                command: command_in(netns, "sysctl -w net.ipv4.tcp_congestion_control=bbr"),
                r#where: format!(
                    "{}, for connections made from then on that choose none themselves (or \
                     TCP_CONGESTION)",
                    namespace(netns)
                ),
                risk: "BBR and cubic share a full queue unevenly; needs the module tcp_bbr.".into(),
                expected: format!(
                    "One such connection keeps two round trips of the path in flight, several \
                     together up to five: {} to {} instead of {}.",
                    bytes(2 * small),
                    bytes(5 * small),
                    bytes((self.rate() * f64::from(self.rtt_us) / 1e6) as u64)
                ),
                change: Some(Change::Congestion {
                    netns: netns.inode,
                    value: "bbr".into(),
                }),
            },
            Advice {
                action: format!(
                    "Put an active queue (fq_codel, cake) before the bottleneck, shaped a little \
                     below {}.",
                    bit_rate(self.rate())
                ),
                command: None,
                r#where: "the router or modem in front of the slow link".into(),
                risk: "A shaper costs some per cent of the rate and CPU on that box.".into(),
                expected: "The queue stays near 5 ms, and short connections do not wait for bulk."
                    .into(),
                change: None,
            },
            Advice {
                action: "Keep unsent data in the application, which can then send what is urgent \
                         first."
                    .into(),
                command: command_in(netns, "sysctl -w net.ipv4.tcp_notsent_lowat=131072"),
                r#where: format!("{}; or TCP_NOTSENT_LOWAT per socket", namespace(netns)),
                risk: "More wakeups of the sending threads.".into(),
                expected: "Shortens the queue in this host's sockets, not the one on the path."
                    .into(),
                change: None,
            },
        ]
    }
}

#[cfg(test)]
mod tests;
