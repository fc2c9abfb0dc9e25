//! The story: one pass over the raw tables makes connections, listeners, counters, processes.
//!
//! Everything is bounded: a recording of any size, even one made to hurt, takes a bounded amount of memory, and what
//! was folded away is counted and said.

mod folded;

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use ahash::AHashMap;
use recording::tables::{
    Call, Counter, Event, InterfaceAddress, Interrupt, Resource, Socket, TableSize, Thread,
};
use recording::{Error, EventKind, Recording, RowRef, SourceName, Table, TcpState};

use crate::account::{AllRequests, Exchanges, FoldedEnds};
use crate::connections::{Connections, MAX_CONNECTIONS};
use crate::cpus::Cpus;
use crate::homes::Homes;
use crate::index::Index;
use crate::processes::read_holders;
use crate::resources::Resources;
use crate::samples::Samples;
use crate::slots::Slots;
use crate::{
    Activity, Addresses, Binds, Conn, ConnId, Counters, Denied, Devices, Drops, Endpoint, Group,
    Health, Heartbeats, Interrupts, Listeners, Names, Netns, Packets, Ports, Processes, Profile,
    Refusals, Resets, Sampled, Searches, Series, Settings, Signals, Sleeps, Structures, Sums,
    Tally, Threads, Transfers, Troubles, Unrouted, Waits, What, link, sums,
};

/// Everything derived from a recording, for all that explains or shows it.
#[derive(Debug)]
pub struct Story {
    /// When the recording began, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Ends of connections on this host.
    pub conns: Vec<Conn>,
    samples: Vec<Sampled>,
    /// Listening sockets and their queues.
    pub listeners: Listeners,
    /// Drops, resets and the like, grouped by place.
    pub packets: Packets,
    /// Counters: value and rise.
    pub counters: Counters,
    /// Sysctls.
    pub settings: Settings,
    /// The addresses of interfaces.
    pub addresses: Addresses,
    /// What addresses are called.
    pub host_names: Names,
    /// Processes that listen.
    pub processes: Processes,
    /// Waits of threads, and what ended them.
    pub waits: Waits,
    /// Who stopped processes.
    pub signals: Signals,
    /// What runs the processes.
    pub homes: Homes,
    /// SYNs that were refused, retransmitted or met a TIME_WAIT.
    pub refusals: Refusals,
    /// Resets and who sent them.
    pub resets: Resets,
    /// Counters over time.
    pub series: Series,
    /// The kernel's lookup structures.
    pub structures: Structures,
    /// The CPU profile.
    pub profile: Profile,
    /// Local ports in use.
    pub ports: Ports,
    /// bind() calls that found the port taken.
    pub binds: Binds,
    /// connect() calls that looked for a local port.
    pub searches: Searches,
    /// Calls that found no descriptor left.
    pub denied: Denied,
    /// connect() calls for which no way was known.
    pub unrouted: Unrouted,
    /// What threads did with their time.
    pub threads: Threads,
    /// Time of each CPU.
    pub cpus: Cpus,
    /// Interrupts of devices.
    pub interrupts: Interrupts,
    /// The USE checklist.
    pub resources: Resources,
    /// How whole the recording is.
    pub health: Health,
    /// How often each thing happened.
    pub tally: Tally,
    /// Data transfers: rates, windows, losses.
    pub transfers: Transfers,
    /// Packets of connections that this host dropped.
    pub drops: Drops,
    /// Interfaces.
    pub devices: Devices,
    /// In which calls threads slept.
    pub sleeps: Sleeps,
    /// Messages that came at regular intervals and were late.
    pub heartbeats: Heartbeats,
    /// Requests and their answers.
    pub(crate) requests: AllRequests,
    pub(crate) exchanges: OnceLock<Vec<Exchanges>>,
    /// Each kind of trouble over time.
    pub troubles: Troubles,
    /// The host's Linux version, major and minor; `None` for another system.
    kernel: Option<(u32, u32)>,
    sums: AHashMap<u32, Sums>,
    pub(crate) folded_ends: FoldedEnds,
    names: BTreeMap<u32, String>,
    pub(crate) index: Index,
}

