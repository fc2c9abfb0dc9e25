//! C14: a queueing discipline of this host drops what its connections send.

use std::collections::BTreeMap;

use analysis::Dropped;
use analysis::words::{bit_rate, bytes, count, duration, fitting, percent, plural};
use recording::Text;

use crate::finding::Confidence;
use crate::places::listener::doubts;
use crate::places::path::{End, limited, min_rtt_us, paths, rate, sample_rows, senders};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::QDISC_DROP,
    number: "C14",
    title: "a queueing discipline of this host drops packets",
    page: include_str!("qdisc_drop.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::Drops], &[SourceName::Sockets]],
    seen_from: "20 dropped packets, 0.3 % of what is sent",
    rivals: &[Id::PATH_LOSS, Id::LOCAL_FIREWALL_DROP],
    explains: &[],
    no: Some(no),
    symptom: Some(Symptom::Retransmits),
    find,
};

/// Fewer are a burst at a start.
const MIN_DROPS: u64 = 20;
/// Dropping is how an active queue (fq_codel) tells senders to slow down: with a few hundred
/// segments in flight, 1 in 1,000 or fewer.
const MIN_SHARE: f64 = 0.003;
/// A queue that holds this many round trips at the rate lets few senders fill the link.
const ROUND_TRIPS: f64 = 2.0;
/// No smaller queue is advised: some large packets.
const LEAST_QUEUE: f64 = 100_000.0;
/// Two counts of the drops: by connection and by reason.
const FORMULA: &str = "drops whose packet belonged to a connection seen here = all such drops";

struct Case<'a> {
    story: &'a Story,
    netns: u32,
    hit: Vec<(&'a Conn, &'a Dropped)>,
    /// Connections of the namespace, hit or not.
    of: u64,
    /// Those of them that were sampled while they sent.
    ends: Vec<End<'a>>,
    /// Devices other than loopback that sent, with bytes per second.
    devices: Vec<(Text, f64, RowRef)>,
    /// Packets dropped for the same reason in the namespace, whatever they belonged to.
    all: u64,
}

fn no(asked: &Asked) -> Option<Step> {
    if !asked.story.health.has(&SourceName::Drops) {
        return None;
    }
    let losses = asked.losses()?;
    let of = losses.ends.iter();
    let of = of.filter_map(|e| asked.story.transfers.dropped_leaving(e.conn));
    let dropped: u64 = of.map(|d| d.by_qdisc).sum();
    let (lost, dropped_leaving) = (
        Quantity::of(losses.lost, "segment"),
        Quantity::count(dropped),
    );
    (dropped < MIN_DROPS || dropped.saturating_mul(10) <= losses.lost).then(|| {
        say!(
            "queueing disciplines of this host dropped {dropped_leaving} of the packets of these \
             connections; {lost} were lost",
            dropped_leaving,
            lost
        )
    })
}

fn find(story: &Story) -> Vec<Finding> {
    // Several destinations leave through one device: a case per namespace.
    let mut cases: BTreeMap<u32, Case> = BTreeMap::new();
    for conn in &story.conns {
        let dropped = story.transfers.dropped_leaving(conn);
        if let Some(dropped) = dropped.filter(|d| d.by_qdisc > 0) {
            let case = cases.entry(conn.netns).or_insert_with(|| Case {
                story,
                netns: conn.netns,
                hit: Vec::new(),
                of: 0,
                ends: Vec::new(),
                devices: story.devices.sending(conn.netns),
                all: 0,
            });
            case.hit.push((conn, dropped));
        }
    }
    if cases.is_empty() {
        return Vec::new();
    }
    for conn in &story.conns {
        if let Some(case) = cases.get_mut(&conn.netns) {
            case.of += 1;
        }
    }
    for path in paths(story) {
        if let Some(case) = cases.get_mut(&path.netns) {
            case.ends.extend(path.ends);
        }
    }
    for group in story.packets.all() {
        if let Some(case) = cases.get_mut(&group.netns)
            && group.is_for(case.reason())
        {
            case.all += group.count;
        }
    }
    let cases = cases.into_values().filter(Case::holds);
    cases.map(|case| case.finding()).collect()
}

