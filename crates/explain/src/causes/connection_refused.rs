//! C10: connects are refused, because nothing listens at the address they go to.

mod evidence;

use std::collections::BTreeMap;

use analysis::stats::median;
use analysis::words::{count, duration, fitting, list, percent, plural};
use analysis::{Group, What};
use recording::Text;

use crate::finding::{Confidence, RuledOut};
use crate::places::listener::doubts;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CONNECTION_REFUSED,
    number: "C10",
    title: "nothing listens there",
    page: include_str!("connection_refused.md"),
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[
            SourceName::ResetsUnmatched,
            SourceName::ResetsReceived,
            SourceName::Drops,
        ],
    ],
    seen_from: "10 refused connects, 2 a second",
    rivals: &[],
    explains: &[],
    no: Some(no),
    symptom: Some(Symptom::Connects),
    find,
};

/// Of connects that failed without a local port: hardly one was answered.
fn no(asked: &Asked) -> Option<Step> {
    let failed = asked.destination()?.without_port();
    let refused = failed.filter(|c| c.refused.is_some()).count() as u64;
    (refused < MIN_REFUSED).then(|| {
        say!(
            "{refused} of them got a reset",
            refused = Quantity::count(refused)
        )
    })
}

/// Fewer are somebody trying, or a service that was starting.
const MIN_REFUSED: u64 = 10;
/// Health checks and retry loops come once a second or slower: isolated ones are no outage.
const MIN_PER_SECOND: f64 = 2.0;
/// When the clients are not on this host, one of them must insist: scanners knock once or twice.
const MIN_PER_CLIENT: u64 = 5;
/// Places that refuse, looked at one by one.
const MAX_PLACES: usize = 65_536;

/// Where connects go, in one namespace if the address is a loopback address.
type Key = (Option<u32>, Endpoint);

/// A place that refuses connects.
#[derive(Default)]
struct Refusals<'a> {
    /// Resets that a kernel here sent for want of a socket.
    groups: Vec<&'a Group>,
    /// Connects from here that a reset answered.
    refused: Vec<ConnId>,
    /// All connects from here.
    tried: u64,
}

struct Case<'a> {
    story: &'a Story,
    at: Endpoint,
    place: Refusals<'a>,
}

fn find(story: &Story) -> Vec<Finding> {
    let places = places(story).into_iter();
    let cases = places.filter_map(|((_, at), place)| Case::of(story, at, place));
    cases.map(|case| case.finding()).collect()
}

fn places(story: &Story) -> BTreeMap<Key, Refusals<'_>> {
    let mut places: BTreeMap<Key, Refusals> = BTreeMap::new();
    let key = |netns, at: Endpoint| (at.is_loopback().then_some(netns), at);
    for group in story.packets.all() {
        // Kernels before 6.10 give no reason; a SYN for a listener is never answered so.
        let unlistened = group.reason.is_none() || group.is_for("NO_SOCKET");
        if group.what == What::SynRefused && unlistened && places.len() < MAX_PLACES {
            let place = places.entry(key(group.netns, group.local)).or_default();
            place.groups.push(group);
        }
    }
    for (id, conn) in story.conns.iter().enumerate() {
        if conn.refused.is_some() && conn.side == Side::Opened {
            let key = key(conn.netns, conn.remote);
            if places.len() < MAX_PLACES || places.contains_key(&key) {
                places.entry(key).or_default().refused.push(id as ConnId);
            }
        }
    }
    for conn in story.conns.iter().filter(|c| c.side == Side::Opened) {
        if let Some(place) = places.get_mut(&key(conn.netns, conn.remote)) {
            place.tried += 1;
        }
    }
    places
}

