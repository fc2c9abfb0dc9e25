//! C22: a small segment waits for an ACK that the peer delays.

mod left_late;

use std::collections::{BTreeMap, BTreeSet};

use analysis::Rise;
use analysis::account::{self, Role as Serves, ServiceKey};
use analysis::stats::{median, ratio};
use analysis::words::{figure, rounded};

use crate::limits;
use crate::places::path::{End, ends, median_of, min_rtt_us, sample_rows, senders, usual_rtt};
use crate::programs::{self, Setting};
use crate::vocabulary::*;
use left_late::LeftLate;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::NAGLE_DELAYED_ACK,
    number: "C22",
    title: "Nagle's algorithm waits for a delayed ACK",
    page: include_str!("nagle_delayed_ack.md"),
    layer: Layer::Application,
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: || {
        "3 samples of a held segment, with round trips of 30 to 60 ms; or 3 requests whose end left that much later"
            .into()
    },
    signature: &[
        "40 ms gaps",
        "every request takes exactly 40 ms (or 200 ms on other systems)",
        "slow with small writes, TCP_NODELAY helps",
    ],
    rivals: &[Id::TAIL_LOSS, Id::SLOW_READER],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// A service whose connections hold messages back: a listener's answers, or requests to a destination.
struct Sender<'a> {
    story: &'a Story,
    netns: u32,
    role: Serves,
    /// Where it listens, or where it connects to.
    at: Endpoint,
    held: Vec<End<'a>>,
    /// Its requests that left late, where exchanges show it.
    late: Option<LeftLate>,
    /// Its connections, held or not.
    all: u64,
}

