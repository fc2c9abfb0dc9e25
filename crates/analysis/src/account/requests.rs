//! The requests of a service: how many, how long, and what their time went with.

use std::collections::BTreeMap;

use recording::tables::{Exchange, Request, RequestTime};
use recording::{Error, Recording, RowRef, Timed};
use serde::{Deserialize, Serialize};

use super::exchange::{Slept, Slow};
use super::exchanged::{add_requests, exchanged_ns, is_multiplexed};
use super::exchanges::Exchanges;
use super::histogram::{Histogram, Percentiles};
use super::silence::Silences;
use super::{Role, ServiceKey};
use crate::bounded::{BoundedTree, Interest};
use crate::place::Endpoint;
use crate::{Listener, Story, words};

/// Services whose requests are kept apart; those of further ones are counted.
const MAX_SERVICES: usize = 1 << 14;
/// Of the exchanges of a service that are told one by one, the slowest are kept: more than the 20 on one
/// connection that make a finding.
const MAX_SLOW: usize = 32;

/// The requests of one service on this host, and their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Requests {
    /// Exchanges that ended: a request and its answer.
    pub exchanges: u64,
    /// Connections that closed before the answer.
    pub unanswered: u64,
    /// Of those, such that the end that asked closed after 100 ms of waiting and more: it gave up.
    pub given_up: u64,
    /// How long these had waited, all together, s.
    pub given_up_s: f64,
    /// Exchanges that had been under way for a second or longer when the recording ended.
    pub open: u64,
    /// More than 5 % of the exchanges overlapped (pipelining, multiplexing) or were not asked for: there are
    /// no percentiles, and thinking may be told as receiving.
    pub multiplexed: bool,
    /// Segments retransmitted while the other side's next word was awaited.
    pub retransmits: u64,
    /// The time of all exchanges together, s.
    pub total_s: f64,
    /// The same by part, s: the parts sum to the total.
    pub spent_s: Parts,
    /// Whose time it was, s.
    pub whose_s: Whose,
    /// How long exchanges took; null when they are multiplexed.
    pub response: Option<Percentiles>,
    /// How long the application worked on each; null of a client, and when they are multiplexed.
    pub think: Option<Percentiles>,
    /// A round trip of the connections, the average of all, s: the shortest, and what a queue adds that transfers on
    /// the path keep filled; null when none was measured.
    pub round_trip_s: Option<f64>,
    /// What threads did while they thought, as far as one thread did nothing else.
    pub thinking: Thinking,
    /// The slowest exchanges, the slowest first.
    pub slowest: Vec<Slow>,
}

/// Time of exchanges by part, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parts {
    /// Data waited for accept() and the first read after it.
    pub accept: f64,
    /// Data waited to be read by our application.
    pub unread: f64,
    /// More of the message was on its way.
    pub receive: f64,
    /// Our application worked.
    pub think: f64,
    /// The answer was awaited: network and peer.
    pub awaited: f64,
    /// Between two writes of a message, with full segments not yet sent: windows and buffers held them back.
    pub send: f64,
    /// Until what we had sent was retransmitted.
    pub repair: f64,
    /// Until it was retransmitted though it had come: its acknowledgement was lost, or the answer.
    pub unheard: f64,
}

impl Parts {
    /// All of it, s.
    pub fn total(&self) -> f64 {
        let application = self.accept + self.unread + self.think;
        let elsewhere = self.receive + self.awaited + self.unheard;
        application + self.send + self.repair + elsewhere
    }

    /// Whose it was, where each of so many exchanges took a round trip of this many seconds.
    fn whose(&self, role: Role, exchanges: u64, round_trip_s: Option<f64>) -> Whose {
        let elsewhere = self.receive + self.awaited;
        let network = match (role, round_trip_s) {
            (Role::Client, Some(s)) => {
                Some((s * exchanges as f64).min(self.awaited) + self.receive)
            }
            _ => None,
        };
        Whose {
            application: self.accept + self.unread + self.think,
            tcp: self.send + self.repair,
            network: network.unwrap_or(0.0),
            peer: network.map_or(0.0, |s| elsewhere - s),
            network_or_peer: self.unheard + if network.is_some() { 0.0 } else { elsewhere },
        }
    }
}

