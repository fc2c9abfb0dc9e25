//! `stat cpus`: where each CPU's time went, its softnet, and the interrupts behind it.

use std::collections::BTreeMap;
use std::io;

use recording::tables::{Cpu, Interrupt};
use recording::{Row, Text};
use serde::Serialize;

use super::rounds::{Rounds, per_s};
use crate::numbers::{or_dash, rounded, tenth};
use crate::screen::{Column, Screen, When};
use crate::view::View;

/// CPUs and lines on a CPU that are followed.
const MAX_CPUS: usize = 8_192;
const MAX_LINES: usize = 1 << 18;

const COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("CPU", 4),
    ("%USR", 6),
    ("%NICE", 6),
    ("%SYS", 6),
    ("%IOWAIT", 7),
    ("%IRQ", 6),
    ("%SOFT", 6),
    ("%STEAL", 6),
    ("%IDLE", 6),
    ("PACKETS/s", 10),
    ("DROPS/s", 8),
    ("SQUEEZED/s", 10),
];

const INTERRUPT_COLUMNS: &[Column] = &[
    ("TIME", -15),
    ("CPU", 4),
    ("KIND", -7),
    ("LINE", -8),
    ("PER-S", 10),
    ("DEVICE", -1),
];

pub(super) struct Cpus {
    interrupts: bool,
    rounds: Rounds<u32>,
    now: BTreeMap<u32, Cpu>,
    shown: BTreeMap<u32, Cpu>,
    lines: BTreeMap<(u32, Text, Text), Counted>,
    /// When the interrupts of the last report, and of this round, were read.
    lines_ns: (Option<u64>, u64),
}

struct Counted {
    device: Text,
    shown: Option<u64>,
    now: u64,
}

/// Shares of an interval, in percent, and softnet per second.
#[derive(Clone, Copy, Debug, Serialize)]
struct Shares {
    user_percent: f64,
    nice_percent: f64,
    system_percent: f64,
    iowait_percent: f64,
    irq_percent: f64,
    softirq_percent: f64,
    steal_percent: f64,
    idle_percent: f64,
    softnet_processed_per_s: Option<f64>,
    softnet_dropped_per_s: Option<f64>,
    softnet_squeezed_per_s: Option<f64>,
}

#[derive(Serialize)]
struct Line {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    /// Null: all together.
    cpu: Option<u32>,
    interval_ns: u64,
    #[serde(flatten)]
    shares: Shares,
}

#[derive(Serialize)]
struct InterruptLine<'i> {
    r#type: &'static str,
    #[serde(flatten)]
    when: When,
    cpu: u32,
    kind: &'i Text,
    line: &'i Text,
    device: &'i Text,
    delta: u64,
    interval_ns: u64,
    per_s: Option<f64>,
}

/// The milliseconds of a CPU by what it did.
fn times(c: &Cpu) -> [u64; 8] {
    [
        c.user_ms,
        c.nice_ms,
        c.system_ms,
        c.iowait_ms,
        c.irq_ms,
        c.softirq_ms,
        c.steal_ms,
        c.idle_ms,
    ]
}

fn softnet(c: &Cpu) -> [Option<u64>; 3] {
    [c.softnet_processed, c.softnet_dropped, c.softnet_squeezed]
}

/// From pairs of an earlier and a later row; of several CPUs, together.
fn shares(pairs: &[(&Cpu, &Cpu)], over_ns: u64) -> Option<Shares> {
    let mut spent = [0u64; 8];
    let mut net = [Some(0u64); 3];
    for (old, new) in pairs {
        for (sum, (old, new)) in spent.iter_mut().zip(times(old).into_iter().zip(times(new))) {
            *sum = sum.saturating_add(new.saturating_sub(old));
        }
        for (sum, (old, new)) in net
            .iter_mut()
            .zip(softnet(old).into_iter().zip(softnet(new)))
        {
            *sum = match (*sum, old, new) {
                (Some(sum), Some(old), Some(new)) => {
                    Some(sum.saturating_add(new.saturating_sub(old)))
                }
                _ => None,
            };
        }
    }
    let total: f64 = spent.iter().map(|ms| *ms as f64).sum();
    if total <= 0.0 {
        return None;
    }
    let of = |i: usize| rounded(spent[i] as f64 * 100.0 / total);
    let rate = |i: usize| net[i].and_then(|n| per_s(n as f64, over_ns)).map(rounded);
    Some(Shares {
        user_percent: of(0),
        nice_percent: of(1),
        system_percent: of(2),
        iowait_percent: of(3),
        irq_percent: of(4),
        softirq_percent: of(5),
        steal_percent: of(6),
        idle_percent: of(7),
        softnet_processed_per_s: rate(0),
        softnet_dropped_per_s: rate(1),
        softnet_squeezed_per_s: rate(2),
    })
}

impl Cpus {
    pub(super) fn new(interrupts: bool, every_ns: u64) -> Cpus {
        Cpus {
            interrupts,
            rounds: Rounds::new(every_ns),
            now: BTreeMap::new(),
            shown: BTreeMap::new(),
            lines: BTreeMap::new(),
            lines_ns: (None, 0),
        }
    }

