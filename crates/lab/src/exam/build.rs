//! A situation as one scenario: its parts, changed as it was drawn, beside each other. Pure.

use super::situation::{Part, Side, Situation};
use crate::Error;
use crate::scenario::{Dose, LinkSpec, NodeSpec, Scenario, Sysctl};

/// Of the clients of a part those run longer that end so shortly before the last of it, s.
const LAST: f64 = 1.0;
/// The node that translates addresses.
const NAT: &str = "nat";

/// A situation as it is planted.
pub(crate) struct Built {
    /// All of it.
    pub(crate) scenario: Scenario,
    /// Its parts, as they stand in it.
    pub(crate) parts: Vec<Scenario>,
}

/// Builds a situation; not `planted`: the same without its faults.
pub(crate) fn build(situation: &Situation, planted: bool) -> Result<Built, Error> {
    let mut parts = Vec::new();
    let mut links = 0;
    for part in &situation.parts {
        let dose = match (part.times, planted) {
            (None, _) => Dose::AsWritten,
            (Some(times), true) => Dose::Times(times),
            (Some(times), false) => Dose::Without(times),
        };
        let scenario = Scenario::load_dosed(&part.scenario, part.seed, dose)?;
        let scenario = one(scenario, part, situation, links);
        links += scenario.links.len();
        parts.push(scenario);
    }
    let scenario = Scenario::merged(&format!("exam-{}", situation.seed), &parts);
    scenario.sound()?;
    Ok(Built { scenario, parts })
}

fn one(mut scenario: Scenario, part: &Part, situation: &Situation, links: usize) -> Scenario {
    scenario.recorded = recorded(&scenario, part.side);
    if part.nat {
        translate(&mut scenario);
    }
    let longer_s = situation.longer_s + situation.older_ms / 1e3;
    let ends = |s: &Scenario| {
        let ends = s.clients.iter().map(|c| c.after_ms / 1e3 + c.seconds);
        ends.fold(0.0, f64::max)
    };
    let last = ends(&scenario);
    for client in &mut scenario.clients {
        client.ipv6 |= part.ipv6;
        if client.after_ms / 1e3 + client.seconds > last - LAST {
            client.seconds += longer_s;
        }
    }
    for server in &mut scenario.servers {
        server.ipv6 |= part.ipv6;
    }
    if situation.older_ms > 0.0 {
        scenario.servers_first = true;
        scenario.record_after_ms = situation.older_ms;
    }
    for node in scenario.nodes.values_mut() {
        for (sysctl, value) in &part.sysctls {
            let value = Sysctl::Number(*value);
            node.sysctl.entry(sysctl.clone()).or_insert(value);
        }
    }
    let mut scenario = scenario.renamed(&part.prefix, links);
    if part.ipv6 {
        let resource = scenario.truth.resource.take();
        scenario.truth.resource = resource.map(|text| as_ipv6(&text));
    }
    scenario
}

/// The nodes of a side.
pub(crate) fn recorded(scenario: &Scenario, side: Side) -> Vec<String> {
    let clients = scenario.clients.iter().map(|c| c.node.clone());
    let clients: Vec<String> = clients.collect();
    let written = &scenario.recorded;
    let mut nodes = match side {
        Side::AsWritten => written.clone(),
        Side::Both => scenario.nodes.keys().cloned().collect(),
        // A file may know what else belongs to the clients' host.
        Side::Client if written.iter().any(|node| clients.contains(node)) => written.clone(),
        Side::Client => clients,
        // Or that of all servers one host is recorded.
        Side::Server if !written.is_empty() && !written.iter().any(|n| clients.contains(n)) => {
            written.clone()
        }
        // A proxy is none of the clients', though it connects.
        Side::Server => {
            let servers = scenario.servers.iter().map(|s| &s.node);
            let programs = scenario.programs.iter().filter(|p| p.port.is_some());
            servers.chain(programs.map(|p| &p.node)).cloned().collect()
        }
    };
    nodes.sort();
    nodes.dedup();
    nodes
}

