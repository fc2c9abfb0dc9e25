//! Resets received on connections that clients of this host opened, by the phase of the connection in which they came.

use std::collections::BTreeMap;

use analysis::account;
use analysis::stats::median;
use analysis::{Conn, ConnId, Endpoint, Got, Outcome, Side, Story};
use recording::{RowRef, SourceName, counter};

use crate::callers::one_failed_again;
use crate::checks::at_least;
use crate::finding::{Check, Role, Scope};
use crate::inquiry::Inquiry;
use crate::limits;
use crate::place::Place;
use crate::places::listener::SHOWN_ROWS;
use crate::say::{Quantity, say};
use crate::scope::owners;
use crate::verdict::{Answered, Test, Verdict, every};
use crate::whole::{NO_CONNECT, Whole};

/// The phase of a connection in which its reset came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// Before anything was answered.
    Unanswered,
    /// Instead of an answer, on a connection that had had some before: a request had arrived.
    RequestSent,
    /// After a pause of this length, ns.
    Paused(u64),
    /// After the other end had closed its side, in a pause that had lasted this long by then, ns; the connection was
    /// used nevertheless.
    Closed(u64),
    /// While what its program had written was under way: the request was not taken in whole.
    Asking,
    /// During an answer, or where no sample tells. Servers that abort a transfer on purpose do that.
    Midway,
}

/// A connection that a reset ended.
#[derive(Clone, Copy)]
pub(crate) struct Reset<'a> {
    pub(crate) id: ConnId,
    pub(crate) conn: &'a Conn,
    pub(crate) phase: Phase,
    pub(crate) time_ns: u64,
    /// Its program had closed as well by then.
    pub(crate) late: bool,
    /// The other end's FIN came after the last sample, the reset after it.
    pub(crate) crossed: bool,
    pub(crate) row: RowRef,
}

/// The connections of a namespace to a server, some of them ended by resets.
pub(crate) struct PeerResets<'a> {
    pub(crate) story: &'a Story,
    pub(crate) netns: u32,
    pub(crate) at: Endpoint,
    pub(crate) all: Vec<Reset<'a>>,
    pub(crate) of: u64,
}

/// An end that called connect().
fn is_client(conn: &Conn) -> bool {
    conn.asks() && matches!(conn.outcome, Outcome::Open | Outcome::Closed)
}

/// A reset that no socket of this host is known to have sent: where addresses are translated on the way, its peer has
/// another one, and not every short connection shows which.
pub(crate) fn is_foreign(story: &Story, conn: &Conn) -> bool {
    let resets = &story.resets;
    conn.peer.is_none() && !resets.was_sent(conn) && !resets.come_from(conn.remote)
}

/// The reset of an end, if one ended it.
pub(crate) fn reset_of(story: &Story, id: ConnId) -> Option<Reset<'_>> {
    let conn = story.conn(id).filter(|c| is_client(c))?;
    let got = story.resets.got(id)?;
    Some(Reset {
        id,
        conn,
        phase: match (phase(story, conn, got), got.late) {
            (Phase::Closed(ns), _) => Phase::Closed(ns),
            // No program waits any more.
            (_, true) => Phase::Midway,
            (phase, false) => phase,
        },
        time_ns: got.time_ns,
        late: got.late,
        crossed: conn.peer_closed && story.samples(conn).is_some_and(|s| !s.last.peer_closed),
        row: got.row(),
    })
}

impl Reset<'_> {
    /// Whether its program had written what the other end did not take.
    pub(crate) fn wrote(&self) -> bool {
        wrote(self.conn, self.late)
    }

    /// When the other end closed, as far as samples tell.
    pub(crate) fn closed_ns(&self, story: &Story) -> Option<u64> {
        if self.crossed {
            return Some(self.time_ns);
        }
        story.samples(self.conn)?.last.heard_ns
    }
}

/// The same of an end; a FIN of its own counts as one byte.
fn wrote(conn: &Conn, late: bool) -> bool {
    conn.bytes_unacked > u32::from(late)
}

