//! What a run came to: its seconds, the searches that met services, and the figures made of them.

use super::params::{Params, S};
use crate::report::{Figure, Report, Series};

/// What happened in one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Second {
    /// Connections that services took (tcps_accepts).
    pub(super) accepts: u64,
    /// connect() calls that found a port (tcps_connattempt).
    pub(super) connects: u64,
    /// connect() calls that found none: EADDRNOTAVAIL.
    pub(super) failed: u64,
    /// Look-ups of a port, entries that they passed, and TIME_WAITs that they ended.
    pub(super) look_ups: u64,
    pub(super) passed: u64,
    pub(super) purged: u64,
    /// How long the lock was held for searches, ns.
    pub(super) locked_ns: u64,
    /// The longest connect() that returned, ns.
    pub(super) longest_ns: u64,
    /// SYNs to services that were dropped, the input queue being full.
    pub(super) syns_dropped: u64,
    /// All packets that were.
    pub(super) packets_dropped: u64,
    /// At its end: connections open, TIME_WAITs, ports that somebody has, the longest list.
    pub(super) open: u64,
    pub(super) time_wait: u64,
    pub(super) ports: u64,
    pub(super) longest_list: u64,
    /// Of the TIME_WAITs, at ports of services.
    pub(super) time_wait_services: u64,
}

/// A search that met at least one service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    /// When it began, from the recording's beginning on, ns.
    pub(super) at_ns: u64,
    /// Look-ups of ports, all of them.
    pub(super) look_ups: u64,
    pub(super) took_ns: u64,
    /// TIME_WAITs and connections in all lists when it began.
    pub(super) time_wait: u64,
    pub(super) open: u64,
    /// Look-ups of services, in order.
    pub(super) met: Vec<Met>,
}

/// The look-up of a service's port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Met {
    /// Which service, from 0 on.
    pub(super) service: u16,
    /// Entries passed and TIME_WAITs ended.
    pub(super) passed: u64,
    pub(super) purged: u64,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) seconds: Vec<Second>,
    pub(super) searches: Vec<Search>,
}

const COLUMNS: &[&str] = &[
    "accepts",
    "connects",
    "failed",
    "entries passed",
    "TIME_WAIT purged",
    "locked ms",
    "longest connect ms",
    "packets dropped",
    "open",
    "TIME_WAIT",
    "longest list",
];

impl Second {
    fn row(&self) -> Vec<f64> {
        let ms = |ns: u64| ns as f64 / 1e6;
        vec![
            self.accepts as f64,
            self.connects as f64,
            self.failed as f64,
            self.passed as f64,
            self.purged as f64,
            ms(self.locked_ns),
            ms(self.longest_ns),
            self.packets_dropped as f64,
            self.open as f64,
            self.time_wait as f64,
            self.longest_list as f64,
        ]
    }
}

impl Outcome {
    /// A count over the run.
    pub(super) fn sum(&self, of: impl Fn(&Second) -> u64) -> f64 {
        self.seconds.iter().map(of).sum::<u64>() as f64
    }

    /// The greatest of a second.
    pub(super) fn most(&self, of: impl Fn(&Second) -> u64) -> f64 {
        self.seconds.iter().map(of).max().unwrap_or(0) as f64
    }

    /// A number of each search that met services, on average; 0 when none did.
    pub(super) fn per_search(&self, of: impl Fn(&Search) -> f64) -> f64 {
        mean(self.searches.iter().map(of))
    }

    /// A number of each look-up of a service, on average.
    pub(super) fn per_look_up(&self, service: u16, of: impl Fn(&Met) -> f64) -> f64 {
        let all = self.searches.iter().flat_map(|s| &s.met);
        mean(all.filter(|m| m.service == service).map(of))
    }

    /// Share of the time for which searches held the lock.
    pub(super) fn locked_share(&self) -> f64 {
        self.sum(|s| s.locked_ns) / (self.seconds.len().max(1) as f64 * S as f64)
    }
}

fn mean(all: impl Iterator<Item = f64>) -> f64 {
    let (n, sum) = all.fold((0.0, 0.0), |(n, sum), v| (n + 1.0, sum + v));
    if n == 0.0 { 0.0 } else { sum / n }
}

/// The report of a run.
pub(super) fn report(p: &Params, o: &Outcome) -> Report {
    let figure = |name, unit, value| Figure { name, unit, value };
    let passed = |s: &Search| s.met.iter().map(|m| m.passed).sum::<u64>() as f64;
    let purged = |s: &Search| s.met.iter().map(|m| m.purged).sum::<u64>() as f64;
    let packets = p.packets_per_s() * p.duration as f64;
    Report {
        figures: vec![
            figure("longest connect()", "ms", o.most(|s| s.longest_ns) / 1e6),
            figure("searches that met services", "", o.searches.len() as f64),
            figure("entries passed by each", "", o.per_search(passed)),
            figure("TIME_WAITs purged by each", "", o.per_search(purged)),
            figure("TCP locked", "%", o.locked_share() * 100.0),
            figure(
                "packets dropped",
                "%",
                o.sum(|s| s.packets_dropped) / packets.max(1.0) * 100.0,
            ),
            figure("connects without a port", "", o.sum(|s| s.failed)),
            figure("TIME_WAIT at most", "", o.most(|s| s.time_wait)),
            figure("open at most", "", o.most(|s| s.open)),
        ],
        series: Series {
            step: "second",
            columns: COLUMNS,
            rows: o.seconds.iter().map(Second::row).collect(),
        },
    }
}
