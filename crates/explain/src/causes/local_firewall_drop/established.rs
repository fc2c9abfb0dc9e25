//! A firewall of this host drops packets of established connections: by a rate limit, or as invalid for connection
//! tracking.

mod coming;

use std::collections::BTreeMap;

use analysis::account;
use analysis::{Dropped, is_firewall};

use super::CAUSE;
use crate::finding::RuledOut;
use crate::limits;
use crate::places::losses::Losses;
use crate::places::path::{End, ends, limited, sample_rows, senders};
use crate::vocabulary::*;

/// What one firewall dropped of the connections of one service.
struct Walled<'a> {
    story: &'a Story,
    /// The namespace whose rules they are.
    netns: u32,
    at: Endpoint,
    /// The ends whose packets it dropped.
    ends: Vec<End<'a>>,
    dropped: Vec<&'a Dropped>,
}

pub(super) fn findings(story: &Story) -> Vec<Finding> {
    let leaving = places(story, |way| way);
    let mut found: Vec<Finding> = leaving.iter().filter_map(judge).collect();
    let coming = places(story, |(from, to)| (to, from));
    found.extend(coming.iter().filter_map(coming::judge));
    found
}

/// What was dropped of connections in one direction, by namespace of the rules.
fn places(
    story: &Story,
    turned: fn((Endpoint, Endpoint)) -> (Endpoint, Endpoint),
) -> Vec<Walled<'_>> {
    let mut by_ends: BTreeMap<(Endpoint, Endpoint), Vec<(u32, &Dropped)>> = BTreeMap::new();
    for ((netns, from, to), dropped) in story.drops.all() {
        if dropped.by_firewall > 0 {
            by_ends
                .entry((*from, *to))
                .or_default()
                .push((*netns, dropped));
        }
    }
    if by_ends.is_empty() {
        return Vec::new();
    }
    let mut places: BTreeMap<(u32, Endpoint), Walled> = BTreeMap::new();
    for end in ends(story) {
        let ways = story.ways(end.conn).map(turned);
        for (netns, dropped) in ways.filter_map(|way| by_ends.get(&way)).flatten() {
            let (_, _, at) = account::service(story, end.conn);
            let walled = places.entry((*netns, at)).or_insert_with(|| Walled {
                story,
                netns: *netns,
                at,
                ends: Vec::new(),
                dropped: Vec::new(),
            });
            walled.ends.push(end);
            walled.dropped.push(dropped);
        }
    }
    places.into_values().collect()
}

fn judge(walled: &Walled) -> Option<Finding> {
    let Walled { story, at, .. } = walled;
    let losses = Losses::of(story, walled.ends.clone());
    let dropped: u64 = walled.dropped.iter().map(|d| d.by_firewall).sum();
    // Resets and acknowledgements of nothing new are not missed by anybody; one data frame may be several segments
    // (GRO). For an acknowledgement, the other end retransmits.
    let missed = losses.lost.saturating_add(walled.retransmitted_by_peers());
    let was_data = limits::MOST.reached(missed, dropped);
    let share = losses.share();
    if dropped < limits::OFTEN.count()
        || !was_data
        || share < limits::LOSS_GOVERNS.share()
        || losses.are_elsewhere()
    {
        return None;
    }
    let rules = story.netns(walled.netns);
    let rules_of = namespace(&rules);
    let scope = walled.scope(&rules)?;
    let packets = Quantity::of(dropped, "packet");
    let (affected, share) = (walled.ends.len() as u64, Quantity::share(share));
    let impact = Impact::of(
        affected,
        affected,
        "connections",
        format!(
            "{} had packets dropped by a firewall, and retransmitted {}.",
            Quantity::of(affected, "connection"),
            Quantity::of(losses.lost, "segment")
        ),
    );
    let case = Case::new(story, CAUSE, scope)
        .rules_out(walled.ruled_out(&losses, dropped))
        .title([
            format!(
                "A firewall here drops packets of connections to {at}: {packets}, {share} lost."
            ),
            format!("A firewall here drops packets of connections to {at}: {packets}."),
        ])
        .fix([
            format!("Let the rules of {rules_of} pass established connections to {at}."),
            format!("Let the firewall pass established connections to {at}."),
        ])
        .affects(
            impact,
            limited(story, &losses.suffering).happened(losses.lost, losses.segments),
        )
        .because(
            "the kernel reports that its firewall dropped the packets, on which connections, and where",
        )
        .steps([walled.dropped_step(dropped), losses.retransmitted_step()])
        .checks((missed == losses.lost).then(|| {
            // Where acknowledgements were dropped as well, not every packet is retransmitted.
            let formula = "segments retransmitted ≥ packets that the firewall dropped";
            at_least(formula, dropped, losses.lost, "segments")
        }))
        .advise([advice(&rules, *at)]);
    Some(case.verify(sentence!(
        "`tcpwhy trace drops` shows no packet for {at}, and `nstat -az \
         TcpRetransSegs` no longer rises while data moves.",
        at
    )))
}

