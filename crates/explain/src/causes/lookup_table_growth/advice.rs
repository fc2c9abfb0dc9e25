//! What to do about a structure that packets walk too long: more buckets, or a set for rules.

use analysis::Netns;
use analysis::words::{bytes, count, duration, figure, percent};
use recording::sysctl;
use recording::sysctl::TCP_CHILD_EHASH_ENTRIES;

use super::Case;
use crate::actions::command_in;
use crate::finding::{Advice, Change};
use crate::scope::namespace;

/// Bytes of one bucket of the table of connections: a pointer.
const BUCKET_BYTES: u64 = 8;

impl Case<'_> {
    /// Buckets for twice the entries, a power of two.
    pub(super) fn new_buckets(&self) -> u64 {
        let entries = self.size.fullest.entries.clamp(1 << 15, 1 << 29);
        (2 * entries).next_power_of_two()
    }

    pub(super) fn advice(&self, netns: &Netns) -> Vec<Advice> {
        match self.kind.structure {
            "ehash" => self.ehash_advice(netns),
            "conntrack" => vec![self.conntrack_advice()],
            "dce" => self.dce_advice(),
            _ => vec![self.rules_advice(netns)],
        }
    }

    /// What changes when the table has the new number of buckets.
    fn shorter(&self) -> String {
        self.shorter_with(self.new_buckets())
    }

    /// The same with so many buckets.
    pub(super) fn shorter_with(&self, buckets: u64) -> String {
        let chain = self.size.fullest.entries as f64 / buckets as f64;
        let cost = match self.lookup_ns() {
            Some(ns) => format!(" A look-up took {}.", duration(ns as u64)),
            None => String::new(),
        };
        format!(
            "{} entries in a chain, not {}: about {} of a CPU is free again.{cost}",
            figure(chain),
            figure(self.walk),
            percent(self.story.profile.of_one_cpu(self.samples()))
        )
    }

    fn ehash_advice(&self, netns: &Netns) -> Vec<Advice> {
        let buckets = self.new_buckets();
        let memory = bytes(buckets * BUCKET_BYTES);
        let change = Some(Change::HashBuckets {
            netns: self.netns,
            table: "ehash".into(),
            value: buckets,
        });
        let larger = match self.is_own() {
            true => Advice {
                action: format!(
                    "Set {TCP_CHILD_EHASH_ENTRIES}={buckets} where the namespace is made, and make it anew."
                ),
                command: Some(format!("sysctl -w {TCP_CHILD_EHASH_ENTRIES}={buckets}")),
                r#where: format!(
                    "the namespace from which {} is made, before it is made; 0 there shares \
                     the host's table",
                    namespace(netns)
                ),
                risk: format!(
                    "The namespace's connections end with it. The table takes {memory}; {} is \
                     half of it unless set.",
                    sysctl::TCP_MAX_TW_BUCKETS
                ),
                expected: self.shorter(),
                change,
            },
            false => Advice {
                action: format!("Boot with thash_entries={buckets}."),
                command: Some("sysctl net.ipv4.tcp_ehash_entries".into()),
                r#where: "the kernel's command line; the command shows the present size".into(),
                risk: format!("A reboot. The table takes {memory} and changes size at boot only."),
                expected: self.shorter(),
                change,
            },
        };
        let mut advice = vec![larger];
        if let Some(filler) = self.filler() {
            let port = filler.local.port;
            advice.push(Advice {
                action: format!("Close connections of {} that nobody uses.", filler.local),
                command: command_in(
                    netns,
                    &format!("ss -tno state established 'sport = :{port}'"),
                ),
                r#where: "the application's idle time-out, or that of its clients' pools".into(),
                risk: "A client that comes back has to connect again.".into(),
                expected: "Chains get shorter by as many entries as are closed.".into(),
                change: None,
            });
        }
        advice
    }

    fn conntrack_advice(&self) -> Advice {
        let buckets = self.new_buckets();
        const NAME: &str = sysctl::NF_CONNTRACK_BUCKETS;
        Advice {
            action: format!("Set {NAME}={buckets}."),
            command: Some(format!("sysctl -w {NAME}={buckets}")),
            r#where: "the host: its namespaces share the table".into(),
            risk: format!(
                "The table is rehashed while packets wait a moment; it takes {}.",
                bytes(buckets * BUCKET_BYTES)
            ),
            expected: self.shorter(),
            change: Some(Change::Sysctl {
                netns: self.netns,
                name: NAME.into(),
                value: buckets.to_string(),
            }),
        }
    }

    fn rules_advice(&self, netns: &Netns) -> Advice {
        let nft = self.kind.structure == "nft-rules";
        let (action, command) = match nft {
            true => (
                "Put the addresses and ports that the rules compare into sets or maps.",
                command_in(netns, "nft -c -o -f /etc/nftables.conf"),
            ),
            false => (
                "Replace routing rules for single addresses by routes in fewer tables.",
                command_in(netns, "ip rule list"),
            ),
        };
        let n = count(self.size.fullest.entries);
        Advice {
            action: action.into(),
            command,
            r#where: match nft {
                true => format!(
                    "the rule set of {}; the command shows which rules nft can merge",
                    namespace(netns)
                ),
                false => namespace(netns),
            },
            risk:
                "A rule that is merged wrongly lets packets through or drops them: test it first."
                    .into(),
            expected: format!(
                "One look-up in place of {n} comparisons: about {} of a CPU is free again.",
                percent(self.story.profile.of_one_cpu(self.samples()))
            ),
            change: Some(Change::RulesToSet {
                netns: self.netns,
                table: self.kind.structure.into(),
            }),
        }
    }
}
