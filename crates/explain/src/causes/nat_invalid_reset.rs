//! C57: a segment that connection tracking finds invalid arrives untranslated; its receiver answers with a reset.

use std::collections::BTreeMap;

use analysis::Stray;
use analysis::words::{count, percent, plural};

use crate::limits;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::NAT_INVALID_RESET,
    number: "C57",
    title: "a translated connection's segment arrives untranslated",
    page: include_str!("nat_invalid_reset.md"),
    layer: Layer::Network,
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States, SourceName::Sockets],
        &[SourceName::ResetsUnmatched],
    ],
    seen_from: || {
        "5 connections, 0.1 % of those to a server, whose address and port answered another address with a \
         reset, and that then hung or were reset; one that hangs for 3 s"
            .into()
    },
    signature: &[
        "connection reset by peer through a Service (kube-proxy, DNAT) under load",
        "downloads through a load balancer hang or are reset, though neither end resets",
    ],
    rivals: &[Id::RESET_BY_APPLICATION, Id::RESET_UNREAD_DATA],
    explains: &[Id::RESET_BY_PEER, Id::INJECTED_RESET, Id::SLOW_PEER],
    told_with: None,
    no: None,
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// An end whose peer's segment came from another address, with the reset that answered it.
struct Untranslated<'a> {
    id: ConnId,
    conn: &'a Conn,
    stray: Stray,
    /// How long the end went on without a byte, or until it was reset, ns.
    hung_ns: u64,
    reset: bool,
}

/// The connections of a namespace to a translated address.
struct Translated<'a> {
    story: &'a Story,
    netns: u32,
    at: Endpoint,
    /// Where the segments really came from.
    from: Endpoint,
    all: Vec<Untranslated<'a>>,
    of: u64,
}

/// An end that asks, whose port answered somebody else with a reset, and that got nothing more.
fn untranslated(story: &Story, id: ConnId) -> Option<Untranslated<'_>> {
    let conn = story.conn(id).filter(|c| c.asks())?;
    let stray = story.resets.stray(conn)?;
    // What a former user of the port is sent late is nobody's loss.
    let former = story
        .between(conn.netns, conn.local, stray.remote)
        .next()
        .is_some();
    let listens = story
        .listeners
        .at_port(conn.netns, conn.local.port)
        .next()
        .is_some();
    if former || listens {
        return None;
    }
    let reset = story
        .resets
        .got(id)
        .is_some_and(|got| got.time_ns >= stray.time_ns);
    let hung_ns = conn
        .ended_ns
        .unwrap_or(story.end_ns)
        .saturating_sub(stray.time_ns);
    let heard = story.samples(conn).and_then(|s| s.last.heard_ns);
    let silent = heard.is_some_and(|ns| ns <= stray.time_ns.saturating_add(limits::OUTAGE.ns()));
    let hung = silent && hung_ns >= limits::OUTAGE.ns();
    (reset || hung).then_some(Untranslated {
        id,
        conn,
        stray,
        hung_ns,
        reset,
    })
}

fn places(story: &Story) -> Vec<Translated<'_>> {
    let mut places: BTreeMap<(u32, Endpoint), Translated> = BTreeMap::new();
    let ids = 0..story.conns.len() as ConnId;
    for one in ids.filter_map(|id| untranslated(story, id)) {
        let (netns, at, from) = (one.conn.netns, one.conn.remote, one.stray.remote);
        let place = places.entry((netns, at)).or_insert_with(|| Translated {
            story,
            netns,
            at,
            from,
            all: Vec::new(),
            of: 0,
        });
        place.all.push(one);
    }
    for conn in story.conns.iter().filter(|c| c.asks()) {
        if let Some(place) = places.get_mut(&(conn.netns, conn.remote)) {
            place.of += 1;
        }
    }
    places.into_values().collect()
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let places = places(story);
    let n = places.iter().map(|p| p.all.len() as u64).max().unwrap_or(0);
    let rows = places.iter().flat_map(|p| &p.all).map(|u| u.stray.row());
    let of = story.conns.iter().filter(|c| c.asks()).count() as u64;
    let step = say!(
        "{met} of {connections} ended or hung after their port had answered another address with a reset",
        met = Quantity::count(n).rows(rows.take(SHOWN_ROWS)),
        connections = Quantity::of(of, "connection")
    );
    Verdict::events(n, of, &limits::OFTEN, step, NO_CONNECT)
}

