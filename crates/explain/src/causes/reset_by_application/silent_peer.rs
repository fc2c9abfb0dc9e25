//! Keep-alives without an answer: a client's connections to one address are given up.

use std::collections::BTreeMap;

use analysis::account;
use analysis::stats::median;
use analysis::words::percent;
use analysis::{Sent, Why};
use recording::Addr;

use super::CAUSE;
use crate::limits;
use crate::vocabulary::*;

/// Boxes on the path remember an idle connection that is probed this often, s.
const ADVISED_KEEPALIVE_S: u64 = 60;

/// The connections from a namespace to an address that answers no keep-alives.
pub(super) struct SilentPeer<'a> {
    story: &'a Story,
    netns: u32,
    to: Addr,
    /// Those that were given up, each with its reset.
    all: Vec<(ConnId, &'a Conn, &'a Sent)>,
    of: u64,
}

/// An end that called connect() successfully. Servers have peers that vanish every day.
fn opened(conn: &Conn) -> bool {
    conn.asks() && matches!(conn.outcome, Outcome::Open | Outcome::Closed)
}

pub(super) fn places(story: &Story) -> Vec<SilentPeer<'_>> {
    let key = |c: &Conn| (c.netns, c.remote.addr);
    let mut places: BTreeMap<(u32, Addr), SilentPeer> = BTreeMap::new();
    for sent in story.resets.sent.iter().filter(|s| s.why == Why::KeepAlive) {
        let conn = sent.conn.and_then(|id| Some((id, story.conn(id)?)));
        if let Some((id, conn)) = conn.filter(|(_, c)| opened(c)) {
            let (netns, to) = key(conn);
            let place = places.entry((netns, to)).or_insert_with(|| SilentPeer {
                story,
                netns,
                to,
                all: Vec::new(),
                of: 0,
            });
            place.all.push((id, conn, sent));
        }
    }
    for conn in story.conns.iter().filter(|c| opened(c)) {
        if let Some(place) = places.get_mut(&key(conn)) {
            place.of += 1;
        }
    }
    for ((netns, to), place) in &mut places {
        place.of += account::forgotten_ends(story, |(of, role, at)| {
            (of, role, at.addr) == (*netns, account::Role::Client, *to)
        });
    }
    let many = |p: &SilentPeer| {
        p.all.len() >= limits::OFTEN.as_usize() && p.share() >= limits::MOST.share()
    };
    places.into_values().filter(many).collect()
}

pub(super) fn judge(peer: &SilentPeer) -> Finding {
    let (story, to) = (peer.story, peer.to);
    let (n, of) = (
        Quantity::count(peer.count()),
        Quantity::of(peer.of, "connection"),
    );
    let scope = peer.scope();
    let silent = peer.silent_ns().map_or(String::new(), |ns| {
        format!(", after a silence of {} (median)", Quantity::ns(ns))
    });
    let says = format!(
        "{n} of {of} ({}) were given up{silent}.",
        percent(peer.share())
    );
    let advice = advice(&scope.netns, to);
    let told = peer.all.iter().all(|(_, _, s)| s.told);
    let case = Case::new(story, CAUSE, scope)
        .layer(Layer::Peer)
        .placed(Place::Resets(peer.all.iter().map(|(id, ..)| *id).collect()))
        .title([
            format!("{to} answers no keep-alives: {n} of {of} were given up."),
            format!("{to} answers no keep-alives."),
        ])
        .fix([
            format!("Check whether {to} is alive; if so, send probes more often than NATs forget."),
            "Check whether it is alive; if so, send keep-alives more often.".into(),
        ])
        .affects(
            Impact::of(peer.count(), peer.of, "connections", says),
            Lost::outages(story, peer.all.iter().map(|(_, c, _)| *c)),
        );
    let case = if told {
        case.because("the kernel reports that keep-alives were not answered")
    } else {
        case.at_most(
            Level::Medium,
            "inferred from the stack that sent the resets",
        )
    };
    case.steps(peer.steps())
        .checks(peer.timed_out())
        .advise([advice])
        .verify(sentence!(
            "`tcpwhy trace resets --addr {to}` shows none sent.",
            to
        ))
}

