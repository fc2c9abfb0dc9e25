//! C13: clients get resets that no socket sent: a firewall, here or on the path, made them up.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use analysis::words::{count, fitting, percent, plural};
use analysis::{Rejected, What};
use recording::Addr;

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::doubts;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::INJECTED_RESET,
    number: "C13",
    title: "resets that no socket sent",
    page: include_str!("injected_reset.md"),
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[SourceName::ResetsReceived],
        &[SourceName::ResetsSent],
        &[SourceName::ResetsUnmatched],
    ],
    seen_from: "10 refused connects, or 5 reset connections",
    rivals: &[],
    explains: &[],
    no: None,
    symptom: None,
    find,
};

/// Fewer connects are somebody trying.
const MIN_REFUSED: u64 = 10;
/// Connections that stood are not reset by chance; one may be a lost record.
const MIN_BROKEN: u64 = 5;
/// Of the resets at a place, what must be explained by a firewall here to blame it.
const MOST: f64 = 0.8;
/// Places looked at, one by one.
const MAX_PLACES: usize = 65_536;

/// The server's end, in one namespace if the address is a loopback address.
type Key = (Option<u32>, Endpoint);

/// What happened at a place.
#[derive(Default)]
struct Place<'a> {
    /// Connects that a reset answered, and established ends that got one, which nobody sent.
    refused: Vec<ConnId>,
    broken: Vec<ConnId>,
    /// Connections that were tried or stood.
    tried: u64,
    /// Of the resets, those that answered a packet which a firewall of this host dropped.
    rejected: Vec<&'a Rejected>,
    /// The server's end is on this host: its kernel would have told of a reset of its own.
    server_here: bool,
}

struct Case<'a> {
    story: &'a Story,
    own: &'a Own,
    key: Key,
    at: Endpoint,
    place: Place<'a>,
}

fn find(story: &Story) -> Vec<Finding> {
    // Before Linux 6.10 a kernel does not tell of every reset that it sends.
    if !story.health.sees(&SourceName::ResetsUnmatched) || story.resets.folded > 0 {
        return Vec::new();
    }
    let own = Own::of(story);
    let cases = places(story, &own).into_iter().map(|(key, place)| Case {
        story,
        own: &own,
        key,
        at: key.1,
        place,
    });
    cases.filter(Case::holds).map(|c| c.finding()).collect()
}

/// The server's end of a connection.
fn server_of(conn: &Conn) -> Endpoint {
    match conn.side {
        Side::Accepted => conn.local,
        Side::Older if conn.listener.is_some() => conn.local,
        _ => conn.remote,
    }
}

fn key_of(conn: &Conn) -> Key {
    let at = server_of(conn);
    (at.is_loopback().then_some(conn.netns), at)
}

fn places<'a>(story: &'a Story, own: &Own) -> BTreeMap<Key, Place<'a>> {
    let mut places: BTreeMap<Key, Place> = BTreeMap::new();
    for (id, conn) in story.conns.iter().enumerate() {
        let id = id as ConnId;
        let refused = conn.refused.is_some() && conn.side == Side::Opened;
        let broken = story.resets.received.get(&id);
        let foreign = match (refused, broken) {
            // The server's kernel told of refusals there.
            (true, _) => !own.at.contains_key(&key_of(conn)),
            (false, Some(_)) => conn.peer.is_some() && !story.resets.was_sent(conn),
            (false, None) => false,
        };
        let key = key_of(conn);
        if !foreign || places.len() >= MAX_PLACES && !places.contains_key(&key) {
            continue;
        }
        let place = places.entry(key).or_default();
        place.server_here |= conn.peer.is_some() || conn.listener.is_some();
        match refused {
            true => place.refused.push(id),
            false => place.broken.push(id),
        }
        let time_ns = match (refused, broken) {
            (false, Some(got)) => got.time_ns,
            _ => conn.ended_ns.unwrap_or(conn.start_ns),
        };
        place.rejected.extend(story.resets.rejected(conn, time_ns));
    }
    // Of the two ends of a connection, the client's.
    for conn in story.conns.iter().filter(|c| server_of(c) == c.remote) {
        if let Some(place) = places.get_mut(&key_of(conn)) {
            place.tried += 1;
        }
    }
    places
}

/// SYNs that kernels of this host answered with resets of their own.
#[derive(Default)]
struct Own {
    /// By where the SYNs went to.
    at: AHashMap<Key, u64>,
    /// By the address that they came from.
    to: AHashMap<Addr, u64>,
}

impl Own {
    fn of(story: &Story) -> Own {
        let mut own = Own::default();
        let groups = story.packets.all().iter();
        for group in groups.filter(|g| g.what == What::SynRefused) {
            let key = (
                group.local.is_loopback().then_some(group.netns),
                group.local,
            );
            *own.at.entry(key).or_default() += group.count;
            for (addr, n) in &group.remotes {
                *own.to.entry(*addr).or_default() += n;
            }
        }
        own
    }
}

