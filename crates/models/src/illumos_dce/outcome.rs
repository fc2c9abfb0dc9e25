//! What a run came to: its days, the seconds that were looked at, and the figures made of them.

use super::growth::Day;
use super::params::{DAY_S, Params, S};
use crate::report::{Figure, Report, Series};

/// What a CPU did with a second, beside what is not simulated, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Busy {
    /// Lookups in threads.
    pub(super) thread_ns: u64,
    /// Lookups in interrupts.
    pub(super) interrupt_ns: u64,
}

/// One second that was looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Second {
    /// Lookups that ended, from connect().
    pub(super) connects: u64,
    /// Lookups that ended, of connections accepted.
    pub(super) accepts: u64,
    /// Entries added.
    pub(super) added: u64,
    pub(super) reclaims: u64,
    /// Entries that they deleted.
    pub(super) deleted: u64,
    /// Time that threads which began in it had waited for a CPU.
    pub(super) runqueue_ns: u64,
    /// CPU by CPU.
    pub(super) cpus: Vec<Busy>,
    /// Entries at its end.
    pub(super) entries: u64,
    pub(super) longest: u32,
    /// Load averages over 1, 5 and 15 minutes at its end.
    pub(super) loads: [f64; 3],
}

/// Sums over what was looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    /// Lookups that ended, and their time from entry to return.
    pub(super) lookups: u64,
    pub(super) took_ns: u64,
    /// Entries that were passed.
    pub(super) passed: u64,
    /// Lookups that met a bucket whose lock was held.
    pub(super) blocked: u64,
    /// Lookups that began on the interrupts' CPU, and how long they had waited for it.
    pub(super) packets: u64,
    pub(super) waited_ns: u64,
    pub(super) longest_wait_ns: u64,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) days: Vec<Day>,
    pub(super) seconds: Vec<Second>,
    pub(super) totals: Totals,
    /// At the end.
    pub(super) entries: u64,
    pub(super) longest: u32,
}

const COLUMNS: &[&str] = &[
    "entries",
    "mean chain",
    "longest chain",
    "lookup, ms",
    "CPUs in lookups",
    "interrupts' CPU busy %",
    "load average",
    "reclaims",
];

impl Second {
    pub(super) fn of(p: &Params) -> Second {
        Second {
            cpus: vec![Busy::default(); p.cpus as usize],
            ..Second::default()
        }
    }
}

impl Day {
    /// Time of a lookup, s, if it does not wait.
    fn lookup_s(&self, p: &Params) -> f64 {
        self.passes * p.entry_walk / 1e9
    }

    /// How busy lookups and what is besides would keep the interrupts' CPU; more than 1: it is full.
    fn interrupt_cpu(&self, p: &Params) -> f64 {
        p.base_interrupt() + p.interrupt_cpu_lookups() * self.lookup_s(p)
    }

    fn row(&self, p: &Params) -> Vec<f64> {
        let lookup_s = self.lookup_s(p);
        vec![
            self.entries as f64,
            self.entries as f64 / f64::from(p.ip_dce_hash_size),
            f64::from(self.longest),
            lookup_s * 1e3,
            p.lookups() * lookup_s,
            self.interrupt_cpu(p).min(1.0) * 100.0,
            p.base_load + p.thread_lookups() * lookup_s,
            self.reclaims as f64,
        ]
    }
}

impl Outcome {
    pub(super) fn mean_chain(&self, p: &Params) -> f64 {
        self.entries as f64 / f64::from(p.ip_dce_hash_size)
    }

    /// From entry to return, on average, ms.
    pub(super) fn lookup_ms(&self) -> f64 {
        self.totals.took_ns as f64 / self.totals.lookups.max(1) as f64 / 1e6
    }

    fn per_second(&self, of: impl Fn(&Second) -> u64) -> f64 {
        let sum: u64 = self.seconds.iter().map(of).sum();
        sum as f64 / self.seconds.len().max(1) as f64
    }

    /// CPUs that do nothing but lookups, on average.
    pub(super) fn cpus(&self) -> f64 {
        let busy = |c: &Busy| c.thread_ns + c.interrupt_ns;
        self.per_second(|s| s.cpus.iter().map(busy).sum()) / S as f64
    }

    /// How busy the interrupts' CPU is, %.
    pub(super) fn interrupt_cpu(&self, p: &Params) -> f64 {
        let cpu = p.interrupt_cpu as usize;
        let lookups = self.per_second(|s| s.cpus[cpu].interrupt_ns) / S as f64;
        (lookups + p.base_interrupt()).min(1.0) * 100.0
    }

    /// Load averages over 1, 5 and 15 minutes at the end.
    pub(super) fn loads(&self) -> [f64; 3] {
        self.seconds.last().map_or([0.0; 3], |s| s.loads)
    }

    /// How long a lookup waited for the interrupts' CPU, on average, ms.
    pub(super) fn waited_ms(&self) -> f64 {
        self.totals.waited_ns as f64 / self.totals.packets.max(1) as f64 / 1e6
    }

    /// When the interrupts' CPU became full, d; `None` when it did not. Between two days it fills
    /// evenly.
    pub(super) fn full_at(&self, p: &Params) -> Option<f64> {
        let at = self
            .days
            .iter()
            .position(|day| day.interrupt_cpu(p) >= 1.0)?;
        let (end, busy) = (day_end(p, at), self.days[at].interrupt_cpu(p));
        let (from, was) = match at.checked_sub(1) {
            Some(before) => (day_end(p, before), self.days[before].interrupt_cpu(p)),
            None => (0.0, p.base_interrupt()),
        };
        let share = if busy > was {
            (1.0 - was) / (busy - was)
        } else {
            1.0
        };
        Some(from + share * (end - from))
    }
}

/// When the n-th day ends, d.
fn day_end(p: &Params, nth: usize) -> f64 {
    (nth as f64 + 1.0).min(p.uptime_s() / DAY_S)
}

/// The report of a run.
pub(super) fn report(p: &Params, o: &Outcome) -> Report {
    let figure = |name, unit, value| Figure { name, unit, value };
    let [one, five, fifteen] = o.loads();
    let figures = vec![
        figure("entries", "", o.entries as f64),
        figure("mean chain", "", o.mean_chain(p)),
        figure("longest chain", "", f64::from(o.longest)),
        figure("entries added", "1/s", o.per_second(|s| s.added)),
        figure("lookups", "1/s", o.per_second(|s| s.connects + s.accepts)),
        figure("lookup", "ms", o.lookup_ms()),
        figure("CPUs in lookups", "", o.cpus()),
        figure("interrupts' CPU busy", "%", o.interrupt_cpu(p)),
        figure("a packet waits for it on average", "ms", o.waited_ms()),
        figure(
            "a packet waits for it at most",
            "ms",
            o.totals.longest_wait_ns as f64 / 1e6,
        ),
        figure("load average, 1 minute", "", one),
        figure("load average, 5 minutes", "", five),
        figure("load average, 15 minutes", "", fifteen),
    ];
    Report {
        figures,
        series: Series {
            step: "day",
            columns: COLUMNS,
            rows: o.days.iter().map(|day| day.row(p)).collect(),
        },
    }
}
