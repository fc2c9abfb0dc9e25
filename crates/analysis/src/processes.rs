//! Processes that hold listening sockets: who they are and what they did meanwhile.

use std::fmt;

use ahash::{AHashMap, AHashSet};
use recording::tables::{Holder, Process};
use recording::{Error, Recording, RowRef, Text};
use serde::{Deserialize, Serialize};

use crate::bounded::{BoundedMap, Interest};
use crate::conn::ConnId;
use crate::words;

/// What a process did during the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Doing {
    /// Process.
    pub pid: u32,
    /// Its command name.
    pub comm: String,
    /// In one word.
    pub state: ProcessState,
    /// Share of one CPU it used, 0..; null when it was sampled once.
    pub cpu_share: Option<f64>,
    /// The same in words.
    pub says: String,
}

/// What a process did for most of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProcessState {
    /// Stopped (state T), at the end as well.
    Stopped,
    /// Stopped for a time.
    WasStopped,
    /// Blocked in the kernel (state D).
    Blocked,
    /// On a CPU.
    OnCpu,
    /// On a CPU for part of the time.
    Busy,
    /// Asleep.
    Asleep,
    /// It has exited, and its parent has not reaped it.
    Zombie,
    /// It was not sampled.
    Unknown,
}

impl fmt::Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ProcessState::Stopped => "stopped",
            ProcessState::WasStopped => "was-stopped",
            ProcessState::Blocked => "blocked",
            ProcessState::OnCpu => "on-cpu",
            ProcessState::Busy => "busy",
            ProcessState::Asleep => "asleep",
            ProcessState::Zombie => "zombie",
            ProcessState::Unknown => "unknown",
        })
    }
}

/// More processes than this are not followed; a prefork server has hundreds.
const MAX_PROCESSES: usize = 65_536;
/// Using this share of a CPU, a single-threaded server cannot serve more.
const CPU_BOUND: f64 = 0.8;
/// Below this share of a CPU, a process mostly waited.
const MOSTLY_ASLEEP: f64 = 0.05;

/// A process that holds a listening socket.
#[derive(Clone, Debug)]
pub struct Held {
    pub pid: u32,
    pub comm: Text,
    pub row: RowRef,
}

/// Holders of sockets by inode: all of them for some sockets, only the first for others.
#[derive(Debug, Default)]
pub struct Holders {
    pub all: AHashMap<u64, Vec<Held>>,
    pub first: AHashMap<u64, (u32, Text)>,
}

/// All holders of listening sockets, and the first holder of each connection.
pub fn read_holders(
    recording: &Recording,
    listening: &AHashSet<u64>,
    connected: &AHashMap<u64, ConnId>,
) -> Result<Holders, Error> {
    let mut holders = Holders::default();
    let mut held: AHashSet<(u64, u32)> = AHashSet::new();
    for batch in recording.scan::<Holder>()? {
        for (at, row) in batch?.rows() {
            if connected.contains_key(&row.inode) {
                let first = holders.first.entry(row.inode);
                first.or_insert_with(|| (row.pid, row.comm.clone()));
            }
            if !listening.contains(&row.inode) || held.len() >= MAX_PROCESSES {
                continue;
            }
            if held.insert((row.inode, row.pid)) {
                holders.all.entry(row.inode).or_default().push(Held {
                    pid: row.pid,
                    comm: row.comm,
                    row: at,
                });
            }
        }
    }
    Ok(holders)
}

/// What the samples of processes say.
#[derive(Debug, Default)]
pub struct Processes {
    by_pid: BoundedMap<u32, Seen, MAX_PROCESSES>,
}

/// One process.
#[derive(Clone, Debug)]
pub struct Seen {
    pub ppid: u32,
    pub comm: Text,
    pub cmdline: Text,
    /// cgroup v2 path.
    pub cgroup: Text,
    /// The row that shows its state best: one where it was stopped, else the last.
    pub row: RowRef,
    samples: u32,
    stopped: u32,
    stopped_last: bool,
    blocked: u32,
    runnable: u32,
    zombie: bool,
    first: Cpu,
    last: Cpu,
}

/// Processes that were stopped or blocked come first, then busy ones, then those that slept.
impl Interest for Seen {
    fn interest(&self) -> u64 {
        let hung = u64::from(self.stopped) + u64::from(self.blocked);
        let used_ms = self.last.used_ms.saturating_sub(self.first.used_ms);
        hung << 32 | used_ms.min(u32::MAX.into())
    }
    fn counted(&self) -> u64 {
        self.samples.into()
    }
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    time_ns: u64,
    used_ms: u64,
    runqueue_ms: Option<u64>,
}

