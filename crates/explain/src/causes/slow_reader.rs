//! C23: the receiving application reads more slowly than data comes.

use std::collections::BTreeMap;

use analysis::account::State;
use analysis::stats::median;
use analysis::words::{bit_rate, bytes, count, duration, fitting, percent, plural, rounded};
use analysis::{Endpoint, Side, Story};
use recording::SourceName;

use super::path::{End, ends, rwnd_share, sample_rows};
use super::places::Asked;
use super::scene::{Scene, command_in, doubts};
use super::{Cause, Ground};
use crate::finding::{
    Advice, Change, Check, Confidence, Finding, Impact, Level, Role, RuledOut, Scope, Step,
};
use crate::id::Id;
use crate::lost::Lost;
use crate::say::{Quantity, say};

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SLOW_READER,
    number: "C23",
    title: "the receiving application reads too slowly",
    page: include_str!("slow_reader.md"),
    ground: Ground::Transfers,
    needs: &[&[SourceName::Sockets]],
    seen_from: "a transfer with 16 kB unread in 75 % of its samples",
    rivals: &[],
    explains: &[],
    no: Some(no),
    symptom: None,
    find,
};

/// A connection that moved less is not a transfer.
const BULK: u64 = 256 * 1024;
/// Share of the samples that found unread data.
const MOST: f64 = 0.75;
/// A reader that keeps up leaves some segments; this is more than one read of most programs.
const MIN_UNREAD: u32 = 16 * 1024;
/// Share of the sender's busy time spent waiting for the window.
const MIN_RWND: f64 = 0.5;
/// Share of the samples in which the window was closed, when the sender is not on this host.
const MIN_CLOSED: f64 = 0.2;
/// The window would have let pass at least so many times what was read.
const SPARE: f64 = 2.0;

struct Case<'a> {
    story: &'a Story,
    netns: u32,
    /// The reading side.
    at: Endpoint,
    slow: Vec<End<'a>>,
    senders: Vec<End<'a>>,
    /// Connections that it received over, slowly or not.
    all: u64,
}

fn no(asked: &Asked) -> Option<Step> {
    let waited = rwnd_share(&asked.losses()?.ends);
    let window_limited = Quantity::share(waited);
    (waited < MIN_RWND).then(|| {
        say!(
            "these connections waited {window_limited} of their busy time for the peer's window",
            window_limited
        )
    })
}

fn find(story: &Story) -> Vec<Finding> {
    let mut places: BTreeMap<(u32, Endpoint), Vec<End>> = BTreeMap::new();
    for end in ends(story).filter(|e| e.transfer.received() >= BULK) {
        // Clients have a port each: told by where they connect to.
        let at = match end.conn.side {
            Side::Opened => end.conn.remote,
            Side::Accepted | Side::Older => end.conn.local,
        };
        places.entry((end.conn.netns, at)).or_default().push(end);
    }
    let cases = places.into_iter().filter_map(|((netns, at), ends)| {
        let all = ends.len() as u64;
        let slow: Vec<End> = ends.into_iter().filter(|e| is_slow(story, e)).collect();
        let senders = slow.iter().filter_map(|e| sender(story, e)).collect();
        let case = Case {
            story,
            netns,
            at,
            slow,
            senders,
            all,
        };
        (!case.slow.is_empty()).then_some(case)
    });
    cases.map(|case| case.finding()).collect()
}

/// The end that sends to this one, when it is on this host.
fn sender<'a>(story: &'a Story, end: &End) -> Option<End<'a>> {
    End::of(story, end.conn.peer?)
}

fn is_slow(story: &Story, end: &End) -> bool {
    let t = end.transfer;
    let of_samples = |n: u32| f64::from(n) / f64::from(t.samples.max(1));
    let unread = median(&mut t.unread_bytes.clone()).unwrap_or(0);
    let waits = match sender(story, end) {
        Some(sender) => rwnd_share(&[sender]) >= MIN_RWND,
        None => of_samples(t.closed) >= MIN_CLOSED,
    };
    t.samples >= 2 && of_samples(t.unread) >= MOST && unread >= MIN_UNREAD && waits
}

