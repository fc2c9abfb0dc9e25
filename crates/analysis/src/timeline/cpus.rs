//! What CPUs did over time.

use std::collections::BTreeMap;

use recording::tables::Cpu;
use recording::{Error, Recording};

use super::{Amounts, Axis};
use crate::cpus::CpuTimes;

/// What one CPU did, ms.
#[derive(Clone, Debug)]
pub struct Busy {
    /// Its number.
    pub cpu: u32,
    /// Time in which it was not idle.
    pub busy: Amounts,
    /// Time in softirqs.
    pub softirq: Amounts,
    /// All that was accounted, idle or not.
    pub all: Amounts,
    last: Option<(u64, CpuTimes)>,
}

/// What each of these CPUs did, in their order.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn cpus(recording: &Recording, axis: Axis, of: &[u32]) -> Result<Vec<Busy>, Error> {
    let places: BTreeMap<u32, usize> = of.iter().copied().zip(0..).collect();
    let new = |cpu: &u32| Busy {
        cpu: *cpu,
        busy: axis.amounts(),
        softirq: axis.amounts(),
        all: axis.amounts(),
        last: None,
    };
    let mut all: Vec<Busy> = of.iter().map(new).collect();
    if all.is_empty() {
        return Ok(all);
    }
    for batch in recording.scan::<Cpu>()? {
        for (_, row) in batch?.rows() {
            if let Some(place) = places.get(&row.cpu) {
                all[*place].add(&row);
            }
        }
    }
    Ok(all)
}

impl Busy {
    fn add(&mut self, row: &Cpu) {
        let (to, now) = (row.time_ns, CpuTimes::of(row));
        let Some((from, last)) = self.last.replace((to, now)) else {
            return;
        };
        if from < to {
            let spent = now.since(last);
            self.busy.spread(from, to, spent.busy_ms() as f64);
            self.softirq.spread(from, to, spent.softirq_ms as f64);
            self.all.spread(from, to, spent.total_ms() as f64);
        }
    }
}
