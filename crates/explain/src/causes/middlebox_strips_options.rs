//! C07: something on the path removes TCP options from handshakes, without any cookie.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};

use analysis::Agreed;
use analysis::words::{count, list, plural};

use crate::limits;
use crate::places::listener::{ListenerPlace, listener_places};
use crate::places::options::{QUEUED, Sorted, ThroughputLoss, WithoutOptions, any_lasts};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::MIDDLEBOX_STRIPS_OPTIONS,
    number: "C07",
    title: "a middlebox on the path strips TCP options",
    page: include_str!("middlebox_strips_options.md"),
    layer: Layer::Network,
    ground: Ground::Transfers,
    needs: &[&[SourceName::States], &[SourceName::Sockets]],
    seen_from: || "a transfer that waits for its window 10 % of its busy time".into(),
    signature: &[
        "all connections through one firewall or load balancer are slow",
        "no SACK, no window scaling in ss, although both hosts offer them",
    ],
    rivals: &[Id::SYN_COOKIE_OPTIONS_LOST, Id::SLOW_READER],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| places(whole.story).iter().map(judge).collect(),
};

/// Servers that clients of this host connect to, looked at individually.
const MAX_PLACES: usize = 65_536;

/// Connections to one place that lack options.
struct Stripped<'a> {
    story: &'a Story,
    /// The listener, when it is on this host.
    here: Option<ListenerPlace<'a>>,
    at: Endpoint,
    netns: u32,
    lacking: Vec<ConnId>,
    kept: Vec<ConnId>,
    /// Connections with both ends on this host, both with the options switched on.
    proven: u64,
    throughput: ThroughputLoss,
}

/// Connections without options, and with them.
#[derive(Default)]
struct Split {
    lacking: Vec<ConnId>,
    kept: Vec<ConnId>,
}

