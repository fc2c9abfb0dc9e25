//! Addresses and ports whose connects are answered with resets: who sent them, as far as this host can tell.

use std::collections::BTreeMap;

use analysis::account;
use analysis::stats::median;
use analysis::words::duration;
use analysis::{Conn, ConnId, Endpoint, Group, Side, Story, What};
use recording::{RowRef, SourceName};

use crate::finding::Step;
use crate::limits;
use crate::place::Place;
use crate::places::listener::SHOWN_ROWS;
use crate::say::{Quantity, say};

/// Places that refuse, looked at one by one.
const MAX_PLACES: usize = 65_536;

/// One place that refuses connects, in one namespace if it is a loopback address.
pub(crate) struct Refusals<'a> {
    pub(crate) story: &'a Story,
    netns: Option<u32>,
    pub(crate) at: Endpoint,
    /// Resets that a kernel of this host sent for want of a socket.
    pub(crate) groups: Vec<&'a Group>,
    /// Connects of this host that a reset answered.
    pub(crate) ids: Vec<ConnId>,
    /// All connects of this host.
    pub(crate) tried: u64,
}

/// SYNs that a kernel of this host refused because nothing listened there.
fn for_want_of_a_socket(group: &Group) -> bool {
    // Kernels before 6.10 give no reason; a SYN for a listener is never answered this way.
    group.what == What::SynRefused && (group.reason.is_none() || group.is_for("NO_SOCKET"))
}

fn is_refused(conn: &Conn) -> bool {
    conn.refused.is_some() && conn.side == Side::Opened
}

/// Every place that refuses connects.
pub(crate) fn places(story: &Story) -> Vec<Refusals<'_>> {
    let key = |netns, at: Endpoint| (at.is_loopback().then_some(netns), at);
    let mut places: BTreeMap<_, Refusals> = BTreeMap::new();
    let none = |(netns, at)| Refusals {
        story,
        netns,
        at,
        groups: Vec::new(),
        ids: Vec::new(),
        tried: 0,
    };
    let groups = story.packets.all().iter();
    for group in groups.filter(|g| for_want_of_a_socket(g)) {
        let key = key(group.netns, group.local);
        if places.len() < MAX_PLACES || places.contains_key(&key) {
            let place = places.entry(key).or_insert_with(|| none(key));
            place.groups.push(group);
        }
    }
    for (id, conn) in story
        .conns
        .iter()
        .enumerate()
        .filter(|(_, c)| is_refused(c))
    {
        let key = key(conn.netns, conn.remote);
        if places.len() < MAX_PLACES || places.contains_key(&key) {
            let place = places.entry(key).or_insert_with(|| none(key));
            place.ids.push(id as ConnId);
        }
    }
    for conn in story.conns.iter().filter(|c| c.side == Side::Opened) {
        if let Some(place) = places.get_mut(&key(conn.netns, conn.remote)) {
            place.tried += 1;
        }
    }
    for place in places.values_mut() {
        place.tried += forgotten(story, place.netns, place.at);
    }
    places.into_values().collect()
}

/// Successful connects to a place that are no longer kept individually.
fn forgotten(story: &Story, netns: Option<u32>, at: Endpoint) -> u64 {
    account::forgotten_ends(story, |(of, role, to)| {
        role == account::Role::Client && to == at && netns.is_none_or(|n| n == of)
    })
}

impl<'a> Refusals<'a> {
    /// One place; `None` when nothing was refused there.
    pub(crate) fn at(story: &'a Story, netns: Option<u32>, at: Endpoint) -> Option<Refusals<'a>> {
        let here = |of: u32, to: Endpoint| to == at && netns.is_none_or(|n| n == of);
        let opened = |c: &Conn| c.side == Side::Opened && here(c.netns, c.remote);
        let to_it = || story.to(at).filter(|(_, c)| opened(c));
        let groups = story
            .packets
            .all()
            .iter()
            .filter(|g| for_want_of_a_socket(g));
        let refusals = Refusals {
            story,
            netns,
            at,
            groups: groups.filter(|g| here(g.netns, g.local)).collect(),
            ids: to_it()
                .filter(|(_, c)| is_refused(c))
                .map(|(id, _)| id)
                .collect(),
            tried: to_it().count() as u64 + forgotten(story, netns, at),
        };
        (refusals.refused() > 0).then_some(refusals)
    }

    /// The place, for rivals.
    pub(crate) fn place(&self) -> Place {
        Place::At(self.netns, self.at)
    }

    /// Resets that kernels of this host sent for want of a socket.
    pub(crate) fn sent(&self) -> u64 {
        self.groups.iter().map(|g| g.count).sum()
    }

    /// Connects that were refused, seen from either end.
    pub(crate) fn refused(&self) -> u64 {
        self.sent().max(self.ids.len() as u64)
    }

    /// Those of this host.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &'a Conn> + Clone + '_ {
        let story = self.story;
        self.ids.iter().filter_map(move |id| story.conn(*id))
    }

    /// How long a client of this host waited for the refusal (median), ns.
    pub(crate) fn took_ns(&self) -> Option<u64> {
        let took = self.clients();
        let took = took.filter_map(|c| Some(c.ended_ns?.saturating_sub(c.start_ns)));
        median(&mut took.collect::<Vec<_>>())
    }

    /// Some rows that show resets: those sent here, else those received.
    pub(crate) fn rows(&self) -> Vec<RowRef> {
        let sent = self.groups.iter().flat_map(|g| g.rows.iter().copied());
        let came = self.clients().filter_map(|c| c.refused.map(RowRef::from));
        sent.chain(came).take(SHOWN_ROWS).collect()
    }

    /// The server's namespace, when it is on this host.
    pub(crate) fn server(&self) -> Option<u32> {
        self.groups.first().map(|g| g.netns)
    }

    /// SYNs to the address that netfilter dropped on this host, with rows.
    pub(crate) fn firewalled(&self) -> (u64, Vec<RowRef>) {
        let mut netns: Vec<u32> = self.clients().map(|c| c.netns).collect();
        netns.extend(self.groups.iter().map(|g| g.netns));
        netns.sort_unstable();
        netns.dedup();
        let packets = &self.story.packets;
        let groups = netns.iter().flat_map(|n| packets.at(*n, self.at));
        let dropped = groups.filter(|g| g.what == What::SynDropped && g.is_for("NETFILTER_DROP"));
        let rows = dropped.clone().flat_map(|g| g.rows.iter().copied());
        let rows = rows.take(SHOWN_ROWS).collect();
        (dropped.map(|g| g.count).sum(), rows)
    }

    /// Whether this kernel reports in any way that it refuses a connect.
    pub(crate) fn told(&self) -> bool {
        let health = &self.story.health;
        health.sees(&SourceName::ResetsUnmatched) || health.sees(&SourceName::Drops)
    }

    /// That SYNs were answered: had something dropped them, clients of this host would retransmit them.
    pub(crate) fn answered(&self) -> Option<Step> {
        let retries: u64 = self.clients().map(|c| u64::from(c.syn_retries)).sum();
        let refused = Quantity::of(self.refused(), "SYN").rows(self.rows());
        if self.ids.is_empty() {
            return Some(say!("{refused} to it got a reset in response", refused));
        }
        let after = duration(self.took_ns().unwrap_or(0));
        let syn_retries = Quantity::count(retries);
        (!limits::MOST.reached(retries, self.refused())).then(|| {
            say!(
                "{refused} to it got a reset in response, after {after} (median); {syn_retries} were retransmitted",
                refused,
                syn_retries
            )
        })
    }
}
