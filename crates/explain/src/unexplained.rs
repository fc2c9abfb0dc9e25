//! The trouble of each service that no finding and no note claims.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use analysis::account::{self, Role, Service, ServiceKey, Spent, State};
use analysis::words::rounded;
use analysis::{Conn, Endpoint, Netns, Story};
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::limits;
use crate::lost::{End, claimed_once, end};

/// States of waiting for TCP, for a window or for a buffer. Idle time, round trips and application time are in the
/// account too, but need no cause.
const TROUBLED: [State; 4] = [
    State::Connecting,
    State::SendBuffer,
    State::PeerWindow,
    State::Repair,
];

/// Trouble of one service that no finding explains.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "unexplained")]
#[non_exhaustive]
pub struct Unexplained {
    /// Network namespace of the ends.
    pub netns: Netns,
    /// Whether the ends are servers or clients.
    pub role: Role,
    /// The address on which it listens; for clients, the address to which they connect.
    pub at: Endpoint,
    /// A process that holds the listener, or that connects; null when none is known.
    pub pid: Option<u32>,
    /// Its command name.
    pub comm: Option<String>,
    /// The time in which the service was not idle, s.
    pub awake_s: f64,
    /// The part of it spent in trouble, s: connecting beyond a round trip, waiting for a window or a buffer, repairing
    /// losses.
    pub troubled_s: f64,
    /// The part of the trouble that findings and notes claim, each moment counted once, s.
    pub claimed_s: f64,
    /// The part of the trouble that nothing claims, s.
    pub unexplained_s: f64,
    /// The unclaimed part by state, s.
    pub spent_s: Spent,
}

/// What findings and notes explain.
struct Explained {
    /// The time that they claim.
    claims: AHashMap<(End, State), u64>,
    /// Ends that lost time, including during another one's outage, which is counted once.
    ends: AHashSet<End>,
    /// Addresses to which connects are delayed or fail.
    to: AHashSet<(u32, Endpoint)>,
}

impl Explained {
    fn by(claiming: &[&Finding]) -> Explained {
        let claims = claimed_once(claiming.iter().map(|f| &f.lost_s));
        let ends: AHashSet<End> = claiming.iter().flat_map(|f| f.lost_s.ends()).collect();
        let state_of = |end: &&End| {
            let connecting = claims.contains_key(&(**end, State::Connecting));
            connecting
                || !State::ALL
                    .iter()
                    .any(|state| claims.contains_key(&(**end, *state)))
        };
        let to = ends
            .iter()
            .filter(state_of)
            .map(|(netns, _, remote, _)| (*netns, *remote));
        Explained {
            to: to.collect(),
            claims,
            ends,
        }
    }

    /// Whether a connect is covered by a finding. One that is still under way when the recording ends counts with its
    /// neighbours.
    fn is_told(&self, story: &Story, conn: &Conn) -> bool {
        let peer = conn.peer.and_then(|id| story.conn(id));
        let here = [Some(conn), peer].into_iter().flatten();
        let under_way = conn.established_ns.is_none() && conn.ended_ns.is_none();
        here.into_iter().any(|c| self.ends.contains(&end(c)))
            || under_way && self.to.contains(&(conn.netns, conn.remote))
    }
}

/// The sums of one service, ns.
#[derive(Default)]
struct Sums {
    awake: u64,
    troubled: u64,
    left: Spent,
}

/// The unexplained trouble of the reported services, the most first.
pub(crate) fn unexplained(
    story: &Story,
    told: &[Service],
    claiming: &[&Finding],
) -> Vec<Unexplained> {
    let explained = Explained::by(claiming);
    let mut services: BTreeMap<ServiceKey, Sums> = BTreeMap::new();
    for conn in &story.conns {
        let sums = services.entry(account::service(story, conn)).or_default();
        sums.add(story, conn, &explained);
    }
    let mut all: Vec<(u64, Unexplained)> = told
        .iter()
        .filter_map(|service| {
            let key = (service.netns.inode, service.role, service.at);
            let sums = services.get(&key)?;
            let untold = elsewhere_ns(service, claiming);
            let left = sums.left.total().saturating_sub(untold);
            let is_much = left >= limits::BETWEEN_SAMPLES.ns()
                && limits::UNEXPLAINED_SHARE.reached(left, sums.awake);
            is_much.then(|| (left, sums.told(service, left)))
        })
        .collect();
    all.sort_by_key(|(left, _)| std::cmp::Reverse(*left));
    all.into_iter().map(|(_, told)| told).collect()
}

