//! C53: SYNs meet sockets that are established: their client has forgotten the connections, the server has not.

use std::collections::BTreeMap;

use ahash::AHashMap;
use analysis::Seen;
use analysis::stats::median;
use analysis::words::{count, duration, percent, plural};

use crate::limits;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::HALF_OPEN,
    number: "C53",
    title: "SYNs meet connections that their client has forgotten",
    page: include_str!("half_open.md"),
    layer: Layer::Peer,
    ground: Ground::Listeners,
    needs: &[&[SourceName::States], &[SourceName::Drops]],
    seen_from: || "5 SYNs that met an established socket".into(),
    signature: &[
        "connect takes 1 s to a server when rebooted clients reconnect",
        "SYN is answered with a bare ACK (challenge ACK)",
    ],
    rivals: &[
        Id::TIME_WAIT_COLLISION,
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::SYN_QUEUE_OVERFLOW,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
        Id::CONNTRACK_FULL,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |whole| find(whole.story),
};

type Key = (Option<u32>, Endpoint);

/// A server whose established sockets got SYNs.
struct HalfOpen<'a> {
    story: &'a Story,
    /// The namespace of the server.
    netns: u32,
    at: Endpoint,
    met: Vec<&'a Seen>,
    /// Connects of this host that sent these SYNs.
    hit: Vec<(ConnId, &'a Conn)>,
    /// Connects of this host to it.
    tried: u64,
    /// Ends that the server accepted.
    accepted: u64,
    /// The server's ends that the SYNs met.
    old: Vec<&'a Conn>,
    /// The server's ends that came after them.
    new: Vec<(u64, &'a Conn)>,
}

fn key(netns: u32, at: Endpoint) -> Key {
    (at.is_loopback().then_some(netns), at)
}

fn no(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    let met = place.half_open;
    // Where the server is not here, it is unknown what its sockets got, but known whether it keeps TIME_WAIT.
    if place.listener().is_none() && met == 0 {
        return server_closes(place);
    }
    let reached = Quantity::of(met, "SYN");
    let told = asked.story.health.has(&SourceName::Drops);
    (told && met < limits::OFTEN.as_usize() as u64)
        .then(|| say!("{reached} met an established socket there", reached))
}

fn rule_out(whole: &Whole) -> Verdict {
    let met = &whole.story.refusals.half_open;
    let (n, of) = (
        Whole::most_by(met.iter().map(|seen| key(seen.netns, seen.local))),
        whole.opened(),
    );
    let rows = met.iter().map(|seen| seen.row()).take(SHOWN_ROWS);
    let step = say!(
        "{reached} of {opened} opened or tried met an established socket",
        reached = Quantity::count(n).rows(rows),
        opened = Quantity::of(of, "connection")
    );
    Verdict::events(n, of, &limits::OFTEN, step, NO_CONNECTION)
}

/// Connections ended as by a server that closes first: the server, and not the client, has TIME_WAIT sockets.
fn server_closes(place: &UnansweredSyns) -> Option<Step> {
    let ended = place.story.all(&place.clients).map(|(_, c)| c);
    let ended = ended.filter(|c| c.outcome == Outcome::Closed);
    let first = ended.clone().filter(|c| c.peer_closed);
    let (n, of) = (first.clone().count() as u64, ended.count() as u64);
    let rows = first.filter_map(Conn::row).take(SHOWN_ROWS);
    (n > 0 && limits::MOST.reached(n, of)).then(|| {
        say!(
            "the server closed {closed_first} of {ended} to it first: it keeps TIME_WAIT sockets, and \
             no connections that its clients have forgotten",
            ended = Quantity::of(of, "connection"),
            closed_first = Quantity::count(n).rows(rows)
        )
    })
}

fn find(story: &Story) -> Found {
    let all = HalfOpen::all(story).into_iter();
    all.filter(|h| h.met.len() >= limits::OFTEN.as_usize())
        .map(|h| judge(&h))
        .collect()
}

/// When the connect began whose SYNs came before a connection was accepted: the same address and port pairs recur
/// minutes later where many clients share an address.
fn connect_of(syns: &[u64], accepted_ns: u64) -> Option<u64> {
    let came = syns.partition_point(|ns| *ns < accepted_ns);
    let mut next = accepted_ns;
    let of_one = syns[..came].iter().rev().copied().take_while(|ns| {
        let follows = next.saturating_sub(*ns) <= limits::SAME_CONNECT.ns();
        next = *ns;
        follows
    });
    of_one.last()
}

impl<'a> HalfOpen<'a> {
    fn all(story: &'a Story) -> Vec<HalfOpen<'a>> {
        let mut all: BTreeMap<Key, HalfOpen> = BTreeMap::new();
        // By both ends, the server's first: when SYNs came.
        let mut ends: AHashMap<(Endpoint, Endpoint), Vec<u64>> = AHashMap::new();
        for seen in &story.refusals.half_open {
            let key = key(seen.netns, seen.local);
            let place = all.entry(key).or_insert_with(|| HalfOpen {
                story,
                netns: seen.netns,
                at: seen.local,
                met: Vec::new(),
                hit: Vec::new(),
                tried: 0,
                accepted: 0,
                old: Vec::new(),
                new: Vec::new(),
            });
            place.met.push(seen);
            let times = ends.entry((seen.local, seen.remote)).or_default();
            times.push(seen.time_ns);
        }
        ends.values_mut().for_each(|times| times.sort_unstable());
        // The last of these that led to a connection.
        let mut taken: AHashMap<(Endpoint, Endpoint), u64> = AHashMap::new();
        for (id, conn) in story.conns.iter().enumerate() {
            let opened = conn.side == Side::Opened;
            let (server, client) = match conn.remote {
                at if all.contains_key(&key(conn.netns, at)) => (at, conn.local),
                _ => (conn.local, conn.remote),
            };
            let Some(place) = all.get_mut(&key(conn.netns, server)) else {
                continue;
            };
            place.tried += u64::from(opened);
            let accepted = conn.side == Side::Accepted && server == conn.local;
            // The same address may be another server's, in another namespace.
            place.accepted += u64::from(accepted && conn.netns == place.netns);
            let Some(times) = ends.get(&(server, client)) else {
                continue;
            };
            let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else {
                continue;
            };
            let until = conn.established_ns.or(conn.ended_ns);
            let until = until.unwrap_or(conn.start_ns.saturating_add(limits::SAME_CONNECT.ns()));
            if server == conn.remote {
                if opened && conn.start_ns <= last && first <= until {
                    place.hit.push((id as ConnId, conn));
                }
            } else if conn.start_ns <= first {
                place.old.push(conn);
            } else {
                let before = taken.insert((server, client), conn.start_ns).unwrap_or(0);
                let free = times.partition_point(|ns| *ns <= before);
                let since = connect_of(&times[free..], conn.start_ns);
                place.new.extend(since.map(|since| (since, conn)));
            }
        }
        all.into_values().collect()
    }

    /// Ends of the server that were established when their SYN came and have gone since: a reset ended them.
    fn ended(&self) -> u64 {
        let ended = self.old.iter().filter(|c| c.ended_ns.is_some());
        ended.count() as u64
    }

    fn lost(&self) -> Lost {
        let came = |(first, conn): &(u64, &Conn)| conn.start_ns.saturating_sub(*first);
        let story = self.story;
        Lost::connects(story, self.hit.iter().map(|(_, c)| *c)).or(|| {
            let waited = self.new.iter().map(came);
            Lost::elsewhere(waited.fold(0, u64::saturating_add))
        })
    }

    fn of(&self) -> u64 {
        self.tried.max(self.accepted).max(self.met.len() as u64)
    }

    fn scope(&self) -> Scope {
        let clients = self.hit.iter().map(|(_, c)| *c);
        let (of, role) = if self.hit.is_empty() {
            (owners(self.story, self.old.iter().copied()), Role::Listener)
        } else {
            (owners(self.story, clients), Role::Client)
        };
        Scope {
            netns: self.story.netns(self.netns),
            listener: self.at.to_string(),
            role,
            ..of
        }
    }

    fn steps(&self) -> Vec<Step> {
        let (story, at) = (self.story, self.at);
        let rows = self.met.iter().map(|s| s.row()).take(SHOWN_ROWS);
        let met = say!(
            "{syns} to {at} met an established socket with the same addresses and ports; each is answered \
             with a challenge ACK (TCP_INVALID_SYN).",
            syns = Quantity::of(self.met.len() as u64, "SYN").rows(rows)
        );
        let age = |c: &&Conn| {
            let until = c.ended_ns.unwrap_or(story.end_ns);
            until.saturating_sub(c.start_ns)
        };
        let ages = median(&mut self.old.iter().map(age).collect::<Vec<_>>());
        let rows = self.old.iter().filter_map(|c| c.row()).take(SHOWN_ROWS);
        let old = ages.map(|ns| {
            say!(
                "The server had held {old_connections} for {age} (median), longer where they predate the \
                 recording; {reset} of them ended when the client answered the challenge with a reset.",
                old_connections = Quantity::of(self.old.len() as u64, "of these connection").rows(rows),
                age = Quantity::ns(ns),
                reset = Quantity::count(self.ended())
            )
        });
        let took = self.hit.iter().filter_map(|(_, c)| c.connect_ns());
        let took = median(&mut took.collect::<Vec<_>>());
        let rows = self
            .hit
            .iter()
            .filter_map(|(_, c)| c.row())
            .take(SHOWN_ROWS);
        let connects = took.map(|ns| {
            say!(
                "{connects} of this host that met them took {took} (median): the SYN had to be \
                 retransmitted.",
                connects = Quantity::of(self.hit.len() as u64, "connect").rows(rows),
                took = Quantity::ns(ns)
            )
        });
        [met].into_iter().chain(old).chain(connects).collect()
    }

    /// A reset that ends a TIME_WAIT socket is not counted; one that ends a connection is.
    fn resets_counted(&self) -> Option<Check> {
        let counters = &self.story.counters;
        let rise = counters.rise(self.netns, counter::ESTAB_RESETS).by;
        let formula = "connections that a reset ended (EstabResets, without TIME_WAIT sockets) ≥ those \
                       that SYNs met and that ended";
        let told = counters.covers(self.netns) && self.ended() > 0;
        told.then(|| at_least(formula, self.ended(), rise, "connections"))
    }

    /// The kernel counts SYNs within a connection, and none that a TIME_WAIT socket gets.
    fn challenged(&self) -> Option<Check> {
        let counters = &self.story.counters;
        let rise = counters.rise(self.netns, counter::TCP_SYN_CHALLENGE).by;
        let formula = "SYNs within a connection (TCPSYNChallenge) ≥ those that met an established socket here";
        let covered = counters.covers(self.netns);
        covered.then(|| at_least(formula, self.met.len() as u64, rise, "SYNs"))
    }

    fn advice(&self) -> [Advice; 2] {
        let netns = self.story.netns(self.netns);
        let (at, share) = (
            self.at,
            percent(self.met.len() as f64 / self.of().max(1) as f64),
        );
        [
            set_sysctl(
                &netns,
                sysctl::TCP_KEEPALIVE_TIME,
                60,
                "An idle connection costs two small packets a minute. It applies to sockets that set \
                 SO_KEEPALIVE; programs that set TCP_KEEPIDLE override it.",
                format!(
                    "The server drops connections of vanished clients after minutes; the {share} of SYNs \
                     to {at} that met them no longer do."
                ),
            ),
            Advice::to(format!(
                "Make the listener at {at} set SO_KEEPALIVE or an idle timeout; where a NAT is in between, \
                 make it choose ports at random (nft `masquerade fully-random`) and keep entries for \
                 longer than the server keeps connections."
            ))
            .by(command_in(&netns, shell!("ss -tone state established 'sport = :{port}'", port = at.port)))
            .at("the source or configuration of the server, and the NAT; the command shows which sockets have a timer")
            .risk("An idle timeout closes connections that clients may want to reuse.")
            .effect("The server keeps no connection that its client has forgotten."),
        ]
    }
}

fn judge(half_open: &HalfOpen) -> Finding {
    let (story, at) = (half_open.story, half_open.at);
    let (met, of) = (half_open.met.len() as u64, half_open.of());
    let (n, all) = (count(met), plural(of, "connect"));
    let waited = half_open
        .new
        .iter()
        .map(|(first, c)| c.start_ns.saturating_sub(*first));
    let waited = median(&mut waited.collect::<Vec<_>>());
    let waited = waited.map_or(String::new(), |ns| {
        format!(
            "; the new connection was accepted {} later (median)",
            duration(ns)
        )
    });
    let says = format!(
        "{n} of {all} ({}) met a connection that the server still had and the client did not{waited}.",
        percent(met as f64 / of.max(1) as f64)
    );
    let place = Place::At(at.is_loopback().then_some(half_open.netns), at);
    Case::new(story, CAUSE, half_open.scope())
        .placed(place)
        .title([
            format!("{at} still has connections that clients forgot: {n} of {all} met one."),
            format!("{at} still has connections that its clients forgot."),
        ])
        .fix([
            format!("Enable keep-alives on the server at {at} to detect dead clients."),
            "Enable keep-alives on the server to detect dead clients.".into(),
        ])
        .affects(Impact::of(met, of, "connects", says), half_open.lost())
        .because("the SYNs were seen at established sockets with the same addresses and ports")
        .steps(half_open.steps())
        .checks(half_open.challenged())
        .checks(half_open.resets_counted())
        .advise(half_open.advice())
        .verify("`nstat -az TcpExtTCPSYNChallenge` no longer rises in the server's namespace.")
}

#[cfg(test)]
mod tests;
