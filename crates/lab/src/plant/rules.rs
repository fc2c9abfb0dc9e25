//! Nftables rules that match nothing, one after the other: what a block list costs that only
//! ever grows. Or the same as one rule with a set.

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
    match as_set {
        true => text += "ip saddr . tcp dport @blocked drop\n",
        false => {
            for (address, port) in entries {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "ip saddr {address} tcp dport {port} drop");
            }
        }
    }
    text += "}\n}\n";
    let file = tempfile::NamedTempFile::new().map_err(Error::io("making a file of rules"))?;
    std::fs::write(file.path(), text).map_err(Error::io("writing the rules"))?;
    let path = file.path().to_string_lossy();
    run(["ip", "netns", "exec", netns.name(), "nft", "-f", &path]).map(drop)
}
