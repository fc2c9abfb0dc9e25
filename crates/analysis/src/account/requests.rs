//! The requests of a service: how many, how long, and what their time went with.

use recording::RowRef;
use recording::tables::{Exchange, Request};
use serde::{Deserialize, Serialize};

use super::exchange::Slow;
use super::exchanged::{add_requests, exchanged_ns, is_multiplexed};
use super::histogram::{Histogram, Percentiles};
use super::parts::{Parts, Thinking, Whose};
use super::silence::Silences;
use super::state::Role;
use crate::bounded::Interest;
use crate::words;

/// The slowest of a service's exchanges that are kept one by one: more than the 20 on one connection that make a
/// finding.
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
    /// no percentiles, and service time may show as receiving.
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

/// The longest of those that ended, ns.
pub(super) fn longest<'x>(slowest: impl Iterator<Item = &'x Exchange>) -> Option<u64> {
    slowest.filter(|x| !x.open).map(Slow::took_ns).max()
}

/// One service as it comes together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) all: Request,
    pub(super) response: Histogram,
    pub(super) think: Histogram,
    /// The slowest first.
    pub(super) slowest: Vec<(Option<RowRef>, Exchange)>,
    /// The second in which exchanges took most time, and that time, ns.
    pub(super) busiest: Option<(u64, Option<RowRef>)>,
    pub(super) silences: Silences,
    /// The end of the last second in which one ended, ns since boot.
    pub(super) answered_ns: Option<u64>,
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

impl Requests {
    /// Sets how long a round trip is: then network and peer can be told apart.
    pub fn round_trip(&mut self, role: Role, s: f64) {
        self.round_trip_s = Some(words::rounded(s));
        self.whose_s = self.spent_s.whose(role, self.exchanges, Some(s));
    }
}

impl Sums {
    /// Adds those of the same service that came to another of its addresses.
    pub(super) fn absorb(&mut self, other: &Sums) {
        let open = self
            .all
            .open
            .unwrap_or(0)
            .saturating_add(other.all.open.unwrap_or(0));
        // Only if one of the addresses was not used is a silence at the other one of the whole service.
        let one = match (self.all.exchanges, other.all.exchanges) {
            (0, _) => other.silences,
            (_, 0) => self.silences,
            _ => Silences::default(),
        };
        self.follow(other);
        (self.all.open, self.silences) = (Some(open), one);
    }

    /// Adds those of the seconds that follow.
    pub(super) fn follow(&mut self, other: &Sums) {
        add_requests(&mut self.all, &other.all);
        self.response.absorb(&other.response);
        self.think.absorb(&other.think);
        self.busiest = self.busiest.max(other.busiest);
        self.silences.follow(&other.silences);
        self.answered_ns = self.answered_ns.max(other.answered_ns);
        self.given_up_in = self.given_up_in.saturating_add(other.given_up_in);
        self.keep_slowest(other.slowest.iter().cloned());
    }

    pub(super) fn keep_slowest(
        &mut self,
        more: impl IntoIterator<Item = (Option<RowRef>, Exchange)>,
    ) {
        self.slowest.extend(more);
        self.slowest
            .sort_by_key(|(_, x)| std::cmp::Reverse(Slow::took_ns(x)));
        // As many of those given up, which need not be the slowest.
        let mut kept = [0; 2];
        self.slowest.retain(|(_, x)| {
            let kept = &mut kept[usize::from(x.given_up == Some(true))];
            *kept += 1;
            *kept <= MAX_SLOW
        });
    }

    pub(super) fn told(self, role: Role, slow: impl Fn(&Exchange) -> Slow) -> Requests {
        let all = &self.all;
        let s = |ns: u64| words::rounded(ns as f64 / 1e9);
        let spent_s = Parts::of(|part| s(all.part_ns(part)));
        let multiplexed = is_multiplexed(all);
        // The slowest of each second is told.
        let longest = longest(self.slowest.iter().map(|(_, x)| x));
        let timed = |histogram: &Histogram| {
            if multiplexed {
                None
            } else {
                histogram.percentiles(longest)
            }
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
