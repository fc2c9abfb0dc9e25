//! Whether a scenario makes sense: checked when it is read, so that a mistake in a file is one
//! clear line and not a load that does nothing.

use super::spec::{BinderSpec, ClientSpec, HogSpec, NodeSpec, Scenario, ServerSpec, Suite, Tbf};
use crate::figures;

/// Where the kernel takes local ports from by default. A server there would now and then find
/// its port taken by somebody's connection.
pub(super) const FIRST_EPHEMERAL_PORT: u16 = 32_768;
/// With `to-` in front the name of a node is the name of a device, which has 15 bytes.
pub(super) const NODE_NAME: usize = 12;
/// Bytes of a command name.
pub(super) const COMMAND_NAME: usize = 15;
/// Rules that are loaded within a second.
const MOST_RULES: u32 = 20_000;
/// Namespaces that are made within seconds.
const MOST_NEIGHBOURS: u32 = 250;
/// Ports that a scan asks for.
const MOST_PORTS: u16 = 1_000;
/// Bytes that a client says.
const MOST_SAID: usize = 4_096;
/// Processes that burn a CPU.
const MOST_HOGS: u64 = 32;
/// Addresses of one end of a link.
const MOST_ADDRESSES: u8 = 16;
/// A scenario takes seconds, whatever its file says.
const MAX_SECONDS: f64 = 60.0;

