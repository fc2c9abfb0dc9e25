//! What each CPU did, and its softnet: the difference between the first and the last reading.

use std::cmp::Reverse;

use recording::tables::Cpu as Row;
use recording::{Error, Recording, RowRef};

use super::stats::ratio;
use crate::bounded::BoundedTree;

/// CPUs followed; NR_CPUS is 8192 at most.
const MAX_CPUS: usize = 8_192;

/// Every CPU, by number.
#[derive(Debug, Default)]
pub struct Cpus {
    by_number: BoundedTree<u32, [(Row, RowRef); 2], MAX_CPUS>,
}

/// What one CPU did during the recording.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// As the kernel counts them.
    pub number: u32,
    /// What it did.
    pub spent: CpuTimes,
    /// Share of its time with nothing to do.
    pub idle: f64,
    /// Times that the budget of a softirq ran out with packets left.
    pub squeezed: u64,
    /// Packets taken from its backlog.
    pub processed: u64,
    /// Packets that found its backlog full.
    pub dropped: u64,
    /// The first row and the last.
    pub rows: [RowRef; 2],
}

/// Time of a CPU by what it did, ms: since boot, or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode.
    pub user_ms: u64,
    /// In user mode, at a positive nice value.
    pub nice_ms: u64,
    /// In the kernel.
    pub system_ms: u64,
    /// Idle while something waited for a disk.
    pub iowait_ms: u64,
    /// In interrupts.
    pub irq_ms: u64,
    /// In softirqs.
    pub softirq_ms: u64,
    /// Taken by the hypervisor.
    pub steal_ms: u64,
    /// Idle.
    pub idle_ms: u64,
}

impl CpuTimes {
    /// The times of a reading.
    pub fn of(row: &Row) -> CpuTimes {
        CpuTimes {
            user_ms: row.user_ms,
            nice_ms: row.nice_ms,
            system_ms: row.system_ms,
            iowait_ms: row.iowait_ms,
            irq_ms: row.irq_ms,
            softirq_ms: row.softirq_ms,
            steal_ms: row.steal_ms,
            idle_ms: row.idle_ms,
        }
    }

    /// Combines both, field by field.
    fn both(self, other: CpuTimes, of: fn(u64, u64) -> u64) -> CpuTimes {
        CpuTimes {
            user_ms: of(self.user_ms, other.user_ms),
            nice_ms: of(self.nice_ms, other.nice_ms),
            system_ms: of(self.system_ms, other.system_ms),
            iowait_ms: of(self.iowait_ms, other.iowait_ms),
            irq_ms: of(self.irq_ms, other.irq_ms),
            softirq_ms: of(self.softirq_ms, other.softirq_ms),
            steal_ms: of(self.steal_ms, other.steal_ms),
            idle_ms: of(self.idle_ms, other.idle_ms),
        }
    }

    /// What came since an earlier reading.
    pub fn since(self, before: CpuTimes) -> CpuTimes {
        self.both(before, u64::saturating_sub)
    }

    /// Together with those of another CPU.
    pub fn and(self, other: CpuTimes) -> CpuTimes {
        self.both(other, u64::saturating_add)
    }

    /// Time with nothing to do, whether or not something waited for a disk.
    pub fn nothing_ms(self) -> u64 {
        self.idle_ms.saturating_add(self.iowait_ms)
    }

    /// Time with something to do.
    pub fn busy_ms(self) -> u64 {
        let user = self.user_ms.saturating_add(self.nice_ms);
        let interrupts = self.irq_ms.saturating_add(self.softirq_ms);
        let kernel = self.system_ms.saturating_add(interrupts);
        user.saturating_add(kernel).saturating_add(self.steal_ms)
    }

    /// All of it.
    pub fn total_ms(self) -> u64 {
        self.busy_ms().saturating_add(self.nothing_ms())
    }
}

impl Cpus {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_number.folded()
    }

    /// Those of a recording.
    ///
    /// # Errors
    /// When its table cannot be read.
    pub fn read(recording: &Recording) -> Result<Cpus, Error> {
        let mut cpus = Cpus::default();
        for batch in recording.scan::<Row>()? {
            for (at, row) in batch?.rows() {
                let first = || [(row.clone(), at), (row.clone(), at)];
                if let Some(known) = cpus.by_number.first_come(row.cpu, first) {
                    known[1] = (row, at);
                }
            }
        }
        Ok(cpus)
    }

    /// Each, by number.
    pub fn all(&self) -> impl Iterator<Item = Cpu> {
        self.by_number
            .iter()
            .map(|(number, [(first, begin), (last, end)])| {
                let rise = |of: fn(&Row) -> u64| of(last).saturating_sub(of(first));
                let spent = CpuTimes::of(last).since(CpuTimes::of(first));
                let ns = last.time_ns.saturating_sub(first.time_ns);
                Cpu {
                    number: *number,
                    spent,
                    idle: ratio(spent.nothing_ms() as f64 * 1e6, ns as f64)
                        .unwrap_or(0.0)
                        .min(1.0),
                    squeezed: rise(|r| r.softnet_squeezed.unwrap_or(0)),
                    processed: rise(|r| r.softnet_processed.unwrap_or(0)),
                    dropped: rise(|r| r.softnet_dropped.unwrap_or(0)),
                    rows: [*begin, *end],
                }
            })
    }

    /// The numbers of the CPUs that were busy longest, at most this many, in order.
    pub fn busiest(&self, most: usize) -> Vec<u32> {
        let mut all: Vec<Cpu> = self.all().collect();
        all.sort_by_key(|cpu| Reverse(cpu.spent.busy_ms()));
        let mut numbers: Vec<u32> = all.iter().take(most).map(|cpu| cpu.number).collect();
        numbers.sort_unstable();
        numbers
    }
}