fn find(story: &Story) -> Found {
    places(story).iter().map(judge).collect()
}

/// A namespace that tracks connections strictly, and found packets invalid.
struct Tracker {
    netns: u32,
    invalid: Quantity,
    liberal: Option<Quantity>,
}

impl Translated<'_> {
    fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// The namespaces of this host where packets were found invalid, unless tracking is liberal there.
    fn trackers(&self) -> Vec<Tracker> {
        let story = self.story;
        let name = sysctl::NF_CONNTRACK_TCP_BE_LIBERAL;
        let trackers = story
            .structures
            .named("conntrack")
            .filter_map(|(netns, _)| {
                let (rise, row) = story.structures.conntrack(netns, "invalid")?;
                let liberal = story.settings.get(netns, name);
                let strict = liberal.as_ref().is_none_or(|v| v.number(0) == Some(0));
                (rise > 0 && strict).then(|| Tracker {
                    netns,
                    invalid: Quantity::of(rise, "packet").rows([row]),
                    liberal: liberal.map(|v| Quantity::count(0u64).rows([v.row])),
                })
            });
        trackers.collect()
    }

    /// The other end of one of these connections, where that is on this host: it has the address that the segments
    /// come from.
    fn server_resets(&self) -> (u64, Vec<RowRef>) {
        let story = self.story;
        let other = |u: &Untranslated| {
            let ends = story.to(u.conn.local);
            let mut ends = ends.filter(|(_, c)| c.local == u.stray.remote);
            ends.find_map(|(id, _)| Some(story.resets.got(id)?.row()))
        };
        let rows: Vec<RowRef> = self.all.iter().filter_map(other).collect();
        (
            rows.len() as u64,
            rows.into_iter().take(SHOWN_ROWS).collect(),
        )
    }

    fn scope(&self) -> Scope {
        Scope {
            netns: self.story.netns(self.netns),
            listener: self.at.to_string(),
            role: Role::Client,
            ..owners(self.story, self.all.iter().map(|u| u.conn))
        }
    }

    fn steps(&self, trackers: &[Tracker]) -> Vec<Step> {
        let (at, from) = (self.at, self.from);
        let rows = self.all.iter().map(|u| u.stray.row()).take(SHOWN_ROWS);
        let n = self.all.len() as u64;
        let came = say!(
            "On {untranslated} of {connections} to {at}, a segment came from {from} instead, to the very address \
             and port of the connection: no socket has that peer, and the kernel answered it with a reset.",
            untranslated = Quantity::count(n).rows(rows),
            connections = Quantity::of(self.of, "connection")
        );
        let reset = self.all.iter().filter(|u| u.reset).count() as u64;
        let hung = n - reset;
        let rows = self
            .all
            .iter()
            .filter_map(|u| u.conn.row())
            .take(SHOWN_ROWS);
        let then = say!(
            "{at} and {from} are two addresses of one server: the reset ends the connection there. Here {reset} \
             of them were reset then, and {hung} got nothing more.",
            reset = Quantity::count(reset).rows(rows),
            hung = Quantity::count(hung)
        );
        let (got, rows) = self.server_resets();
        let server = (got > 0).then(|| {
            say!(
                "The server's end, which is on this host at {from}, got {resets} so.",
                resets = Quantity::of(got, "reset").rows(rows)
            )
        });
        let tracked = trackers.iter().take(SHOWN_ROWS).map(|t| {
            let netns = namespace(&self.story.netns(t.netns));
            let invalid = t.invalid.clone();
            match t.liberal.clone() {
                Some(liberal) => say!(
                    "Connection tracking found {invalid} invalid in {netns}, where nf_conntrack_tcp_be_liberal is \
                     {liberal}: such packets pass, and are not translated.",
                    invalid,
                    liberal
                ),
                None => say!(
                    "Connection tracking found {invalid} invalid in {netns}: such packets pass, and are not \
                     translated.",
                    invalid
                ),
            }
        });
        [came, then]
            .into_iter()
            .chain(server)
            .chain(tracked)
            .collect()
    }

    fn advice(&self, trackers: &[Tracker]) -> Vec<Advice> {
        let risk =
            "Out-of-window segments are translated and passed: the ends check them themselves.";
        let effect = format!(
            "The {} of connections that broke go on: late segments are translated as all others.",
            percent(self.count() as f64 / self.of.max(1) as f64)
        );
        // Of several it is not known which one translates these.
        let one = trackers.first().filter(|_| trackers.len() == 1);
        let liberal = one.map(|t| {
            let netns = self.story.netns(t.netns);
            let name = sysctl::NF_CONNTRACK_TCP_BE_LIBERAL;
            set_sysctl(&netns, name, 1, risk, effect.clone())
        });
        let drop = Advice::to(format!(
            "Have whatever translates {} to {} drop what is invalid before it is forwarded (nft: `ct state \
             invalid drop` in forward; kube-proxy does so for its Services), or set \
             net.netfilter.nf_conntrack_tcp_be_liberal=1 there.",
            self.at, self.from
        ))
        .by(shell!("conntrack -S"))
        .at(format!("the router, node or load balancer that translates {}; the command shows `invalid`", self.at))
        .risk("A dropped segment is retransmitted where it was needed.")
        .effect(effect)
        .change(Change::PassPackets {
            netns: one.map(|t| t.netns),
            at: self.at.to_string(),
        });
        liberal.into_iter().chain([drop]).collect()
    }
}

