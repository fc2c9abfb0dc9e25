//! The command lines of a scenario's servers and clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;

use clap::ValueEnum;

use super::{Plant, addresses};
use crate::scenario::{BinderSpec, ClientSpec, HogSpec, ServerSpec};
use crate::workload::{Closer, Stream};

/// A command line that grows by options.
struct Line(Command);

impl Line {
    fn option(mut self, name: &str, value: impl ToString) -> Line {
        self.0.arg(name).arg(value.to_string());
        self
    }

    fn maybe(self, name: &str, value: Option<impl ToString>) -> Line {
        match value {
            Some(value) => self.option(name, value),
            None => self,
        }
    }
}

impl Plant {
    fn workload(&self, role: &str, name: &str, node: &str) -> Line {
        let mut command = Command::new(&self.programs.workload[0]);
        command.args(&self.programs.workload[1..]).arg(role);
        Line(command)
            .option("--name", name)
            .option("--netns", self.nodes[node].name())
            .option("--parent", std::process::id())
            .option("--seed", self.seed)
    }

    pub(super) fn server_command(&self, spec: &ServerSpec) -> Command {
        let any: IpAddr = if spec.ipv6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let mut command = self
            .workload("server", &spec.name, &spec.node)
            .option("--listen", SocketAddr::new(any, spec.port))
            .option("--backlog", spec.backlog)
            .option("--accept-ms", spec.accept_ms)
            .option("--stall-after-ms", spec.stall_after_ms)
            .option("--stall-ms", spec.stall_ms)
            .option("--read-pause-ms", spec.read_pause_ms)
            .option("--think-ms", spec.think_ms)
            .option("--think-one-in", spec.think_one_in)
            .option("--idle-timeout-ms", spec.idle_timeout_ms)
            .option("--abort-one-in", spec.abort_one_in)
            .option("--work-ms", spec.work_ms)
            .maybe("--files", spec.files)
            .maybe("--read-bytes", spec.read_bytes)
            .maybe("--rcvbuf", spec.rcvbuf)
            .maybe("--congestion", spec.congestion.as_ref())
            .maybe("--cpu", spec.cpu)
            .0;
        for (flag, given) in [
            ("--answers-early", spec.answers_early),
            ("--linger-zero", spec.linger_zero),
            ("--shares-port", spec.shares_port),
        ] {
            if given {
                command.arg(flag);
            }
        }
        command
    }

    pub(super) fn binder_command(&self, spec: &BinderSpec) -> Command {
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let at = SocketAddr::new(spec.address.unwrap_or(any), spec.port);
        let mut command = self
            .workload("binder", &spec.name, &spec.node)
            .option("--bind", at)
            .option("--after-ms", spec.after_ms)
            .option("--rate", spec.rate)
            .option("--seconds", spec.seconds)
            .0;
        if spec.reuse {
            command.arg("--reuse");
        }
        command
    }

    pub(super) fn hog_command(&self, spec: &HogSpec) -> Command {
        let hog = self
            .workload("hog", &spec.name, &spec.node)
            .option("--cpu", spec.cpu)
            .option("--after-ms", spec.after_ms)
            .option("--busy-ms", spec.busy_ms)
            .option("--rest-ms", spec.rest_ms)
            .0;
        let priority = spec.fifo.unwrap_or(0).to_string();
        let policy = match (spec.fifo, spec.idle) {
            (Some(_), _) => "--fifo",
            (None, true) => "--idle",
            (None, false) => return hog,
        };
        let mut command = Command::new("chrt");
        command.args([policy, &priority]);
        command.arg(hog.get_program()).args(hog.get_args());
        command
    }

    /// `start_ns`: the moment from which it counts, of CLOCK_MONOTONIC.
    pub(super) fn client_command(&self, spec: &ClientSpec, start_ns: Option<u64>) -> Command {
        let closes = match spec.closes {
            Closer::Client => "client",
            Closer::Server => "server",
        };
        let stream = spec.stream.map(|stream| match stream {
            Stream::Up => "up",
            Stream::Down => "down",
        });
        let congestion = (!spec.congestion.is_empty()).then(|| spec.congestion.join(","));
        let mut command = self
            .workload("client", &spec.name, &spec.node)
            .option("--connect", self.destinations(spec))
            .option("--after-ms", spec.after_ms)
            .maybe("--start-ns", start_ns)
            .option("--seconds", spec.seconds)
            .option("--concurrency", spec.concurrency)
            .option("--closes", closes)
            .maybe("--connections", spec.connections)
            .maybe("--rate", spec.rate)
            .maybe("--active", spec.active)
            .maybe("--pause-ms", (spec.pause_ms > 0.0).then_some(spec.pause_ms))
            .maybe("--stream", stream)
            .maybe("--congestion", congestion)
            .maybe("--local-ports", spec.local_ports.as_ref())
            .maybe("--local", spec.bind.then(|| self.address(spec, true, 0)))
            .maybe("--cpu", spec.cpu)
            .maybe("--connect-timeout-ms", spec.connect_timeout_ms)
            .0;
        match (&spec.says, spec.speaks) {
            (Some(says), Some(speaks)) => {
                let speaks = speaks.to_possible_value().expect("none is hidden");
                command.args(["--says", says, "--speaks", speaks.get_name()]);
            }
            _ => {
                let (request, response) = (spec.request.to_string(), spec.response.to_string());
                command.args(["--request", &request, "--response", &response]);
            }
        }
        for (flag, given) in [
            ("--keep", spec.keep),
            ("--nagle", spec.nagle),
            ("--two-writes", spec.two_writes),
            ("--linger-zero", spec.linger_zero),
        ] {
            if given {
                command.arg(flag);
            }
        }
        command
    }

    /// Where a client connects to, as its option wants it.
    fn destinations(&self, client: &ClientSpec) -> String {
        let addresses = (0..client.addresses).map(|n| self.address(client, false, n));
        let ports = client.port..client.port + client.ports;
        let all = addresses.flat_map(|a| ports.clone().map(move |port| SocketAddr::new(a, port)));
        all.map(|a| a.to_string()).collect::<Vec<_>>().join(",")
    }

    /// An address of the client's end of its link, or of the other end.
    fn address(&self, client: &ClientSpec, own: bool, nth: u8) -> IpAddr {
        if client.node == client.to {
            return if client.ipv6 {
                Ipv6Addr::LOCALHOST.into()
            } else {
                Ipv4Addr::LOCALHOST.into()
            };
        }
        let (link, from_first) = self
            .scenario
            .link_towards(client)
            .expect("checked when the scenario was read");
        let (link, first) = (self.number(link), from_first == own);
        if client.ipv6 {
            addresses::ipv6(link, first, nth).into()
        } else {
            addresses::ipv4(link, first, nth).into()
        }
    }
}
