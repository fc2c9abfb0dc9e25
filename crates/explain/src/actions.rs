//! What several causes advise, and how commands are typed where they act.

use analysis::{Netns, Story};
use recording::{Addr, sysctl};

use crate::advice::{Advice, Change};
use crate::scope::namespace;
use crate::shell::ShellCommand;
use crate::undo::Undo;
use crate::{sentence, shell};

/// A command as it must be typed to act in a namespace; `None` where it, or the namespace's name, cannot be pasted.
pub(crate) fn command_in(netns: &Netns, command: Option<ShellCommand>) -> Option<ShellCommand> {
    command?.in_netns(netns)
}

/// The command that restores a sysctl to the value that it had during the recording, or what to do where that is not
/// known.
pub(crate) fn former_sysctl(story: &Story, netns: u32, name: &str) -> Undo {
    let former = story.settings.get(netns, name);
    let command = former.and_then(|former| {
        let value = &former.text;
        shell!("sysctl -w {name}={value}", name, value)
    });
    let command = command.and_then(|command| match netns {
        0 => Some(command),
        _ => command.in_netns(&story.netns(netns)),
    });
    command.map_or_else(
        || {
            sentence!(
                "note first what `sysctl {name}` shows, to restore it later",
                name
            )
            .into()
        },
        Undo::from,
    )
}

/// The advice to set a sysctl in a namespace.
pub(crate) fn set_sysctl(
    netns: &Netns,
    name: &'static str,
    value: impl ToString,
    risk: &str,
    expected: String,
) -> Advice {
    let value = value.to_string();
    let quoted = if value.contains(' ') {
        format!("\"{value}\"")
    } else {
        value.clone()
    };
    let place = match &netns.name {
        Some(name) => format!("in namespace {name}"),
        None => format!("in network namespace {}", netns.inode),
    };
    Advice {
        action: format!("Set {name}={quoted} {place}."),
        command: command_in(
            netns,
            shell!("sysctl -w {name}={value}", name, value = &value),
        ),
        r#where: format!(
            "{}; a file in /etc/sysctl.d/ makes it permanent",
            namespace(netns)
        ),
        risk: risk.into(),
        undo: None,
        expected,
        change: Some(Change::Sysctl {
            netns: netns.inode,
            name: name.into(),
            value,
        }),
    }
}

/// The default of `net.ipv4.tcp_rmem` and of `net.ipv4.tcp_wmem`, bytes: least, first, most.
const LINUX_RMEM: [u64; 3] = [4_096, 131_072, 6_291_456];
const LINUX_WMEM: [u64; 3] = [4_096, 16_384, 4_194_304];

fn linux_default(name: &str) -> [u64; 3] {
    if name == sysctl::TCP_WMEM {
        LINUX_WMEM
    } else {
        LINUX_RMEM
    }
}

/// A larger maximum of `net.ipv4.tcp_rmem` or `tcp_wmem`: `bytes`, or the kernel's default if that is more. A buffer
/// grows only as far as its window does.
pub(crate) fn larger_most(name: &'static str, bytes: u64) -> u64 {
    bytes.max(linux_default(name)[2])
}

/// The numbers of `net.ipv4.tcp_rmem` or `tcp_wmem` of a namespace with another last one: what buffers may grow to.
pub(crate) fn buffer_sizes(
    story: &Story,
    netns: u32,
    name: &'static str,
    most: impl FnOnce(u64) -> u64,
) -> String {
    let now = story.settings.get(netns, name);
    let default = linux_default(name);
    let word = |nth: usize| {
        now.as_ref()
            .and_then(|v| v.number(nth))
            .unwrap_or(default[nth])
    };
    format!("{} {} {}", word(0), word(1), most(word(2)))
}

/// What timestamps cost.
pub(crate) const TIMESTAMPS_COST: &str = "12 bytes per segment, nothing else today.";

/// The advice to turn timestamps on in a namespace: a cookie has no other place for options.
pub(crate) fn set_timestamps(netns: &Netns, effect: &str) -> Advice {
    set_sysctl(
        netns,
        sysctl::TCP_TIMESTAMPS,
        1,
        TIMESTAMPS_COST,
        effect.into(),
    )
}

/// The advice to repair the path between two addresses; its effect is the cause's to say.
pub(crate) fn repair_path(netns: &Netns, from: Addr, to: Addr) -> Advice {
    Advice::to(format!(
        "Find the link that drops packets on the path from {from} to {to}, and repair it."
    ))
    .by(command_in(netns, shell!("mtr -T -r -c 1000 {to}", to)))
    .at("every device on the path: error counters of its ports (ethtool -S on hosts)")
    .risk(
        "The probes are harmless (1,000 take some minutes); taking a link out of service moves its traffic \
         to others.",
    )
    .change(Change::RepairPath {
        from: from.to_string(),
        to: to.to_string(),
    })
}

