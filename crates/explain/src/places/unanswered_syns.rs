//! Places whose clients get no answer to SYNs: what was dropped on this host, and what is known of the listener there.
//! Three causes share it: a firewall here, a full table here, the path.

use std::collections::BTreeMap;

use ahash::{AHashMap, AHashSet};
use analysis::account;
use analysis::words::{count, list, percent, plural};
use analysis::{
    Conn, ConnId, Dropped, Endpoint, Group, Listener, Outcome, Side, Story, What, is_firewall,
};
use recording::drop_reason::DropKind;
use recording::{RowRef, SourceName, counter};

use crate::finding::{Check, Impact, Role, Scope, Step};
use crate::inquiry::Inquiry;
use crate::limits;
use crate::place::Place;
use crate::places::listener::{ListenerPlace, SHOWN_ROWS};
use crate::places::lost_syn::{ConnectTimes, fails_at_once, gave_up};
use crate::say::{Quantity, say};

/// Places looked at one by one.
const MAX_PLACES: usize = 65_536;

/// Whether the function that dropped it walks the rules of a chain, as newer kernels report.
fn by_rule(group: &Group) -> bool {
    let location = group.location.as_deref().unwrap_or("");
    location.contains("do_chain") || location.contains("do_table")
}

/// One place that connects go to, in one namespace if it is a loopback address.
pub(crate) struct UnansweredSyns<'a> {
    pub(crate) story: &'a Story,
    netns: Option<u32>,
    pub(crate) at: Endpoint,
    /// The listener, if the question was about it.
    listener: Option<u32>,
    /// Connects of this host.
    pub(crate) clients: Vec<ConnId>,
    /// SYNs for it that were dropped on this host, whether leaving or coming in.
    pub(crate) dropped: Vec<&'a Group>,
    pub(crate) times: ConnectTimes,
    /// Connects that a TIME_WAIT socket or a stray ACK answered: these did get an answer.
    pub(crate) strays: u64,
    /// SYNs that met an established socket there.
    pub(crate) half_open: u64,
    /// SYN-ACKs that the server here retransmitted: its answers got lost.
    pub(crate) synacks_repeated: u64,
    /// What firewalls of this host dropped of the server's answers.
    pub(crate) answers: Vec<DroppedAnswer<'a>>,
}

/// What a firewall of this host dropped of a server's answers to one connect.
#[derive(Clone, Copy)]
pub(crate) struct DroppedAnswer<'a> {
    /// The namespace of its rules.
    pub(crate) netns: u32,
    pub(crate) dropped: &'a Dropped,
    /// How many of these are answers.
    pub(crate) count: u64,
}

/// Every place to which a SYN was retransmitted, and those whose SYNs or answers to them were dropped here.
pub(crate) fn places(story: &Story) -> Vec<UnansweredSyns<'_>> {
    let key = |netns: u32, at: Endpoint| (at.is_loopback().then_some(netns), at);
    let mut places: BTreeMap<_, (Vec<ConnId>, Vec<&Group>)> = BTreeMap::new();
    for conn in story
        .conns
        .iter()
        .filter(|c| is_silent(story, c) || c.unreachable().is_some() || fails_at_once(story, c))
    {
        if places.len() < MAX_PLACES {
            places.entry(key(conn.netns, conn.remote)).or_default();
        }
    }
    for group in story
        .packets
        .all()
        .iter()
        .filter(|g| g.what == What::SynDropped)
    {
        let key = key(group.netns, group.local);
        if group.local.port != 0 && (places.len() < MAX_PLACES || places.contains_key(&key)) {
            places.entry(key).or_default().1.push(group);
        }
    }
    let servers = AtServers::of(story);
    for (at, dropped) in &servers.answers {
        for answer in dropped {
            if places.len() < MAX_PLACES {
                places.entry(key(answer.netns, *at)).or_default();
            }
        }
    }
    for (id, conn) in story.conns.iter().enumerate().filter(|(_, c)| c.connects()) {
        if let Some((clients, _)) = places.get_mut(&key(conn.netns, conn.remote)) {
            clients.push(id as ConnId);
        }
    }
    let places = places.into_iter();
    let places = places
        .map(|(place, (clients, dropped))| servers.unanswered(story, place, clients, dropped));
    places.collect()
}