impl SilentPeer<'_> {
    fn count(&self) -> u64 {
        self.all.len() as u64
    }

    fn share(&self) -> f64 {
        self.count() as f64 / self.of.max(1) as f64
    }

    /// How long nothing had come from the peer when a connection was given up, ns, with the sample that shows it.
    fn silences(&self) -> impl Iterator<Item = (u64, RowRef)> {
        self.all.iter().filter_map(|(_, conn, sent)| {
            let last = &self.story.samples(conn)?.last;
            Some((sent.time_ns.checked_sub(last.heard_ns?)?, last.row))
        })
    }

    fn silent_ns(&self) -> Option<u64> {
        median(&mut self.silences().map(|(ns, _)| ns).collect::<Vec<_>>())
    }

    fn scope(&self) -> Scope {
        Scope {
            netns: self.story.netns(self.netns),
            resource: Some(format!("peer {}", self.to)),
            role: Role::Client,
            ..owners(self.story, self.all.iter().map(|(_, c, _)| *c))
        }
    }

    fn steps(&self) -> Vec<Step> {
        let (from, to) = (namespace(&self.story.netns(self.netns)), self.to);
        let rows = self.all.iter().map(|(_, _, s)| s.row()).take(SHOWN_ROWS);
        let given_up = say!(
            "The kernel gave up {given_up} of {connections} from {from} to {to}: no keep-alive was \
             answered (reason TCP_KEEPALIVE_TIMEOUT).",
            given_up = Quantity::count(self.count()).rows(rows),
            connections = Quantity::of(self.of, "connection")
        );
        let rows = self.silences().map(|(_, row)| row).take(SHOWN_ROWS);
        let silent = self.silent_ns().map(|ns| {
            let silent_ms = Quantity::ns(ns).rows(rows);
            say!(
                "The last ACK had arrived {silent_ms} before (median).",
                silent_ms
            )
        });
        let sent = self
            .story
            .counters
            .rise(self.netns, counter::TCP_KEEP_ALIVE);
        let probes = (sent.by > 0).then(|| {
            let probes = Quantity::of(sent.by, "probe").rows(sent.rows());
            say!("{probes} were sent (TCPKeepAlive).", probes)
        });
        std::iter::once(given_up)
            .chain(silent)
            .chain(probes)
            .collect()
    }

    fn timed_out(&self) -> Option<Check> {
        let counters = &self.story.counters;
        let rise = counters.rise(self.netns, counter::TCP_ABORT_ON_TIMEOUT).by;
        let formula = "connections ended by a timeout (TCPAbortOnTimeout) ≥ those given up";
        let covered = counters.covers(self.netns);
        covered.then(|| at_least(formula, self.count(), rise, "connections"))
    }
}

fn advice(netns: &Netns, to: Addr) -> Advice {
    set_sysctl(
        netns,
        sysctl::TCP_KEEPALIVE_TIME,
        ADVISED_KEEPALIVE_S,
        "An idle connection costs two small packets a minute. Programs that set TCP_KEEPIDLE themselves use their \
         own value.",
        format!(
            "A NAT or firewall on the path keeps the state of idle connections; when {to} is gone, that is detected \
             minutes earlier."
        ),
    )
}

/// How many connections to one address were given up because it answered no keep-alive.
pub(super) fn refuted(whole: &Whole) -> Option<Answered> {
    let sent = whole.story.resets.sent.iter();
    let silent = sent.filter(|s| s.why == Why::KeepAlive);
    let to = |s: &Sent| Some(whole.story.conn(s.conn?)?.remote.addr);
    let n = Whole::most_by(silent.clone().filter_map(to));
    let of = whole.story.conns.len() as u64;
    let step = say!(
        "{given_up} of {connections} were given up because one address, the worst, answered no keep-alive",
        given_up = Quantity::count(n).rows(silent.map(|s| s.row()).take(SHOWN_ROWS)),
        connections = Quantity::of(of, "connection")
    );
    every([Test::events(n, of, &limits::OFTEN, step)])
}
