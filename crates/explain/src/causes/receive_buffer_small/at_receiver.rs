//! The same of receivers whose senders are elsewhere: what the application takes within a round trip is all that the
//! window holds, and the buffer grows no further.

use std::collections::BTreeMap;

use analysis::account::{self, ServiceKey};

use super::{CAUSE, LARGER, Limit};
use crate::finding::RuledOut;
use crate::places::path::{End, ends, receiver_scope, sample_rows};
use crate::places::window::{BULK, HeldBack, ROUND_TRIPS, SPARE};
use crate::vocabulary::*;

/// What the application took within a round trip, as a share of the widest window, from which on that was full.
const FULL: f64 = 0.9;

/// Where something is received over windows that are filled.
struct Receiving<'a> {
    story: &'a Story,
    key: ServiceKey,
    held: Vec<End<'a>>,
    /// Transfers that it received, held back or not.
    all: u64,
}

/// Those that no sender on this host tells of: behind an address that is translated the ends are no pair, but the window
/// that one offers is that which the other has.
pub(super) fn find(story: &Story, senders: &[HeldBack]) -> Vec<Finding> {
    let senders = senders.iter().flat_map(|p| &p.held);
    let told = senders.filter_map(|e| Some(story.samples(e.conn)?.snd_wnd_max));
    let told: Vec<u32> = told.collect();
    let mut places: BTreeMap<ServiceKey, Vec<End>> = BTreeMap::new();
    for end in ends(story).filter(|e| e.transfer.received() >= BULK) {
        let key = account::service(story, end.conn);
        places.entry(key).or_default().push(end);
    }
    let places = places.into_iter().map(|(key, ends)| Receiving {
        story,
        key,
        all: ends.len() as u64,
        held: ends
            .into_iter()
            .filter(|e| is_held(story, e) && !told.contains(&e.transfer.taken.widest_wnd))
            .collect(),
    });
    places.filter_map(|p| p.judge()).collect()
}

/// Bytes per second that it received.
fn rate(end: &End) -> f64 {
    let ns = end.transfer.span_ns.max(1) as f64;
    end.transfer.received() as f64 * 1e9 / ns
}

fn is_held(story: &Story, end: &End) -> bool {
    let (t, taken) = (end.transfer, end.transfer.taken);
    let away = end
        .conn
        .peer
        .and_then(|peer| End::of(story, peer))
        .is_none();
    let scaled = end.conn.agreed.is_some_and(|a| a.window_scaling);
    let widest = f64::from(taken.widest_wnd);
    let lasting = t.received() >= ROUND_TRIPS.saturating_mul(taken.widest_wnd.into());
    let filled = widest > 0.0 && f64::from(taken.space) >= FULL * widest;
    let all_along = rate(end) * f64::from(taken.rtt_us) / 1e6 * SPARE >= widest;
    let grew = taken.first_rcvbuf != t.rcvbuf;
    let in_time = t.unread.saturating_mul(2) < t.samples;
    let here = away && scaled && !end.conn.remote.is_loopback();
    here && t.samples >= 2 && lasting && filled && all_along && !grew && in_time
}

impl Receiving<'_> {
    fn judge(&self) -> Option<Finding> {
        let widest = self
            .held
            .iter()
            .max_by_key(|e| e.transfer.taken.widest_wnd)?;
        let taken = widest.transfer.taken;
        let (netns, _, at) = self.key;
        let limit = Limit::of_receiver(self.story, widest);
        let scope = receiver_scope(self.story, netns, at, &self.held);
        let n = self.held.len() as u64;
        let window = Quantity::bytes(taken.widest_wnd);
        let rate = self.held.iter().map(rate).sum::<f64>();
        let says = format!(
            "{} of {} took a window of {window} in each round trip, {} in all.",
            Quantity::count(n),
            Quantity::of(self.all, "transfer"),
            Quantity::rate(rate)
        );
        let larger = u64::from(taken.widest_wnd).saturating_mul(LARGER);
        let mut lost = Lost::unknown();
        for end in &self.held {
            lost.add(end.conn, State::PeerWindow, end.transfer.span_ns);
        }
        let rows = sample_rows(&self.held);
        let case = Case::new(self.story, CAUSE, scope)
            .layer(limit.layer())
            .placed(Place::Receivers(self.held.iter().map(|e| e.id).collect()))
            .title([
                format!("The window of {at} is too small for the path ({window}): senders fill it once per round trip."),
                format!("The window of {at} is too small for the path."),
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
            .advise([limit.advice(self.story, at.to_string(), larger, rate)]);
        Some(case.verify(format!(
            "`ss -tmi 'sport = :{}'` shows a larger receive buffer (rb of skmem), and the transfers are faster.",
            at.port
        )))
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