/// Whose time the exchanges of a service took, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Whose {
    /// Our application: accepting, reading, thinking.
    pub application: f64,
    /// TCP here: repairing losses; windows and buffers that held data back.
    pub tcp: f64,
    /// The network: a round trip for each exchange, and what came piecemeal.
    pub network: f64,
    /// The other end: what is left of waiting for the answer.
    pub peer: f64,
    /// Network or peer, where no round trip tells them apart, or where only the loss of what came back is known.
    pub network_or_peer: f64,
}

/// What threads did between reading a request and answering it, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thinking {
    /// One thread read and answered, and read no other request meanwhile; of the rest of `think` nobody
    /// can tell (event loops, work handed on).
    pub alone: f64,
    /// Of that, it ran.
    pub cpu: f64,
    /// Of that, it waited for a CPU.
    pub runqueue: f64,
}

impl Thinking {
    /// The thread slept: locks, disks, timers, other connections, s.
    pub fn asleep(&self) -> f64 {
        (self.alone - self.cpu - self.runqueue).max(0.0)
    }
}

/// One service as it comes together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) all: Request,
    pub(super) response: Histogram,
    think: Histogram,
    /// The slowest first.
    pub(super) slowest: Vec<(Option<RowRef>, Exchange)>,
    /// The second in which exchanges took most time, and that time, ns.
    pub(super) busiest: Option<(u64, Option<RowRef>)>,
    pub(super) silences: Silences,
    /// In how many seconds some were given up.
    pub(super) given_up_in: u64,
}

/// By how long its exchanges took, and those that were given up.
impl Interest for Sums {
    fn interest(&self) -> u64 {
        let given_up_ns = self.all.given_up_ns.unwrap_or(0);
        exchanged_ns(&self.all).saturating_add(given_up_ns)
    }
    fn counted(&self) -> u64 {
        let given_up = self.all.given_up.unwrap_or(0);
        self.all.exchanges.saturating_add(given_up)
    }
}

/// The requests of `MOST` services at most, by where they came to or went, as their rows come. Of more, those
/// are kept whose exchanges took longest.
#[derive(Debug, Default)]
pub struct Asked<const MOST: usize> {
    all: BoundedTree<ServiceKey, Sums, MOST>,
}

/// The requests of every service of a recording.
pub(crate) type AllRequests = Asked<MAX_SERVICES>;

