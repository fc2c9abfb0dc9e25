//! C08: a firewall of this host drops SYNs of connects that others are allowed to make.

use analysis::Story;
use analysis::words::{count, fitting, percent, plural};
use recording::SourceName;

use super::scene::{command_in, doubts, namespace, weigh_checks};
use super::silent::{MIN_LOST, Silent, places};
use super::{Cause, Ground, findings};
use crate::finding::{Advice, Change, Check, Confidence, Finding, Level, RuledOut, Step};
use crate::id::Id;
use crate::moved::Symptom;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::LOCAL_FIREWALL_DROP,
    number: "C08",
    title: "a firewall of this host drops SYNs",
    page: PAGE,
    ground: Ground::Connections,
    needs: &[&[SourceName::States], &[SourceName::Drops]],
    seen_from: "10 dropped SYNs",
    symptom: Some(Symptom::Connects),
    find,
};

const PAGE: &str = "
**Symptom.** Connects take 1, 2, 3 … s longer or time out, in part or all of them. The server looks
idle and counts nothing.

**Mechanism.** A rule of nftables or iptables, or an eBPF program at tc, XDP or the cgroup, drops
the SYN: on its way in before the listener, or on its way out. Rate limits (`limit`, `hashlimit`,
`connlimit`) drop a share of them; an address or port that is missing in a set, all of some clients.

**Distinguish.** The kernel says that it dropped the SYN, why and in which function
(`NETFILTER_DROP` in `nf_hook_slow`). On the path (`path-drops-syn`) nothing is dropped here. A
full table of connections (`conntrack-full`) gives the same event, and counts it in its own
statistics. A full accept queue (`accept-queue-overflow`) drops behind the firewall and counts
`ListenDrops`.
Firewalls are there to drop: SYNs of strangers that nobody here waits for are no finding. It is one
when clients on this host suffer, or when clients elsewhere are dropped and let in by turns.
";

fn find(story: &Story) -> Vec<Finding> {
    findings(places(story), Case::of, Case::finding)
}

struct Case<'a> {
    silent: Silent<'a>,
    /// Namespace of the rule.
    netns: u32,
    dropped: u64,
    /// SYNs that came through at the same time.
    passed: u64,
}

impl<'a> Case<'a> {
    fn of(silent: Silent<'a>) -> Option<Case<'a>> {
        let netns = silent.firewall_netns()?;
        let dropped = silent.firewall_drops();
        let (untracked, _) = silent.untracked(netns);
        // One that also answers is `injected-reset`: its clients do not wait.
        let clients = silent.story.all(&silent.clients);
        let refused = clients.filter(|(_, c)| c.refused.is_some()).count() as u64;
        if dropped < MIN_LOST || untracked * 2 >= dropped || refused * 2 >= dropped {
            return None;
        }
        let clients_here = silent.times.delayed.len() as u64 >= MIN_LOST;
        let case = Case {
            passed: silent.passed(),
            silent,
            netns,
            dropped,
        };
        (clients_here || case.by_turns()).then_some(case)
    }

    /// Clients elsewhere were dropped and let in by turns: nobody wants that of a rule.
    fn by_turns(&self) -> bool {
        let Some((_, listener)) = self.silent.listener() else {
            return false;
        };
        let story = self.silent.story;
        let accepted = story.all(&listener.accepted).map(|(_, c)| c);
        let groups = self.silent.firewalled();
        let both = groups.flat_map(|g| &g.remotes).filter(|(addr, dropped)| {
            let let_in = accepted.clone().filter(|c| c.remote.addr == *addr).count() as u64;
            *dropped >= MIN_LOST && let_in >= MIN_LOST
        });
        both.count() > 0
    }

    fn finding(&self) -> Finding {
        let checks: Vec<Check> = self.silent.drops_check(self.dropped).into_iter().collect();
        let at = self.silent.at;
        let scope = self.silent.scope(self.netns);
        let n = count(self.dropped);
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number,
            lost_s: self.silent.times.lost(self.silent.story, self.dropped),
            since: None,
            title: fitting([
                format!(
                    "A firewall here drops SYNs to {at}: {n}, while {} passed.",
                    count(self.passed)
                ),
                format!("A firewall here drops SYNs to {at}: {n}."),
            ]),
            fix: fitting([
                format!(
                    "Let the rules of {} pass SYNs to {at}, or raise their limit.",
                    namespace(&scope.netns)
                ),
                format!("Let the firewall pass SYNs to {at}, or raise its limit."),
            ]),
            impact: self.silent.impact(self.dropped, self.passed),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope.netns),
            verify: format!(
                "`tcpwhy trace drops` shows no SYN to {at}, and connects to it take a round trip."
            ),
            scope,
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because("the kernel says that its firewall dropped the SYNs, and where");
        if self.silent.times.delayed.is_empty() {
            c.at_most(
                Level::Medium,
                "the clients are not on this host: what it costs them was not seen",
            );
        }
        weigh_checks(&mut c, checks);
        doubts(
            self.silent.story,
            &mut c,
            &[SourceName::Drops, SourceName::States],
        );
        c
    }

