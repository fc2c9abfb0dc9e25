//! What programs with a ring buffer share: draining it, and counting what found it full.

use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use crate::error::{Error, bpf_error};
use crate::wire::{Record, read};

/// A ring; each `consume` hands the records that are in it to `each`. (Not `poll`: records without
/// a wakeup never make it return.)
pub fn ring<'r, R: Record + 'r>(
    map: &'r dyn MapCore,
    mut each: impl FnMut(&R) + 'r,
) -> Result<RingBuffer<'r>, Error> {
    let mapping = |e: libbpf_rs::Error| Error::Bpf {
        what: "mapping the ring buffer".into(),
        why: bpf_error(&e),
    };
    let mut ring = RingBufferBuilder::new();
    ring.add(map, move |bytes| {
        if let Some(record) = read::<R>(bytes) {
            each(&record);
        }
        0
    })
    .map_err(mapping)?;
    ring.build().map_err(mapping)
}

/// Takes what is in the ring.
pub fn drain(ring: &RingBuffer) -> Result<(), Error> {
    ring.consume().map_err(|e| Error::Bpf {
        what: "reading the ring buffer".into(),
        why: bpf_error(&e),
    })
}

/// A counter that every CPU keeps for itself, and how far it had come when last looked at.
#[derive(Default)]
pub struct Count {
    /// All so far.
    pub total: u64,
}

impl Count {
    /// What was added to `map[key]` since the last call.
    pub fn news(&mut self, map: &dyn MapCore, key: u32) -> Result<u64, Error> {
        let per_cpu = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
        let per_cpu = per_cpu.map_err(|e| Error::Bpf {
            what: "reading the loss counters".into(),
            why: bpf_error(&e),
        })?;
        let counts = per_cpu.iter().flatten();
        let counts = counts.filter_map(|b| b.first_chunk().map(|b| u64::from_ne_bytes(*b)));
        let total: u64 = counts.sum();
        let news = total.saturating_sub(self.total);
        self.total = total.max(self.total);
        Ok(news)
    }
}
