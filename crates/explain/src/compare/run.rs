//! What one recording gives to compare: its throughput, sockets, counters, settings, CPUs.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Agreed, Conn, ConnId, Side, Story, Transfer};
use recording::{Addr, Error, Recording, Text};

use super::cost::{self, Cpu};
use super::felt::Felt;
use super::functions::{self, Profile};
use super::gauge::{self, Gauge};
use super::load::{self, Losses};
use crate::explanation::Explanation;
use crate::places::listener::listener_places;

/// Sockets compared per recording; more say the same.
const MAX_SOCKETS: usize = 20_000;
/// Flows of connections whose throughput is summed.
const MAX_FLOWS: usize = 65_536;
/// What lived for less moved its bytes within this time, ns: one short connection is no fast link.
const LEAST_NS: u64 = 1_000_000_000;

/// What one recording gives to compare.
pub struct Run {
    pub(super) name: String,
    pub(super) labels: Vec<String>,
    /// When it began, s since 1970.
    pub(super) began_s: f64,
    /// How long it is, s.
    pub(super) lasted_s: f64,
    /// Bytes per second over all connections.
    pub(super) throughput: f64,
    pub(super) sockets: Vec<Socket>,
    /// Rises per second, over all namespaces.
    pub(super) counters: BTreeMap<String, f64>,
    /// Values in force, over all namespaces.
    pub(super) settings: BTreeMap<String, BTreeSet<String>>,
    /// What processes gave to listen(), by process and port.
    pub(super) backlogs: BTreeMap<String, BTreeSet<String>>,
    pub(super) cpus: BTreeMap<u32, Cpu>,
    pub(super) profile: Profile,
    pub(super) gauges: BTreeMap<String, Gauge>,
    pub(super) losses: Losses,
    pub(super) felt: Felt,
}

/// One end here that sent a lot.
pub(crate) struct Socket {
    /// Which connection it is of.
    pub(super) conn: ConnId,
    /// Those that should be alike: of one service, which is the process that accepted them (if that is not here,
    /// the one that connected) and its port.
    pub(super) group: (Text, u16),
    /// Best rate between two samples while it had something to send, bytes per second.
    pub(super) rate: f64,
    /// It had more to send than it was let: of another nothing tells what it could have reached.
    pub(super) had_bulk: bool,
    /// Least round trip, µs; 0 when not known.
    pub(super) min_rtt_us: u32,
    /// Largest congestion window, segments; 0 when not known.
    pub(super) cwnd: u32,
    agreed: Option<Agreed>,
    /// It was opened by a SYN cookie.
    cookie: Option<bool>,
    mss: u32,
    congestion: Text,
    remote: Addr,
    local: Addr,
    /// Who holds it; empty when not known.
    process: Text,
    family: u8,
}

