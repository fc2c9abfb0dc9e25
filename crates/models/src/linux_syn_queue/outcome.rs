//! What a run came to: its seconds, and the figures made of them.

use super::flow::Flow;
use super::listener::{Answer, Full};
use super::mesh::Mesh;
use super::params::Params;
use super::series::Series;
use crate::report::{Figure, Report, Series as Seconds};

/// What happened in one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Second {
    pub(super) connects: u64,
    pub(super) established: u64,
    /// SyncookiesSent.
    pub(super) cookies: u64,
    /// SYNs dropped, for whatever reason.
    pub(super) dropped: u64,
    pub(super) syns_resent: u64,
    /// Last ACKs of handshakes dropped.
    pub(super) acks_dropped: u64,
    pub(super) given_up: u64,
    /// Bytes acknowledged, of each link.
    pub(super) link_bytes: Vec<u64>,
    pub(super) messages: u64,
    /// Segments with data retransmitted.
    pub(super) resent: u64,
    /// The greatest congestion window of sockets that lost options, and the least of the others, at
    /// its end.
    pub(super) lost_window: Option<u64>,
    pub(super) kept_window: Option<u64>,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) seconds: Vec<Second>,
    /// Of each link: whether its data go over a socket that lost options.
    pub(super) slow: Vec<bool>,
    pub(super) cookies: usize,
    pub(super) lost: usize,
    /// Of data sockets that lost options: the greatest congestion window of each direction.
    pub(super) lost_windows: Vec<u64>,
    /// Of the others.
    pub(super) kept_windows: Vec<u64>,
    /// Messages and the sum of their times, ns, over links that are slow, and over the others.
    slow_messages: (u64, u64),
    other_messages: (u64, u64),
    /// Time busy and held by the receiver's window of the slow, ns.
    pub(super) series: Option<Series>,
}

const COLUMNS: &[&str] = &[
    "connected",
    "cookies sent",
    "SYNs dropped",
    "throughput MB/s",
    "slowest link MB/s",
    "fastest link MB/s",
    "cwnd, options lost",
    "cwnd, least other",
    "messages",
    "segments resent",
];

impl Second {
    pub(super) fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Kept => {}
            Answer::Cookie { .. } => self.cookies += 1,
            Answer::Dropped(Full::Requests | Full::Accept { .. } | Full::LastQuarter) => {
                self.dropped += 1;
            }
        }
    }

    pub(super) fn windows(&mut self, flow: &Flow) {
        let now = flow.window.segments();
        let known = if flow.lost {
            &mut self.lost_window
        } else {
            &mut self.kept_window
        };
        *known = Some(match (*known, flow.lost) {
            (None, _) => now,
            (Some(known), true) => known.max(now),
            (Some(known), false) => known.min(now),
        });
    }

    /// Bytes acknowledged over all links.
    pub(super) fn bytes(&self) -> u64 {
        self.link_bytes.iter().sum()
    }

    fn row(&self) -> Vec<f64> {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let [least, most] = [self.link_bytes.iter().min(), self.link_bytes.iter().max()];
        vec![
            self.established as f64,
            self.cookies as f64,
            self.dropped as f64,
            mb(self.bytes()),
            mb(*least.unwrap_or(&0)),
            mb(*most.unwrap_or(&0)),
            self.lost_window.unwrap_or(0) as f64,
            self.kept_window.unwrap_or(0) as f64,
            self.messages as f64,
            self.resent as f64,
        ]
    }
}

impl Outcome {
    pub(super) fn new(p: &Params, mesh: &Mesh) -> Outcome {
        let made = |s: &super::mesh::Socket| s.cookie && s.established_ns.is_some();
        Outcome {
            slow: (0..mesh.links.len()).map(|l| mesh.is_slow(p, l)).collect(),
            cookies: mesh.sockets.iter().filter(|s| made(s)).count(),
            lost: mesh.all_lost(p),
            ..Outcome::default()
        }
    }

    pub(super) fn of(mut self, series: Series) -> Outcome {
        self.series = Some(series);
        self
    }

    pub(super) fn flow(&mut self, flow: &Flow) {
        let (windows, messages) = match (flow.lost, self.slow[flow.link]) {
            (true, _) => (&mut self.lost_windows, &mut self.slow_messages),
            (false, true) => (&mut self.kept_windows, &mut self.slow_messages),
            (false, false) => (&mut self.kept_windows, &mut self.other_messages),
        };
        windows.push(flow.done.most_window);
        messages.0 += flow.done.messages;
        messages.1 += flow.done.latency_ns;
    }

    /// Throughput of the whole seconds after the first, MB/s: the mesh is formed in the first.
    pub(super) fn throughput(&self) -> f64 {
        self.mean(|s| s.bytes())
    }

    /// The same of the slowest link.
    pub(super) fn slowest(&self) -> f64 {
        let links = (0..self.slow.len()).map(|link| self.mean(|s| s.link_bytes[link]));
        links.fold(f64::INFINITY, f64::min)
    }

    fn mean(&self, of: impl Fn(&Second) -> u64) -> f64 {
        let seconds = match self.seconds.len() {
            0 | 1 => &self.seconds[..],
            _ => &self.seconds[1..],
        };
        let sum: u64 = seconds.iter().map(of).sum();
        sum as f64 / 1e6 / seconds.len().max(1) as f64
    }

    /// The greatest window of those that lost options, and the least of the others' greatest.
    pub(super) fn most_windows(&self) -> (u64, u64) {
        let lost = self.lost_windows.iter().max().copied().unwrap_or(0);
        (lost, self.kept_windows.iter().min().copied().unwrap_or(0))
    }

    /// By what share the windows of those that lost options are smaller than every other's.
    pub(super) fn smaller(&self) -> Option<f64> {
        let (lost, kept) = self.most_windows();
        (lost > 0 && kept > 0).then(|| 1.0 - lost as f64 / kept as f64)
    }

    /// Mean time of a message over slow links, and over the others, ms.
    pub(super) fn latency_ms(&self) -> (f64, f64) {
        let mean = |(n, ns): (u64, u64)| ns as f64 / 1e6 / n.max(1) as f64;
        (mean(self.slow_messages), mean(self.other_messages))
    }
}

/// The report of a run.
pub(super) fn report(p: &Params, o: &Outcome) -> Report {
    let figure = |name, unit, value| Figure { name, unit, value };
    let (lost, kept) = o.most_windows();
    let (slow_ms, other_ms) = o.latency_ms();
    let slow = o.slow.iter().filter(|slow| **slow).count();
    let share = |of: fn(&Series) -> u32| {
        let runs = o.series.as_ref().map_or(0, of);
        f64::from(runs) / f64::from(p.runs) * 100.0
    };
    Report {
        figures: vec![
            figure("throughput", "MB/s", o.throughput()),
            figure("slowest link", "MB/s", o.slowest()),
            figure("connections made from a cookie", "", o.cookies as f64),
            figure("connections that lost options", "", o.lost as f64),
            figure("slow links", "", slow as f64),
            figure("largest cwnd, options lost", "", lost as f64),
            figure("least largest cwnd, others", "", kept as f64),
            figure("message, slow links", "ms", slow_ms),
            figure("message, other links", "ms", other_ms),
            figure("runs with a cookie", "%", share(|s| s.with_cookie)),
            figure("runs with options lost", "%", share(|s| s.with_lost)),
            figure("runs with a slow link", "%", share(|s| s.slow)),
        ],
        series: Seconds {
            step: "second",
            columns: COLUMNS,
            rows: o.seconds.iter().map(Second::row).collect(),
        },
    }
}