impl<'a> Case<'a> {
    fn of(story: &'a Story, at: Endpoint, place: Refusals<'a>) -> Option<Case<'a>> {
        let case = Case { story, at, place };
        let count = case.refused();
        let enough = count >= MIN_REFUSED && count as f64 >= MIN_PER_SECOND * case.seconds();
        // Something listens there, or a firewall here threw the SYNs away: another's reset.
        let anothers = case.place.groups.is_empty() && (case.listened() || case.firewalled() > 0);
        (enough && case.insisted() && !anothers).then_some(case)
    }

    fn refused(&self) -> u64 {
        let sent: u64 = self.place.groups.iter().map(|g| g.count).sum();
        sent.max(self.place.refused.len() as u64)
    }

    /// First and last refusal, ns.
    fn span(&self) -> (u64, u64) {
        let clients = self.story.all(&self.place.refused);
        let clients = clients.map(|(_, c)| c.ended_ns.unwrap_or(c.start_ns));
        let first = self
            .place
            .groups
            .iter()
            .map(|g| g.first_ns)
            .chain(clients.clone());
        let last = self.place.groups.iter().map(|g| g.last_ns).chain(clients);
        (first.min().unwrap_or(0), last.max().unwrap_or(0))
    }

    /// From the first to the last refusal, s; a second at least.
    fn seconds(&self) -> f64 {
        let (first, last) = self.span();
        (last.saturating_sub(first) as f64 / 1e9).max(1.0)
    }

    /// A client here, or one away that tried often.
    fn insisted(&self) -> bool {
        let mut remotes = self.place.groups.iter().flat_map(|g| &g.remotes);
        !self.place.refused.is_empty() || remotes.any(|(_, n)| *n >= MIN_PER_CLIENT)
    }

    /// A listener of this host takes connections to the address, though it refused none.
    fn listened(&self) -> bool {
        let mut clients = self.story.all(&self.place.refused);
        clients.any(|(_, c)| c.listener.is_some())
    }

    /// SYNs to the address that netfilter dropped on this host.
    fn firewalled(&self) -> u64 {
        let clients = self.story.all(&self.place.refused).map(|(_, c)| c.netns);
        let servers = self.place.groups.iter().map(|g| g.netns);
        let mut netns: Vec<u32> = clients.chain(servers).collect();
        netns.sort_unstable();
        netns.dedup();
        let groups = netns
            .iter()
            .flat_map(|n| self.story.packets.at(*n, self.at));
        let dropped = groups.filter(|g| g.what == What::SynDropped && g.is_for("NETFILTER_DROP"));
        dropped.map(|g| g.count).sum()
    }

    /// Whether this kernel tells when it refuses a connect, in one way or another.
    fn told(&self) -> bool {
        let health = &self.story.health;
        health.sees(&SourceName::ResetsUnmatched) || health.sees(&SourceName::Drops)
    }

    /// The server's namespace, when it is on this host.
    fn server(&self) -> Option<u32> {
        self.place.groups.first().map(|g| g.netns)
    }

    fn finding(&self) -> Finding {
        let scope = self.scope();
        let checks = self.arithmetic();
        let (n, of) = (self.refused(), self.place.tried.max(self.refused()));
        let by = match (&scope.comm, scope.pid) {
            (Some(comm), Some(pid)) => format!(" from {comm} (pid {pid})"),
            _ => String::new(),
        };
        let refused = format!("{} of {} connects", count(n), count(of));
        let title = match self.server() {
            Some(_) => fitting([
                format!(
                    "Nothing listens on {}: {refused}{by} were refused.",
                    self.at
                ),
                format!("Nothing listens on {}: {refused} were refused.", self.at),
            ]),
            None => fitting([
                format!("{} refuses connects: {refused}{by} failed.", self.at),
                format!("{} refuses connects: {refused} failed.", self.at),
            ]),
        };
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number,
            place: None,
            lost_s: Lost::outages(
                self.story,
                self.story.all(&self.place.refused).map(|(_, c)| c),
            ),
            since: None,
            title,
            fix: self.fix(),
            impact: Impact::of(n, of, "connections", self.cost(n, of)),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope),
            verify: format!(
                "`ss -ltn 'sport = :{}'` shows a listener on the server, and connects to {} succeed.",
                self.at.port, self.at
            ),
            scope,
        }
    }

    fn fix(&self) -> String {
        match &self.other_addresses()[..] {
            [] => fitting([
                format!(
                    "Start the service that should listen on {}, or correct the address.",
                    self.at
                ),
                "Start the service that should listen there, or correct the address.".into(),
            ]),
            [other, ..] => fitting([
                format!(
                    "It listens on {other}: bind it to {} too, or connect there.",
                    self.at
                ),
                format!("It listens on {other}: connect there."),
            ]),
        }
    }

    fn cost(&self, n: u64, of: u64) -> String {
        let mut says = format!(
            "{} of {} ({}) failed",
            count(n),
            plural(of, "connect"),
            percent(n as f64 / of as f64)
        );
        if let Some(took) = self.took() {
            says += &format!(", each after {} (median)", duration(took));
        }
        says + "."
    }

    /// How long a client here waited for the refusal.
    fn took(&self) -> Option<u64> {
        let clients = self.story.all(&self.place.refused);
        let took = clients.filter_map(|(_, c)| Some(c.ended_ns?.saturating_sub(c.start_ns)));
        median(&mut took.collect::<Vec<_>>())
    }

    /// Processes that connect, the busiest first.
    fn callers(&self) -> Vec<((u32, Option<Text>), u64)> {
        let mut callers: BTreeMap<u32, (Option<Text>, u64)> = BTreeMap::new();
        for (_, conn) in self.story.all(&self.place.refused) {
            if let Some(pid) = conn.pid {
                let known = callers.entry(pid).or_insert((conn.comm.clone(), 0));
                known.1 += 1;
            }
        }
        let callers = callers.into_iter().map(|(pid, (comm, n))| ((pid, comm), n));
        let mut callers: Vec<_> = callers.collect();
        callers.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        callers
    }

    fn scope(&self) -> Scope {
        let callers = self.callers();
        let first = callers.first().map(|(caller, _)| caller.clone());
        let netns = self.server().or_else(|| Some(self.first_client()?.netns));
        Scope {
            netns: self.story.netns(netns.unwrap_or(0)),
            listener: self.at.to_string(),
            role: Role::Client,
            pid: first.as_ref().map(|(pid, _)| *pid),
            pids: callers.iter().map(|((pid, _), _)| *pid).collect(),
            comm: first.and_then(|(_, comm)| Some(comm?.to_string())),
            ..Scope::default()
        }
    }

    fn first_client(&self) -> Option<&Conn> {
        self.story.conn(*self.place.refused.first()?)
    }

    /// What listens on the same port of the server, at other addresses.
    fn other_addresses(&self) -> Vec<String> {
        let Some(netns) = self.server() else {
            return Vec::new();
        };
        let (_, last) = self.span();
        let others = self.story.listeners.at_port(netns, self.at.port);
        let others = others.filter(|l| !l.local.addr.is_any() && l.local != self.at);
        let open = others.filter(|l| l.closed_ns.is_none_or(|closed| closed > last));
        open.take(3).map(|l| l.local.to_string()).collect()
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        let sent: u64 = self.place.groups.iter().map(|g| g.count).sum();
        match self.server() {
            Some(_) => c.because(format!(
                "the server's kernel sent {} and found no socket for the SYN",
                plural(sent, "reset")
            )),
            None if !self.told() => c.at_most(
                Level::Medium,
                "this kernel does not tell whether it sent the resets itself: a firewall that \
                 rejects looks the same from here",
            ),
            None => c.at_most(
                Level::Medium,
                "the server is not on this host: a firewall that rejects looks the same from here",
            ),
        }
        c.weigh_checks(checks);
        if !self.place.groups.is_empty() {
            let told_by = match self.story.health.sees(&SourceName::ResetsUnmatched) {
                true => SourceName::ResetsSent,
                false => SourceName::Drops,
            };
            doubts(self.story, &mut c, &[told_by]);
        }
        if !self.place.refused.is_empty() {
            doubts(
                self.story,
                &mut c,
                &[SourceName::States, SourceName::ResetsReceived],
            );
        }
        c
    }

    fn arithmetic(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let sent: u64 = self.place.groups.iter().map(|g| g.count).sum();
        let here = self.place.refused.len() as u64;
        if sent > 0 && here > 0 {
            let formula = "resets that the server sent for want of a socket = connects refused";
            checks.push(same_count(formula, sent, here, "connections"));
        }
        let netns = self.first_client().map(|c| c.netns);
        if let Some(netns) = netns
            && self.story.counters.covers(netns)
        {
            let failed = self.story.sums(netns).failed;
            let counted = self.story.counters.rise(netns, counter::ATTEMPT_FAILS).by;
            let formula = "AttemptFails of the clients' namespace = their connects that failed";
            checks.push(same_count(formula, counted, failed, "connections"));
        }
        if let (Some(netns), true) = (self.server(), checks.is_empty()) {
            let resets = self.story.counters.rise(netns, counter::OUT_RSTS).by as f64;
            checks.push(Check {
                formula: "resets sent by the namespace (OutRsts) ≥ SYNs refused".into(),
                expected: sent as f64,
                measured: resets,
                unit: "resets",
                agrees: resets * 1.1 + 2.0 >= sent as f64,
                tolerance: "not below it by more than 10 %".into(),
            });
        }
        checks
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let sent: u64 = self.place.groups.iter().map(|g| g.count).sum();
        let injected = match self.server() {
            Some(_) => format!(
                "the server's own kernel sent {}, and netfilter dropped {} for that address",
                plural(sent, "reset"),
                plural(self.firewalled(), "SYN")
            ),
            None => format!(
                "not on this host: netfilter here dropped {} for that address; on the path it \
                 cannot be seen",
                plural(self.firewalled(), "SYN")
            ),
        };
        let waited = self.took().map_or(String::new(), |took| {
            format!(
                "; the answer came after {}, without a SYN retransmitted",
                duration(took)
            )
        });
        let mut ruled_out = vec![RuledOut::new(
            Id::ACCEPT_QUEUE_OVERFLOW,
            format!("a full queue lets SYNs wait, it does not refuse them{waited}"),
        )];
        // Without drops nobody knows what netfilter dropped.
        if self.told() {
            let cause = Id::INJECTED_RESET;
            let because = injected;
            ruled_out.insert(0, RuledOut::new(cause, because));
        }
        ruled_out
    }

    fn advice(&self, scope: &Scope) -> Vec<Advice> {
        let look = format!("ss -ltnp 'sport = :{}'", self.at.port);
        let mut advice = vec![Advice {
            action: format!("Start the service that should listen on {}.", self.at),
            command: match self.server() {
                Some(_) => command_in(&scope.netns, &look),
                None => Some(look),
            },
            r#where: match self.server() {
                Some(_) => namespace(&scope.netns),
                None => format!("the host that has the address {}", self.at.addr),
            },
            risk: "None, if it is meant to run there.".into(),
            expected: format!(
                "The {} would have been accepted.",
                plural(self.refused(), "connect")
            ),
            change: Some(Change::StartListener {
                at: self.at.to_string(),
            }),
        }];
        let others = self.other_addresses();
        if !others.is_empty() {
            advice.push(Advice {
                action: format!("Or let the clients connect to {}.", list(&others)),
                command: None,
                r#where: "the clients' configuration".into(),
                risk: "None.".into(),
                expected: "They reach the service as it runs now.".into(),
                change: None,
            });
        }
        advice
    }
}

#[cfg(test)]
mod tests;