/// The time that findings at a service claim for ends that they cannot name, ns.
fn elsewhere_ns(service: &Service, claiming: &[&Finding]) -> u64 {
    let at = service.at.to_string();
    let here = claiming
        .iter()
        .filter(|f| f.scope.netns.inode == service.netns.inode && f.scope.listener == at);
    here.map(|f| f.lost_s.elsewhere_ns())
        .fold(0, u64::saturating_add)
}

impl Sums {
    fn add(&mut self, story: &Story, conn: &Conn, explained: &Explained) {
        let claims = &explained.claims;
        let spent = account::of_end(story, conn);
        self.awake = self.awake.saturating_add(spent.awake());
        // If both ends are on this host, a finding claims the time of one of them.
        let peer = conn.peer.and_then(|id| story.conn(id)).map(end);
        let theirs = State::ALL
            .into_iter()
            .filter_map(|state| claims.get(&(peer?, state)));
        let mut theirs = theirs.copied().fold(0, u64::saturating_add);
        let troubled = TROUBLED.map(|state| spent.of(state));
        let troubled = troubled.into_iter().fold(0, u64::saturating_add);
        if limits::MOST.reached(theirs, troubled) {
            theirs = troubled;
        }
        for state in TROUBLED {
            let mut ns = spent.of(state);
            if state == State::Connecting {
                ns = ns.saturating_sub(u64::from(conn.rtt_us) * 1_000);
            }
            self.troubled = self.troubled.saturating_add(ns);
            let claimed = claims.get(&(end(conn), state)).copied().unwrap_or(0);
            let told = state == State::Connecting && explained.is_told(story, conn);
            let own = if told { ns } else { claimed };
            let left = ns.saturating_sub(own);
            let claimed = left.min(theirs);
            theirs -= claimed;
            self.left.add(state, left - claimed);
        }
    }

    fn told(&self, service: &Service, left: u64) -> Unexplained {
        let s = |ns: u64| rounded(ns as f64 / 1e9);
        Unexplained {
            netns: service.netns.clone(),
            role: service.role,
            at: service.at,
            pid: service.pid,
            comm: service.comm.clone(),
            awake_s: s(self.awake),
            troubled_s: s(self.troubled),
            claimed_s: s(self.troubled.saturating_sub(left)),
            unexplained_s: s(left),
            spent_s: self.left,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, explain, explain_with};
    use synth::cases;

    #[test]
    fn what_a_finding_claims_is_explained_and_else_it_is_told() {
        let written = cases::slow_reader().write().expect("writes");
        let explained = explain(&written.recording).expect("reads");
        assert_eq!(explained.findings.len(), 1);
        assert!(
            explained.unexplained.is_empty(),
            "{:?}",
            explained.unexplained
        );
        // The same recording without the cause that claims the time.
        let options = Options::only("path-loss").expect("it is one");
        let explained = explain_with(&written.recording, &options).expect("reads");
        let left = explained
            .unexplained
            .first()
            .expect("the wait for the window");
        assert!(
            left.unexplained_s >= 1.0 && left.claimed_s == 0.0,
            "{left:?}"
        );
        assert!(left.unexplained_s <= left.troubled_s && left.troubled_s <= left.awake_s);
    }

    #[test]
    fn a_healthy_host_has_nothing_unexplained() {
        for f in [cases::churn(), cases::bulk()] {
            let explained = explain(&f.write().expect("writes")).expect("reads");
            assert!(
                explained.unexplained.is_empty(),
                "{:?}",
                explained.unexplained
            );
        }
    }
}