/// What else happened to SYNs, by the server's end.
struct AtServers<'a> {
    strays: AHashMap<Endpoint, u64>,
    half_open: AHashMap<Endpoint, u64>,
    synacks_repeated: AHashMap<Endpoint, u64>,
    answers: BTreeMap<Endpoint, Vec<DroppedAnswer<'a>>>,
}

impl<'a> AtServers<'a> {
    fn of(story: &'a Story) -> AtServers<'a> {
        AtServers {
            strays: strays(story),
            half_open: half_open(story),
            synacks_repeated: synacks_repeated(story),
            answers: answers_dropped(story),
        }
    }

    /// One place, with these connects to it.
    fn unanswered(
        &self,
        story: &'a Story,
        (netns, at): (Option<u32>, Endpoint),
        clients: Vec<ConnId>,
        dropped: Vec<&'a Group>,
    ) -> UnansweredSyns<'a> {
        let here = |counts: &AHashMap<Endpoint, u64>| counts.get(&at).copied().unwrap_or(0);
        UnansweredSyns {
            story,
            netns,
            at,
            listener: None,
            times: ConnectTimes::of_clients(story, &clients, 0),
            clients,
            dropped,
            strays: here(&self.strays),
            half_open: here(&self.half_open),
            synacks_repeated: here(&self.synacks_repeated),
            answers: self.answers.get(&at).cloned().unwrap_or_default(),
        }
    }
}

/// Whether nothing answered a SYN of this connect.
fn is_silent(story: &Story, conn: &Conn) -> bool {
    conn.connects() && (conn.syn_retries > 0 || gave_up(story, conn).is_some())
}

/// Stray answers and refusals of TIME_WAIT sockets, by the server's end.
fn strays(story: &Story) -> AHashMap<Endpoint, u64> {
    let facts = &story.refusals;
    let strays = facts.strays.iter().filter(|s| !facts.met_half_open(s));
    let strays = strays.map(|s| s.remote);
    let refused = facts.refused.iter().map(|r| r.seen.local);
    let mut counts = AHashMap::new();
    for at in strays.chain(refused) {
        *counts.entry(at).or_default() += 1;
    }
    counts
}

/// SYNs that met an established socket, by that socket's end.
fn half_open(story: &Story) -> AHashMap<Endpoint, u64> {
    let mut counts = AHashMap::new();
    for seen in &story.refusals.half_open {
        *counts.entry(seen.local).or_default() += 1;
    }
    counts
}

/// SYN-ACKs retransmitted, by the server's end.
fn synacks_repeated(story: &Story) -> AHashMap<Endpoint, u64> {
    let groups = story.packets.all().iter();
    let mut counts: AHashMap<Endpoint, u64> = AHashMap::new();
    for group in groups.filter(|g| g.what == What::SynAckRepeated) {
        *counts.entry(group.local).or_default() += group.count;
    }
    counts
}

