//! A service, and what is summed of its ends.

use crate::bounded::Interest;
use crate::conn::{Conn, Outcome, Sampled, Side};
use crate::listeners::Listener;
use crate::place::Endpoint;

use super::owners::Owners;
use super::queued::Wait;
use super::state::{Role, Spent, State};

/// Services kept apart; with more, the ends of those that waited least are counted.
pub(super) const MAX_SERVICES: usize = 1 << 14;

/// A service as an end belongs to one: its namespace, the end's role, and where it listens or connects to.
pub type ServiceKey = (u32, Role, Endpoint);

/// One service, as it comes together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) owners: Owners,
    pub(super) ends: u64,
    pub(super) duplex: u64,
    pub(super) bytes: u64,
    pub(super) spent: Spent,
    /// Samples of all ends, and of those that were seen to be established, by state.
    pub(super) samples: u64,
    pub(super) short: Spent,
    /// The sum of the shortest round trips of its ends, ns, and the number of ends.
    pub(super) round_trips: (u64, u64),
    /// What its ends wait in queues that transfers fill.
    pub(super) queued: Wait,
    /// The longest that one of its ends was not read, ms.
    pub(super) unread_ms: u32,
}

/// By how long its ends waited for something.
impl Interest for Sums {
    fn interest(&self) -> u64 {
        self.spent.waiting()
    }
    fn counted(&self) -> u64 {
        self.ends
    }
}

impl Sums {
    pub(super) fn absorb(&mut self, other: &Sums) {
        self.owners.absorb(&other.owners);
        self.ends += other.ends;
        self.duplex += other.duplex;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.samples += other.samples;
        self.spent.absorb(&other.spent);
        self.short.absorb(&other.short);
        self.unread_ms = self.unread_ms.max(other.unread_ms);
    }

    /// One more end.
    pub(super) fn add(
        &mut self,
        span: (u64, u64),
        conn: &Conn,
        sampled: Option<&Sampled>,
        role: Role,
    ) {
        self.ends += 1;
        let moved = conn.bytes_acked.saturating_add(conn.bytes_received);
        self.bytes = self.bytes.saturating_add(moved);
        self.spent.absorb(&spent(span, conn, sampled, role));
        if let Some(ledger) = sampled.and_then(|s| s.ledger.as_ref()) {
            let instants = ledger.instants(role);
            self.samples += instants.total();
            self.duplex += u64::from(ledger.duplex);
            self.unread_ms = self.unread_ms.max(ledger.unread_ms);
            if conn.established_ns.is_some() {
                self.short.absorb(&instants);
            }
        }
    }
}

/// The end's role, and where its service listens, with the listener that made it if it is known.
pub(super) fn place_by(
    listener: Option<&Listener>,
    conn: &Conn,
    listeners_told: bool,
) -> (Role, Endpoint) {
    if conn.connects() {
        return (Role::Client, conn.remote);
    }
    match (listener, conn.side) {
        (Some(listener), _) => (Role::Server, listener.local),
        (None, Side::Older) if conn.pid.is_some() || listeners_told => (Role::Client, conn.remote),
        (None, Side::Older) => (Role::Unknown, conn.remote),
        (None, _) => (Role::Server, conn.local),
    }
}

/// Where the time of one end went. `span` is when the recording began and ended.
pub(super) fn spent(span: (u64, u64), conn: &Conn, sampled: Option<&Sampled>, role: Role) -> Spent {
    let (start_ns, end_ns) = span;
    let until = conn.ended_ns.unwrap_or(end_ns).min(end_ns);
    let established = match (conn.side, conn.established_ns, conn.outcome) {
        (_, Some(ns), _) => ns,
        // It never was established.
        (_, None, Outcome::Pending | Outcome::Failed) => until,
        (Side::Older, ..) => start_ns,
        (_, None, _) => conn.start_ns,
    };
    let mut spent = match sampled.and_then(|s| s.ledger.as_ref()) {
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
