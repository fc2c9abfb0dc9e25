//! The thread that samples: visits every namespace and reads sockets, counters and settings.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::OpenObject;
use recording::tables::{Cgroup, Counter, Holder, InterfaceAddress, Process, Setting};
use recording::{HealthKind, Namespace, SourceName, TableWriter, Verdict, Writer};

use crate::addresses::Addresses;
use crate::cgroups::Cgroups;
use crate::counters::Counters;
use crate::error::Error;
use crate::health::HealthLog;
use crate::holders::{Holders, Of};
use crate::host_names::HostNames;
use crate::kernel::{KernelBtf, Names, hz};
use crate::netns::{self, Found, Home};
use crate::pace::{Allowance, Pace, thread_cpu};
use crate::patience::Patience;
use crate::processes::Processes;
use crate::procfile::ProcFile;
use crate::sampled::sources;
use crate::settings::Settings;
use crate::sockets::{Decoder, SocketRows, Sockets};
use crate::sockstat;
use crate::space;
use crate::walks::Walks;
use crate::worker::{Control, Longest, Report};

/// What to sample and how often.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// Namespaces to visit; empty means all.
    pub netns: Vec<u32>,
    /// Time between samples.
    pub interval: Duration,
    /// How much of a CPU they may use.
    pub allowance: Allowance,
    /// Random numbers behind the ids of sockets.
    pub sock_key: [u64; 2],
}

/// A round may use one part in so many of a CPU, besides its walks over sockets.
const MOST: u32 = 50;
/// Sysctls are read every so many rounds: each costs a search among those of the same name, one a namespace.
const SETTINGS_EVERY: u64 = 5;
/// Open files of all tasks are walked every so many rounds, and whenever a listener is new.
const HOLDERS_EVERY: u64 = 5;
/// Directories of cgroups are walked every so many rounds: hosts have thousands.
const CGROUPS_EVERY: u64 = 60;

/// Accept queues are looked at so often between two samples, and one part in so many of a CPU is for that: whoever waits
/// for accept() as long as a person notices is seen.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Of those that come later than this some are missed.
const LATE_LOOK: Duration = Duration::from_millis(200);
const MOST_LOOKS: u32 = 500;

