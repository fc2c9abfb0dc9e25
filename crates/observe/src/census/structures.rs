//! The lookup structures that are counted by a question to the kernel: what to ask, what limits.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::sync::OnceLock;

use recording::SourceName;

use crate::netlink::{self, GENERIC, NETFILTER, ROUTE};
use crate::procfile::ProcFile;

/// A structure of one namespace.
pub struct Structure {
    /// Its source; also its name in the table.
    pub name: SourceName,
    /// What it gives, for `doctor`.
    pub gives: &'static str,
    /// Counts its entries in the calling thread's namespace.
    pub count: fn(&mut ProcFile) -> io::Result<u64>,
    /// Buckets and the limit, where they can be read.
    pub size: fn(&mut ProcFile) -> (Option<u64>, Option<u64>),
    /// Why this kernel may not have it.
    pub without: &'static str,
}

const INET: u8 = 2;
const INET6: u8 = 10;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const NEW_RULE: u16 = 32;
const GET_RULE: u16 = 34;
/// NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE, and NFT_MSG_GETRULE.
const NFT_NEW_RULE: u16 = 10 << 8 | 6;
const NFT_GET_RULE: u16 = 10 << 8 | 7;

/// All of them.
pub const STRUCTURES: &[Structure] = &[
    Structure {
        name: SourceName::Conntrack,
        gives: "connections that the firewall tracks",
        count: |file| known(file.number("/proc/sys/net/netfilter/nf_conntrack_count")),
        size: |file| {
            let mut number = |name| file.number(format!("/proc/sys/net/netfilter/{name}"));
            (number("nf_conntrack_buckets"), number("nf_conntrack_max"))
        },
        without: "nf_conntrack is not loaded: no connection is tracked",
    },
    Structure {
        name: SourceName::Neighbours,
        gives: "neighbours of IPv4 (ARP)",
        count: |_| neighbours(INET),
        size: |_| (None, None),
        without: "the kernel lists none",
    },
    Structure {
        name: SourceName::Neighbours6,
        gives: "neighbours of IPv6",
        count: |_| neighbours(INET6),
        size: |_| (None, None),
        without: "the kernel has no IPv6",
    },
    Structure {
        name: SourceName::TcpMetrics,
        gives: "destinations whose RTT and window TCP remembers",
        count: |_| {
            let family = netlink::generic_family("tcp_metrics")?;
            // TCP_METRICS_CMD_GET, version 1.
            netlink::count(GENERIC, family, &[1, 1, 0, 0], family)
        },
        size: |_| (None, None),
        without: "the kernel does not tell",
    },
    Structure {
        name: SourceName::RouteExceptions,
        gives: "routes of single IPv4 destinations: path MTUs, redirects",
        count: |_| exceptions(INET),
        size: |_| (None, None),
        without: "the kernel does not list them (Linux 5.3)",
    },
    Structure {
        name: SourceName::RouteExceptions6,
        gives: "routes of single IPv6 destinations: path MTUs, redirects",
        count: |_| exceptions(INET6),
        size: |_| (None, None),
        without: "the kernel has no IPv6, or does not list them (Linux 5.3)",
    },
    Structure {
        name: SourceName::NftRules,
        gives: "nftables rules, also those of iptables-nft, in all chains",
        // nfgenmsg of no family: all.
        count: |_| {
            // Asking would load the module: the host is not ours to change.
            if !nf_tables_loaded() {
                return Err(io::ErrorKind::NotFound.into());
            }
            netlink::count(NETFILTER, NFT_GET_RULE, &[0; 4], NFT_NEW_RULE)
        },
        size: |_| (None, None),
        without: "nf_tables is not loaded: there are no rules",
    },
    Structure {
        name: SourceName::IpRules,
        gives: "policy routing rules of IPv4, walked one after the other",
        count: |_| rules(INET),
        size: |_| (None, None),
        without: "the kernel has no policy routing",
    },
    Structure {
        name: SourceName::IpRules6,
        gives: "policy routing rules of IPv6",
        count: |_| rules(INET6),
        size: |_| (None, None),
        without: "the kernel has no policy routing for IPv6",
    },
];

fn known(n: Option<u64>) -> io::Result<u64> {
    n.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Loaded as a module, or built in, which only its functions tell. Looked up once: a rule added by
/// the first user of nftables on a host is seen by the next recording.
fn nf_tables_loaded() -> bool {
    static LOADED: OnceLock<bool> = OnceLock::new();
    *LOADED.get_or_init(|| {
        fs::metadata("/sys/module/nf_tables").is_ok()
            || fs::File::open("/proc/kallsyms").is_ok_and(|file| {
                let mut lines = BufReader::with_capacity(64 << 10, file).split(b'\n');
                lines.any(|line| line.is_ok_and(|l| l.ends_with(b" nft_do_chain")))
            })
    })
}

fn neighbours(family: u8) -> io::Result<u64> {
    // ndmsg: family, the rest zero. Entries that never need resolving (loopback, multicast) come,
    // too: they are in the table.
    let mut question = [0; 12];
    question[0] = family;
    netlink::count(ROUTE, GET_NEIGHBOUR, &question, NEW_NEIGHBOUR)
}

fn rules(family: u8) -> io::Result<u64> {
    // fib_rule_hdr: family, the rest zero.
    let mut question = [0; 12];
    question[0] = family;
    netlink::count(ROUTE, GET_RULE, &question, NEW_RULE)
}

/// rtmsg with RTM_F_CLONED: exceptions only, not the routes they are from.
fn exceptions(family: u8) -> io::Result<u64> {
    const CLONED: u32 = 0x200;
    let mut question = [0; 12];
    question[0] = family;
    question[8..].copy_from_slice(&CLONED.to_ne_bytes());
    let mut n = 0;
    netlink::dump(ROUTE, GET_ROUTE, &question, |kind, route| {
        // A kernel that knows no such question lists all routes: those do not count.
        let flags = route.get(8..12).and_then(|b| b.first_chunk());
        let cloned = flags.is_some_and(|b| u32::from_ne_bytes(*b) & CLONED != 0);
        n += u64::from(kind == NEW_ROUTE && cloned);
    })?;
    Ok(n)
}

/// Entries of a neighbour table over all namespaces, and the limit that holds for their sum.
pub fn all_neighbours(file: &mut ProcFile, v6: bool) -> Option<(u64, Option<u64>)> {
    let (stat, version) = if v6 {
        ("ndisc_cache", "ipv6")
    } else {
        ("arp_cache", "ipv4")
    };
    let text = file
        .read(format!("/proc/thread-self/net/stat/{stat}"))
        .ok()?;
    let mut lines = text.lines();
    let column = lines
        .next()?
        .split_ascii_whitespace()
        .position(|w| w == "entries")?;
    // Every CPU's line holds the same sum.
    let entries = lines.next()?.split_ascii_whitespace().nth(column)?;
    let entries = u64::from_str_radix(entries, 16).ok()?;
    let limit = format!("/proc/sys/net/{version}/neigh/default/gc_thresh3");
    let limit = fs::read_to_string(limit)
        .ok()
        .and_then(|t| t.trim().parse().ok());
    Some((entries, limit))
}
