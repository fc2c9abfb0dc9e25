//! C55: a listener ended, and the kernel reset what still waited in its accept queue.

use std::collections::BTreeMap;

use analysis::stats::median;
use analysis::words::{count, duration, percent, plural};
use analysis::{ListenEnd, Sent, Why};

use crate::places::listener::{ListenerPlace, listener_places};
use crate::places::server_resets::{self, Closing};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::LISTENER_ENDED,
    number: "C55",
    title: "a listener ended with connections in its accept queue",
    page: include_str!("listener_ended.md"),
    layer: Layer::Application,
    ground: Ground::Listeners,
    needs: &[&[SourceName::States], &[SourceName::ResetsSent]],
    seen_from: || "5 connections that were reset while they waited for accept()".into(),
    signature: &[
        "connection reset by peer during a reload or deployment",
        "resets when a worker is recycled (SO_REUSEPORT, max_requests)",
        "ECONNRESET right after connect() while a server restarts",
    ],
    rivals: &[
        Id::RESET_BY_APPLICATION,
        Id::RESET_UNREAD_DATA,
        Id::INJECTED_RESET,
        Id::RESET_BY_PEER,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// The end of a listening socket.
const ENDING: Closing = Closing {
    why: Why::ListenerEnded,
    how: "by the end of their listener",
    reason: "TCP_STATE, in inet_csk_listen_stop",
    counter: counter::OUT_RSTS,
    exact: false,
};

/// A connection that waited for accept() when its listener ended, with its reset.
struct Waiting<'a> {
    id: ConnId,
    conn: &'a Conn,
    sent: &'a Sent,
}

/// A listener whose sockets ended with connections in their accept queues.
struct Ends<'a> {
    here: ListenerPlace<'a>,
    waiting: Vec<Waiting<'a>>,
    /// The sockets that ended, each with how many waited there, the most first.
    ends: Vec<(&'a ListenEnd, u64)>,
}

fn no(asked: &Asked) -> Option<Step> {
    let resets = asked.resets()?;
    resets.none_sent(&[Why::ListenerEnded], "the end of a listener")
}

fn rule_out(whole: &Whole) -> Verdict {
    server_resets::rule_out(whole, &ENDING, [])
}

fn find(story: &Story) -> Found {
    let mut by_listener: BTreeMap<u32, Vec<Waiting>> = BTreeMap::new();
    let resets = story.resets.sent.iter();
    for sent in resets.filter(|s| s.why == Why::ListenerEnded) {
        let Some((id, conn)) = sent.conn.and_then(|id| Some((id, story.conn(id)?))) else {
            continue;
        };
        // A client that has closed its side waits for nothing any more.
        if let Some(listener) = conn.listener.filter(|_| !conn.peer_closed) {
            let waiting = Waiting { id, conn, sent };
            by_listener.entry(listener).or_default().push(waiting);
        }
    }
    let places = listener_places(story).filter_map(|here| {
        let waiting = by_listener.remove(&here.index)?;
        Some(Ends::of(here, waiting))
    });
    places.map(|ends| judge(&ends)).collect()
}

