//! A scenario made real: its namespaces, links, sysctls, servers and clients, and their end.

mod addresses;
pub(crate) mod cgroup;
mod commands;
pub(crate) mod faults;
mod neighbour;
pub(crate) mod program;
mod rules;
mod tracked;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use recording::{Owner, Scratch};
use rustix::process::Signal;

use crate::link::{self, Counters, End, Link, Wire};
use crate::netns::Netns;
use crate::printed::Planted;
use crate::process::Process;
use crate::scenario::Scenario;
use crate::workload::{BinderReport, ClientReport, ServerReport};
use crate::{Error, Stop};
use cgroup::Cgroup;
use neighbour::Neighbour;
use program::Program;

/// How long anything may take that takes milliseconds on an idle machine.
pub(crate) const BUDGET: Duration = Duration::from_secs(30);

/// The programs the lab runs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The tcpwhy binary.
    pub tcpwhy: PathBuf,
    /// The workload: a program and the arguments before its own.
    pub workload: Vec<OsString>,
}

impl Programs {
    /// The program that runs this code, whose hidden verb `lab-workload` is the workload, and the
    /// tcpwhy beside it; else the one on PATH.
    pub fn current() -> Result<Programs, Error> {
        let exe = std::env::current_exe().map_err(Error::io("finding this program"))?;
        let beside = exe.with_file_name("tcpwhy");
        Ok(Programs {
            tcpwhy: if beside.is_file() {
                beside
            } else {
                "tcpwhy".into()
            },
            workload: vec![exe.into(), "lab-workload".into()],
        })
    }
}

/// Fails unless the lab may make namespaces.
pub(crate) fn require_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Error::NotRoot)
    }
}

/// What the processes of a load measured.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Per client.
    pub clients: Vec<ClientReport>,
    /// Per binder.
    pub binders: Vec<BinderReport>,
}

/// The processes of a load while they run.
#[derive(Debug)]
pub(crate) struct Running {
    hogs: Vec<Process>,
    /// Each with the time that it takes.
    clients: Vec<(Process, Duration)>,
    binders: Vec<(Process, Duration)>,
}

impl Running {
    /// The processes that keep CPUs busy.
    pub(crate) fn hogs(&self) -> impl Iterator<Item = u32> {
        self.hogs.iter().map(Process::pid)
    }

    /// Ends the hogs.
    pub(crate) fn end(self, stop: &Stop) -> Result<(), Error> {
        for mut hog in self.hogs {
            hog.end(Signal::TERM, stop, BUDGET)?;
        }
        Ok(())
    }
}

/// A planted scenario. Dropped, it goes in reverse order: servers, links, namespaces.
#[derive(Debug)]
pub struct Plant {
    servers: BTreeMap<String, Process>,
    /// Those of the distribution, and where their files are.
    others: BTreeMap<String, Program>,
    dir: Option<Scratch>,
    /// Of the servers that have one; a cgroup can only go when nobody is in it.
    cgroups: BTreeMap<String, Cgroup>,
    links: Vec<Option<Link>>,
    nodes: BTreeMap<String, Netns>,
    neighbours: Vec<Neighbour>,
    /// Tables of tracked connections are full, where they are to be.
    filled: bool,
    /// Names of the hogs that ran, by their pids: an advice names these.
    pub(crate) hog_names: BTreeMap<u32, String>,
    /// As it runs now: a fix changes it.
    pub(crate) scenario: Scenario,
    programs: Programs,
    seed: u64,
}

impl Plant {
    /// Makes the namespaces, writes their sysctls and joins them. Nothing runs in them yet.
    pub fn new(scenario: Scenario, seed: u64, programs: Programs) -> Result<Plant, Error> {
        require_root()?;
        let mut plant = Plant {
            servers: BTreeMap::new(),
            others: BTreeMap::new(),
            dir: None,
            cgroups: BTreeMap::new(),
            links: Vec::new(),
            nodes: BTreeMap::new(),
            neighbours: Vec::new(),
            filled: false,
            hog_names: BTreeMap::new(),
            scenario,
            programs,
            seed,
        };
        let owner = Owner::new_run();
        for number in 0..plant.scenario.neighbours {
            plant.neighbours.push(Neighbour::new(&owner, number)?);
        }
        plant.build()?;
        Ok(plant)
    }

    /// Takes everything down, changes the scenario, and makes it anew: for what a namespace is
    /// born with. No server may run.
    pub(crate) fn rebuild(&mut self, change: impl FnOnce(&mut Scenario)) -> Result<(), Error> {
        change(&mut self.scenario);
        self.links.clear();
        self.nodes.clear();
        self.build()
    }

