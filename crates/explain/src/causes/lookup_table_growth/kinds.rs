//! The structures that packets walk, what walks them, and the length from which on that is too long.

use analysis::profile::Group;
use analysis::structures::Size;
use recording::counter;

use crate::limits::{self, Limit};

/// A kind of structure that packets walk.
pub(super) struct Kind {
    /// As in `table_size`.
    pub(super) structure: &'static str,
    /// What it is called in a sentence.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) entries: &'static str,
    /// The kernel functions that walk it.
    pub(super) functions: &'static [&'static str],
    /// Shorter walks are normal.
    pub(super) least_walk: &'static Limit,
    /// Below this share of the time in softirq, the walk is not what makes it slow.
    pub(super) least_share: &'static Limit,
    /// What passing one entry costs.
    pub(super) entry: &'static Limit,
    /// Where the CPUs are when they walk it.
    pub(super) walked: Walked,
    /// What is looked up, once each.
    pub(super) looked_up: LookedUp,
}

/// Entries that a look-up passes: those of a chain, or all of them where there are no buckets.
pub(super) fn passed(size: &Size) -> f64 {
    size.chain().unwrap_or(size.entries as f64)
}

/// Where the CPUs are when they walk a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// In softirq: for packets.
    Softirq,
    /// Anywhere in the kernel: interrupts, threads, system calls.
    Kernel,
}

impl Walked {
    pub(super) fn within(self, group: &Group) -> bool {
        match self {
            Walked::Softirq => group.softirq,
            Walked::Kernel => group.in_kernel(),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Walked::Softirq => "softirq",
            Walked::Kernel => "the kernel",
        }
    }

    /// The time, or sample, that a share is of.
    pub(super) fn sample(self) -> &'static str {
        match self {
            Walked::Softirq => "softirq",
            Walked::Kernel => "kernel",
        }
    }

    /// The number of such samples in the evidence.
    pub(super) fn number(self) -> &'static str {
        match self {
            Walked::Softirq => "softirq_samples",
            Walked::Kernel => "kernel_samples",
        }
    }

    /// What it is walked for.
    pub(super) fn by(self, looked_up: LookedUp) -> &'static str {
        match (self, looked_up) {
            (Walked::Softirq, _) => "Packets walk",
            (Walked::Kernel, LookedUp::Openings) => "New connections walk",
            (Walked::Kernel, _) => "New neighbours walk",
        }
    }
}

/// What is looked up in a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookedUp {
    /// Each TCP segment that comes in.
    Segments,
    /// The other end of each connection that is opened or accepted.
    Openings,
    /// Not known: not every packet.
    Unknown,
}

impl LookedUp {
    /// The counters that count them.
    pub(super) fn counters(self) -> &'static [&'static str] {
        match self {
            LookedUp::Segments => &[counter::IN_SEGS],
            LookedUp::Openings => &[counter::ACTIVE_OPENS, counter::PASSIVE_OPENS],
            LookedUp::Unknown => &[],
        }
    }

    /// What they are called in a formula, and what happened to them.
    pub(super) fn name(self) -> (&'static str, &'static str) {
        match self {
            LookedUp::Openings => (
                "connections opened or accepted",
                "connections were opened or accepted",
            ),
            _ => ("segments in", "segments came in"),
        }
    }
}

/// A table of neighbours: look-ups do not walk it, as they use a hash that grows; garbage collection does, from
/// gc_thresh2 on for every new entry.
const fn neighbours(structure: &'static str, name: &'static str) -> Kind {
    Kind {
        structure,
        name,
        entries: "neighbours",
        functions: &["neigh_forced_gc"],
        least_walk: &limits::NEIGHBOURS,
        least_share: &limits::SMALL_PART,
        entry: &limits::HASHED_ENTRY,
        walked: Walked::Kernel,
        looked_up: LookedUp::Unknown,
    }
}

pub(super) const KINDS: &[Kind] = &[
    Kind {
        structure: "ehash",
        name: "the hash table of connections",
        entries: "connections",
        functions: &["__inet_lookup_established", "__inet6_lookup_established"],
        least_walk: &limits::CHAIN,
        least_share: &limits::SMALL_PART,
        entry: &limits::HASHED_ENTRY,
        walked: Walked::Softirq,
        looked_up: LookedUp::Segments,
    },
    Kind {
        structure: "conntrack",
        name: "the hash table of connection tracking",
        entries: "flows",
        functions: &["__nf_conntrack_find_get", "nf_conntrack_find_get"],
        least_walk: &limits::CHAIN,
        least_share: &limits::SMALL_PART,
        entry: &limits::HASHED_ENTRY,
        walked: Walked::Softirq,
        looked_up: LookedUp::Segments,
    },
    Kind {
        structure: "nft-rules",
        name: "the nftables rule set",
        entries: "rules",
        functions: &["nft_do_chain"],
        least_walk: &limits::RULES,
        least_share: &limits::RULES_SHARE,
        entry: &limits::NFT_RULE,
        walked: Walked::Softirq,
        looked_up: LookedUp::Segments,
    },
    Kind {
        structure: "ip-rules",
        name: "the routing rules",
        entries: "rules",
        functions: &["fib_rules_lookup"],
        least_walk: &limits::RULES,
        least_share: &limits::RULES_SHARE,
        entry: &limits::HASHED_ENTRY,
        walked: Walked::Softirq,
        looked_up: LookedUp::Unknown,
    },
    neighbours("neighbours", "the neighbour table (ARP)"),
    neighbours("neighbours6", "the neighbour table of IPv6"),
    // illumos' destination cache: looked up for every connection, in any context.
    Kind {
        structure: "dce",
        name: "the destination cache",
        entries: "addresses",
        functions: &["dce_lookup_and_add_v4", "dce_lookup_and_add_v6"],
        least_walk: &limits::CHAIN,
        least_share: &limits::SMALL_PART,
        entry: &limits::DCE_ENTRY,
        walked: Walked::Kernel,
        looked_up: LookedUp::Openings,
    },
];
