//! C13: clients get resets that no socket sent: a firewall, here or on the path, forged them.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use analysis::words::{count, percent, plural};
use analysis::{Rejected, What};
use recording::Addr;

use crate::limits;
use crate::places::refusals::Refusals;
use crate::places::reset_ends::ResetEnds;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::INJECTED_RESET,
    number: "C13",
    title: "resets that no socket sent",
    page: include_str!("injected_reset.md"),
    layer: Layer::Network,
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[SourceName::ResetsReceived],
        &[SourceName::ResetsSent],
        &[SourceName::ResetsUnmatched],
    ],
    seen_from: || "10 refused connects, or 5 reset connections".into(),
    signature: &[
        "connection reset, and the server never sent one",
        "connections are reset in the middle by a firewall",
    ],
    rivals: &[
        Id::CONNECTION_REFUSED,
        Id::RESET_UNREAD_DATA,
        Id::RESET_BY_APPLICATION,
        Id::LOCAL_FIREWALL_DROP,
        Id::RESET_BY_PEER,
        Id::IDLE_TIMEOUT_MISMATCH,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story),
};

/// Places looked at, one by one.
const MAX_PLACES: usize = 65_536;

/// The server's end, in one namespace if the address is a loopback address.
type Key = (Option<u32>, Endpoint);

/// The server's end of connections that got resets which no socket of this host sent.
struct Site<'a> {
    story: &'a Story,
    at: Endpoint,
    ends: ResetEnds<'a>,
    /// Connections that were tried or established.
    tried: u64,
    /// The packets dropped by a firewall of this host that the resets answered.
    rejected: Vec<&'a Rejected>,
}

fn no(asked: &Asked) -> Option<Step> {
    match asked.refusals() {
        Some(refusals) => no_socket_was_there(refusals),
        None => sockets_sent_them(asked.resets()?).or_else(|| the_peer_had_closed(asked.resets()?)),
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    if !story.health.sees(&SourceName::ResetsUnmatched) || story.resets.folded > 0 {
        return Verdict::cannot("not every reset that this host sent is known");
    }
    let says = |resets: Quantity, of: u64| {
        say!(
            "{resets} came on {connections} that no socket of this host is known to have sent",
            resets,
            connections = Quantity::of(of, "connection")
        )
    };
    let sites = sites(story, &Own::of(story)).into_iter();
    let places = sites.flat_map(|site| {
        let of = site.of().max(site.ends.count());
        let of_kind = |n: usize, least| {
            let resets = Quantity::of(n as u64, "reset").rows(site.ends.received_rows());
            every([Test::events(n as u64, of, least, says(resets, of))])
        };
        [
            of_kind(site.ends.refused.len(), &limits::ENOUGH),
            of_kind(site.ends.broken.len(), &limits::OFTEN),
        ]
    });
    let of = story.conns.len() as u64;
    let none = || {
        every([Test::events(
            0,
            of,
            &limits::OFTEN,
            says(Quantity::of(0u64, "reset"), of),
        )])
    };
    Verdict::nearest_or(places.collect::<Vec<_>>(), none, NO_CONNECTION)
}

/// The other end itself had closed: it answers whatever comes after its FIN with a reset.
fn the_peer_had_closed(ends: &ResetEnds) -> Option<Step> {
    let closed = ends.all().filter(|(_, c)| c.peer_closed).count() as u64;
    let closed_before = Quantity::count(closed).rows(ends.received_rows());
    limits::NEARLY_ALL.reached(closed, ends.count()).then(|| {
        say!(
            "the other end had closed {closed_before} of {ended} itself before its reset came",
            ended = Quantity::of(ends.count(), "connection"),
            closed_before
        )
    })
}

/// The kernel itself refused the connects.
fn no_socket_was_there(place: &Refusals) -> Option<Step> {
    let (sent, here) = (place.sent(), place.ids.len() as u64);
    let (firewalled, rows) = place.firewalled();
    let explains = sent > 0 && limits::NEARLY_ALL.reached(sent, here) && firewalled < sent;
    let resets = Quantity::of(sent, "reset").rows(place.rows());
    let firewall_dropped = Quantity::of(firewalled, "SYN").rows(rows);
    (explains && place.told()).then(|| {
        say!(
            "the server's own kernel sent {resets}, and netfilter dropped {firewall_dropped} for that \
             address",
            resets,
            firewall_dropped
        )
    })
}

/// Sockets of this host sent the resets themselves.
fn sockets_sent_them(ends: &ResetEnds) -> Option<Step> {
    let own = ends.sent();
    let rows = own.iter().map(|s| s.row()).take(SHOWN_ROWS);
    let sent = Quantity::of(own.len() as u64, "reset").rows(rows);
    let ended = Quantity::of(ends.count(), "connection");
    limits::NEARLY_ALL
        .reached(own.len(), ends.count())
        .then(|| {
            say!(
                "this host's own sockets sent {sent} on these {ended}",
                sent,
                ended
            )
        })
}

fn find(story: &Story) -> Found {
    // Before Linux 6.10 a kernel does not report every reset that it sends.
    if !story.health.sees(&SourceName::ResetsUnmatched) || story.resets.folded > 0 {
        return Found::default();
    }
    let own = Own::of(story);
    let sites = sites(story, &own);
    sites.iter().filter_map(|site| judge(site, &own)).collect()
}

/// The server's end of a connection.
fn server_of(conn: &Conn) -> Endpoint {
    if conn.asks() { conn.remote } else { conn.local }
}

fn key_of(conn: &Conn) -> Key {
    let at = server_of(conn);
    (at.is_loopback().then_some(conn.netns), at)
}

/// Where connections got resets that no kernel of this host is known to have sent.
fn sites<'a>(story: &'a Story, own: &Own) -> Vec<Site<'a>> {
    let mut sites: BTreeMap<Key, (ResetEnds, u64)> = BTreeMap::new();
    for (id, conn) in story.conns.iter().enumerate() {
        let id = id as ConnId;
        let refused = conn.refused.is_some() && conn.side == Side::Opened;
        let broken = story.resets.received.contains_key(&id);
        let key = key_of(conn);
        let foreign = if refused {
            // The server's kernel reported refusals there.
            !own.at.contains_key(&key)
        } else {
            broken && !may_be_the_peers(story, conn)
        };
        if foreign && (sites.len() < MAX_PLACES || sites.contains_key(&key)) {
            let (ends, _) = sites.entry(key).or_insert((ResetEnds::none(story), 0));
            if refused {
                ends.refused.push(id)
            } else {
                ends.broken.push(id)
            }
        }
    }
    // The client's end of each connection.
    for conn in story.conns.iter().filter(|c| server_of(c) == c.remote) {
        if let Some((_, tried)) = sites.get_mut(&key_of(conn)) {
            *tried += 1;
        }
    }
    let sites = sites.into_iter().map(|((_, at), (ends, tried))| Site {
        story,
        at,
        tried,
        rejected: ends.rejected(),
        ends,
    });
    sites.collect()
}

