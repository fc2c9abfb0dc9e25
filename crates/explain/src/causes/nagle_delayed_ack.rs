//! C22: a small segment waits for an ACK that the peer delays.

use std::collections::BTreeMap;

use analysis::words::{count, duration, fitting, plural, rounded};

use crate::finding::Confidence;
use crate::places::listener::doubts;
use crate::places::path::{End, ends, median_of, sample_rows, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::NAGLE_DELAYED_ACK,
    number: "C22",
    title: "Nagle's algorithm waits for a delayed ACK",
    page: include_str!("nagle_delayed_ack.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: "3 samples of a held segment, with round trips of 30 to 60 ms",
    rivals: &[Id::TAIL_LOSS, Id::SLOW_READER],
    explains: &[],
    no: Some(no),
    symptom: None,
    find,
};

/// The shortest time for which Linux delays an ACK (TCP_DELACK_MIN), µs.
const DELAY_US: f64 = 40_000.0;
/// The timer fires up to some ticks late; above this it is something else.
const MOST_US: f64 = 60_000.0;
/// Below this mean and deviation of the round trips few of them were delayed.
const LEAST_US: f64 = 30_000.0;
/// A path with a longer round trip hides the delay in it.
const MAX_RTT_US: u32 = 20_000;
/// Samples of a kind, over all connections: fewer are chance.
const MIN_HELD: u32 = 3;
/// Waits of this length were ended by a delayed ACK's release, ns.
const WAITS_NS: std::ops::RangeInclusive<u64> = 36_000_000..=60_000_000;
/// Counted by timer and by segment, at different moments.
const SAME: f64 = 0.25;

struct Case<'a> {
    story: &'a Story,
    netns: u32,
    to: Endpoint,
    held: Vec<End<'a>>,
    /// Connections to the same place, held or not.
    all: u64,
    /// Waits that a segment from there ended after the delay, and rows.
    waits: (u64, Vec<RowRef>),
}

fn no(asked: &Asked) -> Option<Step> {
    let ends = &asked.losses()?.ends;
    let held: u32 = ends.iter().map(|e| e.transfer.held).sum();
    let of: u32 = ends.iter().map(|e| e.transfer.samples).sum();
    let (held_samples, samples) = (Quantity::count(held), Quantity::of(of, "sample"));
    (held < MIN_HELD || f64::from(held) < f64::from(of) / 2.0).then(|| {
        say!(
            "{held_samples} of {samples} found a segment held back although the windows had room",
            held_samples,
            samples
        )
    })
}

fn find(story: &Story) -> Vec<Finding> {
    let mut places: BTreeMap<(u32, Endpoint), Vec<End>> = BTreeMap::new();
    for end in ends(story).filter(|e| e.conn.listener.is_none() || !accepted(e)) {
        let place = (end.conn.netns, end.conn.remote);
        places.entry(place).or_default().push(end);
    }
    let cases = places.into_iter().filter_map(|((netns, to), ends)| {
        let all = ends.len() as u64;
        let held: Vec<End> = ends.into_iter().filter(is_held).collect();
        let samples: u32 = held.iter().map(|e| e.transfer.held).sum();
        let case = Case {
            story,
            netns,
            to,
            held,
            all,
            waits: (0, Vec::new()),
        };
        (samples >= MIN_HELD).then_some((to, case))
    });
    // One address may be met from several namespaces.
    let mut cases: Vec<(Endpoint, Case)> = cases.collect();
    cases.sort_by_key(|(to, _)| *to);
    for wait in story
        .waits
        .all
        .iter()
        .filter(|w| WAITS_NS.contains(&w.waited_ns))
    {
        let arrival = wait.cause.as_ref().filter(|a| a.attempt == 0);
        let Some(from) = arrival.map(|a| a.from) else {
            continue;
        };
        let at = cases.partition_point(|(to, _)| *to < from);
        if let Some((_, case)) = cases.get_mut(at).filter(|(to, _)| *to == from) {
            case.waits.0 += 1;
            if case.waits.1.len() < SHOWN_ROWS {
                case.waits.1.push(wait.row);
            }
        }
    }
    cases.into_iter().map(|(_, case)| case.finding()).collect()
}