fn judge(place: &Translated) -> Finding {
    let (story, at, from) = (place.story, place.at, place.from);
    let trackers = place.trackers();
    let (n, of) = (count(place.count()), plural(place.of, "connection"));
    let says = format!(
        "{n} of {of} ({}) broke when a segment came from {from} untranslated.",
        percent(place.count() as f64 / place.of.max(1) as f64)
    );
    let hung_ns = place
        .all
        .iter()
        .map(|u| u.hung_ns.max(limits::FAILED_COSTS.ns()));
    let hung_ns = hung_ns.fold(0, u64::saturating_add);
    let (server, _) = place.server_resets();
    let case = Case::new(story, CAUSE, place.scope())
        .placed(Place::Resets(place.all.iter().map(|u| u.id).collect()))
        .title([
            format!("NAT: {n} of {of} to {at} broke as {from}'s segments came untranslated."),
            format!("Untranslated segments broke {n} of {of} to {at}."),
        ])
        .fix([if trackers.len() == 1 {
            "Set nf_conntrack_tcp_be_liberal=1, or drop what is invalid.".to_string()
        } else {
            "Have the device that translates drop invalid packets, or track liberally.".to_string()
        }])
        .affects(
            Impact::of(place.count(), place.of, "connections", says),
            Lost::elsewhere(hung_ns),
        )
        .if_asked(place.all.iter().map(|u| u.id).collect(), false)
        .because("a segment for the connection's own address and port came from another one than its peer's");
    let case = if server > 0 {
        case.because("the server's end, at that other address, got the reset")
    } else {
        case.at_most(Level::Medium, "the server's end is not on this host")
    };
    case.steps(place.steps(&trackers))
        .checks((server > 0).then(|| {
            let formula = "resets that the server's ends got ≥ connections that broke";
            at_least(formula, place.count(), server, "resets")
        }))
        .advise(place.advice(&trackers))
        .verify(sentence!(
            "`tcpwhy trace resets --addr {addr}` shows none sent for want of a socket.",
            addr = from.addr
        ))
}

#[cfg(test)]
mod tests;