/// Whether the other end, if here, sent a reset: where addresses are translated on the way, in its own name. For an end
/// that is not here this is unknown.
fn may_be_the_peers(story: &Story, conn: &Conn) -> bool {
    let peer = conn.peer.and_then(|id| story.conn(id));
    peer.is_none_or(|peer| story.resets.was_sent(conn) || story.resets.was_sent_by(peer))
}

/// SYNs that kernels of this host answered with resets of their own.
#[derive(Default)]
struct Own {
    /// By the SYNs' destination.
    at: AHashMap<Key, u64>,
    /// By the SYNs' source address.
    to: AHashMap<Addr, u64>,
}

impl Own {
    fn of(story: &Story) -> Own {
        let mut own = Own::default();
        let groups = story.packets.all().iter();
        for group in groups.filter(|g| g.what == What::SynRefused) {
            let netns = group.local.is_loopback().then_some(group.netns);
            *own.at.entry((netns, group.local)).or_default() += group.count;
            for to in &group.remotes {
                *own.to.entry(to.addr).or_default() += to.count;
            }
        }
        own
    }
}

impl Site<'_> {
    fn of(&self) -> u64 {
        self.tried.max(self.ends.count())
    }

    /// Whether no socket of this host can have sent them.
    fn unsent(&self, own: &Own) -> bool {
        // A reset whose record was lost looks as if no socket had sent it.
        let told = self.ends.count() > self.story.health.lost(&SourceName::ResetsSent);
        self.ends.server_here() && told && !self.translated(own)
    }

    /// Whether kernels of this host refused about as many connects of these clients under other addresses: where
    /// addresses are translated, those are the same.
    fn translated(&self, own: &Own) -> bool {
        let refused = self.story.all(&self.ends.refused);
        let clients: BTreeSet<Addr> = refused.map(|(_, c)| c.local.addr).collect();
        let to = |addr: &Addr| own.to.get(addr).copied().unwrap_or(0);
        let to_them: u64 = clients.iter().map(to).sum();
        to_them > 0 && limits::MOST.reached(to_them, self.ends.refused.len())
    }

    /// The namespace whose firewall dropped the packets that most of the resets answered.
    fn firewall(&self) -> Option<u32> {
        let mut by_netns: BTreeMap<u32, u64> = BTreeMap::new();
        for rejected in &self.rejected {
            *by_netns.entry(rejected.netns).or_default() += 1;
        }
        let (netns, n) = by_netns.into_iter().max_by_key(|(_, n)| *n)?;
        limits::NEARLY_ALL
            .reached(n, self.ends.count())
            .then_some(netns)
    }

    fn scope(&self) -> Scope {
        let conns = || self.ends.all().map(|(_, c)| c);
        let opened = conns().any(|c| c.side == Side::Opened);
        let of_ends = conns().next().map_or(0, |c| c.netns);
        let by = match self.firewall() {
            Some(_) => "firewall",
            None => "path",
        };
        Scope {
            netns: self.story.netns(self.firewall().unwrap_or(of_ends)),
            listener: self.at.to_string(),
            resource: Some(by.into()),
            role: if opened { Role::Client } else { Role::Listener },
            ..owners(self.story, conns())
        }
    }

    /// What was reset, in a few words.
    fn what(&self) -> String {
        let (refused, broken) = (self.ends.refused.len(), self.ends.broken.len());
        let connects = plural(refused as u64, "connect");
        let connections = plural(broken as u64, "connection");
        match (refused, broken) {
            (_, 0) => connects,
            (0, _) => connections,
            _ => format!("{connects} and {connections}"),
        }
    }
}