impl Scenario {
    /// What does not fit, if anything.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, node) in &self.nodes {
            check_node(name, node)?;
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            ensure(plain && (1..=NODE_NAME).contains(&name.len()), || {
                format!("node `{name}`: letters, digits and `-`, at most {NODE_NAME}")
            })?;
        }
        for (name, node) in &self.nodes {
            ensure(
                node.tracked.is_none_or(|t| (0.0..=1.0).contains(&t)),
                || format!("node `{name}`: tracked is not a share (0 to 1)"),
            )?;
            if let Some(gateway) = &node.gateway {
                self.node(gateway)?;
                ensure(self.link_between(name, gateway).is_some(), || {
                    format!("node `{name}`: no link to its gateway {gateway}")
                })?;
            }
            ensure(node.tracked.is_none() || node.nft.is_some(), || {
                format!("node `{name}`: `tracked` without `nft`: nothing would be tracked")
            })?;
        }
        for link in &self.links {
            let [a, b] = &link.between;
            self.node(a)?;
            self.node(b)?;
            ensure(a != b, || format!("a link joins `{a}` with itself"))?;
            for wire in link.path.iter().chain(&link.back) {
                wire.complaint()
                    .map_or(Ok(()), |why| Err(format!("link {a}-{b}: {why}")))?;
            }
            ensure(link.back.is_none() || link.path.is_some(), || {
                format!("link {a}-{b}: `back` without `path`")
            })?;
            let sound = |t: &Tbf| (0.1..=10_000.0).contains(&t.rate_mbit) && t.burst_kb > 0;
            ensure(link.tbf.as_ref().is_none_or(sound), || {
                format!("link {a}-{b}: a tbf of 0.1 to 10,000 Mbit/s with a burst")
            })?;
            ensure(link.napi_cpu.is_none() || link.path.is_none(), || {
                format!("link {a}-{b}: `napi_cpu` with an emulated path")
            })?;
        }
        self.recorded.iter().try_for_each(|name| self.node(name))?;
        ensure(self.neighbours <= MOST_NEIGHBOURS, || {
            format!("more than {MOST_NEIGHBOURS} `neighbours`")
        })?;
        ensure(
            (0.0..=MAX_SECONDS * 1e3).contains(&self.record_after_ms),
            || format!("`record_after_ms` is not within {MAX_SECONDS} s"),
        )?;
        ensure(self.record_after_ms == 0.0 || self.servers_first, || {
            "`record_after_ms` without `servers_first`".to_string()
        })?;
        self.servers.iter().try_for_each(|s| self.check_server(s))?;
        self.programs
            .iter()
            .try_for_each(|p| self.check_program(p))?;
        self.clients.iter().try_for_each(|c| self.check_client(c))?;
        self.binders.iter().try_for_each(|b| self.check_binder(b))?;
        self.hogs.iter().try_for_each(|h| self.check_hog(h))?;
        self.check_truth()
    }

    fn check_server(&self, server: &ServerSpec) -> Result<(), String> {
        self.node(&server.node)?;
        check_name(&server.name)?;
        ensure(server.think_one_in > 0, || {
            format!("server `{}`: think_one_in of 0", server.name)
        })?;
        ensure((1..FIRST_EPHEMERAL_PORT).contains(&server.port), || {
            format!(
                "server `{}`: port {} is among the local ports",
                server.name, server.port
            )
        })?;
        let same = self
            .servers
            .iter()
            .filter(|s| s.name == server.name)
            .count();
        ensure(same == 1, || {
            format!("two servers are called `{}`", server.name)
        })?;
        let at = |s: &ServerSpec| (s.node.clone(), s.port);
        let mut others = self.servers.iter().filter(|s| s.name != server.name);
        let alone = others.all(|s| at(s) != at(server) || s.shares_port && server.shares_port);
        ensure(alone, || {
            format!(
                "server `{}`: another listens at its port, and not both share it",
                server.name
            )
        })?;
        ensure(server.files.is_none_or(|n| n >= 16), || {
            format!("server `{}`: it needs 16 `files` itself", server.name)
        })?;
        ensure(
            server.cpu_quota.is_none_or(|q| (0.01..=64.0).contains(&q)),
            || {
                format!(
                    "server `{}`: `cpu_quota` is not within 0.01 and 64",
                    server.name
                )
            },
        )
    }

    fn check_client(&self, client: &ClientSpec) -> Result<(), String> {
        self.node(&client.node)?;
        self.node(&client.to)?;
        check_name(&client.name)?;
        let time = client.after_ms / 1000.0 + client.seconds;
        ensure(
            (0.0..=MAX_SECONDS).contains(&time) && client.seconds > 0.0,
            || {
                format!(
                    "client `{}`: its time is not within {MAX_SECONDS} s",
                    client.name
                )
            },
        )?;
        ensure(client.rate.is_none_or(|r| r > 0.0), || {
            format!("client `{}`: no rate", client.name)
        })?;
        ensure(!client.two_writes || client.stream.is_none(), || {
            format!("client `{}`: a stream is not a request", client.name)
        })?;
        ensure(client.pause_ms == 0.0 || client.keep, || {
            format!("client `{}`: `pause_ms` without `keep`", client.name)
        })?;
        ensure(client.says.is_some() == client.speaks.is_some(), || {
            format!(
                "client `{}`: `says` and `speaks` belong together",
                client.name
            )
        })?;
        let long = client.says.as_ref().is_some_and(|s| s.len() > MOST_SAID);
        ensure(
            !long && (client.says.is_none() || client.stream.is_none()),
            || {
                format!(
                    "client `{}`: it `says` more than {MOST_SAID} bytes, or a stream",
                    client.name
                )
            },
        )?;
        ensure(client.active.is_none() || client.keep, || {
            format!("client `{}`: `active` without `keep`", client.name)
        })?;
        ensure((1..=MOST_ADDRESSES).contains(&client.addresses), || {
            format!(
                "client `{}`: 1 to {MOST_ADDRESSES} `addresses`",
                client.name
            )
        })?;
        ensure((1..=MOST_PORTS).contains(&client.ports), || {
            format!("client `{}`: 1 to {MOST_PORTS} `ports`", client.name)
        })?;
        let same = self
            .clients
            .iter()
            .filter(|c| c.name == client.name)
            .count();
        ensure(same == 1, || {
            format!("two clients are called `{}`", client.name)
        })?;
        let reached = client.node == client.to || self.link_towards(client).is_some();
        ensure(reached, || {
            format!(
                "client `{}`: no link from {} to {}",
                client.name, client.node, client.to
            )
        })
    }

    fn check_binder(&self, binder: &BinderSpec) -> Result<(), String> {
        self.node(&binder.node)?;
        check_name(&binder.name)?;
        let time = binder.after_ms / 1000.0 + binder.seconds;
        ensure(
            (0.0..=MAX_SECONDS).contains(&time) && binder.seconds > 0.0,
            || {
                format!(
                    "binder `{}`: its time is not within {MAX_SECONDS} s",
                    binder.name
                )
            },
        )?;
        ensure(binder.port > 0 && binder.rate >= 1.0, || {
            format!(
                "binder `{}`: a port, and at least one call per second",
                binder.name
            )
        })
    }

    fn check_hog(&self, hog: &HogSpec) -> Result<(), String> {
        self.node(&hog.node)?;
        check_name(&hog.name)?;
        ensure(hog.count <= MOST_HOGS, || {
            format!("hog `{}`: more than {MOST_HOGS} of them", hog.name)
        })?;
        ensure(hog.fifo.is_none_or(|p| (1..=99).contains(&p)), || {
            format!("hog `{}`: a real-time priority is 1 to 99", hog.name)
        })?;
        ensure(hog.fifo.is_none() || !hog.idle, || {
            format!("hog `{}`: `fifo` and `idle` exclude each other", hog.name)
        })?;
        ensure((hog.busy_ms > 0.0) == (hog.rest_ms > 0.0), || {
            format!(
                "hog `{}`: `busy_ms` and `rest_ms` belong together",
                hog.name
            )
        })
    }

    fn check_truth(&self) -> Result<(), String> {
        let truth = &self.truth;
        let of_account = truth.account.iter().map(|account| &account.server);
        for name in truth.server.iter().chain(of_account) {
            ensure(self.listener(name).is_some(), || {
                format!("the truth speaks of a server `{name}`, and there is none")
            })?;
        }
        let asks = |name: &str| {
            let clients = self.clients.iter().map(|c| &c.name);
            let programs = self.programs.iter().map(|p| &p.name);
            let binders = self.binders.iter().map(|b| &b.name);
            let mut asking = clients.chain(binders).chain(programs);
            ensure(asking.any(|n| n == name), || {
                format!("the truth speaks of a client `{name}`, and there is none")
            })
        };
        for name in truth.client.iter().flat_map(|names| names.split('|')) {
            asks(name)?;
        }
        for name in self.severity.iter().flat_map(|s| &s.hurts) {
            asks(name)?;
        }
        for less in truth.fix.iter().flat_map(|fix| &fix.less) {
            asks(&less.client)?;
            ensure(figures::is_figure(&less.figure), || {
                format!("no figure of a load is called `{}`", less.figure)
            })?;
            ensure(less.by >= 1.0, || {
                format!("`{}`: less by a factor of at least 1", less.figure)
            })?;
        }
        ensure(self.suite != Suite::TestFix || truth.fix.is_some(), || {
            "suite = \"test-fix\" without [truth.fix]".to_string()
        })?;
        ensure(truth.runs.is_none() || truth.counter.is_some(), || {
            "[truth.runs] of a fault that shows in every run".to_string()
        })?;
        let about = truth.server.is_some() || truth.port.is_some();
        let about = about || truth.resource.is_some() || truth.counter.is_some();
        ensure(about != truth.is_healthy(), || {
            "the truth names a server, a port or a resource, unless it is `healthy`".to_string()
        })
    }

    /// Where a server or a program listens.
    pub(crate) fn listener(&self, name: &str) -> Option<(&str, u16)> {
        let servers = self
            .servers
            .iter()
            .map(|s| (&s.name, &s.node, Some(s.port)));
        let programs = self.programs.iter().map(|p| (&p.name, &p.node, p.port));
        let mut of_name = servers.chain(programs).filter(|s| s.0 == name);
        of_name.find_map(|(_, node, port)| Some((node.as_str(), port?)))
    }

    /// The link that joins two nodes: its index, and whether `from` is its first.
    pub(crate) fn link_between(&self, from: &str, to: &str) -> Option<(usize, bool)> {
        self.links.iter().enumerate().find_map(|(i, link)| {
            let [a, b] = &link.between;
            ((a == from && b == to) || (a == to && b == from)).then_some((i, a == from))
        })
    }

    /// The link whose far end is the address that a client connects to: of its own node, or of its
    /// gateway.
    pub(crate) fn link_towards(&self, client: &ClientSpec) -> Option<(usize, bool)> {
        let direct = self.link_between(&client.node, &client.to);
        direct.or_else(|| {
            let gateway = self.nodes.get(&client.node)?.gateway.as_ref()?;
            self.link_between(gateway, &client.to)
        })
    }

    pub(super) fn node(&self, name: &str) -> Result<(), String> {
        ensure(self.nodes.contains_key(name), || {
            format!("there is no node `{name}`")
        })
    }
}

