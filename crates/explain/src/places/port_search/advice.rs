//! What helps where local ports to a destination are scarce.

use analysis::Netns;
use analysis::words::{count, duration, figure, percent, plural};
use recording::sysctl;
use recording::sysctl::{IP_LOCAL_PORT_RANGE, IP_LOCAL_RESERVED_PORTS};

use super::Destination;
use crate::actions::{command_in, set_sysctl};
use crate::advice::{Advice, Change};
use crate::finding::Scope;
use crate::kernel::linux;
use crate::limits;
use crate::scope::namespace;
use crate::shell;

/// The range that tcpwhy advises: above the ports of most services, and starting at an even one.
const ADVISED_RANGE: (u64, u64) = (10_240, 65_535);

impl Destination<'_> {
    /// What helps, the best first. `bound` when bind() chooses the port.
    pub(crate) fn advice(&self, scope: &Scope, bound: bool) -> Vec<Advice> {
        let mut advice = Vec::new();
        let wide = ADVISED_RANGE.1 - ADVISED_RANGE.0 + 1;
        // Most are left by closed connections: if these stayed open, ports would not run short.
        let churns = limits::MOST.exceeded(self.time_wait(), self.peak());
        if churns {
            advice.push(self.keep_alive());
        }
        let enough =
            !limits::PARITY_FULL.reached(self.wanted(), wide) && wide > self.ports.capacity;
        if enough {
            advice.push(self.wider_range(&scope.netns, wide));
        }
        if bound {
            advice.push(self.no_port_at_bind(scope));
        }
        if churns {
            advice.extend(self.reuse_time_wait(&scope.netns));
        }
        advice.push(self.more_addresses(!enough));
        if self.occupancy() < limits::NEARLY_ALL.share() {
            advice.push(self.own_range());
        }
        if !churns {
            advice.push(self.keep_alive());
        }
        advice
    }

    /// Ports wanted: those in use, and those searched for without success.
    fn wanted(&self) -> u64 {
        let in_vain = self.without_port().count() as u64;
        self.peak().saturating_add(in_vain)
    }

    fn wider_range(&self, netns: &Netns, wide: u64) -> Advice {
        let value = format!("{} {}", ADVISED_RANGE.0, ADVISED_RANGE.1);
        let name = IP_LOCAL_PORT_RANGE;
        let set = shell!("sysctl -w {name}={value}", name, value = &value);
        Advice::to(format!("Widen {IP_LOCAL_PORT_RANGE} to {value}."))
            .by(command_in(netns, set))
            .at(format!(
                "{}; a file in /etc/sysctl.d/ makes it permanent",
                namespace(netns)
            ))
            .risk(format!(
                "A service that listens in the new range may find its port in use: first add such ports (a \
                 kubelet's, a NodePort's) to {IP_LOCAL_RESERVED_PORTS}."
            ))
            .effect(format!(
                "{} of {} ports in use, not {} of {}: connects find one within a few tries.",
                percent(self.wanted() as f64 / wide as f64),
                count(wide),
                percent(self.occupancy()),
                count(self.ports.capacity)
            ))
            .change(Change::Sysctl {
                netns: netns.inode,
                name: IP_LOCAL_PORT_RANGE.into(),
                value,
            })
    }

    /// `None` where it is set already.
    fn reuse_time_wait(&self, netns: &Netns) -> Option<Advice> {
        let number = |name| self.story.settings.number(self.netns, name);
        let now = match number(sysctl::TCP_TW_REUSE) {
            Some(1) => return None,
            Some(2) => "; now it is 2, for loopback only",
            Some(_) => "; now it is off",
            None => "",
        };
        let stamps = match number(sysctl::TCP_TIMESTAMPS) {
            Some(0) => "Has no effect while tcp_timestamps=0, as here: set both sides to 1 first",
            _ => "Needs TCP timestamps on both sides",
        };
        let relative = linux(4, 12).gone(
            self.story,
            "tcp_tw_recycle, its dangerous relative, is gone",
            "leave tcp_tw_recycle off, its dangerous relative",
        );
        let risk = format!("{stamps}; {relative}.");
        let after = number(sysctl::TCP_TW_REUSE_DELAY).map_or_else(
            || "a second".into(),
            |ms| {
                format!(
                    "{} (tcp_tw_reuse_delay={ms})",
                    duration(ms.saturating_mul(1_000_000))
                )
            },
        );
        let expected = format!(
            "connect() may take over the {} in TIME_WAIT {after} after their end{now}. The duration of TIME_WAIT is \
             not configurable in Linux.",
            plural(self.time_wait(), "port")
        );
        Some(set_sysctl(netns, sysctl::TCP_TW_REUSE, 1, &risk, expected))
    }

    fn more_addresses(&self, with_change: bool) -> Advice {
        let room = (0.9 * limits::PARITY_FULL.share() * self.ports.capacity as f64).max(1.0);
        let value = (self.wanted() as f64 / room).ceil().clamp(2.0, 1_000.0) as u32;
        let after = self.wanted() as f64 / f64::from(value) / self.ports.capacity as f64;
        let spread = Advice::to(format!(
            "Spread the connections over {value} addresses: of the destination, or of this host."
        ))
        .at(format!(
            "the client's configuration, or more addresses for {}",
            self.to
        ))
        .risk("Firewalls and allow lists must know the new addresses.")
        .effect(format!(
            "Each pair of addresses has all ports to itself: {} in use per pair.",
            percent(after)
        ));
        if with_change {
            spread.change(Change::MoreAddresses {
                to: self.to.to_string(),
                value,
            })
        } else {
            spread
        }
    }

    fn own_range(&self) -> Advice {
        let free = 1.0 - self.occupancy().min(limits::NEARLY_ALL.share());
        // Older kernels lack the option, or search the same way with it.
        let kernel = linux(6, 8).told(self.story);
        Advice::to(format!(
            "Set IP_LOCAL_PORT_RANGE on the socket before connect() ({kernel})."
        ))
            .at("the client's source")
            .risk("None for others; the range lies within the same ports.")
            .effect(format!(
                "Such a socket starts at a random port and tries both parities: about {} per connect, not {}. \
                 Kernels since 6.3 have the option, but it does not change the search before 6.8.",
                plural((1.0 / free).round() as u64, "attempt"),
                count(self.ports.capacity / 2)
            ))
    }

    fn keep_alive(&self) -> Advice {
        Advice::to("Reuse connections (keep-alive, a pool, a multiplexing protocol).")
            .at("the client's configuration")
            .risk(
                "Long-lived connections stay with the server they were made to, and the server holds idle ones: set \
                 its idle timeout above the client's.",
            )
            .effect(format!(
                "As many ports as requests in flight, not {}.",
                count(self.peak())
            ))
            .change(Change::KeepConnections {
                to: self.to.to_string(),
            })
    }

    fn no_port_at_bind(&self, scope: &Scope) -> Advice {
        let kernel = linux(4, 2).told(self.story);
        let advice = Advice::to(format!(
            "Set IP_BIND_ADDRESS_NO_PORT on the socket before bind() ({kernel})."
        ))
        .at("the client's source; nginx (proxy_bind) and HAProxy (source) do so")
        .risk("getsockname() shows port 0 until connect() is called.")
        .effect(format!(
            "connect() chooses the port: a try costs about {} ns, not {}, and a port serves many \
             destinations.",
            figure(limits::PORT_TRY.number()),
            figure(limits::PORT_BIND_TRY.number())
        ));
        match scope.pid {
            Some(pid) => advice.change(Change::ConnectChoosesPort { pid }),
            None => advice,
        }
    }
}