fn no(asked: &Asked) -> Option<Step> {
    let lacking = asked.without_options()?;
    let cookies = lacking.created(Some(true));
    let from_cookies = Quantity::count(cookies).rows(lacking.rows());
    let without = Quantity::of(lacking.count(), "connection");
    (cookies == lacking.count()).then(|| {
        say!(
            "{from_cookies} of {without} without options were created from SYN cookies",
            from_cookies,
            without
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let known = || whole.story.conns.iter().filter(|c| c.agreed.is_some());
    let lacking = known().filter(|c| stripped(whole.story, c));
    let (n, of) = (lacking.clone().count() as u64, known().count() as u64);
    let rows = lacking.filter_map(Conn::row).take(SHOWN_ROWS);
    let step = say!(
        "{lacking} of {connections} lack SACK or window scaling although the host has them enabled",
        lacking = Quantity::count(n).rows(rows),
        connections = Quantity::of(of, "connection")
    );
    let nothing = "the options of no connection are known";
    Verdict::events(n, of, &limits::ONE, step, nothing)
}

fn places(story: &Story) -> Vec<Stripped<'_>> {
    let here = listener_places(story).filter_map(|here| {
        let Sorted { plain, kept, .. } = Sorted::of(here);
        let (at, netns) = (here.listener.local, here.listener.netns);
        let split = Split {
            lacking: plain,
            kept,
        };
        Stripped::of(story, Some(here), at, netns, split)
    });
    let away = elsewhere(story).into_iter();
    let away = away.filter_map(|((netns, at), split)| Stripped::of(story, None, at, netns, split));
    here.chain(away).collect()
}

/// Connections that were opened here to servers on other hosts, by server.
fn elsewhere(story: &Story) -> BTreeMap<(u32, Endpoint), Split> {
    let mut places: BTreeMap<(u32, Endpoint), Split> = BTreeMap::new();
    for (id, conn) in story.conns.iter().enumerate() {
        let away = conn.peer.is_none() && conn.listener.is_none() && conn.side != Side::Accepted;
        let (Some(agreed), true) = (conn.agreed, away) else {
            continue;
        };
        let key = (conn.netns, conn.remote);
        if places.len() >= MAX_PLACES && !places.contains_key(&key) {
            continue;
        }
        let place = places.entry(key).or_default();
        if agreed.sack && agreed.window_scaling {
            place.kept.push(id as ConnId)
        } else {
            place.lacking.push(id as ConnId)
        }
    }
    places
}

fn judge(place: &Stripped) -> Finding {
    let scope = place.scope();
    let (n, of) = (place.affected(), place.of_all());
    let missing = list(&place.missing());
    let cases = format!("{} of {} connections", count(n), count(of));
    let (who, fix) = match place.proven {
        0 => (
            "The peers, or a middlebox, refuse",
            "Compare a SYN at both ends; make the firewall in between preserve TCP options.",
        ),
        _ => (
            "A middlebox strips",
            "Make the firewall or load balancer between the ends preserve TCP options.",
        ),
    };
    let verb = if scope.role == Role::Client {
        "to"
    } else {
        "at"
    };
    let title = |at: &str| format!("{who} {missing} of {cases} {verb} {at}.");
    let case = Case::new(place.story, CAUSE, scope.clone())
        .placed(place.without_options().place())
        .title([
            title(&named(&scope)),
            title(&named_short(&scope)),
            title(&scope.listener),
        ])
        .fix([fix.into()])
        .affects(
            place.throughput.impact(n, of, &place.cost()),
            place.throughput.lost(place.story, &place.lacking),
        );
    let case = match (place.proven, place.here) {
        (0, None) => case.at_most(
            Level::Low,
            "only the client is on this host: SYN cookies at the server, or its settings, look the same \
             from here",
        ),
        (0, Some(_)) if place.same_clients_keep() => case.at_most(
            Level::Medium,
            "only the server is on this host, but the same clients have them on other connections",
        ),
        (0, Some(_)) => case.at_most(
            Level::Low,
            "only the server is on this host: these clients may never have offered them",
        ),
        (n, _) => case.because(format!(
            "both ends of {} are on this host and have the options enabled: only a device between them can remove \
             them",
            plural(n, "connection")
        )),
    };
    let queued = place.without_options().are_queued(&place.kept);
    case.noted(queued.then_some(QUEUED))
        .at_most_if(
            Level::Low,
            place.all_older() && place.proven == 0,
            "all of them are older than the recording",
        )
    .steps(evidence::steps(place, &missing))
    .checks(place.throughput.rate_check())
    .advise(advice(place, &scope, &missing))
    .verify(sentence!("Connect again: `ss -tien '( sport = :{port} or dport = :{port} )'` shows sack and wscale at both \
         ends.", port = place.at.port))
}

impl<'a> Stripped<'a> {
    fn of(
        story: &'a Story,
        here: Option<ListenerPlace<'a>>,
        at: Endpoint,
        netns: u32,
        split: Split,
    ) -> Option<Stripped<'a>> {
        let Split { mut lacking, kept } = split;
        lacking.retain(|id| story.conn(*id).is_some_and(|c| stripped(story, c)));
        let pairs = story.all(&lacking).filter(|(_, c)| c.peer.is_some());
        let proven = pairs.count() as u64;
        let throughput = ThroughputLoss::of(story, &lacking, &kept);
        let matters = match proven {
            // The other end may never have offered them: that is no fault unless it hurts.
            0 => held_up(&throughput),
            _ => !throughput.slow.is_empty() || any_lasts(story, &lacking),
        };
        (!lacking.is_empty() && matters).then_some(Stripped {
            story,
            here,
            at,
            netns,
            lacking,
            kept,
            proven,
            throughput,
        })
    }

    fn without_options(&self) -> WithoutOptions<'_> {
        WithoutOptions::of(self.story, &self.lacking)
    }

    fn conns(&self) -> impl Iterator<Item = &Conn> {
        self.story.all(&self.lacking).map(|(_, c)| c)
    }

    fn affected(&self) -> u64 {
        self.lacking.len() as u64
    }

    fn of_all(&self) -> u64 {
        self.affected() + self.kept.len() as u64
    }

    fn all_older(&self) -> bool {
        self.conns().all(|c| c.side == Side::Older)
    }

    /// Whether clients that lack options have them on other connections.
    fn same_clients_keep(&self) -> bool {
        let with = self.story.all(&self.kept).map(|(_, c)| c.remote.addr);
        let with: BTreeSet<_> = with.collect();
        self.conns().any(|c| with.contains(&c.remote.addr))
    }

    fn scope(&self) -> Scope {
        if let Some(here) = self.here {
            return here.scope();
        }
        let caller = self.conns().find_map(|c| Some((c.pid?, c.comm.clone())));
        Scope {
            netns: self.story.netns(self.netns),
            listener: self.at.to_string(),
            role: Role::Client,
            pid: caller.as_ref().map(|(pid, _)| *pid),
            pids: caller.iter().map(|(pid, _)| *pid).collect(),
            comm: caller.and_then(|(_, comm)| Some(comm?.to_string())),
            ..Scope::default()
        }
    }

    /// Whether any of them lacks an option.
    fn lacks(&self, option: fn(Agreed) -> bool) -> bool {
        self.conns().filter_map(|c| c.agreed).any(|a| !option(a))
    }

    fn scaling_lost(&self) -> bool {
        self.lacks(|a| a.window_scaling)
    }

    /// Names of the options that any of them lacks.
    fn missing(&self) -> Vec<String> {
        let sack = self.lacks(|a| a.sack).then(|| "SACK".to_string());
        let scaling = self.scaling_lost().then(|| "window scaling".to_string());
        sack.into_iter().chain(scaling).collect()
    }

    fn cost(&self) -> String {
        if self.scaling_lost() {
            self.throughput.cost()
        } else {
            "recover from each loss with one round trip per hole, or a timeout".into()
        }
    }
}

