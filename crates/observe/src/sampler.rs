//! The thread that samples: visits every namespace and reads sockets, counters and settings.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::OpenObject;
use recording::tables::{Counter, Holder, Process, Setting};
use recording::{Namespace, Source, TableWriter, Verdict, Writer};

use crate::counters::Counters;
use crate::error::Error;
use crate::health::HealthLog;
use crate::holders::Holders;
use crate::kernel::{KernelBtf, Names, hz};
use crate::netns::{self, Found, Home};
use crate::pace::Pace;
use crate::processes;
use crate::settings::Settings;
use crate::sockets::{Decoder, SocketRows, Sockets};
use crate::worker::{Control, Longest, Report};

/// What to sample and how often.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// Namespaces to visit; empty means all.
    pub netns: Vec<u32>,
    /// Time between samples.
    pub interval: Duration,
    /// Random numbers behind the ids of sockets.
    pub sock_key: [u64; 2],
}

/// Open files of all tasks are walked every so many rounds, and whenever a listener is new.
const HOLDERS_EVERY: u64 = 5;

/// Samples until told to stop; ready after the first round.
pub fn sample(
    options: &SampleOptions,
    writer: &Writer,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let (mut sockets, mut holders) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut sampler = Sampler::new(options, writer, health, &mut sockets, &mut holders)?;
    sampler.round()?;
    control.ready(sampler.report());
    let mut pace = Pace::new(options.interval);
    loop {
        let stopping = control.stopping(pace.interval);
        pace.begin();
        if stopping {
            sampler.rounds = 0; // a last complete look at the holders, too
        }
        sampler.round()?;
        if stopping {
            sampler.seal()?;
            return Ok(sampler.report());
        }
        if let Some(detail) = pace.end() {
            health.say("sockets", "slowed", 0, detail)?;
        }
    }
}

struct Sampler<'a, 'o> {
    options: &'a SampleOptions,
    health: &'a HealthLog,
    home: Home,
    sockets: Sockets<'o>,
    holders: Result<Holders<'o>, Error>,
    counters: Counters,
    settings: Settings,
    socket_rows: SocketRows,
    holder_rows: TableWriter<Holder>,
    process_rows: TableWriter<Process>,
    counter_rows: TableWriter<Counter>,
    setting_rows: TableWriter<Setting>,
    seen: BTreeMap<u32, Namespace>,
    /// Namespaces that could not be visited, told once each.
    told: HashSet<u32>,
    /// Inodes of the listeners of the current round.
    listeners: HashSet<u64>,
    /// Processes that hold listeners.
    servers: BTreeSet<u32>,
    rounds: u64,
    longest: Longest,
    /// Jiffies at the start of the previous round; each round of dumps compares with it.
    last_round: Option<u32>,
}

impl<'a, 'o> Sampler<'a, 'o> {
    fn new(
        options: &'a SampleOptions,
        writer: &Writer,
        health: &'a HealthLog,
        sockets: &'o mut MaybeUninit<OpenObject>,
        holders: &'o mut MaybeUninit<OpenObject>,
    ) -> Result<Self, Error> {
        let btf = KernelBtf::load().map_err(Error::Kernel)?;
        // Without HZ durations in jiffies are told as of 250, the commonest; the manifest says so.
        let decoder = Decoder::new(Names::load(&btf), hz().unwrap_or(250));
        Ok(Sampler {
            options,
            health,
            home: Home::remember().map_err(|why| Error::System {
                what: "opening the own network namespace".into(),
                why,
            })?,
            sockets: Sockets::load(sockets, options.sock_key, decoder)?,
            holders: Holders::load(holders),
            counters: Counters::default(),
            settings: Settings::default(),
            socket_rows: SocketRows {
                sockets: writer.table()?,
                listeners: writer.table()?,
            },
            holder_rows: writer.table()?,
            process_rows: writer.table()?,
            counter_rows: writer.table()?,
            setting_rows: writer.table()?,
            seen: BTreeMap::new(),
            told: HashSet::new(),
            listeners: HashSet::new(),
            servers: BTreeSet::new(),
            rounds: 0,
            longest: Longest::default(),
            last_round: None,
        })
    }