/// The advice to forget what TCP learnt of a path that has changed.
pub(crate) fn forget_path(netns: &Netns, to: Addr) -> Advice {
    Advice::to(format!(
        "Once the path is repaired: flush the cached tcp_metrics of {to}, which new connections start \
         from."
    ))
    .by(command_in(netns, shell!("ip tcp_metrics flush {to}", to)))
    .undo(Some("nothing restores it: it is learnt again"))
    .at(namespace(netns))
    .risk(
        "Briefly disruptive: the next connections start without a known RTT and without their TCP Fast \
         Open cookie. Without the address it flushes all destinations.",
    )
    .effect(
        "New connections take their RTO and their reordering degree (where tcp_no_ssthresh_metrics_save=0 \
         also ssthresh) from the path as it is now.",
    )
}

/// Sysctls of a neighbour table, in the host's own namespace: from how many entries on unused ones are collected, and
/// how many it holds at most.
pub(crate) fn neighbour_limits(structure: &str) -> Option<[&'static str; 2]> {
    match structure {
        "neighbours" => Some([sysctl::NEIGH_GC_THRESH2, sysctl::NEIGH_GC_THRESH3]),
        "neighbours6" => Some([sysctl::NEIGH6_GC_THRESH2, sysctl::NEIGH6_GC_THRESH3]),
        _ => None,
    }
}

/// The advice to let a neighbour table hold twice what it holds: collected from twice the entries on, and full
/// at four times. `None` of another structure.
pub(crate) fn more_neighbours(story: &Story, structure: &str, entries: u64) -> Option<Advice> {
    /// A neighbour with its hardware address and queue, bytes.
    const LINUX_NEIGHBOUR_BYTES: u64 = 512;
    let [collected, most] = neighbour_limits(structure)?;
    let soft = entries.max(512).saturating_mul(2).next_power_of_two();
    let hard = soft.saturating_mul(2);
    let now = |name| match story.settings.number(0, name) {
        Some(n) => format!("{name}={n}"),
        None => format!("{name} was not recorded"),
    };
    let former = |name| story.settings.number(0, name);
    let undo = former(collected)
        .zip(former(most))
        .and_then(|(soft, hard)| {
            shell!(
                "sysctl -w {collected}={soft} {most}={hard}",
                collected,
                soft,
                most,
                hard
            )
        });
    let undo = undo.map_or_else(
        || {
            sentence!(
                "note first what `sysctl {collected} {most}` shows, to restore it later",
                collected,
                most
            )
            .into()
        },
        Undo::from,
    );
    let advice = Advice::to(format!("Set {most}={hard} and {collected}={soft} on the host."))
        .by(shell!("sysctl -w {most}={hard} {collected}={soft}", most, hard, collected, soft))
        .undo(Some(undo))
        .at("the host's own namespace: all namespaces share the table; a file in /etc/sysctl.d/ makes it permanent")
        .risk(format!(
            "Memory: up to {}. A network with so many hosts in one segment is better split by a router.",
            analysis::words::bytes(hard.saturating_mul(LINUX_NEIGHBOUR_BYTES))
        ))
        .effect(format!(
            "{} entries fit before the table is walked to evict some; now {}, {}.",
            analysis::words::count(soft),
            now(collected),
            now(most)
        ))
        .change(Change::Sysctl {
            netns: 0,
            name: most.into(),
            value: hard.to_string(),
        });
    Some(advice)
}

/// The advice to empty a namespace's table of tracked connections.
pub(crate) fn flush_conntrack(netns: &Netns) -> Advice {
    Advice::to("If the host is going down: flush all entries.")
        .by(command_in(netns, shell!("conntrack -F")))
        .at(namespace(netns))
        .risk(
            "Disruptive: connections through NAT die, and rules that match `ct state established` drop \
             those in progress. The table fills again as fast as it did.",
        )
        .undo(Some("nothing restores the entries"))
        .effect("Room at once, for as long as it took to fill.")
}

/// The advice to throw neighbours away, by this command.
pub(crate) fn flush_neighbours(netns: &Netns, flush: Option<ShellCommand>) -> Advice {
    Advice::to("If it cannot wait: flush neighbour entries, which are then resolved again.")
        .by(command_in(netns, flush))
        .undo(Some("nothing restores the entries: they are resolved again"))
        .at(namespace(netns))
        .risk(
            "Disruptive: packets to these neighbours wait for ARP or neighbour discovery, three are queued \
             for each, and the rest are dropped.",
        )
        .effect("A changed hardware address is resolved at once, and unused entries are gone.")
}

impl Advice {
    /// By an option of a route to one address, so that no other destination is touched.
    pub(crate) fn by_route(self, netns: &Netns, to: Addr, option: Option<ShellCommand>) -> Advice {
        let replace = sentence!(
            "`ip route replace {to} …` with the gateway and device that the command shows",
            to
        );
        let option = option.map_or(String::new(), |option| option.in_sentence());
        self.by(command_in(netns, shell!("ip route get {to}", to)))
            .at(format!("{}: {replace}, and {option}", namespace(netns)))
    }
}
