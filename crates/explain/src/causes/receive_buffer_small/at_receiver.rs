//! The same for receivers with remote senders: within a round trip the application takes all that the window holds, and
//! the buffer grows no further.

use analysis::account::{Role as Serves, ServiceKey};

use super::{ADVISED_TIMES, CAUSE, Limit, Receiving};
use crate::finding::RuledOut;
use crate::limits;
use crate::places::path::{End, sample_rows};
use crate::places::receivers::{self, other, per_s, receivers};
use crate::vocabulary::*;

/// A receiver over windows that are filled.
struct Filled<'a> {
    story: &'a Story,
    key: ServiceKey,
    held: Vec<End<'a>>,
    /// Transfers that it received, held back or not.
    all: u64,
}

pub(super) fn find(story: &Story) -> Vec<Finding> {
    let places = receivers(story).into_iter().map(|(key, ends)| Filled {
        story,
        key,
        all: ends.len() as u64,
        held: ends.into_iter().filter(|e| is_held(story, e)).collect(),
    });
    places.filter_map(|p| p.judge()).collect()
}

fn is_held(story: &Story, end: &End) -> bool {
    let (t, taken) = (end.transfer, end.transfer.taken);
    let away = other(story, end).is_none();
    let scaled = end.conn.agreed.is_some_and(|a| a.window_scaling);
    let widest = f64::from(taken.widest_wnd);
    let lasting = t.received()
        >= limits::GROWN_BY
            .count()
            .saturating_mul(taken.widest_wnd.into());
    let filled = widest > 0.0 && f64::from(taken.space) >= limits::NEARLY_ALL.share() * widest;
    let all_along = per_s(end) * f64::from(taken.rtt_us) / 1e6 * limits::TWICE.times() >= widest;
    // With requests that come one by one it measures how long they take to come, not a round trip.
    let is_round_trip = f64::from(taken.rtt_us) < limits::TWICE.times() * f64::from(t.min_rtt_us);
    let grew = taken.first_rcvbuf != t.rcvbuf;
    let in_time = !limits::MOST.reached(t.unread, t.samples);
    let here = away && scaled && !end.conn.remote.is_loopback();
    here && t.samples >= limits::SEEN_TWICE.as_u32()
        && lasting
        && filled
        && is_round_trip
        && all_along
        && !grew
        && in_time
}

impl Filled<'_> {
    fn judge(&self) -> Option<Finding> {
        let widest = self
            .held
            .iter()
            .max_by_key(|e| e.transfer.taken.widest_wnd)?;
        let taken = widest.transfer.taken;
        let (netns, serves, at) = self.key;
        let limit = Limit::of_receiver(self.story, widest);
        let scope = receivers::scope(self.story, netns, at, &self.held);
        let n = self.held.len() as u64;
        let window = Quantity::bytes(taken.widest_wnd);
        let rate = self.held.iter().map(per_s).sum::<f64>();
        let says = format!(
            "{} of {} took a window of {window} in each round trip, {} in total.",
            Quantity::count(n),
            Quantity::of(self.all, "transfer"),
            Quantity::rate(rate)
        );
        let larger = u64::from(taken.widest_wnd).saturating_mul(ADVISED_TIMES);
        let mut lost = Lost::unknown();
        for end in &self.held {
            lost.add(end.conn, State::PeerWindow, end.transfer.span_ns);
        }
        let rows = sample_rows(&self.held);
        let (from, side) = match serves {
            Serves::Server => ("at", "sport"),
            Serves::Client | Serves::Unknown => ("reading from", "dport"),
        };
        let look = shell!("ss -tmi '{side} = :{port}'", side, port = at.port);
        let who = process(&scope);
        let receiving = Receiving {
            at: at.to_string(),
            look: command_in(&scope.netns, look),
            shows: "this host; the command shows the receive buffer (rb of skmem)",
        };
        let case = Case::new(self.story, CAUSE, scope)
            .layer(limit.layer())
            .placed(Place::Receivers(self.held.iter().map(|e| e.id).collect()))
            .title([
                format!("{who} {from} {at} offers a window too small for the path: {window} per round trip."),
                format!("{who} offers a window too small for the path ({window})."),
            ])
            .fix([limit.fix(at.to_string())])
            .affects(Impact::of(n, self.all, "connections", says), lost)
            .because("the kernel measures what the application takes within a round trip")
            .at_most(
                Level::Medium,
                "the senders are not on this host: that they wait for the window is inferred",
            )
            .steps([say!(
                "In a round trip of {rcv_rtt_us} the application took {space}, and the widest window was \
                 {window}: {why}.",
                rcv_rtt_us = Quantity::us(taken.rtt_us),
                space = Quantity::bytes(taken.space).rows(rows.clone()),
                window,
                why = Quantity::new(u64::from(widest.transfer.rcvbuf), limit.who())
            )])
            .rules_out([self.read_in_time()])
            .checks([at_least(
                "what the application takes within a round trip (rcv_space) ≥ the widest window",
                u64::from(taken.widest_wnd),
                u64::from(taken.space),
                "bytes",
            )])
            .advise([limit.advice(self.story, larger, rate, receiving)]);
        Some(case.verify(sentence!("`ss -tmi '{side} = :{port}'` shows a larger receive buffer (rb of skmem), and the transfers are faster.", side, port = at.port)))
    }

    fn read_in_time(&self) -> RuledOut {
        let sum = |of: fn(&End) -> u32| Quantity::count(self.held.iter().map(of).sum::<u32>());
        RuledOut::by(
            Id::SLOW_READER,
            say!(
                "{unread} of {samples} samples found unread data",
                unread = sum(|e| e.transfer.unread),
                samples = sum(|e| e.transfer.samples).rows(sample_rows(&self.held))
            ),
        )
    }
}

/// What an end here received, in its widest windows, and how much of them it filled within a round trip.
pub(super) fn refuted(end: &End) -> Option<Answered> {
    let taken = end.transfer.taken;
    let (widest, received) = (f64::from(taken.widest_wnd), end.transfer.received());
    if widest <= 0.0 {
        return None;
    }
    let says = || {
        say!(
            "a receiver took {received}, {space} of it within a round trip at most, in windows of {widest} at most",
            received = Quantity::bytes(received).rows(sample_rows(&[*end])),
            space = Quantity::bytes(taken.space),
            widest = Quantity::bytes(taken.widest_wnd)
        )
    };
    every([
        Test::from(received as f64 / widest, &limits::GROWN_BY, says()),
        Test::from(f64::from(taken.space) / widest, &limits::NEARLY_ALL, says()),
    ])
}
