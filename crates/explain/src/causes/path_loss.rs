//! C17: the path loses packets, whatever the load.

use analysis::words::{bit_rate, bytes, count, duration, fitting, percent, plural};
use recording::{RowRef, SourceName};

use super::losses::Losses;
use super::path::{End, Path, limited, median_of, paths, sample_rows};
use super::places::{Asked, Place};
use super::scene::{SHOWN_ROWS, command_in, doubts};
use super::unanswered_syns::UnansweredSyns;
use super::{Cause, Ground, findings};
use crate::correlated_counters::Symptom;
use crate::finding::{Advice, Change, Check, Confidence, Finding, Impact, Level, Step};
use crate::id::Id;
use crate::say::{Quantity, say};

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PATH_LOSS,
    number: "C17",
    title: "the path loses packets at random",
    page: include_str!("path_loss.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: "20 lost segments, 0.1 % of what is sent",
    rivals: &[Id::QDISC_DROP, Id::TAIL_LOSS, Id::BUFFERBLOAT],
    explains: &[],
    no: Some(no),
    symptom: Some(Symptom::Retransmits),
    find,
};

/// Fewer losses in a recording of seconds are what any path does.
const MIN_LOST: u64 = 20;
/// From here on, loss governs the rate of a path of 10 ms or more (Mathis: 40 segments in flight).
const MIN_SHARE: f64 = 0.001;
/// A round trip up to this much beyond the shortest means that no queue stood.
const EMPTY_SHARE: f64 = 1.25;
const EMPTY_US: u32 = 1_000;
/// Of the losses that must have met an empty queue; the others were of any bottleneck.
const MOST: f64 = 0.7;
/// Mathis' constant, for a receiver that acknowledges each segment.
const MATHIS: f64 = 1.22;
/// Cubic keeps more in flight than the formula, which is Reno's; and p is measured.
const MATHIS_TOLERANCE: f64 = 1.6;

struct Case<'a> {
    path: &'a Path<'a>,
    losses: Losses<'a>,
    min_rtt_us: u32,
    /// Share of the losses that met an empty queue.
    empty: f64,
}

fn no(asked: &Asked) -> Option<Step> {
    match asked.losses() {
        Some(losses) => no_loss(losses),
        None => no_data_lost(asked.silent()?),
    }
}

/// Of ends that send.
fn no_loss(losses: &Losses) -> Option<Step> {
    let (lost, segments) = (
        Quantity::count(losses.lost),
        Quantity::of(losses.segments, "segment"),
    );
    let (waited, dropped_here) = (
        Quantity::count(losses.waited),
        Quantity::count(losses.dropped),
    );
    if losses.lost < MIN_LOST || losses.share() < MIN_SHARE {
        return Some(say!("{lost} of {segments} were lost", lost, segments));
    }
    if losses.are_tails() {
        let retransmitted = Quantity::of(losses.waited + losses.fast, "segment");
        return Some(say!(
            "in a transfer losses are repaired on ACKs: {waited} of {retransmitted} retransmitted \
             waited for a timer",
            waited,
            retransmitted
        ));
    }
    (!losses.are_elsewhere()).then(|| {
        say!(
            "of {lost} packets that were lost this host itself dropped {dropped_here}",
            lost,
            dropped_here
        )
    })
}

/// Of connects: packets of every kind would be lost.
fn no_data_lost(place: &UnansweredSyns) -> Option<Step> {
    let (resent, of) = place.data_resent();
    let (retried, connects) = (place.times.retried, place.times.total());
    let less = resent.saturating_mul(connects) < retried.saturating_mul(of);
    let resent = Quantity::count(resent);
    let established = Quantity::of(of, "established connection");
    let (retried, connects) = (Quantity::count(retried), Quantity::of(connects, "connect"));
    less.then(|| {
        say!(
            "{resent} of {established} retransmitted data, {retried} of {connects} a SYN",
            resent,
            established,
            retried,
            connects
        )
    })
}

fn find(story: &analysis::Story) -> Vec<Finding> {
    findings(&paths(story), Case::of, Case::finding)
}

