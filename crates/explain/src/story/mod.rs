//! The story: one pass over the raw tables makes connections, listeners, counters, processes.
//!
//! Everything is bounded: a recording of any size, also one made to hurt, takes a bounded amount
//! of memory, and what was folded away is counted and said.

pub(crate) mod binds;
mod conn;
mod connections;
mod counters;
mod cpus;
mod devices;
mod flags;
mod flow;
mod health;
mod link;
mod listeners;
mod packets;
mod place;
pub(crate) mod ports;
mod processes;
pub(crate) mod profile;
mod refusals;
mod resets;
mod resources;
pub(crate) mod searches;
mod series;
mod settings;
mod sleeps;
mod stalls;
pub(crate) mod stats;
pub(crate) mod structures;
mod sums;
mod tally;
mod threads;
mod transfers;
mod waits;

use std::sync::LazyLock;

use std::collections::BTreeMap;

use ahash::AHashMap;
use recording::tables::{Event, Socket};
use recording::{Batch, Error, EventKind, Recording, RowRef, SourceName, TcpState};

pub(crate) use binds::Binds;
pub(crate) use conn::{Agreed, Conn, ConnId, Outcome, Sampled, Side};
use connections::Connections;
pub(crate) use connections::MAX_CONNECTIONS;
pub(crate) use counters::{Counters, Rise};
use cpus::Cpus;
pub(crate) use devices::Devices;
pub(crate) use flow::Flow;
pub(crate) use health::Health;
pub(crate) use listeners::{Listener, Listeners};
pub(crate) use packets::{Group, KEPT_REMOTES, Packets, What};
pub(crate) use place::Endpoint;
pub(crate) use ports::Ports;
pub(crate) use processes::Processes;
pub(crate) use profile::Profile;
pub(crate) use refusals::{Refusals, Refused, Retry, Seen, TIME_WAIT_NS};
pub(crate) use resets::{Rejected, Resets, Sent, Why};
use resources::Resources;
pub(crate) use searches::Searches;
pub(crate) use series::Series;
pub(crate) use settings::Settings;
pub(crate) use sleeps::Sleeps;
pub(crate) use stalls::{Passed, STALL, Stuck, Way};
pub(crate) use structures::Structures;
pub(crate) use sums::Sums;
pub(crate) use tally::Tally;
pub(crate) use threads::{Thread, Threads};
pub(crate) use transfers::{Dropped, Resends, SLOTS, Transfer, Transfers};
pub use waits::Arrival;
pub(crate) use waits::{Waited, Waits};

use crate::finding::Netns;

/// What explain derives from a recording; causes ask it.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) conns: Vec<Conn>,
    samples: Vec<Sampled>,
    pub(crate) listeners: Listeners,
    pub(crate) packets: Packets,
    pub(crate) counters: Counters,
    pub(crate) settings: Settings,
    pub(crate) processes: Processes,
    pub(crate) waits: Waits,
    pub(crate) refusals: Refusals,
    pub(crate) resets: Resets,
    pub(crate) series: Series,
    pub(crate) structures: Structures,
    pub(crate) profile: Profile,
    pub(crate) ports: Ports,
    pub(crate) binds: Binds,
    pub(crate) searches: Searches,
    pub(crate) threads: Threads,
    pub(crate) cpus: Cpus,
    pub(crate) resources: Resources,
    pub(crate) health: Health,
    pub(crate) tally: Tally,
    pub(crate) transfers: Transfers,
    pub(crate) devices: Devices,
    pub(crate) sleeps: Sleeps,
    sums: AHashMap<u32, Sums>,
    names: BTreeMap<u32, String>,
}

/// Of a row that has no state.
static NO_STATE: LazyLock<TcpState> = LazyLock::new(TcpState::default);