    fn interrupt(&mut self, row: &Interrupt) {
        let key = (row.cpu, row.kind.clone(), row.line.clone());
        if let Some(known) = self.lines.get_mut(&key) {
            known.now = row.count;
        } else if self.lines.len() < MAX_LINES {
            // What appears later was zero before.
            let counted = Counted {
                device: row.device.clone(),
                shown: self.lines_ns.0.map(|_| 0),
                now: row.count,
            };
            self.lines.insert(key, counted);
        }
        self.lines_ns.1 = self.lines_ns.1.max(row.time_ns);
    }

    fn close(&mut self, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = self.rounds.close() else {
            return Ok(());
        };
        let compares = !self.shown.is_empty();
        if compares {
            match self.interrupts {
                true => self.show_interrupts(time_ns, screen)?,
                false => self.show(screen)?,
            }
            screen.end_report();
        }
        self.lines_ns.0 = Some(time_ns);
        for counted in self.lines.values_mut() {
            counted.shown = Some(counted.now);
        }
        self.shown.append(&mut self.now);
        Ok(())
    }

    fn show(&self, screen: &mut Screen) -> io::Result<()> {
        let pair =
            |(cpu, new): (&u32, &'_ Cpu)| Some((*cpu, self.shown.get(cpu)?.clone(), new.clone()));
        let pairs: Vec<_> = self.now.iter().filter_map(pair).collect();
        let both: Vec<_> = pairs.iter().map(|(_, old, new)| (old, new)).collect();
        let all = std::iter::once((None, &both[..]));
        let each = pairs
            .iter()
            .zip(both.chunks(1))
            .map(|(p, b)| (Some(p.0), b));
        for (cpu, rows) in all.chain(each) {
            let Some((old, new)) = rows.first() else {
                continue;
            };
            let interval_ns = new.time_ns.saturating_sub(old.time_ns);
            if let Some(shares) = shares(rows, interval_ns) {
                line(new.time_ns, cpu, interval_ns, shares, screen)?;
            }
        }
        Ok(())
    }

    fn show_interrupts(&self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        let interval_ns = time_ns.saturating_sub(self.lines_ns.0.unwrap_or(time_ns));
        for ((cpu, kind, line), counted) in &self.lines {
            let delta = counted
                .shown
                .map_or(0, |shown| counted.now.saturating_sub(shown));
            if delta == 0 {
                continue;
            }
            let rate = per_s(delta as f64, interval_ns);
            if screen.how.json {
                screen.json(&InterruptLine {
                    r#type: "interrupt",
                    when: When::of(time_ns, screen.how),
                    cpu: *cpu,
                    kind,
                    line,
                    device: &counted.device,
                    delta,
                    interval_ns,
                    per_s: rate.map(rounded),
                })?;
                continue;
            }
            let cells = [
                screen.how.time(time_ns),
                cpu.to_string(),
                kind.to_string(),
                line.to_string(),
                or_dash(rate.map(tenth)),
                counted.device.to_string(),
            ];
            screen.line(INTERRUPT_COLUMNS, &cells)?;
        }
        Ok(())
    }
}

fn line(
    time_ns: u64,
    cpu: Option<u32>,
    interval_ns: u64,
    s: Shares,
    screen: &mut Screen,
) -> io::Result<()> {
    if screen.how.json {
        return screen.json(&Line {
            r#type: "cpu",
            when: When::of(time_ns, screen.how),
            cpu,
            interval_ns,
            shares: s,
        });
    }
    let cells = [
        screen.how.time(time_ns),
        cpu.map_or("all".into(), |cpu| cpu.to_string()),
        tenth(s.user_percent),
        tenth(s.nice_percent),
        tenth(s.system_percent),
        tenth(s.iowait_percent),
        tenth(s.irq_percent),
        tenth(s.softirq_percent),
        tenth(s.steal_percent),
        tenth(s.idle_percent),
        or_dash(s.softnet_processed_per_s.map(tenth)),
        or_dash(s.softnet_dropped_per_s.map(tenth)),
        or_dash(s.softnet_squeezed_per_s.map(tenth)),
    ];
    screen.line(COLUMNS, &cells)
}

impl View for Cpus {
    fn tables(&self) -> Vec<&'static str> {
        match self.interrupts {
            true => vec!["cpu", "interrupt"],
            false => vec!["cpu"],
        }
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        match row {
            Row::Cpu(row) => {
                if self.rounds.begins(&row.cpu, row.time_ns) {
                    self.close(screen)?;
                }
                self.rounds.add(row.cpu, row.time_ns);
                if self.now.len() < MAX_CPUS {
                    self.now.insert(row.cpu, (**row).clone());
                }
            }
            Row::Interrupt(row) => self.interrupt(row),
            _ => {}
        }
        Ok(())
    }

    fn passed(&mut self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        match self.rounds.over(time_ns) {
            true => self.close(screen),
            false => Ok(()),
        }
    }

    fn end(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.close(screen)
    }
}