/// What firewalls of this host dropped of servers' answers to SYNs, by the server's end: packets from it to an end that
/// never had a connection with it, SYN-ACKs among them, or whose connect waits for it; and SYN-ACKs of connections that
/// were established only later.
fn answers_dropped(story: &Story) -> BTreeMap<Endpoint, Vec<DroppedAnswer<'_>>> {
    let dropped = story.drops.all().filter(|(_, d)| d.by_firewall > 0);
    let dropped: Vec<_> = dropped.collect();
    let mut answers: BTreeMap<Endpoint, Vec<DroppedAnswer>> = BTreeMap::new();
    if dropped.is_empty() {
        return answers;
    }
    let ways = dropped.iter().map(|((_, from, to), _)| (*from, *to));
    let mut ways: AHashSet<(Endpoint, Endpoint)> = ways.collect();
    let mut awaited: AHashSet<(Endpoint, Endpoint)> = AHashSet::new();
    let mut established: AHashMap<(Endpoint, Endpoint), u64> = AHashMap::new();
    for conn in &story.conns {
        let answer = (conn.remote, conn.local);
        if is_silent(story, conn) && conn.established_ns.is_none() {
            if ways.contains(&answer) {
                awaited.insert(answer);
            }
            continue;
        }
        for way in [answer, (conn.local, conn.remote)] {
            if ways.remove(&way)
                && let Some(at) = conn.established_ns
            {
                established.insert(way, at);
            }
        }
    }
    for ((netns, from, to), dropped) in dropped {
        let answer = (*from, *to);
        let late = || {
            let at = established.get(&answer)?;
            let mut kinds = dropped.kinds.iter();
            kinds.find(|k| k.kind == DropKind::Firewall && k.first_ns < *at)
        };
        let count = match ways.contains(&answer) {
            true if awaited.contains(&answer) || dropped.syn_acks > 0 => dropped.by_firewall,
            false if late().is_some() => dropped.syn_acks,
            _ => 0,
        };
        if count > 0 {
            answers.entry(*from).or_default().push(DroppedAnswer {
                netns: *netns,
                dropped,
                count,
            });
        }
    }
    answers
}