/// Samples until told to stop; its programs are loaded before the recording begins, its first round is after that.
pub fn sample(
    options: &SampleOptions,
    writer: &Writer,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let (mut sockets, mut holders) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut sampler = Sampler::new(options, writer, health, &mut sockets, &mut holders)?;
    control.begin(|| Ok(()))?;
    sampler.round(control.beginning())?;
    control.ready(sampler.report());
    let mut pace = Pace::new(options.interval, MOST, options.allowance);
    let mut looks = Pace::new(LOOK_EVERY, MOST_LOOKS, options.allowance);
    loop {
        let stopping = sampler.look(control, pace.interval, &mut looks)?;
        pace.begin();
        sampler.round(control.round(stopping))?;
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
    addresses: Addresses,
    names: HostNames,
    cgroups: Cgroups,
    socket_rows: SocketRows,
    holder_rows: TableWriter<Holder>,
    process_rows: TableWriter<Process>,
    counter_rows: TableWriter<Counter>,
    setting_rows: TableWriter<Setting>,
    address_rows: TableWriter<InterfaceAddress>,
    cgroup_rows: TableWriter<Cgroup>,
    file: ProcFile,
    walks: Walks,
    seen: BTreeMap<u32, Seen>,
    /// Namespaces that could not be visited, told once each.
    told: HashSet<u32>,
    /// Namespaces that are as old as the recording and were not visited yet: it took too long.
    older: HashSet<u32>,
    /// That some are visited in turn was said.
    in_turn: bool,
    /// Processes that hold listeners.
    servers: BTreeSet<u32>,
    processes: Processes,
    rounds: u64,
    /// When the last round began.
    round_began: Instant,
    longest: Longest,
}

/// A namespace that was visited.
struct Seen {
    namespace: Namespace,
    /// When it was visited last, and whether there was nothing in it: no sockets, no packets since the time before.
    visited: Instant,
    idle: bool,
    /// The last walk over its sockets; none as long as it had none.
    walked: Option<Walked>,
    /// It has sockets, which were not walked in this round yet.
    due: bool,
    /// Whether a packet came or went since then.
    moved: bool,
    /// Whether its settings were read.
    settled: bool,
    /// Inodes of its listeners.
    listeners: HashSet<u64>,
}

/// A walk over the sockets of a namespace.
struct Walked {
    /// When it began.
    at: Instant,
    /// The same in jiffies: the next walk leaves out what has not moved since.
    jiffies: u32,
    /// CPU time that it used; of the first one, which is over everything, nothing follows for later ones.
    cpu: Duration,
}

/// What one walk found.
struct Walk {
    began: Instant,
    cpu: Duration,
    listeners: HashSet<u64>,
    /// It came to its end.
    whole: bool,
}

impl Walk {
    /// Over the sockets of the calling thread's namespace, of those that moved since so many jiffies.
    fn over(
        sockets: &mut Sockets,
        since: Option<u32>,
        rows: &mut SocketRows,
        patience: Patience,
    ) -> Result<Walk, Error> {
        let (began, mut listeners) = (Instant::now(), HashSet::new());
        let (cpu, whole) = sockets.dump(since, rows, patience, |inode| {
            listeners.insert(inode);
        })?;
        Ok(Walk {
            began,
            cpu,
            listeners,
            whole,
        })
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
            sockets: Sockets::load(sockets, options.sock_key, &btf, options.interval, decoder)?,
            holders: Holders::load(holders, Of::Streams),
            counters: Counters::default(),
            settings: Settings::default(),
            addresses: Addresses::default(),
            names: HostNames::new(writer.table()?),
            cgroups: Cgroups::default(),
            socket_rows: SocketRows {
                sockets: writer.table()?,
                listeners: writer.table()?,
            },
            holder_rows: writer.table()?,
            process_rows: writer.table()?,
            counter_rows: writer.table()?,
            setting_rows: writer.table()?,
            address_rows: writer.table()?,
            cgroup_rows: writer.table()?,
            file: ProcFile::default(),
            walks: Walks::new(options.interval, options.allowance),
            seen: BTreeMap::new(),
            told: HashSet::new(),
            older: HashSet::new(),
            in_turn: false,
            servers: BTreeSet::new(),
            processes: Processes::default(),
            rounds: 0,
            round_began: Instant::now(),
            longest: Longest::default(),
        })
    }

    /// Looks at accept queues until it is time to sample or to stop; whether it is to stop.
    fn look(&self, control: &Control, time: Duration, pace: &mut Pace) -> Result<bool, Error> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if control.stopping(left.min(pace.interval)) {
                return Ok(true);
            }
            if left <= pace.interval {
                return Ok(false);
            }
            pace.begin();
            self.sockets.look()?;
            let slowed = pace.end();
            // One that is dear by chance makes the next one late, and no more.
            if let Some(detail) = slowed.filter(|_| pace.interval > LATE_LOOK) {
                let detail = format!("a look at all accept queues {detail}");
                self.health
                    .say(SourceName::AcceptWaits, HealthKind::Slowed, 0, detail)?;
            }
        }
    }

    /// One sample of everything that is due; in the last round of everything.
    fn round(&mut self, patience: Patience) -> Result<(), Error> {
        let since = Instant::now();
        let mut new_listener = false;
        let mut namespaces = netns::find();
        let wanted = &self.options.netns;
        namespaces.retain(|inode, _| wanted.is_empty() || wanted.contains(inode));
        let (whole, last) = (patience.is_whole(), patience.is_last());
        if self.rounds == 0 {
            self.older = namespaces.keys().copied().collect();
        }
        self.older.retain(|inode| namespaces.contains_key(inode));
        self.counters
            .forget(|netns| namespaces.contains_key(&netns));
        self.settings
            .forget(|netns| namespaces.contains_key(&netns));
        let after = since.saturating_duration_since(self.round_began);
        self.walks.begin(after, whole);
        self.round_began = since;
        let left_out = self.visits(&namespaces, patience.half())?;
        if whole && left_out > 0 {
            let detail = if last {
                "network namespaces that were not looked at once more at the end: it took too long"
            } else {
                "network namespaces that are looked at later: it took too long at the beginning"
            };
            self.health
                .say(SourceName::Counters, HealthKind::Partial, left_out, detail)?;
        }
        // All have been asked whether something moved: after those that were never walked, those where it did go first.
        let mut due: Vec<(bool, bool, Option<Instant>, &Found)> = Vec::new();
        for found in namespaces.values() {
            let seen = self.seen.get(&found.namespace.inode);
            let Some(seen) = seen.filter(|seen| seen.due) else {
                continue;
            };
            let walked = seen.walked.as_ref();
            self.walks.wants(walked.map_or(Duration::ZERO, |w| w.cpu));
            due.push((walked.is_some(), !seen.moved, walked.map(|w| w.at), found));
        }
        due.sort_by_key(|(walked, still, at, _)| (*walked, *still, *at));
        let mut left_out = 0;
        for (_, still, at, found) in due {
            let allowed = self.walks.allow(at.map(|at| at.elapsed()), !still);
            if allowed && !patience.is_over() {
                new_listener |= self.walk(found, patience.within())?;
            } else {
                left_out += 1;
            }
        }
        if whole && left_out > 0 {
            let detail = if last {
                "network namespaces whose sockets were not walked once more at the end: it took too long"
            } else {
                "network namespaces whose sockets are walked later: it took too long at the beginning"
            };
            self.health
                .say(SourceName::Sockets, HealthKind::Partial, left_out, detail)?;
        }
        let unwatched = self.sockets.newly_unwatched();
        if whole && unwatched > 0 {
            self.health.say(
                SourceName::AcceptWaits,
                HealthKind::Partial,
                unwatched,
                "listeners whose accept queues are seen in samples alone: there are more than are looked at",
            )?;
        }
        if let Some(detail) = self.walks.end() {
            self.health
                .say(SourceName::Sockets, HealthKind::Slowed, 0, detail)?;
        }
        self.settings.of_host(&mut self.setting_rows)?;
        if last || self.rounds.is_multiple_of(SETTINGS_EVERY) {
            self.settings.of_interfaces(&mut self.setting_rows)?;
        }
        if (new_listener || last || self.rounds.is_multiple_of(HOLDERS_EVERY))
            && let Ok(holders) = &mut self.holders
        {
            self.servers.clear();
            let there = self
                .seen
                .values()
                .filter(|s| namespaces.contains_key(&s.namespace.inode));
            let listeners: HashSet<u64> = there.flat_map(|s| s.listeners.iter().copied()).collect();
            let (servers, names) = (&mut self.servers, &mut self.names);
            holders.dump(&mut self.holder_rows, |inode, pid| {
                names.holds(pid);
                if listeners.contains(&inode) {
                    servers.insert(pid);
                }
            })?;
        }
        self.names.sample()?;
        if space::pids_are_ours() {
            self.processes
                .sample(&self.servers, &mut self.process_rows, self.health)?;
            if last || self.rounds.is_multiple_of(CGROUPS_EVERY) {
                self.cgroups.sample(&mut self.cgroup_rows)?;
            }
        }
        self.rounds += 1;
        self.longest.round = self.longest.round.max(since.elapsed());
        self.seal_if_due()
    }

    /// Visits the namespaces: in a round over everything all of them, else those with sockets or packets, and of the
    /// others in turn as many as a round may take. How many it did not come to.
    fn visits(
        &mut self,
        namespaces: &BTreeMap<u32, Found>,
        patience: Patience,
    ) -> Result<u64, Error> {
        let began = thread_cpu();
        let most = self.options.interval / self.options.allowance.part_in(MOST);
        // Those where nothing was when they were visited last come last, in turn; after the first round a namespace
        // that was never visited is one that may just have begun to work.
        let mut turns: Vec<(bool, Option<Instant>, &Found)> = namespaces
            .values()
            .map(|found| {
                let seen = self.seen.get(&found.namespace.inode);
                let idle = seen.is_some_and(|seen| seen.idle);
                (idle, seen.map(|seen| seen.visited), found)
            })
            .collect();
        turns.sort_by_key(|(idle, visited, _)| (*idle, *visited));
        let mut left_out = 0;
        for (idle, _, found) in turns {
            let spent = || idle && thread_cpu().saturating_sub(began) >= most;
            if patience.is_over() || !patience.is_whole() && spent() {
                left_out += 1;
                continue;
            }
            self.namespace(found, patience.is_last())?;
        }
        let in_turn = !patience.is_whole() && left_out > 0 && !patience.is_over();
        if in_turn && !std::mem::replace(&mut self.in_turn, true) {
            let detail = "network namespaces in which nothing happens are looked at in turn";
            self.health
                .say(SourceName::Sockets, HealthKind::Slowed, 0, detail)?;
        }
        Ok(left_out)
    }

    /// One sample of one namespace, from inside it: all but its sockets.
    fn namespace(&mut self, found: &Found, last: bool) -> Result<(), Error> {
        let inode = found.namespace.inode;
        let seen = self.seen.get(&inode);
        let was_seen = seen.is_some();
        // Made while we record: its counters began at zero.
        let young = !was_seen && !self.older.contains(&inode);
        let settled = seen.is_some_and(|s| s.settled);
        let settings_due = last || !settled || self.rounds.is_multiple_of(SETTINGS_EVERY);
        let (counters, counter_rows) = (&mut self.counters, &mut self.counter_rows);
        let (settings, setting_rows) = (&mut self.settings, &mut self.setting_rows);
        let (addresses, address_rows) = (&mut self.addresses, &mut self.address_rows);
        let health = self.health;
        let file = &mut self.file;
        let visited = self.home.visit(found, || {
            let empty = sockstat::sockets(file) == Some(0);
            let counted = counters.sample(inode, young, empty, counter_rows)?;
            // What it counted before the recording moved nothing while we watch.
            let came = counted.moved && was_seen;
            if (settings_due || counted.another) && (came || !empty) {
                settings.of_namespace(inode, setting_rows)?;
                addresses.of_namespace(inode, address_rows, health)?;
            }
            Ok::<_, Error>((empty, came, counted.another))
        });
        let (empty, came, another) = match visited {
            Ok(result) => result?,
            Err(why) => {
                self.could_not_be_visited(found, &why)?;
                if let Some(seen) = self.seen.get_mut(&inode) {
                    (seen.due, seen.visited) = (false, Instant::now());
                }
                return Ok(());
            }
        };
        let new = || Seen {
            namespace: found.namespace.clone(),
            visited: Instant::now(),
            idle: false,
            walked: None,
            due: false,
            moved: false,
            settled: false,
            listeners: HashSet::new(),
        };
        let seen = self.seen.entry(inode).or_insert_with(new);
        if another {
            *seen = new();
        }
        self.older.remove(&inode);
        seen.visited = Instant::now();
        seen.idle = empty && !came;
        seen.moved |= came;
        seen.settled |= came || !empty;
        seen.due = !empty;
        Ok(())
    }

    /// Walks the sockets of a namespace: whole where that was never done. Whether there is a new listener.
    fn walk(&mut self, found: &Found, patience: Patience) -> Result<bool, Error> {
        let inode = found.namespace.inode;
        let seen = self.seen.get(&inode);
        let jiffies = seen.and_then(|s| Some(s.walked.as_ref()?.jiffies));
        let (sockets, rows) = (&mut self.sockets, &mut self.socket_rows);
        match self
            .home
            .visit(found, || Walk::over(sockets, jiffies, rows, patience))
        {
            Ok(walk) => {
                let walk = walk?;
                if !walk.whole {
                    let name = &found.namespace.name;
                    let detail = format!("a walk over the sockets of {name} was broken off");
                    self.health
                        .say(SourceName::Sockets, HealthKind::Partial, 1, detail)?;
                    return Ok(false);
                }
                Ok(self.walked(inode, walk))
            }
            Err(why) => self.could_not_be_visited(found, &why).map(|()| false),
        }
    }

    /// What a walk over the sockets of a visited namespace leaves behind. Whether there is a new listener.
    fn walked(&mut self, inode: u32, walk: Walk) -> bool {
        self.longest.snapshot = self.longest.snapshot.max(walk.began.elapsed());
        let Some(seen) = self.seen.get_mut(&inode) else {
            return false;
        };
        self.walks.used(walk.cpu);
        let cpu = seen.walked.as_ref().map_or(Duration::ZERO, |_| walk.cpu);
        let new_listener = !walk.listeners.is_subset(&seen.listeners);
        seen.listeners = walk.listeners;
        (seen.moved, seen.due) = (false, false);
        seen.walked = Some(Walked {
            at: walk.began,
            jiffies: self.sockets.last_dump(),
            cpu,
        });
        new_listener
    }

    /// It may have ended between finding and visiting it: then nothing is missing.
    fn could_not_be_visited(&mut self, found: &Found, why: &io::Error) -> Result<(), Error> {
        if netns::is_gone(why) || !self.told.insert(found.namespace.inode) {
            return Ok(());
        }
        let name = &found.namespace.name;
        let detail = format!("namespace {name} could not be visited: {why}");
        Ok(self
            .health
            .say(SourceName::Sockets, HealthKind::Partial, 1, detail)?)
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        self.socket_rows.sockets.seal_if_due()?;
        self.socket_rows.listeners.seal_if_due()?;
        self.holder_rows.seal_if_due()?;
        self.process_rows.seal_if_due()?;
        self.counter_rows.seal_if_due()?;
        self.address_rows.seal_if_due()?;
        self.cgroup_rows.seal_if_due()?;
        Ok(self.setting_rows.seal_if_due()?)
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.socket_rows.sockets.seal()?;
        self.socket_rows.listeners.seal()?;
        self.holder_rows.seal()?;
        self.process_rows.seal()?;
        self.counter_rows.seal()?;
        self.address_rows.seal()?;
        self.cgroup_rows.seal()?;
        self.names.seal()?;
        Ok(self.setting_rows.seal()?)
    }

    fn report(&self) -> Report {
        let holders = match &self.holders {
            Ok(_) => Verdict::Attached,
            Err(e) => Verdict::Failed(e.reason()),
        };
        Report {
            sources: sources(self.sockets.may_look(), holders),
            namespaces: self.seen.values().map(|s| s.namespace.clone()).collect(),
            longest: self.longest,
        }
    }
}