fn no(asked: &Asked) -> Option<Step> {
    let ends = &asked.losses()?.ends;
    let held: u32 = ends.iter().map(|e| e.transfer.held).sum();
    let of: u32 = ends.iter().map(|e| e.transfer.samples).sum();
    (held < limits::A_FEW.as_u32() || !limits::MOST.reached(held, of)).then(|| {
        say!(
            "{held_samples} of {samples} found a segment held back although the windows had room",
            held_samples = Quantity::count(held),
            samples = Quantity::of(of, "sample").rows(sample_rows(ends))
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let mut held: BTreeMap<ServiceKey, Vec<End>> = BTreeMap::new();
    for end in whole.ends() {
        held.entry(account::service(story, end.conn))
            .or_default()
            .push(*end);
    }
    let held = held.into_values().map(|ends| {
        let sum = |of: fn(&End) -> u32| ends.iter().map(|e| u64::from(of(e))).sum::<u64>();
        let (n, of) = (sum(|e| e.transfer.held), sum(|e| e.transfer.samples));
        let step = say!(
            "{held_samples} of {samples} found a segment held back although the windows had room",
            held_samples = Quantity::count(n).rows(sample_rows(&ends)),
            samples = Quantity::of(of, "sample")
        );
        every([Test::events(n, of, &limits::A_FEW, step)])
    });
    let late = story.exchanges().iter().map(left_late::refuted);
    Verdict::nearest(held.chain(late), "no connection was sampled")
}

fn find(story: &Story) -> Found {
    let senders = places(story);
    if senders.is_empty() {
        return Found::default();
    }
    let waits = waits(story);
    senders.iter().map(|s| judge(s, &waits)).collect()
}

fn places(story: &Story) -> Vec<Sender<'_>> {
    let mut places: BTreeMap<ServiceKey, Vec<End>> = BTreeMap::new();
    for end in ends(story) {
        let service = account::service(story, end.conn);
        places.entry(service).or_default().push(end);
    }
    let mut late = late(story);
    let senders = places.into_iter().map(|(service, ends)| {
        let (netns, role, at) = service;
        let late = late.remove(&service).filter(|late| late.is_of(&ends));
        let all = ends.len() as u64;
        let held = ends
            .into_iter()
            .filter(|e| is_held(e) || late.is_some() && is_near(e));
        Sender {
            story,
            netns,
            role,
            at,
            held: held.collect(),
            late,
            all,
        }
    });
    let often = |s: &Sender| {
        let samples = s.held.iter().map(|e| e.transfer.held).sum::<u32>();
        s.late.is_some() || samples >= limits::A_FEW.as_u32()
    };
    let held = senders.filter(|s| !s.held.is_empty());
    held.filter(|s| often(s) && s.is_delayed()).collect()
}

/// The requests that left late, by service.
fn late(story: &Story) -> BTreeMap<ServiceKey, LeftLate> {
    let exchanges = story.exchanges().iter();
    let late = exchanges.filter_map(|e| Some((e.service, LeftLate::of(e)?)));
    late.collect()
}

/// A small segment was held in some samples, and round trips swing up to the delay.
fn is_held(end: &End) -> bool {
    let t = end.transfer;
    let late = longest(end).is_some_and(|us| {
        (f64::from(limits::DELAYED_ACK_LEAST.us())..=f64::from(limits::DELAYED_ACK_MOST.us()))
            .contains(&us)
    });
    let quiet = !limits::SMALL_PART.exceeded(t.resends.count(), t.segments());
    t.held > 0 && late && quiet && is_near(end)
}

/// Its path does not hide the delay, nor does it switch Nagle's algorithm off.
fn is_near(end: &End) -> bool {
    end.transfer.nagle && end.transfer.min_rtt_us <= limits::DELAY_SHOWS.us()
}

/// Mean of the round trips and their mean deviation: the long ones where short and long ones alternate.
fn longest(end: &End) -> Option<f64> {
    median(&mut end.transfer.late_rtts.all().to_vec()).map(f64::from)
}

/// How many waits ended with a segment after the delay, by its source, with rows.
type Waits = BTreeMap<Endpoint, (u64, Vec<RowRef>)>;

fn waits(story: &Story) -> Waits {
    let mut waits = Waits::new();
    for wait in &story.waits.all {
        let arrival = wait.cause.as_ref().filter(|a| a.attempt == 0);
        if let Some(arrival) = arrival.filter(|_| {
            (limits::DELAYED_ACK_WAIT.ns()..=limits::DELAYED_ACK_MOST.ns())
                .contains(&wait.waited_ns)
        }) {
            let (n, rows) = waits.entry(arrival.from).or_default();
            *n += 1;
            if rows.len() < SHOWN_ROWS {
                rows.push(wait.row);
            }
        }
    }
    waits
}

fn judge(sender: &Sender, waits: &Waits) -> Finding {
    let (story, at, delay) = (sender.story, sender.at, sender.delay());
    let mut scope = senders(story, sender.netns, &sender.held, None);
    scope.listener = at.to_string();
    let unknown = if sender.answers() {
        "The server"
    } else {
        "The client"
    };
    let comm = scope.comm.clone().unwrap_or_else(|| unknown.into());
    let peers = sender.peers_netns();
    let delayed_acks = peers.map(|netns| story.counters.rise(netns, counter::DELAYED_ACKS));
    let sending = |share| {
        let held = sender.held.iter().map(|e| e.conn);
        Lost::states(story, held, &[State::Path], share)
    };
    let lost = match &sender.late {
        None => sending(1.0),
        // Requests tell it exactly, even for connections too short for a sample.
        Some(late) => {
            let told = late.lost(sender.held.len() as u64);
            let sampled_ns = sending(1.0).claimed();
            let lost = sending(told.lost_ns as f64 / sampled_ns.max(1) as f64);
            let left_ns = told.lost_ns.saturating_sub(sampled_ns);
            lost.and(Lost::elsewhere(left_ns)).of_exchanges(told)
        }
    };
    let advice = sender.advice(&scope, &comm);
    let titles = if sender.answers() {
        [
            format!("{at} ({comm}) loses {delay} per answer: Nagle waits for a delayed ACK."),
            format!("Answers of {at} lose {delay}: Nagle waits for a delayed ACK."),
        ]
    } else {
        [
            format!("{comm} loses {delay} per message to {at}: Nagle waits for a delayed ACK."),
            format!("Messages to {at} lose {delay}: Nagle waits for a delayed ACK."),
        ]
    };
    Case::new(story, CAUSE, scope)
        .placed(Place::ends(&sender.held))
        .title(titles)
        .fix([
            format!("Set TCP_NODELAY in {comm}, or write each message with one call."),
            "Set TCP_NODELAY, or write each message with one call.".into(),
        ])
        .affects(sender.impact(), lost)
        .because(match sender.late {
            None => "less than a segment was unsent although both windows had room",
            Some(_) => "small requests leave in two segments, the second with such a delay, with Nagle's algorithm \
                        on",
        })
        .at_most_if(
            Level::Medium,
            peers.is_none(),
            "the peer is not on this host: that it delays its ACKs is inferred from the delay",
        )
        .noted(sender.is_one_way().then_some(
            "nothing answers this data: the delayed pieces delay no request here",
        ))
        .rests_on(&[SourceName::Retransmits])
        .steps(sender.waits_step(waits))
        .steps(sender.late_step())
        .steps(sender.held_step())
        .steps(sender.round_trips_step())
        .steps(delayed_acks.as_ref().and_then(|r| sender.acks_step(r)))
        .checks(sender.one_per_delay())
        .checks(delayed_acks.map(|r| sender.acks_check(r.by)))
        .advise(advice)
        .verify("`nstat -az TcpExtDelayedACKs` on the peer does not rise while messages flow.")
}

impl Sender<'_> {
    /// It listens, and holds back answers.
    fn answers(&self) -> bool {
        self.role == Serves::Server
    }

    /// Nothing comes back, as with a log shipper.
    fn is_one_way(&self) -> bool {
        let mut held = self.held.iter();
        self.late.is_none() && held.all(|e| e.transfer.received() == 0)
    }

    fn delay_us(&self) -> f64 {
        let late = self.late.as_ref().map(|late| late.delay_us);
        let delay = late.or_else(|| median_of(&self.held, longest));
        delay.unwrap_or(0.0)
    }

    fn delay(&self) -> Quantity {
        Quantity::real_us(self.delay_us())
    }

    /// How often something was held: counted, or as if the samples that found it held stood for the whole time.
    fn times(&self) -> f64 {
        if let Some(late) = &self.late {
            return late.times as f64;
        }
        let of_end = |e: &End| {
            let share = ratio(e.transfer.held.into(), e.transfer.samples.into());
            let delay_us = longest(e).unwrap_or(f64::from(limits::DELAYED_ACK_LEAST.us()));
            share.unwrap_or(0.0) * e.transfer.span_ns as f64 / 1e3 / delay_us
        };
        self.held.iter().map(of_end).sum()
    }

    /// Whether there were as many delayed ACKs to wait for: a paced transfer (BBR, fq) has part of a segment left now
    /// and then, and sends it when its time comes.
    fn is_delayed(&self) -> bool {
        let times = self.times();
        let sent: u64 = self.held.iter().map(|e| e.transfer.segments()).sum();
        let counters = &self.story.counters;
        let rise = |netns: u32| {
            let covered = counters.covers(netns);
            covered.then(|| counters.rise(netns, counter::DELAYED_ACKS).by)
        };
        let peers = self.held.iter().map(|e| {
            let peer = self.story.conn(e.conn.peer?)?;
            Some(peer.netns)
        });
        let peers: Option<BTreeSet<u32>> = peers.collect();
        let acks: Option<u64> = peers.and_then(|all| all.into_iter().map(rise).sum());
        let enough = acks.is_none_or(|acks| limits::MOST.reached(acks, times));
        enough && sent as f64 <= times * limits::SENT_PER_HELD.times()
    }

    /// Messages: counted, or as if each were written in two pieces.
    fn messages(&self) -> u64 {
        if let Some(late) = &self.late {
            return late.of;
        }
        let sent: u64 = self.held.iter().map(|e| e.transfer.segments()).sum();
        sent / limits::HELD_SEGMENTS.count()
    }

    /// The namespace of the peers, when they are on this host.
    fn peers_netns(&self) -> Option<u32> {
        let peer = self.held.first()?.conn.peer?;
        Some(self.story.conn(peer)?.netns)
    }

    fn impact(&self) -> Impact {
        let affected = self.held.len() as u64;
        let ms = rounded(self.delay_us() / 1e3);
        let says = format!(
            "{} of {} {} {} carry at most {} messages per second each.",
            Quantity::count(affected),
            Quantity::of(self.all, "connection"),
            if self.answers() { "of" } else { "to" },
            self.at,
            figure(1e6 / self.delay_us().max(1.0))
        );
        Impact {
            added_latency_ms: Some(Latency { p50: ms, p99: ms }),
            ..Impact::of(affected, self.all, "connections", says)
        }
    }

    /// Threads that waited for what it had held back, or for the answer to that.
    fn waits_step(&self, waits: &Waits) -> Option<Step> {
        let from: BTreeSet<Endpoint> = if self.answers() {
            self.held.iter().map(|e| e.conn.local).collect()
        } else {
            [self.at].into()
        };
        let waits: Vec<_> = from.iter().filter_map(|from| waits.get(from)).collect();
        let n: u64 = waits.iter().map(|(n, _)| n).sum();
        let rows = waits.iter().flat_map(|(_, rows)| rows).copied();
        let at = self.at;
        (n > 0).then(|| {
            say!(
                "Threads waited 36 to 60 ms for a segment from {at}, {waits}.",
                waits = Quantity::times(n).rows(rows.take(SHOWN_ROWS))
            )
        })
    }

    fn late_step(&self) -> Option<Step> {
        let late = self.late.as_ref()?;
        Some(say!(
            "The end of {late_requests} of {requests} left {late_us} after it was written (median), and nothing was \
             retransmitted; {told} are recorded individually.",
            late_requests = Quantity::count(late.times),
            requests = Quantity::of(late.of, "request"),
            late_us = self.delay(),
            told = Quantity::count(late.told).rows(late.rows.iter().copied())
        ))
    }

    fn held_step(&self) -> Option<Step> {
        let sum = |of: fn(&End) -> u32| self.held.iter().map(of).sum::<u32>();
        let held = sum(|e| e.transfer.held);
        let connections = Quantity::of(self.held.len() as u64, "connection");
        (held > 0).then(|| {
            say!(
                "In {held} of {samples} samples of {connections} a small segment waited unsent behind one \
                 in flight, with room in both windows: Nagle's algorithm held it.",
                held = Quantity::count(held).rows(sample_rows(&self.held)),
                samples = Quantity::count(sum(|e| e.transfer.samples))
            )
        })
    }

    fn round_trips_step(&self) -> Option<Step> {
        let mean = median_of(&self.held, |e| Some(usual_rtt(e)?.into()));
        let shortest = min_rtt_us(&self.held).unwrap_or(0);
        let delay_us = median_of(&self.held, longest)?;
        Some(say!(
            "RTT min {min_rtt_us}, srtt {rtt_us}, srtt + rttvar {delay_us}: the peer's delayed-ACK timer.",
            min_rtt_us = Quantity::us(shortest).rows(sample_rows(&self.held)),
            rtt_us = Quantity::real_us(mean.unwrap_or(0.0)),
            delay_us = Quantity::real_us(delay_us)
        ))
    }

    fn acks_step(&self, rise: &Rise) -> Option<Step> {
        (rise.by > 0).then(|| {
            say!(
                "The peer's timer sent {delayed_acks} (DelayedACKs), for about {messages} written in two pieces.",
                delayed_acks = Quantity::of(rise.by, "delayed ACK").rows(rise.rows()),
                messages = Quantity::of(self.messages(), "message")
            )
        })
    }

    /// A sender that waits once per message sends no more than one per delay: one that is paced, or has a long path,
    /// sends on meanwhile.
    fn one_per_delay(&self) -> Option<Check> {
        let sent = median_of(&self.held, |e| {
            ratio(
                e.transfer.segments() as f64 * 1e9,
                e.transfer.span_ns as f64,
            )
        })?;
        let most = limits::HELD_SEGMENTS.count() as f64 * 1e6 / self.delay_us().max(1.0);
        Some(Check {
            formula: format!(
                "segments per second of a connection ≤ {} per delay of {}",
                limits::HELD_SEGMENTS.count(),
                self.delay()
            ),
            expected: rounded(most),
            measured: rounded(sent),
            unit: "segments/s".into(),
            agrees: sent <= most * (1.0 + limits::ALIKE.share()),
            tolerance: "at most 20 % above: not every message is held".into(),
        })
    }

    fn acks_check(&self, acks: u64) -> Check {
        let (messages, acks) = (self.messages() as f64, acks as f64);
        Check {
            formula: "segments sent ÷ 2 = ACKs that the peer's delayed-ACK timer sent".into(),
            expected: messages,
            measured: acks,
            unit: "messages".into(),
            agrees: (messages - acks).abs() <= messages * limits::ALIKE.share(),
            tolerance: "± 20 %: the first ACKs of a connection are not delayed".into(),
        }
    }

    fn advice(&self, scope: &Scope, comm: &str) -> [Advice; 2] {
        let (at, netns) = (self.at, &scope.netns);
        let how = match programs::setting(scope, Setting::NoDelay) {
            Some(how) => format!(" ({how})"),
            None => String::new(),
        };
        let nodelay = if self.answers() {
            Advice::to(format!(
            "Have {comm} set TCP_NODELAY{how} on the connections that it accepts on {at}, or write each answer with \
             one writev() or with MSG_MORE."
        ))
        .by(command_in(netns, shell!("ss -ti 'sport = :{port}'", port = at.port)))
        } else {
            Advice::to(format!(
            "Have {comm} set TCP_NODELAY{how} on its sockets to {at}, or write each message with one writev() or \
             with MSG_MORE."
        ))
        .by(command_in(netns, shell!("ss -ti 'dst {addr} and dport = :{port}'", addr = at.addr, port = at.port)))
        };
        let other = if self.answers() { "client" } else { "server" };
        let this = if self.answers() { "server" } else { "client" };
        [
            nodelay
                .at(format!(
                    "the source or configuration of {comm}; the command shows waiting data as `notsent`"
                ))
                .risk("With TCP_NODELAY alone, more small packets: two per message.")
                .effect(format!("Each message is {} faster.", self.delay()))
                .change(Change::NoDelay {
                    netns: self.netns,
                    to: at.to_string(),
                }),
            Advice::to(format!(
                "If the {this} cannot be changed, have the {other} acknowledge at once."
            ))
            .at(format!(
                "the {other}: TCP_QUICKACK after each read, or `quickack 1` on its route"
            ))
            .risk("One more packet per message; TCP_QUICKACK does not last.")
            .effect("The ACK arrives after one round trip, and releases the second piece."),
        ]
    }
}

#[cfg(test)]
mod tests;