impl<'a> UnansweredSyns<'a> {
    /// One place, whatever happened there.
    pub(crate) fn at(story: &'a Story, netns: Option<u32>, at: Endpoint) -> UnansweredSyns<'a> {
        let here = |of: u32, to: Endpoint| to == at && netns.is_none_or(|n| n == of);
        let conns = story.to(at);
        let clients = conns.filter(|(_, c)| c.connects() && here(c.netns, c.remote));
        let groups = story.packets.all().iter();
        let dropped = groups.filter(|g| g.what == What::SynDropped && here(g.netns, g.local));
        let clients: Vec<ConnId> = clients.map(|(id, _)| id).collect();
        AtServers::of(story).unanswered(story, (netns, at), clients, dropped.collect())
    }

    /// The place of a listener, at any of its addresses.
    pub(crate) fn of_listener(here: ListenerPlace<'a>) -> UnansweredSyns<'a> {
        let (story, local) = (here.story, here.listener.local);
        let any = local.addr.ip().is_unspecified();
        let there = |at: &Endpoint| at.port == local.port && (any || *at == local);
        let sum = |counts: AHashMap<Endpoint, u64>| -> u64 {
            let at_place = counts.iter().filter(|(at, _)| there(at));
            at_place.map(|(_, n)| n).sum()
        };
        let dropped = story.packets_at(here.index, What::SynDropped);
        let mut answers = answers_dropped(story);
        answers.retain(|at, _| there(at));
        UnansweredSyns {
            story,
            netns: Some(here.listener.netns),
            at: local,
            listener: Some(here.index),
            times: ConnectTimes::of(here),
            clients: here.listener.clients.clone(),
            dropped: dropped.collect(),
            strays: sum(strays(story)),
            half_open: sum(half_open(story)),
            synacks_repeated: sum(synacks_repeated(story)),
            answers: answers.into_values().flatten().collect(),
        }
    }

    /// Connects of this host that an error answered.
    pub(crate) fn unreachable(&self) -> Vec<&'a Conn> {
        let all = || {
            let ids = self.clients.iter();
            ids.filter_map(|id| self.story.conn(*id))
        };
        let told = all().filter(|c| c.unreachable().is_some());
        // A program that does not block in connect() has fetched the error when it closes: as many ICMP messages must
        // have come to its namespace. ICMPv6 messages are not recorded, so IPv6 connects are left out.
        let mut at_once: BTreeMap<u32, Vec<&Conn>> = BTreeMap::new();
        let counted = all().filter(|c| c.remote.addr.ip().is_ipv4());
        for conn in counted.filter(|c| fails_at_once(self.story, c)) {
            at_once.entry(conn.netns).or_default().push(conn);
        }
        let counters = &self.story.counters;
        let came = |netns| counters.rise(netns, counter::IN_DEST_UNREACHS).by;
        let believed = at_once
            .into_iter()
            .filter(|(netns, conns)| conns.len() as u64 <= came(*netns));
        told.chain(believed.flat_map(|(_, conns)| conns)).collect()
    }

    /// Whether errors answer the SYNs, though perhaps not all: something rejects them.
    pub(crate) fn is_rejected(&self) -> bool {
        let told = self.unreachable().len() as u64;
        told > 0 && told.saturating_mul(limits::ICMP_RATION.count()) >= self.times.silent()
    }

    /// The place, for rivals.
    pub(crate) fn place(&self) -> Place {
        Place::At(self.netns, self.at)
    }

    /// The groups that a firewall dropped.
    pub(crate) fn firewalled(&self) -> impl Iterator<Item = &'a Group> + Clone + '_ {
        let groups = self.dropped.iter().copied();
        groups.filter(|g| g.reason.as_deref().is_some_and(is_firewall))
    }

    /// Some of their rows.
    pub(crate) fn firewall_rows(&self) -> Vec<RowRef> {
        let rows = self.firewalled().flat_map(|g| g.rows.iter().copied());
        rows.take(SHOWN_ROWS).collect()
    }

    /// Rows of what was dropped on this host: the drops themselves, else what the listener counts.
    pub(crate) fn drop_rows(&self) -> Vec<RowRef> {
        let rows = self.dropped.iter().flat_map(|g| g.rows.iter().copied());
        let listener = self.listener().and_then(|(_, l)| l.fullest());
        let listener = listener.map(|sock| sock.last_row);
        rows.chain(listener).take(SHOWN_ROWS).collect()
    }

    /// SYNs that a firewall dropped.
    pub(crate) fn firewall_drops(&self) -> u64 {
        self.firewalled().map(|g| g.count).sum()
    }

    /// The namespace whose firewall dropped most.
    pub(crate) fn firewall_netns(&self) -> Option<u32> {
        self.firewalled().max_by_key(|g| g.count).map(|g| g.netns)
    }

    /// SYNs dropped on this host for any reason.
    pub(crate) fn drops_here(&self) -> u64 {
        self.dropped.iter().map(|g| g.count).sum()
    }

    /// SYNs for the place that connection tracking dropped in a namespace, with the row; 0 when something else dropped
    /// most of them.
    pub(crate) fn untracked(&self, netns: u32) -> (u64, Option<RowRef>) {
        let here = self
            .firewalled()
            .filter(|g| g.netns == netns && !by_rule(g));
        let here: u64 = here.map(|g| g.count).sum();
        match self.story.structures.conntrack(netns, "dropped") {
            // The table drops other packets, too, of other ports and protocols; and it is read at another moment.
            Some((dropped, row)) if here > 0 && limits::MOST.reached(dropped, here) => {
                (here.min(dropped), Some(row))
            }
            _ => (0, None),
        }
    }

    /// The listener there, when it is on this host.
    pub(crate) fn listener(&self) -> Option<(u32, &'a Listener)> {
        let mut clients = self
            .story
            .all(&self.clients)
            .filter_map(|(_, c)| c.listener);
        let dropped = || {
            self.dropped
                .iter()
                .find_map(|g| self.story.listeners.taking(g.netns, self.at, g.family))
        };
        let known = self.listener.or_else(|| clients.next());
        let index = known.or_else(dropped)?;
        Some((index, self.story.listeners.all.get(index as usize)?))
    }

    /// The same, with the story around it.
    pub(crate) fn listener_place(&self) -> Option<ListenerPlace<'a>> {
        ListenerPlace::at(self.story, self.listener()?.0)
    }

    /// SYNs that the listener itself dropped.
    pub(crate) fn listener_drops(&self) -> u64 {
        self.listener_place().map_or(0, |place| place.dropped())
    }

    /// Answers to SYNs that firewalls of this host dropped.
    pub(crate) fn answers_dropped(&self) -> u64 {
        self.answers.iter().map(|a| a.count).sum()
    }