impl<'a> Ends<'a> {
    fn of(here: ListenerPlace<'a>, waiting: Vec<Waiting<'a>>) -> Ends<'a> {
        let mut ends: BTreeMap<u64, (&ListenEnd, u64)> = BTreeMap::new();
        for end in waiting
            .iter()
            .filter_map(|w| here.listener.ended_before(w.sent.time_ns))
        {
            ends.entry(end.time_ns).or_insert((end, 0)).1 += 1;
        }
        let mut ends: Vec<_> = ends.into_values().collect();
        ends.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        Ends {
            here,
            waiting,
            ends,
        }
    }

    fn count(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Connections that the listener had, at any time.
    fn of_all(&self) -> u64 {
        self.here.connections().max(self.count())
    }

    fn share(&self) -> f64 {
        self.count() as f64 / self.of_all().max(1) as f64
    }

    /// The socket in whose queue most of them waited.
    fn worst(&self) -> Option<&(&'a ListenEnd, u64)> {
        self.ends.first()
    }

    /// Whether others still listened there: what waits could have gone to them.
    fn shared(&self) -> bool {
        let listener = self.here.listener;
        self.ends.iter().any(|(end, _)| listener.others(end) > 0)
    }

    fn scope(&self) -> Scope {
        let owners = self.worst().map(|(end, _)| self.here.listener.owners(end));
        match owners.as_deref() {
            Some([pid]) => self.here.scope_about(*pid),
            _ => self.here.scope(),
        }
    }

    /// The other ends that are on this host.
    fn clients(&self) -> impl Iterator<Item = (ConnId, &'a Conn)> + Clone {
        let story = self.here.story;
        let ids = self.waiting.iter().filter_map(|w| w.conn.peer);
        ids.filter_map(move |id| Some((id, story.conn(id)?)))
    }

    /// A request that failed costs its client the time until the next one that did not.
    fn lost(&self) -> Lost {
        let story = self.here.story;
        let client = |c: &'a Conn| c.peer.and_then(|id| story.conn(id)).unwrap_or(c);
        Lost::outages(story, self.waiting.iter().map(|w| client(w.conn)))
    }

    fn reset_step(&self) -> Step {
        let rows = self.waiting.iter().map(|w| w.sent.row());
        let ended = self.ends.iter().map(|(end, _)| end.row());
        let (at, reason) = (self.here.address(), ENDING.reason);
        say!(
            "{sockets} that listened at {at} ended, and the kernel reset {reset} of {connections} that waited \
             in their accept queues ({reason}).",
            sockets = Quantity::of(self.ends.len() as u64, "socket").rows(ended.take(SHOWN_ROWS)),
            reset = Quantity::count(self.count()).rows(rows.take(SHOWN_ROWS)),
            connections = Quantity::of(self.of_all(), "connection")
        )
        .number("share", self.share())
    }

    fn worst_step(&self) -> Option<Step> {
        let (end, n) = self.worst()?;
        let listener = self.here.listener;
        let owner = match listener.owners(end)[..] {
            [pid] => format!(", of pid {pid},"),
            _ => String::new(),
        };
        let after = duration(end.time_ns.saturating_sub(self.here.story.start_ns));
        let others = Quantity::of(listener.others(end) as u64, "other socket");
        Some(say!(
            "Most waited at the one{owner} that ended {after} after the start: {most}; {others} listened there \
             at that moment.",
            most = Quantity::count(*n).rows([end.row()]),
            others
        ))
    }

    fn request_step(&self) -> Step {
        let asked = self.waiting.iter().filter(|w| w.conn.bytes_received > 0);
        let bytes = self.waiting.iter().map(|w| w.conn.bytes_received);
        let rows = self.waiting.iter().filter_map(|w| w.conn.row());
        say!(
            "Their handshakes were complete: {asked} of them had sent a request, {request_bytes} (median), which \
             nobody has read.",
            asked = Quantity::count(asked.count() as u64),
            request_bytes = Quantity::bytes(median(&mut bytes.collect::<Vec<_>>()).unwrap_or(0))
                .rows(rows.take(SHOWN_ROWS))
        )
    }

    fn migrate_step(&self) -> Option<Step> {
        let value = self.here.setting(sysctl::TCP_MIGRATE_REQ)?;
        let row = self.here.setting_row(sysctl::TCP_MIGRATE_REQ);
        let shown = Quantity::count(value).rows(row);
        Some(if value == 0 {
            say!(
                "net.ipv4.tcp_migrate_req is {shown}: what waits does not go to another socket of the port.",
                shown
            )
        } else {
            say!(
                "net.ipv4.tcp_migrate_req is {shown}: what waits goes to another socket of the port, if there is \
                 one.",
                shown
            )
        })
    }

    /// What was sent to clients of this host, against what they received.
    fn received(&self) -> Option<Check> {
        let resets = &self.here.story.resets.received;
        let here = self.clients().count() as u64;
        let received = self.clients().filter(|(id, _)| resets.contains_key(id));
        let received = received.count() as u64;
        let formula = "resets sent to clients of this host = resets that they received";
        (here > 0).then(|| same_count(formula, here, received, "resets"))
    }

    /// The kernel's count of resets includes these.
    fn counted(&self) -> Option<Check> {
        let rise = self.here.rise(counter::OUT_RSTS).by;
        let formula = "resets of waiting connections ≤ rise of OutRsts";
        (self.here.is_counted()).then(|| at_least(formula, self.count(), rise, "resets"))
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let (at, app) = (self.here.address(), application(scope));
        let lasts = format!(
            "The {} that were reset are accepted, by the old process or the next one.",
            plural(self.count(), "connection")
        );
        let keep = Advice::to(format!(
            "Hand the listening socket of {app} on to the process that follows, instead of closing it and \
             opening another (systemd socket activation; haproxy: `expose-fd listeners` and -x; nginx: without \
             `reuseport`); or accept until nothing waits before closing it."
        ))
        .by(shell!("tcpwhy trace resets --port {port}", port = self.here.listener.local.port))
        .at(format!("how {app} reloads, or recycles its workers; the command shows each reset as it is sent"))
        .risk("A few connections still come between the last accept() and close().")
        .effect(lasts.clone())
        .change(Change::HandListenerOn {
            listener: at.clone(),
        });
        let off = self.here.setting(sysctl::TCP_MIGRATE_REQ) != Some(1);
        let since = linux(5, 14);
        let migrate = (self.shared() && off && !since.is_missing(self.here.story)).then(|| {
            let risk =
                "None known: it acts only where several sockets share a port (SO_REUSEPORT).";
            set_sysctl(&scope.netns, sysctl::TCP_MIGRATE_REQ, 1, risk, lasts)
        });
        migrate.into_iter().chain([keep]).collect()
    }
}