/// Whether a scenario may as well use IPv6: its rules, routes and old clients are of IPv4.
pub(crate) fn can_use_ipv6(scenario: &Scenario) -> bool {
    let of_ipv4 = |n: &NodeSpec| n.gateway.is_some() || n.nft.is_some() || n.old_clients;
    // Files of programs name addresses.
    scenario.programs.is_empty() && !scenario.nodes.values().any(of_ipv4)
}

/// Whether the only client node of a scenario may be behind one that translates addresses.
pub(crate) fn can_be_translated(scenario: &Scenario) -> bool {
    client_link(scenario).is_some()
}

/// The only node with clients, and the only link from it; `None` where that is not so, or where the node or the
/// link are what the fault is about.
fn client_link(scenario: &Scenario) -> Option<(String, usize)> {
    let node = &scenario.clients.first()?.node;
    let mut links = scenario.links.iter().enumerate();
    let mut of_node = links.by_ref().filter(|(_, l)| l.between.contains(node));
    let (index, link) = of_node.next()?;
    let spec = scenario.nodes.get(node)?;
    let plain = scenario
        .clients
        .iter()
        .all(|c| c.node == *node && c.to != *node)
        && !scenario
            .clients
            .iter()
            .any(|c| c.ipv6 || c.bind || c.local_ports.is_some())
        && !scenario.servers.iter().any(|s| s.node == *node || s.ipv6)
        && !scenario.programs.iter().any(|p| p.node == *node)
        && scenario.links.len() == 1
        && (spec.gateway.is_none() && spec.nft.is_none() && spec.sysctl.is_empty())
        && link.tbf.is_none()
        && link.napi_cpu.is_none()
        && link.between[0] == *node
        && !scenario
            .nodes
            .values()
            .any(|n| n.old_clients || n.tracked.is_some())
        && scenario.clients.iter().all(|c| c.addresses == 1);
    plain.then(|| (node.clone(), index))
}

/// Puts a node in front of the clients that translates their addresses, on the same host as they.
fn translate(scenario: &mut Scenario) {
    let Some((client, index)) = client_link(scenario) else {
        return;
    };
    let server = format!("198.18.{}.2", index + 1);
    let mut nat = NodeSpec {
        nft: Some(format!(
            "table ip exam {{\n  chain post {{\n    type nat hook postrouting priority srcnat;\n    \
             ip daddr {server} masquerade\n  }}\n}}\n"
        )),
        ..NodeSpec::default()
    };
    nat.sysctl
        .insert("net.ipv4.ip_forward".into(), Sysctl::Number(1));
    scenario.nodes.insert(NAT.into(), nat);
    if let Some(node) = scenario.nodes.get_mut(&client) {
        node.gateway = Some(NAT.into());
    }
    scenario.links[index].between[0] = NAT.into();
    scenario.links.push(LinkSpec {
        between: [client.clone(), NAT.into()],
        path: None,
        back: None,
        tbf: None,
        napi_cpu: None,
    });
    if scenario.recorded.contains(&client) {
        scenario.recorded.push(NAT.into());
    }
}