    fn evidence(&self) -> Vec<Step> {
        let mut steps = self.silent.firewall_steps();
        steps.extend(self.rules_step());
        steps
    }

    /// Rules there are.
    fn rules_step(&self) -> Option<Step> {
        let size = self
            .silent
            .story
            .structures
            .get(self.netns, "nft-rules")
            .map(|s| s.last)?;
        let netns = self.silent.story.netns(self.netns);
        let step = Step::new(format!(
            "{} has {}.",
            namespace(&netns),
            plural(size.entries, "nftables rule")
        ))
        .number("nft_rules", size.entries)
        .rows([size.row]);
        (size.entries > 0).then_some(step)
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let mut out = self.silent.queues_ruled_out();
        out.push(RuledOut::new(
            Id::PATH_DROPS_SYN,
            format!(
                "{} were dropped on this host, which accounts for {} sent again",
                plural(self.dropped, "SYN"),
                count(self.silent.times.retries)
            ),
        ));
        out.push(self.silent.time_wait_ruled_out());
        let structures = &self.silent.story.structures;
        if let Some(size) = structures.get(self.netns, "conntrack").map(|s| s.fullest) {
            let dropped = structures.conntrack(self.netns, "dropped");
            let limit = size
                .limit
                .map_or(String::new(), |l| format!(" of {}", count(l)));
            out.push(RuledOut::new(
                Id::CONNTRACK_FULL,
                format!(
                    "{}{limit} connections tracked at most, and the table dropped {}",
                    count(size.entries),
                    count(dropped.map_or(0, |(n, _)| n))
                ),
            ));
        }
        out
    }

    fn advice(&self, netns: &analysis::Netns) -> Vec<Advice> {
        let at = self.silent.at;
        let list = "nft -a list ruleset";
        let share = self.dropped as f64 / (self.dropped + self.passed).max(1) as f64;
        vec![Advice {
            action: format!(
                "Find the rule that drops SYNs to port {} and let them pass, or raise its limit \
                 above {} connects per second.",
                at.port,
                count(((self.dropped + self.passed) as f64 / self.silent.story.seconds()) as u64)
            ),
            command: command_in(netns, list),
            r#where: format!(
                "{}; `iptables-save -c` where rules were made by iptables, whose counters show \
                 which one drops",
                namespace(netns)
            ),
            risk: "Whatever the rule kept out comes in: allow the port for the clients' addresses \
                   only."
                .into(),
            expected: format!(
                "The {} of SYNs that are dropped now are answered at once, and connect() takes a \
                 round trip instead of 1 s or more.",
                percent(share)
            ),
            change: Some(Change::AllowSyns {
                netns: netns.inode,
                at: at.to_string(),
            }),
        }]
    }
}

#[cfg(test)]
pub(super) mod tests;
