//! The shape of a scenario's file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::program::ProgramSpec;
use super::severity::Severity;
use crate::link::Wire;
use crate::workload::{Closer, Speaks, Stream};

/// A fault, or its absence, and the load that shows it. Anywhere in the file a number may be
/// written `{ between = [60, 100] }`: the seed then draws it, so that runs differ while the
/// truth holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// By which it is run; the name of its directory.
    #[serde(skip)]
    pub name: String,
    /// So many links are of scenarios that are planted beside it: its own have the addresses behind theirs.
    #[serde(skip)]
    pub(crate) links_before: usize,
    /// One line.
    pub title: String,
    /// One paragraph: what is planted, what a user would see, what tells it from look-alikes.
    pub about: String,
    /// The servers listen before the recording starts: tcpwhy must know listeners that are
    /// older than the recording.
    #[serde(default)]
    pub servers_first: bool,
    /// Which suite of tests runs it.
    #[serde(default)]
    pub suite: Suite,
    /// Why no other may be planted beside it: it takes a CPU of the host, or the host whole.
    #[serde(default)]
    pub alone: Option<String>,
    /// Clients count `after_ms` from one moment, when all their processes run: which of them meet
    /// is then decided by the file and not by how fast processes start.
    #[serde(default)]
    pub starts_together: bool,
    /// Parts of a recording beyond those that `explain` makes by itself: `calls`.
    #[serde(default)]
    pub record: Vec<String>,
    /// The recording begins so long after the load, ms: what is the matter is older.
    #[serde(default)]
    pub record_after_ms: f64,
    /// The nodes that are recorded, as if the others were other hosts; all when empty.
    #[serde(default)]
    pub recorded: Vec<String>,
    /// So many other network namespaces are there too, each with a connection of its own over loopback: the
    /// other pods of the host. It is then recorded whole, as no filter takes so many namespaces.
    #[serde(default)]
    pub neighbours: u32,
    /// The network namespaces.
    pub nodes: BTreeMap<String, NodeSpec>,
    /// What joins them.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// Who listens.
    #[serde(default)]
    pub servers: Vec<ServerSpec>,
    /// Programs of the distribution that take part.
    #[serde(default)]
    pub programs: Vec<ProgramSpec>,
    /// Who connects.
    pub clients: Vec<ClientSpec>,
    /// Who asks for a port meanwhile.
    #[serde(default)]
    pub binders: Vec<BinderSpec>,
    /// Who burns CPU meanwhile.
    #[serde(default)]
    pub hogs: Vec<HogSpec>,
    /// What is the matter.
    pub truth: Truth,
    /// How severe it is, for the exam; absent of one from which that draws no fault.
    pub(crate) severity: Option<Severity>,
}

/// Which suite of tests runs a scenario. With its advice where that has a truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// `make test`, and with its advice, if that has a truth, `make test-lab`.
    Test,
    /// `make test`, with its advice.
    TestFix,
    /// `make test-lab`.
    #[default]
    Lab,
    /// None: it is run by name, and by the exam.
    Exam,
}

/// One network namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Sysctls written there: name and value, a number or a text.
    #[serde(default)]
    pub sysctl: BTreeMap<String, Sysctl>,
    /// nftables rules, as `nft -f` reads them. The ends of the first link are 198.18.1.1 and
    /// 198.18.1.2, and so on.
    pub nft: Option<String>,
    /// Clients that reach it are older than Linux 5.6: a SYN retransmitted within half a second
    /// vanishes on its way in, without an event.
    #[serde(default)]
    pub old_clients: bool,
    /// The node to which it sends what is for nodes that no link of its own leads to.
    pub gateway: Option<String>,
    /// Fills the table of tracked connections to this share of its limit, 0 to 1. Wants rules that
    /// track.
    pub tracked: Option<f64>,
    /// Gives it a hash table of connections of its own, with so many buckets (a power of two;
    /// Linux 6.1). `net.ipv4.tcp_max_tw_buckets` then is half of that, unless it is set.
    pub child_ehash_entries: Option<u32>,
    /// So many nftables rules that match nothing, each looked at for every packet that comes in.
    #[serde(default)]
    pub nft_rules: u32,
    /// Has what these rules compare in one set instead.
    #[serde(default)]
    pub nft_set: bool,
    /// So many nftables rules of services, as kube-proxy makes them: each is looked at for the first packet
    /// of a connection alone.
    #[serde(default)]
    pub nft_services: u32,
}

