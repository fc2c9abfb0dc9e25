//! What the causes about local ports share: destinations, how full their ports were at each
//! connect, what the search cost, and what helps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use ahash::AHashMap;
use analysis::ports::Use;
use analysis::profile::samples;
use analysis::words::{count, figure, percent, plural};
use analysis::{Conn, Endpoint, Netns, Side, Story};
use recording::sysctl::IP_LOCAL_PORT_RANGE;
use recording::sysctl::IP_LOCAL_RESERVED_PORTS;
use recording::{Addr, RowRef, sysctl};

use crate::actions::{command_in, set_sysctl};
use crate::checks::same_count;
use crate::finding::{Advice, Change, Check, Role, Scope, Step};
use crate::places::listener::SHOWN_ROWS;
use crate::scope::namespace;

/// The kernel functions that look for a local port, or check one: connect(), then bind().
pub(crate) const FUNCTIONS: &[&str] = &[CONNECT, "__inet_check_established", BIND];
/// connect() looks for a port here.
pub(crate) const CONNECT: &str = "__inet_hash_connect";
/// bind() looks for one here.
pub(crate) const BIND: &str = "inet_csk_get_port";
/// From this occupancy on one parity is full, and each search tries all of it first.
pub(crate) const HALF: f64 = 0.5;
/// Destinations looked at: each costs a pass over the profile.
const MOST_DESTINATIONS: usize = 200;
/// With so many ports in use, no way of searching helps.
const NEARLY_FULL: f64 = 0.95;
/// The range that tcpwhy advises: above the ports of most services, and beginning with an even one.
const WIDE: (u64, u64) = (10_240, 65_535);

/// One source address and one destination, with the connects between them.
pub(crate) struct Destination<'a> {
    pub(crate) story: &'a Story,
    pub(crate) netns: u32,
    from: Addr,
    pub(crate) to: Endpoint,
    pub(crate) ports: &'a Use,
    /// Connects in order of time, with the ports that were in use before each.
    pub(crate) connects: Vec<(u64, &'a Conn)>,
    /// Ports in use at most, by the connections seen.
    pub(crate) open_at_most: u64,
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
    all.truncate(MOST_DESTINATIONS);
    all
}

/// The ports that connections hold, as time goes by.
#[derive(Default)]
struct Held {
    /// Of each port, until when.
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
            // One that was taken again meanwhile is held for longer.
            if self.until.get(&port) == Some(&end) {
                self.until.remove(&port);
            }
        }
        self.until.len() as u64
    }

    /// A connection takes its port, from TIME_WAIT if it must.
    fn take(&mut self, conn: &Conn) {
        let port = conn.local.port;
        if port == 0 {
            return;
        }
        let end = conn.port_held_until_ns().unwrap_or(u64::MAX);
        self.until.insert(port, end);
        self.ends.push(Reverse((end, port)));
    }
}

impl<'a> Destination<'a> {
    fn new(
        story: &'a Story,
        (netns, from, to): (u32, Addr, Endpoint),
        ports: &'a Use,
        mut conns: Vec<&'a Conn>,
    ) -> Destination<'a> {
        conns.sort_by_key(|c| c.start_ns);
        // Those counted at first that are none of the connects seen are older.
        let counted_ns = ports.first.time_ns;
        let begun = conns
            .iter()
            .filter(|c| c.start_ns <= counted_ns && c.local.port != 0);
        let older = ports.first.used.saturating_sub(begun.count() as u64);
        let mut held = Held::default();
        let mut open_at_most = older;
        let connects = conns.into_iter().map(|conn| {
            let before = older + held.at(conn.start_ns);
            held.take(conn);
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
        }
    }

    /// Ports in use at most, as counted or by the connections seen.
    pub(crate) fn peak(&self) -> u64 {
        self.open_at_most.max(self.ports.most.used)
    }

    /// Ports in TIME_WAIT while connects were made: what was counted later, when the client had
    /// closed everything, is no matter.
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

    /// The peak as a share of the ports that may be chosen.
    pub(crate) fn occupancy(&self) -> f64 {
        self.peak() as f64 / self.ports.capacity as f64
    }