impl<'a> Case<'a> {
    fn of(path: &'a Path<'a>) -> Option<Case<'a>> {
        let min_rtt_us = path.min_rtt_us()?;
        let rtts = path.ends.iter().flat_map(|e| e.transfer.resends.rtts.all());
        let limit = f64::from(min_rtt_us) * EMPTY_SHARE + f64::from(EMPTY_US);
        let (met, empty) = rtts.fold((0u32, 0u32), |(all, empty), rtt| {
            (all + 1, empty + u32::from(f64::from(*rtt) <= limit))
        });
        let case = Case {
            path,
            losses: path.losses(),
            min_rtt_us,
            empty: f64::from(empty) / f64::from(met.max(1)),
        };
        case.holds().then_some(case)
    }

    fn holds(&self) -> bool {
        let losses = &self.losses;
        let enough = losses.lost >= MIN_LOST && losses.share() >= MIN_SHARE;
        let real = losses.spurious * 2 <= losses.lost && losses.are_elsewhere();
        let lost = real && losses.are_spread() && !losses.are_tails();
        enough && lost && self.empty >= MOST
    }

    fn finding(&self) -> Finding {
        let scope = self.path.scope();
        let checks = self.arithmetic();
        let p = percent_of_loss(self.losses.share());
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number,
            place: Some(Place::ends(&self.losses.suffering)),
            lost_s: limited(self.path.story, &self.losses.suffering),
            since: None,
            title: fitting([
                format!(
                    "The path {} loses {p} of the packets: {} not dropped by this host.",
                    self.path.name(),
                    plural(self.losses.lost, "segment")
                ),
                format!("The path {} loses {p} of the packets.", self.path.name()),
                format!("The path to {} loses {p} of the packets.", self.path.to),
            ]),
            fix: fitting([
                format!(
                    "Find the link that drops between {} and {}; until then, send with BBR.",
                    self.path.from, self.path.to
                ),
                "Find the link on the path that drops; until then, send with BBR.".into(),
            ]),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: Vec::new(),
            advice: self.advice(&scope.netns),
            verify: format!(
                "`nstat -az TcpRetransSegs` rises by less than 0.1 % of TcpOutSegs while data moves \
                 to {}.",
                self.path.to
            ),
            scope,
        }
    }

    fn impact(&self) -> Impact {
        let (affected, of) = (
            self.losses.suffering.len() as u64,
            self.path.ends.len() as u64,
        );
        let rate = median_of(&self.losses.suffering, |e| Some(e.transfer.rate())).unwrap_or(0.0);
        let says = format!(
            "{} of {} retransmitted segments and ran at {} in the median.",
            count(affected),
            plural(of, "connection"),
            bit_rate(rate)
        );
        Impact::of(affected, of, "connections", says)
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "{} of the losses met an empty queue, and this host dropped {} of these packets",
            percent(self.empty),
            count(self.losses.dropped)
        ));
        if !self.path.whole() {
            c.at_most(
                Level::Medium,
                "the receivers are not on this host: what their host drops looks the same from here",
            );
        }
        c.weigh_checks(checks);
        let sources = [
            SourceName::Retransmits,
            SourceName::Drops,
            SourceName::Sockets,
        ];
        doubts(self.path.story, &mut c, &sources);
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let resends = || self.losses.suffering.iter().map(|e| &e.transfer.resends);
        let fast: u64 = resends().map(|r| r.fast).sum();
        let probes: u64 = resends().map(|r| r.probes).sum();
        let timeouts: u64 = resends().map(|r| r.timeouts).sum();
        let rows: Vec<RowRef> = resends()
            .flat_map(|r| r.rows.iter().take(1).copied())
            .collect();
        let rtt = median_of(&self.losses.suffering, |e| {
            let rtts = e.transfer.resends.rtts.all();
            analysis::stats::median(&mut rtts.to_vec()).map(f64::from)
        });
        let rtt = rtt.unwrap_or(0.0);
        let reordered: u64 = self
            .losses
            .suffering
            .iter()
            .map(|e| e.transfer.reordered())
            .sum();
        vec![
            Step::new(format!(
                "{} sent {} and retransmitted {} of them: {} on ACKs or the reordering timer, {} as tail \
                 loss probes, {} on the retransmission timer.",
                plural(self.path.ends.len() as u64, "connection"),
                plural(self.losses.segments, "segment"),
                count(self.losses.lost + self.losses.spurious),
                count(fast),
                count(probes),
                count(timeouts)
            ))
            .number("segments", self.losses.segments)
            .number("fast", fast)
            .number("probes", probes)
            .number("timeouts", timeouts)
            .rows(rows.iter().copied().take(SHOWN_ROWS)),
            Step::new(format!(
                "The receivers had {} of these already (DSACK): {} were lost, {} of all. Segments \
                 overtook each other {}.",
                count(self.losses.spurious),
                count(self.losses.lost),
                percent_of_loss(self.losses.share()),
                match reordered {
                    1 => "once".to_string(),
                    n => format!("{} times", count(n)),
                }
            ))
            .number("reordered", reordered)
            .number("duplicates", self.losses.spurious)
            .number("lost", self.losses.lost)
            .number("loss", self.losses.share())
            .rows(sample_rows(&self.losses.suffering)),
            Step::new(format!(
                "They were lost at a round trip of {} (the shortest is {}), in {} of the {} parts \
                 of the recording in which data moved: no queue stood, and it never stopped.",
                duration((rtt * 1e3) as u64),
                duration(u64::from(self.min_rtt_us) * 1_000),
                self.losses.slots.0,
                self.losses.slots.1
            ))
            .number("rtt_at_loss_us", rtt)
            .number("min_rtt_us", self.min_rtt_us)
            .number("parts_with_loss", self.losses.slots.0)
            .number("parts", self.losses.slots.1)
            .rows(rows.iter().rev().copied().take(SHOWN_ROWS)),
        ]
    }

    fn arithmetic(&self) -> Vec<Check> {
        let mut checks: Vec<Check> = self.path.counted_again().into_iter().collect();
        let by_loss = |e: &&End| matches!(&*e.transfer.congestion, "cubic" | "reno");
        let by_loss: Vec<End> = self
            .losses
            .suffering
            .iter()
            .filter(by_loss)
            .copied()
            .collect();
        if let Some(rate) = median_of(&by_loss, |e| Some(e.transfer.rate())) {
            let mss = median_of(&by_loss, |e| Some(e.transfer.mss.into())).unwrap_or(0.0);
            let rtt_s = f64::from(self.min_rtt_us) / 1e6;
            let most = mss / rtt_s * MATHIS / self.losses.share().sqrt();
            let mbit = |rate: f64| analysis::words::rounded(rate * 8.0 / 1e6);
            checks.push(Check {
                formula: format!(
                    "rate ≤ MSS ÷ RTT × 1.22 ÷ √p = {} ÷ {} × 1.22 ÷ √{}",
                    bytes(mss as u64),
                    duration(u64::from(self.min_rtt_us) * 1_000),
                    analysis::words::rounded(self.losses.share())
                ),
                expected: mbit(most),
                measured: mbit(rate),
                unit: "Mbit/s",
                agrees: rate <= most * MATHIS_TOLERANCE,
                tolerance: "at most 1.6 times it: cubic exceeds the formula, which is Reno's"
                    .into(),
            });
        }
        checks
    }

    fn advice(&self, netns: &crate::Netns) -> Vec<Advice> {
        let to = self.path.to;
        let mut advice = vec![Advice {
            action: format!(
                "Find the link that drops on the way from {} to {to}, and repair it.",
                self.path.from
            ),
            command: command_in(netns, &format!("mtr -T -r -c 1000 {to}")),
            r#where: "every device on the path: error counters of its ports (ethtool -S on hosts)"
                .into(),
            risk: "None: it only looks. 1,000 probes take some minutes.".into(),
            expected: format!(
                "Without the loss of {}, windows grow until the bottleneck is full.",
                percent_of_loss(self.losses.share())
            ),
            change: Some(Change::RepairPath {
                from: self.path.from.to_string(),
                to: to.to_string(),
            }),
        }];
        let bbr = self
            .losses
            .suffering
            .iter()
            .all(|e| &*e.transfer.congestion == "bbr");
        if !bbr {
            let set = "sysctl -w net.ipv4.tcp_congestion_control=bbr";
            advice.push(Advice {
                action: "Until then, send with BBR, which does not take single losses for \
                         congestion."
                    .into(),
                command: command_in(netns, set),
                r#where: format!(
                    "{}, for connections made from then on that choose none themselves",
                    super::scene::namespace(netns)
                ),
                risk: "It takes bandwidth from connections that go by loss; needs the module \
                       tcp_bbr."
                    .into(),
                expected: format!(
                    "The rate no longer falls with √p; {} are lost all the same.",
                    percent_of_loss(self.losses.share())
                ),
                change: None,
            });
        }
        advice
    }
}

/// A share of losses with the digits that matter.
fn percent_of_loss(share: f64) -> String {
    format!("{} %", analysis::words::figure(share * 100.0))
}

#[cfg(test)]
mod tests;