/// The value of a sysctl.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Sysctl {
    /// A number.
    Number(i64),
    /// Anything else: `40000 40255`.
    Text(String),
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Sysctl::Number(number) => number.fmt(f),
            Sysctl::Text(text) => text.fmt(f),
        }
    }
}

/// What joins two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The two nodes.
    pub between: [String; 2],
    /// An emulated path; without it the link is a veth pair.
    pub path: Option<Wire>,
    /// The path from the second node to the first, when it differs.
    pub back: Option<Wire>,
    /// A shaper on the first node's device towards the second: the kernel's token bucket filter.
    pub tbf: Option<Tbf>,
    /// A kernel thread on this CPU handles what comes to the second node (threaded NAPI); not for
    /// an emulated path.
    pub napi_cpu: Option<u32>,
}

/// A token bucket filter: what does not fit its queue is dropped on this host.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tbf {
    /// Rate, Mbit/s.
    pub rate_mbit: f64,
    /// Size of the bucket, kB.
    pub burst_kb: u64,
    /// Bytes that may wait for tokens, kB.
    pub limit_kb: u64,
}

/// One process that listens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Command name of its process.
    pub name: String,
    /// Where it runs.
    pub node: String,
    /// Where it listens, on every address of the node.
    pub port: u16,
    /// Listens on IPv6 (and with it on IPv4) instead of on IPv4 alone.
    #[serde(default)]
    pub ipv6: bool,
    /// Backlog given to listen(2).
    #[serde(default = "generous_backlog")]
    pub backlog: u32,
    /// Time between two accepts, ms.
    #[serde(default)]
    pub accept_ms: f64,
    /// Stops accepting so long after its first client has come, ms: however long a recorder takes to begin.
    #[serde(default)]
    pub stall_after_ms: f64,
    /// For how long it stops accepting, ms.
    #[serde(default)]
    pub stall_ms: f64,
    /// Congestion control of its connections.
    pub congestion: Option<String>,
    /// The CPU it is pinned to.
    pub cpu: Option<u32>,
    /// CPU time that its cgroup grants it, in CPUs: 0.2 is 20 ms of every 100.
    pub cpu_quota: Option<f64>,
    /// Sleeps so long after each read of a request's body, ms: an application that works on what
    /// it has read before it reads on.
    #[serde(default)]
    pub read_pause_ms: f64,
    /// Bytes of one read at most.
    pub read_bytes: Option<u64>,
    /// SO_RCVBUF, bytes, which also ends the kernel's own sizing of the buffer.
    pub rcvbuf: Option<u32>,
    /// Waits so long for a lock (futex) before it answers, ms; all its requests wait meanwhile.
    #[serde(default)]
    pub think_ms: f64,
    /// Of so many requests one makes it wait.
    #[serde(default = "every")]
    pub think_one_in: u64,
    /// CPU time that it takes for each answer, ms.
    #[serde(default)]
    pub work_ms: f64,
    /// Descriptors that it may have open (RLIMIT_NOFILE).
    pub files: Option<u64>,
    /// Other servers listen at the same port, each with a socket of its own (SO_REUSEPORT).
    #[serde(default)]
    pub shares_port: bool,
    /// Answers requests with a body as soon as it has read their header, and closes: the rest stays
    /// unread.
    #[serde(default)]
    pub answers_early: bool,
    /// Closes with SO_LINGER 0: the kernel sends a reset and throws away what it has not sent.
    #[serde(default)]
    pub linger_zero: bool,
    /// Closes a connection on which nothing was asked for so long, ms.
    #[serde(default)]
    pub idle_timeout_ms: f64,
    /// Of so many requests one is answered with a reset.
    #[serde(default)]
    pub abort_one_in: u64,
}

