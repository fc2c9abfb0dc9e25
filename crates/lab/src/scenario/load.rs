//! What a scenario's load takes: how long, and about how much of a CPU.

use super::spec::{ClientSpec, LinkSpec, Scenario, ServerSpec};

/// CPU time of a connection with its request, of both ends and the recorder, in a build with debug
/// assertions, s.
const CONNECTION: f64 = 300e-6;
/// The same of one request more.
const REQUEST: f64 = 60e-6;
/// The same of a megabit through an emulated path, which a process of the lab carries packet by packet.
const MEGABIT: f64 = 0.8e-3;
/// A load that nothing holds up takes all it can get.
pub(super) const A_CPU: f64 = 1.0;
/// A search through fewer ports takes microseconds.
const MANY_PORTS: u64 = 5_000;

impl Scenario {
    /// For how long its load runs, s.
    pub(crate) fn seconds(&self) -> f64 {
        let clients = self.clients.iter().map(|c| (c.after_ms, c.seconds));
        let binders = self.binders.iter().map(|b| (b.after_ms, b.seconds));
        let ends = clients.chain(binders);
        let ends = ends.map(|(after_ms, seconds)| after_ms / 1e3 + seconds);
        ends.fold(0.0, f64::max)
    }

    /// About how many CPUs its load takes while it runs: right to a factor of two or so, which is enough to choose what
    /// stands beside what.
    pub(crate) fn cpus(&self) -> f64 {
        self.clients.iter().map(|client| self.cpus_of(client)).sum()
    }

    fn cpus_of(&self, client: &ClientSpec) -> f64 {
        let link = self.link_towards(client).map(|(at, _)| &self.links[at]);
        let filled = link.map_or(A_CPU, stream);
        if client.stream.is_some() {
            return filled;
        }
        let megabits = (client.request + client.response) as f64 * 8e-6;
        let emulated = link.is_some_and(|link| link.path.is_some());
        let bytes = megabits * if emulated { MEGABIT } else { MEGABIT / 10.0 };
        let most = client.connections.unwrap_or(u64::MAX);
        let at_once = client.concurrency.min(most);
        if client.keep && client.active != Some(0) {
            let at_once = client.active.unwrap_or(at_once).min(at_once) as f64;
            let each_s = (client.pause_ms + self.round_trip_ms(client)) / 1e3;
            // Small requests take more than what fills a link.
            let most = if megabits > 1.0 { filled } else { A_CPU };
            return (at_once / each_s * (REQUEST + bytes)).min(most);
        }
        if self.searches_ports(client) {
            return A_CPU;
        }
        let each_s = self.round_trip_ms(client) * 2.0 / 1e3;
        let rate = client.rate.unwrap_or(at_once as f64 / each_s);
        let rate = rate.min(most as f64 / client.seconds);
        (rate * (CONNECTION + bytes)).min(A_CPU)
    }

    /// Whether the local ports of a client, which keeps its connections, run short, and thousands are asked each time.
    fn searches_ports(&self, client: &ClientSpec) -> bool {
        let range = self.nodes.get(&client.node);
        let range = range.and_then(|node| node.sysctl.get("net.ipv4.ip_local_port_range"));
        let range = range.map(ToString::to_string).unwrap_or_default();
        let ends: Vec<u64> = range
            .split(' ')
            .filter_map(|end| end.parse().ok())
            .collect();
        let [first, last] = ends[..] else {
            return false;
        };
        let ports = last.saturating_sub(first);
        ports > MANY_PORTS && client.connections.is_some_and(|n| n > ports / 2)
    }

    /// How long a request takes at least, ms.
    fn round_trip_ms(&self, client: &ClientSpec) -> f64 {
        let gateway = self.nodes.get(&client.node);
        let gateway = gateway.and_then(|node| node.gateway.as_ref());
        let to_gateway = gateway.and_then(|gateway| self.link_between(&client.node, gateway));
        let links = [self.link_towards(client), to_gateway];
        let paths = links.iter().flatten().filter_map(|(at, _)| {
            let there = self.links[*at].path?;
            Some(there.delay_ms + self.links[*at].back.unwrap_or(there).delay_ms)
        });
        let is_its = |s: &&ServerSpec| s.node == client.to && s.port == client.port;
        let server = self.servers.iter().find(is_its);
        let server = server.map_or(0.0, |s| s.read_pause_ms + s.work_ms + s.stall_ms);
        paths.sum::<f64>() + server
    }
}

/// What transfers through a link take that fill it.
fn stream(link: &LinkSpec) -> f64 {
    let shaped = link.tbf.map(|tbf| tbf.rate_mbit);
    let path = link.path.and_then(|path| path.rate_mbit);
    shaped
        .or(path)
        .map_or(A_CPU, |rate| (rate * MEGABIT).min(A_CPU))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_known_about() {
        let cpus = |name: &str| Scenario::load(name, 1).unwrap().cpus();
        for light in [
            "path-outage",
            "healthy-pool",
            "slow-accept-older",
            "healthy-bursts",
        ] {
            assert!(cpus(light) < 0.2, "{light}: {}", cpus(light));
        }
        for greedy in ["clumsy-kernel", "port-search", "healthy-keepalive"] {
            assert!(cpus(greedy) >= A_CPU, "{greedy}: {}", cpus(greedy));
        }
        let seconds = |name: &str| Scenario::load(name, 1).unwrap().seconds();
        assert_eq!(seconds("half-open"), 7.0);
        assert_eq!(seconds("bind-beside-children"), 7.0);
    }
}