/// The addresses of links as IPv6 has them: `path to 198.18.3.2` is `path to fd18:3::2`.
fn as_ipv6(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let numbers = word.strip_prefix("198.18.");
        match numbers.and_then(|rest| rest.split_once('.')) {
            Some((link, host)) => format!("fd18:{link}::{host}"),
            None => word.to_string(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(scenario: &str, side: Side) -> Part {
        Part {
            scenario: scenario.into(),
            prefix: "a".into(),
            seed: 3,
            times: Some(3.0),
            side,
            ipv6: false,
            nat: false,
            sysctls: vec![("net.ipv4.tcp_ecn".into(), 1)],
        }
    }

    fn built(part: Part, planted: bool) -> Scenario {
        let situation = Situation {
            seed: 1,
            older_ms: 1500.0,
            longer_s: 2.0,
            parts: vec![part],
        };
        build(&situation, planted).unwrap().scenario
    }

    #[test]
    fn a_situation_without_its_fault_differs_in_nothing_else() {
        let loss = |s: &Scenario| s.links[0].path.map(|p| p.loss);
        let (with, without) = (
            built(part("path-loss", Side::Client), true),
            built(part("path-loss", Side::Client), false),
        );
        assert!(loss(&with) > Some(0.0) && loss(&without) == Some(0.0));
        assert_eq!(with.recorded, ["a-client"]);
        let mut same = without.clone();
        same.links[0].path = with.links[0].path;
        assert_eq!(format!("{same:?}"), format!("{with:?}"));
    }

    #[test]
    fn the_load_goes_on_for_longer_and_the_recording_begins_later() {
        let scenario = built(part("half-open", Side::Server), true);
        let seconds: Vec<f64> = scenario.clients.iter().map(|c| c.seconds).collect();
        // The first ends before the others begin, and stays so.
        assert_eq!(seconds, [1.5, 7.5, 10.5]);
        assert!(scenario.servers_first && scenario.record_after_ms == 1500.0);
        assert_eq!(scenario.recorded, ["a-server"]);
        let sysctl = &scenario.nodes["a-server"].sysctl["net.ipv4.tcp_ecn"];
        assert_eq!(*sysctl, Sysctl::Number(1));
    }

    #[test]
    fn clients_may_be_behind_a_node_that_translates() {
        let behind = Part {
            nat: true,
            ..part("accept-queue-overflow", Side::Client)
        };
        let scenario = built(behind, true);
        assert_eq!(scenario.nodes["a-client"].gateway.as_deref(), Some("a-nat"));
        assert_eq!(scenario.recorded, ["a-client", "a-nat"]);
        assert_eq!(scenario.links[0].between, ["a-nat", "a-server"]);
        for other in [
            "snat-ports",
            "delayed-requests",
            "healthy-churn",
            "qdisc-drop",
        ] {
            let other = Scenario::load(other, 1).unwrap();
            assert!(!can_be_translated(&other), "{}", other.name);
        }
    }

    #[test]
    fn programs_that_listen_are_on_the_servers_side() {
        let of = |side| recorded(&Scenario::load("nginx-upstream-refused", 1).unwrap(), side);
        assert_eq!(of(Side::Server), ["backend", "proxy"]);
        assert_eq!(of(Side::Client), ["client"]);
        let elsewhere = Scenario::load("nginx-upstream-elsewhere", 1).unwrap();
        assert_eq!(recorded(&elsewhere, Side::Server), ["proxy"]);
        assert_eq!(recorded(&elsewhere, Side::Both).len(), 3);
        let measured = Scenario::load("iperf3-path-loss", 1).unwrap();
        assert_eq!(recorded(&measured, Side::Server), ["server"]);
        assert!(!can_use_ipv6(&measured) && !can_be_translated(&measured));
        assert!(can_be_translated(
            &Scenario::load("redis-slow-command", 1).unwrap()
        ));
    }

    #[test]
    fn addresses_of_ipv6_are_looked_for_where_it_is_used() {
        let six = Part {
            ipv6: true,
            ..part("tail-loss", Side::Both)
        };
        let scenario = built(six, true);
        assert!(scenario.clients.iter().all(|c| c.ipv6));
        assert_eq!(as_ipv6("198.18.12.2"), "fd18:12::2");
        assert_eq!(as_ipv6("path to 198.18.1.2"), "path to fd18:1::2");
        assert_eq!(as_ipv6("CPU 1"), "CPU 1");
        assert!(!can_use_ipv6(&Scenario::load("snat-ports", 1).unwrap()));
    }
}
