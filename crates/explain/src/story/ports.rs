//! Local ports in use per destination, when most of them were.

use std::collections::BTreeMap;

use recording::tables::PortUse;
use recording::{Addr, Error, Recording, RowRef};

use super::place::Endpoint;

/// Destinations followed; a busy balancer has some thousand.
const MAX_DESTINATIONS: usize = 65_536;

/// All destinations that hold ports.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    most: BTreeMap<(u32, Addr, Endpoint), Used>,
}

/// The ports that one source holds to one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) ports: u32,
    /// Ports of the range, less those set aside.
    pub(crate) of: u32,
    pub(crate) row: RowRef,
}

impl Ports {
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
        let to = Endpoint::new(row.remote_addr, row.remote_port);
        let key = (row.netns, row.local_addr, to);
        if self.most.len() >= MAX_DESTINATIONS && !self.most.contains_key(&key) {
            return;
        }
        let range = u32::from(row.range_high).saturating_sub(row.range_low.into()) + 1;
        let used = Used {
            ports: row.ports_used,
            of: range.saturating_sub(row.reserved),
            row: at,
        };
        let known = self.most.entry(key).or_insert(used);
        if used.ports > known.ports {
            *known = used;
        }
    }

    /// The fullest source of a namespace towards a destination.
    pub(crate) fn most(&self, netns: u32, to: Endpoint) -> Option<Used> {
        let of_destination = self
            .most
            .iter()
            .filter(|((n, _, d), _)| *n == netns && *d == to);
        of_destination
            .map(|(_, used)| *used)
            .max_by_key(|u| u.ports)
    }
}
