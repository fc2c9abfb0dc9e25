//! Callers that try port after port of an address: they look for what listens, and lack no service.

use std::collections::BTreeMap;

use analysis::Endpoint;
use recording::Addr;

use crate::limits;
use crate::places::refusals::Refusals;

/// Who asks whom: a process here by its namespace and program, or an address elsewhere; and the address that is asked.
type Way = (Caller, Addr);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    Here(u32, String),
    Elsewhere(Addr),
}

/// Closed ports by who tried them, and the first place of those that the same callers tried.
pub(super) struct Scans {
    ports: BTreeMap<Way, u64>,
    first: BTreeMap<Vec<Way>, Endpoint>,
}

/// Of a place: how many closed ports its callers tried, and whether it is the first of these.
pub(super) struct Scanned {
    pub(super) ports: u64,
    pub(super) is_first: bool,
}

impl Scans {
    pub(super) fn of(places: &[Refusals]) -> Scans {
        let (mut ports, mut first) = (BTreeMap::new(), BTreeMap::new());
        for place in places {
            let ways = ways(place);
            for way in &ways {
                *ports.entry(way.clone()).or_default() += 1;
            }
            first.entry(ways).or_insert(place.at);
        }
        Scans { ports, first }
    }

    /// What its callers tried beside it; `None` where one of them tries it more often than it tries others: who misses a
    /// service comes back to it.
    pub(super) fn at(&self, place: &Refusals) -> Option<Scanned> {
        let ways = ways(place);
        let fewest = ways.iter().map(|way| self.ports[way]).min()?;
        let scanned = fewest >= limits::ENOUGH.count() && fewest > place.refused();
        scanned.then(|| Scanned {
            ports: fewest,
            is_first: self.first.get(&ways) == Some(&place.at),
        })
    }
}

fn ways(place: &Refusals) -> Vec<Way> {
    let here = place.clients().map(|c| {
        let comm = place.story.owner(c).map(|(_, comm)| comm);
        Caller::Here(c.netns, comm.unwrap_or_default())
    });
    let remotes = place.groups.iter().flat_map(|g| &g.remotes);
    let elsewhere = remotes.map(|r| Caller::Elsewhere(r.addr));
    let mut callers: Vec<Caller> = if place.ids.is_empty() {
        elsewhere.collect()
    } else {
        here.collect()
    };
    callers.sort();
    callers.dedup();
    callers.into_iter().map(|c| (c, place.at.addr)).collect()
}
