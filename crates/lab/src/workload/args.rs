//! The parameters of the workload, as a command line.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::speaks::Speaks;

/// A small TCP client or server, for the lab.
#[derive(Clone, Debug, Args)]
pub struct WorkloadArgs {
    /// Which of the two.
    #[command(subcommand)]
    pub role: Role,
}

/// Which side of the load a process is.
#[derive(Clone, Debug, Subcommand)]
pub enum Role {
    /// Listens, reads requests, writes responses, until SIGTERM.
    Server(ServerArgs),
    /// Connects, sends requests, until its connections or its time are spent.
    Client(ClientArgs),
    /// Asks for a port over and over by bind(2), until its time is spent.
    Binder(BinderArgs),
    /// Uses a CPU and no network, until SIGTERM.
    Hog(HogArgs),
}

/// What both sides have.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Command name of the process, at most 15 bytes.
    #[arg(long, default_value = "lab-workload")]
    pub name: String,
    /// Network namespace to work in, by its name in /run/netns.
    #[arg(long)]
    pub netns: Option<String>,
    /// Pid of the parent; the process dies with it.
    #[arg(long)]
    pub parent: Option<u32>,
    /// Congestion control per socket; with several, connections take turns.
    #[arg(long, value_delimiter = ',')]
    pub congestion: Vec<String>,
    /// Seed of what is random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The CPU to run on.
    #[arg(long)]
    pub cpu: Option<u32>,
}

/// The server's parameters.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// What both sides have.
    #[command(flatten)]
    pub common: Common,
    /// Address to listen on.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Backlog given to listen(2).
    #[arg(long, default_value_t = 4096)]
    pub backlog: u32,
    /// Time between two accepts, ms; connections that are open are served meanwhile.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub accept_ms: f64,
    /// Stop accepting so long after the first client has come, ms.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub stall_after_ms: f64,
    /// For how long to stop accepting, ms; 0 is never.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub stall_ms: f64,
    /// Sleep so long after each read of a request's body, ms.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub read_pause_ms: f64,
    /// Wait so long for a lock before an answer, ms; all that is asked waits meanwhile.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub think_ms: f64,
    /// Of so many requests one makes it wait.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub think_one_in: u64,
    /// CPU time that each answer takes, ms.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub work_ms: f64,
    /// Descriptors that it may have open (RLIMIT_NOFILE); without it as many as it is allowed.
    #[arg(long)]
    pub files: Option<u64>,
    /// Share the port with other servers (SO_REUSEPORT).
    #[arg(long)]
    pub shares_port: bool,
    /// Bytes of one such read at most.
    #[arg(long, default_value_t = super::socket::CHUNK as u64, value_parser = clap::value_parser!(u64).range(1..))]
    pub read_bytes: u64,
    /// SO_RCVBUF of the connections, bytes; without it the kernel sizes the buffer.
    #[arg(long)]
    pub rcvbuf: Option<u32>,
    /// Answer a request with a body as soon as its header has been read, and close.
    #[arg(long)]
    pub answers_early: bool,
    /// Close with SO_LINGER 0.
    #[arg(long)]
    pub linger_zero: bool,
    /// Close a connection on which nothing was asked for so long, ms; 0 is never.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub idle_timeout_ms: f64,
    /// Of so many requests answer one with a reset; 0 is none.
    #[arg(long, default_value_t = 0)]
    pub abort_one_in: u64,
    /// Ends by itself after so many seconds.
    #[arg(long, default_value_t = 300.0, value_parser = amount)]
    pub lifetime: f64,
}

