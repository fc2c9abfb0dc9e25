//! C18: the last segment of a message is lost, and only a timer finds out.

use analysis::words::{count, duration, figure, fitting, percent, plural, rounded};

use crate::finding::Confidence;
use crate::places::listener::doubts;
use crate::places::losses::Losses;
use crate::places::path::{End, Path, median_of, paths, sample_rows};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::TAIL_LOSS,
    number: "C18",
    title: "the last segment of a message is lost, and a timer has to find out",
    page: include_str!("tail_loss.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::Retransmits], &[SourceName::Sockets]],
    seen_from: "10 messages that waited for a timer, 0.1 % of them",
    rivals: &[
        Id::PATH_LOSS,
        Id::NAGLE_DELAYED_ACK,
        Id::PMTU_BLACK_HOLE,
        Id::QDISC_DROP,
    ],
    explains: &[],
    no: Some(no),
    symptom: Some(Symptom::Retransmits),
    find,
};

/// Fewer are an accident: in a recording of seconds each made somebody wait.
const MIN_WAITED: u64 = 10;
/// One message in a thousand: what the 99.9th percentile shows.
const MIN_SHARE: f64 = 0.001;
/// Of what a timer retransmitted, the receiver had this many times as much as was lost, at most: each
/// answer lost makes the request a duplicate. Where a CPU was late, all of it are.
const MOST_TWICE: u64 = 2;
/// A timer sooner than that is a probe that two round trips after the loss does its job, µs.
const MIN_TIMER_US: f64 = 100_000.0;
/// Of a timer's time that a wait lasts which it ended: it began with the message, or soon after.
const OF_TIMER: f64 = 0.9;
/// For how long Linux delays an ACK (TCP_DELACK_MIN), and some room, ms.
const ABOVE_DELAYED_ACK_MS: u64 = 50;

struct Case<'a> {
    path: &'a Path<'a>,
    losses: Losses<'a>,
    /// The retransmission timer in force, in the median of those who suffer, µs.
    timer_us: f64,
    /// Waits of threads that a segment retransmitted ended after that time, and rows.
    waits: (u64, Vec<RowRef>),
}

fn no(asked: &Asked) -> Option<Step> {
    let losses = asked.losses()?;
    let (on_acks, waited) = (
        Quantity::of(losses.fast, "segment"),
        Quantity::count(losses.waited),
    );
    (losses.late() < MIN_WAITED || !losses.are_tails()).then(|| {
        say!(
            "{on_acks} retransmitted on ACKs, as in a transfer; {waited} had to wait for a timer",
            on_acks,
            waited
        )
    })
}

fn find(story: &Story) -> Vec<Finding> {
    findings(&paths(story), Case::of, Case::finding)
}