fn judge(site: &Site, own: &Own) -> Option<Finding> {
    let ends = &site.ends;
    let enough = ends.refused.len() >= limits::ENOUGH.as_usize()
        || ends.broken.len() >= limits::OFTEN.as_usize();
    let here = site.firewall().is_some();
    if !enough || !(here || site.unsent(own)) {
        return None;
    }
    let scope = site.scope();
    let (at, what, n, of) = (site.at, site.what(), ends.count(), site.of());
    let share = percent(n as f64 / of.max(1) as f64);
    let says = format!(
        "{what} of {} ({share}) got a reset that no socket sent.",
        count(of)
    );
    let rules = format!(
        "Let the rules of {} pass traffic to {at}.",
        namespace(&scope.netns)
    );
    let advice = advice(site, &scope.netns);
    let case = Case::new(site.story, CAUSE, scope)
        .placed(ends.place())
        .layer(if here { Layer::ThisHost } else { CAUSE.layer })
        .title(if here {
            [
                format!("A firewall of this host resets {what} to {at}."),
                format!("A firewall of this host resets connections to {at}."),
            ]
        } else {
            [
                format!("Something on the path resets {what} to {at}; neither end did."),
                format!("Something on the path resets connections to {at}."),
            ]
        })
        .fix(if here {
            [
                rules,
                "Let the rules of the firewall pass traffic to that address.".into(),
            ]
        } else {
            [
                format!("Find the box between the clients and {at} that forges resets."),
                "Find the box on the path that forges resets.".into(),
            ]
        })
        // A connect or request that was reset costs its caller the time until the next one that was not.
        .affects(
            Impact::of(n, of, "connections", says),
            Lost::outages(site.story, ends.all().map(|(_, c)| c)),
        )
        .because(if here {
            "a firewall of this host dropped the very packets that the resets answered"
        } else {
            "both ends are on this host, and neither sent the resets"
        })
        // Without drops, a firewall of this host looks like one on the path.
        .rests_on(&[SourceName::Drops])
        .steps(evidence::steps(site))
        .checks(resets_counted(site))
        .advise([advice]);
    Some(case.verify(sentence!(
        "`tcpwhy trace resets` shows none received from {at}, and connects to it succeed.",
        at
    )))
}

/// A forged reset leaves only this trace in the counters of the two ends: the end that is reset counts it.
fn resets_counted(site: &Site) -> Option<Check> {
    let counters = &site.story.counters;
    let netns = site.ends.all().map(|(_, c)| c.netns);
    let netns: BTreeSet<u32> = netns.collect();
    let rise = |n: &u32| {
        let failed = counters.rise(*n, counter::ATTEMPT_FAILS).by;
        failed + counters.rise(*n, counter::ESTAB_RESETS).by
    };
    let formula =
        "connects failed and connections reset (AttemptFails + EstabResets) ≥ resets received";
    let counted = netns.iter().map(rise).sum();
    let covered = netns.iter().all(|n| counters.covers(*n));
    covered.then(|| at_least(formula, site.ends.count(), counted, "resets"))
}

fn advice(site: &Site, netns: &Netns) -> Advice {
    let at = site.at;
    let advice = match site.firewall() {
        Some(_) => Advice::to(format!(
            "Find the rule that rejects traffic to {at} with a reset, and let that traffic pass."
        ))
        .by(command_in(netns, shell!("nft -a list ruleset")))
        .at(format!(
            "{}; `iptables-save -c` where rules were made by iptables, whose counters show which one \
             rejects",
            namespace(netns)
        ))
        .risk(
            "Everything that the rule kept out gets in: allow the port for the clients' addresses only.",
        ),
        None => {
            let resets = shell!(
                "tcpdump -nnvi any 'tcp[13] & 4 != 0 and port {port}'",
                port = at.port
            );
            Advice::to(format!(
                "Capture at both ends and compare the TTL of the resets with that of other packets \
                 from {at}: it counts the hops to the box that sends them."
            ))
            .by(command_in(netns, resets))
            .at("firewalls, load balancers and intrusion detection on the path")
            .risk("None.")
        }
    };
    advice
        .effect(format!("The {} are no longer reset.", site.what()))
        .change(Change::PassPackets {
            netns: site.firewall(),
            at: at.to_string(),
        })
}

#[cfg(test)]
mod tests;
