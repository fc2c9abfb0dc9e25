//! Which network devices of a namespace sent, and how fast.

use ahash::AHashMap;
use recording::tables::Resource;
use recording::{Error, Recording, RowRef, Text};

/// Devices followed; a host with many containers has thousands.
const MAX_DEVICES: usize = 1 << 14;
/// Slower than this is background: neighbour discovery, keep-alives. Bytes per second.
const BACKGROUND: f64 = 1_000.0;

/// Bytes sent per device.
#[derive(Debug, Default)]
pub struct Devices {
    by_netns: AHashMap<u32, AHashMap<Text, Sent>>,
    /// How many there are.
    known: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    first: (u64, f64),
    last: (u64, f64),
    row: RowRef,
}

impl Devices {
    pub(crate) fn read(recording: &Recording) -> Result<Devices, Error> {
        let mut devices = Devices::default();
        for batch in recording.scan::<Resource>()? {
            for (at, row) in batch?.rows() {
                if &*row.resource == "network" && &*row.metric == "tx_bytes" {
                    devices.add(at, row);
                }
            }
        }
        Ok(devices)
    }

    fn add(&mut self, at: RowRef, row: Resource) {
        let of_netns = self.by_netns.entry(row.netns).or_default();
        let point = (row.time_ns, row.value);
        if let Some(sent) = of_netns.get_mut(&row.instance) {
            (sent.last, sent.row) = (point, at);
        } else if self.known < MAX_DEVICES {
            self.known += 1;
            let sent = Sent {
                first: point,
                last: point,
                row: at,
            };
            of_netns.insert(row.instance, sent);
        }
    }

    /// The devices other than loopback that sent: name, bytes per second, a row.
    pub fn sending(&self, netns: u32) -> Vec<(Text, f64, RowRef)> {
        let of_netns = self.by_netns.get(&netns).into_iter().flatten();
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