impl Story {
    /// Reads the recording once.
    pub(crate) fn read(recording: &Recording) -> Result<Story, Error> {
        let manifest = &recording.manifest;
        let named = manifest.namespaces.iter();
        let mut story = Story {
            start_ns: manifest.start_ns,
            end_ns: manifest.end_ns,
            conns: Vec::new(),
            samples: Vec::new(),
            listeners: Listeners::read(recording)?,
            packets: Packets::default(),
            counters: Counters::read(recording)?,
            settings: Settings::read(recording)?,
            processes: Processes::read(recording)?,
            waits: Waits::read(recording)?,
            refusals: Refusals::default(),
            resets: Resets::default(),
            series: Series::read(recording)?,
            structures: Structures::read(recording)?,
            profile: Profile::read(recording)?,
            ports: Ports::read(recording)?,
            binds: Binds::read(recording)?,
            searches: Searches::read(recording)?,
            threads: Threads::read(recording)?,
            cpus: Cpus::read(recording)?,
            resources: Resources::read(recording)?,
            health: Health::read(recording)?,
            tally: Tally::default(),
            transfers: Transfers::new(manifest.start_ns, manifest.end_ns),
            devices: Devices::read(recording)?,
            sleeps: Sleeps::read(recording)?,
            sums: AHashMap::new(),
            names: named.map(|n| (n.inode, n.name.clone())).collect(),
        };
        let mut connections = Connections::default();
        story.events_and_samples(recording, &mut connections)?;
        story.resets.read_stacks(recording)?;
        story.tally.folded = connections.folded;
        story.conns = connections.all;
        story.samples = connections.samples;
        link::link(&mut story.conns, &mut story.listeners);
        story.packets.link(&story.listeners);
        story.sums = sums::sums(&story.conns, &story.listeners);
        Ok(story)
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

    fn sample(&mut self, at: RowRef, row: &Socket, connections: &mut Connections) {
        if let Some(id) = connections.sample(at, row) {
            let conn = &connections.all[id as usize];
            self.transfers.sample(id, conn, at, row);
        }
    }

    fn event(&mut self, at: RowRef, row: &Event, connections: &mut Connections) {
        let kind = &row.kind;
        let state = row.state.as_ref().unwrap_or(&NO_STATE);
        self.tally.event(kind, state, row);
        self.refusals.event(at, kind, state, row);
        match kind {
            EventKind::State => {
                let old = row.old_state.as_ref().unwrap_or(&NO_STATE);
                if *state == TcpState::Listen {
                    self.listeners.began(at.into(), row);
                } else if *old == TcpState::Listen {
                    self.listeners.ended(row);
                } else {
                    if *state == TcpState::Established {
                        self.transfers.established(row);
                    }
                    connections.state(at.into(), row, old, state);
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
            _ => {
                if *kind == EventKind::Drop {
                    self.transfers.drop(at, row);
                }
                self.resets.event(at, kind, row, connections.of(row));
                let resets_tell = self.health.sees(&SourceName::ResetsUnmatched);
                self.packets.add(at, kind, row, resets_tell);
            }
        }
    }

    pub(crate) fn conn(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(id as usize)
    }

    pub(crate) fn samples(&self, conn: &Conn) -> Option<&Sampled> {
        self.samples.get(conn.sampled? as usize)
    }

    /// The connections of a list of ids.
    pub(crate) fn all<'a>(
        &'a self,
        ids: &'a [ConnId],
    ) -> impl Iterator<Item = (ConnId, &'a Conn)> + Clone {
        ids.iter().filter_map(|id| Some((*id, self.conn(*id)?)))
    }

    /// The packet groups of one kind whose packets were for the listener.
    pub(crate) fn packets_at(
        &self,
        listener: u32,
        what: What,
    ) -> impl Iterator<Item = &Group> + Clone {
        let groups = self.packets.of_listener(listener);
        groups.filter(move |g| g.what == what)
    }

    /// Sums over a namespace.
    pub(crate) fn sums(&self, netns: u32) -> Sums {
        self.sums.get(&netns).copied().unwrap_or_default()
    }

    /// How long the recording is, s; at least a millisecond.
    pub(crate) fn seconds(&self) -> f64 {
        (self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9).max(1e-3)
    }

    /// A namespace with its name.
    pub(crate) fn netns(&self, inode: u32) -> Netns {
        let name = self.names.get(&inode).filter(|n| !n.is_empty()).cloned();
        Netns { inode, name }
    }
}

/// The rows of the socket table, one after the other.
struct Samples<S> {
    scan: S,
    rows: std::vec::IntoIter<(RowRef, Socket)>,
    next: Option<(RowRef, Socket)>,
}

impl<S: Iterator<Item = Result<Batch<Socket>, Error>>> Samples<S> {
    fn new(scan: S) -> Result<Samples<S>, Error> {
        let mut samples = Samples {
            scan,
            rows: Vec::new().into_iter(),
            next: None,
        };
        samples.advance()?;
        Ok(samples)
    }

    /// The next sample unless it is later than `time_ns`.
    fn before(&mut self, time_ns: u64) -> Result<Option<(RowRef, Socket)>, Error> {
        if !matches!(&self.next, Some((_, row)) if row.time_ns <= time_ns) {
            return Ok(None);
        }
        let due = self.next.take();
        self.advance()?;
        Ok(due)
    }

    fn advance(&mut self) -> Result<(), Error> {
        loop {
            if let Some(row) = self.rows.next() {
                self.next = Some(row);
                return Ok(());
            }
            match self.scan.next() {
                Some(batch) => self.rows = batch?.rows().collect::<Vec<_>>().into_iter(),
                None => return Ok(()),
            }
        }
    }
}
