//! C33: the table of tracked connections is full, so that the first packet of new ones is dropped.

use analysis::Story;
use analysis::words::{bytes, count, figure, fitting, percent, plural, rounded};
use recording::{SourceName, sysctl};

use super::scene::{command_in, doubts, namespace, weigh_checks};
use super::silent::{MIN_LOST, Silent, places};
use super::{Cause, Ground, findings};
use crate::finding::{Advice, Change, Check, Confidence, Finding, Level, RuledOut, Step};
use crate::id::Id;
use crate::moved::Symptom;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CONNTRACK_FULL,
    number: "C33",
    title: "the table of tracked connections is full",
    page: PAGE,
    ground: Ground::Host,
    needs: &[
        &[SourceName::States],
        &[SourceName::Drops],
        &[SourceName::Conntrack],
    ],
    seen_from: "10 dropped SYNs while the table is 95 % full",
    symptom: Some(Symptom::Connects),
    find,
};

const PAGE: &str = "
**Symptom.** Every new connection takes 1, 3 … s or times out, to whatever port; connections that
stand are well. The kernel's log says `nf_conntrack: table full, dropping packet`.

**Mechanism.** As soon as a rule of a namespace asks for the state of connections (`ct state`, NAT),
the kernel keeps an entry per connection of that namespace, for five days after the last packet of
an established one. At `net.netfilter.nf_conntrack_max` entries it looks for one that has not seen
traffic both ways (`early_drop`); when it finds none near by it drops the packet, which for a new
connection is the SYN.

**Distinguish.** To the kernel it is a `NETFILTER_DROP`, as with a rule (`local-firewall-drop`).
Conntrack's own statistics (`drop` in /proc/net/stat/nf_conntrack) and its count against its limit
tell them apart; newer kernels also name the function, `nf_hook_slow` here and `nft_do_chain` for a
rule.
";

/// The table counts entries that are just being made as well: it is full from here on.
const FULL: f64 = 0.95;
/// What an entry takes on a 64-bit kernel, with the extensions that are usual, bytes.
const ENTRY_BYTES: u64 = 320;

fn find(story: &Story) -> Vec<Finding> {
    findings(places(story), Case::of, Case::finding)
}

struct Case<'a> {
    silent: Silent<'a>,
    netns: u32,
    entries: u64,
    limit: u64,
    /// Rows of the table's size and of its own count of drops.
    rows: [recording::RowRef; 2],
    /// SYNs for the place that it dropped.
    dropped: u64,
    /// Packets that it dropped in all.
    all: u64,
}

