//! Who waited for a name server, for which, and how long: threads that polled or read a UDP socket to port 53.

use std::collections::{BTreeMap, BTreeSet};

use analysis::words::{count, duration, list};
use analysis::{Endpoint, Story, Waited};
use recording::{Addr, Filter, Manifest, Waker};

use crate::limits;

/// Name servers and processes that are told by name.
const SHOWN_SERVERS: usize = 3;
const SHOWN_PIDS: usize = 3;

/// The waits of one program in one namespace.
#[derive(Debug, Default)]
pub(crate) struct NameWaits {
    comm: String,
    /// What runs the first of them.
    home: Option<String>,
    pids: BTreeSet<u32>,
    servers: BTreeSet<Addr>,
    waits: u64,
    /// Those that a timer ended.
    unanswered: u64,
    total_ns: u64,
    longest_ns: u64,
}

/// The program that waited longest, if that is worth a word: a second in all, or, of who was asked about, as much as
/// people notice.
pub(crate) fn name_waits(story: &Story, manifest: &Manifest, filter: &Filter) -> Option<NameWaits> {
    let mut programs: BTreeMap<(u32, &str), NameWaits> = BTreeMap::new();
    for wait in &story.waits.all {
        let Some(server) = wait.name_server else {
            continue;
        };
        let its = filter.task_ok(Some(wait.pid), Some(&wait.comm), Some(wait.cgroup));
        if its && filter.netns_ok(wait.netns) && wait.waited_ns >= limits::NOTICED.ns() {
            let program = programs.entry((wait.netns, &wait.comm)).or_default();
            program.add(wait, server);
            let home = story.homes.of(wait.pid).map(String::from);
            program.home = program.home.take().or(home);
        }
    }
    let asked = filter.asks_for_tasks() || manifest.asked.asks_for_tasks();
    let command = manifest.ran.map(|ran| ran.pid);
    let worth = programs.into_values().filter(|program| {
        let of_command = command.is_some_and(|pid| program.pids.range(pid..).next().is_some());
        asked || of_command || program.total_ns >= limits::ASKED_ABOUT.ns()
    });
    worth.max_by_key(|program| program.total_ns)
}

impl NameWaits {
    fn add(&mut self, wait: &Waited, server: Addr) {
        if self.comm.is_empty() {
            self.comm = wait.comm.to_string();
        }
        self.pids.insert(wait.pid);
        self.servers.insert(server);
        self.waits += 1;
        self.unanswered += u64::from(is_unanswered(wait));
        self.total_ns = self.total_ns.saturating_add(wait.waited_ns);
        self.longest_ns = self.longest_ns.max(wait.waited_ns);
    }

    pub(crate) fn total_s(&self) -> f64 {
        self.total_ns as f64 / 1e9
    }

    /// How often.
    pub(crate) fn count(&self) -> u64 {
        self.waits
    }

    /// Who, for which, how long, and whether there was an answer; a sentence without its full stop.
    pub(crate) fn says(&self) -> String {
        let mut pids: Vec<String> = self
            .pids
            .iter()
            .take(SHOWN_PIDS)
            .map(u32::to_string)
            .collect();
        if self.pids.len() > SHOWN_PIDS {
            pids.push("…".into());
        }
        let who = match self.pids.len() {
            1 => {
                let home = self.home.as_ref();
                let home = home.map_or(String::new(), |home| format!(", {home}"));
                format!("{} (pid {}{home})", self.comm, pids.join(""))
            }
            n => format!(
                "{} {} processes ({})",
                count(n as u64),
                self.comm,
                pids.join(", ")
            ),
        };
        let servers = self.servers.iter().take(SHOWN_SERVERS);
        let servers: Vec<String> = servers.map(|addr| at(*addr)).collect();
        let (servers, kind) = match self.servers.len() {
            1 => (servers.join(""), "a name server"),
            n if n > SHOWN_SERVERS => {
                (format!("{} and others", servers.join(", ")), "name servers")
            }
            _ => (list(&servers), "name servers"),
        };
        let several = match self.waits {
            1 => String::new(),
            n => format!(
                ", {} times, {} at most",
                count(n),
                duration(self.longest_ns)
            ),
        };
        let answer = match self.unanswered {
            0 => String::new(),
            n if n == self.waits && n == 1 => "; no answer came".into(),
            n if n == self.waits => "; no answer came in any of them".into(),
            n => format!("; no answer came in {} of them", count(n)),
        };
        format!(
            "{who} waited {} for {servers} (UDP, {kind}){several}{answer}",
            duration(self.total_ns)
        )
    }
}

/// Whether a timer ended it: the resolver gave up, or asks again.
pub(crate) fn is_unanswered(wait: &Waited) -> bool {
    wait.waker == Waker::Timer
}

/// A name server as it is told: the recorder looks for this port alone.
pub(crate) fn at(server: Addr) -> String {
    Endpoint::new(server, 53).to_string()
}

#[cfg(test)]
mod tests;