    /// Some of their rows.
    pub(crate) fn answer_rows(&self) -> Vec<RowRef> {
        let rows = self
            .answers
            .iter()
            .flat_map(|a| a.dropped.rows.iter().copied());
        rows.take(SHOWN_ROWS).collect()
    }

    /// Handshakes that completed.
    pub(crate) fn passed(&self) -> u64 {
        let clients = self.story.all(&self.clients);
        let here = clients.filter(|(_, c)| c.established_ns.is_some()).count() as u64;
        let accepted = self.listener().map_or(0, |(_, listener)| {
            let accepted = self.story.all(&listener.accepted);
            // A listener on any address takes what goes to other addresses, too.
            let there = |c: &Conn| self.at.addr.is_any() || c.local == self.at;
            let there = accepted.filter(|(_, c)| c.side == Side::Accepted && there(c));
            there.count() as u64
        });
        here.max(accepted)
    }

    /// How many suffer: the clients themselves if they are here, else what was dropped.
    pub(crate) fn impact(&self, dropped: u64, passed: u64) -> Impact {
        if !self.times.delayed.is_empty() {
            return self.times.impact(dropped, passed);
        }
        let of = dropped.saturating_add(passed);
        let says = format!(
            "{} were dropped while {} completed ({} of arrivals); each delays its client, which is not on this host, \
             by 1 s or more.",
            plural(dropped, "SYN"),
            plural(passed, "handshake"),
            percent(dropped as f64 / of.max(1) as f64)
        );
        Impact::of(dropped, of, "SYNs", says)
    }

    /// The clients' processes, and the place.
    pub(crate) fn scope(&self, netns: u32) -> Scope {
        let silent = self.story.all(&self.clients).map(|(_, c)| c);
        let silent = silent.filter(|c| is_silent(self.story, c) && c.pid.is_some());
        let first = silent.clone().next();
        let mut pids: Vec<u32> = silent.filter_map(|c| c.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        Scope {
            netns: self.story.netns(netns),
            listener: self.at.to_string(),
            role: Role::Client,
            pid: first.and_then(|c| c.pid),
            pids,
            comm: first.and_then(|c| Some(c.comm.as_deref()?.to_string())),
            ..Scope::default()
        }
    }

    /// Where the clients are; used when the place is not here.
    pub(crate) fn client_netns(&self) -> Option<u32> {
        let mut clients = self.story.all(&self.clients).map(|(_, c)| c);
        let silent = clients.find(|c| is_silent(self.story, c));
        silent.map(|c| c.netns)
    }

    /// A listener on another host is unknown, except for SYNs that never got that far.
    pub(crate) fn dropped_on_the_way(&self) -> Option<Step> {
        let here = self.drops_here();
        let dropped_here = Quantity::of(here, "SYN").rows(self.drop_rows());
        (here > 0 && limits::MOST.reached(here, self.times.unanswered_syns())).then(|| {
            say!(
                "{dropped_here} for it were dropped on this host",
                dropped_here
            )
        })
    }

    /// Connects that waited at least this long, ns, for an answer that never came, while no other connect got one:
    /// those that still wait, and those that gave up.
    pub(crate) fn hanging(&self, least_ns: u64) -> Vec<(ConnId, &'a Conn)> {
        let story = self.story;
        let all = || {
            let ids = self.clients.iter();
            ids.filter_map(|id| Some((*id, story.conn(*id)?)))
        };
        let mut successes: Vec<u64> = all().filter_map(|(_, c)| c.established_ns).collect();
        successes.sort_unstable();
        let hanging = all().filter(|(_, c)| {
            let until = c.ended_ns.unwrap_or(story.end_ns);
            let silent = c.outcome == Outcome::Pending || c.failed();
            let answered = c.refused.is_some() || c.unreachable().is_some();
            let next = successes.partition_point(|at| *at < c.start_ns);
            silent
                && c.syn_retries > 0
                && !answered
                && until.saturating_sub(c.start_ns) >= least_ns
                && successes.get(next).is_none_or(|at| *at > until)
        });
        hanging.collect()
    }

    /// How long the delayed connects waited, and how long all connections to the place were not idle, ns.
    pub(crate) fn waited_of(&self) -> (u64, u64) {
        let waited = self.times.delayed.iter().copied();
        let waited = waited.fold(0, u64::saturating_add);
        let story = self.story;
        let whole_ns = story.end_ns.saturating_sub(story.start_ns);
        let mut services = AHashSet::new();
        let mut awake = waited;
        for (_, conn) in story.all(&self.clients) {
            services.insert(account::service(story, conn));
            if conn.established_ns.is_some() {
                let of_end = account::of_end(story, conn).awake().min(whole_ns);
                let connecting = conn.connect_ns().unwrap_or(0);
                awake = awake.saturating_add(of_end.saturating_sub(connecting));
            }
        }
        let forgotten = account::forgotten(story).filter(|f| services.contains(&f.service));
        let forgotten = forgotten.map(|f| f.spent.awake().min(whole_ns.saturating_mul(f.ends)));
        (waited, forgotten.fold(awake, u64::saturating_add))
    }

    /// Whether the user asked about a connect that nothing answered.
    pub(crate) fn is_asked(&self, inquiry: &Inquiry) -> bool {
        let clients = self.story.all(&self.clients).map(|(_, c)| c);
        inquiry.is_about(clients.filter(|c| is_silent(self.story, c)))
    }

    /// What the drops were.
    pub(crate) fn drops_step<'g>(&self, groups: impl Iterator<Item = &'g Group> + Clone) -> Step {
        let n: u64 = groups.clone().map(|g| g.count).sum();
        let told = groups.clone().map(|g| {
            let place = g
                .location
                .as_deref()
                .map_or(String::new(), |l| format!(" in {l}"));
            let netns = self.story.netns(g.netns);
            let netns = netns.name.unwrap_or_else(|| g.netns.to_string());
            let reason = g.reason.as_deref().unwrap_or("no reason given");
            let from = g.remotes.iter().max_by_key(|r| r.count);
            let from = from.map_or(String::new(), |r| {
                format!(", {} from {}", count(r.count), r.addr)
            });
            format!(
                "{} by {reason}{place} of namespace {netns}{from}",
                count(g.count)
            )
        });
        Step::new(format!(
            "{} to {} {} dropped on this host: {}.",
            plural(n, "SYN"),
            self.at,
            if n == 1 { "was" } else { "were" },
            list(&told.take(SHOWN_ROWS).collect::<Vec<_>>())
        ))
        .number("syns_dropped", n)
        .rows(groups.flat_map(|g| g.rows.iter().copied()).take(SHOWN_ROWS))
    }

