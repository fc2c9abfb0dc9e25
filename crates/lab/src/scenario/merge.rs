//! Several scenarios as one: each in nodes of its own, under names that no other has.

use std::collections::BTreeMap;

use super::check::{COMMAND_NAME, NODE_NAME};
use super::{Scenario, Truth};
use crate::Error;

/// What the addresses of the links begin with: the number of the link follows.
const IPV4: &str = "198.18.";

impl Scenario {
    /// The same scenarios under names and behind addresses that no other of them has, each still by itself.
    pub(crate) fn side_by_side(all: Vec<Scenario>) -> Result<Vec<Scenario>, Error> {
        let mut before = 0;
        let prefixes = 'a'..='z';
        let mut parts = Vec::new();
        for (scenario, prefix) in all.into_iter().zip(prefixes) {
            if let Some(why) = &scenario.alone {
                return Err(Error::Scenario {
                    name: scenario.name,
                    why: format!("nothing may be planted beside it: {why}"),
                });
            }
            let links = scenario.links.len();
            let part = scenario.renamed(&prefix.to_string(), before);
            part.sound()?;
            parts.push(part);
            before += links;
        }
        Ok(parts)
    }

    /// The same scenario behind `before` other links, with `prefix` in front of every name.
    pub(crate) fn renamed(mut self, prefix: &str, before: usize) -> Scenario {
        self.links_before = before;
        let node = |name: &str| short(prefix, name, NODE_NAME);
        let command = |name: &str| short(prefix, name, COMMAND_NAME);
        self.nodes = std::mem::take(&mut self.nodes)
            .into_iter()
            .map(|(name, mut spec)| {
                spec.gateway = spec.gateway.map(|gateway| node(&gateway));
                spec.nft = spec.nft.map(|text| renumbered(&text, before));
                (node(&name), spec)
            })
            .collect();
        for link in &mut self.links {
            link.between = [node(&link.between[0]), node(&link.between[1])];
        }
        for name in &mut self.recorded {
            *name = node(name);
        }
        for server in &mut self.servers {
            (server.name, server.node) = (command(&server.name), node(&server.node));
        }
        for program in &mut self.programs {
            (program.name, program.node) = (command(&program.name), node(&program.node));
            let files = program.files.values_mut();
            for text in files
                .chain(&mut program.command)
                .chain(&mut program.prepare)
            {
                *text = renumbered(text, before);
            }
        }
        for client in &mut self.clients {
            client.name = command(&client.name);
            (client.node, client.to) = (node(&client.node), node(&client.to));
        }
        for binder in &mut self.binders {
            (binder.name, binder.node) = (command(&binder.name), node(&binder.node));
        }
        for hog in &mut self.hogs {
            (hog.name, hog.node) = (command(&hog.name), node(&hog.node));
        }
        let truth = &mut self.truth;
        for account in &mut truth.account {
            account.server = command(&account.server);
        }
        for less in truth.fix.iter_mut().flat_map(|fix| &mut fix.less) {
            less.client = command(&less.client);
        }
        truth.server = truth.server.as_deref().map(command);
        truth.client = truth.client.as_deref().map(|names| {
            let names: Vec<String> = names.split('|').map(command).collect();
            names.join("|")
        });
        for name in self.severity.iter_mut().flat_map(|s| &mut s.hurts) {
            *name = command(name);
        }
        truth.resource =
            truth
                .resource
                .as_deref()
                .map(|resource| match resource.strip_prefix("to-") {
                    Some(name) => format!("to-{}", node(name)),
                    None => renumbered(resource, before),
                });
        self
    }

    /// All of them at once; nothing is said of their truth. Names must have been made different.
    pub(crate) fn merged(name: &str, parts: &[Scenario]) -> Scenario {
        let mut merged = Scenario {
            name: name.to_string(),
            title: name.to_string(),
            about: String::new(),
            // The addresses of its links are those of the parts: they stand in their order.
            links_before: 0,
            alone: None,
            servers_first: parts.iter().any(|p| p.servers_first),
            suite: super::Suite::Lab,
            starts_together: parts.iter().any(|p| p.starts_together),
            record: Vec::new(),
            record_after_ms: parts.iter().map(|p| p.record_after_ms).fold(0.0, f64::max),
            recorded: parts.iter().flat_map(recorded).collect(),
            neighbours: 0,
            nodes: BTreeMap::new(),
            links: Vec::new(),
            servers: Vec::new(),
            programs: Vec::new(),
            clients: Vec::new(),
            binders: Vec::new(),
            hogs: Vec::new(),
            truth: Truth::healthy(),
            severity: None,
        };
        for part in parts {
            let part = part.clone();
            merged.record.extend(part.record);
            merged.nodes.extend(part.nodes);
            merged.links.extend(part.links);
            merged.servers.extend(part.servers);
            merged.programs.extend(part.programs);
            merged.clients.extend(part.clients);
            merged.binders.extend(part.binders);
            merged.hogs.extend(part.hogs);
        }
        merged.record.sort();
        merged.record.dedup();
        merged
    }
}

impl Scenario {
    /// Fails when it makes no sense: what was put together is checked as what was read.
    pub(crate) fn sound(&self) -> Result<(), Error> {
        self.check().map_err(|why| Error::Scenario {
            name: self.name.clone(),
            why,
        })
    }
}

/// The nodes of a part that are recorded: all when it names none.
fn recorded(part: &Scenario) -> Vec<String> {
    if part.recorded.is_empty() {
        part.nodes.keys().cloned().collect()
    } else {
        part.recorded.clone()
    }
}

