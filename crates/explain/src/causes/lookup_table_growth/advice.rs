//! What to do about a structure that packets walk too long: more buckets, or a set for rules.

use analysis::words::{bytes, count, duration, figure, fitting};
use recording::sysctl::{NF_CONNTRACK_BUCKETS, TCP_CHILD_EHASH_ENTRIES};

use super::Walk;
use crate::actions::{flush_conntrack, flush_neighbours, more_neighbours};
use crate::vocabulary::*;

/// Bytes of one bucket of the table of connections: a pointer.
const LINUX_BUCKET_BYTES: u64 = 8;

impl Walk<'_> {
    pub(super) fn fix(&self) -> [String; 1] {
        let (full, kind) = (&self.size.fullest, self.kind);
        let buckets = count(self.new_buckets());
        [match (full.buckets, kind.structure) {
            (Some(_), "dce") => self.dce_fix(),
            (_, "neighbours" | "neighbours6") => {
                "Let the neighbour table hold more entries (gc_thresh2, gc_thresh3).".into()
            }
            (Some(_), _) => fitting([
                format!(
                    "Give {} {buckets} buckets, so that a chain holds one entry.",
                    kind.name
                ),
                format!("Give it {buckets} buckets."),
            ]),
            (None, _) => format!(
                "Put what the {} {} compare into a set: one lookup for all.",
                count(full.entries),
                kind.entries
            ),
        }]
    }

    pub(super) fn advice(&self, netns: &Netns) -> Vec<Advice> {
        match self.kind.structure {
            "ehash" => self.ehash_advice(netns),
            "conntrack" => self.conntrack_advice(netns),
            "neighbours" | "neighbours6" => self.neighbour_advice(netns),
            "dce" => self.dce_advice(),
            "nft-rules" => vec![self.nft_advice(netns)],
            _ => vec![self.ip_rules_advice(netns)],
        }
    }

    /// Buckets for twice the entries, a power of two.
    fn new_buckets(&self) -> u64 {
        let entries = self.size.fullest.entries.clamp(1 << 15, 1 << 29);
        (2 * entries).next_power_of_two()
    }

    /// What changes when the table has this many buckets.
    pub(super) fn shorter_with(&self, buckets: u64) -> String {
        let chain = self.size.fullest.entries as f64 / buckets as f64;
        let cost = match self.lookup_ns() {
            Some(ns) => format!(" A lookup took {}.", duration(ns as u64)),
            None => String::new(),
        };
        format!(
            "{} entries in a chain, not {}: about {} of a CPU is free again.{cost}",
            figure(chain),
            figure(self.longest),
            self.of_a_cpu()
        )
    }

    fn ehash_advice(&self, netns: &Netns) -> Vec<Advice> {
        let buckets = self.new_buckets();
        let memory = bytes(buckets * LINUX_BUCKET_BYTES);
        let larger = if self.is_own() {
            Advice::to(format!(
            "Set {TCP_CHILD_EHASH_ENTRIES}={buckets} where the namespace is created, and recreate it."
        ))
        .by(shell!("sysctl -w {TCP_CHILD_EHASH_ENTRIES}={buckets}", TCP_CHILD_EHASH_ENTRIES, buckets))
        .undo(Some(sentence!(
            "`sysctl -w {TCP_CHILD_EHASH_ENTRIES}=0`, and recreate the namespace",
            TCP_CHILD_EHASH_ENTRIES
        )))
        .at(format!(
            "the namespace from which {} is created, before it is created; 0 there shares the host's table",
            namespace(netns)
        ))
        .risk(format!(
            "The namespace's connections end with it. The table takes {memory}; {} is half of it \
             unless set.",
            sysctl::TCP_MAX_TW_BUCKETS
        ))
        } else {
            Advice::to(format!("Boot with thash_entries={buckets}."))
                .by(shell!("sysctl net.ipv4.tcp_ehash_entries"))
                .at("the kernel's command line; the command shows the present size")
                .risk(format!(
                    "A reboot. The table takes {memory} and changes size at boot only."
                ))
        };
        let larger = larger
            .effect(self.shorter_with(buckets))
            .change(Change::HashBuckets {
                netns: self.netns,
                table: "ehash".into(),
                value: buckets,
            });
        let fewer = self.filler().map(|filler| {
            let (at, port) = (filler.local, filler.local.port);
            let show = shell!("ss -tno state established 'sport = :{port}'", port);
            Advice::to(format!("Close unused connections of {at}."))
                .by(command_in(netns, show))
                .at("the application's idle timeout, or that of its clients' pools")
                .risk("A client that comes back has to reconnect.")
                .effect("Chains get shorter by the connections that are closed.")
        });
        [larger].into_iter().chain(fewer).collect()
    }

    fn conntrack_advice(&self, netns: &Netns) -> Vec<Advice> {
        let buckets = self.new_buckets();
        let larger = Advice::to(format!("Set {NF_CONNTRACK_BUCKETS}={buckets}."))
            .by(shell!(
                "sysctl -w {NF_CONNTRACK_BUCKETS}={buckets}",
                NF_CONNTRACK_BUCKETS,
                buckets
            ))
            .undo(Some(sentence!(
                "note first what `sysctl {NF_CONNTRACK_BUCKETS}` shows, to restore it later",
                NF_CONNTRACK_BUCKETS
            )))
            .at("the host: its namespaces share the table")
            .risk(format!(
                "Packets wait briefly while the table is rehashed; it takes {}.",
                bytes(buckets * LINUX_BUCKET_BYTES)
            ))
            .effect(self.shorter_with(buckets))
            .change(Change::Sysctl {
                netns: self.netns,
                name: NF_CONNTRACK_BUCKETS.into(),
                value: buckets.to_string(),
            });
        vec![larger, flush_conntrack(netns)]
    }

    fn neighbour_advice(&self, netns: &Netns) -> Vec<Advice> {
        let entries = self.size.fullest.entries;
        let more = more_neighbours(self.story, self.kind.structure, entries);
        let stale = match self.kind.structure {
            "neighbours" => shell!("ip -4 neigh flush nud stale"),
            _ => shell!("ip -6 neigh flush nud stale"),
        };
        let flush = flush_neighbours(netns, stale);
        more.into_iter().chain([flush]).collect()
    }

    fn nft_advice(&self, netns: &Netns) -> Advice {
        let sets =
            Advice::to("Put the addresses and ports that the rules compare into sets or maps.")
                .by(command_in(
                    netns,
                    shell!("nft list ruleset | nft -c -o -f -"),
                ))
                .at(format!(
                    "the rule set of {}; the command shows which rules nft can merge",
                    namespace(netns)
                ));
        self.fewer_rules(sets)
    }

    fn ip_rules_advice(&self, netns: &Netns) -> Advice {
        let routes =
            Advice::to("Replace routing rules for single addresses by routes in fewer tables.")
                .by(command_in(netns, shell!("ip rule list")))
                .at(namespace(netns));
        self.fewer_rules(routes)
    }

    fn fewer_rules(&self, advice: Advice) -> Advice {
        advice
            .risk("A wrongly merged rule passes packets or drops them: test it first.")
            .effect(format!(
                "One lookup in place of {} comparisons: about {} of a CPU is free again.",
                count(self.size.fullest.entries),
                self.of_a_cpu()
            ))
            .change(Change::RulesToSet {
                netns: self.netns,
                table: self.kind.structure.into(),
            })
    }
}
