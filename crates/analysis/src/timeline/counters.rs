//! How fast counters rose over time.

use recording::tables::Counter;
use recording::{Error, Recording, Text};

use super::{Amounts, Axis};
use crate::bounded::BoundedTree;

/// Namespaces whose samples are kept apart; a host has a few hundred.
const MAX_NAMESPACES: usize = 1 << 16;
/// The counters of a sample are read within a few ms of each other.
const ONE_SAMPLE_NS: u64 = 50_000_000;

/// A counter: its namespace, group and name.
pub type CounterName = (u32, Text, Text);

/// What rose over time.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Sent by all namespaces together, headers of IP included, Mbit.
    pub sent: Amounts,
    /// Received, the same.
    pub received: Amounts,
    /// The counters that were asked for, in their order.
    pub of: Vec<Amounts>,
    /// Rows of further namespaces, which are in none of these.
    pub folded: u64,
}

/// What the namespaces sent and received, and how fast these counters rose.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn counters(recording: &Recording, axis: Axis, of: &[CounterName]) -> Result<Rates, Error> {
    let mut rates = Rates {
        sent: axis.amounts(),
        received: axis.amounts(),
        of: vec![axis.amounts(); of.len()],
        folded: 0,
    };
    // Per namespace, the times of the previous and of this sample, ns.
    let mut samples: BoundedTree<u32, (u64, u64), MAX_NAMESPACES> = BoundedTree::default();
    for batch in recording.scan::<Counter>()? {
        for (_, c) in batch?.rows() {
            let Some(sample) = samples.first_come(c.netns, || (c.time_ns, c.time_ns)) else {
                continue;
            };
            if c.time_ns > sample.1.saturating_add(ONE_SAMPLE_NS) {
                *sample = (sample.1, c.time_ns);
            }
            let (from, to) = *sample;
            let Some(delta) = c.delta.filter(|_| from < to) else {
                continue;
            };
            let mbit = delta as f64 * 8e-6;
            match (&*c.group, &*c.name) {
                ("IpExt", "OutOctets") => rates.sent.spread(from, to, mbit),
                ("IpExt", "InOctets") => rates.received.spread(from, to, mbit),
                _ => {}
            }
            let same = |o: &CounterName| o.0 == c.netns && o.2 == c.name && o.1 == c.group;
            if let Some(place) = of.iter().position(same) {
                rates.of[place].spread(from, to, delta as f64);
            }
        }
    }
    rates.folded = samples.folded();
    Ok(rates)
}
