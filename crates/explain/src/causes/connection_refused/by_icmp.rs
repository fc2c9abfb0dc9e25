//! Connects answered by an error and not a reset: ICMP reports it, or this host cannot send.

use std::collections::BTreeMap;

use analysis::Group;
use analysis::stats::median;
use analysis::words::{count, duration, percent, plural};

use super::CAUSE;
use super::harmless::BY_THE_OTHER_FAMILY;
use crate::actions::{flush_neighbours, more_neighbours};
use crate::finding::RuledOut;
use crate::inquiry::Inquiry;
use crate::limits;
use crate::other_family::OtherFamily;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::vocabulary::*;

/// What answered, as far as this host can tell.
enum By<'a> {
    /// A rule of this host.
    Rule(&'a Group),
    /// This host itself, which knows no link-layer address of the next hop: in the callers' namespace, or in that of a
    /// router before it.
    Neighbour(&'a Group),
    /// Another host, or a box on the path.
    Another,
}

/// Connects to a place that errors answered.
struct Rejected<'a> {
    place: &'a UnansweredSyns<'a>,
    by: By<'a>,
    /// The error that most of them met, where its name is known.
    error: Option<&'a str>,
    /// The connects that met one.
    failed: Vec<&'a Conn>,
    /// Further connects that nothing answered at all: ICMP messages are rate-limited.
    silent: u64,
    tried: u64,
}

impl<'a> Rejected<'a> {
    fn of(place: &'a UnansweredSyns<'a>) -> Option<Rejected<'a>> {
        let failed = place.unreachable();
        let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
        for error in failed.iter().filter_map(|c| c.unreachable()) {
            *errors.entry(error).or_default() += 1;
        }
        let error = errors.into_iter().max_by_key(|(_, n)| *n);
        let dropped = place.dropped.iter().copied().max_by_key(|g| g.count);
        let of_neighbour = |g: &Group| g.reason.as_deref().is_some_and(|r| r.starts_with("NEIGH_"));
        let by = match dropped {
            Some(group) if group.is_for("NETFILTER_DROP") => By::Rule(group),
            Some(group) if of_neighbour(group) => By::Neighbour(group),
            _ => By::Another,
        };
        (!failed.is_empty()).then(|| Rejected {
            by,
            error: error.map(|(name, _)| name),
            silent: place.times.silent(),
            tried: place.times.total() + failed.len() as u64,
            failed,
            place,
        })
    }

    /// Connects that met an error, and those that nothing answered.
    fn in_vain(&self) -> u64 {
        self.failed.len() as u64 + self.silent
    }

    fn took_ns(&self) -> u64 {
        let took = self.failed.iter();
        let took = took.filter_map(|c| Some(c.ended_ns?.saturating_sub(c.start_ns)));
        median(&mut took.collect::<Vec<_>>()).unwrap_or(0)
    }

    /// The namespace of the callers.
    fn netns(&self) -> u32 {
        self.failed.first().map_or(0, |c| c.netns)
    }

    /// The callers, in the namespace of the rule or their own.
    fn scope(&self) -> Scope {
        let netns = match self.by {
            By::Rule(group) | By::Neighbour(group) => group.netns,
            By::Another => self.netns(),
        };
        Scope {
            netns: self.place.story.netns(netns),
            listener: self.place.at.to_string(),
            role: Role::Client,
            ..owners(self.place.story, self.failed.iter().copied())
        }
    }
}

/// One connect is enough that took as long as a stall, or that the user asked about.
fn is_enough<'a>(failed: &[&'a Conn], inquiry: &Inquiry) -> bool {
    let took = |c: &&&Conn| Some(c.ended_ns?.saturating_sub(c.start_ns));
    let stalled = |c: &&&'a Conn| took(c).is_some_and(|ns| ns >= limits::STALL.ns());
    failed.iter().any(|c| stalled(&c)) || inquiry.is_about(failed.iter().copied())
}

