//! What to do about refused SYNs, with the odds that each change would leave.

use analysis::words::{count, duration, figure, fitting, percent};
use recording::sysctl;
use recording::sysctl::IP_LOCAL_PORT_RANGE;

use super::case::Collision;
use crate::actions::{command_in, former_sysctl, set_sysctl};
use crate::advice::{Advice, Change};
use crate::limits;
use crate::scope::namespace;
use crate::shell;

/// The kernel's own default range.
const LINUX_PORT_RANGE: (u64, u64) = (32_768, 60_999);
/// Odds at which a clash is rare enough.
const ADVISED_ODDS: f64 = 0.01;

impl Collision<'_> {
    pub(super) fn fix(&self) -> String {
        if let Some(illumos) = self.illumos() {
            return illumos.fix(self);
        }
        let at = self.at;
        if self.keeps() {
            return "Set tcp_rfc1337=0 on the server, and tcp_timestamps=1 on both sides.".into();
        }
        match (self.paws(), self.without_timestamps().is_empty()) {
            (true, _) => "Keep connections open (keep-alive, a pool), or have the client close first: behind NAT \
                          timestamps disagree."
                .into(),
            (false, false) => fitting([
                format!(
                    "Keep connections to {at} open (keep-alive, a pool), or set tcp_timestamps=1 on both sides."
                ),
                "Keep connections open (keep-alive, a pool), or set tcp_timestamps=1 on both sides.".into(),
            ]),
            (false, true) => fitting([
                format!(
                    "Keep connections to {at} open (keep-alive, a pool), or use more local ports."
                ),
                "Keep connections open (keep-alive, a pool), or use more local ports.".into(),
            ]),
        }
    }

    /// Namespaces on this host that have timestamps switched off.
    fn without_timestamps(&self) -> Vec<u32> {
        let settings = &self.story.settings;
        let mut netns = self.client_netns();
        netns.extend(self.server);
        netns.sort_unstable();
        netns.dedup();
        netns.retain(|n| settings.number(*n, sysctl::TCP_TIMESTAMPS) == Some(0));
        netns
    }

    pub(super) fn advice(&self) -> Vec<Advice> {
        let mut advice = Vec::new();
        if let Some(illumos) = self.illumos() {
            advice.push(self.keep_alive());
            advice.extend(illumos.advice(self));
            advice.extend(self.more_addresses());
            return advice;
        }
        // A wrong setting comes first, then what needs no setting.
        advice.extend(self.obey_resets());
        advice.push(self.keep_alive());
        if self.paws() {
            advice.push(self.client_closes());
            advice.extend(self.more_ports());
            advice.extend(self.no_timestamps());
        } else {
            advice.extend(self.timestamps());
            advice.extend(self.more_ports());
            advice.extend(self.more_addresses());
            advice.push(self.client_closes());
        }
        advice
    }

    /// With tcp_rfc1337 the client's reset does not end the TIME_WAIT: nothing else helps then.
    fn obey_resets(&self) -> Option<Advice> {
        let netns = self.server?;
        let expected = "The client's reset ends the TIME_WAIT socket, so that its second SYN is accepted; now it is \
                        refused until the 60 s have passed."
            .to_string();
        let risk = "None of note: it is the kernel's default.";
        self.keeps().then(|| {
            set_sysctl(
                &self.story.netns(netns),
                sysctl::TCP_RFC1337,
                0,
                risk,
                expected,
            )
        })
    }

    fn timestamps(&self) -> Vec<Advice> {
        let off = self.without_timestamps();
        let expected = format!(
            "A SYN with a newer timestamp is accepted whatever its sequence number. Only ports reused within the \
             same millisecond remain: {} at {} connects per second, instead of {} now.",
            self.odds(limits::TIMESTAMP_TICK.number(), self.ports_now())
                .map_or("few".into(), percent),
            figure(self.full_rate()),
            percent(self.share())
        );
        let risk = "12 bytes per segment; through NAT with several hosts behind one address \
                    timestamps may collide instead.";
        let set = |netns: &u32| {
            let netns = self.story.netns(*netns);
            set_sysctl(&netns, sysctl::TCP_TIMESTAMPS, 1, risk, expected.clone())
        };
        off.iter().map(set).collect()
    }

    /// The last resort: sequence numbers of several clocks do not agree either.
    fn no_timestamps(&self) -> Option<Advice> {
        let netns = self.server?;
        let on = self.story.settings.number(netns, sysctl::TCP_TIMESTAMPS)? != 0;
        let expected =
            "SYNs are then judged by their sequence number, which is high enough for about half of those refused \
                        now."
                .to_string();
        let risk = "The whole namespace loses timestamps: coarser round-trip times, no protection \
                    against wrapped sequence numbers above 1 Gbit/s, and SYN cookies lose options.";
        on.then(|| Advice {
            // It only half helps: not for a program to apply.
            change: None,
            undo: Some(former_sysctl(self.story, netns, sysctl::TCP_TIMESTAMPS)),
            ..set_sysctl(
                &self.story.netns(netns),
                sysctl::TCP_TIMESTAMPS,
                0,
                risk,
                expected,
            )
        })
    }

    fn share(&self) -> f64 {
        let (n, of) = self.impact();
        n as f64 / of.max(1) as f64
    }

    fn ports_now(&self) -> u64 {
        self.range().map_or(0, |(size, _)| size)
    }

    /// Connects per second when nothing hindered them.
    pub(super) fn full_rate(&self) -> f64 {
        let whole = self.clients.len() as f64 / self.story.seconds();
        self.broke.map_or(whole, |b| b.before.max(b.after))
    }

    /// The odds that a port was used within the last `window` ns if `ports` ports were drawn at random. connect()
    /// prefers ports of one parity, so that half of them are drawn.
    fn odds(&self, window_ns: f64, ports: u64) -> Option<f64> {
        let drawn = (ports / 2).max(1) as f64;
        let within = self.full_rate() * window_ns / 1e9;
        (ports > 0).then(|| 1.0 - (-within / drawn).exp())
    }

    fn more_ports(&self) -> Option<Advice> {
        // Behind NAT the router chooses the port.
        let (size, netns) = self.range().filter(|_| !self.behind_nat())?;
        let netns = self.story.netns(netns);
        let (low, high) = LINUX_PORT_RANGE;
        let wide = high - low + 1;
        if size >= wide {
            return None;
        }
        let value = format!("{low} {high}");
        let (window, with) = if self.without_timestamps().is_empty() || self.paws() {
            (self.window_ns(), "")
        } else {
            (limits::TIMESTAMP_TICK.number(), "With timestamps on, at ")
        };
        let at = if with.is_empty() { "At " } else { with };
        let left = self.odds(window, wide).map_or(String::new(), |odds| {
            format!(
                " {at}{} connects per second and {} in which a port must not be reused, {} of connects would be \
                 refused.",
                figure(self.full_rate()),
                duration(window as u64),
                percent(odds)
            )
        });
        Some(Advice {
            action: format!(
                "Widen {IP_LOCAL_PORT_RANGE} to {value}, from {} ports to {}.",
                count(size),
                count(wide)
            ),
            command: command_in(
                &netns,
                shell!(
                    "sysctl -w {name}={value}",
                    name = IP_LOCAL_PORT_RANGE,
                    value = &value
                ),
            ),
            r#where: format!("{}; a file in /etc/sysctl.d/ makes it permanent", namespace(&netns)),
            risk: "A service that binds a port in the new range may find it in use: put such ports into \
                   net.ipv4.ip_local_reserved_ports."
                .into(),
            undo: None,
            expected: format!("Ports are reused later.{left}"),
            change: Some(Change::Sysctl {
                netns: netns.inode,
                name: IP_LOCAL_PORT_RANGE.into(),
                value,
            }),
        })
    }

    /// One client has as many pairs of ports as the range is wide; many clients have many times that.
    fn more_addresses(&self) -> Option<Advice> {
        let is = self.occupancy()?;
        let enough = is.time_wait as f64 / is.ports.max(1) as f64 / ADVISED_ODDS;
        let addresses = (enough.ceil() as u64).clamp(is.addresses + 1, 1_000);
        let (left, now) = (is.odds(addresses)?, is.odds(is.addresses)?);
        Some(
            Advice::to(format!(
                "Spread the connects over {} source addresses, as many real clients do.",
                count(addresses)
            ))
            .at("the load generator's or proxy's configuration; more addresses on this host")
            .risk("Firewalls and allow lists must know the new addresses.")
            .effect(format!(
                "Each address has all {} ports to itself: the probability that a chosen port is in TIME_WAIT becomes \
                 {}, now {}.",
                count(is.ports),
                percent(left),
                percent(now)
            )),
        )
    }

    /// For how long a port must not be used again, ns: while the upload is ahead of the clock.
    fn window_ns(&self) -> f64 {
        let mut ahead: Vec<u64> = self.uploads().iter().map(|u| u.bytes).collect();
        let bytes = analysis::stats::median(&mut ahead).unwrap_or(0);
        (bytes as f64 * limits::ISN_TICK.ns() as f64).max(limits::TIMESTAMP_TICK.number())
    }

    fn keep_alive(&self) -> Advice {
        Advice {
            action: format!(
                "Keep connections to {} open and send many requests over each (HTTP keep-alive, a \
                 connection pool).",
                self.at
            ),
            command: None,
            r#where: "the client's and the server's configuration".into(),
            risk: "The server holds idle connections: set its idle timeout above the client's."
                .into(),
            undo: None,
            expected: format!(
                "Fewer connections, fewer TIME_WAIT sockets: with 100 requests per connection at most a hundredth of \
                 the present {} remain.",
                count(self.refused.len().max(self.strays.len()) as u64)
            ),
            change: Some(Change::KeepConnections {
                to: self.at.to_string(),
            }),
        }
    }

    /// The present tcp_tw_reuse at the client, and whether it has an effect.
    fn reuse_now(&self) -> String {
        let settings = &self.story.settings;
        let netns = self.client_netns().first().copied();
        let number = |name| netns.and_then(|n| settings.number(n, name));
        let reuse = match number(sysctl::TCP_TW_REUSE) {
            Some(2) => "; it is 2 now, for loopback only".to_string(),
            Some(n) => format!("; it is {n} now"),
            None => String::new(),
        };
        match number(sysctl::TCP_TIMESTAMPS) {
            Some(0) => format!("{reuse}, and without timestamps it has no effect"),
            _ => reuse,
        }
    }

    fn client_closes(&self) -> Advice {
        Advice {
            action: "Have the client close first, or give it more source addresses. The 60 s of TIME_WAIT are a \
                     constant of Linux: no sysctl shortens them (tcp_fin_timeout is another timer), and none changes \
                     how its sequence numbers advance (RFC 6528)."
                .into(),
            command: None,
            r#where:
                "the protocol between client and server; IP_BIND_ADDRESS_NO_PORT with several \
                      addresses"
                    .into(),
            risk: format!(
                "Ports are then held at the client, which knows of them: it can run out of them (tcp_tw_reuse=1 \
                 allows their reuse after a second{}).",
                self.reuse_now()
            ),
            undo: None,
            expected: "The TIME_WAIT sockets are then on the host that chooses ports, so that it does not choose one \
                       too early; each additional address multiplies the ports."
                .into(),
            // Elsewhere a sysctl does it, without a change of the application.
            change: self.paws().then(|| Change::ClientClosesFirst {
                at: self.at.to_string(),
            }),
        }
    }
}
