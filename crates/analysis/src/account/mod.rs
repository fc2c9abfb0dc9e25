//! The account of time: where the time of the connections to each service went.

mod ledger;
mod state;

use std::collections::BTreeMap;

use recording::SourceName;
use serde::{Deserialize, Serialize};

pub(crate) use ledger::Ledger;
pub use state::{Role, Spent, State};

use crate::bounded::BoundedTree;
use crate::conn::{Conn, Outcome, Side};
use crate::place::{Endpoint, Netns};
use crate::{Story, words};

/// Services told apart; the ends of further ones are counted.
const MAX_SERVICES: usize = 1 << 14;
/// With so many samples of its short connections, the time of those that were missed is shared out as
/// they say: each share is then off by 10 percentage points at most, two times in three.
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
    /// A process that holds the listener, or that connects; null when none is known.
    pub pid: Option<u32>,
    /// Its command name.
    pub comm: Option<String>,
    /// Ends of connections, attempts to connect included.
    pub ends: u64,
    /// Of those, such that moved bulk both ways at once: who owes cannot be said of them.
    pub duplex: u64,
    /// Samples that it rests on.
    pub samples: u64,
    /// Time of all ends together, s.
    pub total_s: f64,
    /// The same by state, s: the parts sum to the total.
    pub spent_s: Spent,
}

/// Of one service, as it comes together.
#[derive(Debug, Default)]
struct Sums {
    owner: Option<(u32, String)>,
    ends: u64,
    duplex: u64,
    spent: Spent,
    /// Samples of all ends, and of those that were seen to be established, by state.
    samples: u64,
    short: Spent,
}

/// Where time went, the services that waited longest first; and how many ends found no room.
pub fn account(story: &Story) -> (Vec<Service>, u64) {
    let told = story.health.sees(&SourceName::Sockets);
    let mut all: BoundedTree<(u32, Role, Endpoint), Sums, MAX_SERVICES> = BoundedTree::default();
    for conn in &story.conns {
        let (role, at) = place(story, conn, told);
        let Some(sums) = all.slot((conn.netns, role, at), Sums::default) else {
            continue;
        };
        sums.ends += 1;
        sums.add(story, conn, role);
    }
    let folded = all.folded();
    let services = all.iter().map(|((netns, role, at), sums)| {
        let mut spent = sums.spent;
        if sums.short.total() >= ENOUGH_SAMPLES {
            spent.share_out(&sums.short);
        }
        let owner = sums.owner.clone();
        let (pid, comm) = owner.unzip();
        let service = Service {
            netns: story.netns(*netns),
            role: *role,
            at: *at,
            pid,
            comm,
            ends: sums.ends,
            duplex: sums.duplex,
            samples: sums.samples,
            total_s: words::rounded(spent.total() as f64 / 1e9),
            spent_s: spent,
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

/// A service as an end belongs to one: its namespace, the end's role, and where it listens or connects to.
pub type ServiceKey = (u32, Role, Endpoint);

/// The service of an end: the listener that made it, or where it connects to.
pub fn service(story: &Story, conn: &Conn) -> ServiceKey {
    let (role, at) = place(story, conn, story.health.sees(&SourceName::Sockets));
    (conn.netns, role, at)
}

fn place(story: &Story, conn: &Conn, listeners_told: bool) -> (Role, Endpoint) {
    let listener = conn
        .listener
        .and_then(|i| story.listeners.all.get(i as usize));
    match conn.side {
        Side::Opened => (Role::Client, conn.remote),
        Side::Accepted => (Role::Server, listener.map_or(conn.local, |l| l.local)),
        Side::Older => match listener {
            Some(listener) => (Role::Server, listener.local),
            None if conn.pid.is_some() || listeners_told => (Role::Client, conn.remote),
            None => (Role::Unknown, conn.remote),
        },
    }
}

impl Sums {
    fn add(&mut self, story: &Story, conn: &Conn, role: Role) {
        if self.owner.is_none() {
            self.owner = story.owner(conn);
        }
        self.spent.absorb(&spent(story, conn, role));
        if let Some(ledger) = story.samples(conn).and_then(|s| s.ledger.as_ref()) {
            let instants = ledger.instants(role);
            self.samples += instants.total();
            self.duplex += u64::from(ledger.duplex);
            if conn.established_ns.is_some() {
                self.short.absorb(&instants);
            }
        }
    }
}

/// Where the time of one end went.
pub fn of_end(story: &Story, conn: &Conn) -> Spent {
    let (role, _) = place(story, conn, story.health.sees(&SourceName::Sockets));
    spent(story, conn, role)
}

fn spent(story: &Story, conn: &Conn, role: Role) -> Spent {
    let until = conn.ended_ns.unwrap_or(story.end_ns).min(story.end_ns);
    let established = match (conn.side, conn.established_ns, conn.outcome) {
        (_, Some(ns), _) => ns,
        // It never was.
        (_, None, Outcome::Pending | Outcome::Failed) => until,
        (Side::Older, ..) => story.start_ns,
        (_, None, _) => conn.start_ns,
    };
    let mut spent = match story.samples(conn).and_then(|s| s.ledger.as_ref()) {
        Some(ledger) => ledger.spent(role, until),
        None => {
            let mut spent = Spent::default();
            spent.add(State::Unsampled, until.saturating_sub(established));
            spent
        }
    };
    if conn.side == Side::Opened {
        let took = established.saturating_sub(conn.start_ns);
        spent.add(State::Connecting, took);
    }
    spent
}