impl Socket {
    /// What may tell slow from fast. In words only while they are counted: there are many sockets.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'static str, String)> {
        let yes = |v: bool| if v { "yes" } else { "no" }.to_string();
        let agreed = |of: fn(Agreed) -> bool| self.agreed.map(|agreed| yes(of(agreed)));
        let process = (!self.process.is_empty()).then(|| self.process.to_string());
        let all = [
            ("SACK", agreed(|a| a.sack)),
            ("window scaling", agreed(|a| a.window_scaling)),
            ("timestamps", agreed(|a| a.timestamps)),
            ("SYN cookie", self.cookie.map(yes)),
            ("MSS", Some(self.mss.to_string())),
            ("congestion control", Some(self.congestion.to_string())),
            ("port", Some(self.group.1.to_string())),
            ("remote address", Some(self.remote.to_string())),
            ("local address", Some(self.local.to_string())),
            ("process", process),
            ("family", Some(format!("IPv{}", self.family))),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

impl Run {
    /// Of a recording, and what was read of it.
    pub(crate) fn of(
        name: String,
        recording: &Recording,
        story: &Story,
        explanation: &Explanation,
    ) -> Result<Run, Error> {
        let throughput = throughput(story);
        Ok(Run {
            name,
            labels: recording.manifest.labels.clone(),
            began_s: began_s(recording),
            lasted_s: story.seconds(),
            throughput,
            sockets: sockets(story),
            counters: story.counters.per_second(story.seconds()),
            settings: story.settings.all(),
            backlogs: backlogs(story),
            cpus: cost::read(recording)?,
            profile: functions::read(recording)?,
            gauges: gauge::read(recording)?,
            losses: load::read(story, throughput),
            felt: Felt::of(story, explanation),
        })
    }
}

fn began_s(recording: &Recording) -> f64 {
    recording.manifest.start_unix_ns() as f64 / 1e9
}

fn backlogs(story: &Story) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for here in listener_places(story) {
        let scope = here.scope();
        if let Some(backlog) = scope.backlog {
            let owner = scope.comm.unwrap_or_else(|| "a listener".into());
            let name = format!("backlog of {owner}, port {}", here.listener.local.port);
            all.entry(name).or_default().insert(backlog.to_string());
        }
    }
    all
}

/// The sum over flows of connections, each over the time in which it lived: those that start later
/// do not count against the others. Each byte counts once: where it was sent from, or where it came
/// if its sender is not here.
fn throughput(story: &Story) -> f64 {
    // Bytes, first and last time, by namespace, remote address and service.
    let mut flows: BTreeMap<(u32, Addr, u16), (u64, u64, u64)> = BTreeMap::new();
    for (id, conn) in story.conns.iter().enumerate() {
        let Some((began, ended)) = lived(story, conn) else {
            continue;
        };
        let transfer = story.transfers.of(id as ConnId);
        let before = |of: fn(&Transfer) -> u64, all: u64| match conn.side {
            Side::Older => transfer.map_or(0, of),
            _ => all,
        };
        let mut moved = before(Transfer::acked, conn.bytes_acked);
        if conn.peer.is_none() {
            moved = moved.saturating_add(before(Transfer::received, conn.bytes_received));
        }
        let key = (conn.netns, conn.remote.addr, service(conn));
        if moved > 0 && (flows.len() < MAX_FLOWS || flows.contains_key(&key)) {
            let flow = flows.entry(key).or_insert((0, began, ended));
            flow.0 = flow.0.saturating_add(moved);
            (flow.1, flow.2) = (flow.1.min(began), flow.2.max(ended));
        }
    }
    let rates = flows.values().map(|(bytes, first, last)| {
        let ns = last.saturating_sub(*first).max(LEAST_NS);
        *bytes as f64 * 1e9 / ns as f64
    });
    rates.sum()
}

/// The port that says what a connection is for.
pub(crate) fn service(conn: &Conn) -> u16 {
    match conn.side {
        Side::Accepted => conn.local.port,
        Side::Opened | Side::Older => conn.remote.port,
    }
}

/// From when to when a connection was seen, ns.
fn lived(story: &Story, conn: &Conn) -> Option<(u64, u64)> {
    let sampled = story.samples(conn);
    let began = conn.established_ns.or(sampled.map(|s| s.first.time_ns))?;
    let ended = conn.ended_ns.or(sampled.map(|s| s.last.time_ns))?;
    Some((began, ended))
}

/// The ends that sent a lot.
pub(crate) fn sockets(story: &Story) -> Vec<Socket> {
    let all = story.conns.iter().enumerate();
    let sending = all.filter_map(|(id, conn)| socket(story, id as ConnId, conn));
    sending.take(MAX_SOCKETS).collect()
}

fn socket(story: &Story, id: ConnId, conn: &Conn) -> Option<Socket> {
    let flow = story.flow(id)?;
    let peer = conn.peer.and_then(|peer| story.conn(peer));
    // One end per connection: the one that sent more.
    let (mine, theirs) = (conn.bytes_acked, peer.map_or(0, |p| p.bytes_acked));
    if mine < theirs || (mine == theirs && peer.is_some_and(|p| p.side == Side::Opened)) {
        return None;
    }
    let sent = |t: &&Transfer| t.acked() > 0 && t.peak > 0.0;
    let transfer = story.transfers.of(id).filter(sent)?;
    let process = story.owner(conn).map_or(Text::default(), |(_, c)| c.into());
    let accepted = [Some(conn), peer].into_iter().flatten();
    let accepted = accepted.filter(|end| end.side == Side::Accepted);
    let server = accepted.filter_map(|end| Some(story.owner(end)?.1)).next();
    let server = server.map_or_else(|| process.clone(), Text::from);
    Some(Socket {
        conn: id,
        group: (server, service(conn)),
        // The best is what it can do: a busy host and a slow start lower the mean of any.
        rate: transfer.peak,
        had_bulk: transfer.had_bulk(),
        min_rtt_us: transfer.min_rtt_us,
        cwnd: flow.cwnd.unwrap_or(0),
        agreed: conn.agreed,
        cookie: conn.cookie.or(peer.and_then(|p| p.cookie)),
        mss: transfer.mss,
        congestion: transfer.congestion.clone(),
        remote: conn.remote.addr,
        local: conn.local.addr,
        process,
        family: conn.family,
    })
}