impl<'a> Case<'a> {
    fn refused(&self) -> u64 {
        self.place.refused.len() as u64
    }

    fn broken(&self) -> u64 {
        self.place.broken.len() as u64
    }

    fn count(&self) -> u64 {
        self.refused() + self.broken()
    }

    fn rejected(&self) -> u64 {
        self.place.rejected.len() as u64
    }

    fn of(&self) -> u64 {
        self.place.tried.max(self.count())
    }

    fn holds(&self) -> bool {
        let enough = self.refused() >= MIN_REFUSED || self.broken() >= MIN_BROKEN;
        // A reset whose record was lost looks as if nobody had sent it.
        let told = self.count() > self.story.health.lost(&SourceName::ResetsSent);
        let unsent = self.place.server_here && told && !self.translated();
        enough && (unsent || self.firewall().is_some())
    }

    /// Whether kernels of this host refused about as many connects of these clients under other
    /// addresses: where addresses are translated, those are the same.
    fn translated(&self) -> bool {
        let refused = self.story.all(&self.place.refused);
        let clients: BTreeSet<Addr> = refused.map(|(_, c)| c.local.addr).collect();
        let to = |addr: &Addr| self.own.to.get(addr).copied().unwrap_or(0);
        let to_them: u64 = clients.iter().map(to).sum();
        to_them > 0 && to_them.saturating_mul(2) >= self.refused()
    }

    /// The namespace whose firewall dropped the packets that most of the resets answered.
    fn firewall(&self) -> Option<u32> {
        let mut by_netns: BTreeMap<u32, u64> = BTreeMap::new();
        for rejected in &self.place.rejected {
            *by_netns.entry(rejected.netns).or_default() += 1;
        }
        let (netns, n) = by_netns.into_iter().max_by_key(|(_, n)| *n)?;
        (n as f64 >= MOST * self.count() as f64).then_some(netns)
    }

    /// The affected ends: the refused first.
    fn ends(&self) -> impl Iterator<Item = (ConnId, &'a Conn)> {
        let ids = self.place.refused.iter().chain(&self.place.broken);
        let story = self.story;
        ids.filter_map(move |id| Some((*id, story.conn(*id)?)))
    }

    fn scope(&self) -> Scope {
        let mut by_pid: BTreeMap<u32, (u64, String)> = BTreeMap::new();
        for (_, conn) in self.ends() {
            if let Some((pid, comm)) = self.story.owner(conn) {
                by_pid.entry(pid).or_insert((0, comm)).0 += 1;
            }
        }
        let first = by_pid.iter().max_by_key(|(_, (n, _))| *n);
        let opened = self.ends().any(|(_, c)| c.side == Side::Opened);
        let of_ends = self.ends().next().map_or(0, |(_, c)| c.netns);
        Scope {
            netns: self.story.netns(self.firewall().unwrap_or(of_ends)),
            listener: self.at.to_string(),
            resource: Some(match self.firewall() {
                Some(_) => "firewall".into(),
                None => "path".into(),
            }),
            role: if opened { Role::Client } else { Role::Listener },
            pid: first.map(|(pid, _)| *pid),
            comm: first.map(|(_, (_, comm))| comm.clone()),
            pids: by_pid.keys().copied().collect(),
            ..Scope::default()
        }
    }