fn check_node(name: &str, node: &NodeSpec) -> Result<(), String> {
    ensure(
        node.child_ehash_entries.is_none_or(u32::is_power_of_two),
        || format!("node `{name}`: `child_ehash_entries` is not a power of two"),
    )?;
    let rules = node.nft_rules.max(node.nft_services);
    ensure(rules <= MOST_RULES, || {
        format!("node `{name}`: more than {MOST_RULES} `nft_rules` or `nft_services`")
    })
}

pub(super) fn check_name(name: &str) -> Result<(), String> {
    ensure((1..=COMMAND_NAME).contains(&name.len()), || {
        format!("`{name}` is not a valid command name: at most {COMMAND_NAME} bytes")
    })
}

pub(super) fn ensure(good: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(why()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
        title = "t"
        about = "a"
        links = [{ between = ["client", "server"] }]
        [nodes.client]
        [nodes.server]
        [[servers]]
        name = "web"
        node = "server"
        port = 7000
        [[clients]]
        name = "user"
        node = "client"
        to = "server"
        port = 7000
        seconds = 1.0
        [truth]
        cause = "accept-queue-overflow"
        server = "web"
    "#;

    fn complaint(from: &str, to: &str) -> String {
        let text = SOUND.replace(from, to);
        assert_ne!(text, SOUND);
        Scenario::parse("test", &text, 1).unwrap_err().to_string()
    }

    #[test]
    fn a_sound_scenario_passes() {
        Scenario::parse("test", SOUND, 1).unwrap();
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, says) in [
            (
                "port = 7000\n        [[",
                "port = 40000\n        [[",
                "among the local ports",
            ),
            ("to = \"server\"", "to = \"nobody\"", "no node `nobody`"),
            ("seconds = 1.0", "seconds = 1000.0", "not within"),
            (
                "seconds = 1.0",
                "seconds = 1.0\nactive = 3",
                "without `keep`",
            ),
            ("server = \"web\"", "server = \"mail\"", "`mail`"),
            ("server = \"web\"", "", "names a server, a port"),
            (
                "[nodes.client]",
                "hogs = [{ name = \"hog\", node = \"client\", cpu = 1, fifo = 100 }]\n[nodes.client]",
                "1 to 99",
            ),
            (
                "\"server\"] }",
                "\"server\"], path = {}, napi_cpu = 1 }",
                "emulated path",
            ),
            (
                "seconds = 1.0",
                "seconds = 1.0\naddresses = 99",
                "`addresses`",
            ),
            (
                "[nodes.client]",
                "[nodes.client]\nchild_ehash_entries = 10",
                "power of two",
            ),
            (
                "[nodes.client]",
                "binders = [{ name = \"ask\", node = \"server\", port = 0, rate = 9.0, seconds = 1.0 }]\n[nodes.client]",
                "a port",
            ),
            ("seconds = 1.0", "second = 1.0", "second"),
            ("seconds = 1.0", "seconds = 1.0\nports = 0", "`ports`"),
            (
                "title = \"t\"",
                "title = \"t\"\nrecorded = [\"other\"]",
                "no node `other`",
            ),
            (
                "title = \"t\"",
                "title = \"t\"\nneighbours = 1000",
                "`neighbours`",
            ),
            (
                "title = \"t\"",
                "title = \"t\"\nrecord_after_ms = 100.0",
                "without `servers_first`",
            ),
            (
                "server = \"web\"",
                "server = \"web\"\naccount = [{ server = \"mail\", part = \"think\", least = 0.5 }]",
                "`mail`",
            ),
            (
                "title = \"t\"",
                "title = \"t\"\nsuite = \"test-fix\"",
                "[truth.fix]",
            ),
            (
                "server = \"web\"",
                "server = \"web\"\nfix = { less = [{ client = \"user\", figure = \"mood\", by = 2.0 }] }",
                "`mood`",
            ),
            (
                "title = \"t\"",
                "title = \"t\"\nrecorded = [\"other\"]",
                "other",
            ),
            (
                "name = \"web\"",
                "name = \"web\"\nthink_one_in = 0",
                "think_one_in",
            ),
            (
                "name = \"web\"",
                "name = \"a-name-that-is-too-long\"",
                "command name",
            ),
            (
                "seconds = 1.0",
                "seconds = 1.0\nsays = \"PING\"",
                "belong together",
            ),
            (
                "[nodes.server]",
                "[nodes.server]\n[nodes.other]\ngateway = \"client\"",
                "no link to its gateway",
            ),
            (
                "[nodes.server]",
                "[nodes.server]\ntracked = 0.5",
                "without `nft`",
            ),
            (
                "\"server\"] }",
                "\"server\"], path = { loss = 2.0 } }",
                "not a share",
            ),
        ] {
            let error = complaint(from, to);
            assert!(error.contains(says), "{error}");
        }
    }
}