impl<'a> Case<'a> {
    fn of(silent: Silent<'a>) -> Option<Case<'a>> {
        let netns = silent.firewall_netns()?;
        let (dropped, row) = silent.untracked(netns);
        let structures = &silent.story.structures;
        let size = structures.get(netns, "conntrack").map(|s| s.fullest)?;
        let limit = size.limit.filter(|l| *l > 0)?;
        let (all, _) = structures.conntrack(netns, "dropped")?;
        let full = size.entries as f64 >= FULL * limit as f64;
        let case = Case {
            netns,
            entries: size.entries,
            limit,
            rows: [size.row, row?],
            dropped,
            all,
            silent,
        };
        (dropped >= MIN_LOST && full).then_some(case)
    }

    fn finding(&self) -> Finding {
        let at = self.silent.at;
        let mut scope = self.silent.scope(self.netns);
        scope.resource = Some("conntrack".into());
        let checks: Vec<Check> = [
            Some(self.full_check()),
            self.silent.drops_check(self.dropped),
        ]
        .into_iter()
        .flatten()
        .collect();
        Finding {
            cause: CAUSE.id,
            number: CAUSE.number,
            lost_s: self.silent.times.lost(self.silent.story, self.dropped),
            since: None,
            title: fitting([
                format!(
                    "Connection tracking is full ({} of {}): it dropped {} to {at}.",
                    count(self.entries),
                    count(self.limit),
                    plural(self.dropped, "SYN")
                ),
                format!(
                    "Connection tracking is full: it dropped {} to {at}.",
                    plural(self.dropped, "SYN")
                ),
            ]),
            fix: format!(
                "Raise net.netfilter.nf_conntrack_max to {}, or do not track port {}.",
                count(self.roomy()),
                at.port
            ),
            impact: self.silent.impact(self.dropped, self.silent.passed()),
            confidence: self.confidence(&checks),
            evidence: self.evidence(),
            arithmetic: checks,
            ruled_out: self.ruled_out(),
            advice: self.advice(&scope.netns),
            verify:
                "`tcpwhy stat tables` shows conntrack well below its limit, and the `drop` column \
                     of /proc/net/stat/nf_conntrack no longer rises."
                    .into(),
            scope,
        }
    }

    /// A limit that the present entries fill to a half.
    fn roomy(&self) -> u64 {
        self.limit
            .max(self.entries)
            .saturating_mul(2)
            .next_power_of_two()
    }

    fn full_check(&self) -> Check {
        let entries = self.entries as f64;
        Check {
            formula: "entries = net.netfilter.nf_conntrack_max".into(),
            expected: self.limit as f64,
            measured: rounded(entries),
            unit: "entries",
            agrees: entries >= FULL * self.limit as f64,
            tolerance: "from 95 % on: entries come and go between two counts".into(),
        }
    }

    fn confidence(&self, checks: &[Check]) -> Confidence {
        let mut c = Confidence::high();
        c.because("the table counts the drops itself, and its entries are at the limit");
        if self.all > self.dropped.saturating_mul(10) {
            c.at_most(
                Level::Medium,
                "most of what it dropped were other packets: a rule may have dropped these SYNs",
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
        let netns = self.silent.story.netns(self.netns);
        let mut steps = self.silent.firewall_steps();
        steps.push(
            Step::new(format!(
                "Connection tracking of {} dropped {} for want of room.",
                namespace(&netns),
                plural(self.all, "packet")
            ))
            .number("conntrack_dropped", self.all)
            .rows([self.rows[1]]),
        );
        let share = self.entries as f64 / self.limit as f64;
        steps.push(
            Step::new(format!(
                "It held {} of {} entries ({}); an established connection that is silent keeps its \
                 entry for five days (nf_conntrack_tcp_timeout_established).",
                count(self.entries),
                count(self.limit),
                percent(share)
            ))
            .number("entries", self.entries)
            .number("limit", self.limit)
            .rows([self.rows[0]]),
        );
        steps
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let mut out = vec![RuledOut::new(
            Id::LOCAL_FIREWALL_DROP,
            format!(
                "the table's own count of drops ({}) accounts for the {} that netfilter dropped",
                count(self.all),
                plural(self.dropped, "SYN")
            ),
        )];
        out.extend(self.silent.queues_ruled_out());
        out.push(self.silent.time_wait_ruled_out());
        out.push(RuledOut::new(
            Id::PATH_DROPS_SYN,
            format!("{} were dropped on this host", plural(self.dropped, "SYN")),
        ));
        out
    }

    fn advice(&self, netns: &analysis::Netns) -> Vec<Advice> {
        let at = self.silent.at;
        let port = at.port;
        let roomy = self.roomy();
        let more = roomy.saturating_sub(self.limit);
        let notrack = format!(
            "nft 'add table inet untracked; add chain inet untracked pre {{ type filter hook \
             prerouting priority raw; }}; add rule inet untracked pre tcp dport {port} notrack'"
        );
        vec![
            Advice {
                action: format!("Set net.netfilter.nf_conntrack_max={roomy} on the host."),
                command: Some(format!("sysctl -w net.netfilter.nf_conntrack_max={roomy}")),
                r#where: "the host's own namespace: the limit is one number for all, though each \
                          namespace counts for itself"
                    .into(),
                risk: format!(
                    "Memory: up to {} more per namespace, at some {} bytes per entry; chains grow \
                     longer unless nf_conntrack_buckets grows, too.",
                    bytes(more.saturating_mul(ENTRY_BYTES)),
                    ENTRY_BYTES
                ),
                expected: format!(
                    "Room for {} connections more; at {} new ones per second it lasts {} s if none \
                     ends.",
                    count(more),
                    figure(self.rate()),
                    figure(more as f64 / self.rate().max(1.0))
                ),
                change: Some(Change::Sysctl {
                    netns: 0,
                    name: sysctl::NF_CONNTRACK_MAX,
                    value: roomy.to_string(),
                }),
            },
            Advice {
                action: format!("Do not track connections to port {port}."),
                command: command_in(netns, &notrack),
                r#where: format!("{}, and its other direction (tcp sport)", namespace(netns)),
                risk:
                    "Rules that match `ct state` and NAT no longer see these connections: accept \
                       both directions of the port without state."
                        .into(),
                expected: "Connections to the port take no entries and are never dropped for want \
                           of one."
                    .into(),
                change: Some(Change::Untrack {
                    netns: netns.inode,
                    at: at.to_string(),
                }),
            },
            Advice {
                action: "Let silent connections go earlier: lower \
                         nf_conntrack_tcp_timeout_established from five days to an hour."
                    .into(),
                command: command_in(
                    netns,
                    "sysctl -w net.netfilter.nf_conntrack_tcp_timeout_established=3600",
                ),
                r#where: namespace(netns),
                risk:
                    "A connection that is silent for longer loses its entry; behind NAT it dies. \
                       TCP keepalive below that time prevents it. Entries that are there keep \
                       their old time."
                        .into(),
                expected: "Entries of connections whose ends are gone vanish after an hour.".into(),
                change: None,
            },
        ]
    }

    /// New connections per second to the place.
    fn rate(&self) -> f64 {
        let tried = self.silent.times.total().max(self.dropped);
        tried as f64 / self.silent.story.seconds()
    }
}

#[cfg(test)]
mod tests;