/// The client's parameters.
#[derive(Clone, Debug, Args)]
pub struct ClientArgs {
    /// What both sides have.
    #[command(flatten)]
    pub common: Common,
    /// Address to connect to; several of one family in turn.
    #[arg(long, required = true, value_delimiter = ',')]
    pub connect: Vec<SocketAddr>,
    /// Wait so long before the first connection, ms.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub after_ms: f64,
    /// Count that from this moment, ns of CLOCK_MONOTONIC, and not from the process's start.
    #[arg(long)]
    pub start_ns: Option<u64>,
    /// Open no more connections than this.
    #[arg(long, default_value_t = 1_000_000)]
    pub connections: u64,
    /// Start nothing new after so many seconds.
    #[arg(long, default_value_t = 10.0, value_parser = amount)]
    pub seconds: f64,
    /// What is under way at the end gets so long to finish, seconds.
    #[arg(long, default_value_t = 1.0, value_parser = amount)]
    pub grace: f64,
    /// Connections open at one time.
    #[arg(long, default_value_t = 1)]
    pub concurrency: u64,
    /// Connections opened per second; without it, as fast as earlier ones end.
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// Bytes of a request; at least 24.
    #[arg(long, default_value_t = 100)]
    pub request: u64,
    /// Bytes of a response.
    #[arg(long, default_value_t = 100)]
    pub response: u64,
    /// What a request is instead, as it stands: of a program that does not know the lab's own.
    #[arg(long, requires = "speaks", conflicts_with_all = ["stream", "request", "response"])]
    pub says: Option<String>,
    /// The protocol of that, by which the end of an answer is known.
    #[arg(long, value_enum, requires = "says")]
    pub speaks: Option<Speaks>,
    /// Which side closes a connection first.
    #[arg(long, value_enum, default_value_t = Closer::Client)]
    pub closes: Closer,
    /// Keep connections open and send request after request, to the end.
    #[arg(long)]
    pub keep: bool,
    /// Of the connections kept, how many may have a request under way; drawn at random.
    #[arg(long, requires = "keep")]
    pub active: Option<u64>,
    /// A connection that is kept waits so long between two requests, ms, and nobody looks meanwhile whether
    /// it is still open.
    #[arg(long, default_value_t = 0.0, value_parser = amount, requires = "keep")]
    pub pause_ms: f64,
    /// No requests: one endless transfer per connection, to the end.
    #[arg(long, value_enum)]
    pub stream: Option<Stream>,
    /// Local address to bind; without ports, bind(2) chooses the port.
    #[arg(long)]
    pub local: Option<IpAddr>,
    /// Local ports to bind, in turn: `40000-40255`.
    #[arg(long)]
    pub local_ports: Option<PortRange>,
    /// Leave Nagle's algorithm on: do not set TCP_NODELAY.
    #[arg(long)]
    pub nagle: bool,
    /// Write a request in two pieces: its first 24 bytes and the rest.
    #[arg(long, conflicts_with = "stream")]
    pub two_writes: bool,
    /// Close with SO_LINGER 0.
    #[arg(long)]
    pub linger_zero: bool,
    /// Give a connect up after so long, ms.
    #[arg(long, default_value_t = 30_000.0, value_parser = amount)]
    pub connect_timeout_ms: f64,
}

/// The parameters of what asks for a port.
#[derive(Clone, Debug, Args)]
pub struct BinderArgs {
    /// What both sides have.
    #[command(flatten)]
    pub common: Common,
    /// Address and port to bind.
    #[arg(long)]
    pub bind: SocketAddr,
    /// Set SO_REUSEADDR first.
    #[arg(long)]
    pub reuse: bool,
    /// Wait so long before the first call, ms.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub after_ms: f64,
    /// Calls per second at most.
    #[arg(long, default_value_t = 100.0, value_parser = rate)]
    pub rate: f64,
    /// Ask no more after so many seconds.
    #[arg(long, default_value_t = 10.0, value_parser = amount)]
    pub seconds: f64,
}

/// The parameters of what burns CPU.
#[derive(Clone, Debug, Args)]
pub struct HogArgs {
    /// What both sides have.
    #[command(flatten)]
    pub common: Common,
    /// Wait so long before it begins, ms.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub after_ms: f64,
    /// Run so long at a time, ms.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub busy_ms: f64,
    /// Then sleep so long, ms; 0 is never.
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub rest_ms: f64,
    /// Ends by itself after so many seconds.
    #[arg(long, default_value_t = 60.0, value_parser = amount)]
    pub lifetime: f64,
}

/// Which side closes first, and so is the one that has the TIME_WAIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Closer {
    /// The client.
    #[default]
    Client,
    /// The server.
    Server,
}

/// Direction of an endless transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// A time, in whatever unit: what [`std::time::Duration`] can hold in any of ours.
fn amount(text: &str) -> Result<f64, String> {
    within(text, 0.0)
}

/// Events per second.
fn rate(text: &str) -> Result<f64, String> {
    within(text, 1e-3)
}

fn within(text: &str, least: f64) -> Result<f64, String> {
    const MOST: f64 = 1e9;
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if (least..=MOST).contains(&value) {
        Ok(value)
    } else {
        Err(format!("not within {least} and {MOST}"))
    }
}

/// Local ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |p: &str| p.parse::<u16>().map_err(|e| format!("`{p}`: {e}"));
        let (first, last) = (port(first)?, port(last)?);
        if first == 0 || first > last {
            return Err(format!("`{text}` is not FIRST-LAST"));
        }
        Ok(PortRange { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for bad in ["-1", "NaN", "inf", "1e300", "x", ""] {
            assert!(amount(bad).is_err() && rate(bad).is_err(), "{bad}");
        }
        assert_eq!((amount("0"), rate("2.5")), (Ok(0.0), Ok(2.5)));
        assert!(rate("0").is_err());
    }

    #[test]
    fn port_ranges_are_read() {
        assert_eq!(
            "40000-40255".parse(),
            Ok(PortRange {
                first: 40000,
                last: 40255
            })
        );
        assert_eq!("7".parse(), Ok(PortRange { first: 7, last: 7 }));
        for bad in ["", "0-5", "9-5", "1-70000", "a-b"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }
}
