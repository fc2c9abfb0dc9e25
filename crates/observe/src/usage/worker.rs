//! The thread that reads how much of the host is used: CPUs, interrupts, the USE checklist.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::OpenObject;
use recording::{HealthKind, Namespace, SourceName, Verdict, Writer, monotonic_ns};

use super::cpus::Cpus;
use super::disks::Disks;
use super::hierarchy::{self, Hierarchy};
use super::interfaces::{self, Speeds};
use super::interrupts::Interrupts;
use super::lines::Lines;
use super::owners::Owners;
use super::socket_memory::MostTimeWait;
use super::sources::sources;
use super::{cgroups, descriptors, memory, pressure, socket_memory};
use crate::error::Error;
use crate::health::HealthLog;
use crate::netns::{self, Found, Home};
use crate::pace::{Allowance, Pace, thread_cpu};
use crate::patience::Patience;
use crate::procfile::ProcFile;
use crate::space;
use crate::worker::{Control, Report};

/// What to read and how often.
#[derive(Clone, Debug)]
pub struct UsageOptions {
    /// Namespaces to visit; empty means all.
    pub netns: Vec<u32>,
    /// Time between rounds.
    pub interval: Duration,
    /// How much of a CPU they may use.
    pub allowance: Allowance,
}

/// A round may use one part in so many of a CPU.
const MOST: u32 = 50;
/// Namespaces, processes and cgroups are looked for anew this often: that takes a walk over all
/// processes and their open files.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(5);
/// Processes with the most sockets whose descriptors and cgroups are read; listeners go first.
const MAX_PROCESSES: usize = 256;

/// Reads until told to stop; its first round is when the recording has begun.
pub fn watch_usage(
    options: &UsageOptions,
    writer: &Writer,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut owners = MaybeUninit::uninit();
    let mut usage = Usage::new(options, writer, health, &mut owners)?;
    let mut pace = Pace::new(options.interval, MOST, options.allowance);
    control.begin(|| Ok(()))?;
    usage.round(control.beginning())?;
    // Someone may be watching: the first round holds what later ones only change.
    usage.seal()?;
    control.ready(usage.report());
    loop {
        let stopping = control.stopping(pace.interval);
        pace.begin();
        if stopping {
            usage.looked_around = None; // a last look at processes and cgroups, too
        }
        usage.round(control.round(stopping))?;
        if stopping {
            usage.seal()?;
            return Ok(usage.report());
        }
        if let Some(detail) = pace.end() {
            health.say(
                SourceName::Resources,
                HealthKind::Slowed,
                0,
                format!("a round over all resources {detail}"),
            )?;
        }
    }
}

struct Usage<'a, 'o> {
    options: &'a UsageOptions,
    health: &'a HealthLog,
    home: Home,
    /// Inode of the namespace that we were started in.
    home_inode: Option<u32>,
    file: ProcFile,
    cpus: Cpus,
    interrupts: Interrupts,
    lines: Lines,
    disks: Disks,
    speeds: Speeds,
    most_time_wait: MostTimeWait,
    owners: Result<Owners<'o>, Error>,
    hierarchies: Vec<Hierarchy>,
    /// Whose turn it is comes first.
    namespaces: VecDeque<Found>,
    looked_around: Option<Instant>,
    seen: BTreeMap<u32, Namespace>,
    /// What could not be read, told once each.
    told: HashSet<String>,
}

impl<'a, 'o> Usage<'a, 'o> {
    fn new(
        options: &'a UsageOptions,
        writer: &Writer,
        health: &'a HealthLog,
        owners: &'o mut MaybeUninit<OpenObject>,
    ) -> Result<Self, Error> {
        let home = Home::remember().map_err(|why| Error::System {
            what: "opening the own network namespace".into(),
            why,
        })?;
        Ok(Usage {
            options,
            health,
            home_inode: home.inode(),
            home,
            hierarchies: hierarchy::mounted(),
            file: ProcFile::default(),
            cpus: Cpus::new(writer.table()?),
            interrupts: Interrupts::new(writer.table()?),
            lines: Lines::new(writer.table()?),
            disks: Disks::default(),
            speeds: Speeds::default(),
            most_time_wait: MostTimeWait::default(),
            owners: Owners::load(owners),
            namespaces: VecDeque::new(),
            looked_around: None,
            seen: BTreeMap::new(),
            told: HashSet::new(),
        })
    }

    /// One reading of everything; of namespaces other than the own in turn as many as a round may take.
    fn round(&mut self, patience: Patience) -> Result<(), Error> {
        let due = |at: Instant| at.elapsed() >= LOOK_AROUND_EVERY;
        let look_around = self.looked_around.is_none_or(due);
        if look_around {
            self.looked_around = Some(Instant::now());
            self.look_for_namespaces();
            self.speeds.forget();
            self.most_time_wait.forget();
        }
        self.lines.begin(monotonic_ns());
        let cpus = self.cpus.sample(&mut self.lines)?;
        self.interrupts.sample()?;
        let (file, lines) = (&mut self.file, &mut self.lines);
        pressure::sample(file, lines, cpus)?;
        memory::sample(file, lines)?;
        self.disks.sample(file, lines)?;
        interfaces::of_host(file, lines)?;
        socket_memory::of_host(file, lines)?;
        descriptors::of_host(file, lines)?;
        self.visits(patience)?;
        if look_around && space::pids_are_ours() {
            self.processes()?;
        }
        self.cpus.seal_if_due()?;
        self.interrupts.seal_if_due()?;
        self.lines.seal_if_due()
    }

