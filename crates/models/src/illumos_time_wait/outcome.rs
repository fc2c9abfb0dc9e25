//! What a run came to: its seconds, and the figures made of them.

use std::collections::BTreeMap;

use super::params::Params;
use crate::report::{Figure, Report, Series};

/// What the kernel's counters and the server's thread did in one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Second {
    /// tcpActiveOpens: connects begun.
    pub(super) active: u64,
    /// Of these, by closed-loop clients.
    pub(super) by_clients: u64,
    /// Connections besides, of which only the sequence number is drawn.
    pub(super) background: u64,
    /// tcpPassiveOpens: SYNs taken by the listener.
    pub(super) passive: u64,
    /// tcpRetransSegs: SYNs retransmitted.
    pub(super) resent: u64,
    /// SYNs that a TIME_WAIT answered with an ACK (tcpInDataDupSegs).
    pub(super) refused: u64,
    /// tcpOutRsts.
    pub(super) resets: u64,
    /// SYNs taken over a TIME_WAIT (tcp_time_wait_syn_success).
    pub(super) over_time_wait: u64,
    /// Connects that failed: within the window of a TIME_WAIT.
    pub(super) failed: u64,
    /// Connects for which no port was free.
    pub(super) no_port: u64,
    /// Requests answered.
    pub(super) requests: u64,
    /// Time that the server's thread was busy, ns.
    pub(super) busy_ns: u64,
    /// TIME_WAITs at its end.
    pub(super) time_wait: u64,
    /// Of each client's address, by its index.
    pub(super) time_wait_by_address: BTreeMap<u32, u32>,
    /// Connects in SYN_SENT at its end.
    pub(super) connecting: u64,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) seconds: Vec<Second>,
    /// Of those begun after the warm-up: connects that were late, by how late, ns.
    pub(super) late: BTreeMap<u64, u64>,
    /// Connects begun before the first that was refused.
    pub(super) before_refusal: Option<u64>,
    /// Of those begun after the warm-up: connects that were refused at least once.
    pub(super) hit: u64,
    /// Of these, by closed-loop clients.
    pub(super) clients_hit: u64,
}

const COLUMNS: &[&str] = &[
    "active opens",
    "passive opens",
    "SYNs resent",
    "resets",
    "SYNs over TIME_WAIT",
    "TIME_WAIT",
    "in SYN_SENT",
    "requests",
    "server busy %",
];

impl Second {
    fn row(&self) -> Vec<f64> {
        let counts = [
            self.active,
            self.passive,
            self.resent,
            self.resets,
            self.over_time_wait,
            self.time_wait,
            self.connecting,
            self.requests,
        ];
        let counts = counts.iter().map(|n| *n as f64);
        counts.chain([self.busy_ns as f64 / 1e7]).collect()
    }
}

impl Outcome {
    /// A count over the run, the warm-up left out.
    pub(super) fn sum(&self, p: &Params, of: impl Fn(&Second) -> u64) -> f64 {
        let seconds = self.seconds.iter().skip(p.warm_up as usize);
        seconds.map(of).sum::<u64>() as f64
    }

    /// A count per second over the seconds `from..=to`, the first of which is 1.
    pub(super) fn mean(&self, from: usize, to: usize, of: impl Fn(&Second) -> u64) -> f64 {
        let seconds = self.seconds.iter().take(to).skip(from - 1);
        let n = seconds.clone().count().max(1);
        seconds.map(|s| of(s) as f64).sum::<f64>() / n as f64
    }

    /// The greatest count of a second from `from` on.
    pub(super) fn most(&self, from: usize, of: impl Fn(&Second) -> u64) -> f64 {
        let seconds = self.seconds.iter().skip(from - 1);
        seconds.map(of).max().unwrap_or(0) as f64
    }

    /// Share of the connects that were refused at first.
    pub(super) fn refused_share(&self, p: &Params) -> f64 {
        self.hit as f64 / self.sum(p, |s| s.active).max(1.0)
    }

    /// The same of the closed-loop clients alone, where an open load runs beside them.
    pub(super) fn clients_refused_share(&self, p: &Params) -> f64 {
        self.clients_hit as f64 / self.sum(p, |s| s.by_clients).max(1.0)
    }

    /// Share of the connects that were late by `least` to `most` ms.
    pub(super) fn late_share(&self, p: &Params, least: u64, most: u64) -> f64 {
        let range = least * 1_000_000..=most * 1_000_000;
        let late: u64 = self.late.range(range).map(|(_, n)| n).sum();
        late as f64 / self.sum(p, |s| s.active).max(1.0)
    }

    /// By how much a connect is late on average, ms.
    pub(super) fn mean_late_ms(&self, p: &Params) -> f64 {
        let late = self.late.iter().map(|(ns, n)| *ns as f64 * *n as f64);
        late.fold(0.0, |sum, ns| sum + ns) / 1e6 / self.sum(p, |s| s.passive).max(1.0)
    }
}

/// The report of a run.
pub(super) fn report(p: &Params, o: &Outcome) -> Report {
    let figure = |name, unit, value| Figure { name, unit, value };
    let seconds = (p.duration - p.warm_up) as f64;
    let last = o.seconds.last().cloned().unwrap_or_default();
    Report {
        figures: vec![
            figure("requests", "1/s", o.sum(p, |s| s.requests) / seconds),
            figure("requests, last second", "1/s", last.requests as f64),
            figure("connects refused at first", "%", o.refused_share(p) * 100.0),
            figure(
                "clients' connects refused at first",
                "%",
                o.clients_refused_share(p) * 100.0,
            ),
            figure("connects late on average by", "ms", o.mean_late_ms(p)),
            figure("most SYNs resent", "1/s", o.most(1, |s| s.resent)),
            figure("TIME_WAIT at the end", "", last.time_wait as f64),
            figure("in SYN_SENT at the end", "", last.connecting as f64),
            figure("connects failed", "", o.sum(p, |s| s.failed + s.no_port)),
        ],
        series: Series {
            step: "second",
            columns: COLUMNS,
            rows: o.seconds.iter().map(Second::row).collect(),
        },
    }
}