impl Walled<'_> {
    fn scope(&self, rules: &Netns) -> Option<Scope> {
        let resource = format!("firewall of {}", namespace(rules));
        let netns = self.ends.first()?.conn.netns;
        Some(Scope {
            listener: self.at.to_string(),
            ..senders(self.story, netns, &self.ends, Some(resource))
        })
    }

    fn ruled_out(&self, losses: &Losses, dropped: u64) -> [RuledOut; 2] {
        let by_qdisc: u64 = self.dropped.iter().map(|d| d.by_qdisc).sum();
        [
            RuledOut::by(
                Id::PATH_LOSS,
                say!(
                    "this host's firewall dropped {dropped} of {lost} that were lost, some of them several \
                     in one",
                    lost = Quantity::of(losses.lost, "segment").rows(sample_rows(&self.ends)),
                    dropped = Quantity::of(dropped, "packet")
                ),
            ),
            RuledOut::by(
                Id::QDISC_DROP,
                say!(
                    "queueing disciplines of this host dropped {dropped_leaving} of the packets of these \
                     connections",
                    dropped_leaving = Quantity::count(by_qdisc)
                ),
            ),
        ]
    }

    /// What the other ends retransmitted, where they are on this host.
    fn retransmitted_by_peers(&self) -> u64 {
        let peers = self.ends.iter().filter_map(|end| end.conn.peer);
        let peers = peers.filter_map(|id| End::of(self.story, id));
        peers.map(|end| end.transfer.resends.count()).sum()
    }

    fn dropped_step(&self, dropped: u64) -> Step {
        let by_firewall = |d: &&&Dropped| d.reason.as_deref().is_some_and(is_firewall);
        let first = self.dropped.iter().find(by_firewall);
        let reason = first.and_then(|d| d.reason.as_deref()).unwrap_or("a rule");
        let location = first.and_then(|d| d.location.as_deref());
        let location = location.map_or(String::new(), |l| format!(" in {l}"));
        let rows = self.dropped.iter().flat_map(|d| d.rows.iter().copied());
        let rules = namespace(&self.story.netns(self.netns));
        say!(
            "{dropped} of {connections} were dropped in {rules}, reason {reason}{location}.",
            dropped = Quantity::of(dropped, "packet").rows(rows.take(SHOWN_ROWS)),
            connections =
                Quantity::of(self.ends.len() as u64, "connection").rows(sample_rows(&self.ends))
        )
    }
}

pub(super) fn advice(rules: &Netns, at: Endpoint) -> Advice {
    Advice::to(format!(
        "Find the rule that drops packets for port {}: one that was added while connections were open, a rate limit, or \
         one for state INVALID; let established connections pass before it.",
        at.port
    ))
    .by(command_in(rules, shell!("nft -a list ruleset")))
    .at(format!(
        "{}; `iptables-save -c` where rules were made by iptables, whose counters show which one drops",
        namespace(rules)
    ))
    .risk(
        "Everything that the limit kept out gets in. TCP itself answers segments outside the window \
         that pass.",
    )
    .effect("The firewall no longer causes retransmits on them.")
    .change(Change::PassPackets {
        netns: Some(rules.inode),
        at: at.to_string(),
    })
}

/// For each firewall and service, what it dropped of established connections; without any, the drops over all of them.
pub(super) fn refuted(whole: &Whole) -> Vec<Option<Answered>> {
    let story = whole.story;
    let says = |dropped: u64, rows: Vec<RowRef>, of: u64| {
        say!(
            "firewalls of this host dropped {dropped} of {packets} of connections",
            dropped = Quantity::count(dropped).rows(rows),
            packets = Quantity::of(of, "packet")
        )
    };
    let leaving = places(story, |way| way).into_iter();
    let coming = places(story, |(from, to)| (to, from));
    let all = leaving.chain(coming).map(|walled| {
        let n: u64 = walled.dropped.iter().map(|d| d.by_firewall).sum();
        let passed = walled.ends.iter().map(|e| {
            e.transfer
                .segments()
                .max(e.transfer.received() / u64::from(e.transfer.mss.max(1)))
        });
        let of = passed.fold(n, u64::saturating_add);
        let rows = || {
            walled
                .dropped
                .iter()
                .flat_map(|d| d.rows.iter().copied())
                .take(SHOWN_ROWS)
                .collect()
        };
        let few = limits::LOSS_GOVERNS.reached(n, of) && n < limits::OFTEN.count();
        if few {
            let step = says(n, rows(), of);
            return Some(Answered::unknown(format!(
                "{} to {}: too few to tell",
                step.says, walled.at
            )));
        }
        every([
            Test::events(n, of, &limits::OFTEN, says(n, rows(), of)),
            Test::share(n, of, &limits::LOSS_GOVERNS, says(n, rows(), of)),
        ])
    });
    let all: Vec<_> = all.collect();
    if !all.is_empty() {
        return all;
    }
    // The connections of the drops are not known everywhere.
    let (n, of) = (
        story.drops.all().map(|(_, d)| d.by_firewall).sum(),
        whole.packets(),
    );
    let step = says(n, Vec::new(), of);
    vec![every([Test::events(n, of, &limits::OFTEN, step)])]
}