impl ServerSpec {
    /// A server without faults.
    pub(crate) fn plain(name: &str, node: &str, port: u16) -> ServerSpec {
        ServerSpec {
            name: name.to_string(),
            node: node.to_string(),
            port,
            ipv6: false,
            backlog: generous_backlog(),
            accept_ms: 0.0,
            stall_after_ms: 0.0,
            stall_ms: 0.0,
            congestion: None,
            cpu: None,
            cpu_quota: None,
            read_pause_ms: 0.0,
            read_bytes: None,
            think_ms: 0.0,
            think_one_in: every(),
            work_ms: 0.0,
            files: None,
            shares_port: false,
            rcvbuf: None,
            answers_early: false,
            linger_zero: false,
            idle_timeout_ms: 0.0,
            abort_one_in: 0,
        }
    }
}

fn every() -> u64 {
    1
}

fn generous_backlog() -> u32 {
    4096
}

/// One process that connects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// Command name of its process.
    pub name: String,
    /// Where it runs.
    pub node: String,
    /// The node it connects to; its own, by the loopback interface.
    pub to: String,
    /// The port it connects to; nobody need listen there.
    pub port: u16,
    /// Connects to so many ports in turn, of which this is the first.
    #[serde(default = "one_port")]
    pub ports: u16,
    /// Connects by IPv6.
    #[serde(default)]
    pub ipv6: bool,
    /// Waits so long before its first connection, ms.
    #[serde(default)]
    pub after_ms: f64,
    /// For how long it starts something new, s.
    pub seconds: f64,
    /// Connections opened at most.
    pub connections: Option<u64>,
    /// Connections open at one time.
    #[serde(default = "one")]
    pub concurrency: u64,
    /// Connections opened per second; without it, as fast as earlier ones end.
    pub rate: Option<f64>,
    /// Bytes of a request.
    #[serde(default = "small")]
    pub request: u64,
    /// Bytes of a response.
    #[serde(default = "small")]
    pub response: u64,
    /// What a request is instead, of a program that does not know the lab's own: as it stands (HTTP), commands,
    /// one a line (redis), a statement (postgres).
    pub says: Option<String>,
    /// The protocol of that: `http`, `redis`, `postgres`.
    pub speaks: Option<Speaks>,
    /// Which side closes first.
    #[serde(default)]
    pub closes: Closer,
    /// Keeps its connections and sends request after request.
    #[serde(default)]
    pub keep: bool,
    /// How many of the connections kept may have a request at one time.
    pub active: Option<u64>,
    /// A connection that is kept waits so long between two requests, ms, and nobody looks meanwhile whether
    /// it is still open.
    #[serde(default)]
    pub pause_ms: f64,
    /// An endless transfer per connection.
    pub stream: Option<Stream>,
    /// Congestion control; with several, connections take turns.
    #[serde(default)]
    pub congestion: Vec<String>,
    /// Local ports to bind, `40000-40255`.
    pub local_ports: Option<String>,
    /// Binds its address, and no port, before it connects: the port is chosen by bind(2).
    #[serde(default)]
    pub bind: bool,
    /// Connects to so many addresses of that node in turn.
    #[serde(default = "one_address")]
    pub addresses: u8,
    /// The CPU it is pinned to.
    pub cpu: Option<u32>,
    /// Gives a connect up after so long, ms.
    pub connect_timeout_ms: Option<f64>,
    /// Leaves Nagle's algorithm on: does not set TCP_NODELAY.
    #[serde(default)]
    pub nagle: bool,
    /// Writes a request in two pieces, its header and the rest.
    #[serde(default)]
    pub two_writes: bool,
    /// Closes with SO_LINGER 0, which sends a reset.
    #[serde(default)]
    pub linger_zero: bool,
}

fn one() -> u64 {
    1
}

fn one_address() -> u8 {
    1
}

fn one_port() -> u16 {
    1
}

fn small() -> u64 {
    100
}

