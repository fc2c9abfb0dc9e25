//! A situation made real: its hosts in a row, the programs on them, and the hand that plants the fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recording::{Owner, Scratch};
use rustix::process::{Pid, Signal, kill_process};

use super::acts::{Act, Where, Who};
use super::kinds::{Harmless, PORT, Proxy, Server, Side, Topology};
use super::programs;
use super::row::{Host, named, row};
use super::situation::Situation;
use crate::command::{run, run_with_input};
use crate::leftovers::temp_dir;
use crate::link::{End, Link, Wire, join};
use crate::netns::Netns;
use crate::plant::cgroup::Cgroup;
use crate::plant::program::Program;
use crate::scenario::ProgramSpec;
use crate::{Error, Stop};

/// The address that a server holds besides its own.
const VIP: &str = "10.9.200.1";
/// Packets that the path holds in front of its rate, kB at least: what routers of that rate have.
const QUEUE_KB: f64 = 64.0;

/// A program that was started: what it is, on which host, and while it runs.
type Running = (ProgramSpec, usize, Option<Program>);

/// A situation that stands.
pub(super) struct Stage {
    situation: Situation,
    row: Vec<Host>,
    // Each goes before what it stands on.
    running: BTreeMap<String, Running>,
    quotas: Vec<Cgroup>,
    _links: Vec<Link>,
    hosts: Vec<Netns>,
    stop: Stop,
    // Goes after the programs that are in it.
    dir: Scratch,
}

impl Stage {
    /// Builds the hosts and starts what serves.
    pub(super) fn build(s: &Situation, cert: &str, stop: &Stop) -> Result<Stage, Error> {
        let row = row(s);
        let owner = Owner::new_run();
        let mut hosts = Vec::new();
        for host in &row {
            let name = match host {
                Host::Client if row.len() == 2 => "host".to_string(),
                Host::Client => "client".into(),
                Host::Network => "network".into(),
                Host::Router => "router".into(),
                Host::Proxy(n) => format!("proxy{n}"),
                Host::Server => "server".into(),
            };
            hosts.push(Netns::create(&owner, &name)?);
        }
        let mut stage = Stage {
            situation: s.clone(),
            _links: connect(s, &row, &hosts)?,
            row,
            hosts,
            running: BTreeMap::new(),
            quotas: Vec::new(),
            stop: stop.clone(),
            dir: temp_dir()?,
        };
        // Programs run as their own users.
        open_to_all(stage.dir.path())?;
        stage.routes()?;
        stage.start_servers(cert)?;
        Ok(stage)
    }

    fn at(&self, host: Host) -> usize {
        let there = self.row.iter().position(|h| *h == host);
        // Of a hairpin the server is where the caller is.
        there.unwrap_or(0)
    }

    /// Where a word of a fault is.
    fn place(&self, at: Where) -> usize {
        let network = self.at(Host::Network);
        let is_end = |i: &usize| self.row[*i] != Host::Router && self.row[*i] != Host::Network;
        match at {
            Where::Network => network,
            Where::Near => (0..network).rev().find(is_end).unwrap_or(0),
            Where::Far => (network + 1..self.row.len()).find(is_end).unwrap_or(0),
            Where::Router => self.at(Host::Router),
            Where::Client => 0,
        }
    }

