//! What the recording holds about one server whose TIME_WAIT sockets refuse SYNs.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use analysis::stats::median;
use analysis::words::rounded;
use analysis::{Conn, ConnId, Endpoint, Outcome, Ports, Refused, Retry, Seen, Side, Story};
use recording::sysctl;

use crate::changes::{change, per_bin};
use crate::limits;

/// Servers looked at; those beyond have fewer refusals than any finding needs.
const MAX_SERVERS: usize = 4_096;

pub(super) struct Collision<'a> {
    pub(super) story: &'a Story,
    /// The server's address.
    pub(super) at: Endpoint,
    /// Its namespace, when the TIME_WAIT sockets are on this host.
    pub(super) server: Option<u32>,
    pub(super) refused: Vec<&'a Refused>,
    /// Resets that clients on this host sent.
    pub(super) strays: Vec<&'a Seen>,
    /// SYNs that clients on this host retransmitted.
    pub(super) retries: Vec<&'a Retry>,
    /// Connects of this host to the server, in order of time.
    pub(super) clients: Vec<ConnId>,
    hit: AHashSet<ConnId>,
    /// When the rate of established connections changed.
    pub(super) broke: Option<Break>,
    /// The first refusal, ns.
    pub(super) first_ns: u64,
}

/// The moment at which the rate changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Break {
    pub(super) time_ns: u64,
    /// Connections per second before it, and since.
    pub(super) before: f64,
    pub(super) after: f64,
}

type Key = (Option<u32>, Endpoint);

fn key(netns: u32, at: Endpoint) -> Key {
    (at.is_loopback().then_some(netns), at)
}

