//! What a packet and an interrupt cost each CPU.

use std::collections::BTreeMap;

use analysis::stats::ratio;
use analysis::words::rounded;
use recording::tables;
use recording::{Error, Recording};
use serde::Serialize;

/// CPUs looked at.
const MAX_CPUS: usize = 4_096;
/// A CPU that handled fewer has no cost worth a name.
const MIN_COUNT: u64 = 100;

/// What one CPU did during a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    /// In the kernel, interrupts included, ms.
    kernel_ms: u64,
    packets: u64,
    interrupts: u64,
}

/// The cost on one CPU in the slow recordings and in the fast.
#[derive(Clone, Debug, Serialize)]
pub struct CpuCost {
    /// CPU.
    pub cpu: u32,
    /// Kernel time (system, interrupts, softirqs) per packet of its backlog in the fast, µs.
    pub fast_us_per_packet: Option<f64>,
    /// The same in the slow.
    pub slow_us_per_packet: Option<f64>,
    /// Kernel time per interrupt, softirqs included, in the fast, µs.
    pub fast_us_per_interrupt: Option<f64>,
    /// The same in the slow.
    pub slow_us_per_interrupt: Option<f64>,
    /// The greater of the two ratios, slow ÷ fast.
    pub ratio: f64,
}

pub(super) fn read(recording: &Recording) -> Result<BTreeMap<u32, Cpu>, Error> {
    let mut cpus: BTreeMap<u32, Cpu> = BTreeMap::new();
    let mut first: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for batch in recording.scan::<tables::Cpu>()? {
        for (_, row) in batch?.rows() {
            if first.len() >= MAX_CPUS && !first.contains_key(&row.cpu) {
                continue;
            }
            let kernel = row
                .system_ms
                .saturating_add(row.irq_ms)
                .saturating_add(row.softirq_ms);
            let packets = row.softnet_processed.unwrap_or(0);
            let (kernel_0, packets_0) = *first.entry(row.cpu).or_insert((kernel, packets));
            let cpu = cpus.entry(row.cpu).or_default();
            cpu.kernel_ms = kernel.saturating_sub(kernel_0);
            cpu.packets = packets.saturating_sub(packets_0);
        }
    }
    let mut lines: BTreeMap<(u32, String), (u64, u64)> = BTreeMap::new();
    for batch in recording.scan::<tables::Interrupt>()? {
        for (_, row) in batch?.rows() {
            let key = (row.cpu, format!("{} {}", row.kind, row.line));
            if lines.len() >= 64 * MAX_CPUS && !lines.contains_key(&key) {
                continue;
            }
            lines.entry(key).or_insert((row.count, 0)).1 = row.count;
        }
    }
    for ((cpu, _), (first, last)) in lines {
        if let Some(cpu) = cpus.get_mut(&cpu) {
            let rise = last.saturating_sub(first);
            cpu.interrupts = cpu.interrupts.saturating_add(rise);
        }
    }
    Ok(cpus)
}

/// The CPUs of recordings.
type Cpus<'a> = &'a BTreeMap<u32, Cpu>;

/// The CPUs whose cost rose, the most first.
pub(super) fn compare(fast: &[Cpus], slow: &[Cpus]) -> Vec<CpuCost> {
    let sum = |runs: &[Cpus], cpu: u32| {
        let of_cpu = runs.iter().filter_map(|cpus| cpus.get(&cpu));
        of_cpu.fold(Cpu::default(), |a, b| Cpu {
            kernel_ms: a.kernel_ms.saturating_add(b.kernel_ms),
            packets: a.packets.saturating_add(b.packets),
            interrupts: a.interrupts.saturating_add(b.interrupts),
        })
    };
    let per = |ms: u64, n: u64| {
        let us = ratio(ms as f64 * 1e3, n as f64);
        us.filter(|_| n >= MIN_COUNT).map(rounded)
    };
    let cpus: std::collections::BTreeSet<u32> = fast
        .iter()
        .chain(slow)
        .flat_map(|cpus| cpus.keys().copied())
        .collect();
    let costs = cpus.into_iter().filter_map(|cpu| {
        let (f, s) = (sum(fast, cpu), sum(slow, cpu));
        let fast_packet = per(f.kernel_ms, f.packets);
        let slow_packet = per(s.kernel_ms, s.packets);
        let fast_interrupt = per(f.kernel_ms, f.interrupts);
        let slow_interrupt = per(s.kernel_ms, s.interrupts);
        let rose = |fast: Option<f64>, slow: Option<f64>| ratio(slow?, fast?);
        let packet = rose(fast_packet, slow_packet);
        let interrupt = rose(fast_interrupt, slow_interrupt);
        Some(CpuCost {
            cpu,
            fast_us_per_packet: fast_packet,
            slow_us_per_packet: slow_packet,
            fast_us_per_interrupt: fast_interrupt,
            slow_us_per_interrupt: slow_interrupt,
            ratio: rounded(packet.into_iter().chain(interrupt).reduce(f64::max)?),
        })
    });
    let mut costs: Vec<CpuCost> = costs.collect();
    costs.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    costs
}