/// A name with a prefix, cut to what the kernel takes.
fn short(prefix: &str, name: &str, most: usize) -> String {
    let all = format!("{prefix}-{name}");
    all.chars().take(most).collect()
}

/// A text with the numbers of links in its addresses moved.
fn renumbered(text: &str, before: usize) -> String {
    let mut pieces = text.split(IPV4);
    let mut out = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(IPV4);
        match piece[..digits].parse::<usize>() {
            Ok(link) => out.push_str(&(link + before).to_string()),
            Err(_) => out.push_str(&piece[..digits]),
        }
        out.push_str(&piece[digits..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, prefix: &str, before: usize) -> Scenario {
        Scenario::load(name, 1).unwrap().renamed(prefix, before)
    }

    #[test]
    fn a_part_keeps_its_sense_under_other_names() {
        let part = part("snat-ports", "b", 3);
        part.check().unwrap();
        let node = &part.nodes["b-node"];
        let nft = node.nft.as_deref().unwrap();
        assert!(nft.contains("daddr 198.18.5.2") && nft.contains("to 198.18.5.1:40000"));
        assert_eq!(part.nodes["b-pod"].gateway.as_deref(), Some("b-node"));
        assert_eq!(part.recorded, ["b-pod", "b-node"]);
        assert_eq!(part.truth.client.as_deref(), Some("b-billing"));
        let qdisc = Scenario::load("qdisc-drop", 1).unwrap().renamed("a", 0);
        assert_eq!(qdisc.truth.resource.as_deref(), Some("to-a-server"));
        let path = Scenario::load("path-loss", 1).unwrap().renamed("a", 2);
        assert_eq!(path.truth.resource.as_deref(), Some("198.18.3.2"));
        let old = Scenario::load("clumsy-kernel-nat", 1).unwrap();
        let old = old.renamed("c", 0);
        assert_eq!(old.truth.client.as_deref(), Some("c-left|c-right"));
    }

    #[test]
    fn programs_are_told_where_the_others_are_now() {
        let part = part("healthy-proxy", "b", 3);
        let lb = &part.programs[0];
        assert_eq!((lb.name.as_str(), lb.node.as_str()), ("b-lb", "b-proxy"));
        assert!(lb.files["haproxy.cfg"].contains("server one 198.18.5.2:8090"));
        let refused = Scenario::load("nginx-upstream-refused", 1).unwrap();
        let refused = refused.renamed("c", 0);
        assert_eq!(refused.truth.client.as_deref(), Some("c-edge"));
        assert_eq!(refused.severity.unwrap().hurts, ["c-shop"]);
    }

    #[test]
    fn parts_stand_beside_each_other() {
        let parts = [
            part("snat-ports", "a", 0),
            part("path-loss", "b", 2),
            part("snat-ports", "c", 4),
        ];
        let merged = Scenario::merged("three", &parts);
        merged.check().unwrap();
        let sum = |of: fn(&Scenario) -> usize| parts.iter().map(of).sum::<usize>();
        assert_eq!(merged.nodes.len(), sum(|p| p.nodes.len()));
        assert_eq!(merged.links.len(), sum(|p| p.links.len()));
        assert_eq!(merged.clients.len(), sum(|p| p.clients.len()));
        assert!(merged.servers_first, "two of them want it");
        // One that records all of its nodes does so beside others that do not.
        let of = |prefix: &str| {
            merged
                .recorded
                .iter()
                .filter(|n| n.starts_with(prefix))
                .count()
        };
        assert_eq!((of("a-"), of("b-"), of("c-")), (2, 3, 2));
    }

    #[test]
    fn what_is_asked_of_a_scenario_is_asked_of_it_under_other_names() {
        let slow = part("slow-accept", "b", 3).truth;
        assert_eq!(slow.account[0].server, "b-orders");
        assert_eq!(slow.fix.unwrap().less[0].client, "b-shop");
        let pool = part("snat-ports", "c", 1);
        assert_eq!((pool.links_before, pool.links.len()), (1, 2));
    }

    #[test]
    fn side_by_side_each_has_addresses_behind_those_of_the_one_before() {
        let all = vec![load("snat-ports"), load("path-loss"), load("path-loss")];
        let parts = Scenario::side_by_side(all).unwrap();
        let before: Vec<usize> = parts.iter().map(|p| p.links_before).collect();
        assert_eq!(before, [0, 2, 4]);
        let told = |part: &Scenario| part.truth.resource.clone().unwrap();
        assert_eq!(told(&parts[2]), "198.18.5.2");
        assert_eq!(parts[2].truth.client.as_deref(), Some("c-sync"));
        assert_eq!(parts[2].name, "path-loss");
        let busy = vec![load("path-loss"), load("cpu-contention")];
        let error = Scenario::side_by_side(busy).unwrap_err().to_string();
        assert!(
            error.contains("cpu-contention") && error.contains("CPU 1"),
            "{error}"
        );
    }

    /// With what is asked of it: servers and clients of its truth are checked as well.
    #[test]
    fn every_scenario_can_be_a_part() {
        for summary in super::super::list().unwrap() {
            let (whole, part) = (load(summary.name), part(summary.name, "n", 7));
            part.check().unwrap();
            assert_eq!(part.suite, whole.suite);
            let asked = |s: &Scenario| {
                let truth = &s.truth;
                let less = truth.fix.as_ref().map(|fix| fix.less.len());
                (
                    less,
                    truth.account.len(),
                    truth.runs.clone(),
                    truth.impact.clone(),
                )
            };
            assert_eq!(asked(&part), asked(&whole), "{}", summary.name);
        }
    }

    fn load(name: &str) -> Scenario {
        Scenario::load(name, 1).unwrap()
    }
}
