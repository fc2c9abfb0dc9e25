//! `stat cpus`: where each CPU's time went, its softnet, and the interrupts behind it.

use std::collections::BTreeMap;
use std::io;

use analysis::CpuTimes;
use recording::tables::{Cpu, Interrupt};
use recording::{Filter, Row, Text};

use super::largest::LeftOut;
use super::rounds::{Sampler, per_s};
use crate::columns::{Unit, Value, columns, heads, json, left, right};
use crate::screen::Screen;

/// CPUs and lines on a CPU that are followed.
const MAX_CPUS: usize = 8_192;
const MAX_LINES: usize = 1 << 18;

/// What a CPU did in an interval, or all of them together.
pub(crate) struct Busy {
    time_ns: u64,
    /// `None`: all together.
    cpu: Option<u32>,
    interval_ns: u64,
    spent: CpuTimes,
    /// Packets a second, in the order of [`softnet`].
    softnet: [Option<f64>; 3],
}

columns! {
    Busy = "cpu" {
        text TIME CPU USR NICE SYS IOWAIT IRQ SOFT STEAL IDLE PACKETS DROPS SQUEEZED;
        json TIME CPU INTERVAL USR NICE SYS IOWAIT IRQ SOFT STEAL IDLE PACKETS DROPS SQUEEZED;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.time_ns);
    /// Number of the CPU; `all`, null in JSON: all together.
    CPU: right("CPU", 4, &["cpu"], Unit::Id) => |l, _| match l.cpu {
        Some(cpu) => cpu.into(),
        None => Value::Told(recording::Value::Null, "all".into()),
    };
    /// In user mode.
    USR: right("%USR", 6, &["user_percent"], Unit::Percent) => |l, _| l.percent(l.spent.user_ms).into();
    /// In user mode, of processes that are nice.
    NICE: right("%NICE", 6, &["nice_percent"], Unit::Percent) => |l, _| l.percent(l.spent.nice_ms).into();
    /// In the kernel.
    SYS: right("%SYS", 6, &["system_percent"], Unit::Percent) => |l, _| l.percent(l.spent.system_ms).into();
    /// Idle while something waited for a disk.
    IOWAIT: right("%IOWAIT", 7, &["iowait_percent"], Unit::Percent) => |l, _| l.percent(l.spent.iowait_ms).into();
    /// In interrupts.
    IRQ: right("%IRQ", 6, &["irq_percent"], Unit::Percent) => |l, _| l.percent(l.spent.irq_ms).into();
    /// In softirqs.
    SOFT: right("%SOFT", 6, &["softirq_percent"], Unit::Percent) => |l, _| l.percent(l.spent.softirq_ms).into();
    /// Taken by the hypervisor.
    STEAL: right("%STEAL", 6, &["steal_percent"], Unit::Percent) => |l, _| l.percent(l.spent.steal_ms).into();
    /// Idle.
    IDLE: right("%IDLE", 6, &["idle_percent"], Unit::Percent) => |l, _| l.percent(l.spent.idle_ms).into();
    /// Packets that its softirq took from devices.
    PACKETS: right("PACKETS/s", 10, &["softnet_processed_per_s"], Unit::PerSecond) => |l, _| l.softnet[0].into();
    /// Packets dropped because its backlog was full (`net.core.netdev_max_backlog`).
    DROPS: right("DROPS/s", 8, &["softnet_dropped_per_s"], Unit::PerSecond) => |l, _| l.softnet[1].into();
    /// Times that the softirq's budget ran out with work left.
    SQUEEZED: right("SQUEEZED/s", 10, &["softnet_squeezed_per_s"], Unit::PerSecond) => |l, _| l.softnet[2].into();
    /// The time that shares are of.
    INTERVAL: json(&["interval_ns"], Unit::Ns) => |l, _| l.interval_ns.into();
}

/// Interrupts or softirqs of a line that came on a CPU.
pub(crate) struct Interrupted {
    time_ns: u64,
    line: Line,
    device: Text,
    delta: u64,
    interval_ns: u64,
}

columns! {
    Interrupted = "interrupt" {
        text TIME CPU KIND LINE PER_S DEVICE;
        json TIME CPU KIND LINE DEVICE DELTA INTERVAL PER_S;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.time_ns);
    /// Number of the CPU.
    CPU: right("CPU", 4, &["cpu"], Unit::Id) => |l, _| l.line.0.into();
    /// Irq or softirq.
    KIND: left("KIND", 7, &["kind"], Unit::Name) => |l, _| (&l.line.1).into();
    /// Its line in /proc/interrupts or /proc/softirqs.
    LINE: left("LINE", 8, &["line"], Unit::Name) => |l, _| (&l.line.2).into();
    /// How many came per second.
    PER_S: right("PER-S", 10, &["per_s"], Unit::PerSecond) => |l, _| per_s(l.delta as f64, l.interval_ns).into();
    /// What is behind the line.
    DEVICE: left("DEVICE", 1, &["device"], Unit::Words) => |l, _| (&l.device).into();
    /// How many came.
    DELTA: json(&["delta"], Unit::Count) => |l, _| l.delta.into();
    /// In which time.
    INTERVAL: json(&["interval_ns"], Unit::Ns) => |l, _| l.interval_ns.into();
}

