//! What is wrong inside a node: firewall rules, a full table, clients from before Linux 5.6.

use std::net::IpAddr;

use crate::Error;
use crate::command::{run, run_with_input};
use crate::leftovers::temp_dir;
use crate::netns::Netns;
use crate::scenario::NodeSpec;

/// Takes SYNs that are retransmitted too soon; compiled by the build script.
const OLD_CLIENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/old_client.bpf.o"));

/// Plants the faults of a node that need no link. All of them go with the namespace.
pub(super) fn plant(netns: &Netns, node: &NodeSpec) -> Result<(), Error> {
    if let Some(rules) = &node.nft {
        load_rules(netns, rules)?;
    }
    if node.old_clients {
        make_clients_old(netns, "lo")?;
    }
    Ok(())
}

/// Loads nftables rules.
fn load_rules(netns: &Netns, rules: &str) -> Result<(), Error> {
    let nft = ["ip", "netns", "exec", netns.name(), "nft", "-f", "-"];
    run_with_input(nft, rules).map(drop).map_err(|e| match e {
        // `ip` finds out that it is missing, and says so in its own way.
        Error::Command { why, .. } if why.contains("exec of") => Error::Command {
            command: "nft".to_string(),
            why: "not installed; the scenario needs nftables: apt-get install nftables".to_string(),
        },
        other => other,
    })
}

/// Exempts connections to a port from tracking.
pub(crate) fn untrack(netns: &Netns, port: u16) -> Result<(), Error> {
    load_rules(
        netns,
        &format!(
            "table inet untracked {{
               chain pre {{ type filter hook prerouting priority raw; tcp dport {port} notrack; }}
               chain out {{ type filter hook output priority raw; tcp sport {port} notrack; }}
             }}"
        ),
    )
}

/// Lowers the segment size that SYNs from and to an address offer.
pub(crate) fn clamp_mss(netns: &Netns, address: IpAddr, mss: u16) -> Result<(), Error> {
    let family = if address.is_ipv4() { "ip" } else { "ip6" };
    let clamp = format!("tcp flags syn tcp option maxseg size set {mss}");
    load_rules(
        netns,
        &format!(
            "table inet clamped {{
               chain pre {{ type filter hook prerouting priority mangle; {family} saddr {address} {clamp}; }}
               chain out {{ type filter hook output priority mangle; {family} daddr {address} {clamp}; }}
             }}"
        ),
    )
}

/// Removes all nftables rules.
pub(crate) fn flush_rules(netns: &Netns) -> Result<(), Error> {
    let name = netns.name();
    run(["ip", "netns", "exec", name, "nft", "flush", "ruleset"]).map(drop)
}

/// Makes the clients that reach a device old.
pub(super) fn make_clients_old(netns: &Netns, device: &str) -> Result<(), Error> {
    let dir = temp_dir()?;
    let object = dir.path().join("old_client.o");
    std::fs::write(&object, OLD_CLIENT).map_err(Error::io("writing the old client's program"))?;
    let object = object.to_string_lossy();
    let tc = |args: &[&str]| {
        let words = ["tc", "-n", netns.name()];
        run(words.into_iter().chain(args.iter().copied())).map(drop)
    };
    tc(&["qdisc", "add", "dev", device, "clsact"])?;
    tc(&[
        "filter",
        "add",
        "dev",
        device,
        "ingress",
        "bpf",
        "direct-action",
        "object-file",
        &object,
        "section",
        "tc",
    ])
}
