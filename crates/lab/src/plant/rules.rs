//! Nftables rules that match nothing, one after the other: what a block list costs that only
//! ever grows; the same as one rule with a set; or those of many services.

use std::fmt::Write;

use crate::Error;
use crate::command::run;
use crate::netns::Netns;

/// Makes every packet that comes in be compared with `count` addresses and ports, of the block
/// for documentation (RFC 5737) that nobody here has.
pub(super) fn load(netns: &Netns, count: u32, as_set: bool) -> Result<(), Error> {
    let entries = (0..count).map(|i| (format!("192.0.2.{}", i % 254 + 1), i / 254 + 1));
    let mut text = String::from("table inet lab {\n");
    if as_set {
        let elements: Vec<_> = entries.clone().map(|(a, p)| format!("{a} . {p}")).collect();
        let elements = elements.join(", ");
        text += "set blocked { type ipv4_addr . inet_service\n";
        text += &format!("elements = {{ {elements} }}\n}}\n");
    }
    text += "chain input {\ntype filter hook input priority 0; policy accept;\n";
    if as_set {
        text += "ip saddr . tcp dport @blocked drop\n"
    } else {
        for (address, port) in entries {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "ip saddr {address} tcp dport {port} drop");
        }
    }
    text += "}\n}\n";
    load_text(netns, &text)
}

/// Makes the first packet of every connection be compared with `count` addresses and ports of services that
/// are elsewhere, as kube-proxy does.
pub(super) fn load_services(netns: &Netns, count: u32) -> Result<(), Error> {
    let mut text = String::from("table ip services {\nchain services {\n");
    for i in 0..count {
        let (address, port) = (i % 254 + 1, i / 254 + 1);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "ip daddr 192.0.2.{address} tcp dport {port} dnat to 198.51.100.{address}:{port}"
        );
    }
    text += "}\n";
    for (hook, priority) in [("prerouting", "dstnat"), ("output", "-100")] {
        let _ = writeln!(
            text,
            "chain {hook} {{ type nat hook {hook} priority {priority}; jump services; }}"
        );
    }
    text += "}\n";
    load_text(netns, &text)
}

fn load_text(netns: &Netns, text: &str) -> Result<(), Error> {
    let file = tempfile::NamedTempFile::new().map_err(Error::io("making a file of rules"))?;
    std::fs::write(file.path(), text).map_err(Error::io("writing the rules"))?;
    let path = file.path().to_string_lossy();
    run(["ip", "netns", "exec", netns.name(), "nft", "-f", &path]).map(drop)
}
