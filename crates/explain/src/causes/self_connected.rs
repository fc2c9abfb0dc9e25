//! C56: a client is connected to itself: it asked for a port that its own search for a local port may give it.

use analysis::words::{duration, plural};

use crate::limits;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SELF_CONNECTED,
    number: "C56",
    title: "connected to itself",
    page: include_str!("self_connected.md"),
    layer: Layer::Application,
    ground: Ground::Connections,
    needs: &[&[SourceName::States, SourceName::Sockets]],
    seen_from: || "one connection whose two ends are one socket, for 1 s".into(),
    signature: &[
        "server cannot start: address already in use (EADDRINUSE), and nothing listens there",
        "client reads back what it has sent",
        "connect() to localhost succeeds while the server is down",
    ],
    rivals: &[Id::CONNECTION_REFUSED],
    explains: &[Id::CONNECTION_REFUSED],
    told_with: None,
    no: None,
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// A connection of one socket with itself.
struct SelfConnected<'a> {
    story: &'a Story,
    id: ConnId,
    conn: &'a Conn,
}

fn all(story: &Story) -> impl Iterator<Item = SelfConnected<'_>> {
    let conns = story.conns.iter().enumerate();
    let own = conns.filter(|(_, c)| {
        let made = matches!(c.outcome, Outcome::Open | Outcome::Closed);
        made && c.local.port != 0 && !c.local.addr.is_any() && c.local == c.remote
    });
    own.map(|(id, conn)| SelfConnected {
        story,
        id: id as ConnId,
        conn,
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let longest = all(whole.story).map(|own| own.held_ns()).max();
    let rows = all(whole.story).filter_map(|own| own.row());
    let of = whole.story.conns.len() as u64;
    let own = Quantity::count(all(whole.story).count() as u64).rows(rows.take(SHOWN_ROWS));
    let step = say!(
        "{own} of {connections} had the same address and port at both ends",
        own,
        connections = Quantity::of(of, "connection")
    );
    let held = Test::lasts(longest.unwrap_or(0), &limits::OUTAGE, step);
    Verdict::nearest([(of > 0).then(|| every([held])).flatten()], NO_CONNECTION)
}

fn find(story: &Story) -> Found {
    all(story).map(|own| judge(&own)).collect()
}

impl SelfConnected<'_> {
    fn began_ns(&self) -> u64 {
        let began = self.conn.established_ns.unwrap_or(self.conn.start_ns);
        began.max(self.story.start_ns)
    }

    /// How long it held the port, within the recording.
    fn held_ns(&self) -> u64 {
        let ended = self.conn.ended_ns.unwrap_or(self.story.end_ns);
        ended.saturating_sub(self.began_ns())
    }

    /// The row that shows it.
    fn row(&self) -> Option<RowRef> {
        let sampled = || Some(self.story.samples(self.conn)?.last.row);
        self.conn.row().or_else(sampled)
    }

    fn is_open(&self) -> bool {
        self.conn.ended_ns.is_none()
    }

    fn scope(&self) -> Scope {
        Scope {
            netns: self.story.netns(self.conn.netns),
            listener: self.conn.remote.to_string(),
            role: Role::Client,
            ..owners(self.story, [self.conn].into_iter())
        }
    }

    fn steps(&self, scope: &Scope) -> Vec<Step> {
        let (story, at, who) = (self.story, self.conn.remote, process(scope));
        let rows = self.row();
        let held = Quantity::ns(self.held_ns()).rows(rows);
        let until = if self.is_open() {
            "it still is"
        } else {
            "then it ended"
        };
        let own = say!(
            "{who} asked for {at}, and the kernel gave its socket the local address and port {at}, too: its SYN \
             came back to it, and it was connected to itself for {held}; {until}.",
            held
        );
        let netns = self.conn.netns;
        let range = story.settings.get(netns, sysctl::IP_LOCAL_PORT_RANGE);
        let range = range.and_then(|r| {
            let (low, high) = (r.number(0)?, r.number(1)?);
            Some(say!(
                "Local ports are searched from {low} to {high} (net.ipv4.ip_local_port_range): the server's \
                 {at} is one of them.",
                low = Quantity::new(low, low.to_string()).rows([r.row]),
                high = Quantity::new(high, high.to_string())
            ))
        });
        let refused: Vec<_> = story.to(at).collect();
        let refused = refused
            .iter()
            .filter(|(_, c)| c.netns == netns && c.refused.is_some());
        let rows = refused.clone().filter_map(|(_, c)| Some(c.refused?.into()));
        let rows: Vec<RowRef> = rows.take(SHOWN_ROWS).collect();
        let n = refused.count() as u64;
        let refused = (n > 0).then(|| {
            say!(
                "{refused} there were refused: nothing listens, and while this connection lasts, nothing can \
                 (bind() fails with EADDRINUSE).",
                refused = Quantity::of(n, "connect").rows(rows)
            )
        });
        let bound = story.binds.all().filter(|((of, place, _), _)| {
            *of == netns && place.port == at.port && (place.addr == at.addr || place.addr.is_any())
        });
        let bound = bound.map(|((.., comm), attempts)| {
            say!(
                "{comm} tried to bind it {times}, and got EADDRINUSE.",
                times = Quantity::times(attempts.count)
                    .rows(attempts.calls.iter().map(|c| c.row).take(SHOWN_ROWS))
            )
        });
        let more = range
            .into_iter()
            .chain(refused)
            .chain(bound.take(SHOWN_ROWS));
        std::iter::once(own).chain(more).collect()
    }

    /// The ports that are kept from the search, with this one.
    fn reserved(&self) -> String {
        let name = sysctl::IP_LOCAL_RESERVED_PORTS;
        let now = self.story.settings.get(self.conn.netns, name);
        let now = now.map(|v| v.text.to_string()).unwrap_or_default();
        let known = now
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b',' || b == b'-');
        if now.is_empty() || !known {
            self.conn.remote.port.to_string()
        } else {
            format!("{now},{}", self.conn.remote.port)
        }
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let (at, who) = (self.conn.remote, process(scope));
        let free = self.is_open().then(|| {
            let end = shell!("ss -K src {at} dst {at}", at);
            Advice::to(format!(
                "End this connection (restart {who}, or the command), then start the service that should listen \
                 on {at}."
            ))
            .by(command_in(&scope.netns, end))
            .undo(Some("nothing restores the connection; nobody needs it"))
            .at(namespace(&scope.netns))
            .risk(format!("{who} sees its connection end; nobody else is at the other end of it."))
            .effect("bind() of the port succeeds.")
            .change(Change::StartListener { at: at.to_string() })
        });
        let risk = "None: programs can still bind the port when they ask for it.";
        let effect = format!(
            "No search for a local port ends at {}, so no client can meet itself.",
            at.port
        );
        let reserve = set_sysctl(
            &scope.netns,
            sysctl::IP_LOCAL_RESERVED_PORTS,
            self.reserved(),
            risk,
            effect,
        );
        let check = Advice::to(
            "Or move the service to a port outside ip_local_port_range; or have the client close a connection \
             whose getsockname() and getpeername() are equal, and try again later.",
        )
        .at("the configuration of the service, or the source of the client")
        .risk("None.")
        .effect("A client that retries while its server is down is refused, as it should be.");
        free.into_iter().chain([reserve, check]).collect()
    }
}

