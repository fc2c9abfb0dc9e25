//! The exchanges of a service as judging them needs them: all together, and the slowest one by one.

use recording::RowRef;
use recording::tables::{Exchange, Request};

use super::exchanged::is_multiplexed;
use super::histogram::{Histogram, Percentiles};
use super::requests::{Sums, longest};
use super::service::ServiceKey;
use super::silence::Silence;
use super::state::Role;

/// The exchanges of one service.
#[derive(Debug)]
pub struct Exchanges {
    /// The service.
    pub service: ServiceKey,
    /// All of them together.
    pub all: Request,
    /// The slowest, the slowest first, with those that are not answered.
    pub slowest: Vec<(RowRef, Exchange)>,
    /// The row of the second in which they took most time.
    pub busiest: Option<RowRef>,
    /// The longest time in which nothing was answered, and something asked.
    pub silence: Option<Silence>,
    /// The silence that was still going on at the last look.
    pub silent_now: Option<Silence>,
    /// The end of the last second in which one was answered, ns since boot.
    pub answered_ns: Option<u64>,
    /// In how many seconds some were given up.
    pub given_up_in: u64,
    response: Histogram,
}

impl Exchanges {
    pub(super) fn of(service: ServiceKey, sums: Sums) -> Exchanges {
        let recorded = sums.slowest.into_iter();
        let recorded = recorded.filter_map(|(row, x)| Some((row?, x)));
        Exchanges {
            service,
            all: sums.all,
            slowest: recorded.collect(),
            busiest: sums.busiest.and_then(|(_, row)| row),
            silence: sums.silences.longest,
            silent_now: sums.silences.now,
            answered_ns: sums.answered_ns,
            given_up_in: sums.given_up_in,
            response: sums.response,
        }
    }

    /// Whether the ends of this service answer, or ask.
    pub fn role(&self) -> Role {
        self.service.1
    }

    /// How long they took; `None` when nothing tells which answer belongs to which request.
    pub fn response(&self) -> Option<Percentiles> {
        if is_multiplexed(&self.all) {
            None
        } else {
            self.response
                .percentiles(longest(self.slowest.iter().map(|(_, x)| x)))
        }
    }

    /// How many took this long or longer, as exactly as the steps of the histogram allow.
    pub fn as_long(&self, ns: u64) -> u64 {
        self.response.as_long(ns)
    }

    /// How many took this long or longer, and how long all of these together, ns.
    pub fn beyond(&self, ns: u64) -> (u64, u64) {
        self.response.beyond(ns)
    }
}