pub(super) fn judge(place: &UnansweredSyns, inquiry: &Inquiry) -> Option<Finding> {
    let rejected = Rejected::of(place).filter(|_| place.is_rejected())?;
    let (story, at, n, of) = (place.story, place.at, rejected.in_vain(), rejected.tried);
    let enough = n >= limits::FAILED_AGAIN.count() || is_enough(&rejected.failed, inquiry);
    if !enough || !limits::FAILED_SHARE.reached(n, of) {
        return None;
    }
    let scope = rejected.scope();
    let (title, fix) = told(&rejected);
    let short = [
        format!("Connects to {at} are rejected."),
        format!("See what rejects connects to {at}."),
    ];
    let in_vain = story.all(&place.clients);
    let in_vain = in_vain.filter(|(_, c)| c.failed() && c.refused.is_none());
    let failed: Vec<ConnId> = in_vain.clone().map(|(id, _)| id).collect();
    let in_vain = in_vain.map(|(_, c)| c);
    let served = OtherFamily::served(story, in_vain.clone(), n);
    let [short_title, short_fix] = short;
    let layer = match rejected.by {
        By::Rule(_) => Layer::ThisHost,
        By::Neighbour(_) | By::Another => Layer::Network,
    };
    let case = Case::new(story, CAUSE, scope.clone())
        .layer(layer)
        .title([title, short_title])
        .fix([fix, short_fix])
        .affects(impact(&rejected), Lost::outages(story, in_vain))
        .if_asked(failed, false)
        .noted(served.then_some(BY_THE_OTHER_FAMILY))
        .because(match rejected.error {
            Some(_) => "the kernel reports the error that ended the connects, and no reset came",
            None => "the connects ended at once without a reset, and ICMP messages arrived",
        })
        .at_most_if(
            Level::Medium,
            matches!(rejected.by, By::Another),
            "the sender of the ICMP messages was not seen on this host",
        )
        .steps(steps(&rejected))
        .checks(counted(&rejected))
        .rules_out(ruled_out(&rejected))
        .advise([advice(&rejected, &scope)])
        .advise(neighbours(&rejected));
    Some(case.verify(sentence!(
        "`tcpwhy trace connects --addr {addr}` shows no error, and connects to {at} succeed.",
        addr = at.addr,
        at
    )))
}

/// Title and fix.
fn told(rejected: &Rejected) -> (String, String) {
    let at = rejected.place.at;
    let (n, of) = (count(rejected.in_vain()), count(rejected.tried));
    let error = rejected.error.map_or(String::new(), |e| format!(" ({e})"));
    let failed = format!("{n} of {of} connects failed{error}");
    match rejected.by {
        By::Rule(_) => (
            format!("A firewall here rejects connects to {at}: {failed}."),
            format!("Find the rule here that rejects {at}; a Service without endpoints has one."),
        ),
        By::Neighbour(group) if group.netns != rejected.netns() => {
            let router = rejected.place.story.netns(group.netns);
            let of = namespace(&router);
            let name = router.name.unwrap_or_else(|| router.inode.to_string());
            (
                format!("{} does not answer the ARP of {name}: {failed}.", at.addr),
                format!("Bring up {}, or the next hop to it from {of}.", at.addr),
            )
        }
        By::Neighbour(_) => (
            format!("The next hop to {at} does not answer ARP: {failed}."),
            format!("Bring up the host or router on the way to {}.", at.addr),
        ),
        By::Another => (
            format!("ICMP reports {at} unreachable: {failed}."),
            format!("Find what sends ICMP for {at}: a rejecting firewall, or no route."),
        ),
    }
}

fn impact(rejected: &Rejected) -> Impact {
    let (n, of) = (rejected.in_vain(), rejected.tried);
    let says = format!(
        "{} of {} ({}) failed, {} of them with an error after {} (median).",
        count(n),
        plural(of, "connect"),
        percent(n as f64 / of as f64),
        count(rejected.failed.len() as u64),
        duration(rejected.took_ns())
    );
    Impact::of(n, of, "connections", says)
}

fn steps(rejected: &Rejected) -> Vec<Step> {
    let place = rejected.place;
    let error = rejected
        .error
        .unwrap_or("an error that its program had already read");
    let rows = rejected.failed.iter();
    let rows = rows.filter_map(|c| c.close_row.map(RowRef::from));
    let n = rejected.failed.len() as u64;
    let failed = Quantity::of(n, "connect() attempt").rows(rows.take(SHOWN_ROWS));
    let gave_up = Quantity::count(rejected.silent).rows(place.times.rows.iter().copied());
    let after = duration(rejected.took_ns());
    let mut steps = vec![say!(
        "{failed} ended with {error} after {after} (median), and no reset answered; {gave_up} more got no \
         answer: ICMP messages are rate-limited.",
        failed,
        gave_up
    )];
    if place.drops_here() > 0 {
        steps.push(place.drops_step(place.dropped.iter().copied()));
    }
    let netns = rejected.netns();
    let rise = place.story.counters.rise(netns, counter::IN_DEST_UNREACHS);
    if rise.by > 0 {
        let of = namespace(&place.story.netns(netns));
        let icmp = Quantity::of(rise.by, "ICMP message").rows(rise.rows());
        steps.push(say!(
            "{of} received {icmp} of unreachable destinations (InDestUnreachs).",
            icmp
        ));
    }
    steps
}