fn judge(own: &SelfConnected) -> Finding {
    let (story, at, scope) = (own.story, own.conn.remote, own.scope());
    let netns = at.is_loopback().then_some(own.conn.netns);
    let who = match (&scope.comm, scope.pid) {
        (Some(comm), Some(pid)) => format!("{comm} (pid {pid})"),
        _ => "A client".into(),
    };
    let held = duration(own.held_ns());
    let (is, holds) = if own.is_open() {
        ("is", "holds")
    } else {
        ("was", "held")
    };
    let says = format!(
        "{} {holds} the port for {held}: no server can bind it, and whatever the client sends comes back to it.",
        plural(1, "connection")
    );
    let held_ns = own.held_ns();
    Case::new(story, CAUSE, scope.clone())
        .placed(Place::At(netns, at))
        .title([
            format!("{who} {is} connected to itself at {at}, and {holds} the port."),
            format!("A client {is} connected to itself at {at}, and {holds} the port."),
        ])
        .fix([
            if own.is_open() {
                format!(
                    "End that connection, and reserve port {} (ip_local_reserved_ports).",
                    at.port
                )
            } else {
                format!("Keep port {} out of the search for local ports.", at.port)
            },
            "Keep its port out of the search for local ports.".into(),
        ])
        .affects(
            Impact::of(1, 1, "connections", says),
            Lost::without_service(held_ns),
        )
        .if_asked(vec![own.id], false)
        .because("both ends of the connection have the same address and port")
        .steps(own.steps(&scope))
        .advise(own.advice(&scope))
        .verify(sentence!(
            "`ss -tn 'src {at} and dst {at}'` shows nothing, and the service listens on {at}.",
            at
        ))
}

#[cfg(test)]
mod tests;
