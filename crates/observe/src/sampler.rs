//! The thread that samples: visits every namespace and reads sockets, counters and settings.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::OpenObject;
use recording::tables::{Counter, Holder, Process, Setting};
use recording::{HealthKind, Namespace, Source, SourceName, TableWriter, Verdict, Writer};

use crate::counters::Counters;
use crate::error::Error;
use crate::health::HealthLog;
use crate::holders::Holders;
use crate::kernel::{KernelBtf, Names, hz};
use crate::netns::{self, Found, Home};
use crate::pace::Pace;
use crate::settings::Settings;
use crate::sockets::{Decoder, SocketRows, Sockets};
use crate::worker::{Control, Longest, Report};
use crate::{processes, rights, space};

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

/// A round may use one part in so many of a CPU.
const MOST: u32 = 50;
/// And the walks over sockets, those of all namespaces together, one part in so many: the kernel has one
/// table for all, which each walk goes through from end to end; 80,000 in TIME_WAIT took 15 ms. Who
/// asks for more than a round a second pays for it.
fn most_of_walks(interval: Duration) -> u32 {
    u32::try_from(interval.as_millis() / 10).map_or(100, |most| most.clamp(5, 100))
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
    sampler.round(false)?;
    control.ready(sampler.report());
    let mut pace = Pace::new(options.interval, MOST);
    loop {
        let stopping = control.stopping(pace.interval);
        pace.begin();
        sampler.round(stopping)?;
        if stopping {
            sampler.seal()?;
            return Ok(sampler.report());
        }
        if let Some(detail) = pace.end() {
            health.say(
                SourceName::Sockets,
                HealthKind::Slowed,
                0,
                format!("a round of samples {detail}"),
            )?;
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
    seen: BTreeMap<u32, Seen>,
    /// Namespaces that could not be visited, told once each.
    told: HashSet<u32>,
    /// Processes that hold listeners.
    servers: BTreeSet<u32>,
    rounds: u64,
    longest: Longest,
}

/// A namespace that was visited.
struct Seen {
    namespace: Namespace,
    pace: Pace,
    /// When its sockets were walked last.
    walked: Instant,
    /// The same in jiffies: the next walk leaves out what has not moved since.
    walked_jiffies: u32,
    /// Inodes of its listeners.
    listeners: HashSet<u64>,
}

impl Seen {
    /// Whether its sockets shall be walked. Rounds do not come to the millisecond.
    fn is_due(&self, round: Duration) -> bool {
        self.walked.elapsed() + round / 2 >= self.pace.interval
    }
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
            servers: BTreeSet::new(),
            rounds: 0,
            longest: Longest::default(),
        })
    }

    /// One sample of everything that is due; when it is the last one, of everything.
    fn round(&mut self, last: bool) -> Result<(), Error> {
        let since = Instant::now();
        let mut new_listener = false;
        let mut namespaces = netns::find();
        let wanted = &self.options.netns;
        namespaces.retain(|inode, _| wanted.is_empty() || wanted.contains(inode));
        let count = u32::try_from(namespaces.len()).unwrap_or(u32::MAX);
        let most = most_of_walks(self.options.interval).saturating_mul(count);
        for found in namespaces.values() {
            new_listener |= self.namespace(found, most, last)?;
        }
        self.settings.of_host(&mut self.setting_rows)?;
        if (new_listener || last || self.rounds.is_multiple_of(HOLDERS_EVERY))
            && let Ok(holders) = &mut self.holders
        {
            self.servers.clear();
            let there = self
                .seen
                .values()
                .filter(|s| namespaces.contains_key(&s.namespace.inode));
            let listeners: HashSet<u64> = there.flat_map(|s| s.listeners.iter().copied()).collect();
            let servers = &mut self.servers;
            holders.dump(&mut self.holder_rows, |inode, pid| {
                if listeners.contains(&inode) {
                    servers.insert(pid);
                }
            })?;
        }
        if space::pids_are_ours() {
            processes::sample(&self.servers, &mut self.process_rows)?;
        }
        self.rounds += 1;
        self.longest.round = self.longest.round.max(since.elapsed());
        self.seal_if_due()
    }

    /// One sample of one namespace, from inside it; the walk over its sockets may use one part in `most`
    /// of a CPU. Whether there is a listener that was not there before.
    fn namespace(&mut self, found: &Found, most: u32, last: bool) -> Result<bool, Error> {
        let inode = found.namespace.inode;
        let seen = self.seen.get(&inode);
        // Made while we record: its counters began at zero.
        let young = seen.is_none() && self.rounds > 0;
        // A namespace that is new to us is dumped whole, like all in the first round.
        let walked = seen.map(|s| s.walked_jiffies);
        let walks = last || seen.is_none_or(|s| s.is_due(self.options.interval));
        let (sockets, counters) = (&mut self.sockets, &mut self.counters);
        let (settings, setting_rows) = (&mut self.settings, &mut self.setting_rows);
        let (socket_rows, counter_rows) = (&mut self.socket_rows, &mut self.counter_rows);
        let mut listeners = HashSet::new();
        let began = Instant::now();
        let visited = self.home.visit(found, || {
            counters.sample(inode, young, counter_rows)?;
            settings.of_namespace(inode, setting_rows)?;
            if !walks {
                return Ok(None);
            }
            let began = Instant::now();
            let walk = sockets.dump(walked, socket_rows, |inode| {
                listeners.insert(inode);
            })?;
            Ok::<_, Error>(Some((walk, began.elapsed())))
        });
        let walk = match visited {
            Ok(result) => result?,
            // It may have ended between finding and visiting it.
            Err(why) => {
                if self.told.insert(inode) {
                    let name = &found.namespace.name;
                    let detail = format!("namespace {name} could not be visited: {why}");
                    self.health
                        .say(SourceName::Sockets, HealthKind::Partial, 1, detail)?;
                }
                return Ok(false);
            }
        };
        let Some((walk, took)) = walk else {
            return Ok(false);
        };
        self.longest.snapshot = self.longest.snapshot.max(took);
        let walked_jiffies = self.sockets.last_dump();
        let seen = match self.seen.entry(inode) {
            Entry::Vacant(new) => {
                let new_listener = !listeners.is_empty();
                new.insert(Seen {
                    namespace: found.namespace.clone(),
                    // Not of this walk, which was over everything.
                    pace: Pace::new(self.options.interval, most),
                    walked: began,
                    walked_jiffies,
                    listeners,
                });
                return Ok(new_listener);
            }
            Entry::Occupied(seen) => seen.into_mut(),
        };
        let new_listener = !listeners.is_subset(&seen.listeners);
        seen.listeners = listeners;
        seen.walked = began;
        seen.walked_jiffies = walked_jiffies;
        seen.pace.most = most;
        if let Some(detail) = seen.pace.used(walk) {
            let name = &seen.namespace.name;
            let detail = format!("a walk over the sockets of namespace {name} {detail}");
            self.health
                .say(SourceName::Sockets, HealthKind::Slowed, 0, detail)?;
        }
        Ok(new_listener)
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
            namespaces: self.seen.values().map(|s| s.namespace.clone()).collect(),
            longest: self.longest,
        }
    }
}

/// The sampled sources; what is not of processes works whenever sampling works at all.
pub fn sources(holders: Verdict) -> Vec<Source> {
    let here = space::pids_verdict();
    let holders = match &here {
        Verdict::Attached => holders,
        not_here => not_here.clone(),
    };
    vec![
        Source::optional(
            SourceName::Namespaces,
            "network namespaces other than the own",
            match rights::may_visit() {
                true => here.clone(),
                false => Verdict::Unsupported(
                    "this process lacks CAP_SYS_ADMIN (to enter them): only the own is recorded"
                        .into(),
                ),
            },
        ),
        Source::required(
            SourceName::Sockets,
            "every TCP socket with all of tcp_info, listeners with their queues, TIME_WAIT",
            Verdict::Attached,
        ),
        Source::optional(
            SourceName::Holders,
            "which processes hold which sockets, also those older than the recording",
            holders,
        ),
        Source::required(
            SourceName::Counters,
            "every SNMP and TcpExt counter of every network namespace",
            Verdict::Attached,
        ),
        Source::required(
            SourceName::Settings,
            "the sysctls that matter to TCP",
            Verdict::Attached,
        ),
        Source::optional(
            SourceName::Processes,
            "state and CPU time of the processes that listen",
            here,
        ),
    ]
}