/// This host counts ICMP errors received; for IPv6 elsewhere.
fn counted(rejected: &Rejected) -> Option<Check> {
    let (story, netns) = (rejected.place.story, rejected.netns());
    let known = rejected.failed.iter().all(|c| c.family == 4) && story.counters.covers(netns);
    let counted = story.counters.rise(netns, counter::IN_DEST_UNREACHS).by;
    let formula = "ICMP messages to the callers' namespace (InDestUnreachs) ≥ connects that failed";
    let ended = rejected.failed.len() as u64;
    known.then(|| at_least(formula, ended, counted, "messages"))
}

fn ruled_out(rejected: &Rejected) -> [RuledOut; 2] {
    let place = rejected.place;
    let clients = place.story.all(&place.clients).map(|(_, c)| c);
    let resets = clients.filter(|c| c.refused.is_some()).count() as u64;
    let told = Quantity::of(rejected.failed.len() as u64, "connect");
    [
        RuledOut::by(
            Id::INJECTED_RESET,
            say!(
                "{refused} of the connects to it got a reset",
                refused = Quantity::count(resets)
            ),
        ),
        RuledOut::by(
            Id::PATH_DROPS_SYN,
            say!("an error answered {told}: the SYNs were not lost", told),
        ),
    ]
}

/// What else helps where the next hop is not known: its entry may be stale, or find no room.
fn neighbours(rejected: &Rejected) -> Vec<Advice> {
    let By::Neighbour(group) = rejected.by else {
        return Vec::new();
    };
    let (story, netns) = (rejected.place.story, group.netns);
    let structure = if rejected.failed.iter().all(|c| c.family == 4) {
        "neighbours"
    } else {
        "neighbours6"
    };
    // The limit is on the sum over all namespaces.
    let table = story.structures.get(0, structure).map(|s| s.fullest);
    let full = table.filter(|t| t.share().is_some_and(|s| s >= limits::NEARLY_ALL.share()));
    let more = full.and_then(|t| more_neighbours(story, structure, t.entries));
    let addr = rejected.place.at.addr;
    let flush = flush_neighbours(
        &story.netns(netns),
        shell!("ip neigh flush to {addr}", addr),
    );
    more.into_iter().chain([flush]).collect()
}

fn advice(rejected: &Rejected, scope: &Scope) -> Advice {
    let at = rejected.place.at;
    let look = match rejected.by {
        By::Rule(_) => shell!("nft -a list ruleset"),
        By::Neighbour(_) => shell!("ip neigh show"),
        By::Another => shell!("tcpdump -ni any 'icmp and host {addr}'", addr = at.addr),
    };
    let advice = match rejected.by {
        By::Rule(group) => Advice::to(format!(
            "Find the rule that rejects {at}. For a Kubernetes Service, start its backends (`kubectl get \
             endpointslices`)."
        ))
        .at(format!(
            "{}; `iptables-save -c` where rules were made by iptables",
            namespace(&scope.netns)
        ))
        .change(Change::AllowSyns {
            netns: group.netns,
            at: at.to_string(),
        }),
        By::Neighbour(_) => Advice::to(format!(
            "Check that {}, or the router in front of it, is up, is in the same network, and answers ARP \
             or neighbour discovery.",
            at.addr
        ))
        .at("the host or router that should answer")
        .change(Change::RepairPath {
            from: namespace(&scope.netns),
            to: at.addr.to_string(),
        }),
        By::Another => Advice::to(
            "Find what sends the ICMP messages and why: a rule that rejects, a Service without endpoints, \
             a missing route, a host that is down behind its router.",
        )
        .at("the sender of the ICMP messages")
        .change(Change::PassSyns { at: at.to_string() }),
    };
    advice
        .by(command_in(&scope.netns, look))
        .risk("It may be intended: then correct the address that the clients use.")
        .effect(format!(
            "The {} are answered.",
            plural(rejected.in_vain(), "connect")
        ))
}

/// How many connects to a place ended with an error.
pub(super) fn refuted(place: &UnansweredSyns, inquiry: &Inquiry) -> Option<Answered> {
    let failed = place.unreachable();
    let (n, of) = (failed.len() as u64, place.clients.len() as u64);
    let says = || {
        say!(
            "an error ended {in_vain} of {connects}",
            in_vain = Quantity::count(n),
            connects = Quantity::of(of, "connect")
        )
    };
    let often = Test::events(n, of, &limits::FAILED_AGAIN, says());
    let often = (!is_enough(&failed, inquiry)).then_some(often);
    let share = Test::share(n, of, &limits::FAILED_SHARE, says());
    every(often.into_iter().chain([share]))
}