/// Every server that sent resets which count for a cause.
pub(crate) fn places(story: &Story, counts: impl Fn(&Reset) -> bool) -> Vec<PeerResets<'_>> {
    if !story.health.sees(&SourceName::ResetsReceived) {
        return Vec::new();
    }
    let mut places: BTreeMap<(u32, Endpoint), PeerResets> = BTreeMap::new();
    let ids = 0..story.conns.len() as ConnId;
    for reset in ids.filter_map(|id| reset_of(story, id)).filter(counts) {
        let (netns, at) = (reset.conn.netns, reset.conn.remote);
        let place = places.entry((netns, at)).or_insert_with(|| PeerResets {
            story,
            netns,
            at,
            all: Vec::new(),
            of: 0,
        });
        place.all.push(reset);
    }
    for conn in story.conns.iter().filter(|c| is_client(c)) {
        if let Some(place) = places.get_mut(&(conn.netns, conn.remote)) {
            place.of += 1;
        }
    }
    for ((netns, at), place) in &mut places {
        let service = (*netns, account::Role::Client, *at);
        place.of += account::forgotten_ends(story, |s| s == service);
    }
    places.into_values().collect()
}

fn phase(story: &Story, conn: &Conn, got: Got) -> Phase {
    let at_ns = got.time_ns;
    if conn.bytes_received == 0 && conn.side == Side::Opened {
        return Phase::Unanswered;
    }
    let moving = match conn.bytes_unacked {
        0 => Phase::Midway,
        _ => Phase::Asking,
    };
    let Some(last) = story.samples(conn).map(|s| s.last) else {
        return moving;
    };
    let paused = |from: Option<u64>, to: u64| {
        let ns = to.checked_sub(from?)?;
        (ns >= limits::ASKED_ABOUT.ns()).then_some(ns)
    };
    // A FIN counts as a byte.
    let fin = u64::from(conn.peer_closed && !last.peer_closed);
    let silent = conn.bytes_received.saturating_sub(last.bytes_received) <= fin;
    if last.peer_closed {
        // The FIN was the last thing that came.
        let closed = last.heard_ns.and_then(|fin| paused(last.spoke_ns, fin));
        return closed
            .filter(|_| silent)
            .map_or(Phase::Midway, Phase::Closed);
    }
    match silent {
        true if conn.bytes_acked > last.bytes_acked => Phase::RequestSent,
        // A FIN and a request that cross leave no sample between them.
        true if conn.peer_closed && wrote(conn, got.late) => {
            paused(last.spoke_ns, at_ns).map_or(moving, Phase::Closed)
        }
        true => paused(last.heard_ns, at_ns).map_or(moving, Phase::Paused),
        false => moving,
    }
}

impl<'a> PeerResets<'a> {
    pub(crate) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(crate) fn share(&self) -> f64 {
        self.count() as f64 / self.of.max(1) as f64
    }

    /// Whether there are more than a few.
    pub(crate) fn are_many(&self) -> bool {
        self.all.len() >= limits::OFTEN.as_usize() && self.share() >= limits::RESETS_SHARE.share()
    }

    /// Whether one caller met them again and again.
    pub(crate) fn met_one_again(&self) -> bool {
        one_failed_again(self.story, self.all.iter().map(|r| (r.conn, r.time_ns)))
    }

    /// Whether the user asked about one of them, and it is not one of very many connections.
    pub(crate) fn are_asked(&self, inquiry: &Inquiry) -> bool {
        inquiry.is_about(self.conns()) && self.share() >= limits::RESETS_SHARE.share()
    }

    /// Whether one event ended them: a restart, a crash, a failover.
    pub(crate) fn at_one_moment(&self) -> bool {
        spread(self.all.iter().map(|r| r.time_ns)) < limits::ONE_MOMENT.ns()
    }