    /// One sample of everything.
    fn round(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        let mut began = None;
        let known_listeners = std::mem::take(&mut self.listeners);
        for found in netns::find().into_values() {
            let inode = found.namespace.inode;
            let wanted = &self.options.netns;
            if wanted.is_empty() || wanted.contains(&inode) {
                self.namespace(&found)?;
                began = began.or(Some(self.sockets.last_dump()));
            }
        }
        self.last_round = began.or(self.last_round);
        self.settings.of_host(&mut self.setting_rows)?;
        let new_listener = !self.listeners.is_subset(&known_listeners);
        if (new_listener || self.rounds.is_multiple_of(HOLDERS_EVERY))
            && let Ok(holders) = &mut self.holders
        {
            self.servers.clear();
            let (listeners, servers) = (&self.listeners, &mut self.servers);
            holders.dump(&mut self.holder_rows, |inode, pid| {
                if listeners.contains(&inode) {
                    servers.insert(pid);
                }
            })?;
        }
        processes::sample(&self.servers, &mut self.process_rows)?;
        self.rounds += 1;
        self.longest.round = self.longest.round.max(since.elapsed());
        self.seal_if_due()
    }

    /// One sample of one namespace, from inside it.
    fn namespace(&mut self, found: &Found) -> Result<(), Error> {
        let inode = found.namespace.inode;
        let new = !self.seen.contains_key(&inode);
        // Made while we record: its counters began at zero.
        let young = new && self.last_round.is_some();
        // A namespace that is new to us is dumped whole, like all in the first round.
        let since = self.last_round.filter(|_| !new);
        let (sockets, counters) = (&mut self.sockets, &mut self.counters);
        let (settings, listeners) = (&mut self.settings, &mut self.listeners);
        let (socket_rows, counter_rows) = (&mut self.socket_rows, &mut self.counter_rows);
        let setting_rows = &mut self.setting_rows;
        let longest = &mut self.longest.snapshot;
        let visited = self.home.visit(found, || {
            counters.sample(inode, young, counter_rows)?;
            settings.of_namespace(inode, setting_rows)?;
            let began = Instant::now();
            sockets.dump(since.is_none(), since.unwrap_or(0), socket_rows, |inode| {
                listeners.insert(inode);
            })?;
            *longest = (*longest).max(began.elapsed());
            Ok::<(), Error>(())
        });
        match visited {
            Ok(result) => result?,
            // It may have ended between finding and visiting it.
            Err(why) => {
                if self.told.insert(inode) {
                    let name = &found.namespace.name;
                    let detail = format!("namespace {name} could not be visited: {why}");
                    self.health.say("sockets", "partial", 1, detail)?;
                }
                return Ok(());
            }
        }
        if new {
            self.seen.insert(inode, found.namespace.clone());
        }
        Ok(())
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        self.socket_rows.sockets.seal_if_due()?;
        self.socket_rows.listeners.seal_if_due()?;
        self.holder_rows.seal_if_due()?;
        self.process_rows.seal_if_due()?;
        self.counter_rows.seal_if_due()?;
        Ok(self.setting_rows.seal_if_due()?)
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.socket_rows.sockets.seal()?;
        self.socket_rows.listeners.seal()?;
        self.holder_rows.seal()?;
        self.process_rows.seal()?;
        self.counter_rows.seal()?;
        Ok(self.setting_rows.seal()?)
    }

    fn report(&self) -> Report {
        let holders = match &self.holders {
            Ok(_) => Verdict::Attached,
            Err(e) => Verdict::Failed(e.reason()),
        };
        Report {
            sources: sources(holders),
            namespaces: self.seen.values().cloned().collect(),
            longest: self.longest,
        }
    }
}

/// The sampled sources; all but the holders work whenever sampling works at all.
pub fn sources(holders: Verdict) -> Vec<Source> {
    vec![
        Source::required(
            "sockets",
            "every TCP socket with all of tcp_info, listeners with their queues, TIME_WAIT",
            Verdict::Attached,
        ),
        Source::optional(
            "holders",
            "which processes hold which sockets, also those older than the recording",
            holders,
        ),
        Source::required(
            "counters",
            "every SNMP and TcpExt counter of every network namespace",
            Verdict::Attached,
        ),
        Source::required(
            "settings",
            "the sysctls that matter to TCP",
            Verdict::Attached,
        ),
        Source::optional(
            "processes",
            "state and CPU time of the processes that listen",
            Verdict::Attached,
        ),
    ]
}