    fn build(&mut self) -> Result<(), Error> {
        let owner = Owner::new_run();
        for (name, node) in &self.scenario.nodes {
            let netns = match node.child_ehash_entries {
                None => Netns::create(&owner, name)?,
                Some(buckets) => Netns::create_with_ehash(&owner, name, buckets)?,
            };
            for (sysctl, value) in &node.sysctl {
                netns.set_sysctl(sysctl, &value.to_string())?;
            }
            faults::plant(&netns, node)?;
            if node.nft_rules > 0 {
                rules::load(&netns, node.nft_rules, node.nft_set)?;
            }
            if node.nft_services > 0 {
                rules::load_services(&netns, node.nft_services)?;
            }
            self.nodes.insert(name.clone(), netns);
        }
        for index in 0..self.scenario.links.len() {
            let link = self.join(index)?;
            self.links.push(link);
        }
        self.route()
    }

    /// Writes the files of programs, and has them make what they start from, once: before anything is recorded.
    pub(crate) fn prepare(&mut self, stop: &Stop) -> Result<(), Error> {
        if self.scenario.programs.is_empty() || self.dir.is_some() {
            return Ok(());
        }
        let dir = crate::leftovers::temp_dir()?;
        // Those that run as another user have to reach what is theirs.
        let mode = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(dir.path(), mode).map_err(Error::io("opening a directory"))?;
        for spec in &self.scenario.programs {
            Program::prepare(spec, dir.path(), &self.nodes[&spec.node], stop)?;
        }
        self.dir = Some(dir);
        Ok(())
    }

    /// Starts programs: those that listen, or those that do not.
    fn start_programs(&mut self, listen: bool) -> Result<(), Error> {
        let specs = self.scenario.programs.iter();
        for spec in specs.filter(|spec| spec.port.is_some() == listen) {
            if let Some(dir) = &self.dir {
                let program = Program::start(spec, dir.path(), &self.nodes[&spec.node])?;
                self.others.insert(spec.name.clone(), program);
            }
        }
        Ok(())
    }

    /// The namespaces by the names of their nodes.
    pub fn nodes(&self) -> &BTreeMap<String, Netns> {
        &self.nodes
    }

    /// The namespaces that are recorded.
    pub(crate) fn recorded(&self) -> Vec<&str> {
        let asked = |node: &String| {
            self.scenario.recorded.is_empty() || self.scenario.recorded.contains(node)
        };
        let nodes = self.nodes.iter().filter(|(node, _)| asked(node));
        let neighbours = self.neighbours.iter().map(Neighbour::name);
        nodes.map(|(_, n)| n.name()).chain(neighbours).collect()
    }

    /// The process of a server that runs.
    pub fn server_pid(&self, name: &str) -> Option<u32> {
        self.servers.get(name).map(Process::pid)
    }

    /// The processes of a program that runs.
    pub(crate) fn program_pids(&self, name: &str) -> Vec<u32> {
        self.others.get(name).map(Program::pids).unwrap_or_default()
    }

    /// The number of a link among all that are planted side by side: its addresses have it.
    fn number(&self, index: usize) -> usize {
        self.scenario.links_before + index
    }

    /// Joins the nodes of a link.
    fn join(&self, index: usize) -> Result<Option<Link>, Error> {
        let spec = &self.scenario.links[index];
        let [a, b] = &spec.between;
        let (device_a, device_b) = (format!("to-{b}"), format!("to-{a}"));
        let [addresses_a, addresses_b] = [(true, a), (false, b)].map(|(first, node)| {
            let clients = self.scenario.clients.iter();
            let wanted = clients.filter(|c| c.to == *node).map(|c| c.addresses);
            addresses::with_prefix(self.number(index), first, wanted.max().unwrap_or(1))
        });
        let a = End {
            netns: &self.nodes[a],
            device: &device_a,
            addresses: &addresses_a,
        };
        let b = End {
            netns: &self.nodes[b],
            device: &device_b,
            addresses: &addresses_b,
        };
        let link = match spec.path {
            None => link::join(&a, &b, spec.napi_cpu).map(|()| None)?,
            Some(there) => {
                let back = spec.back.unwrap_or(there);
                let seed = self.seed.wrapping_add(index as u64);
                Some(Link::emulate(&a, &b, there, back, seed)?)
            }
        };
        for (node, end) in spec.between.iter().zip([&a, &b]) {
            if self.scenario.nodes[node].old_clients {
                faults::make_clients_old(end.netns, end.device)?;
            }
        }
        self.shape(index)?;
        Ok(link)
    }

