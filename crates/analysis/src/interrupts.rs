//! Interrupts of devices by CPU: the difference between the first and the last reading.

use recording::tables::Interrupt;
use recording::{RowRef, Text};

use crate::bounded::{BoundedTree, Interest};

/// Lines of CPUs followed: 1,000 vectors that 64 CPUs share.
const MAX_LINES: usize = 1 << 16;

/// Every line that something is behind, on every CPU.
#[derive(Debug, Default)]
pub struct Interrupts {
    by_cpu: BoundedTree<(Text, u32), Counted, MAX_LINES>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    first: u64,
    last: u64,
    rows: u64,
    row: RowRef,
}

/// By how often.
impl Interest for Counted {
    fn interest(&self) -> u64 {
        self.last.saturating_sub(self.first)
    }
    fn counted(&self) -> u64 {
        self.rows
    }
}

impl Interrupts {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_cpu.folded()
    }

    /// Takes a row.
    pub(crate) fn add(&mut self, at: RowRef, row: &Interrupt) {
        if &*row.kind != "irq" || row.device.is_empty() {
            return;
        }
        let key = (row.device.clone(), row.cpu);
        let counted = self.by_cpu.slot(key, || Counted {
            first: row.count,
            last: row.count,
            rows: 0,
            row: at,
        });
        (counted.last, counted.row) = (row.count, at);
        counted.rows += 1;
    }

    /// What is behind each line, on which CPU, how often it came, and the last row.
    pub fn all(&self) -> impl Iterator<Item = (&Text, u32, u64, RowRef)> {
        let all = self.by_cpu.iter();
        all.map(|((device, cpu), n)| (device, *cpu, n.last.saturating_sub(n.first), n.row))
    }
}