    /// Connects that began when at least half of the ports were in use, and the others.
    pub(crate) fn searched(&self) -> (Vec<&'a Conn>, Vec<&'a Conn>) {
        let half = HALF * self.ports.capacity as f64;
        let (slow, fast): (Vec<_>, Vec<_>) =
            self.connects.iter().partition(|(n, _)| *n as f64 >= half);
        let conns = |all: Vec<&(u64, &'a Conn)>| all.into_iter().map(|(_, c)| *c).collect();
        (conns(slow), conns(fast))
    }

    /// Connects that failed because no port was left: they ended without one.
    pub(crate) fn without_port(&self) -> impl Iterator<Item = &'a Conn> + Clone {
        let conns = self.connects.iter().map(|(_, c)| *c);
        conns.filter(|c| c.failed() && c.local.port == 0)
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

    /// Samples of the callers in the search, and rows that show them.
    pub(crate) fn search_samples(&self, functions: &[&str]) -> (u64, Vec<RowRef>) {
        let callers = self.callers();
        let inside = self.story.profile.passing(functions);
        let inside: Vec<_> = inside
            .filter(|g| !g.softirq && callers.contains(&g.pid))
            .collect();
        let rows = inside.iter().map(|g| g.row).take(SHOWN_ROWS);
        (samples(inside.iter().copied()), rows.collect())
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
        let (low, high) = self.ports.range;
        let time_wait = match self.time_wait() {
            0 => String::new(),
            n => format!(", {} of them in TIME_WAIT", count(n)),
        };
        Step::new(format!(
            "{} of {} local ports ({low}-{high}) were in use from {} to {} at most: {}{time_wait}.",
            count(self.peak()),
            count(self.ports.capacity),
            self.from,
            self.to,
            percent(self.occupancy())
        ))
        .number("ports_used", self.peak())
        .number("ports", self.ports.capacity)
        .number("time_wait", self.time_wait())
        .number("occupancy", self.occupancy())
        .rows([self.ports.most.row, self.ports.first.row])
    }

    /// Who set the range.
    pub(crate) fn range_step(&self) -> Option<Step> {
        let value = self.story.settings.get(self.netns, IP_LOCAL_PORT_RANGE)?;
        Some(
            Step::new(format!(
                "{IP_LOCAL_PORT_RANGE}={} in {}: one connection per port to the same address and port.",
                value.text,
                namespace(&self.story.netns(self.netns))
            ))
            .number("setting", &*value.text)
            .rows([value.row]),
        )
    }

    /// The connections seen against the ports counted; not while TIME_WAIT holds some that ended
    /// before the recording.
    pub(crate) fn count_check(&self) -> Check {
        same_count(
            "connections open at most = ports counted as in use at most",
            self.open_at_most,
            self.ports.most.used,
            "ports",
        )
    }

    /// Ports wanted: those in use, and those that were asked for in vain.
    fn wanted(&self) -> u64 {
        self.peak()
            .saturating_add(self.without_port().count() as u64)
    }

    /// What helps, the best first. `bound` when bind() chooses the port.
    pub(crate) fn advice(&self, scope: &Scope, bound: bool) -> Vec<Advice> {
        let mut advice = Vec::new();
        let wide = WIDE.1 - WIDE.0 + 1;
        let enough = (self.wanted() as f64) < HALF * wide as f64 && wide > self.ports.capacity;
        if enough {
            advice.push(self.wider_range(&scope.netns, wide));
        }
        if bound {
            advice.push(no_port_at_bind(scope));
        }
        if self.time_wait() * 2 > self.peak() {
            advice.push(self.reuse_time_wait(&scope.netns));
        }
        advice.push(self.more_addresses(!enough));
        if self.occupancy() < NEARLY_FULL {
            advice.push(self.own_range());
        }
        advice.push(self.keep_alive());
        advice
    }

    fn wider_range(&self, netns: &Netns, wide: u64) -> Advice {
        let value = format!("{} {}", WIDE.0, WIDE.1);
        let after = self.wanted() as f64 / wide as f64;
        Advice {
            action: format!("Widen {IP_LOCAL_PORT_RANGE} to {value}."),
            command: command_in(
                netns,
                &format!("sysctl -w {IP_LOCAL_PORT_RANGE}=\"{value}\""),
            ),
            r#where: format!("{}; a file in /etc/sysctl.d/ keeps it", namespace(netns)),
            risk: format!(
                "A service that listens in the new range may find its port taken: name such ports \
                 in {IP_LOCAL_RESERVED_PORTS}."
            ),
            expected: format!(
                "{} of {} ports in use, not {} of {}: connects find one at the first tries.",
                percent(after),
                count(wide),
                percent(self.occupancy()),
                count(self.ports.capacity)
            ),
            change: Some(Change::Sysctl {
                netns: netns.inode,
                name: IP_LOCAL_PORT_RANGE.into(),
                value,
            }),
        }
    }

    fn reuse_time_wait(&self, netns: &Netns) -> Advice {
        let risk = "Needs TCP timestamps on both sides; tcp_tw_recycle, its dangerous relative, is \
                    gone since Linux 4.12.";
        let expected = format!(
            "connect() may take over the {} in TIME_WAIT a second after their end. How long \
             TIME_WAIT lasts is no setting of Linux.",
            plural(self.time_wait(), "port")
        );
        set_sysctl(netns, sysctl::TCP_TW_REUSE, 1, risk, expected)
    }

    fn more_addresses(&self, with_change: bool) -> Advice {
        let room = (0.9 * HALF * self.ports.capacity as f64).max(1.0);
        let addresses = (self.wanted() as f64 / room).ceil().clamp(2.0, 1_000.0) as u32;
        let after = self.wanted() as f64 / f64::from(addresses) / self.ports.capacity as f64;
        Advice {
            action: format!(
                "Spread the connections over {addresses} addresses: of the destination, or own \
                 ones."
            ),
            command: None,
            r#where: format!(
                "the client's configuration, or more addresses for {}",
                self.to
            ),
            risk: "Firewalls and allow lists must know the new addresses.".into(),
            expected: format!(
                "Each pair of addresses has all ports to itself: {} in use per pair.",
                percent(after)
            ),
            change: with_change.then(|| Change::MoreAddresses {
                to: self.to.to_string(),
                value: addresses,
            }),
        }
    }

