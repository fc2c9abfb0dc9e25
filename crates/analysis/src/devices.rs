//! Which network devices of a namespace sent, and how fast.

use recording::tables::Resource;
use recording::{RowRef, Text};

use crate::bounded::{BoundedTree, Interest};

/// Devices followed; a host with many containers has thousands.
const MAX_DEVICES: usize = 1 << 14;
/// Slower than this is background: neighbour discovery, keep-alives. Bytes per second.
const BACKGROUND: f64 = 1_000.0;

/// Bytes sent per device.
#[derive(Debug, Default)]
pub struct Devices {
    by_name: BoundedTree<(u32, Text), Sent, MAX_DEVICES>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    first: (u64, f64),
    last: (u64, f64),
    rows: u64,
    row: RowRef,
}

/// By what it sent.
impl Interest for Sent {
    fn interest(&self) -> u64 {
        (self.last.1 - self.first.1).max(0.0) as u64
    }
    fn counted(&self) -> u64 {
        self.rows
    }
}

impl Devices {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_name.folded()
    }

    /// Takes a row.
    pub(crate) fn add(&mut self, at: RowRef, row: &Resource) {
        if &*row.resource != "network" || &*row.metric != "tx_bytes" {
            return;
        }
        let point = (row.time_ns, row.value);
        let sent = self
            .by_name
            .slot((row.netns, row.instance.clone()), || Sent {
                first: point,
                last: point,
                rows: 0,
                row: at,
            });
        (sent.last, sent.row) = (point, at);
        sent.rows += 1;
    }

    /// The devices other than loopback that sent: name, bytes per second, a row.
    pub fn sending(&self, netns: u32) -> Vec<(Text, f64, RowRef)> {
        let from = self.by_name.range((netns, Text::default())..);
        let of_netns = from.take_while(|((of, _), _)| *of == netns);
        let of_netns = of_netns.map(|((_, device), sent)| (device, sent));
        let rates = of_netns.filter(|(device, _)| &***device != "lo");
        let rates = rates.filter_map(|(device, sent)| {
            let ns = sent.last.0.saturating_sub(sent.first.0);
            let bytes = sent.last.1 - sent.first.1;
            let rate = super::stats::ratio(bytes * 1e9, ns as f64)?;
            (rate >= BACKGROUND).then(|| (device.clone(), rate, sent.row))
        });
        let mut rates: Vec<_> = rates.collect();
        rates.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rates
    }
}
