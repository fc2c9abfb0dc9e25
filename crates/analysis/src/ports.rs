//! Local ports in use per destination: when first counted, and at most.

use recording::tables::PortUse;
use recording::{Addr, Error, Recording, RowRef};

use super::place::Endpoint;
use super::stats::ratio;
use crate::bounded::{BoundedMap, Interest};

/// Destinations followed; the recorder counts fewer.
const MAX_DESTINATIONS: usize = 100_000;

/// From where, in which namespace, to where.
pub type Path = (u32, Addr, Endpoint);

/// Every destination that was counted.
#[derive(Debug, Default)]
pub struct Ports {
    by_path: BoundedMap<Path, Use, MAX_DESTINATIONS>,
}

/// Ports in use to one destination.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// When first counted.
    pub first: Counted,
    /// When most were in use.
    pub most: Counted,
    /// The range that ports are chosen from, both ends included.
    pub range: (u16, u16),
    /// Ports that connect() may choose; at least one.
    pub capacity: u64,
    /// How often they were counted.
    times: u64,
}

impl Use {
    /// The largest share in use of the ports that connect() may choose.
    pub fn share(&self) -> Option<f64> {
        ratio(self.most.used as f64, self.capacity as f64)
    }
}

/// Ports that connect() may choose: the range, without those set aside.
pub fn choosable(row: &PortUse) -> u64 {
    let range = u64::from(row.range_high.saturating_sub(row.range_low)) + 1;
    range.saturating_sub(row.reserved.into())
}

/// By how near it came to the last port.
impl Interest for Use {
    fn interest(&self) -> u64 {
        self.most.used.saturating_mul(1_000) / self.capacity
    }
    fn counted(&self) -> u64 {
        self.times
    }
}

/// One count.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The row.
    pub row: RowRef,
    /// When it was counted.
    pub time_ns: u64,
    /// Local ports in use to the destination.
    pub used: u64,
    /// Of those, in TIME_WAIT.
    pub time_wait: u64,
}

impl Ports {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_path.folded()
    }

    pub(crate) fn read(recording: &Recording) -> Result<Ports, Error> {
        let mut ports = Ports::default();
        for batch in recording.scan::<PortUse>()? {
            for (at, row) in batch?.rows() {
                ports.add(at, &row);
            }
        }
        Ok(ports)
    }

    fn add(&mut self, at: RowRef, row: &PortUse) {
        // Such a row is only there for the TIME_WAITs of a server here: its client's ports are not of this range.
        if row.ports_used == 0 && row.server_time_wait > Some(0) {
            return;
        }
        let to = Endpoint::new(row.remote_addr, row.remote_port);
        let path = (row.netns, row.local_addr, to);
        let now = Counted {
            row: at,
            time_ns: row.time_ns,
            used: row.ports_used.into(),
            time_wait: row.time_wait.into(),
        };
        let known = self.by_path.slot(path, || Use {
            first: now,
            most: now,
            range: (row.range_low, row.range_high),
            capacity: choosable(row).max(1),
            times: 0,
        });
        known.times += 1;
        if now.used > known.most.used {
            known.most = now;
        }
    }

    /// The fullest source of a namespace towards a destination.
    pub fn most(&self, netns: u32, to: Endpoint) -> Option<&Use> {
        let of_destination = self.by_path.iter();
        let of_destination = of_destination.filter(|((n, _, d), _)| *n == netns && *d == to);
        of_destination.map(|(_, u)| u).max_by_key(|u| u.most.used)
    }

    /// Each destination with the use of ports to it.
    pub fn all(&self) -> impl Iterator<Item = (&Path, &Use)> {
        self.by_path.iter()
    }
}