/// One process that calls bind(2) for one port over and over, and closes the socket each time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinderSpec {
    /// Command name of its process.
    pub name: String,
    /// Where it runs.
    pub node: String,
    /// The port it asks for.
    pub port: u16,
    /// The address it asks for; every address of IPv4 when absent.
    pub address: Option<IpAddr>,
    /// Sets SO_REUSEADDR first.
    #[serde(default)]
    pub reuse: bool,
    /// Waits so long before its first call, ms.
    #[serde(default)]
    pub after_ms: f64,
    /// Calls per second at most.
    pub rate: f64,
    /// For how long it asks, s.
    pub seconds: f64,
}

/// Processes that use a CPU and no network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HogSpec {
    /// Command name of each.
    pub name: String,
    /// How many there are.
    #[serde(default = "one")]
    pub count: u64,
    /// In whose namespace they run: what is recorded is told by namespaces.
    pub node: String,
    /// The CPU they are pinned to.
    pub cpu: u32,
    /// Real-time priority (SCHED_FIFO), 1 to 99.
    pub fifo: Option<u8>,
    /// Runs only when nobody else wants the CPU (SCHED_IDLE).
    #[serde(default)]
    pub idle: bool,
    /// Waits so long before it begins, ms.
    #[serde(default)]
    pub after_ms: f64,
    /// Runs so long at a time, ms; with `rest_ms`.
    #[serde(default)]
    pub busy_ms: f64,
    /// Then sleeps so long, ms; 0 is never.
    #[serde(default)]
    pub rest_ms: f64,
}

/// What is the matter, and what the first finding must say about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Id of the cause, or `healthy`.
    pub cause: String,
    /// The server concerned, by its command name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What of the server the finding's scope has to name, and rightly: `listener`, `pid`,
    /// `comm`, `backlog`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The port concerned, when there is no server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The client or binder concerned, by its command name, whose process the finding has to name;
    /// several that would be right, separated by `|`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What else the finding is about: its scope's `resource` has to contain this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The kernel function that takes the time; several that would be right, separated by `|`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What the evidence of the finding has to say: the co-cause, what moved with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
    /// Figures of the finding's impact, and the open range that each has to be in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub impact: BTreeMap<String, [f64; 2]>,
    /// How sure the finding is: `high`, `medium`, `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<String>,
    /// Causes of what else is planted: each has to be found too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Causes that may be found too or not: another way of telling the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may: Vec<String>,
    /// Causes that have to be told as notes: they hold, and harm nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Nothing else is found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing_else: bool,
    /// Where the requests of a server spent their time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub account: Vec<AccountTruth>,
    /// What its advice brings about: that the finding is gone, and this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<FixTruth>,
    /// What many runs show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunsTruth>,
    /// The fault shows in some runs only: in those in which a node with a server counts this,
    /// `TcpExt.SyncookiesRecv`. It is then to be found at a server of such a node; otherwise
    /// nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
}

/// A part of the time of a server's requests, as its account tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountTruth {
    /// The server, by its command name.
    pub server: String,
    /// The part, as JSON has it: `accept`.
    pub part: String,
    /// It is at least this share of all their time.
    pub least: f64,
}

/// What the advice of the finding brings about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixTruth {
    /// Figures of the load that are less after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub less: Vec<Less>,
}

/// A figure of the load that is less after the advice was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Less {
    /// The client or binder.
    pub client: String,
    /// As the table of the run names it: `request p99, ms`.
    pub figure: String,
    /// It is above this before, in its unit.
    #[serde(default)]
    pub above: f64,
    /// It is below what it was, divided by this, after.
    pub by: f64,
}

/// What many runs of a scenario show, of which some have the fault and some do not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsTruth {
    /// The first seed of runs of which some have the fault and some do not.
    pub seed: u64,
    /// How many runs that are.
    pub count: u64,
    /// The attributes of sockets, with the value `no`, that tell slow from fast without exception.
    #[serde(default)]
    pub separates: Vec<String>,
}

impl Truth {
    /// The cause that stands for none.
    pub const HEALTHY: &str = "healthy";

    /// Nothing is the matter.
    pub(crate) fn healthy() -> Truth {
        Truth {
            cause: Truth::HEALTHY.to_string(),
            ..Truth::default()
        }
    }

    /// Whether nothing is the matter.
    pub fn is_healthy(&self) -> bool {
        self.cause == Truth::HEALTHY
    }
}
