//! The same from the server's host: it closes idle connections while requests to them are on their way.

use std::collections::BTreeMap;

use ahash::AHashSet;
use analysis::words::{count, duration, percent, plural};
use analysis::{Sent, Why};

use super::{CAUSE, no_restart};
use crate::limits;
use crate::places::listener::{ListenerPlace, listener_places};
use crate::places::peer_resets::{spread, usual};
use crate::vocabulary::*;

/// A connection of a client elsewhere that its server had closed when a request came.
struct Met<'a> {
    id: ConnId,
    conn: &'a Conn,
    sent: &'a Sent,
    /// How long nothing had moved when the request came, ns.
    paused_ns: u64,
}

/// A listener whose process closes connections that are idle for this long.
struct Closes<'a> {
    here: ListenerPlace<'a>,
    all: Vec<Met<'a>>,
    timeout_ns: u64,
}

fn met<'a>(story: &'a Story, sent: &'a Sent) -> Option<Met<'a>> {
    let id = sent.conn.filter(|_| sent.why == Why::DataAfterClose)?;
    let conn = story.conn(id)?;
    // Of a client on this host more is known.
    let elsewhere = conn.side != Side::Opened && conn.peer.is_none();
    let last = story.samples(conn).filter(|_| elsewhere)?.last;
    let silent = last.bytes_received == conn.bytes_received;
    let spoke_ns = last.spoke_ns.filter(|_| silent)?;
    let paused_ns = sent.time_ns.checked_sub(spoke_ns)?;
    (paused_ns >= limits::ASKED_ABOUT.ns()).then_some(Met {
        id,
        conn,
        sent,
        paused_ns,
    })
}

fn places(story: &Story) -> impl Iterator<Item = (ListenerPlace<'_>, Vec<Met<'_>>)> {
    let mut by_listener: BTreeMap<u32, Vec<Met>> = BTreeMap::new();
    for met in story.resets.sent.iter().filter_map(|s| met(story, s)) {
        if let Some(listener) = met.conn.listener {
            by_listener.entry(listener).or_default().push(met);
        }
    }
    listener_places(story).filter_map(move |here| Some((here, by_listener.remove(&here.index)?)))
}

/// Whether most of these ends are of a server that had closed them idle.
pub(super) fn closed_idle(story: &Story, ends: impl Iterator<Item = ConnId>) -> bool {
    let ends: AHashSet<ConnId> = ends.collect();
    let sent = story.resets.sent.iter();
    let ours = sent.filter(|s| s.conn.is_some_and(|id| ends.contains(&id)));
    let idle = ours.filter_map(|s| met(story, s)).count();
    idle > 0 && limits::MOST.reached(idle, ends.len())
}

fn answered_in(here: &ListenerPlace, all: &[Met]) -> (u64, u64, Quantity) {
    let n = all.len() as u64;
    let rows = all.iter().map(|m| m.sent.row()).take(SHOWN_ROWS);
    (n, here.connections().max(n), Quantity::count(n).rows(rows))
}

pub(super) fn rule_out(whole: &Whole) -> Vec<Option<Answered>> {
    let says = |here: &ListenerPlace, met: Quantity, of: u64| {
        let at = here.address();
        say!(
            "{met} of {connections} of {at} got data after their server had closed them in a pause",
            met,
            connections = Quantity::of(of, "connection")
        )
    };
    let places = places(whole.story).map(|(here, all)| {
        let (n, of, met) = answered_in(&here, &all);
        every([
            Test::events(n, of, &limits::OFTEN, says(&here, met.clone(), of)),
            Test::share(n, of, &limits::RESETS_SHARE, says(&here, met, of)),
        ])
    });
    places.collect()
}

pub(super) fn find(story: &Story) -> impl Iterator<Item = Finding> {
    let closes = places(story).filter_map(|(here, all)| Closes::of(here, all));
    closes.map(|closes| judge(&closes))
}

