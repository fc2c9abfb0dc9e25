//! Streams in lockstep: an application sends a part, and waits for a word of the other side before the next, while
//! both windows of TCP have room for more.

use std::collections::BTreeMap;

use analysis::account::{self, Role, Service, ServiceKey};
use analysis::words::percent;
use analysis::{Story, Transfer};

use crate::limits;
use crate::named::{name, seconds};
use crate::places::path::{End, ends};
use crate::say::Quantity;

/// The ends of one service whose streams are in lockstep.
pub(crate) struct Lockstep<'a> {
    service: &'a Service,
    steps: Steps,
}

/// What its ends come to.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    /// These ends send the stream; else they receive it.
    sends: bool,
    ends: u64,
    bytes: u64,
    /// Time in which their streams went on, and in how much of it a word was awaited, s.
    lasted_s: f64,
    waited_s: f64,
    /// Round trips of all of them together, s.
    round_trips_s: f64,
}

impl<'a> Lockstep<'a> {
    /// The service that waited longest.
    pub(crate) fn most(story: &Story, services: &'a [Service]) -> Option<Lockstep<'a>> {
        let mut all: BTreeMap<(ServiceKey, bool), Steps> = BTreeMap::new();
        for end in ends(story) {
            let key = account::service(story, end.conn);
            let (netns, role, at) = key;
            let steps = Steps::sent(&end).or_else(|| Steps::received(&end, role));
            let Some(steps) = steps else { continue };
            let its = |s: &&Service| (s.netns.inode, s.role, s.at) == (netns, role, at);
            // How a receiver's words were answered its requests tell.
            let waits = steps.sends || services.iter().find(its).is_some_and(waits_for_network);
            if waits {
                all.entry((key, steps.sends)).or_default().absorb(steps);
            }
        }
        let (((netns, role, at), _), steps) = all
            .into_iter()
            .max_by(|a, b| a.1.waited_s.total_cmp(&b.1.waited_s))?;
        let service = services
            .iter()
            .find(|s| (s.netns.inode, s.role, s.at) == (netns, role, at))?;
        let long = steps.lasted_s >= limits::SENDING.s();
        long.then_some(Lockstep { service, steps })
    }

    /// How long words were awaited, s.
    pub(crate) fn took_s(&self) -> f64 {
        self.steps.waited_s
    }

    /// Which part of the time of the streams, 0..1.
    pub(crate) fn share(&self) -> f64 {
        self.steps.waited_s / self.steps.lasted_s.max(f64::MIN_POSITIVE)
    }

    /// In two sentences: what happens, and what to do.
    pub(crate) fn says(&self) -> String {
        let steps = &self.steps;
        let round_trip_s = steps.round_trips_s / steps.ends.max(1) as f64;
        let per_s = steps.bytes as f64 / steps.lasted_s.max(f64::MIN_POSITIVE);
        let (who, at) = (name(self.service), self.service.at);
        let (answers, verb) = (
            self.service.role == Role::Server,
            if steps.sends { "sends" } else { "receives" },
        );
        let way = match (answers, steps.sends) {
            (true, _) => "at",
            (false, true) => "to",
            (false, false) => "from",
        };
        let windows = if steps.sends {
            " both TCP windows have room for more, and nothing more is written"
        } else {
            " nothing comes until then"
        };
        format!(
            "{who} {verb} {} per round trip of {} {way} {at}, {} on each connection: then each waits for the other \
             side's word ({} of the time), and{windows}. The limit is a window of the application, or one request \
             after the other: raise it (HTTP/2: SETTINGS_INITIAL_WINDOW_SIZE), or have more under way at once.",
            Quantity::bytes((per_s * round_trip_s) as u64),
            seconds(round_trip_s),
            Quantity::rate(per_s),
            percent(self.share())
        )
    }
}

/// Its requests waited for the network most of their time.
fn waits_for_network(service: &Service) -> bool {
    let asked = service.requests.as_ref();
    asked.is_some_and(|r| limits::MOST.reached(r.whose_s.network, r.total_s))
}

impl Steps {
    /// Those of an end that sends and has nothing more to send while it waits.
    fn sent(end: &End) -> Option<Steps> {
        let t = end.transfer;
        let free = !limits::MOST.reached(t.pressed, t.flying)
            && !limits::MOST.reached(t.all_sent, t.flying)
            && !limits::MOST.reached(t.rwnd_us(), t.busy_us())
            && !limits::SMALL_PART.exceeded(t.resends.count(), t.segments());
        let steps = Steps::of(
            t,
            t.acked(),
            t.segments_in(),
            t.busy_us().saturating_mul(1_000),
        );
        steps.filter(|_| free && t.flying > 0).map(|steps| Steps {
            sends: true,
            ..steps
        })
    }

    /// Those of an end that asks and receives, where nothing is known of its sender.
    fn received(end: &End, role: Role) -> Option<Steps> {
        let t = end.transfer;
        let reads = !limits::MOST.reached(t.unread, t.samples);
        let away = end.conn.peer.is_none() && role == Role::Client;
        Steps::of(t, t.received(), t.segments(), t.span_ns).filter(|_| reads && away)
    }

    /// Bytes one way in so many parts, each of which a word of the other way ended, in this time.
    fn of(t: &Transfer, bytes: u64, words: u64, lasted_ns: u64) -> Option<Steps> {
        let round_trip_ns = u64::from(t.min_rtt_us).saturating_mul(1_000);
        let waited_ns = words.saturating_mul(round_trip_ns);
        let part = u64::from(t.mss.max(1)) * limits::STREAM_SEGMENTS.count();
        // A word for each window that goes out, or for each half.
        let several = limits::SEVERAL_TIMES.count();
        let in_step = waited_ns <= lasted_ns.saturating_mul(several)
            && waited_ns.saturating_mul(several) >= lasted_ns;
        let tells = bytes >= limits::BULK.bytes()
            && words >= limits::ENOUGH.count()
            && bytes / words.max(1) >= part
            && round_trip_ns >= limits::ANSWER_SLOW.ns()
            && limits::MOST.reached(lasted_ns, t.span_ns)
            && in_step;
        let s = |ns: u64| ns as f64 / 1e9;
        tells.then(|| Steps {
            sends: false,
            ends: 1,
            bytes,
            lasted_s: s(lasted_ns),
            waited_s: s(waited_ns.min(lasted_ns)),
            round_trips_s: s(round_trip_ns),
        })
    }

    fn absorb(&mut self, other: Steps) {
        self.sends = other.sends;
        self.ends = self.ends.saturating_add(other.ends);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.lasted_s += other.lasted_s;
        self.waited_s += other.waited_s;
        self.round_trips_s += other.round_trips_s;
    }
}

#[cfg(test)]
mod tests;
