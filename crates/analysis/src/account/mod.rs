//! The account of time: where the time of the connections to each service went.

mod by_service;
mod exchange;
mod exchanged;
mod exchanges;
mod folded;
mod histogram;
mod ledger;
mod opened;
mod owed;
mod owners;
mod parts;
mod queued;
mod requests;
mod round_trips;
mod service;
mod silence;
mod state;

use std::collections::BTreeMap;

use recording::SourceName;
use serde::{Deserialize, Serialize};

pub(crate) use by_service::AllRequests;
pub use by_service::ServiceRequests;
pub use exchange::{Slept, Slepts, Slow};
pub use exchanged::{add_requests, exchanged_ns, is_multiplexed};
pub use exchanges::Exchanges;
pub(crate) use folded::FoldedEnds;
pub use folded::Forgotten;
pub use histogram::{Histogram, Percentiles};
pub(crate) use ledger::Ledger;
pub use ledger::STREAM_SEGMENTS;
pub use opened::Opened;
pub use owed::Owed;
pub use parts::{Parts, Thinking, Whose};
pub use requests::Requests;
pub use round_trips::RoundTrips;
pub use service::ServiceKey;
pub use silence::Silence;
pub use state::{Role, Spent, State};

use crate::bounded::BoundedTree;
use crate::conn::{Conn, ConnId, Outcome};
use crate::place::{Endpoint, Netns};
use crate::{Story, Waited, words};
use opened::AllOpened;
use queued::Queued;
use service::{MAX_SERVICES, Sums, place_by, spent};

/// With this many samples of a service's short connections, the time of those that were missed is shared out in
/// proportion to them: each share is then off by 10 percentage points at most, two times in three.
const ENOUGH_SAMPLES: u64 = 25;

/// What the ends of one service on this host spent their time with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "account")]
pub struct Service {
    /// Network namespace of the ends.
    pub netns: Netns,
    /// Whether the ends answer or ask.
    pub role: Role,
    /// Where it listens; of ends that ask: where they connect to.
    pub at: Endpoint,
    /// What this address is called on the recorded host, by `/etc/hosts` or a host name; null when that is not known.
    pub name: Option<String>,
    /// A process that holds the listener, or that connects; null when none is known.
    pub pid: Option<u32>,
    /// Its command name.
    pub comm: Option<String>,
    /// What runs it: its unit, container or pod; null when that is not known.
    pub home: Option<String>,
    /// Ends of connections, attempts to connect included.
    pub ends: u64,
    /// Of those, such that moved bulk both ways at once: who owes cannot be said of them.
    pub duplex: u64,
    /// Bytes that they moved, both ways together, as far as was recorded.
    pub bytes: u64,
    /// The longest that one of its ends was not read after the last of what came in this time, as sampled, ms.
    #[serde(default)]
    pub unread_ms: u32,
    /// Samples that it rests on.
    pub samples: u64,
    /// Time of all ends together, s.
    pub total_s: f64,
    /// The same by state, s: the parts sum to the total.
    pub spent_s: Spent,
    /// The connections that were made during the recording; null where there was none.
    pub opened: Option<Opened>,
    /// Its requests and their answers; null when they were not recorded, or there were none.
    pub requests: Option<Requests>,
}

/// Where time went, the services that waited longest first; and how many ends found no room.
pub fn account(story: &Story) -> (Vec<Service>, u64) {
    let told = story.health.sees(&SourceName::Sockets);
    let queued = Queued::of(&story.conns, &story.transfers);
    let mut all: BoundedTree<ServiceKey, Sums, MAX_SERVICES> = BoundedTree::default();
    let mut opened = AllOpened::default();
    for (id, conn) in story.conns.iter().enumerate() {
        let (role, at) = place(story, conn, told);
        let sums = all.slot((conn.netns, role, at), Sums::default);
        if let Some(pid) = conn.pid {
            sums.owners.add(pid, conn.comm.as_deref().unwrap_or(""), 1);
        } else if sums.owners.is_empty()
            && let Some((pid, comm)) = story.owner(conn)
        {
            sums.owners.add(pid, &comm, 1);
        }
        sums.add(story.span(), conn, story.samples(conn), role);
        opened.add((conn.netns, role, at), conn, story.end_ns);
        if let Some(shortest) = round_trip_ns(story, id as ConnId, conn) {
            if let Some(transfer) = story.transfers.of(id as ConnId) {
                sums.queued.add(queued.beside(conn, transfer));
            }
            sums.round_trips.0 = sums.round_trips.0.saturating_add(shortest);
            sums.round_trips.1 += 1;
        }
    }
    for ((service, _), of_caller) in story.folded_ends.all() {
        all.slot(*service, Sums::default).absorb(of_caller);
    }
    let mut requests = story
        .requests
        .by_service(story.start_ns, &story.listeners, &story.waits);
    // Requests are reported even if none of their connections were kept.
    requests.keys().for_each(|key| {
        all.slot(*key, Sums::default);
    });
    let mut opened = opened.told(story);
    let folded = all.folded() + story.folded_ends.untold();
    let services = all.iter().map(|((netns, role, at), sums)| {
        let mut spent = sums.spent;
        if sums.short.total() >= ENOUGH_SAMPLES {
            spent.share_out(&sums.short);
        }
        let mut asked = requests.remove(&(*netns, *role, *at));
        if let (Some(asked), (ns, ends @ 1..)) = (&mut asked, sums.round_trips) {
            let shortest = ns as f64 / ends as f64 / 1e9;
            let queued = sums.queued.of_each(ends, asked.exchanges);
            asked.round_trip(*role, shortest + queued);
        }
        let (pid, comm) = sums.owners.first().unzip();
        let home = pid.and_then(|pid| story.homes.of(pid));
        let service = Service {
            netns: story.netns(*netns),
            role: *role,
            at: *at,
            name: story.host_names.of(*netns, at.addr).map(String::from),
            pid,
            comm,
            home: home.map(String::from),
            ends: sums.ends,
            duplex: sums.duplex,
            bytes: sums.bytes,
            unread_ms: sums.unread_ms,
            samples: sums.samples,
            total_s: words::rounded(spent.total() as f64 / 1e9),
            spent_s: spent,
            opened: opened.remove(&(*netns, *role, *at)),
            requests: asked,
        };
        (std::cmp::Reverse(spent.waiting()), service)
    });
    // The map is in a fixed order, and so are equals here.
    let mut sorted: BTreeMap<_, Vec<Service>> = BTreeMap::new();
    for (key, service) in services {
        sorted.entry(key).or_default().push(service);
    }
    (sorted.into_values().flatten().collect(), folded)
}