    /// Gives the nodes that have a gateway a route to it.
    fn route(&self) -> Result<(), Error> {
        for (name, node) in &self.scenario.nodes {
            let link = node
                .gateway
                .as_ref()
                .and_then(|g| self.scenario.link_between(name, g));
            if let Some((link, from_first)) = link {
                let gateway = addresses::ipv4(self.number(link), !from_first, 0).to_string();
                self.nodes[name].ip(["route", "add", "default", "via", &gateway])?;
            }
        }
        Ok(())
    }

    /// Puts the shaper of a link, if it has one, in front of its first node's device, as it is
    /// described now. It goes with the device.
    pub(crate) fn shape(&self, index: usize) -> Result<(), Error> {
        let spec = &self.scenario.links[index];
        let [node, to] = &spec.between;
        let Some(tbf) = &spec.tbf else {
            return Ok(());
        };
        let rate = format!("{}kbit", (tbf.rate_mbit * 1_000.0) as u64);
        let (burst, limit) = (tbf.burst_kb * 1_000, tbf.limit_kb * 1_000);
        crate::command::run([
            "tc",
            "-n",
            self.nodes[node].name(),
            "qdisc",
            "replace",
            "dev",
            &format!("to-{to}"),
            "root",
            "tbf",
            "rate",
            &rate,
            "burst",
            &burst.to_string(),
            "limit",
            &limit.to_string(),
        ])?;
        Ok(())
    }

    /// Makes an emulated link anew, with what its paths do changed by `change`. Connections
    /// that use it do not survive.
    pub(crate) fn rejoin(&mut self, index: usize, change: impl Fn(&mut Wire)) -> Result<(), Error> {
        let spec = &mut self.scenario.links[index];
        spec.path.iter_mut().chain(&mut spec.back).for_each(change);
        // The old devices have to go first: the new ones have their names.
        self.links[index] = None;
        self.links[index] = self.join(index)?;
        Ok(())
    }

    /// Starts every server and waits until all listen.
    pub fn start_servers(&mut self, stop: &Stop) -> Result<(), Error> {
        self.fill_tables()?;
        self.prepare(stop)?;
        for spec in &self.scenario.servers {
            let command = self.server_command(spec);
            let process = Process::start(format!("server {}", spec.name), command)?;
            let process = self.servers.entry(spec.name.clone()).or_insert(process);
            if let Some(quota) = spec.cpu_quota {
                let cgroup = Cgroup::new(&spec.name, quota)?;
                self.cgroups
                    .entry(spec.name.clone())
                    .or_insert(cgroup)
                    .take_in(process.pid())?;
            }
        }
        self.start_programs(true)?;
        for process in self.servers.values_mut() {
            process.wait_ready(stop, BUDGET)?;
        }
        for program in self.others.values_mut() {
            program.wait_ready(stop)?;
        }
        Ok(())
    }

