//! The requests of every service, as their rows come.

use std::collections::BTreeMap;

use recording::tables::{Exchange, Request, RequestTime};
use recording::{Error, Recording, RowRef, Timed};

use super::exchange::{Slepts, Slow};
use super::exchanged::{add_requests, exchanged_ns};
use super::exchanges::Exchanges;
use super::requests::{Requests, Sums};
use super::service::ServiceKey;
use super::state::Role;
use crate::bounded::BoundedTree;
use crate::listeners::{Listener, Listeners};
use crate::place::Endpoint;
use crate::waits::Waits;

/// Services whose requests are kept apart; those of further ones are counted.
const MAX_SERVICES: usize = 1 << 14;

/// The requests of at most `MOST` services, by where they came to or went, as their rows come. Beyond that, the
/// services whose exchanges took longest are kept.
#[derive(Debug, Default)]
pub struct ServiceRequests<const MOST: usize> {
    all: BoundedTree<ServiceKey, Sums, MOST>,
}

/// The requests of every service of a recording.
pub(crate) type AllRequests = ServiceRequests<MAX_SERVICES>;

impl<const MOST: usize> ServiceRequests<MOST> {
    pub(crate) fn read(recording: &Recording) -> Result<ServiceRequests<MOST>, Error> {
        let mut all = ServiceRequests::default();
        for batch in recording.scan::<Request>()? {
            for (at, row) in batch?.rows() {
                all.add(Some(at), &row);
            }
        }
        for batch in recording.scan::<RequestTime>()? {
            for (_, row) in batch?.rows() {
                all.time(&row);
            }
        }
        for batch in recording.scan::<Exchange>()? {
            for (at, row) in batch?.rows() {
                all.slow(Some(at), row);
            }
        }
        Ok(all)
    }

    /// Exchanges of services that found no room.
    pub fn folded(&self) -> u64 {
        self.all.folded()
    }

    /// How many exchanges there were; one between two programs of this host counts once, though both ends record it.
    pub(crate) fn count(&self) -> u64 {
        let of = |server: bool| {
            let all = self.all.iter();
            let all = all.filter(|((_, role, _), _)| (*role == Role::Server) == server);
            all.fold(0, |sum: u64, (_, sums)| {
                sum.saturating_add(sums.all.exchanges)
            })
        };
        of(true).max(of(false))
    }

    /// The requests of a second, and its row where they were recorded.
    pub fn add(&mut self, at: Option<RowRef>, row: &Request) {
        let key = key(row.netns, &row.role, Endpoint::new(row.addr, row.port));
        let sums = self.all.slot(key, Sums::default);
        add_requests(&mut sums.all, row);
        sums.silences.add(row);
        let answered = (row.exchanges > 0).then_some(row.time_ns);
        sums.answered_ns = sums.answered_ns.max(answered);
        sums.given_up_in += u64::from(row.given_up > Some(0));
        sums.busiest = sums.busiest.max(Some((exchanged_ns(row), at)));
    }

    /// How long some of them took.
    pub fn time(&mut self, row: &RequestTime) {
        let key = key(row.netns, &row.role, Endpoint::new(row.addr, row.port));
        let sums = self.all.slot(key, Sums::default);
        match row.what {
            Timed::Response => sums.response.add(row),
            Timed::Think => sums.think.add(row),
            Timed::Unknown(_) => {}
        }
    }

    /// One of the slowest, and its row where it was recorded.
    pub fn slow(&mut self, row_at: Option<RowRef>, row: Exchange) {
        let at = match row.role {
            recording::Role::Server => Endpoint::new(row.local_addr, row.local_port),
            _ => Endpoint::new(row.remote_addr, row.remote_port),
        };
        let sums = self.all.slot(key(row.netns, &row.role, at), Sums::default);
        sums.keep_slowest([(row_at, row)]);
    }

    /// Adds those of the seconds that follow.
    pub fn follow<const OTHER: usize>(&mut self, later: &ServiceRequests<OTHER>) {
        for (key, sums) in later.all.iter() {
            self.all.slot(*key, Sums::default).follow(sums);
        }
    }

    /// Those of each service.
    pub(crate) fn by_service(
        &self,
        start_ns: u64,
        listeners: &Listeners,
        waits: &Waits,
    ) -> BTreeMap<ServiceKey, Requests> {
        self.told(
            start_ns,
            |netns, at| listener_at(listeners, netns, at),
            |x| Slepts::during(waits, x),
        )
    }

    /// The same, to be judged.
    pub(super) fn exchanges(&self, listeners: &Listeners) -> Vec<Exchanges> {
        let merged = self.merged(|netns, at| listener_at(listeners, netns, at));
        let services = merged.into_iter();
        services
            .map(|(key, sums)| Exchanges::of(key, sums))
            .collect()
    }

    /// Those of each service. `listener` maps the local address of a connection to where its server listens, `waits`
    /// gives what the thread of an exchange waited for.
    pub fn told(
        &self,
        start_ns: u64,
        listener: impl Fn(u32, Endpoint) -> Endpoint,
        waits: impl Fn(&Exchange) -> Slepts,
    ) -> BTreeMap<ServiceKey, Requests> {
        let slow = |x: &Exchange| Slow::of(start_ns, x, waits(x));
        let told = self.merged(listener).into_iter();
        told.map(|(key, sums)| (key, sums.told(key.1, slow)))
            .collect()
    }

    /// By service: the requests of a listener at any address are recorded under the address that they came to.
    fn merged(&self, listener: impl Fn(u32, Endpoint) -> Endpoint) -> BTreeMap<ServiceKey, Sums> {
        let mut merged: BTreeMap<ServiceKey, Sums> = BTreeMap::new();
        for ((netns, role, at), sums) in self.all.iter() {
            let at = match role {
                Role::Server => listener(*netns, *at),
                Role::Client | Role::Unknown => *at,
            };
            merged.entry((*netns, *role, at)).or_default().absorb(sums);
        }
        merged
    }
}

/// Where the server of a connection with this local address listens.
fn listener_at(listeners: &Listeners, netns: u32, at: Endpoint) -> Endpoint {
    let of_port = listeners.at_port(netns, at.port);
    let exact = of_port.clone().find(|l| l.local == at);
    // A listener of both families has the address of IPv6.
    let like = |l: &&Listener| l.local.addr.ip().is_ipv4() == at.addr.ip().is_ipv4();
    let mut any = of_port.filter(|l| l.local.addr.ip().is_unspecified());
    let mut own = any.clone().filter(like);
    exact
        .or_else(|| own.next())
        .or_else(|| any.next())
        .map_or(at, |l| l.local)
}

fn key(netns: u32, role: &recording::Role, at: Endpoint) -> ServiceKey {
    let role = match role {
        recording::Role::Server => Role::Server,
        recording::Role::Client => Role::Client,
        recording::Role::Unknown(_) => Role::Unknown,
    };
    (netns, role, at)
}