    /// Those that are known keep their turns.
    fn look_for_namespaces(&mut self) {
        let mut found = netns::find();
        let wanted = &self.options.netns;
        found.retain(|inode, _| wanted.is_empty() || wanted.contains(inode));
        let known = std::mem::take(&mut self.namespaces).into_iter();
        let known: Vec<Found> = known
            .filter_map(|f| found.remove(&f.namespace.inode))
            .collect();
        // New ones first.
        self.namespaces = found.into_values().chain(known).collect();
    }

    /// The lines of the own namespace, and of others until the round has taken what it may.
    fn visits(&mut self, patience: Patience) -> Result<(), Error> {
        let began = thread_cpu();
        let most = self.options.interval / self.options.allowance.part_in(MOST);
        let own = self.home_inode;
        let is_own = |f: &Found| Some(f.namespace.inode) == own;
        if let Some(at) = self.namespaces.iter().position(is_own)
            && let Some(home) = self.namespaces.remove(at)
        {
            self.namespaces.push_front(home);
        }
        let all = self.namespaces.len();
        for nth in 0..all {
            let spent = thread_cpu().saturating_sub(began) >= most;
            if nth > 0 && (patience.is_over() || !patience.is_whole() && spent) {
                let left = all - nth;
                return self.left_out(left as u64, patience);
            }
            if let Some(found) = self.namespaces.pop_front()
                && self.namespace(&found)?
            {
                self.namespaces.push_back(found);
            }
        }
        Ok(())
    }

    fn left_out(&mut self, left: u64, patience: Patience) -> Result<(), Error> {
        let detail = match (patience.is_whole(), patience.is_last()) {
            (true, true) => {
                "network namespaces whose interfaces were not read once more at the end: it took too long"
            }
            (true, false) => {
                "network namespaces whose interfaces are read later: it took too long at the beginning"
            }
            // Told to end: the last round follows.
            (false, _) if patience.is_over() => return Ok(()),
            (false, _) => {
                return self.tell_once("interfaces of network namespaces are read in turn".into());
            }
        };
        Ok(self
            .health
            .say(SourceName::Resources, HealthKind::Partial, left, detail)?)
    }

    /// The lines of one namespace, read from inside it; whether it is there.
    fn namespace(&mut self, found: &Found) -> Result<bool, Error> {
        let inode = found.namespace.inode;
        let (file, lines) = (&mut self.file, &mut self.lines);
        let speeds = (self.home_inode == Some(inode)).then_some(&mut self.speeds);
        let most_time_wait = &mut self.most_time_wait;
        let visited = self.home.visit(found, || {
            interfaces::sample(file, lines, inode, speeds)?;
            socket_memory::of_namespace(file, lines, inode, most_time_wait)
        });
        match visited {
            Ok(result) => result?,
            // It may have ended since it was found: looked for again in a moment.
            Err(why) => {
                if !netns::is_gone(&why) {
                    let name = &found.namespace.name;
                    self.tell_once(format!("namespace {name} could not be visited: {why}"))?;
                }
                return Ok(false);
            }
        }
        let seen = self.seen.entry(inode);
        seen.or_insert_with(|| found.namespace.clone());
        Ok(true)
    }

    /// The lines of processes that hold sockets, and of their cgroups.
    fn processes(&mut self) -> Result<(), Error> {
        let Ok(owners) = &mut self.owners else {
            return Ok(());
        };
        let owners = owners.walk()?;
        let mut pids: Vec<u32> = owners.keys().copied().collect();
        pids.sort_by_key(|pid| {
            let o = &owners[pid];
            std::cmp::Reverse((o.listeners > 0, o.sockets, *pid))
        });
        let beyond = pids.len().saturating_sub(MAX_PROCESSES);
        pids.truncate(MAX_PROCESSES);
        let (file, lines) = (&mut self.file, &mut self.lines);
        descriptors::of_processes(file, lines, &owners, &pids)?;
        let hidden = cgroups::sample(file, lines, &self.hierarchies, &pids)?;
        if beyond > 0 {
            self.tell_once(format!(
                "only the {MAX_PROCESSES} processes with the most sockets are looked at"
            ))?;
        }
        if hidden > 0 {
            self.tell_once("more cgroups hold sockets than are looked at".into())?;
        }
        Ok(())
    }

    fn tell_once(&mut self, detail: String) -> Result<(), Error> {
        /// Namespaces may come and go for days.
        const MOST: usize = 1000;
        if self.told.len() < MOST && self.told.insert(detail.clone()) {
            self.health
                .say(SourceName::Resources, HealthKind::Partial, 1, detail)?;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.cpus.seal()?;
        self.interrupts.seal()?;
        self.lines.seal()
    }

    fn report(&self) -> Report {
        let owners = match &self.owners {
            Ok(_) => Verdict::Attached,
            Err(e) => Verdict::Failed(e.reason()),
        };
        Report {
            sources: sources(owners, &self.hierarchies),
            namespaces: self.seen.values().cloned().collect(),
            ..Report::default()
        }
    }
}
