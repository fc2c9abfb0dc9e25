//! What the causes about local ports share: destinations, how full their ports were at each
//! connect, what the search cost, and what helps.

mod advice;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use ahash::AHashMap;
use analysis::ports::Use;
use analysis::profile::samples;
use analysis::stats::ratio;
use analysis::words::count;
use analysis::{Conn, Endpoint, Side, Story};
use recording::sysctl::{IP_LOCAL_PORT_RANGE, TCP_RFC1337};
use recording::{Addr, RowRef};

use crate::checks::same_count;
use crate::finding::{Check, Role, Scope, Step};
use crate::limits;
use crate::place::{Place, SlowCalls};
use crate::places::listener::SHOWN_ROWS;
use crate::say::{Quantity, say};
use crate::scope::namespace;

/// The kernel functions that look for a local port, or check one: connect(), then bind().
pub(crate) const FUNCTIONS: &[&str] = &[CONNECT, "__inet_check_established", BIND];
/// connect() looks for a port here.
pub(crate) const CONNECT: &str = "__inet_hash_connect";
/// bind() looks for one here.
pub(crate) const BIND: &str = "inet_csk_get_port";
/// Destinations looked at: each costs a pass over the profile.
const MAX_DESTINATIONS: usize = 200;

/// One source address and one destination, with the connects between them.
pub(crate) struct Destination<'a> {
    pub(crate) story: &'a Story,
    netns: u32,
    from: Addr,
    pub(crate) to: Endpoint,
    pub(crate) ports: &'a Use,
    /// Connects in order of time, with the ports that were in use before each.
    pub(crate) connects: Vec<(u64, &'a Conn)>,
    /// Ports in use at most, by the connections seen.
    open_at_most: u64,
    /// The same when the most were counted.
    open_when_counted: u64,
}

/// The destinations whose ports were counted, those with the most connects first.
pub(crate) fn destinations(story: &Story) -> Vec<Destination<'_>> {
    let mut by_path: AHashMap<_, Vec<&Conn>> = AHashMap::new();
    for (path, _) in story.ports.all() {
        by_path.insert(*path, Vec::new());
    }
    for conn in story.conns.iter().filter(|c| c.side == Side::Opened) {
        let path = (conn.netns, conn.local.addr, conn.remote);
        if let Some(connects) = by_path.get_mut(&path) {
            connects.push(conn);
        }
    }
    let all = story.ports.all().filter_map(|(path, ports)| {
        let connects = by_path.remove(path).filter(|c| !c.is_empty())?;
        let (netns, from, to) = *path;
        Some(Destination::new(story, (netns, from, to), ports, connects))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|d| (Reverse(d.connects.len()), d.netns, d.from, d.to));
    all.truncate(MAX_DESTINATIONS);
    all
}

/// What looking for a port cost the connects to a destination.
pub(crate) struct Search<'a> {
    /// The kernel function that searches.
    pub(crate) function: &'static str,
    /// Connects that began when at least half of the ports were in use, and the others.
    pub(crate) slow: Vec<&'a Conn>,
    pub(crate) fast: Vec<&'a Conn>,
    /// Samples of the callers in the function, and some of their rows.
    pub(crate) inside: u64,
    pub(crate) rows: Vec<RowRef>,
    /// CPU time of the search, s.
    pub(crate) cpu_seconds: f64,
}

impl Search<'_> {
    /// Whether bind() searched, not connect().
    pub(crate) fn is_bind(&self) -> bool {
        self.function == BIND
    }

    /// CPU time per slow connect, ns; `None` when none was slow.
    pub(crate) fn cost_ns(&self) -> Option<f64> {
        ratio(self.cpu_seconds * 1e9, self.slow.len() as f64)
    }
}

/// How long connect() took where it was answered at once, ns.
pub(crate) fn took(conns: &[&Conn]) -> Vec<u64> {
    let first = conns.iter().filter(|c| c.syn_retries == 0);
    first.filter_map(|c| c.connect_ns()).collect()
}

/// Whether a connect failed because no port was left: it ended without one.
pub(crate) fn is_portless(conn: &Conn) -> bool {
    conn.failed() && conn.local.port == 0
}

/// The ports that connections hold over time.
#[derive(Default)]
struct Held {
    /// For each port, until when it is held.
    until: AHashMap<u16, u64>,
    ends: BinaryHeap<Reverse<(u64, u16)>>,
}

