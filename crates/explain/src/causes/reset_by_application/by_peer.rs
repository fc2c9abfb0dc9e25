//! Resets that a server elsewhere sends to connections of this host: before it answers, or after a pause.

use std::collections::BTreeMap;

use analysis::stats::median;
use analysis::words::{count, duration, percent, plural};

use super::CAUSE;
use crate::vocabulary::*;

/// Fewer are a server that was restarted.
const MIN_RESET: usize = 5;
/// Of the connections to a server that is well, single ones end so at most.
const MIN_SHARE: f64 = 0.02;
/// Resets within this time of each other are of one moment: a restart, ns.
const AT_ONCE_NS: u64 = 200_000_000;
/// Nothing came for so long: the connection was between requests, ns.
const PAUSE_NS: u64 = 1_000_000_000;
/// Pauses cluster at an idle timeout when so many are within so much of the median.
const CLUSTER: f64 = 0.8;
const CLUSTER_WIDTH: f64 = 0.1;

/// When in the life of a connection its reset came.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// Before anything was answered.
    Unanswered,
    /// After a pause of so long, ns.
    Paused(u64),
}

/// The connections of a namespace to a server that is elsewhere.
pub(super) struct Server<'a> {
    story: &'a Story,
    netns: u32,
    at: Endpoint,
    /// Those that were reset, with when, and the row.
    all: Vec<(ConnId, &'a Conn, Phase, u64, RowRef)>,
    /// Those that were reset while data moved, which servers do that abort a transfer on purpose.
    midway: u64,
    of: u64,
}

/// An end that called connect(), whose other end is not on this host.
fn is_client(conn: &Conn) -> bool {
    let ours = match conn.side {
        Side::Opened => true,
        Side::Older => conn.listener.is_none(),
        Side::Accepted => false,
    };
    let stood = matches!(conn.outcome, Outcome::Open | Outcome::Closed);
    ours && stood && conn.peer.is_none()
}

pub(super) fn servers(story: &Story) -> Vec<Server<'_>> {
    if !story.health.sees(&SourceName::ResetsReceived) {
        return Vec::new();
    }
    let mut servers: BTreeMap<(u32, Endpoint), Server> = BTreeMap::new();
    for (id, conn) in story.conns.iter().enumerate().filter(|(_, c)| is_client(c)) {
        let key = (conn.netns, conn.remote);
        let got = story.resets.received.get(&(id as ConnId));
        // A reset that this host sent itself, behind a translated address, is told where it was sent.
        let Some(got) = got.filter(|_| !story.resets.was_sent(conn)) else {
            continue;
        };
        let server = servers.entry(key).or_insert_with(|| Server {
            story,
            netns: conn.netns,
            at: conn.remote,
            all: Vec::new(),
            midway: 0,
            of: 0,
        });
        match phase(story, conn, got.time_ns) {
            Some(phase) => {
                let reset = (id as ConnId, conn, phase, got.time_ns, got.row());
                server.all.push(reset);
            }
            None => server.midway += 1,
        }
    }
    for conn in story.conns.iter().filter(|c| is_client(c)) {
        if let Some(server) = servers.get_mut(&(conn.netns, conn.remote)) {
            server.of += 1;
        }
    }
    servers.into_values().filter(Server::is_often).collect()
}

/// When the reset came; `None` while data moved, or where no sample tells.
fn phase(story: &Story, conn: &Conn, at_ns: u64) -> Option<Phase> {
    if conn.bytes_received == 0 && conn.side == Side::Opened {
        return Some(Phase::Unanswered);
    }
    let last = &story.samples(conn)?.last;
    let said = (conn.bytes_acked, conn.bytes_received);
    let paused_ns = at_ns.checked_sub(last.heard_ns?)?;
    let same = (last.bytes_acked, last.bytes_received) == said;
    (same && paused_ns >= PAUSE_NS).then_some(Phase::Paused(paused_ns))
}

impl Server<'_> {
    fn count(&self) -> u64 {
        self.all.len() as u64
    }

    fn share(&self) -> f64 {
        self.count() as f64 / self.of.max(1) as f64
    }

    fn is_often(&self) -> bool {
        let times = self.all.iter().map(|(.., at, _)| *at);
        let span = match (times.clone().min(), times.max()) {
            (Some(first), Some(last)) => last - first,
            _ => 0,
        };
        let told = self.unanswered() as usize >= MIN_RESET || self.timeout_ns().is_some();
        self.all.len() >= MIN_RESET && self.share() >= MIN_SHARE && span >= AT_ONCE_NS && told
    }

    fn unanswered(&self) -> u64 {
        let all = self.all.iter();
        all.filter(|(_, _, phase, ..)| *phase == Phase::Unanswered)
            .count() as u64
    }

    fn pauses(&self) -> Vec<u64> {
        let all = self.all.iter();
        let pauses = all.filter_map(|(_, _, phase, ..)| match phase {
            Phase::Paused(ns) => Some(*ns),
            Phase::Unanswered => None,
        });
        pauses.collect()
    }

    /// The pause after which resets come, ns, where they come after one and the same.
    fn timeout_ns(&self) -> Option<u64> {
        let pauses = self.pauses();
        let usual = median(&mut pauses.clone())?;
        let near = |ns: &&u64| ns.abs_diff(usual) as f64 <= CLUSTER_WIDTH * usual as f64;
        let near = pauses.iter().filter(near).count();
        (near >= MIN_RESET && near as f64 >= CLUSTER * pauses.len() as f64).then_some(usual)
    }

    /// Where most of them are of pauses.
    fn idle_ns(&self) -> Option<u64> {
        let ns = self.timeout_ns();
        ns.filter(|_| self.pauses().len() as u64 > self.unanswered())
    }

    fn scope(&self) -> Scope {
        Scope {
            netns: self.story.netns(self.netns),
            listener: self.at.to_string(),
            role: Role::Client,
            ..owners(self.story, self.all.iter().map(|(_, c, ..)| *c))
        }
    }
}