/// The service of an end: the listener that made it, or where it connects to.
pub fn service(story: &Story, conn: &Conn) -> ServiceKey {
    let (role, at) = place(story, conn, story.health.sees(&SourceName::Sockets));
    (conn.netns, role, at)
}

fn place(story: &Story, conn: &Conn, listeners_told: bool) -> (Role, Endpoint) {
    let listener = conn
        .listener
        .and_then(|i| story.listeners.all.get(i as usize));
    place_by(listener, conn, listeners_told)
}

impl Story {
    /// The exchanges of each service, in the order of their places.
    pub fn exchanges(&self) -> &[Exchanges] {
        self.exchanges
            .get_or_init(|| self.requests.exchanges(&self.listeners))
    }

    /// Those of one service.
    pub fn exchanges_of(&self, service: ServiceKey) -> Option<&Exchanges> {
        let all = self.exchanges();
        let at = all.binary_search_by_key(&service, |e| e.service).ok()?;
        all.get(at)
    }

    /// What each service owes when the recording ends, those that owe nothing left out.
    pub fn owed(&self) -> BTreeMap<ServiceKey, Owed> {
        let mut all: BTreeMap<ServiceKey, Owed> = BTreeMap::new();
        for (conn, id) in self.conns.iter().zip(0..) {
            let key = service(self, conn);
            if !matches!(conn.outcome, Outcome::Pending | Outcome::Failed) {
                let owed = all.entry(key).or_default();
                owed.add(id, conn, self.samples(conn), key.1);
            }
        }
        for ended in forgotten(self) {
            all.entry(ended.service).or_default().busy = true;
        }
        all.retain(|_, owed| !owed.ends.is_empty());
        all
    }

    /// The waits of a thread that ended between two moments, as far as they were recorded.
    pub fn waits_of(&self, tid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Waited> {
        self.waits.of(tid, from_ns, to_ns)
    }

    /// The shortest round trip of a connection, ns: that of its handshake, or of a bare acknowledgement.
    pub fn round_trip_ns(&self, id: ConnId, conn: &Conn) -> Option<u64> {
        round_trip_ns(self, id, conn)
    }
}

/// The shortest round trip of a connection: that of its handshake, or of a bare acknowledgement; `None` when
/// none was measured. (An acknowledgement that comes with the answer takes as long as the answer.)
fn round_trip_ns(story: &Story, id: ConnId, conn: &Conn) -> Option<u64> {
    let handshake = conn.connect_ns().filter(|_| conn.syn_retries == 0);
    let shortest = story
        .transfers
        .of(id)
        .map(|t| u64::from(t.min_rtt_us) * 1_000);
    let known = handshake.into_iter().chain(shortest.filter(|ns| *ns > 0));
    known.min()
}

/// The ends that the story does not hold one by one, by service and caller: a share of all ends counts them.
pub fn forgotten(story: &Story) -> impl Iterator<Item = Forgotten> {
    let all = story.folded_ends.all();
    all.map(|((service, pid), sums)| Forgotten {
        service: *service,
        pid: *pid,
        ends: sums.ends,
        spent: sums.spent,
    })
}

/// How many ends of these services are no longer kept one by one: shares of all ends must include them.
pub fn forgotten_ends(story: &Story, of: impl Fn(ServiceKey) -> bool) -> u64 {
    let all = forgotten(story).filter(|f| of(f.service));
    all.fold(0, |sum, f| sum.saturating_add(f.ends))
}

/// Where the time of one end went.
pub fn of_end(story: &Story, conn: &Conn) -> Spent {
    let (role, _) = place(story, conn, story.health.sees(&SourceName::Sockets));
    spent(story.span(), conn, story.samples(conn), role)
}
