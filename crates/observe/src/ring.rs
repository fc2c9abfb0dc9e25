//! What programs with a ring buffer share: draining it, and counting what found it full.

use std::io;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use crate::error::{Error, bpf_error};

/// A wakeup per record costs a third of the connection rate, a timer does not. At 12,000
/// connections a second this leaves the default ring nine tenths empty.
pub const DRAIN_EVERY: Duration = Duration::from_millis(50);
/// Losses are said at most this late.
pub const LOOK_FOR_LOSSES_EVERY: Duration = Duration::from_secs(1);
/// The words for the `health` table.
pub const RING_FULL: &str = "the ring buffer was full; record with a larger --ring-kib";

/// A ring; each `drain` hands the records that are in it to `each`.
pub fn ring<'r>(
    map: &dyn MapCore,
    mut each: impl FnMut(&[u8]) + 'r,
) -> Result<RingBuffer<'r>, Error> {
    let mapping = |e: libbpf_rs::Error| Error::Bpf {
        what: "mapping the ring buffer".into(),
        why: bpf_error(&e),
    };
    let mut ring = RingBufferBuilder::new();
    ring.add(map, move |bytes| {
        each(bytes);
        0
    })
    .map_err(mapping)?;
    ring.build().map_err(mapping)
}

/// Records taken before whoever drains looks at what else there is to do: CPUs that fill the ring faster than one thread
/// empties it would keep it from sealing, and from ending.
const AT_ONCE: usize = 1 << 18;

/// Takes what is in the ring; whether there may be more. (Not `poll`: records without a wakeup never make it return.)
pub fn drain(ring: &RingBuffer) -> Result<bool, Error> {
    match ring.consume_raw_n(AT_ONCE) {
        n @ 0.. => Ok(n as usize >= AT_ONCE),
        errno => Err(Error::System {
            what: "reading the ring buffer".into(),
            why: io::Error::from_raw_os_error(-errno),
        }),
    }
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