fn judge(ends: &Ends) -> Finding {
    let (story, at, scope) = (ends.here.story, ends.here.address(), ends.scope());
    let (n, sockets) = (ends.count(), ends.ends.len() as u64);
    let waiting = plural(n, "waiting connection");
    let says = format!(
        "{} of {} ({}) waited in an accept queue when its listener ended, and got a reset.",
        count(n),
        plural(ends.of_all(), "connection"),
        percent(ends.share())
    );
    let who = match (&scope.comm, sockets) {
        (Some(comm), 0 | 1) => format!("{comm} stopped listening at {at}"),
        (Some(comm), _) => format!("{} of {comm} at {at} ended", plural(sockets, "listener")),
        (None, _) => format!("{} at {at} ended", plural(sockets.max(1), "listener")),
    };
    Case::new(story, CAUSE, scope.clone())
        .placed(Place::Resets(ends.waiting.iter().map(|w| w.id).collect()))
        .title([
            format!("{who}: {waiting} of {} reset.", count(ends.of_all())),
            format!("{who}: {waiting} reset."),
            format!("{at}: listeners ended, {waiting} reset."),
        ])
        .fix([if ends.shared() && !linux(5, 14).is_missing(story) {
            "Set net.ipv4.tcp_migrate_req=1, or hand the listening socket on.".to_string()
        } else {
            "Hand the listening socket on, or accept what waits before closing it.".to_string()
        }])
        .affects(
            Impact::of(n, ends.of_all(), "connections", says),
            ends.lost(),
        )
        .because("the stack that sent the resets is that of a listener that closes")
        .steps([ends.reset_step()])
        .steps(ends.worst_step())
        .steps([ends.request_step()])
        .steps(ends.migrate_step())
        .checks(ends.received())
        .checks(ends.counted())
        .advise(ends.advice(&scope))
        .verify(sentence!(
            "`tcpwhy trace resets --port {port}` shows none while the service is reloaded.",
            port = ends.here.listener.local.port
        ))
}

#[cfg(test)]
mod tests;
