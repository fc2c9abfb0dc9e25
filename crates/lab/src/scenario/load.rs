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
const ALL: f64 = 1.0;

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
        if client.stream.is_some() {
            return link.map_or(ALL, stream);
        }
        let megabits = (client.request + client.response) as f64 * 8e-6;
        let emulated = link.is_some_and(|link| link.path.is_some());
        let bytes = megabits * if emulated { MEGABIT } else { MEGABIT / 10.0 };
        let at_once = client
            .concurrency
            .min(client.connections.unwrap_or(u64::MAX));
        let paced = client.keep && client.pause_ms > 0.0;
        if client.keep && (paced || client.active != Some(0)) {
            let at_once = client.active.unwrap_or(at_once).min(at_once) as f64;
            let each_s = (client.pause_ms + self.round_trip_ms(client)) / 1e3;
            return (at_once / each_s * (REQUEST + bytes)).min(ALL);
        }
        match client.rate {
            Some(rate) => rate * (CONNECTION + bytes),
            None => {
                let each_s = self.round_trip_ms(client) * 2.0 / 1e3;
                (at_once as f64 / each_s * (CONNECTION + bytes)).min(ALL)
            }
        }
    }

    /// How long a request takes at least, ms.
    fn round_trip_ms(&self, client: &ClientSpec) -> f64 {
        let link = self.link_towards(client).map(|(at, _)| &self.links[at]);
        let path = link.and_then(|link| {
            let there = link.path?;
            Some(there.delay_ms + link.back.unwrap_or(there).delay_ms)
        });
        let is_its = |s: &&ServerSpec| s.node == client.to && s.port == client.port;
        let server = self.servers.iter().find(is_its);
        path.unwrap_or(0.0) + server.map_or(0.0, |s| s.read_pause_ms + s.work_ms)
    }
}

/// What transfers through a link take that fill it.
fn stream(link: &LinkSpec) -> f64 {
    let shaped = link.tbf.map(|tbf| tbf.rate_mbit);
    let path = link.path.and_then(|path| path.rate_mbit);
    shaped
        .or(path)
        .map_or(ALL, |rate| (rate * MEGABIT).min(ALL))
}