    /// What a firewall did: what the clients saw of it, and what it dropped.
    pub(crate) fn firewall_steps(&self) -> Vec<Step> {
        let seen = self.times.step().into_iter();
        seen.chain([self.drops_step(self.firewalled())]).collect()
    }

    /// Every dropped SYN was retransmitted, or its answer is still awaited.
    pub(crate) fn drops_check(&self, dropped: u64) -> Option<Check> {
        if self.times.retries == 0 || !self.story.health.sees(&SourceName::Retransmits) {
            return None;
        }
        let sent = self.times.retries + self.times.unanswered;
        let diff = sent.abs_diff(dropped) as f64;
        Some(Check {
            formula:
                "SYNs dropped here = SYNs that clients retransmitted + SYNs unanswered at the end"
                    .into(),
            expected: dropped as f64,
            measured: sent as f64,
            unit: "SYNs".into(),
            agrees: diff
                <= (dropped as f64 * limits::SAME_COUNT.share())
                    .max(limits::SAME_COUNT_SLACK.number()),
            tolerance: "± 10 %, at least 2".into(),
        })
    }

    /// Connections to the place that retransmitted data, and those established.
    pub(crate) fn data_resent(&self) -> (u64, u64) {
        let all = self.story.all(&self.clients).map(|(_, c)| c);
        let established = all.filter(|c: &&Conn| c.established_ns.is_some());
        let resent = established.clone().filter(|c| c.retransmits > 0);
        (resent.count() as u64, established.count() as u64)
    }
}