impl Case<'_> {
    fn scope(&self) -> Scope {
        let first = self.slow.first().map(|e| e.conn);
        let listener = first.filter(|c| c.side == Side::Accepted).and_then(|c| {
            let index = c.listener?;
            let listener = self.story.listeners.all.get(index as usize)?;
            let story = self.story;
            Some(
                Scene {
                    story,
                    index,
                    listener,
                }
                .scope(),
            )
        });
        if let Some(scope) = listener {
            return scope;
        }
        let owner = first.and_then(|c| self.story.owner(c));
        Scope {
            netns: self.story.netns(self.netns),
            listener: self.at.to_string(),
            role: Role::Client,
            pid: owner.as_ref().map(|(pid, _)| *pid),
            pids: owner.iter().map(|(pid, _)| *pid).collect(),
            comm: owner.map(|(_, comm)| comm),
            ..Scope::default()
        }
    }

    /// Bytes read per second, over all of them.
    fn rate(&self) -> f64 {
        let rate = |e: &End| {
            let ns = e.transfer.span_ns as f64;
            analysis::stats::ratio(e.transfer.received() as f64 * 1e9, ns).unwrap_or(0.0)
        };
        self.slow.iter().map(rate).sum()
    }

    fn unread(&self) -> u32 {
        let all = self.slow.iter().flat_map(|e| &e.transfer.unread_bytes);
        median(&mut all.copied().collect::<Vec<_>>()).unwrap_or(0)
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks = self.arithmetic();
        let comm = scope
            .comm
            .clone()
            .unwrap_or_else(|| "The application".into());
        let (affected, of) = (self.slow.len() as u64, self.all);
        let who = match scope.pid {
            Some(pid) => format!("{comm} (pid {pid})"),
            None => comm.clone(),
        };
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number,
            place: None,
            lost_s: self.lost(),
            since: None,
            title: fitting([
                format!(
                    "{who} at {} reads {}; the senders wait for it.",
                    self.at,
                    bit_rate(self.rate())
                ),
                format!("{who} reads {}; the senders wait.", bit_rate(self.rate())),
            ]),
            fix: fitting([
                format!("Make {comm} read sooner: see what its threads do between reads."),
                "Make the application read sooner: see what it does between reads.".into(),
            ]),
            impact: Impact::of(affected, of, "connections", self.cost()),
            confidence: self.confidence(&checks),
            evidence: self.evidence(&scope),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope, &comm),
            verify: format!(
                "`ss -tmi 'sport = :{}'` on the receiver shows Recv-Q at 0 most of the time.",
                self.at.port
            ),
            scope,
        }
    }

    fn cost(&self) -> String {
        let mut says = format!(
            "{} of {} are held up, with {} unread in the median",
            count(self.slow.len() as u64),
            plural(self.all, "transfer"),
            bytes(self.unread().into())
        );
        if !self.senders.is_empty() {
            says += &format!(
                "; their senders waited {} of the time for the window",
                percent(rwnd_share(&self.senders))
            );
        }
        says + "."
    }

    /// What senders waited for the window; of senders on other hosts, while data lay unread.
    fn lost(&self) -> Lost {
        let senders = self.senders.iter().map(|e| e.conn);
        Lost::states(self.story, senders, &[State::PeerWindow], 1.0).or(|| {
            let slow = self.slow.iter().map(|e| e.conn);
            Lost::states(self.story, slow, &[State::Unread], 1.0)
        })
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because("the receive queue held unread data in nearly every sample");
        if self.senders.is_empty() {
            c.at_most(
                Level::Medium,
                "the senders are not on this host: that they wait is inferred from the window",
            );
        }
        c.weigh_checks(checks);
        doubts(self.story, &mut c, &[SourceName::Sockets]);
        c
    }

    fn evidence(&self, scope: &Scope) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.senders.is_empty() {
            steps.push(
                Step::new(format!(
                    "{} waited {} of the time with something to send for the receiver's window.",
                    plural(self.senders.len() as u64, "sender"),
                    percent(rwnd_share(&self.senders))
                ))
                .number("rwnd_limited", rwnd_share(&self.senders))
                .rows(sample_rows(&self.senders)),
            );
        }
        let of = |f: fn(&End) -> u32| self.slow.iter().map(f).sum::<u32>();
        let (unread, samples) = (of(|e| e.transfer.unread), of(|e| e.transfer.samples));
        steps.push(
            Step::new(format!(
                "{} of {} samples found unread data in the receive queue, {} in the median, and \
                 {} found the window closed.",
                count(unread.into()),
                count(samples.into()),
                bytes(self.unread().into()),
                count(of(|e| e.transfer.closed).into())
            ))
            .number("unread", unread)
            .number("samples", samples)
            .number("unread_bytes", self.unread())
            .rows(sample_rows(&self.slow)),
        );
        let slept = scope.pid.and_then(|pid| self.story.sleeps.longest(pid));
        if let Some((call, slept)) = slept {
            let who = scope.comm.as_deref().unwrap_or("the reader");
            steps.push(
                Step::new(format!(
                    "Meanwhile {who} slept {} in {call}, {} times, {} each.",
                    duration(slept.ns),
                    count(slept.count),
                    duration(slept.ns / slept.count.max(1))
                ))
                .number("slept_ms", slept.ns as f64 / 1e6)
                .number("sleeps", slept.count)
                .rows(slept.rows.iter().copied()),
            );
        } else if let Some(doing) = scope.processes.iter().find(|p| Some(p.pid) == scope.pid) {
            let row = scope.pid.and_then(|pid| self.story.processes.get(pid));
            steps.push(
                Step::new(format!("Its process: {}.", doing.says)).rows(row.map(|seen| seen.row)),
            );
        }
        steps
    }

    fn arithmetic(&self) -> Vec<Check> {
        // Over one connection: the window that it offered at its widest, once per round trip.
        let best = self.senders.iter().filter_map(|s| {
            let window = self.story.samples(s.conn)?.snd_wnd_max;
            let rtt = s.transfer.min_rtt_us;
            (rtt > 0 && window > 0).then(|| (window, rtt, s.transfer.rate()))
        });
        let Some((window, rtt, rate)) = best.max_by_key(|(window, ..)| *window) else {
            return Vec::new();
        };
        let allowed = f64::from(window) / f64::from(rtt) * 1e6;
        let mbit = |rate: f64| rounded(rate * 8.0 / 1e6);
        vec![Check {
            formula: format!(
                "widest window ÷ shortest round trip = {} ÷ {}, far above what was read",
                bytes(window.into()),
                duration(u64::from(rtt) * 1_000)
            ),
            expected: mbit(allowed),
            measured: mbit(rate),
            unit: "Mbit/s",
            agrees: rate * SPARE <= allowed,
            tolerance: "at most half of it: the reader limits, and not the buffer".into(),
        }]
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let samples: u32 = self.slow.iter().map(|e| e.transfer.samples).sum();
        let unread: u32 = self.slow.iter().map(|e| e.transfer.unread).sum();
        let again: u64 = self
            .senders
            .iter()
            .map(|e| e.transfer.resends.count())
            .sum();
        let twice: u64 = self.senders.iter().map(|e| e.transfer.twice()).sum();
        let shortest = self.senders.iter().map(|e| e.transfer.min_rtt_us);
        let shortest = shortest.filter(|us| *us > 0).min().unwrap_or(0);
        let mut ruled_out = Vec::new();
        if self.senders.is_empty() {
            let because = format!(
                "{} of {} samples found data here that was not read: the path had brought it",
                count(unread.into()),
                count(samples.into())
            );
            ruled_out.push(RuledOut::new(Id::PATH_LOSS, because));
        } else {
            ruled_out.push(RuledOut::new(
                Id::BUFFERBLOAT,
                format!(
                    "the senders waited for the window {} of the time, on a path of {}",
                    percent(rwnd_share(&self.senders)),
                    duration(u64::from(shortest) * 1_000)
                ),
            ));
            ruled_out.push(RuledOut::new(
                Id::PATH_LOSS,
                format!(
                    "of {} retransmitted the receiver had {} already",
                    plural(again, "segment"),
                    count(twice)
                ),
            ));
        }
        ruled_out
    }

    fn advice(&self, scope: &Scope, comm: &str) -> Vec<Advice> {
        let look = scope.pid.map(|pid| format!("strace -f -T -p {pid}"));
        let ss = format!("ss -tmi 'sport = :{}'", self.at.port);
        vec![Advice {
            action: format!(
                "Make {comm} read as data comes: move what it does between reads to another \
                 thread, or read more at a time."
            ),
            command: look.or_else(|| command_in(&scope.netns, &ss)),
            r#where: format!("the source of {comm}; the command shows where its time goes"),
            risk: "What was held back in the senders then waits in the application's memory: \
                   bound it."
                .into(),
            expected: format!(
                "The senders are no longer held to {}; the path then decides.",
                bit_rate(self.rate())
            ),
            change: Some(Change::ReadFaster {
                listener: self.at.to_string(),
            }),
        }]
    }
}

#[cfg(test)]
mod tests;
