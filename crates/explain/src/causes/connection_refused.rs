//! C10: connects are refused, because nothing listens at the address they go to.

mod by_icmp;
mod evidence;
mod harmless;
mod scans;

use std::collections::BTreeMap;

use analysis::words::{count, duration, list, percent, plural};
use recording::Text;

use crate::limits;
use crate::places::refusals::Refusals;
use crate::places::reset_ends::ResetEnds;
use crate::vocabulary::*;
use scans::{Scanned, Scans};

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CONNECTION_REFUSED,
    number: "C10",
    title: "nothing listens there",
    page: include_str!("connection_refused.md"),
    layer: Layer::Application,
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[
            SourceName::ResetsUnmatched,
            SourceName::ResetsReceived,
            SourceName::Drops,
        ],
    ],
    seen_from: || "10 refused connects; 3 of one caller over 2 s; one that was asked about".into(),
    signature: &[
        "connection refused (ECONNREFUSED)",
        "no route to host (EHOSTUNREACH)",
        "upstream connect error: connection refused",
    ],
    rivals: &[Id::INJECTED_RESET, Id::ACCEPT_QUEUE_OVERFLOW],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find,
};

/// The most other addresses of the port that are shown.
const SHOWN_ADDRESSES: usize = 3;

fn find(whole: &Whole) -> Found {
    let inquiry = &whole.inquiry;
    let places = whole.refused();
    let scans = Scans::of(places);
    let by_reset = places.iter().filter_map(|place| {
        let scanned = scans.at(place);
        // One note tells of all ports.
        if scanned.as_ref().is_some_and(|scanned| !scanned.is_first) {
            return None;
        }
        judge(place, inquiry.is_about(place.clients()), scanned)
    });
    let by_icmp = whole
        .silent()
        .iter()
        .filter_map(|syns| by_icmp::judge(syns, inquiry));
    by_reset.chain(by_icmp).collect()
}