/// Major and minor of `6.18.44-cloud-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// The state of a row that has none.
static NO_STATE: LazyLock<TcpState> = LazyLock::new(TcpState::default);

/// Reads a table.
fn each<T: Table>(recording: &Recording, mut take: impl FnMut(RowRef, T)) -> Result<(), Error> {
    for batch in recording.scan::<T>()? {
        for (at, row) in batch?.rows() {
            take(at, row);
        }
    }
    Ok(())
}

impl Story {
    /// Reads the recording once.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn read(recording: &Recording) -> Result<Story, Error> {
        Story::keeping(MAX_CONNECTIONS, recording)
    }

    /// The same, with at most this many connections.
    pub(crate) fn keeping(connections: usize, recording: &Recording) -> Result<Story, Error> {
        let recording = &recording.for_sentences();
        let manifest = &recording.manifest;
        let named = manifest.namespaces.iter();
        let mut story = Story {
            start_ns: manifest.start_ns,
            end_ns: manifest.end_ns,
            kernel: version(&manifest.host.kernel),
            conns: Vec::new(),
            samples: Vec::new(),
            listeners: Listeners::read(recording)?,
            packets: Packets::default(),
            counters: Counters::default(),
            settings: Settings::read(recording)?,
            addresses: Addresses::default(),
            host_names: Names::default(),
            processes: Processes::read(recording)?,
            waits: Waits::read(recording)?,
            signals: Signals::read(recording)?,
            homes: Homes::read(recording)?,
            refusals: Refusals::default(),
            resets: Resets::default(),
            series: Series::default(),
            structures: Structures::default(),
            profile: Profile::read(recording)?,
            ports: Ports::read(recording)?,
            binds: Binds::default(),
            searches: Searches::default(),
            denied: Denied::default(),
            unrouted: Unrouted::default(),
            threads: Threads::default(),
            cpus: Cpus::read(recording)?,
            interrupts: Interrupts::default(),
            resources: Resources::default(),
            health: Health::read(recording)?,
            tally: Tally::default(),
            transfers: Transfers::new(manifest.start_ns, manifest.end_ns),
            drops: Drops::default(),
            devices: Devices::default(),
            sleeps: Sleeps::read(recording)?,
            heartbeats: Heartbeats::read(recording)?,
            requests: AllRequests::read(recording)?,
            exchanges: OnceLock::new(),
            troubles: Troubles::new(manifest.start_ns, manifest.end_ns),
            sums: AHashMap::new(),
            folded_ends: FoldedEnds::default(),
            names: named.map(|n| (n.inode, n.name.clone())).collect(),
            index: Index::default(),
        };
        story.tables(recording)?;
        let mut connections = Connections::since(manifest.start_ns, connections);
        story.events_and_samples(recording, &mut connections)?;
        story.resets.read_stacks(recording)?;
        connections.finish();
        story.health.weigh(&story.tally);
        story.tally.folded = connections.folded;
        story.tally.unsampled = connections.unsampled;
        story.conns = connections.all;
        story.samples = connections.samples;
        link::link(&mut story.conns, &mut story.listeners);
        story.holders(recording, &connections.unowned)?;
        story.packets.link(&story.listeners);
        story.drops.claim(&story.conns);
        sums::add_kept(&mut story.sums, &story.conns, &story.listeners);
        Ok(story)
    }

    /// The holders of listeners, and of connections that are older than the recording.
    fn holders(
        &mut self,
        recording: &Recording,
        unowned: &AHashMap<u64, ConnId>,
    ) -> Result<(), Error> {
        let holders = read_holders(recording, &self.listeners.listening(), unowned)?;
        self.listeners.hold(&holders.all);
        self.listeners.workers_first(&self.processes);
        for (inode, (pid, comm)) in holders.first {
            let conn = unowned
                .get(&inode)
                .and_then(|id| self.conns.get_mut(*id as usize));
            // Its holder says more than its listener's: servers hand connections to workers.
            if let Some(conn) = conn {
                (conn.pid, conn.comm) = (Some(pid), Some(comm));
            }
        }
        for conn in &self.conns {
            if let Some(pid) = conn.pid {
                self.homes.in_cgroup(pid, conn.cgroup);
            }
        }
        for wait in &self.waits.all {
            self.homes.in_cgroup(wait.pid, Some(wait.cgroup));
        }
        for (pid, path) in self.processes.cgroups() {
            self.homes.in_path(pid, path);
        }
        Ok(())
    }

    /// Reads each table that several things are derived from, once.
    fn tables(&mut self, recording: &Recording) -> Result<(), Error> {
        each(recording, |at, row: Counter| {
            self.counters.add(at, &row);
            self.series.add(at, &row);
            self.troubles.counter(&row);
        })?;
        each(recording, |at, row: Resource| {
            self.structures.resource(at, &row);
            self.devices.add(at, &row);
            self.resources.add(at, row);
        })?;
        each(recording, |at, row: Thread| {
            self.troubles.thread(&row);
            self.threads.add(at, row, &recording.manifest);
        })?;
        each(recording, |at, row: Interrupt| {
            self.interrupts.add(at, &row)
        })?;
        each(recording, |_, row: InterfaceAddress| {
            self.addresses.add(&row)
        })?;
        self.host_names = Names::read(recording, &self.addresses)?;
        each(recording, |at, row: TableSize| {
            self.structures.size(at, row)
        })?;
        each(recording, |at, row: Call| {
            self.binds.add(at, &row);
            self.searches.add(at, &row);
            self.denied.add(at, &row);
            self.unrouted.add(at, &row);
        })?;
        self.binds.finish();
        self.searches.finish();
        Ok(())
    }

    /// Feeds events and samples in order of time: a socket's address may be used again, so a
    /// sample belongs to the connection that the socket was at that moment.
    fn events_and_samples(
        &mut self,
        recording: &Recording,
        connections: &mut Connections,
    ) -> Result<(), Error> {
        let mut samples = Samples::new(recording.scan()?)?;
        for event in recording.events()? {
            let (at, row) = event?;
            while let Some((at, sample)) = samples.before(row.time_ns)? {
                self.sample(at, &sample, connections);
            }
            self.event(at, &row, connections);
        }
        while let Some((at, sample)) = samples.before(u64::MAX)? {
            self.sample(at, &sample, connections);
        }
        Ok(())
    }

    /// Forgets connections that there is nothing to say about, when there is no room for more.
    fn make_room(&mut self, now_ns: u64, connections: &mut Connections) {
        if !connections.wants_room() {
            return;
        }
        let told = self.health.sees(&SourceName::Sockets);
        let span = self.span();
        let moved = connections.make_room(now_ns, &self.resets.conns(), |conn, sampled| {
            sums::add(&mut self.sums, conn);
            let ends = &mut self.folded_ends;
            ends.take(conn, sampled, &self.listeners, told, span);
        });
        if let Some(moved) = moved {
            self.transfers.moved(&moved);
            self.resets.moved(&moved);
        }
    }

    fn sample(&mut self, at: RowRef, row: &Socket, connections: &mut Connections) {
        self.make_room(row.time_ns, connections);
        self.troubles.sample(row);
        if let Some(id) = connections.sample(at, row) {
            let conn = &connections.all[id as usize];
            self.transfers.sample(id, conn, at, row);
        }
    }

    fn event(&mut self, at: RowRef, row: &Event, connections: &mut Connections) {
        self.make_room(row.time_ns, connections);
        let kind = &row.kind;
        let state = row.state.as_ref().unwrap_or(&NO_STATE);
        let activity = Activity::of(row);
        self.tally.event(activity, row);
        self.troubles.event(activity, row);
        self.refusals.event(at, kind, state, row);
        match kind {
            EventKind::State => {
                let old = row.old_state.as_ref().unwrap_or(&NO_STATE);
                if *state == TcpState::Listen {
                    self.listeners.began(at.into(), row);
                } else if *old == TcpState::Listen {
                    self.listeners.ended(at.into(), row);
                } else {
                    if *state == TcpState::Established {
                        self.transfers.established(row);
                    }
                    connections.state(at.into(), row, activity, old);
                }
            }
            EventKind::Retransmit => {
                let id = connections.retransmit(at.into(), row, state);
                if *state != TcpState::SynSent {
                    self.transfers.resent(id, at, row);
                }
            }
            EventKind::ResetReceived if *state == TcpState::SynSent => {
                connections.refused(at.into(), row)
            }
            EventKind::NoRoute => self.unrouted.rejected(at, row),
            _ => {
                if *kind == EventKind::Drop {
                    self.drops.add(at, row);
                }
                self.resets.event(at, kind, row, connections.of(row));
                let resets_tell = self.health.sees(&SourceName::ResetsUnmatched);
                let slot = self.slots().bit(row.time_ns);
                self.packets.add(at, kind, row, slot, resets_tell);
            }
        }
    }

    /// How many requests and answers were exchanged; 0 where they were not recorded.
    pub fn exchanged(&self) -> u64 {
        self.requests.count()
    }

    /// The connection with this id.
    pub fn conn(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(id as usize)
    }

    /// Where the packets of this end come from and go to: as it says itself, and as its other end here does where
    /// addresses are translated in between.
    pub fn ways(&self, conn: &Conn) -> impl Iterator<Item = (Endpoint, Endpoint)> + use<> {
        let own = (conn.local, conn.remote);
        let peer = conn.peer.and_then(|peer| self.conn(peer));
        let other = peer.map(|peer| (peer.remote, peer.local));
        std::iter::once(own).chain(other.filter(|other| *other != own))
    }

    /// How many packets of this end were dropped on this host, in any namespace.
    pub fn dropped(&self, conn: &Conn) -> u64 {
        let ways = self.ways(conn);
        ways.map(|(from, to)| self.drops.between(from, to)).sum()
    }

    /// The process of one end: the one that called connect(), or holds the listener that accepted it.
    pub fn owner(&self, conn: &Conn) -> Option<(u32, String)> {
        if let Some(pid) = conn.pid {
            return Some((pid, conn.comm.as_deref().unwrap_or("").to_string()));
        }
        if conn.connects() {
            return None;
        }
        let listener = self.listeners.all.get(conn.listener? as usize)?;
        let holder = listener.holders.first()?;
        Some((holder.pid, holder.comm.to_string()))
    }

    /// The samples of a connection; `None` when it was never sampled.
    pub fn samples(&self, conn: &Conn) -> Option<&Sampled> {
        self.samples.get(conn.sampled? as usize)
    }

    /// Major and minor of the host's Linux; `None` when that is not known.
    pub fn linux(&self) -> Option<(u32, u32)> {
        self.kernel
    }

    /// The connections of a list of ids.
    pub fn all<'a>(
        &'a self,
        ids: &'a [ConnId],
    ) -> impl Iterator<Item = (ConnId, &'a Conn)> + Clone {
        ids.iter().filter_map(|id| Some((*id, self.conn(*id)?)))
    }

    /// The packet groups of one kind whose packets were for the listener.
    pub fn packets_at(&self, listener: u32, what: What) -> impl Iterator<Item = &Group> + Clone {
        let groups = self.packets.of_listener(listener);
        groups.filter(move |g| g.what == what)
    }

    /// Sums over a namespace.
    pub fn sums(&self, netns: u32) -> Sums {
        self.sums.get(&netns).copied().unwrap_or_default()
    }

    /// When the recording began and ended, ns of CLOCK_MONOTONIC.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.start_ns, self.end_ns)
    }

    /// The recording in parts.
    pub fn slots(&self) -> Slots {
        Slots::new(self.start_ns, self.end_ns)
    }

    /// How long the recording is, s; at least a millisecond.
    pub fn seconds(&self) -> f64 {
        (self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9).max(1e-3)
    }

    /// A namespace with its name.
    pub fn netns(&self, inode: u32) -> Netns {
        let name = self.names.get(&inode).filter(|n| !n.is_empty()).cloned();
        Netns { inode, name }
    }
}