    fn routes(&self) -> Result<(), Error> {
        let last = self.row.len() - 1;
        for (at, host) in self.hosts.iter().enumerate() {
            let left = at.checked_sub(1).map(|segment| format!("10.9.{segment}.1"));
            let right = (at < last).then(|| format!("10.9.{at}.2"));
            match (left, right) {
                (None, Some(via)) | (Some(via), None) => {
                    if self.row.len() > 2 || at == 0 {
                        host.ip(["route", "add", "default", "via", &via])?;
                    }
                }
                (Some(left), Some(right)) => {
                    for segment in (0..at - 1).chain(at + 1..last) {
                        let net = format!("10.9.{segment}.0/24");
                        let via = if segment < at { &left } else { &right };
                        host.ip(["route", "add", &net, "via", via])?;
                    }
                    host.ip(["route", "add", &format!("{VIP}/32"), "via", &right])?;
                }
                (None, None) => {}
            }
            if !matches!(self.row[at], Host::Client | Host::Server) {
                host.set_sysctl("net.ipv4.ip_forward", "1")?;
            }
            // Names are not looked up, and nobody waits for a neighbour longer than a second.
            host.set_sysctl("net.ipv4.conf.all.rp_filter", "0")?;
        }
        let server = &self.hosts[self.at(Host::Server)];
        if self.situation.topology == Topology::Vip {
            server.ip(["addr", "add", &format!("{VIP}/32"), "dev", "lo"])?;
        }
        if self.situation.patience.addresses > 1 {
            let second = format!("10.9.{}.3/24", last - 1);
            server.ip(["addr", "add", &second, "dev", "eth0"])?;
        }
        let rules = |to: &str| {
            format!(
                "table ip nat {{
                   chain pre {{ type nat hook prerouting priority dstnat; ip daddr {to} tcp dport {PORT} dnat to {}:{PORT}; }}
                   chain post {{ type nat hook postrouting priority srcnat; tcp dport {PORT} masquerade; }}
                 }}",
                self.server_address()
            )
        };
        match self.situation.topology {
            Topology::Nat => self.nft(self.at(Host::Router), &rules("10.9.0.2")),
            Topology::Hairpin => self.nft(self.at(Host::Network), &rules("10.9.0.2")),
            _ => Ok(()),
        }
    }

    fn nft(&self, at: usize, rules: &str) -> Result<(), Error> {
        let words = [
            "ip",
            "netns",
            "exec",
            self.hosts[at].name(),
            "nft",
            "-f",
            "-",
        ];
        run_with_input(words, rules).map(drop)
    }

    fn server_address(&self) -> String {
        match self.situation.topology {
            Topology::Hairpin => "10.9.0.1".into(),
            _ => format!("10.9.{}.2", self.row.len() - 2),
        }
    }

    /// Where a host is reached by who asks it.
    fn address(&self, host: Host) -> String {
        match (host, self.situation.topology) {
            (Host::Server, Topology::Vip) => VIP.into(),
            (Host::Server, _) => self.server_address(),
            _ => format!("10.9.{}.2", self.at(host) - 1),
        }
    }

    /// Whom the caller asks.
    fn targets(&self) -> Vec<String> {
        match self.situation.topology {
            Topology::Nat | Topology::Hairpin => vec!["10.9.0.2".into()],
            Topology::Proxy | Topology::TwoProxies => vec![self.address(Host::Proxy(0))],
            _ => {
                let mut all = vec![self.address(Host::Server)];
                if self.situation.patience.addresses > 1 {
                    all.push(format!("10.9.{}.3", self.row.len() - 2));
                }
                all
            }
        }
    }

    fn start_servers(&mut self, cert: &str) -> Result<(), Error> {
        let s = self.situation.clone();
        for server in programs::servers(&s, cert) {
            self.start(server, self.at(Host::Server))?;
        }
        for (n, kind) in s.proxies.iter().enumerate().rev() {
            let next = if n + 1 < s.proxies.len() {
                Host::Proxy(n + 1)
            } else {
                Host::Server
            };
            let program = programs::proxy(&format!("proxy{n}"), *kind, &self.address(next));
            self.start(program, self.at(Host::Proxy(n)))?;
        }
        if self.wants_resolver() {
            self.start(programs::resolver(), self.at(Host::Network))?;
        }
        Ok(())
    }

    fn wants_resolver(&self) -> bool {
        self.situation
            .fault
            .is_some_and(|(fault, _)| fault.wants_resolver())
    }

    /// Starts the callers; gives the file into which the first writes what it waits.
    pub(super) fn start_callers(&mut self) -> Result<PathBuf, Error> {
        let targets = self.targets();
        let resolver = format!("10.9.{}.2", self.at(Host::Network).saturating_sub(1));
        let resolver = self.wants_resolver().then_some(resolver.as_str());
        let s = self.situation.clone();
        self.start(programs::caller(&s, &targets, resolver), 0)?;
        if let Some(beside) = programs::beside(&s, &targets[0]) {
            self.start(beside, 0)?;
        }
        Ok(self.file("caller", programs::LOG))
    }

    fn start(&mut self, spec: ProgramSpec, at: usize) -> Result<(), Error> {
        if !self.running.contains_key(&spec.name) {
            Program::prepare(&spec, self.dir.path(), &self.hosts[at], &self.stop)?;
        }
        let mut program = Program::start(&spec, self.dir.path(), &self.hosts[at])?;
        let waited = program.wait_ready(&self.stop);
        self.running
            .insert(spec.name.clone(), (spec, at, Some(program)));
        waited
    }

    /// A file of a program.
    pub(super) fn file(&self, program: &str, name: &str) -> PathBuf {
        self.dir.path().join(program).join(name)
    }

    /// The namespaces that are recorded, and the names of their hosts.
    pub(super) fn recorded(&self) -> Vec<(String, String)> {
        let side = self.situation.side;
        let is = |host: &Host| match (side, host) {
            (_, Host::Network) => false,
            (Side::All, _) => true,
            (Side::Client, host) => *host == Host::Client,
            (Side::Server, host) => *host == Host::Server,
            (Side::Middle, host) => matches!(host, Host::Router | Host::Proxy(_)),
        };
        let all = self
            .row
            .iter()
            .zip(&self.hosts)
            .filter(|(host, _)| is(host));
        all.map(|(host, netns)| (netns.name().to_string(), named(*host)))
            .collect()
    }

    /// Does what plants the fault; `until` ends what is done time and again.
    pub(super) fn plant(
        &mut self,
        acts: &[Act],
        mut until: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let again = acts.iter().position(|act| *act == Act::Again);
        let (once, again) = acts.split_at(again.unwrap_or(acts.len()));
        for act in once {
            self.act(act)?;
        }
        while !again.is_empty() && !until() {
            for act in &again[1..] {
                self.act(act)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Result<(), Error> {
        match act {
            Act::Sh(at, text) => self.shell(*at, text),
            Act::Switch(who, text) => {
                for name in self.names(*who) {
                    // Whole at once: it is read while it is written.
                    let (file, new) = (
                        self.file(&name, programs::SWITCH),
                        self.file(&name, "wrong.new"),
                    );
                    let written =
                        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file));
                    written.map_err(Error::io("writing what a program does wrong"))?;
                }
                Ok(())
            }
            Act::Stop(who) => self.signal(*who, Signal::STOP),
            Act::Go(who) => self.signal(*who, Signal::CONT),
            Act::Kill(who) => {
                for name in self.names(*who) {
                    let stop = self.stop.clone();
                    if let Some(program) = self.running.get_mut(&name).and_then(|r| r.2.take()) {
                        program.end(&stop)?;
                    }
                }
                Ok(())
            }
            Act::Start(who) => {
                for name in self.names(*who) {
                    if let Some((mut spec, at, _)) =
                        self.running.get(&name).map(|r| (r.0.clone(), r.1, ()))
                    {
                        // It has its table already; a postgres that was killed recovers first.
                        spec.first.clear();
                        self.start(spec, at)?;
                    }
                }
                Ok(())
            }
            Act::Quota(who, cpus) => {
                let cgroup = Cgroup::new("server", *cpus)?;
                for pid in self.pids(*who) {
                    cgroup.take_in(pid)?;
                }
                self.quotas.push(cgroup);
                Ok(())
            }
            Act::Descriptors(who, more) => {
                for pid in self.pids(*who) {
                    let open = std::fs::read_dir(format!("/proc/{pid}/fd"))
                        .map_or(0, Iterator::count) as u64;
                    let limit = format!("--nofile={0}:{0}", open + more);
                    run(["prlimit", "--pid", &pid.to_string(), &limit])?;
                }
                Ok(())
            }
            Act::Disturb(name, words) => {
                let at = self.at(Host::Server);
                self.start(programs::disturbs(name, words), at)
            }
            Act::Wait(seconds) => self.rest(*seconds),
            Act::Again => Ok(()),
        }
    }

    fn shell(&self, at: Where, text: &str) -> Result<(), Error> {
        let place = self.place(at);
        // As who answers sees who asks, and the other way round.
        let near = match (self.situation.topology, self.place(Where::Near)) {
            (Topology::Nat, _) => format!("10.9.{}.1", self.at(Host::Router)),
            (_, near) => format!("10.9.{near}.1"),
        };
        let far = format!("10.9.{}.2", self.place(Where::Far).saturating_sub(1));
        let is_end = place == 0 || place + 1 == self.row.len();
        let right = if is_end { "eth0" } else { "eth1" };
        let text = text.replace("{near}", &near).replace("{far}", &far);
        let text = text.replace("{left}", "eth0").replace("{right}", right);
        run([
            "ip",
            "netns",
            "exec",
            self.hosts[place].name(),
            "sh",
            "-ec",
            &text,
        ])
        .map(drop)
    }

    fn names(&self, who: Who) -> Vec<String> {
        let names: &[&str] = match who {
            Who::Server => &["server", "worker"],
            Who::Worker => &["worker"],
            Who::Proxy => &["proxy0"],
            Who::Caller => &["caller"],
        };
        let there = names
            .iter()
            .filter(|name| self.running.contains_key(**name));
        there.map(|name| (*name).to_string()).collect()
    }

    fn pids(&self, who: Who) -> Vec<u32> {
        let names = self.names(who);
        let programs = names
            .iter()
            .filter_map(|name| self.running[name].2.as_ref());
        programs.flat_map(Program::pids).collect()
    }

    fn signal(&self, who: Who, signal: Signal) -> Result<(), Error> {
        for pid in self.pids(who) {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                // It may have ended by itself just now.
                let _ = kill_process(pid, signal);
            }
        }
        Ok(())
    }

    /// Does what is harmless.
    pub(super) fn harmless(&mut self, what: Harmless) -> Result<(), Error> {
        let to = self.targets()[0].clone();
        match what {
            Harmless::Scan => {
                self.disturb_from_client("scan", &connects(&to, "range(7701, 8001)", 0.002))
            }
            Harmless::Probes => {
                // Of a program that others serve: who lacks its only server tries again as regularly.
                let ports = format!("[{PORT}, 9100] * 50");
                self.disturb_from_client("probes", &connects(&to, &ports, 0.5))
            }
            Harmless::Reload => {
                let nginx = |kind: &Proxy| *kind == Proxy::Nginx;
                let proxy = self.situation.proxies.iter().position(nginx);
                let of_proxy = proxy.filter(|_| self.situation.server != Server::Nginx);
                let name = of_proxy.map_or("server".into(), |n| format!("proxy{n}"));
                let first = self
                    .running
                    .get(&name)
                    .and_then(|r| r.2.as_ref()?.pids().first().copied());
                if let Some(pid) = first.and_then(|pid| Pid::from_raw(pid as i32)) {
                    let _ = kill_process(pid, Signal::HUP);
                }
                Ok(())
            }
            Harmless::SmallerMtu => self.shell(
                Where::Network,
                "ip link set {left} mtu 1400; ip link set {right} mtu 1400",
            ),
        }
    }

    fn disturb_from_client(&mut self, name: &str, script: &str) -> Result<(), Error> {
        let words = ["/usr/bin/python3", "-c", script].map(String::from);
        self.start(programs::disturbs(name, &words), 0)
    }

    /// Waits.
    pub(super) fn rest(&self, seconds: f64) -> Result<(), Error> {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let budget = Duration::from_secs_f64(seconds + 5.0);
        self.stop.wait("time to pass", budget, || {
            Ok((Instant::now() >= end).then_some(()))
        })
    }

    /// Lets the caller write down what it still waits for.
    pub(super) fn end_callers(&self) -> Result<(), Error> {
        self.signal(Who::Caller, Signal::TERM)?;
        self.rest(0.3)
    }

    /// Fails when a program that should run has ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        for name in ["caller", "server", "proxy0", "proxy1"] {
            if let Some((_, _, Some(program))) = self.running.get_mut(name) {
                program.check_runs()?;
            }
        }
        Ok(())
    }

    /// What the network and the other hosts dropped by the rules that were planted: the log of the hop.
    pub(super) fn dropped(&self) -> u64 {
        let mut all = 0;
        for host in &self.hosts {
            let listed = run([
                "ip",
                "netns",
                "exec",
                host.name(),
                "nft",
                "list",
                "table",
                "ip",
                "filter2",
            ]);
            all += counted(&listed.unwrap_or_default());
        }
        all
    }
}