fn no(asked: &Asked) -> Option<Step> {
    let Some(resets) = asked.resets() else {
        return few_without_port(asked);
    };
    if resets.refused.is_empty() {
        return resets.answered();
    }
    if resets.server_here() {
        refused_by_another(resets)
    } else {
        never_came(resets)
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let says = |refused: Quantity, of: u64| {
        say!(
            "{refused} of {connects} were refused",
            refused,
            connects = Quantity::of(of, "connect")
        )
    };
    let places = whole.refused().iter().map(|place| {
        let (n, of) = (place.refused(), place.tried.max(place.refused()));
        // A caller that keeps trying needs fewer.
        let over = seconds(place) >= limits::FAILED_OVER.s();
        let least = if over {
            &limits::FAILED_AGAIN
        } else {
            &limits::ENOUGH
        };
        let refused = || Quantity::count(n).rows(place.rows());
        let often = Test::events(n, of, least, says(refused(), of));
        let often = (!whole.inquiry.is_about(place.clients())).then_some(often);
        let share = Test::share(n, of, &limits::FAILED_SHARE, says(refused(), of));
        every(often.into_iter().chain([share]))
    });
    let by_icmp = whole.silent().iter();
    let by_icmp = by_icmp.map(|syns| by_icmp::refuted(syns, &whole.inquiry));
    let places: Vec<_> = places.chain(by_icmp).collect();
    let of = whole.opened();
    let none = || {
        every([Test::events(
            0,
            of,
            &limits::FAILED_AGAIN,
            says(Quantity::count(0u64), of),
        )])
    };
    Verdict::nearest_or(places, none, NO_CONNECT)
}

/// For connects that failed without a local port: hardly any was answered.
fn few_without_port(asked: &Asked) -> Option<Step> {
    let failed = asked.destination()?.without_port();
    let refused = failed.filter(|c| c.refused.is_some()).count() as u64;
    (refused < limits::ENOUGH.count()).then(|| {
        say!(
            "{refused} of them got a reset",
            refused = Quantity::count(refused)
        )
    })
}

/// The kernel at the server's end reports what it refused.
fn refused_by_another(resets: &ResetEnds) -> Option<Step> {
    let to = resets.story.all(&resets.refused);
    let mut to: Vec<_> = to.map(|(_, c)| (c.netns, c.remote)).collect();
    to.sort_unstable();
    to.dedup();
    let at = |(netns, at): (u32, Endpoint)| {
        Refusals::at(resets.story, at.is_loopback().then_some(netns), at)
    };
    let sent: u64 = to.into_iter().filter_map(at).map(|r| r.sent()).sum();
    let refused_here = Quantity::count(sent).rows(resets.server_rows());
    (!limits::MOST.reached(sent, resets.refused.len())).then(|| {
        say!(
            "the server is on this host, and its kernel refused {refused_here} because no socket listened",
            refused_here
        )
    })
}

/// What did not reach the server was not refused by it.
fn never_came(resets: &ResetEnds) -> Option<Step> {
    let rejected = resets.rejected();
    let n = rejected.len() as u64;
    let rows = rejected.iter().map(|r| r.row());
    let dropped_here = Quantity::of(n, "packet").rows(rows.take(SHOWN_ROWS));
    limits::MOST.exceeded(n, resets.count()).then(|| {
        say!(
            "{dropped_here} were dropped by a firewall of this host before they reached the server",
            dropped_here
        )
    })
}

/// First and last refusal, ns.
fn span(place: &Refusals) -> (u64, u64) {
    let ended = place.clients().map(|c| c.ended_ns.unwrap_or(c.start_ns));
    let first = place.groups.iter().map(|g| g.first_ns);
    let last = place.groups.iter().map(|g| g.last_ns);
    let first = first.chain(ended.clone()).min();
    (first.unwrap_or(0), last.chain(ended).max().unwrap_or(0))
}

/// From the first to the last refusal, s; at least one second.
fn seconds(place: &Refusals) -> f64 {
    let (first, last) = span(place);
    (last.saturating_sub(first) as f64 / 1e9).max(1.0)
}

/// A client here, or a remote one that tried often.
fn insisted(place: &Refusals) -> bool {
    let mut remotes = place.groups.iter().flat_map(|g| &g.remotes);
    !place.ids.is_empty() || remotes.any(|r| r.count >= limits::OFTEN.count())
}

/// The resets have another sender: something listens there, or a firewall here dropped the SYNs.
fn is_anothers(place: &Refusals) -> bool {
    let listened = place.clients().any(|c| c.listener.is_some());
    place.groups.is_empty() && (listened || place.firewalled().0 > 0)
}

/// One connect that the user asked about is enough.
fn judge(place: &Refusals, asked: bool, scanned: Option<Scanned>) -> Option<Finding> {
    let (at, n) = (place.at, place.refused());
    let again = n >= limits::FAILED_AGAIN.count() && seconds(place) >= limits::FAILED_OVER.s();
    let share = n as f64 / place.tried.max(n) as f64;
    let enough =
        (n >= limits::ENOUGH.count() || again || asked) && share >= limits::FAILED_SHARE.share();
    if !enough || !insisted(place) || is_anothers(place) {
        return None;
    }
    let scope = scope(place);
    let sent = plural(place.sent(), "reset");
    let told_by: &[SourceName] = if place.story.health.sees(&SourceName::ResetsUnmatched) {
        &[SourceName::ResetsSent]
    } else {
        &[]
    };
    let harmless = match scanned {
        Some(scanned) => Some(harmless::scan(place, scanned.ports)),
        None => harmless::of(place),
    };
    let why = harmless.as_ref().map(|h| h.why);
    let (title, fix) = match harmless {
        Some(h) => (h.title, h.fix),
        None => (title(place, &scope), fix(place)),
    };
    let layer = match place.server() {
        Some(_) => Layer::Application,
        None => Layer::Peer,
    };
    let case = Case::new(place.story, CAUSE, scope.clone())
        .layer(layer)
        .placed(place.place())
        .title(title)
        .fix(fix)
        .noted(why)
        .affects(impact(place), Lost::outages(place.story, place.clients()));
    // What harms no client is none of the trouble that was asked about.
    let case = if why.is_none() {
        case.if_asked(place.ids.clone(), false)
    } else {
        case
    };
    let case = match (place.server(), place.told()) {
        (Some(_), _) => case.because(format!(
            "the server's kernel sent {sent} and found no socket for the SYN"
        )),
        (None, told) => case.at_most(
            Level::Medium,
            if told {
                "the server is not on this host: a firewall that rejects looks the same from here"
            } else {
                "this kernel does not report whether it sent the resets itself: a firewall that rejects \
                 looks the same from here"
            },
        ),
    };
    let case = case
        .at_most_if(Level::Low, why.is_some(), why.unwrap_or_default())
        .rests_on(told_by)
        .steps(evidence::steps(place))
        .checks(checks(place))
        .advise(advice(place, &scope));
    Some(case.verify(sentence!(
        "`ss -ltn 'sport = :{port}'` shows a listener on the server, and connects to {at} succeed.",
        port = at.port,
        at
    )))
}

fn title(place: &Refusals, scope: &Scope) -> [String; 2] {
    let (at, n) = (place.at, place.refused());
    let refused = format!("{} of {} connects", count(n), count(place.tried.max(n)));
    let by = match (&scope.comm, scope.pid) {
        (Some(comm), Some(pid)) => format!(" from {comm} (pid {pid})"),
        _ => String::new(),
    };
    match place.server() {
        Some(_) => [
            format!("Nothing listens on {at}: {refused}{by} were refused."),
            format!("Nothing listens on {at}: {refused} were refused."),
        ],
        None => [
            format!("{at} refuses connects: {refused}{by} failed."),
            format!("{at} refuses connects: {refused} failed."),
        ],
    }
}

fn fix(place: &Refusals) -> [String; 2] {
    let at = place.at;
    match &other_addresses(place)[..] {
        [] => [
            format!("Start the service that should listen on {at}, or correct the address."),
            "Start the service that should listen there, or correct the address.".into(),
        ],
        [other, ..] if other.addr.is_any() => {
            let (its, all) = if other.addr.ip().is_ipv4() {
                ("IPv4", "[::]")
            } else {
                ("IPv6", "0.0.0.0")
            };
            let port = at.port;
            [
                format!(
                    "It listens on {other} only: have it listen on {all}:{port} too, or connect over {its}."
                ),
                format!("It listens on {other} only: connect over {its}."),
            ]
        }
        [other, ..] => [
            format!("It listens on {other}: bind it to {at} too, or connect there."),
            format!("It listens on {other}: connect there."),
        ],
    }
}

fn impact(place: &Refusals) -> Impact {
    let n = place.refused();
    let of = place.tried.max(n);
    let after = place.took_ns().map_or(String::new(), |took| {
        format!(", each after {} (median)", duration(took))
    });
    let says = format!(
        "{} of {} ({}) failed{after}.",
        count(n),
        plural(of, "connect"),
        percent(n as f64 / of as f64)
    );
    Impact::of(n, of, "connections", says)
}

/// Processes that connect, the busiest first.
fn callers(place: &Refusals) -> Vec<(u32, Option<Text>, u64)> {
    let mut callers: BTreeMap<u32, (Option<Text>, u64)> = BTreeMap::new();
    for conn in place.clients() {
        if let Some(pid) = conn.pid {
            callers.entry(pid).or_insert((conn.comm.clone(), 0)).1 += 1;
        }
    }
    let callers = callers.into_iter().map(|(pid, (comm, n))| (pid, comm, n));
    let mut callers: Vec<_> = callers.collect();
    callers.sort_by_key(|(.., n)| std::cmp::Reverse(*n));
    callers
}

fn scope(place: &Refusals) -> Scope {
    let callers = callers(place);
    let client = place.clients().next().map(|c| c.netns);
    let netns = place.server().or(client);
    let comm = callers.first().and_then(|(_, comm, _)| comm.as_deref());
    Scope {
        netns: place.story.netns(netns.unwrap_or(0)),
        listener: place.at.to_string(),
        role: Role::Client,
        pid: callers.first().map(|(pid, ..)| *pid),
        pids: callers.iter().map(|(pid, ..)| *pid).collect(),
        comm: comm.map(str::to_string),
        ..Scope::default()
    }
}

/// What listens on the same port of the server, at other addresses.
fn other_addresses(place: &Refusals) -> Vec<Endpoint> {
    let Some(netns) = place.server() else {
        return Vec::new();
    };
    let (_, last) = span(place);
    let others = place.story.listeners.at_port(netns, place.at.port);
    // One that takes all addresses of this family would have taken it.
    let is_ipv4 = |at: &Endpoint| at.addr.ip().is_ipv4();
    let takes = |l: &Endpoint| l.addr.is_any() && is_ipv4(l) == is_ipv4(&place.at);
    let others = others.filter(|l| !takes(&l.local) && l.local != place.at);
    let open = others.filter(|l| l.closed_ns.is_none_or(|closed| closed > last));
    open.take(SHOWN_ADDRESSES).map(|l| l.local).collect()
}

/// Where clients reach a listener.
fn reached_at(listens: &Endpoint) -> String {
    let port = listens.port;
    match (listens.addr.is_any(), listens.addr.ip().is_ipv4()) {
        (false, _) => listens.to_string(),
        (true, true) => format!("port {port} over IPv4"),
        (true, false) => format!("port {port} over IPv6"),
    }
}

fn checks(place: &Refusals) -> Vec<Check> {
    let story = place.story;
    let (sent, here) = (place.sent(), place.ids.len() as u64);
    let both = (sent > 0 && here > 0).then(|| {
        let formula = "resets that the server sent because no socket listened = connects refused";
        same_count(formula, sent, here, "connections")
    });
    let client = place.clients().next().map(|c| c.netns);
    let client = client.filter(|netns| story.counters.covers(*netns));
    let failed = client.map(|netns| {
        let counted = story.counters.rise(netns, counter::ATTEMPT_FAILS).by;
        let formula = "AttemptFails of the clients' namespace = their connects that failed";
        same_count(formula, counted, story.sums(netns).failed, "connections")
    });
    let checks: Vec<Check> = both.into_iter().chain(failed).collect();
    if checks.is_empty() {
        resets_counted(place).into_iter().collect()
    } else {
        checks
    }
}

/// Without clients here: a firewall's resets are not counted where the kernel counts its own.
fn resets_counted(place: &Refusals) -> Option<Check> {
    let (story, netns) = (place.story, place.server()?);
    let counted = story.counters.rise(netns, counter::OUT_RSTS).by;
    let formula = "resets sent by the namespace's sockets and kernel (OutRsts) ≥ SYNs refused";
    Some(at_least(formula, place.sent(), counted, "resets"))
}

fn advice(place: &Refusals, scope: &Scope) -> Vec<Advice> {
    let at = place.at;
    let look = shell!("ss -ltnp 'sport = :{port}'", port = at.port);
    let (command, there) = match place.server() {
        Some(_) => (command_in(&scope.netns, look), namespace(&scope.netns)),
        None => (look, format!("the host that has the address {}", at.addr)),
    };
    let start = Advice::to(format!("Start the service that should listen on {at}."))
        .by(command)
        .at(there)
        .risk("None, if it is meant to run there.")
        .effect(format!(
            "The {} would have been accepted.",
            plural(place.refused(), "connect")
        ))
        .change(Change::StartListener { at: at.to_string() });
    let others: Vec<String> = other_addresses(place).iter().map(reached_at).collect();
    let instead = (!others.is_empty()).then(|| {
        Advice::to(format!("Or have the clients connect to {}.", list(&others)))
            .at("the clients' configuration")
            .risk("None.")
            .effect("They reach the service where it runs now.")
    });
    std::iter::once(start).chain(instead).collect()
}

#[cfg(test)]
mod tests;