fn advice(place: &Stripped, scope: &Scope, missing: &str) -> [Advice; 2] {
    let port = place.at.port;
    let gain = if place.scaling_lost() {
        format!("New connections can go {}.", place.throughput.gain())
    } else {
        "New connections repair several losses in one round trip.".into()
    };
    let strip = shell!("nft list ruleset | grep -n 'tcp option'; iptables-save | grep TCPOPTSTRIP");
    let capture = shell!("tcpdump -nvi any 'port {port} and tcp[13] & 2 != 0'", port);
    [
        Advice::to(format!(
            "Find what rewrites the options of SYNs to port {port} and make it pass {missing}."
        ))
        .by(strip)
        .at("every firewall, load balancer and tunnel endpoint between the two")
        .risk("The rule may exist for a reason: ask its owner.")
        .effect(format!(
            "{gain} Existing ones do not change until they reconnect."
        ))
        .change(Change::KeepOptions {
            listener: scope.listener.clone(),
        }),
        Advice::to("Compare the options of one SYN where it leaves and where it arrives.")
            .by(command_in(&scope.netns, capture))
            .at("both ends, at the same time")
            .risk("None.")
            .effect("The hop after which sackOK or wscale is missing is the one to fix."),
    ]
}

/// Whether the connection lacks what this end, and the other if it is here, has switched on.
fn stripped(story: &Story, conn: &Conn) -> bool {
    let Some(agreed) = conn.agreed else {
        return false;
    };
    let peer = conn.peer.and_then(|peer| story.conn(peer));
    let on = |name| {
        let here = story.settings.number(conn.netns, name);
        let there = peer.map_or(Some(1), |p| story.settings.number(p.netns, name));
        here.is_some_and(|v| v > 0) && there.is_some_and(|v| v > 0)
    };
    (!agreed.sack && on(sysctl::TCP_SACK))
        || (!agreed.window_scaling && on(sysctl::TCP_WINDOW_SCALING))
}

/// Whether a transfer without window scaling is held up by the small window.
fn held_up(throughput: &ThroughputLoss) -> bool {
    let small = |window: Option<u32>| window.is_none_or(|w| w <= u32::from(u16::MAX));
    let Some(ceiling) = throughput.ceiling() else {
        return false;
    };
    throughput.slow.iter().any(|f| {
        let waits = f
            .rwnd_share
            .is_some_and(|share| share >= limits::SMALL_PART.share());
        let at_ceiling = f.rate >= limits::MOST.share() * ceiling
            && f.rate <= ceiling * (1.0 + limits::ALIKE.share());
        small(f.snd_wnd) && (waits || (f.rwnd_share.is_none() && at_ceiling))
    })
}

#[cfg(test)]
mod tests;