pub(super) fn judge(server: &Server) -> Finding {
    let (story, at) = (server.story, server.at);
    let (n, of) = (count(server.count()), plural(server.of, "connection"));
    let idle = server.idle_ns();
    let (when, fix) = match idle {
        Some(ns) => (
            format!("after {} of silence", duration(ns)),
            format!(
                "Let the clients of {at} close what is idle for less than {}, or send keep-alives.",
                duration(ns)
            ),
        ),
        None => (
            "before it answers".into(),
            format!(
                "Record on the host of {at}, too: its program, or a box before it, resets them."
            ),
        ),
    };
    let says = format!(
        "{n} of {of} ({}) got a reset {when}; the request that met it failed.",
        percent(server.share())
    );
    let ids = server.all.iter().map(|(id, ..)| *id).collect();
    let lost = Lost::outages(story, server.all.iter().map(|(_, c, ..)| *c));
    Case::new(story, CAUSE, server.scope())
        .layer(Layer::Peer)
        .placed(Place::Resets(ids))
        .title([
            format!("{at} resets connections {when}: {n} of {of}."),
            format!("{at} resets connections {when}."),
        ])
        .fix([fix, "See why the server, or a box before it, resets.".into()])
        .affects(Impact::of(server.count(), server.of, "connections", says), lost)
        .because("the resets came from elsewhere, always at the same phase of a connection")
        .at_most(
            Level::Medium,
            "the server is not on this host: its program, its kernel or a box on the path sent them",
        )
        .at_most_if(
            Level::Low,
            idle.is_some(),
            "whether a request was under way when the idle connection was reset was not seen",
        )
        .rests_on(&[SourceName::ResetsReceived])
        .steps(steps(server))
        .checks(counted(server))
        .advise([advice(server)])
        .verify(format!(
            "`tcpwhy trace resets --addr {}` shows none received.",
            at.addr
        ))
}

fn steps(server: &Server) -> Vec<Step> {
    let rows = server.all.iter().map(|(.., row)| *row).take(SHOWN_ROWS);
    let at = server.at;
    let came = say!(
        "{resets} of {connections} came from {at}, which is not on this host: {unanswered} before it had \
         sent a byte, {paused} after a pause; {midway} more while data moved.",
        resets = Quantity::count(server.count()).rows(rows),
        connections = Quantity::of(server.of, "connection"),
        unanswered = Quantity::count(server.unanswered()),
        paused = Quantity::count(server.pauses().len() as u64),
        midway = Quantity::count(server.midway)
    );
    let sampled = server
        .all
        .iter()
        .filter_map(|(_, c, ..)| server.story.samples(c));
    let rows = sampled.map(|s| s.last.row).take(SHOWN_ROWS);
    let pauses = server.pauses();
    let paused = server.timeout_ns().map(|usual| {
        let range = |ns: Option<&u64>| duration(ns.copied().unwrap_or(0));
        let (least, most) = (range(pauses.iter().min()), range(pauses.iter().max()));
        say!(
            "The last ACK had come {pause_ms} before, in the median, {least} to {most}: an idle timeout \
             of the server, or of a box before it.",
            pause_ms = Quantity::ns(usual).rows(rows)
        )
    });
    std::iter::once(came).chain(paused).collect()
}

/// What ended so, the kernel counted.
fn counted(server: &Server) -> Option<Check> {
    let counters = &server.story.counters;
    let rise = counters.rise(server.netns, counter::ESTAB_RESETS).by;
    let formula = "established connections ended by a reset (EstabResets) ≥ those told here";
    let covered = counters.covers(server.netns);
    covered.then(|| at_least(formula, server.count(), rise, "connections"))
}

fn advice(server: &Server) -> Advice {
    let at = server.at;
    let advice = match server.idle_ns() {
        Some(ns) => Advice::to(format!(
            "Let the pool close connections that were idle for less than {}, or raise the idle timeout \
             of {at}; keep-alives help only against boxes that forget.",
            duration(ns)
        ))
        .at("the configuration of the clients' pool")
        .risk("More connections are opened.")
        .change(Change::CloseIdle {
            to: at.to_string(),
            seconds: ns / 1_000_000_000,
        }),
        None => Advice::to(format!(
            "See in the logs of {at} why it aborts: overload, a limit of connections, a certificate \
             or protocol that it refuses, a backend that is away."
        ))
        .at("the server, or the load balancer before it")
        .risk("None.")
        .change(Change::PassPackets {
            netns: None,
            at: at.to_string(),
        }),
    };
    let look = format!("tcpwhy trace resets --addr {}", at.addr);
    advice.by(Some(look)).effect(format!(
        "The {} of connections that are reset end with a FIN.",
        percent(server.share())
    ))
}
