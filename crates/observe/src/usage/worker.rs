//! The thread that reads how much of the host is used: CPUs, interrupts, the USE checklist.

use std::collections::{BTreeMap, HashSet};
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
use crate::pace::{Allowance, Pace};
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

/// Reads until told to stop; ready after the first round.
pub fn watch_usage(
    options: &UsageOptions,
    writer: &Writer,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut owners = MaybeUninit::uninit();
    let mut usage = Usage::new(options, writer, health, &mut owners)?;
    let mut pace = Pace::new(options.interval, MOST, options.allowance);
    usage.round()?;
    // Someone may be watching: the first round holds what later ones only change.
    usage.seal()?;
    control.ready(usage.report());
    loop {
        let stopping = control.stopping(pace.interval);
        pace.begin();
        if stopping {
            usage.looked_around = None; // a last look at processes and cgroups, too
        }
        usage.round()?;
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
    namespaces: Vec<Found>,
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
        let mut file = ProcFile::default();
        let mounts = file.read("/proc/self/mountinfo");
        let hierarchies = mounts.map(|text| hierarchy::find(&text));
        let home = Home::remember().map_err(|why| Error::System {
            what: "opening the own network namespace".into(),
            why,
        })?;
        Ok(Usage {
            options,
            health,
            home_inode: home.inode(),
            home,
            hierarchies: hierarchies.unwrap_or_default(),
            file,
            cpus: Cpus::new(writer.table()?),
            interrupts: Interrupts::new(writer.table()?),
            lines: Lines::new(writer.table()?),
            disks: Disks::default(),
            speeds: Speeds::default(),
            most_time_wait: MostTimeWait::default(),
            owners: Owners::load(owners),
            namespaces: Vec::new(),
            looked_around: None,
            seen: BTreeMap::new(),
            told: HashSet::new(),
        })
    }

    /// One reading of everything.
    fn round(&mut self) -> Result<(), Error> {
        let due = |at: Instant| at.elapsed() >= LOOK_AROUND_EVERY;
        let look_around = self.looked_around.is_none_or(due);
        if look_around {
            self.looked_around = Some(Instant::now());
            self.namespaces = netns::find().into_values().collect();
            let wanted = &self.options.netns;
            let ours = |f: &Found| wanted.is_empty() || wanted.contains(&f.namespace.inode);
            self.namespaces.retain(ours);
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
        for found in std::mem::take(&mut self.namespaces) {
            if self.namespace(&found)? {
                self.namespaces.push(found);
            }
        }
        if look_around && space::pids_are_ours() {
            self.processes()?;
        }
        self.cpus.seal_if_due()?;
        self.interrupts.seal_if_due()?;
        self.lines.seal_if_due()
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
                let name = &found.namespace.name;
                self.tell_once(format!("namespace {name} could not be visited: {why}"))?;
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