    fn own_range(&self) -> Advice {
        let free = 1.0 - self.occupancy().min(NEARLY_FULL);
        Advice {
            action: "Set IP_LOCAL_PORT_RANGE on the socket before connect() (Linux 6.3).".into(),
            command: None,
            r#where: "the client's source".into(),
            risk: "None for others; the range lies within the same ports.".into(),
            expected: format!(
                "Since Linux 6.8 such a socket starts at a random port and tries both parities: \
                 about {} per connect, not {}.",
                plural((1.0 / free).round() as u64, "attempt"),
                count(self.ports.capacity / 2)
            ),
            change: None,
        }
    }

    fn keep_alive(&self) -> Advice {
        Advice {
            action: "Use connections again (keep-alive, a pool, a multiplexing protocol).".into(),
            command: None,
            r#where: "the client's configuration".into(),
            risk: "Long-lived connections stick to the server they were made to.".into(),
            expected: format!(
                "As many ports as requests under way, not {}.",
                count(self.peak())
            ),
            change: None,
        }
    }
}

fn no_port_at_bind(scope: &Scope) -> Advice {
    Advice {
        action: "Set IP_BIND_ADDRESS_NO_PORT on the socket before bind() (Linux 4.2).".into(),
        command: None,
        r#where: "the client's source; nginx (proxy_bind) and HAProxy (source) do so".into(),
        risk: "getsockname() shows port 0 until connect() is called.".into(),
        expected: format!(
            "connect() chooses the port: a try costs about {} ns, not {}, and a port serves \
             many destinations.",
            figure(TRY_NS),
            figure(BIND_TRY_NS)
        ),
        change: scope.pid.map(|pid| Change::ConnectChoosesPort { pid }),
    }
}

/// What one try costs connect(), ns, when the port is taken (measured on Linux 6.18: 65 with
/// 8,000 ports, 100 with 16,000).
pub(crate) const TRY_NS: f64 = 65.0;
/// The same for bind() (measured on Linux 6.18).
pub(crate) const BIND_TRY_NS: f64 = 275.0;