fn accepted(end: &End) -> bool {
    end.conn.side == Side::Accepted
}

/// A small segment was held in some samples, and round trips swing up to the delay.
fn is_held(end: &End) -> bool {
    let t = end.transfer;
    let late = longest(end).is_some_and(|us| (LEAST_US..=MOST_US).contains(&us));
    let quiet = t.resends.count() * 10 <= t.segments();
    t.held > 0 && late && quiet && t.min_rtt_us <= MAX_RTT_US
}

/// Mean of the round trips and their mean deviation: where they are short and long by turns, the
/// long ones.
fn longest(end: &End) -> Option<f64> {
    let mut late = end.transfer.late_rtts.all().to_vec();
    analysis::stats::median(&mut late).map(f64::from)
}

impl Case<'_> {
    fn scope(&self) -> Scope {
        let mut scope = senders(self.story, self.netns, &self.held, None);
        scope.listener = self.to.to_string();
        scope
    }

    fn delay_us(&self) -> f64 {
        median_of(&self.held, longest).unwrap_or(0.0)
    }

    /// Messages, if each is written in two pieces.
    fn messages(&self) -> u64 {
        let sent: u64 = self.held.iter().map(|e| e.transfer.segments()).sum();
        sent / 2
    }

    /// The namespace of the peers, when they are on this host.
    fn peers_netns(&self) -> Option<u32> {
        let peer = self.held.first()?.conn.peer?;
        Some(self.story.conn(peer)?.netns)
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks = self.arithmetic();
        let delay = duration((self.delay_us() * 1e3) as u64);
        let comm = scope.comm.clone().unwrap_or_else(|| "The client".into());
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: Some(Place::ends(&self.held)),
            lost_s: self.lost(),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!(
                    "{comm} loses {delay} per message to {}: Nagle waits for a delayed ACK.",
                    self.to
                ),
                format!(
                    "Messages to {} lose {delay}: Nagle waits for a delayed ACK.",
                    self.to
                ),
            ]),
            fix: fitting([
                format!("Let {comm} set TCP_NODELAY, or write each message with one call."),
                "Set TCP_NODELAY, or write each message with one call.".into(),
            ]),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: Vec::new(),
            advice: self.advice(&scope, &comm),
            verify: "`nstat -az TcpExtDelayedACKs` on the peer stands still while messages flow."
                .into(),
            scope,
        }
    }

    /// The time in which a segment was held back.
    fn lost(&self) -> Lost {
        let held = self.held.iter().map(|e| e.conn);
        Lost::states(self.story, held, &[State::Path], 1.0)
    }

    fn impact(&self) -> Impact {
        let affected = self.held.len() as u64;
        let ms = rounded(self.delay_us() / 1e3);
        let says = format!(
            "{} of {} to {} carry at most {} messages per second each.",
            count(affected),
            plural(self.all, "connection"),
            self.to,
            analysis::words::figure(1e6 / self.delay_us().max(1.0))
        );
        Impact {
            added_latency_ms: Some(Latency { p50: ms, p99: ms }),
            ..Impact::of(affected, self.all, "connections", says)
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because("less than a segment was unsent although both windows had room");
        if self.peers_netns().is_none() {
            c.at_most(
                Level::Medium,
                "the peer is not on this host: that it delays its ACKs is inferred from the time",
            );
        }
        c.weigh_checks(checks);
        doubts(
            self.story,
            &mut c,
            &[SourceName::Sockets, SourceName::Retransmits],
        );
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let (waits, rows) = &self.waits;
        if *waits > 0 {
            steps.push(
                Step::new(format!(
                    "Threads waited 36 to 60 ms for a segment from {}, {} times.",
                    self.to,
                    count(*waits)
                ))
                .number("waits", *waits)
                .rows(rows.iter().copied()),
            );
        }
        let samples: u32 = self.held.iter().map(|e| e.transfer.samples).sum();
        let held: u32 = self.held.iter().map(|e| e.transfer.held).sum();
        steps.push(
            Step::new(format!(
                "In {} of {} samples of {} a small segment waited unsent behind one in flight, \
                 with room in both windows: Nagle's algorithm held it.",
                count(held.into()),
                count(samples.into()),
                plural(self.held.len() as u64, "connection")
            ))
            .number("held", held)
            .number("samples", samples)
            .rows(sample_rows(&self.held)),
        );
        let mean = median_of(&self.held, |e| {
            Some(crate::places::path::usual_rtt(e)?.into())
        });
        let shortest = self.held.iter().map(|e| e.transfer.min_rtt_us).min();
        steps.push(
            Step::new(format!(
                "Their round trips swing: shortest {}, mean {}, mean and deviation {}, which is \
                 the peer's delayed-ACK timer.",
                duration(u64::from(shortest.unwrap_or(0)) * 1_000),
                duration((mean.unwrap_or(0.0) * 1e3) as u64),
                duration((self.delay_us() * 1e3) as u64)
            ))
            .number_if("min_rtt_us", shortest)
            .number_if("rtt_us", mean)
            .number("delay_us", self.delay_us())
            .rows(sample_rows(&self.held)),
        );
        if let Some(netns) = self.peers_netns() {
            let rise = self.story.counters.rise(netns, counter::DELAYED_ACKS);
            if rise.by > 0 {
                steps.push(
                    Step::new(format!(
                        "The peer's timer sent {} (DelayedACKs), for some {} written in two \
                         pieces.",
                        plural(rise.by, "delayed ACK"),
                        plural(self.messages(), "message")
                    ))
                    .number("delayed_acks", rise.by)
                    .number("messages", self.messages())
                    .rows(rise.rows()),
                );
            }
        }
        steps
    }

    fn arithmetic(&self) -> Vec<Check> {
        let delay = rounded(self.delay_us() / 1e3);
        let mut checks = vec![Check {
            formula: "the shortest ACK delay of Linux (40 ms) = the long ones of the round trips"
                .into(),
            expected: 40.0,
            measured: delay,
            unit: "ms".into(),
            agrees: self.delay_us() >= DELAY_US * 0.9 && self.delay_us() <= DELAY_US * 1.3,
            tolerance: "− 10 % to + 30 %: the timer fires some ticks late".into(),
        }];
        if let Some(netns) = self.peers_netns() {
            let acks = self.story.counters.rise(netns, counter::DELAYED_ACKS).by;
            let (a, b) = (self.messages() as f64, acks as f64);
            checks.push(Check {
                formula: "segments sent ÷ 2 = ACKs that the peer's delayed-ACK timer sent".into(),
                expected: a,
                measured: b,
                unit: "messages".into(),
                agrees: (a - b).abs() <= a * SAME,
                tolerance: "± 25 %: the first ACKs of a connection are not delayed".into(),
            });
        }
        checks
    }

    fn advice(&self, scope: &Scope, comm: &str) -> Vec<Advice> {
        vec![
            Advice {
                action: format!(
                    "Let {comm} set TCP_NODELAY on its sockets to {}, or write each message with \
                     one writev() or with MSG_MORE.",
                    self.to
                ),
                command: scope
                    .pid
                    .map(|pid| format!("strace -f -e trace=network,write,writev -p {pid}")),
                r#where: format!(
                    "the source or configuration of {comm}; the command shows its writes"
                ),
                risk: "With TCP_NODELAY alone, more small packets: two per message.".into(),
                expected: format!(
                    "Each message is {} faster.",
                    duration((self.delay_us() * 1e3) as u64)
                ),
                change: Some(Change::NoDelay {
                    netns: self.netns,
                    to: self.to.to_string(),
                }),
            },
            Advice {
                action: "If the client cannot be changed, let the server acknowledge at once."
                    .into(),
                command: None,
                r#where: "the server: TCP_QUICKACK after each read, or `quickack 1` on its route"
                    .into(),
                risk: "One more packet per message; TCP_QUICKACK does not last.".into(),
                expected: "The ACK comes after a round trip, and releases the second piece.".into(),
                change: None,
            },
        ]
    }
}

#[cfg(test)]
mod tests;