impl<const MOST: usize> Asked<MOST> {
    pub(crate) fn read(recording: &Recording) -> Result<Asked<MOST>, Error> {
        let mut all = Asked::default();
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

    /// How many exchanges there were: of one between two programs of this host both ends tell.
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
            Timed::Unread | Timed::Unknown(_) => {}
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
    pub fn follow<const OTHER: usize>(&mut self, later: &Asked<OTHER>) {
        for (key, sums) in later.all.iter() {
            self.all.slot(*key, Sums::default).follow(sums);
        }
    }

    /// Those of each service.
    pub(crate) fn by_service(&self, story: &Story) -> BTreeMap<ServiceKey, Requests> {
        self.told(
            story.start_ns,
            |netns, at| listener_at(story, netns, at),
            |x| Slept::during(story, x),
        )
    }

    /// The same, to be judged.
    pub(super) fn exchanges(&self, story: &Story) -> Vec<Exchanges> {
        let merged = self.merged(|netns, at| listener_at(story, netns, at));
        let services = merged.into_iter();
        services
            .map(|(key, sums)| Exchanges::of(key, sums))
            .collect()
    }

    /// Those of each service. `listener` says where a server listens whose connections have a local address,
    /// `waits` what the thread of an exchange waited for.
    pub fn told(
        &self,
        start_ns: u64,
        listener: impl Fn(u32, Endpoint) -> Endpoint,
        waits: impl Fn(&Exchange) -> Vec<Slept>,
    ) -> BTreeMap<ServiceKey, Requests> {
        let slow = |x: &Exchange| Slow::of(start_ns, x, waits(x));
        let told = self.merged(listener).into_iter();
        told.map(|(key, sums)| (key, sums.told(key.1, slow)))
            .collect()
    }

    /// By service: a listener at any address has them at the address they came to.
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

impl Requests {
    /// Says how long a round trip is: then network and peer are told apart.
    pub fn round_trip(&mut self, role: Role, s: f64) {
        self.round_trip_s = Some(words::rounded(s));
        self.whose_s = self.spent_s.whose(role, self.exchanges, Some(s));
    }
}

impl Sums {
    /// Adds those of the same service that came to another of its addresses.
    fn absorb(&mut self, other: &Sums) {
        let open = self
            .all
            .open
            .unwrap_or(0)
            .saturating_add(other.all.open.unwrap_or(0));
        // Where another address was served nothing is told.
        let one = match (self.all.exchanges, other.all.exchanges) {
            (0, _) => other.silences,
            (_, 0) => self.silences,
            _ => Silences::default(),
        };
        self.follow(other);
        (self.all.open, self.silences) = (Some(open), one);
    }

    /// Adds those of the seconds that follow.
    fn follow(&mut self, other: &Sums) {
        add_requests(&mut self.all, &other.all);
        self.response.absorb(&other.response);
        self.think.absorb(&other.think);
        self.busiest = self.busiest.max(other.busiest);
        self.silences.follow(&other.silences);
        self.given_up_in = self.given_up_in.saturating_add(other.given_up_in);
        self.keep_slowest(other.slowest.iter().cloned());
    }

    fn keep_slowest(&mut self, more: impl IntoIterator<Item = (Option<RowRef>, Exchange)>) {
        self.slowest.extend(more);
        self.slowest
            .sort_by_key(|(_, x)| std::cmp::Reverse(Slow::took_ns(x)));
        // Of those that were given up as many: they need not be the slowest.
        let mut kept = [0; 2];
        self.slowest.retain(|(_, x)| {
            let kept = &mut kept[usize::from(x.given_up == Some(true))];
            *kept += 1;
            *kept <= MAX_SLOW
        });
    }

    fn told(self, role: Role, slow: impl Fn(&Exchange) -> Slow) -> Requests {
        let all = &self.all;
        let s = |ns: u64| words::rounded(ns as f64 / 1e9);
        let spent_s = Parts {
            accept: s(all.accept_ns),
            unread: s(all.unread_ns),
            receive: s(all.receive_ns),
            think: s(all.think_ns),
            awaited: s(all.await_ns),
            send: s(all.send_ns),
            repair: s(all.repair_ns),
            unheard: s(all.unheard_ns),
        };
        let multiplexed = is_multiplexed(all);
        let timed = |histogram: &Histogram| match multiplexed {
            true => None,
            false => histogram.percentiles(),
        };
        Requests {
            exchanges: all.exchanges,
            unanswered: all.unanswered,
            given_up: all.given_up.unwrap_or(0),
            given_up_s: s(all.given_up_ns.unwrap_or(0)),
            open: all.open.unwrap_or(0),
            multiplexed,
            retransmits: all.retransmits,
            total_s: s(exchanged_ns(all)),
            spent_s,
            whose_s: spent_s.whose(role, all.exchanges, None),
            response: timed(&self.response),
            think: match role {
                Role::Server => timed(&self.think),
                Role::Client | Role::Unknown => None,
            },
            round_trip_s: None,
            thinking: Thinking {
                alone: s(all.think_alone_ns),
                cpu: s(all.think_cpu_ns),
                runqueue: s(all.think_runqueue_ns),
            },
            slowest: {
                let slowest = self.slowest.iter().take(Slow::MOST);
                slowest.map(|(_, x)| slow(x)).collect()
            },
        }
    }
}

/// Where a server listens whose connection has this local address.
fn listener_at(story: &Story, netns: u32, at: Endpoint) -> Endpoint {
    let all = story.listeners.all.iter();
    let of_port = all.filter(|l| l.netns == netns && l.local.port == at.port);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_on_its_way_back_is_the_networks_or_the_peers() {
        let parts = Parts {
            awaited: 5.0,
            unheard: 2.0,
            repair: 1.0,
            ..Parts::default()
        };
        let whose = parts.whose(Role::Client, 20, Some(0.1));
        let told = [whose.tcp, whose.network, whose.peer, whose.network_or_peer];
        assert_eq!(told, [1.0, 2.0, 3.0, 2.0]);
        assert_eq!(told.iter().sum::<f64>(), parts.total());
        let unmeasured = parts.whose(Role::Client, 20, None);
        assert_eq!(unmeasured.network_or_peer, 7.0);
    }
}