fn softnet(c: &Cpu) -> [Option<u64>; 3] {
    [c.softnet_processed, c.softnet_dropped, c.softnet_squeezed]
}

impl Busy {
    /// Share of its time, percent.
    fn percent(&self, ms: u64) -> f64 {
        ms as f64 * 100.0 / self.spent.total_ms() as f64
    }

    /// From pairs of an earlier and a later row; of several CPUs, together.
    fn of(cpu: Option<u32>, pairs: &[(&Cpu, &Cpu)]) -> Option<Busy> {
        let (first, last) = pairs.first()?;
        let interval_ns = last.time_ns.saturating_sub(first.time_ns);
        let mut spent = CpuTimes::default();
        let mut net = [Some(0u64); 3];
        for (old, new) in pairs {
            spent = spent.and(CpuTimes::of(new).since(CpuTimes::of(old)));
            let both = softnet(old).into_iter().zip(softnet(new));
            for (sum, (old, new)) in net.iter_mut().zip(both) {
                let more = new.zip(old).map(|(new, old)| new.saturating_sub(old));
                *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
            }
        }
        (spent.total_ms() > 0).then(|| Busy {
            time_ns: last.time_ns,
            cpu,
            interval_ns,
            spent,
            softnet: net.map(|n| per_s(n? as f64, interval_ns)),
        })
    }
}

/// A CPU, kind and line.
type Line = (u32, Text, Text);

/// CPUs, or with `interrupts` what interrupted them.
#[derive(Default)]
pub(super) struct Cpus {
    interrupts: bool,
    now: BTreeMap<u32, Cpu>,
    shown: BTreeMap<u32, Cpu>,
    lines: BTreeMap<Line, Counted>,
    /// When the last report ended.
    shown_ns: Option<u64>,
    /// Rows since then that found no room.
    left_out: u64,
}

struct Counted {
    device: Text,
    shown: Option<u64>,
    now: u64,
}

impl Cpus {
    pub(super) fn interrupts() -> Cpus {
        Cpus {
            interrupts: true,
            ..Cpus::default()
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
                shown: self.shown_ns.map(|_| 0),
                now: row.count,
            };
            self.lines.insert(key, counted);
        } else {
            self.left_out += 1;
        }
    }

    fn show(&self, screen: &mut Screen) -> io::Result<()> {
        let pairs = (self.now.iter()).filter_map(|(cpu, new)| Some((self.shown.get(cpu)?, new)));
        let pairs: Vec<(&Cpu, &Cpu)> = pairs.collect();
        let each = pairs.chunks(1).map(|pair| (Some(pair[0].1.cpu), pair));
        for (cpu, pairs) in std::iter::once((None, &pairs[..])).chain(each) {
            if let Some(line) = Busy::of(cpu, pairs) {
                screen.show(&line)?;
            }
        }
        Ok(())
    }

    fn show_interrupts(&self, time_ns: u64, screen: &mut Screen) -> io::Result<()> {
        let interval_ns = time_ns.saturating_sub(self.shown_ns.unwrap_or(time_ns));
        for (line, counted) in &self.lines {
            let shown = counted.shown.unwrap_or(counted.now);
            let delta = counted.now.saturating_sub(shown);
            if delta > 0 {
                screen.show(&Interrupted {
                    time_ns,
                    line: line.clone(),
                    device: counted.device.clone(),
                    delta,
                    interval_ns,
                })?;
            }
        }
        Ok(())
    }
}

impl Sampler for Cpus {
    /// CPU.
    type Key = u32;

    fn tables(&self) -> Vec<&'static str> {
        if self.interrupts {
            vec!["cpu", "interrupt"]
        } else {
            vec!["cpu"]
        }
    }

    fn key(&mut self, row: &Row, _: &Filter) -> Option<u32> {
        match row {
            Row::Cpu(row) => Some(row.cpu),
            Row::Interrupt(row) => {
                self.interrupt(row);
                None
            }
            _ => None,
        }
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::Cpu(row) = row {
            if self.now.len() < MAX_CPUS || self.now.contains_key(&row.cpu) {
                self.now.insert(row.cpu, *row);
            } else {
                self.left_out += 1
            }
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        let left_out = LeftOut::of(std::mem::take(&mut self.left_out));
        if !self.shown.is_empty() {
            if self.interrupts {
                self.show_interrupts(time_ns, screen)?;
                left_out.show::<Interrupted>(time_ns, screen)?;
            } else {
                self.show(screen)?;
                left_out.show::<Busy>(time_ns, screen)?;
            }
            screen.end_report();
        }
        self.shown_ns = Some(time_ns);
        for counted in self.lines.values_mut() {
            counted.shown = Some(counted.now);
        }
        self.shown.append(&mut self.now);
        Ok(())
    }
}