impl Held {
    /// How many are held; ask in order of time.
    fn at(&mut self, now: u64) -> u64 {
        while let Some(Reverse((end, port))) = self.ends.peek().copied()
            && end <= now
        {
            self.ends.pop();
            // A port taken again meanwhile is held for longer.
            if self.until.get(&port) == Some(&end) {
                self.until.remove(&port);
            }
        }
        self.until.len() as u64
    }

    /// A connection takes its port, from TIME_WAIT if it must.
    fn take(&mut self, conn: &Conn, until: u64) {
        let port = conn.local.port;
        if port == 0 {
            return;
        }
        self.until.insert(port, until);
        self.ends.push(Reverse((until, port)));
    }
}

/// Until when a connection holds its port. When both ends close at once an ACK arrives after the other end is gone; the
/// reset that answers it ends TIME_WAIT, unless net.ipv4.tcp_rfc1337 is 1.
fn held_until(story: &Story, conn: &Conn) -> u64 {
    let lasts = story.settings.number(conn.netns, TCP_RFC1337) == Some(1);
    let until = if conn.closed_first && !lasts && story.resets.was_sent(conn) {
        conn.ended_ns
    } else {
        conn.port_held_until_ns()
    };
    until.unwrap_or(u64::MAX)
}

impl<'a> Destination<'a> {
    /// One of them; `None` when its ports were not counted.
    pub(crate) fn of(
        story: &'a Story,
        netns: u32,
        from: Addr,
        to: Endpoint,
    ) -> Option<Destination<'a>> {
        let path = (netns, from, to);
        let (_, ports) = story.ports.all().find(|(p, _)| **p == path)?;
        let there = story.on_way((netns, from, to.addr)).map(|(_, c)| c);
        let connects = there.filter(|c| c.side == Side::Opened && c.remote == to);
        Some(Destination::new(story, path, ports, connects.collect()))
    }

    fn new(
        story: &'a Story,
        (netns, from, to): (u32, Addr, Endpoint),
        ports: &'a Use,
        mut conns: Vec<&'a Conn>,
    ) -> Destination<'a> {
        conns.sort_by_key(|c| c.start_ns);
        // Ports in the first count that no recorded connect explains are older.
        let counted_ns = ports.first.time_ns;
        let begun = conns
            .iter()
            .filter(|c| c.start_ns <= counted_ns && c.local.port != 0);
        let older = ports.first.used.saturating_sub(begun.count() as u64);
        let mut then = Held::default();
        for conn in conns.iter().filter(|c| c.start_ns <= ports.most.time_ns) {
            then.take(conn, held_until(story, conn));
        }
        let mut held = Held::default();
        let mut open_at_most = older;
        let connects = conns.into_iter().map(|conn| {
            let before = older + held.at(conn.start_ns);
            held.take(conn, held_until(story, conn));
            open_at_most = open_at_most.max(older + held.at(conn.start_ns));
            (before, conn)
        });
        let connects = connects.collect();
        Destination {
            story,
            netns,
            from,
            to,
            ports,
            connects,
            open_at_most,
            open_when_counted: older + then.at(ports.most.time_ns),
        }
    }

    /// Ports in use at most, as counted or by the connections seen.
    pub(crate) fn peak(&self) -> u64 {
        self.open_at_most.max(self.ports.most.used)
    }

    /// Ports in TIME_WAIT while connects were made: a later count, when the client had closed everything, does not
    /// matter.
    fn time_wait(&self) -> u64 {
        let last = self.connects.last().map_or(0, |(_, c)| c.start_ns);
        let ended = self.connects.iter().filter(|(_, c)| c.local.port != 0);
        let ended = ended.filter(|(_, c)| c.ended_ns.is_some_and(|at| at <= last));
        let counted = [self.ports.first, self.ports.most].into_iter();
        let counted = counted.filter(|c| c.time_ns <= last).map(|c| c.time_wait);
        let most = self.ports.most.time_wait;
        (ended.count() as u64)
            .min(most)
            .max(counted.max().unwrap_or(0))
    }

    /// The peak as a share of the ports to choose from.
    pub(crate) fn occupancy(&self) -> f64 {
        self.peak() as f64 / self.ports.capacity as f64
    }

    /// Connects that failed because no port was left.
    pub(crate) fn without_port(&self) -> impl Iterator<Item = &'a Conn> + Clone {
        let conns = self.connects.iter().map(|(_, c)| *c);
        conns.filter(|c| is_portless(c))
    }

    /// Processes that connect there, the busiest first.
    pub(crate) fn callers(&self) -> Vec<u32> {
        let mut callers: BTreeMap<u32, u64> = BTreeMap::new();
        for pid in self.connects.iter().filter_map(|(_, c)| c.pid) {
            *callers.entry(pid).or_default() += 1;
        }
        let mut callers: Vec<_> = callers.into_iter().collect();
        callers.sort_by_key(|(_, n)| Reverse(*n));
        callers.into_iter().map(|(pid, _)| pid).collect()
    }

    /// What looking for a port has cost since half of them were in use.
    pub(crate) fn search(&self) -> Search<'a> {
        let half = limits::PARITY_FULL.share() * self.ports.capacity as f64;
        let is_slow = |(used, _): &&(u64, &'a Conn)| *used as f64 >= half;
        let (slow, fast): (Vec<_>, Vec<_>) = self.connects.iter().partition(is_slow);
        let conns = |all: Vec<&(u64, &'a Conn)>| all.into_iter().map(|(_, c)| *c).collect();
        let callers = self.callers();
        let profile = &self.story.profile;
        let searching = [CONNECT, BIND].map(|function| {
            let inside = profile.passing(&[function]);
            let inside: Vec<_> = inside
                .filter(|g| !g.softirq && callers.contains(&g.pid))
                .collect();
            let rows = inside.iter().map(|g| g.row).take(SHOWN_ROWS).collect();
            (function, samples(inside), rows)
        });
        let [connect, bind] = searching;
        let (function, inside, rows) = if bind.1 > connect.1 { bind } else { connect };
        Search {
            function,
            slow: conns(slow),
            fast: conns(fast),
            inside,
            rows,
            cpu_seconds: profile.cpu_seconds(inside),
        }
    }

    /// The same as calls that took long; the time of bind() is unknown.
    pub(crate) fn slow_calls(&self) -> Option<SlowCalls> {
        let search = self.search();
        (!search.is_bind()).then(|| SlowCalls {
            netns: self.netns,
            call: "connect()",
            asked_for: None,
            took_ns: took(&search.slow).iter().sum(),
            on_cpu_ns: (search.cpu_seconds * 1e9) as u64,
        })
    }

    /// The place, for rivals.
    pub(crate) fn place(&self) -> Place {
        Place::LocalPorts(self.netns, self.from, self.to)
    }

    pub(crate) fn scope(&self, function: Option<&str>) -> Scope {
        let pids = self.callers();
        let pid = pids.first().copied();
        let comm = self.connects.iter().find(|(_, c)| c.pid == pid);
        Scope {
            netns: self.story.netns(self.netns),
            resource: Some(format!("local ports to {}", self.to)),
            function: function.map(str::to_string),
            role: Role::Client,
            pid,
            pids,
            comm: comm.and_then(|(_, c)| Some(c.comm.as_ref()?.to_string())),
            ..Scope::default()
        }
    }

    /// How full the ports were.
    pub(crate) fn occupancy_step(&self) -> Step {
        let ((low, high), from, to) = (self.ports.range, self.from, self.to);
        let in_time_wait = match self.time_wait() {
            0 => String::new(),
            n => format!(", {} of them in TIME_WAIT", count(n)),
        };
        say!(
            "At most {ports_used} of {ports} local ports ({low}-{high}) were in use from {from} to {to}: \
             {occupancy}{in_time_wait}.",
            ports_used = Quantity::count(self.peak()).rows([self.ports.most.row, self.ports.first.row]),
            ports = Quantity::count(self.ports.capacity),
            occupancy = Quantity::share(self.occupancy())
        )
        .number("time_wait", self.time_wait())
    }

    /// What set the range.
    pub(crate) fn range_step(&self) -> Option<Step> {
        let value = self.story.settings.get(self.netns, IP_LOCAL_PORT_RANGE)?;
        let netns = namespace(&self.story.netns(self.netns));
        Some(say!(
            "{IP_LOCAL_PORT_RANGE}={setting} in {netns}: one connection per port to the same address \
             and port.",
            setting = Quantity::new(&*value.text, &*value.text).rows([value.row])
        ))
    }

    /// The connections seen against the ports counted, at the moment of the count: ports are counted every few seconds,
    /// and more may have been open before or after.
    pub(crate) fn count_check(&self) -> Check {
        same_count(
            "connections open when most ports were counted = ports counted as in use",
            self.open_when_counted,
            self.ports.most.used,
            "ports",
        )
    }
}