    /// In how many bursts they came, each as one close() of a listener makes it.
    pub(crate) fn bursts(&self) -> u64 {
        let mut times: Vec<u64> = self.all.iter().map(|r| r.time_ns).collect();
        times.sort_unstable();
        let apart = times
            .windows(2)
            .filter(|two| two[1] - two[0] > limits::ONE_CLOSE.ns());
        apart.count() as u64 + u64::from(!times.is_empty())
    }

    /// How many came in a phase.
    pub(crate) fn of_phase(&self, phase: Phase) -> u64 {
        self.all.iter().filter(|r| r.phase == phase).count() as u64
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        self.all.iter().map(|r| r.row).take(SHOWN_ROWS)
    }

    pub(crate) fn place(&self) -> Place {
        Place::Resets(self.all.iter().map(|r| r.id).collect())
    }

    pub(crate) fn conns(&self) -> impl Iterator<Item = &'a Conn> + Clone + '_ {
        self.all.iter().map(|r| r.conn)
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope {
            netns: self.story.netns(self.netns),
            listener: self.at.to_string(),
            role: Role::Client,
            ..owners(self.story, self.conns())
        }
    }

    /// The kernel's count of connections that ended so.
    pub(crate) fn counted(&self) -> Option<Check> {
        let counters = &self.story.counters;
        let rise = counters.rise(self.netns, counter::ESTAB_RESETS).by;
        let formula =
            "established connections ended by a reset (EstabResets) ≥ those reported here";
        // A connection that both ends had closed no longer counts.
        let open = self.all.iter().filter(|r| !r.late).count() as u64;
        let told = open > 0 && counters.covers(self.netns);
        told.then(|| at_least(formula, open, rise, "connections"))
    }
}

/// From the first to the last, ns.
pub(crate) fn spread(times: impl Iterator<Item = u64> + Clone) -> u64 {
    let (first, last) = (times.clone().min(), times.max());
    last.unwrap_or(0).saturating_sub(first.unwrap_or(0))
}

/// The pause, ns, at which most of them are; `None` where pauses are of all lengths, or too few to tell.
pub(crate) fn usual(pauses: &[u64]) -> Option<u64> {
    let usual = median(&mut pauses.to_vec())?;
    let near = |ns: &&u64| ns.abs_diff(usual) as f64 <= limits::ALIKE.share() * usual as f64;
    let near = pauses.iter().filter(near).count();
    (near >= limits::OFTEN.as_usize() && limits::NEARLY_ALL.reached(near, pauses.len()))
        .then_some(usual)
}

/// For each server, how many connections to it a counting reset ended, in any phase; `others` are further places.
pub(crate) fn rule_out(
    whole: &Whole,
    counts: impl Fn(&Reset) -> bool,
    others: impl IntoIterator<Item = Option<Answered>>,
) -> Verdict {
    let says = |resets: Quantity, of: u64| {
        say!(
            "{resets} arrived on {connections} to one server",
            resets,
            connections = Quantity::of(of, "connection")
        )
    };
    let servers = places(whole.story, counts).into_iter().map(|place| {
        let (n, of) = (place.count(), place.of);
        let resets = || Quantity::of(n, "reset").rows(place.rows());
        // One is enough that the user asked about, and one caller that meets it repeatedly needs few.
        let asked = whole.inquiry.is_about(place.conns());
        let least = if place.met_one_again() {
            &limits::FAILED_AGAIN
        } else {
            &limits::OFTEN
        };
        let often = (!asked).then(|| Test::events(n, of, least, says(resets(), of)));
        let share = Test::share(n, of, &limits::RESETS_SHARE, says(resets(), of));
        every(often.into_iter().chain([share]))
    });
    let of = whole.story.conns.iter().filter(|c| is_client(c)).count() as u64;
    let none = || {
        every([Test::events(
            0,
            of,
            &limits::OFTEN,
            says(Quantity::of(0u64, "reset"), of),
        )])
    };
    Verdict::nearest_or(servers.chain(others).collect::<Vec<_>>(), none, NO_CONNECT)
}