impl<'a> Closes<'a> {
    fn of(here: ListenerPlace<'a>, all: Vec<Met<'a>>) -> Option<Closes<'a>> {
        let pauses: Vec<u64> = all.iter().map(|m| m.paused_ns).collect();
        let timeout_ns = usual(&pauses)?;
        let closes = Closes {
            here,
            all,
            timeout_ns,
        };
        let often = closes.count() >= limits::OFTEN.count()
            && closes.share() >= limits::RESETS_SHARE.share();
        (often && closes.no_restart().agrees).then_some(closes)
    }

    fn count(&self) -> u64 {
        self.all.len() as u64
    }

    fn of_all(&self) -> u64 {
        self.here.connections().max(self.count())
    }

    fn share(&self) -> f64 {
        self.count() as f64 / self.of_all().max(1) as f64
    }

    fn no_restart(&self) -> Check {
        let moments = spread(self.all.iter().map(|m| m.sent.time_ns));
        let pauses = spread(self.all.iter().map(|m| m.paused_ns));
        no_restart(moments, pauses, "resets")
    }

    fn steps(&self, scope: &Scope) -> [Step; 2] {
        let rows = self.all.iter().map(|m| m.sent.row()).take(SHOWN_ROWS);
        let (who, at) = (process(scope), self.here.address());
        let closed = say!(
            "{who} had closed {met} of {connections} of {at} when the next request came, within a round trip: the \
             kernel answered it with a reset (TCP_ABORT_ON_DATA).",
            met = Quantity::count(self.count()).rows(rows),
            connections = Quantity::of(self.of_all(), "connection")
        );
        let sampled = self
            .all
            .iter()
            .filter_map(|m| self.here.story.samples(m.conn));
        let rows = sampled.map(|s| s.last.row).take(SHOWN_ROWS);
        let range = self.all.iter().map(|m| m.paused_ns);
        let (least, most) = (range.clone().min(), range.max());
        let (least, most) = (duration(least.unwrap_or(0)), duration(most.unwrap_or(0)));
        let paused = say!(
            "When the request came, no data had moved for {idle} (median; {least} to {most}): the idle timeout of \
             {who}, which its clients' pools outwait.",
            idle = Quantity::ns(self.timeout_ns).rows(rows)
        );
        [closed, paused]
    }

    fn advice(&self, scope: &Scope) -> [Advice; 2] {
        let (app, idle) = (application(scope), duration(self.timeout_ns));
        let at = self.here.address();
        let ends = format!(
            "The {} of connections that are now reset end between requests.",
            percent(self.share())
        );
        [
            Advice::to(format!(
                "Raise the idle timeout of {app} well above the {idle} at which its clients' pools, or a load \
                 balancer in front of it, ask again (nginx: keepalive_timeout; Node.js: server.keepAliveTimeout; \
                 gunicorn: --keep-alive; uvicorn: --timeout-keep-alive)."
            ))
            .by(shell!("tcpwhy trace resets --port {port}", port = self.here.listener.local.port))
            .at(format!("the configuration of {app}; the command shows each reset as it is sent"))
            .risk("More idle connections stay open.")
            .effect(ends.clone())
            .change(Change::KeepIdle {
                listener: at.clone(),
                seconds: self.timeout_ns.div_ceil(1_000_000_000),
            }),
            Advice::to(format!(
                "Or make the pools of its clients close connections before they have been idle for {idle}."
            ))
            .at("the clients' configuration")
            .risk("More connections are opened.")
            .effect(ends)
            .change(Change::CloseIdle {
                to: at,
                seconds: self.timeout_ns / 1_000_000_000,
            }),
        ]
    }
}

fn judge(closes: &Closes) -> Finding {
    let (story, at) = (closes.here.story, closes.here.address());
    let scope = closes.here.scope();
    let (n, of) = (count(closes.count()), plural(closes.of_all(), "connection"));
    let idle = duration(closes.timeout_ns);
    let says = format!(
        "{n} of {of} ({}) were closed after {idle} of silence as the next request came; it failed.",
        percent(closes.share())
    );
    Case::new(story, CAUSE, scope.clone())
        .placed(Place::Resets(closes.all.iter().map(|m| m.id).collect()))
        .title([
            format!(
                "{} closes after {idle} idle, as requests come: {n} of {of} reset.",
                named(&scope)
            ),
            format!("{at} closes after {idle} idle, as requests come: {n} of {of} reset."),
            format!("{at} closes after {idle} idle, as requests come."),
        ])
        .fix([
            format!(
                "Raise the idle timeout of {} above that of its clients' pools.",
                application(&scope)
            ),
            "Raise its idle timeout above that of its clients' pools.".into(),
        ])
        .affects(
            Impact::of(closes.count(), closes.of_all(), "connections", says),
            Lost::outages(story, closes.all.iter().map(|m| m.conn)),
        )
        .because("the kernel reports that data met closed sockets, always after the same pause")
        .steps(closes.steps(&scope))
        .checks([closes.no_restart()])
        .advise(closes.advice(&scope))
        .verify(sentence!(
            "`tcpwhy trace resets --port {port}` shows none with TCP_ABORT_ON_DATA.",
            port = closes.here.listener.local.port
        ))
}