impl<'a> Case<'a> {
    fn of(path: &'a Path<'a>) -> Option<Case<'a>> {
        let losses = path.losses();
        let timer = |e: &End| Some(e.transfer.rto_us).filter(|us| *us > 0).map(f64::from);
        let timer_us = median_of(&losses.suffering, timer)?;
        let late = losses.late();
        let enough = late >= MIN_WAITED && late as f64 >= MIN_SHARE * losses.segments as f64;
        let real = losses.spurious <= late * MOST_TWICE && losses.are_elsewhere();
        // Without SACK no receiver tells what it had already.
        let told = losses.suffering.iter();
        let told = told
            .map(|e| e.conn.agreed)
            .all(|a| a.is_none_or(|a| a.sack));
        let lost = real && told && losses.are_spread() && losses.are_tails();
        if !(enough && lost && timer_us >= MIN_TIMER_US) {
            return None;
        }
        Some(Case {
            path,
            losses,
            timer_us,
            waits: waits(path, timer_us),
        })
    }

    /// Share of the segments that were lost and waited for.
    fn share(&self) -> f64 {
        self.losses.late() as f64 / self.losses.segments.max(1) as f64
    }

    fn timer(&self) -> String {
        duration((self.timer_us * 1e3) as u64)
    }

    fn finding(&self) -> Finding {
        let scope = self.path.scope();
        let checks: Vec<Check> = self.path.counted_again().into_iter().collect();
        let times = match self.losses.late() {
            1 => "once".to_string(),
            n => format!("{} times", count(n)),
        };
        let (from, to) = (self.path.from, self.path.to);
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: Some(Place::ends(&self.losses.suffering)),
            lost_s: self.lost(),
            since: None,
            episodes: Vec::new(),
            title: fitting([
                format!(
                    "Messages {} wait {} for a timer when their last segment is lost: {times}.",
                    self.path.name(),
                    self.timer()
                ),
                format!(
                    "Messages to {to} wait {} for a lost segment: {times}.",
                    self.timer()
                ),
                format!("Messages to {to} wait for lost segments."),
            ]),
            fix: fitting([
                format!(
                    "Find the link that drops between {from} and {to}; until then, lower the \
                     route's rto_min."
                ),
                "Find the link on the path that drops; until then, lower rto_min.".into(),
            ]),
            impact: self.impact(),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: Vec::new(),
            advice: self.advice(&scope.netns),
            verify: format!(
                "`nstat -az TcpExtTCPLossProbes TcpExtTCPTimeouts` stand still while messages flow \
                 to {to}."
            ),
            scope,
        }
    }

    /// The timer's time for each segment that had to wait for it.
    fn lost(&self) -> Lost {
        let mut lost = Lost::unknown();
        for end in &self.losses.suffering {
            let ns = end.transfer.resends.timeouts as f64 * self.timer_us * 1e3;
            lost.add(end.conn, State::Repair, ns as u64);
        }
        lost.happened(self.losses.late(), self.losses.segments)
    }

    fn impact(&self) -> Impact {
        let (affected, of) = (
            self.losses.suffering.len() as u64,
            self.path.ends.len() as u64,
        );
        let ms = rounded(self.timer_us / 1e3);
        let says = format!(
            "{} of {} had messages that waited {} or more: {} of their segments.",
            count(affected),
            plural(of, "connection"),
            self.timer(),
            percent(self.share())
        );
        Impact {
            added_latency_ms: Some(Latency { p50: ms, p99: ms }),
            ..Impact::of(affected, of, "connections", says)
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because(format!(
            "{} of what was retransmitted had to wait for a timer, and this host dropped {} of it",
            percent(self.losses.tail_share()),
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
        let losses = &self.losses;
        let resends = || losses.suffering.iter().map(|e| &e.transfer.resends);
        let sum = |of: fn(&analysis::Resends) -> u64| resends().map(of).sum::<u64>();
        let (probes, timeouts, fast) = (sum(|r| r.probes), sum(|r| r.timeouts), sum(|r| r.fast));
        let rows = resends().flat_map(|r| r.rows.iter().take(1).copied());
        let most = losses.suffering.iter().map(|e| e.transfer.most_unacked);
        let most = most.max().unwrap_or(0);
        let mut steps = vec![
            Step::new(format!(
                "{} sent {} and retransmitted {} of them: {} as tail loss probes, {} on the retransmission \
                 timer, {} on ACKs.",
                plural(self.path.ends.len() as u64, "connection"),
                plural(losses.segments, "segment"),
                count(probes + timeouts + fast),
                count(probes),
                count(timeouts),
                count(fast)
            ))
            .number("segments", losses.segments)
            .number("probes", probes)
            .number("timeouts", timeouts)
            .number("fast", fast)
            .rows(rows.take(2 * SHOWN_ROWS)),
            Step::new(format!(
                "{} of them waited for that timer at their first loss, with nothing behind them: \
                 in the samples at most {} in flight. The receivers had {} of them already (DSACK), \
                 and the answer was lost; {} were lost.",
                count(losses.waited),
                match most {
                    1 => "1 segment was".to_string(),
                    n => format!("{} segments were", count(n.into())),
                },
                count(losses.spurious),
                count(losses.late())
            ))
            .number("waited", losses.waited)
            .number("duplicates", losses.spurious)
            .number("lost", losses.late())
            .number("most_in_flight", most)
            .rows(sample_rows(&losses.suffering)),
        ];
        let rtt = median_of(&losses.suffering, |e| {
            Some(e.transfer.min_rtt_us)
                .filter(|us| *us > 0)
                .map(f64::from)
        });
        let rtt = rtt.unwrap_or(0.0);
        steps.push(
            Step::new(format!(
                "The timer fires after {}, and the shortest round trip is {}: each of them costs the time \
                 of {} round trips.",
                self.timer(),
                duration((rtt * 1e3) as u64),
                figure(self.timer_us / rtt.max(1.0))
            ))
            .number("timer_us", self.timer_us)
            .number("min_rtt_us", rtt)
            .rows(sample_rows(&losses.suffering)),
        );
        let (waits, rows) = &self.waits;
        if *waits > 0 {
            steps.push(
                Step::new(format!(
                    "{} threads of {} waited that long or longer, and were woken by a segment that \
                     had been retransmitted.",
                    match waits {
                        1 => "Once,".to_string(),
                        n => format!("{} times,", count(*n)),
                    },
                    self.path.to
                ))
                .number("waits", *waits)
                .rows(rows.iter().copied()),
            );
        }
        steps
    }

    fn advice(&self, netns: &Netns) -> Vec<Advice> {
        let (story, from, to) = (self.path.story, self.path.from, self.path.to);
        let mut advice = vec![
            Advice {
                action: format!(
                    "Find the link that drops on the way from {from} to {to}, and repair it."
                ),
                command: command_in(netns, &format!("mtr -T -r -c 1000 {to}")),
                r#where:
                    "every device on the path: error counters of its ports (ethtool -S on hosts)"
                        .into(),
                risk: "None: it only looks. 1,000 probes take some minutes.".into(),
                expected: format!("No message waits {} any more.", self.timer()),
                change: Some(Change::RepairPath {
                    from: from.to_string(),
                    to: to.to_string(),
                }),
            },
            Advice {
                action: format!(
                    "Until then, let the timer of this route fire sooner: rto_min {ABOVE_DELAYED_ACK_MS}ms."
                ),
                command: command_in(netns, &format!("ip route get {to}")),
                r#where: format!(
                    "{}: `ip route change` of the route that the command shows, with `rto_min \
                     {ABOVE_DELAYED_ACK_MS}ms`; the same on {to} for what it sends. From Linux 6.11 \
                     on also the sysctl net.ipv4.tcp_rto_min_us",
                    namespace(netns)
                ),
                risk: "Segments are sent twice when an ACK is late: Linux delays ACKs by 40 ms, \
                       others by up to 200. Less than that (5ms) only where answers come at once."
                    .into(),
                expected: format!(
                    "A lost message is late by some {ABOVE_DELAYED_ACK_MS} ms, not {}.",
                    self.timer()
                ),
                change: None,
            },
            Advice {
                action: "Let the application have several requests under way per connection, \
                         or ask again elsewhere when an answer is late."
                    .into(),
                command: None,
                r#where: "the application: pipelining, HTTP/2, hedged requests".into(),
                risk: "More load where requests are asked twice; they must bear that.".into(),
                expected: "What comes behind a lost segment tells of it within a round trip."
                    .into(),
                change: None,
            },
        ];
        // 0 turns off what finds losses by time, which needs only one segment behind the lost one.
        if story.settings.number(self.path.netns, sysctl::TCP_RECOVERY) == Some(0) {
            let risk = "None known: it is the default since Linux 4.18.";
            let expected = "One segment behind the lost one is enough to notice.";
            advice.insert(
                1,
                set_sysctl(netns, sysctl::TCP_RECOVERY, 1, risk, expected.into()),
            );
        }
        advice
    }
}

/// Threads at the other end that waited for a timer of this one, and rows.
fn waits(path: &Path, timer_us: f64) -> (u64, Vec<RowRef>) {
    let least = (timer_us * 1e3 * OF_TIMER) as u64;
    let all = path.story.waits.all.iter().filter(|w| {
        let came = w.cause.as_ref().filter(|a| a.attempt > 0);
        let here = came.is_some_and(|a| (a.from.addr, a.to.addr) == (path.from, path.to));
        here && w.waited_ns >= least
    });
    let mut rows = Vec::new();
    let mut n = 0;
    for wait in all {
        n += 1;
        if rows.len() < SHOWN_ROWS {
            rows.push(wait.row);
        }
    }
    (n, rows)
}

#[cfg(test)]
mod tests;