impl Case<'_> {
    fn holds(&self) -> bool {
        self.drops() >= MIN_DROPS && self.share() >= MIN_SHARE
    }

    fn drops(&self) -> u64 {
        self.hit.iter().map(|(_, d)| d.by_qdisc).sum()
    }

    /// Segments that the namespace sent, or those of the sampled connections if it was not counted.
    fn segments(&self) -> u64 {
        let sampled = self.ends.iter().map(|e| e.transfer.segments()).sum();
        self.story
            .counters
            .rise(self.netns, counter::OUT_SEGS)
            .by
            .max(sampled)
    }

    /// Share of the packets that were dropped.
    fn share(&self) -> f64 {
        self.drops() as f64 / self.segments().max(1) as f64
    }

    /// The device, when there is only one.
    fn device(&self) -> Option<&Text> {
        match &self.devices[..] {
            [(device, ..)] => Some(device),
            _ => None,
        }
    }

    /// The device or devices in words.
    fn place(&self) -> String {
        match &self.devices[..] {
            [] => "an interface".into(),
            [(device, ..)] => device.to_string(),
            many => {
                let names: Vec<_> = many.iter().take(3).map(|(d, ..)| d.to_string()).collect();
                format!("one of {}", names.join(", "))
            }
        }
    }

    /// Bytes that leave per second: what the device carried, or the connections.
    fn rate(&self) -> f64 {
        match &self.devices[..] {
            [(_, rate, _)] => *rate,
            _ => rate(&self.ends),
        }
    }

    fn min_rtt_us(&self) -> u32 {
        min_rtt_us(&self.ends).unwrap_or(0)
    }

    /// A queue that would hold what arrives in bursts, bytes.
    fn queue(&self) -> u64 {
        let trips = self.rate() * f64::from(self.min_rtt_us()) / 1e6 * ROUND_TRIPS;
        (trips.max(LEAST_QUEUE) / 1_000.0).ceil() as u64 * 1_000
    }

    fn reason(&self) -> &str {
        let first = self.hit.first().and_then(|(_, d)| d.reason.as_deref());
        first.unwrap_or("QDISC_DROP")
    }

    fn scope(&self) -> Scope {
        let resource = format!("qdisc of {}", self.place());
        senders(self.story, self.netns, &self.ends, Some(resource))
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks = self.arithmetic();
        let dropped = plural(self.drops(), "packet");
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: Some(Place::ends(&self.ends)),
            lost_s: limited(self.story, &self.ends),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!(
                    "The queueing discipline of {} drops packets of this host: {dropped}, {}.",
                    self.place(),
                    percent(self.share())
                ),
                format!(
                    "The queueing discipline of {} dropped {dropped}.",
                    self.place()
                ),
            ]),
            fix: fitting([
                format!(
                    "Give the shaper of {} a queue of {}, or more rate.",
                    self.place(),
                    bytes(self.queue())
                ),
                format!(
                    "Give the shaper a queue of {}, or more rate.",
                    bytes(self.queue())
                ),
            ]),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: Vec::new(),
            advice: self.advice(&scope),
            verify: format!(
                "The drops in `tc -s qdisc show dev {}` stand still while data moves.",
                self.device().map_or("DEVICE", |d| &**d)
            ),
            scope,
        }
    }

    fn impact(&self) -> Impact {
        let affected = self.hit.len() as u64;
        let says = format!(
            "{} of {} had packets dropped before they left the host; together they sent {}.",
            count(affected),
            plural(self.of, "connection"),
            bit_rate(self.rate())
        );
        Impact::of(affected, self.of, "connections", says)
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "the kernel gives {} as the reason of each drop, with the connection",
            self.reason()
        ));
        if self.device().is_none() {
            let n = self.devices.len();
            c.at_most(
                Level::Medium,
                format!("which of {n} interfaces it is the recording does not tell"),
            );
        }
        c.weigh_checks(checks);
        doubts(
            self.story,
            &mut c,
            &[SourceName::Drops, SourceName::Sockets],
        );
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let again: u64 = self.ends.iter().map(|e| e.transfer.resends.count()).sum();
        let rows = self.hit.iter().flat_map(|(_, d)| d.rows.iter().copied());
        let location = self.hit.first().and_then(|(_, d)| d.location.as_deref());
        let mut steps = vec![
            Step::new(format!(
                "{} sent {}, and retransmitted {} of them.",
                plural(self.of, "connection"),
                plural(self.segments(), "segment"),
                count(again)
            ))
            .number("segments", self.segments())
            .number("sent_again", again)
            .rows(sample_rows(&self.ends)),
            Step::new(format!(
                "{} were dropped here as they left, reason {}{}: {} of what was sent.",
                plural(self.drops(), "packet"),
                self.reason(),
                location.map_or(String::new(), |l| format!(" in {l}")),
                percent(self.share())
            ))
            .number("dropped", self.drops())
            .number("share", self.share())
            .rows(rows.take(SHOWN_ROWS)),
        ];
        if let [(device, rate, row)] = &self.devices[..] {
            steps.push(
                Step::new(format!(
                    "{device} is the only interface of {} that sent, {} on average.",
                    namespace(&self.story.netns(self.netns)),
                    bit_rate(*rate)
                ))
                .number("bytes_per_s", *rate)
                .rows([*row]),
            );
        }
        steps
    }

    fn arithmetic(&self) -> Vec<Check> {
        vec![same_count(FORMULA, self.all, self.drops(), "packets")]
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let queue = self.queue();
        let device = self.device().filter(|d| is_plain(d));
        let show = format!(
            "tc -s qdisc show{}",
            device.map_or(String::new(), |d| format!(" dev {d}"))
        );
        let wait = queue as f64 / self.rate().max(1.0) * 1e9;
        vec![
            Advice {
                action: format!(
                    "Let the shaper of {} hold {} (the command shows its kind and limit).",
                    self.place(),
                    bytes(queue)
                ),
                command: command_in(&scope.netns, &show),
                r#where: format!("{}; tc qdisc change", namespace(&scope.netns)),
                risk: format!(
                    "A packet may then wait {} in a full queue.",
                    duration(wait as u64)
                ),
                expected: format!(
                    "Two round trips at {} fit: bursts wait and are not dropped.",
                    bit_rate(self.rate())
                ),
                change: Some(Change::QueueLimit {
                    netns: self.netns,
                    device: self.device().map(|d| d.to_string()),
                    bytes: queue,
                }),
            },
            Advice {
                action: "Or let fq_codel manage the queue below the shaper.".into(),
                command: device.and_then(|d| {
                    command_in(
                        &scope.netns,
                        &format!("tc qdisc add dev {d} parent 1: fq_codel"),
                    )
                }),
                r#where: "below a shaper with the handle 1:; needs sch_fq_codel in the kernel"
                    .into(),
                risk: "Drops remain, one connection at a time and early, as a signal to slow down."
                    .into(),
                expected: "Connections share the rate evenly, and short ones do not wait.".into(),
                change: None,
            },
        ]
    }
}

/// A device name that can be pasted into a shell.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

#[cfg(test)]
mod tests;
