//! The structures that packets walk, what walks them, and from when on that is too long.

/// A kind of structure that packets walk.
pub(super) struct Kind {
    /// As in `table_size`.
    pub(super) structure: &'static str,
    /// What it is, in a sentence.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) entries: &'static str,
    /// The kernel functions that walk it.
    pub(super) functions: &'static [&'static str],
    /// Shorter walks are as they should be.
    pub(super) least_walk: f64,
    /// Below this share of the time in softirq, the walk is not what makes it slow.
    pub(super) least_share: f64,
    /// What passing one entry costs, ns: 5 for the expressions of a rule; a list of objects costs
    /// from 3 (in the cache) to 150 (in memory).
    pub(super) entry_ns: f64,
    /// Each TCP segment that comes in is looked up once.
    pub(super) per_segment: bool,
}

/// A table with as many buckets as entries has chains of one or two.
const LEAST_CHAIN: f64 = 4.0;
/// Fewer rules cost less than the rest of receiving a packet: 100 take 8 % of a round trip over a
/// veth pair (measured), 1,000 take 39 %.
const LEAST_RULES: f64 = 200.0;
/// A rule set has a price that its owner wants to pay: a tenth of receiving is no finding.
const LEAST_RULES_SHARE: f64 = 0.20;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        structure: "ehash",
        name: "the hash table of connections",
        entries: "connections",
        functions: &["__inet_lookup_established", "__inet6_lookup_established"],
        least_walk: LEAST_CHAIN,
        least_share: 0.10,
        entry_ns: 20.0,
        per_segment: true,
    },
    Kind {
        structure: "conntrack",
        name: "the hash table of connection tracking",
        entries: "flows",
        functions: &["__nf_conntrack_find_get", "nf_conntrack_find_get"],
        least_walk: LEAST_CHAIN,
        least_share: 0.10,
        entry_ns: 20.0,
        per_segment: true,
    },
    Kind {
        structure: "nft-rules",
        name: "the nftables rule set",
        entries: "rules",
        functions: &["nft_do_chain"],
        least_walk: LEAST_RULES,
        least_share: LEAST_RULES_SHARE,
        entry_ns: 5.0,
        per_segment: true,
    },
    Kind {
        structure: "ip-rules",
        name: "the routing rules",
        entries: "rules",
        functions: &["fib_rules_lookup"],
        least_walk: LEAST_RULES,
        least_share: LEAST_RULES_SHARE,
        entry_ns: 20.0,
        per_segment: false,
    },
];