    /// What was reset, in a few words.
    fn what(&self) -> String {
        match (self.refused(), self.broken()) {
            (refused, 0) => plural(refused, "connect"),
            (0, broken) => plural(broken, "connection"),
            (refused, broken) => format!(
                "{} and {}",
                plural(refused, "connect"),
                plural(broken, "connection")
            ),
        }
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks = self.arithmetic();
        let (at, what) = (self.at, self.what());
        let here = self.firewall().is_some();
        let says = format!(
            "{what} of {} ({}) got a reset that no socket sent.",
            count(self.of()),
            percent(self.count() as f64 / self.of().max(1) as f64)
        );
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number.into(),
            place: None,
            lost_s: self.lost(),
            since: None,
            episodes: Vec::new(),
            title: match here {
                true => fitting([
                    format!("A firewall of this host resets {what} to {at}."),
                    format!("A firewall of this host resets connections to {at}."),
                ]),
                false => fitting([
                    format!("Something on the path resets {what} to {at}, which nobody sent."),
                    format!("Something on the path resets connections to {at}."),
                ]),
            },
            fix: match here {
                true => fitting([
                    format!(
                        "Let the rules of {} pass what is for {at}.",
                        namespace(&scope.netns)
                    ),
                    "Let the rules of the firewall pass what is for that address.".into(),
                ]),
                false => format!("Find the box between the clients and {at} that makes up resets."),
            },
            impact: Impact::of(self.count(), self.of(), "connections", says),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope.netns),
            verify: format!(
                "`tcpwhy trace resets` shows none received from {at}, and connects to it succeed."
            ),
            scope,
        }
    }

    /// A connect or request that was reset costs its caller the time until the next one that was not.
    fn lost(&self) -> Lost {
        let (refused, broken) = (&self.place.refused, &self.place.broken);
        let reset = self.story.all(refused).chain(self.story.all(broken));
        Lost::outages(self.story, reset.map(|(_, c)| c))
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        match self.firewall() {
            Some(_) => c.because(
                "a firewall of this host dropped the very packets that were answered by resets",
            ),
            None => c.because("both ends are on this host, and neither sent the resets"),
        }
        c.weigh_checks(checks);
        let sources = [
            SourceName::ResetsReceived,
            SourceName::ResetsSent,
            SourceName::ResetsUnmatched,
            SourceName::States,
        ];
        doubts(self.story, &mut c, &sources);
        if self.firewall().is_some() {
            doubts(self.story, &mut c, &[SourceName::Drops]);
        }
        c
    }

    fn arithmetic(&self) -> Vec<Check> {
        let story = self.story;
        let mut checks = Vec::new();
        if self.firewall().is_some() {
            let formula =
                "packets that the firewall dropped and a reset answered = resets received";
            checks.push(same_count(formula, self.rejected(), self.count(), "resets"));
        } else if story.health.sees(&SourceName::Drops) {
            // Whoever forges a reset on the path leaves no trace in the counters of either end but
            // this: the end that is reset counts it.
            let mut netns: Vec<u32> = self.ends().map(|(_, c)| c.netns).collect();
            netns.sort_unstable();
            netns.dedup();
            let rise = |n: &u32| {
                let failed = story.counters.rise(*n, counter::ATTEMPT_FAILS).by;
                failed + story.counters.rise(*n, counter::ESTAB_RESETS).by
            };
            if netns.iter().all(|n| story.counters.covers(*n)) {
                let formula = "connects failed and connections reset (AttemptFails + EstabResets) \
                               ≥ resets received";
                let counted = netns.iter().map(rise).sum();
                checks.push(at_least(formula, self.count(), counted, "resets"));
            }
        }
        checks
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let own = self.own.at.get(&self.key).copied().unwrap_or(0);
        let mut out = vec![
            RuledOut::new(
                Id::CONNECTION_REFUSED,
                match self.place.server_here {
                    true => format!(
                        "the server is on this host, and its kernel refused {} for want of a socket",
                        count(own)
                    ),
                    false => format!(
                        "{} were dropped by a firewall of this host before they reached the server",
                        plural(self.rejected(), "packet")
                    ),
                },
            ),
            RuledOut::new(
                Id::RESET_UNREAD_DATA,
                format!(
                    "of {} that sockets of this host sent, none was for these connections",
                    plural(self.story.resets.sent.len() as u64, "reset")
                ),
            ),
        ];
        if self.refused() > 0 {
            let retries: u64 = self
                .story
                .all(&self.place.refused)
                .map(|(_, c)| u64::from(c.syn_retries))
                .sum();
            out.push(RuledOut::new(
                Id::LOCAL_FIREWALL_DROP,
                format!(
                    "the connects were answered: {} retransmitted before they were refused",
                    plural(retries, "SYN")
                ),
            ));
        }
        out
    }

    fn advice(&self, netns: &Netns) -> Vec<Advice> {
        let at = self.at;
        let expected = format!("The {} are no longer reset.", self.what());
        let change = Some(Change::PassPackets {
            netns: self.firewall(),
            at: at.to_string(),
        });
        vec![match self.firewall() {
            Some(_) => Advice {
                action: format!(
                    "Find the rule that rejects with a reset what is for {at}, and let it pass."
                ),
                command: command_in(netns, "nft -a list ruleset"),
                r#where: format!(
                    "{}; `iptables-save -c` where rules were made by iptables, whose counters show \
                     which one rejects",
                    namespace(netns)
                ),
                risk: "Whatever the rule kept out comes in: allow the port for the clients' \
                       addresses only."
                    .into(),
                expected,
                change,
            },
            None => Advice {
                action: format!(
                    "Capture at both ends and compare the time to live of the resets with that of \
                     other packets from {at}: it counts the hops to the box that sends them."
                ),
                command: command_in(
                    netns,
                    &format!("tcpdump -nnvi any 'tcp[13] & 4 != 0 and port {}'", at.port),
                ),
                r#where: "firewalls, load balancers and intrusion detection on the path".into(),
                risk: "None.".into(),
                expected,
                change,
            },
        }]
    }
}

#[cfg(test)]
mod tests;
