//! Connections that a client closed after a wait in which neither side had said a word: it waited for a greeting, or for
//! the end of a handshake that its server begins.

use std::collections::BTreeMap;

use analysis::account::{self, Role, ServiceKey, State};
use analysis::stats::median;
use analysis::words::{duration, percent};
use analysis::{Conn, ConnId, Outcome, Side, Story};

use crate::finding::{Impact, Step};
use crate::limits;
use crate::lost::{Lost, OfExchanges};
use crate::moment::{Began, Since};
use crate::place::Place;
use crate::places::listener::SHOWN_ROWS;
use crate::say::{Quantity, say};

/// The kernel counts the SYN as a byte acknowledged, and each FIN as one.
const LINUX_SYN_AND_FIN: u64 = 2;
/// See above: what came was the FIN.
const LINUX_FIN: u64 = 1;

/// A service whose clients give up before anybody has spoken.
pub(crate) struct Unspoken<'a> {
    pub(crate) story: &'a Story,
    pub(crate) service: ServiceKey,
    /// Those that were given up, and after how long, ns.
    ends: Vec<(ConnId, u64)>,
    /// Connections of the service that were made and have ended.
    of: u64,
    /// Half of them waited this long, ns.
    usual_ns: u64,
}

/// How long its client had waited when it closed it, ns; `None` if somebody had spoken.
fn waited_ns(conn: &Conn, role: Role) -> Option<u64> {
    let nothing = conn.bytes_acked <= LINUX_SYN_AND_FIN && conn.bytes_received == LINUX_FIN;
    let by_client = match role {
        Role::Client => conn.side == Side::Opened && conn.closed_first,
        Role::Server => conn.side == Side::Accepted && conn.peer_closed && !conn.closed_first,
        Role::Unknown => false,
    };
    let closed = conn.outcome == Outcome::Closed && conn.error.is_none();
    let waited = conn.ended_ns?.saturating_sub(conn.established_ns?);
    (nothing && by_client && closed).then_some(waited)
}

/// All of a role.
pub(crate) fn all(story: &Story, role: Role) -> Vec<Unspoken<'_>> {
    let mut services: BTreeMap<ServiceKey, (Vec<(ConnId, u64)>, u64)> = BTreeMap::new();
    for (conn, id) in story.conns.iter().zip(0..) {
        let made = conn.established_ns.is_some() && conn.ended_ns.is_some();
        let key = account::service(story, conn);
        if !made || key.1 != role {
            continue;
        }
        let (given_up, of) = services.entry(key).or_default();
        *of += 1;
        let waited = waited_ns(conn, role).filter(|ns| *ns >= limits::NOTICED.ns());
        given_up.extend(waited.map(|ns| (id, ns)));
    }
    for (key, (_, of)) in &mut services {
        *of = of.saturating_add(account::forgotten_ends(story, |k| k == *key));
    }
    let judged = services.into_iter();
    judged
        .filter_map(|(service, (ends, of))| Unspoken::of(story, service, ends, of))
        .collect()
}

impl<'a> Unspoken<'a> {
    fn of(
        story: &'a Story,
        service: ServiceKey,
        mut ends: Vec<(ConnId, u64)>,
        of: u64,
    ) -> Option<Unspoken<'a>> {
        let usual_ns = median(&mut ends.iter().map(|(_, ns)| *ns).collect::<Vec<_>>())?;
        // A client's patience is the same each time.
        let off = (usual_ns as f64 * limits::ALIKE.share()) as u64;
        let n = ends.len();
        ends.retain(|(_, ns)| ns.abs_diff(usual_ns) <= off);
        let alike = limits::NEARLY_ALL.reached(ends.len(), n);
        let found = Unspoken {
            story,
            service,
            ends,
            of,
            usual_ns,
        };
        let again = found.count() >= limits::FAILED_AGAIN.count()
            && found.over_ns() >= limits::FAILED_OVER.ns();
        // Where most are answered, a spare connection was not needed.
        let most = limits::MOST.reached(found.count(), found.of);
        (alike && again && most).then_some(found)
    }

    /// How many were given up.
    pub(crate) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.ends.iter().map(|(id, _)| *id)
    }

    pub(crate) fn conns(&self) -> impl Iterator<Item = &'a Conn> + '_ {
        let story = self.story;
        self.ids().filter_map(move |id| story.conn(id))
    }

    /// Whether the other ends are on this host, too.
    pub(crate) fn is_both(&self) -> bool {
        self.conns().any(|c| c.peer.is_some())
    }

    /// From the first that was given up to the last, ns.
    fn over_ns(&self) -> u64 {
        let ended = || self.conns().filter_map(|c| c.ended_ns);
        let (first, last) = (ended().min().unwrap_or(0), ended().max().unwrap_or(0));
        last.saturating_sub(first)
    }

    pub(crate) fn place(&self) -> Place {
        Place::Ends(self.ids().collect())
    }

    pub(crate) fn since(&self) -> Since {
        let first = self.conns().map(|c| c.start_ns).min();
        Since::at(
            self.story,
            first.unwrap_or(self.story.start_ns),
            Began::Seen,
        )
    }

    /// Each as an exchange that was given up.
    pub(crate) fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        for (id, ns) in &self.ends {
            if let Some(conn) = self.story.conn(*id) {
                lost.add(conn, State::Idle, *ns);
            }
        }
        let lost_ns = self
            .ends
            .iter()
            .fold(0u64, |sum, (_, ns)| sum.saturating_add(*ns));
        lost.of_exchanges(OfExchanges {
            slow: self.count(),
            of: self.of,
            connections: self.count(),
            lost_ns,
            whole_ns: lost_ns,
            stalled_ns: 0,
            failed: (self.count(), self.over_ns()),
        })
    }

    pub(crate) fn impact(&self) -> Impact {
        let says = format!(
            "{} of {} ended without a word from either side, given up after {} (median).",
            Quantity::count(self.count()),
            Quantity::of(self.of, "connection"),
            duration(self.usual_ns)
        );
        Impact::of(self.count(), self.of, "connections", says)
    }

    /// As it follows the name of the service in a title.
    pub(crate) fn says(&self) -> String {
        let share = percent(self.count() as f64 / self.of.max(1) as f64);
        let patience = duration(self.usual_ns);
        format!("says nothing on {share} of its connections: clients give up after {patience}.")
    }

    pub(crate) fn step(&self) -> Step {
        let rows = self.conns().filter_map(Conn::row).take(SHOWN_ROWS);
        say!(
            "{given_up} of {connections} were closed by the client {waited_ms} after the handshake (median), each \
             after about as long, and no byte had gone either way.",
            given_up = Quantity::count(self.count()).rows(rows),
            connections = Quantity::of(self.of, "connection"),
            waited_ms = Quantity::ns(self.usual_ns)
        )
    }
}
