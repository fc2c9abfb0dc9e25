//! Harmless refusals: those of probes, and of clients that fall back to the other address family.

use std::collections::BTreeMap;

use ahash::AHashSet;
use analysis::stats::median;
use analysis::words::{count, plural};

use crate::limits;
use crate::other_family::OtherFamily;
use crate::places::refusals::Refusals;
use crate::vocabulary::*;

/// Harmless refusals, and how they are reported.
pub(super) struct Harmless {
    /// Why they are harmless.
    pub(super) why: &'static str,
    pub(super) title: [String; 2],
    pub(super) fix: [String; 2],
}

/// A client that tries the addresses of a name in turn.
pub(super) const BY_THE_OTHER_FAMILY: &str = "the other IP family served them at once";

/// Of callers that try port after port.
pub(super) fn scan(place: &Refusals, ports: u64) -> Harmless {
    let (addr, ports) = (place.at.addr, plural(ports, "closed port"));
    Harmless {
        why: "its callers tried port after port: they look for what listens",
        title: [
            format!("A scan: {ports} of {addr} were tried."),
            format!("A scan of {ports} of {addr}."),
        ],
        fix: [
            "Nothing, unless nobody here should scan.".into(),
            "Nothing.".into(),
        ],
    }
}

/// `None` when a client may lack the service.
pub(super) fn of(place: &Refusals) -> Option<Harmless> {
    if go_on(place) {
        let (at, n) = (place.at, count(place.refused()));
        return Some(Harmless {
            why: BY_THE_OTHER_FAMILY,
            title: [
                format!(
                    "{at} refused {n} connects, and their clients were served at another address."
                ),
                format!("{at} refused {n} connects that another address served."),
            ],
            fix: [
                format!("Nothing, or let the service listen on {at} too."),
                "Nothing, or let the service listen there too.".into(),
            ],
        });
    }
    Some(Harmless {
        why: why(place)?,
        title: title(place),
        fix: fix(place),
    })
}

/// `localhost` is ::1 and 127.0.0.1, and a service may listen on one of them.
fn go_on(place: &Refusals) -> bool {
    OtherFamily::served(place.story, place.clients(), place.refused())
}

/// Why they are probes; `None` when a client may lack the service.
fn why(place: &Refusals) -> Option<&'static str> {
    if place.ids.is_empty() {
        let unheard = !was_listening(place);
        return unheard.then_some(
            "no process of this host connected, and nothing listened there: probes of a closed port",
        );
    }
    let gap_ns = interval_ns(began(place.clients()))?;
    let asks = !reached(place) && (others_serve(place) || others_are_probed(place, gap_ns));
    asks.then_some(
        "no client reached it during the recording, it is probed at a fixed interval, and others serve its callers: \
         health checks of a backend that is down",
    )
}

/// A socket stopped listening there, or began to.
fn was_listening(place: &Refusals) -> bool {
    let mut groups = place.groups.iter();
    let listeners = &place.story.listeners;
    groups.any(|g| listeners.taking(g.netns, place.at, g.family).is_some())
}

/// Whether a program of this host had a connection to it.
fn reached(place: &Refusals) -> bool {
    let callers: AHashSet<u32> = place.clients().map(|c| c.netns).collect();
    place.story.to(place.at).any(|(_, c)| {
        let stood =
            c.side != Side::Accepted && matches!(c.outcome, Outcome::Open | Outcome::Closed);
        stood && callers.contains(&c.netns)
    })
}

/// Whether its callers have connections to the same port elsewhere.
fn others_serve(place: &Refusals) -> bool {
    let callers: AHashSet<_> = place.clients().map(|c| (c.netns, c.pid)).collect();
    let mut conns = place.story.conns.iter();
    conns.any(|c| {
        let established = c.side == Side::Opened && c.established_ns.is_some();
        let same = c.remote.port == place.at.port && c.remote != place.at;
        established && same && callers.contains(&(c.netns, c.pid))
    })
}

/// Whether its callers connect to another place at the same interval, and get there: a program that lacks its only
/// server tries again at a fixed interval, too.
fn others_are_probed(place: &Refusals, gap_ns: u64) -> bool {
    let callers: AHashSet<_> = place.clients().map(|c| (c.netns, c.pid)).collect();
    let mut others: BTreeMap<Endpoint, Vec<u64>> = BTreeMap::new();
    for c in place.story.conns.iter() {
        let stood = c.side == Side::Opened && c.established_ns.is_some();
        if stood && c.remote != place.at && callers.contains(&(c.netns, c.pid)) {
            others.entry(c.remote).or_default().push(c.start_ns);
        }
    }
    let mut intervals = others.into_values().filter_map(interval_ns);
    intervals.any(|ns| is_alike(ns, gap_ns))
}

fn began<'a>(conns: impl Iterator<Item = &'a Conn>) -> Vec<u64> {
    conns.map(|c| c.start_ns).collect()
}

fn is_alike(ns: u64, usual_ns: u64) -> bool {
    ns.abs_diff(usual_ns) as f64 <= limits::ALIKE.share() * usual_ns as f64
}

/// The fixed interval at which connect() is called, ns; `None` when calls are irregular.
fn interval_ns(mut began: Vec<u64>) -> Option<u64> {
    began.sort_unstable();
    let gaps = began.windows(2).map(|w| w[1].saturating_sub(w[0]));
    let gaps: Vec<u64> = gaps.collect();
    let usual = median(&mut gaps.clone())?;
    let alike = gaps.iter().filter(|gap| is_alike(**gap, usual));
    limits::NEARLY_ALL
        .reached(alike.count(), gaps.len())
        .then_some(usual)
}

fn title(place: &Refusals) -> [String; 2] {
    let (at, n) = (place.at, place.refused());
    let remotes = place.groups.iter().flat_map(|g| &g.remotes);
    let remotes: AHashSet<_> = remotes.map(|r| r.addr).collect();
    let from = match remotes.len() {
        0 => String::new(),
        n => format!(" from {}", plural(n as u64, "address")),
    };
    [
        format!(
            "Probes of a closed port: {at} refused {} connects{from}.",
            count(n)
        ),
        format!(
            "Probes of a closed port: {at} refused {} connects.",
            count(n)
        ),
    ]
}

fn fix(place: &Refusals) -> [String; 2] {
    let at = place.at;
    [
        format!("Nothing, unless a service should listen on {at}."),
        "Nothing, unless a service should listen there.".into(),
    ]
}