    /// Fills tables of tracked connections, once: not before the links carry packets, for what
    /// proves that they do needs entries of its own.
    fn fill_tables(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.filled, true) {
            for (name, node) in &self.scenario.nodes {
                node.tracked
                    .map_or(Ok(()), |share| tracked::fill(&self.nodes[name], share))?;
            }
        }
        Ok(())
    }

    /// Whether a node's firewall has no room for new connections.
    fn is_full(&self, node: &str) -> bool {
        self.filled && self.scenario.nodes[node].tracked.is_some()
    }

    /// Runs every client and binder to its end, and the hogs meanwhile.
    pub fn run_clients(&mut self, stop: &Stop) -> Result<Load, Error> {
        let mut running = self.start_clients()?;
        let load = self.finish_clients(&mut running, stop)?;
        running.end(stop)?;
        Ok(load)
    }

    /// Starts every client and binder, and the hogs.
    pub(crate) fn start_clients(&mut self) -> Result<Running, Error> {
        let mut hogs = Vec::new();
        for spec in &self.scenario.hogs {
            for _ in 0..spec.count {
                let command = self.hog_command(spec);
                let process = Process::start(format!("hog {}", spec.name), command)?;
                self.hog_names.insert(process.pid(), spec.name.clone());
                hogs.push(process);
            }
        }
        self.start_programs(false)?;
        let mut running = Vec::new();
        let start_ns = self.scenario.starts_together.then(soon);
        for spec in &self.scenario.clients {
            let command = self.client_command(spec, start_ns);
            let process = Process::start(format!("client {}", spec.name), command)?;
            running.push((
                process,
                Duration::from_secs_f64(spec.after_ms / 1000.0 + spec.seconds),
            ));
        }
        let mut asking = Vec::new();
        for spec in &self.scenario.binders {
            let command = self.binder_command(spec);
            let process = Process::start(format!("binder {}", spec.name), command)?;
            asking.push((
                process,
                Duration::from_secs_f64(spec.after_ms / 1000.0 + spec.seconds),
            ));
        }
        Ok(Running {
            hogs,
            clients: running,
            binders: asking,
        })
    }

    /// Waits for the end of every client and binder. The hogs go on.
    pub(crate) fn finish_clients(
        &mut self,
        running: &mut Running,
        stop: &Stop,
    ) -> Result<Load, Error> {
        let load = Load {
            clients: ends(&mut running.clients, stop)?,
            binders: ends(&mut running.binders, stop)?,
        };
        for process in self.servers.values_mut() {
            process.check_runs()?;
        }
        for program in self.others.values_mut() {
            program.check_runs()?;
        }
        for hog in &mut running.hogs {
            hog.check_runs()?;
        }
        Ok(load)
    }

    /// What of the host is this plant's, for who changes it.
    pub(crate) fn planted(&self) -> Planted {
        let programs = self.others.values().flat_map(Program::pids);
        let servers = self.servers.values().map(Process::pid);
        Planted {
            netns: self.nodes.values().map(|n| n.name().to_string()).collect(),
            pids: servers.chain(programs).collect(),
            cgroups: self
                .cgroups
                .values()
                .map(|c| c.dir().to_path_buf())
                .collect(),
        }
    }

    /// Ends every server.
    pub fn stop_servers(&mut self, stop: &Stop) -> Result<Vec<ServerReport>, Error> {
        for program in std::mem::take(&mut self.others).into_values() {
            program.end(stop)?;
        }
        let servers = std::mem::take(&mut self.servers);
        let reports = servers.into_values().map(|mut process| {
            let lines = process.end(Signal::TERM, stop, BUDGET)?;
            parse(&process, &lines)
        });
        let reports = reports.collect();
        self.cgroups.clear();
        reports
    }

    /// What the emulated links did so far: the nodes each joins, and its counters.
    pub fn link_counters(&self) -> impl Iterator<Item = ([String; 2], [Counters; 2])> {
        let links = self.links.iter().zip(&self.scenario.links);
        links.filter_map(|(link, spec)| Some((spec.between.clone(), link.as_ref()?.counters())))
    }

    /// Waits until every link carries packets of both families.
    ///
    /// A device that has just been started may drop packets for up to a second, until the kernel
    /// has noticed its carrier; the load would blame that on TCP. So a datagram is sent to a
    /// closed port until its refusal comes back, which fills the neighbour tables as well.
    pub fn wait_joined(&self, stop: &Stop) -> Result<(), Error> {
        for (index, spec) in self.scenario.links.iter().enumerate() {
            let [from, to] = &spec.between;
            if self.is_full(from) || self.is_full(to) {
                continue;
            }
            for address in addresses::peers(self.number(index)) {
                // A socket stays in the namespace it was made in.
                let socket = self.nodes[from].inside(|| addresses::probe_socket(address))?;
                let what = format!("the link from {from} to {to} carrying packets");
                stop.wait(&what, BUDGET, || {
                    Ok(addresses::is_refused(&socket, address).then_some(()))
                })?;
            }
        }
        Ok(())
    }
}

/// The reports of processes that end by themselves, each after about its time.
fn ends<R: serde::de::DeserializeOwned>(
    running: &mut [(Process, Duration)],
    stop: &Stop,
) -> Result<Vec<R>, Error> {
    let reports = running.iter_mut().map(|(process, time)| {
        let lines = process.finish(stop, *time + BUDGET)?;
        parse(process, &lines)
    });
    reports.collect()
}

/// A moment at which every client's process will run, ns of CLOCK_MONOTONIC.
fn soon() -> u64 {
    const STARTING: u64 = 1_000_000_000;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 + STARTING
}

fn parse<R: serde::de::DeserializeOwned>(process: &Process, lines: &[String]) -> Result<R, Error> {
    let last = lines.last().map_or("", String::as_str);
    serde_json::from_str(last).map_err(|e| Error::Command {
        command: process.name().to_string(),
        why: format!("its report cannot be read: {e}"),
    })
}
