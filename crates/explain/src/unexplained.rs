//! The trouble of each service that no finding and no note claims.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use analysis::account::{self, Role, Service, ServiceKey, Spent, State};
use analysis::words::rounded;
use analysis::{Conn, Endpoint, Netns, Story};
use recording::drop_reason::{DropKind, drop_kind, drop_reason};
use serde::{Deserialize, Serialize};

use crate::drop_owners::{Owner, owner};
use crate::finding::Finding;
use crate::id::Id;
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
    /// What this host dropped of these connections, by reason, the most first.
    pub dropped: Vec<DroppedFor>,
}

/// Packets that this host dropped for one reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DroppedFor {
    /// The kernel's name of the reason.
    pub reason: String,
    /// What it means; null if it is not known.
    pub means: Option<String>,
    /// How many packets.
    pub count: u64,
    /// The causes that look at such drops; none claims these.
    pub causes: Vec<Id>,
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

    /// Whether a connect is covered by a finding. One that never got through, given up or still under way, counts with
    /// its neighbours.
    fn is_told(&self, story: &Story, conn: &Conn) -> bool {
        let peer = conn.peer.and_then(|id| story.conn(id));
        let here = [Some(conn), peer].into_iter().flatten();
        let never = conn.established_ns.is_none();
        here.into_iter().any(|c| self.ends.contains(&end(c)))
            || never && self.to.contains(&(conn.netns, conn.remote))
    }
}

/// What this host dropped that somebody may wait for, by the addresses and ports of both ends.
#[derive(Default)]
struct Dropped<'a>(AHashMap<(Endpoint, Endpoint), Vec<(&'a str, u64)>>);

impl Dropped<'_> {
    fn of(story: &Story) -> Dropped<'_> {
        let mut all = Dropped::default();
        for ((_, from, to), dropped) in story.drops.all() {
            let lost = dropped.kinds.iter().filter(|of| !is_harmless(of.kind));
            let lost = lost.filter_map(|of| Some((of.reason.as_deref()?, of.count)));
            let unknown = dropped.kinds.is_empty().then_some(dropped);
            let unknown = unknown.and_then(|d| Some((d.reason.as_deref()?, d.otherwise)));
            let reasons = all.0.entry((*from, *to)).or_default();
            reasons.extend(lost.chain(unknown));
        }
        all
    }
}

/// Whether nobody waits for such packets.
fn is_harmless(kind: DropKind) -> bool {
    kind == DropKind::OtherHost || matches!(owner(kind), Owner::Harmless(_))
}

/// The sums of one service, ns.
#[derive(Default)]
struct Sums {
    awake: u64,
    troubled: u64,
    left: Spent,
    dropped: BTreeMap<String, u64>,
}

/// The unexplained trouble of the reported services, the most first.
pub(crate) fn unexplained(
    story: &Story,
    told: &[Service],
    claiming: &[&Finding],
) -> Vec<Unexplained> {
    let explained = Explained::by(claiming);
    let dropped = Dropped::of(story);
    let mut services: BTreeMap<ServiceKey, Sums> = BTreeMap::new();
    for conn in &story.conns {
        let sums = services.entry(account::service(story, conn)).or_default();
        let left_before = sums.left.total();
        sums.add(story, conn, &explained);
        if sums.left.total() > left_before {
            sums.dropped(conn, &dropped);
        }
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

    /// Adds what this host dropped of a connection, in both directions.
    fn dropped(&mut self, conn: &Conn, all: &Dropped) {
        for way in [(conn.local, conn.remote), (conn.remote, conn.local)] {
            for (reason, n) in all.0.get(&way).into_iter().flatten() {
                let sum = self.dropped.entry((*reason).to_string()).or_default();
                *sum = sum.saturating_add(*n);
            }
        }
    }

    fn told(&self, service: &Service, left: u64) -> Unexplained {
        let dropped = self.dropped.iter().map(|(reason, count)| DroppedFor {
            reason: reason.clone(),
            means: drop_reason(reason).map(|known| known.says.to_string()),
            count: *count,
            causes: match drop_kind(reason).map(owner) {
                Some(Owner::Causes(ids)) => ids.to_vec(),
                Some(Owner::Harmless(_) | Owner::Nobody) | None => Vec::new(),
            },
        });
        let mut dropped: Vec<DroppedFor> = dropped.collect();
        dropped.sort_by_key(|d| std::cmp::Reverse(d.count));
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
            dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, explain, explain_with};
    use analysis::Side;
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
    fn a_connect_that_never_got_through_is_told_with_its_neighbours() {
        let written = cases::refused().write().expect("writes");
        let story = Story::read(&written.recording).expect("reads");
        let mut conn = story.conns.iter().find(|c| c.side == Side::Opened).cloned();
        let conn = conn.as_mut().expect("a client");
        let explained = Explained {
            to: [(conn.netns, conn.remote)].into(),
            claims: Default::default(),
            ends: Default::default(),
        };
        (conn.established_ns, conn.ended_ns, conn.peer) = (None, Some(7), None);
        assert!(explained.is_told(&story, conn), "it gave up");
        conn.ended_ns = None;
        assert!(explained.is_told(&story, conn), "it is under way");
        conn.established_ns = Some(5);
        assert!(!explained.is_told(&story, conn));
    }

    #[test]
    fn what_no_cause_claims_of_the_drops_is_told_with_its_meaning() {
        let mut f = cases::silent();
        crate::causes::each_drop_of_retransmissions(&mut f, synth::SERVER, "TCP_MD5NOTFOUND");
        f.sockets
            .iter_mut()
            .for_each(|row| row.ca_state = Some("Loss".into()));
        let options = Options::only("qdisc-drop").expect("it is one");
        let written = f.write().expect("writes");
        let explained = explain_with(&written.recording, &options).expect("reads");
        let left = explained.unexplained.first().expect("the wait");
        let told = left.dropped.first().expect("a reason");
        assert_eq!(told.reason, "TCP_MD5NOTFOUND");
        assert!(
            told.count > 0
                && told
                    .means
                    .as_deref()
                    .is_some_and(|m| m.contains("signature"))
        );
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
