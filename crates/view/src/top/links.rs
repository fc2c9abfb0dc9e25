//! What goes through interfaces: how their counters grew.

use ahash::AHashMap;
use recording::Text;
use recording::tables::Resource;

/// Counters followed.
const MOST: usize = 1 << 14;

/// What went through an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Link {
    pub(super) rx_bytes: f64,
    pub(super) tx_bytes: f64,
    pub(super) rx_packets: f64,
    pub(super) tx_packets: f64,
    /// Dropped, overrun or in error, either way.
    pub(super) lost: f64,
}

impl Link {
    /// The sum that a metric of the checklist is part of; `None` for what is not shown.
    fn sum(&mut self, metric: &str) -> Option<&mut f64> {
        Some(match metric {
            "rx_bytes" => &mut self.rx_bytes,
            "tx_bytes" => &mut self.tx_bytes,
            "rx_packets" => &mut self.rx_packets,
            "tx_packets" => &mut self.tx_packets,
            "rx_dropped" | "tx_dropped" | "rx_fifo" | "tx_fifo" | "rx_errors" | "tx_errors"
            | "tx_carrier" => &mut self.lost,
            _ => return None,
        })
    }

    pub(super) fn add(&mut self, other: &Link) {
        self.rx_bytes += other.rx_bytes;
        self.tx_bytes += other.tx_bytes;
        self.rx_packets += other.rx_packets;
        self.tx_packets += other.tx_packets;
        self.lost += other.lost;
    }
}

/// Counters of interfaces as they were last recorded: namespace, interface, metric.
#[derive(Debug, Default)]
pub(super) struct LinkCounters(AHashMap<(u32, Text, Text), f64>);

impl LinkCounters {
    /// How much a counter grew since its last row; `None` when there was none, or it is not shown.
    pub(super) fn grew(&mut self, told: &Resource) -> Option<Link> {
        if !told.cumulative || &*told.resource != "network" {
            return None;
        }
        let mut link = Link::default();
        let sum = link.sum(&told.metric)?;
        let key = (told.netns, told.instance.clone(), told.metric.clone());
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            return None;
        }
        let grew = told.value - self.0.insert(key, told.value)?;
        // A counter that went back was reset.
        *sum = grew.max(0.0);
        Some(link)
    }
}