/// The packets that the rules of a listing counted.
fn counted(listing: &str) -> u64 {
    let mut words = listing.split_whitespace();
    let mut all = 0;
    while let Some(found) = words
        .by_ref()
        .find(|word| *word == "packets")
        .and_then(|_| words.next())
    {
        all += found.parse().unwrap_or(0);
    }
    all
}

/// A program in Python that connects to each of `ports`, and rests between.
fn connects(to: &str, ports: &str, rest_s: f64) -> String {
    [
        "import socket, time".to_string(),
        format!("for port in {ports}:"),
        "    s = socket.socket()".into(),
        "    s.settimeout(0.5)".into(),
        format!("    s.connect_ex((\"{to}\", port))"),
        "    s.close()".into(),
        format!("    time.sleep({rest_s})"),
    ]
    .join("\n")
}

fn open_to_all(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir, open).map_err(Error::io("opening a directory to all"))
}

/// Cables, and behind the network the path that delays.
fn connect(s: &Situation, row: &[Host], hosts: &[Netns]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for segment in 0..hosts.len() - 1 {
        let (left, right) = (
            [format!("10.9.{segment}.1/24")],
            [format!("10.9.{segment}.2/24")],
        );
        let first = End {
            netns: &hosts[segment],
            device: if segment == 0 { "eth0" } else { "eth1" },
            addresses: &left,
        };
        let second = End {
            netns: &hosts[segment + 1],
            device: "eth0",
            addresses: &right,
        };
        let is_path = row[segment] == Host::Network || row.len() == 2;
        if !is_path || s.delay_ms == 0.0 {
            join(&first, &second, None)?;
            continue;
        }
        let queue_kb = s
            .rate_mbit
            .map(|rate| rate * 1e6 / 8.0 * 2.0 * s.delay_ms / 1e3 / 1e3);
        let wire = Wire {
            delay_ms: s.delay_ms,
            rate_mbit: s.rate_mbit,
            queue_kb: queue_kb.unwrap_or(1000.0).max(QUEUE_KB) as u64,
            ..Wire::default()
        };
        links.push(Link::emulate(&first, &second, wire, wire, s.seed)?);
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_all_rules_are_added() {
        let listing = "tcp dport 8000 counter packets 12 bytes 720 drop\n tcp sport 8000 counter packets 3 bytes 9 drop";
        assert_eq!(counted(listing), 15);
        assert_eq!(counted(""), 0);
    }
}