impl Processes {
    /// The path of each one's cgroup.
    pub(crate) fn cgroups(&self) -> impl Iterator<Item = (u32, &str)> {
        self.by_pid.iter().map(|(pid, seen)| (*pid, &*seen.cgroup))
    }

    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.by_pid.folded()
    }

    pub(crate) fn read(recording: &Recording) -> Result<Processes, Error> {
        let mut processes = Processes::default();
        for batch in recording.scan::<Process>()? {
            for (at, row) in batch?.rows() {
                processes.add(at, row);
            }
        }
        Ok(processes)
    }

    fn add(&mut self, at: RowRef, row: Process) {
        let cpu = Cpu {
            time_ns: row.time_ns,
            used_ms: row.user_ms.saturating_add(row.system_ms),
            runqueue_ms: row.runqueue_ms,
        };
        let state = row.state;
        let seen = self.by_pid.slot(row.pid, || Seen {
            ppid: row.ppid,
            comm: row.comm,
            cmdline: row.cmdline,
            cgroup: row.cgroup_path,
            row: at,
            samples: 0,
            stopped: 0,
            stopped_last: false,
            blocked: 0,
            runnable: 0,
            zombie: false,
            first: cpu,
            last: cpu,
        });
        seen.samples += 1;
        let stopped = matches!(&*state, "T" | "t");
        seen.stopped += u32::from(stopped);
        seen.stopped_last = stopped;
        seen.blocked += u32::from(&*state == "D");
        seen.runnable += u32::from(&*state == "R");
        seen.zombie = &*state == "Z";
        seen.last = cpu;
        if stopped || seen.stopped == 0 {
            seen.row = at;
        }
    }

    /// What was seen of a process.
    pub fn get(&self, pid: u32) -> Option<&Seen> {
        self.by_pid.get(&pid)
    }

    /// What a process did, in a word and in a sentence.
    pub fn doing(&self, pid: u32, comm: &str) -> Doing {
        let Some(seen) = self.get(pid) else {
            return Doing {
                pid,
                comm: comm.to_string(),
                state: ProcessState::Unknown,
                cpu_share: None,
                says: "not sampled".into(),
            };
        };
        let (state, says) = seen.says();
        Doing {
            pid,
            comm: seen.comm.to_string(),
            state,
            cpu_share: seen.cpu_share().map(words::rounded),
            says,
        }
    }
}

impl Seen {
    /// Share of one CPU it used between its samples.
    pub fn cpu_share(&self) -> Option<f64> {
        let ns = self.last.time_ns.checked_sub(self.first.time_ns)?;
        let used = self.last.used_ms.checked_sub(self.first.used_ms)?;
        super::stats::ratio(used as f64, ns as f64 / 1e6)
    }

    fn says(&self) -> (ProcessState, String) {
        let of = self.samples;
        let cpu = self.cpu_share();
        let used = match cpu {
            Some(share) => format!(", {} of one CPU", words::percent(share)),
            None => String::new(),
        };
        if self.zombie {
            return (
                ProcessState::Zombie,
                "has exited, its parent has not reaped it".into(),
            );
        }
        if self.stopped > 0 {
            let n = self.stopped;
            let state = if self.stopped_last {
                ProcessState::Stopped
            } else {
                ProcessState::WasStopped
            };
            return (
                state,
                format!("stopped (state T) in {n} of {of} samples{used}"),
            );
        }
        if self.blocked * 2 > of {
            let n = self.blocked;
            return (
                ProcessState::Blocked,
                format!("blocked in the kernel (state D) in {n} of {of} samples{used}"),
            );
        }
        match cpu {
            Some(share) if share >= CPU_BOUND => (ProcessState::OnCpu, format!("on CPU{used}")),
            Some(share) if share < MOSTLY_ASLEEP => (
                ProcessState::Asleep,
                format!("asleep most of the time{used}"),
            ),
            Some(_) => {
                let waited = self.waited_for_cpu();
                (ProcessState::Busy, format!("partly busy{used}{waited}"))
            }
            None if self.runnable > 0 => {
                (ProcessState::OnCpu, "runnable in its only sample".into())
            }
            None => (ProcessState::Asleep, "asleep in its only sample".into()),
        }
    }

    fn waited_for_cpu(&self) -> String {
        let waited = match (self.first.runqueue_ms, self.last.runqueue_ms) {
            (Some(first), Some(last)) => last.saturating_sub(first),
            _ => 0,
        };
        if waited == 0 {
            return String::new();
        }
        let waited = words::duration(waited.saturating_mul(1_000_000));
        format!(", waited {waited} for a CPU")
    }
}