impl<'a> Collision<'a> {
    /// One case per server.
    pub(super) fn all(story: &'a Story) -> Vec<Collision<'a>> {
        let facts = &story.refusals;
        let mut cases: BTreeMap<Key, Collision> = BTreeMap::new();
        for refused in &facts.refused {
            let at = refused.seen.local;
            if let Some(case) = entry(&mut cases, story, refused.seen.netns, at) {
                case.server = Some(refused.seen.netns);
                case.refused.push(refused);
            }
        }
        for stray in facts.strays.iter().filter(|s| !facts.met_half_open(s)) {
            if let Some(case) = entry(&mut cases, story, stray.netns, stray.remote) {
                case.strays.push(stray);
            }
        }
        for retry in &facts.retries {
            if let Some(case) = cases.get_mut(&key(retry.seen.netns, retry.seen.remote)) {
                case.retries.push(retry);
            }
        }
        for (id, conn) in story.conns.iter().enumerate() {
            if conn.side == Side::Opened
                && let Some(case) = cases.get_mut(&key(conn.netns, conn.remote))
            {
                case.clients.push(id as ConnId);
            }
        }
        let mut cases: Vec<Collision> = cases.into_values().collect();
        cases.iter_mut().for_each(Collision::complete);
        cases
    }

    fn new(story: &'a Story, at: Endpoint) -> Collision<'a> {
        Collision {
            story,
            at,
            server: None,
            refused: Vec::new(),
            strays: Vec::new(),
            retries: Vec::new(),
            clients: Vec::new(),
            hit: AHashSet::new(),
            broke: None,
            first_ns: 0,
        }
    }

    /// What follows once all rows are in.
    fn complete(&mut self) {
        let refused = self.refused.iter().map(|r| r.seen.time_ns);
        let strays = self.strays.iter().map(|s| s.time_ns);
        self.first_ns = refused.chain(strays).min().unwrap_or(0);
        self.hit = self.find_hit();
        self.broke = self.find_break();
    }

    /// The connects that were refused: by their ends, at the server or at the client (NAT makes these differ).
    fn find_hit(&self) -> AHashSet<ConnId> {
        let mut of_client: AHashMap<Endpoint, Vec<u64>> = AHashMap::new();
        let refused = self.refused.iter().map(|r| (r.seen.remote, r.seen.time_ns));
        let strays = self.strays.iter().map(|s| (s.local, s.time_ns));
        for (client, time) in refused.chain(strays) {
            of_client.entry(client).or_default().push(time);
        }
        of_client
            .values_mut()
            .for_each(|times| times.sort_unstable());
        let hit = self.story.all(&self.clients).filter(|(_, conn)| {
            let Some(times) = of_client.get(&conn.local) else {
                return false;
            };
            let until = conn.established_ns.or(conn.ended_ns);
            let until = until.unwrap_or(conn.start_ns.saturating_add(limits::SAME_CONNECT.ns()));
            let from = times.partition_point(|t| *t < conn.start_ns);
            times.get(from).is_some_and(|t| *t <= until)
        });
        hit.map(|(id, _)| id).collect()
    }

    fn find_break(&self) -> Option<Break> {
        let mut times: Vec<u64> = self.established().collect();
        times.sort_unstable();
        // From the first to the last connect attempt: there was no load before and after.
        let tried = self.refused.iter().map(|r| r.seen.time_ns);
        let tried = tried
            .chain(self.retries.iter().map(|r| r.seen.time_ns))
            .max();
        let (from, to) = (*times.first()?, times.last().copied().max(tried)?);
        let rates = per_bin(times.into_iter(), from, to, limits::RATE_BIN.ns());
        let found = change(&rates).filter(|c| c.after < c.before)?;
        let per_s = 1e9 / limits::RATE_BIN.ns() as f64;
        let time_ns = from + found.at as u64 * limits::RATE_BIN.ns();
        let blocked = self.hit().filter(|c| c.syn_retries > 0);
        let all = self.story.all(&self.clients).map(|(_, c)| c);
        let (_, there) = at_once(self.story, all.clone(), (time_ns, to));
        let (_, waiting) = at_once(self.story, blocked.clone(), (time_ns, to));
        // A rate also falls when the load ends: then those that get through begin nothing new.
        let through = blocked.filter(|c| c.established_ns.is_some_and(|t| t >= time_ns));
        let begun = all.filter(|c| c.start_ns >= time_ns).count();
        if waiting < limits::MOST.share() * there || !limits::MOST.reached(begun, through.count()) {
            return None;
        }
        Some(Break {
            time_ns,
            before: rounded(found.before * per_s),
            after: rounded(found.after * per_s),
        })
    }

    /// When connections to the server were established: by the clients here, else by the server.
    fn established(&self) -> impl Iterator<Item = u64> + '_ {
        let clients = self.story.all(&self.clients);
        let servers = self.story.conns.iter().filter(|c| {
            self.clients.is_empty()
                && c.side == Side::Accepted
                && Some(c.netns) == self.server
                && c.local == self.at
        });
        clients
            .map(|(_, c)| c)
            .chain(servers)
            .filter_map(|c| c.established_ns)
    }

    /// The connects that were refused, in order of time.
    pub(super) fn hit(&self) -> impl Iterator<Item = &'a Conn> + Clone + '_ {
        let clients = self.clients.iter().filter(|id| self.hit.contains(id));
        clients.filter_map(|id| self.story.conn(*id))
    }

    /// The connects without delay.
    fn others(&self) -> impl Iterator<Item = &'a Conn> + '_ {
        let clients = self.clients.iter().filter(|id| !self.hit.contains(id));
        let clients = clients.filter_map(|id| self.story.conn(*id));
        clients.filter(|c| c.syn_retries == 0)
    }

    /// The median connect time of the others, ns.
    pub(super) fn usual_ns(&self) -> u64 {
        let mut took: Vec<u64> = self.others().filter_map(Conn::connect_ns).collect();
        median(&mut took).unwrap_or(0)
    }

    /// How many connects were refused, of how many since the first refusal.
    pub(super) fn impact(&self) -> (u64, u64) {
        let hit = self.hit.len() as u64;
        if hit > 0 {
            let all = self.story.all(&self.clients);
            let since = all.filter(|(id, c)| c.start_ns >= self.first_ns || self.hit.contains(id));
            return (hit, since.count() as u64);
        }
        let refused = self.refused.len().max(self.strays.len()) as u64;
        let since = self.established().filter(|t| *t >= self.first_ns);
        (refused, refused + since.count() as u64)
    }

    /// Whether the server is known only through its clients.
    pub(super) fn is_told_by_clients(&self) -> bool {
        self.server.is_none()
    }

    /// Whether the server keeps TIME_WAIT sockets, as far as its clients show: it closed some of their ended
    /// connections first. Where it never does, it has an established socket that they forgot.
    pub(super) fn server_closes_first(&self) -> bool {
        let ended = self.story.all(&self.clients).map(|(_, c)| c);
        let ended = ended.filter(|c| c.outcome == Outcome::Closed);
        ended.clone().any(|c| c.peer_closed) || ended.count() < limits::ENOUGH.as_usize()
    }

    /// Refused connects without success by the end.
    pub(super) fn waiting(&self) -> u64 {
        let pending = self.hit().filter(|c| c.outcome == Outcome::Pending);
        pending.count() as u64
    }

    /// Whether most were refused for their timestamp.
    pub(super) fn paws(&self) -> bool {
        let paws = self.refused.iter().filter(|r| r.paws).count();
        limits::MOST.exceeded(paws, self.refused.len())
    }

    /// Namespaces of the clients on this host.
    pub(super) fn client_netns(&self) -> Vec<u32> {
        let netns = self.strays.iter().map(|s| s.netns);
        let mut netns: Vec<u32> = netns.chain(self.hit().map(|c| c.netns)).collect();
        netns.sort_unstable();
        netns.dedup();
        netns
    }

    /// Whether the TIME_WAIT sockets outlive resets.
    pub(super) fn keeps(&self) -> bool {
        let number = |n| self.story.settings.number(n, sysctl::TCP_RFC1337);
        self.server.and_then(number) == Some(1)
    }

    /// Whether the server knows the clients on this host by other ends than their own.
    pub(super) fn behind_nat(&self) -> bool {
        let own: AHashSet<Endpoint> = self.strays.iter().map(|s| s.local).collect();
        let known = self.refused.iter().filter(|r| own.contains(&r.seen.remote));
        !own.is_empty() && !limits::MOST.reached(known.count(), self.refused.len())
    }

    /// The local ports in use to the server, at most.
    pub(super) fn ports(&self) -> Option<&analysis::ports::Use> {
        let ports: &Ports = &self.story.ports;
        let used = self.client_netns().into_iter();
        let used = used.filter_map(|netns| ports.most(netns, self.at));
        used.max_by_key(|u| u.most.used)
    }

    /// The port range of the clients here: its size, and its namespace.
    pub(super) fn range(&self) -> Option<(u64, u32)> {
        let netns = *self.client_netns().first()?;
        let value = self
            .story
            .settings
            .get(netns, sysctl::IP_LOCAL_PORT_RANGE)?;
        let (low, high) = (value.number(0)?, value.number(1)?);
        Some((high.checked_sub(low)?.checked_add(1)?, netns))
    }

    /// The SYNs retransmitted after a timeout, not at once.
    pub(super) fn timeouts(&self) -> impl Iterator<Item = &'a Retry> + '_ {
        let retries = self.retries.iter().copied();
        retries.filter(|r| r.after_ns >= limits::NO_QUICK_RETRY.ns())
    }

    /// The earlier connection of the same ends, as the server saw it, and the time from its SYN to the new one, ns:
    /// this decides without timestamps.
    pub(super) fn uploads(&self) -> Vec<Upload> {
        let mut of_ends: AHashMap<Endpoint, Vec<(u64, ConnId)>> = AHashMap::new();
        for (id, conn) in self.story.all(&self.clients) {
            let of_one = of_ends.entry(conn.local).or_default();
            of_one.push((conn.start_ns, id));
        }
        let uploads = self.refused.iter().filter_map(|r| {
            let of_one = of_ends.get(&r.seen.remote)?;
            let n = of_one.partition_point(|(start, _)| *start <= r.seen.time_ns);
            let (start, _) = of_one.get(n.checked_sub(1)?)?;
            let (before, id) = of_one.get(n.checked_sub(2)?)?;
            Some(Upload {
                bytes: self.story.conn(*id)?.bytes_acked,
                start_ns: *start,
                since_ns: start.saturating_sub(*before),
            })
        });
        uploads.collect()
    }
}

/// How many of the connections existed at one time within a span: at most, and on average. A blocked one exists until
/// it is established, any other until its end.
pub(super) fn at_once<'c>(
    story: &Story,
    conns: impl Iterator<Item = &'c Conn>,
    (from, to): (u64, u64),
) -> (u64, f64) {
    let mut steps: Vec<(u64, i64)> = Vec::new();
    let mut sum = 0.0;
    for conn in conns {
        let until = if conn.syn_retries > 0 {
            conn.established_ns.or(conn.ended_ns)
        } else {
            conn.ended_ns
        };
        let (start, end) = (
            conn.start_ns.max(from),
            until.unwrap_or(story.end_ns).min(to),
        );
        if start < end {
            steps.extend([(start, 1), (end, -1)]);
            sum += (end - start) as f64;
        }
    }
    // At equal times ends come first.
    steps.sort_unstable();
    let mut now = 0;
    let most = steps.iter().map(|(_, by)| {
        now += by;
        now
    });
    let most = most.max().unwrap_or(0).max(0) as u64;
    (most, sum / to.saturating_sub(from).max(1) as f64)
}

/// A connection, and when the next of the same ends began.
pub(super) struct Upload {
    /// Bytes that the client sent.
    pub(super) bytes: u64,
    /// When the next one's SYN was sent.
    pub(super) start_ns: u64,
    /// From its SYN to the next one's.
    pub(super) since_ns: u64,
}

impl Upload {
    /// Whether the TIME_WAIT socket expects a higher sequence number than the new SYN has.
    pub(super) fn overtook(&self) -> bool {
        self.bytes.saturating_mul(limits::ISN_TICK.ns()) > self.since_ns
    }
}

/// The case of a server; no new one beyond the bound.
fn entry<'c, 'a>(
    cases: &'c mut BTreeMap<Key, Collision<'a>>,
    story: &'a Story,
    netns: u32,
    at: Endpoint,
) -> Option<&'c mut Collision<'a>> {
    let key = key(netns, at);
    let room = cases.len() < MAX_SERVERS || cases.contains_key(&key);
    room.then(|| {
        cases
            .entry(key)
            .or_insert_with(|| Collision::new(story, at))
    })
}
