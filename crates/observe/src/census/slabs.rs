//! Slab caches: what the kernel keeps of everything, as a net for the structures nobody thought of.

use std::collections::{BTreeSet, HashMap};
use std::io;

use recording::SourceName;

use super::verdicts::Verdicts;
use crate::procfile::numbers;

/// One cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Slab {
    /// Name.
    pub name: String,
    /// Objects in use. Those that lie ready for a CPU count as used, too.
    pub objects: u64,
    /// Memory of all its slabs.
    pub bytes: u64,
}

/// The largest caches are told.
const LARGEST: usize = 20;
/// And those that grew most since the recording began.
const FASTEST: usize = 10;
/// And always those on the path of a connection, as far as the kernel has not merged them with
/// others of the same size.
const OF_TCP: &[&str] = &[
    "TCP",
    "TCPv6",
    "fib6_node",
    "inet_peer_cache",
    "ip6_dst_cache",
    "ip_dst_cache",
    "ip_fib_alias",
    "ip_fib_trie",
    "nf_conntrack",
    "request_sock_TCP",
    "request_sock_TCPv6",
    "skbuff_fclone_cache",
    "skbuff_head_cache",
    "skbuff_small_head",
    "sock_inode_cache",
    "tcp_bind2_bucket",
    "tcp_bind_bucket",
    "tw_sock_TCP",
    "tw_sock_TCPv6",
];

/// Reads the lines of /proc/slabinfo: `name active all size per-slab pages : … : slabdata active
/// slabs …`.
pub fn parse(text: &str, page_bytes: u64) -> Vec<Slab> {
    let slab = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let n: Vec<u64> = numbers(rest).take(5).collect();
        let [objects, _, _, _, pages] = n[..] else {
            return None;
        };
        let slabs = numbers(line.split_once("slabdata")?.1).nth(1)?;
        Some(Slab {
            name: name.into(),
            objects,
            bytes: slabs.saturating_mul(pages).saturating_mul(page_bytes),
        })
    };
    text.lines().filter_map(slab).collect()
}

/// Remembers what came of reading /proc/slabinfo.
pub fn note<T>(verdicts: &mut Verdicts, read: &io::Result<T>) {
    let without = "/proc/slabinfo is not there (CONFIG_SLUB_DEBUG)";
    verdicts.note(&SourceName::Slabs, without, read);
}

/// Chooses what is worth telling, and remembers what each cache held at first.
#[derive(Default)]
pub struct Slabs {
    at_first: HashMap<String, u64>,
    /// Told once, told again: a series with holes is of no use.
    told: BTreeSet<String>,
}

impl Slabs {
    /// The caches worth telling.
    pub fn choose(&mut self, mut slabs: Vec<Slab>) -> Vec<Slab> {
        for slab in &slabs {
            let at_first = &mut self.at_first;
            at_first.entry(slab.name.clone()).or_insert(slab.bytes);
        }
        let growth = |s: &Slab| s.bytes.saturating_sub(self.at_first[&s.name]);
        slabs.sort_by_key(|s| std::cmp::Reverse(growth(s)));
        let grown = slabs.iter().take(FASTEST).filter(|s| growth(s) > 0);
        let mut chosen: BTreeSet<String> = grown.map(|s| s.name.clone()).collect();
        slabs.sort_by_key(|s| std::cmp::Reverse(s.bytes));
        chosen.extend(slabs.iter().take(LARGEST).map(|s| s.name.clone()));
        self.told.extend(chosen);
        slabs.retain(|s| self.told.contains(&s.name) || OF_TCP.contains(&&*s.name));
        slabs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slabinfo - version: 2.1\n\
        # name <active_objs> …\n\
        TCP  92  143 2368   13    8 : tunables 0 0 0 : slabdata     11     12      0\n\
        bad 1 2\n";

    #[test]
    fn lines_are_read() {
        let slab = Slab {
            name: "TCP".into(),
            objects: 92,
            bytes: 12 * 8 * 4096,
        };
        assert_eq!(parse(TEXT, 4096), [slab]);
    }

    #[test]
    fn the_largest_the_growing_and_those_of_tcp() {
        let mut slabs: Vec<Slab> = (0..40u64)
            .map(|i| Slab {
                name: format!("s{i}"),
                objects: 1,
                bytes: 1000 + i,
            })
            .collect();
        slabs.push(Slab {
            name: "TCP".into(),
            objects: 1,
            bytes: 1,
        });
        let mut choice = Slabs::default();
        let names = |chosen: Vec<Slab>| -> BTreeSet<String> {
            chosen.into_iter().map(|s| s.name).collect()
        };
        let first = names(choice.choose(slabs.clone()));
        assert_eq!(first.len(), LARGEST + 1);
        assert!(first.contains("TCP") && first.contains("s39") && !first.contains("s0"));
        slabs[0].bytes += 10;
        let second = names(choice.choose(slabs.clone()));
        assert!(second.contains("s0"), "it grows");
        slabs[0].bytes -= 10;
        let third = names(choice.choose(slabs));
        assert!(third.contains("s0"), "told once, told again");
    }
}
