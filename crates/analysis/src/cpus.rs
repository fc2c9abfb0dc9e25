//! What each CPU did, and its softnet: the difference between the first and the last reading.

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
    pub number: u32,
    /// Share of its time with nothing to do.
    pub idle: f64,
    /// Times that the budget of a softirq ran out with packets left.
    pub squeezed: u64,
    /// The first row and the last.
    pub rows: [RowRef; 2],
}

impl Cpus {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_number.folded()
    }

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

    pub fn all(&self) -> impl Iterator<Item = Cpu> {
        self.by_number
            .iter()
            .map(|(number, [(first, begin), (last, end)])| {
                let rise = |of: fn(&Row) -> u64| of(last).saturating_sub(of(first));
                let idle = rise(|r| r.idle_ms).saturating_add(rise(|r| r.iowait_ms));
                let ns = last.time_ns.saturating_sub(first.time_ns);
                Cpu {
                    number: *number,
                    idle: ratio(idle as f64 * 1e6, ns as f64).unwrap_or(0.0).min(1.0),
                    squeezed: rise(|r| r.softnet_squeezed.unwrap_or(0)),
                    rows: [*begin, *end],
                }
            })
    }
}
