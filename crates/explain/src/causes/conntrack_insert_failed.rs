//! C46: connection tracking drops SYNs because another packet had taken their entry.

use crate::limits;
use crate::places::tracking::{
    DROPPED, ELSEWHERE, NOT_INSERTED, ONCE, PORTS_LEFT, Tracked, Tracking,
};
use crate::places::unanswered_syns::UnansweredSyns;
use crate::rule::{Rule, Way};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CONNTRACK_INSERT_FAILED,
    number: "C46",
    title: "connections race for a connection tracking entry",
    page: include_str!("conntrack_insert_failed.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: CONNTRACK_DROPS,
    seen_from: || RULE.told_from(),
    signature: &[
        "1 s delay of some connects on Kubernetes nodes",
        "insert_failed rises in conntrack -S",
        "DNS lookups in Kubernetes pods take 5 s (or 2.5 s): UDP races likewise",
    ],
    rivals: &[
        Id::SNAT_PORTS_EXHAUSTED,
        Id::CONNTRACK_FULL,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
    ],
    explains: &[],
    told_with: None,
    no: Some(|asked| RULE.no(asked)),
    rule_out: |whole| RULE.rule_out(whole),
    symptom: Some(Symptom::Connects),
    find: |whole| RULE.find(whole),
};

const RULE: Rule<Tracked> = Rule {
    ways: &[
        Way {
            tests: &[DROPPED, NOT_INSERTED, PORTS_LEFT],
            doubt: None,
        },
        Way {
            tests: &[DROPPED, NOT_INSERTED, ONCE],
            doubt: None,
        },
        Way {
            tests: &[DROPPED, NOT_INSERTED, ELSEWHERE],
            doubt: Some(
                "no client is on this host: whether the translated ports were exhausted is not known",
            ),
        },
    ],
    finding,
};

fn finding(tracking: &Tracking) -> Option<Finding> {
    let place = tracking.syns.as_ref()?;
    let (at, scope) = (place.at, tracking.scope(place));
    let host = namespace(&scope.netns);
    let syns = Quantity::of(tracking.lost, "SYN");
    let advice = advice(at, &scope.netns);
    let case = tracking
        .case(place, CAUSE, scope)
        .title([
            format!("Connection tracking dropped {syns} to {at}: their entry was already taken."),
            format!("Connection tracking dropped {syns} to {at}."),
        ])
        .fix([
            format!("Make NAT on {host} choose ports at random (fully-random)."),
            "Let NAT choose ports at random (fully-random).".into(),
        ])
        .because("the table is not full, but insert_failed rose")
        .steps(tracking.counted())
        .steps(again(tracking, place))
        .checks(by_chance(tracking))
        .advise(advice);
    Some(case.verify("The `insert_failed` column of /proc/net/stat/nf_conntrack no longer rises."))
}

/// What became of the dropped ones.
fn again(tracking: &Tracking, place: &UnansweredSyns) -> Option<Step> {
    let (once, twice) = tracking.lost_again;
    let of = place.times.total();
    let retried = place.story.all(&place.clients).map(|(_, c)| c);
    let rows = retried.filter_map(|c| c.first_retry).map(RowRef::from);
    (of > 0).then(|| {
        say!(
            "{lost_once} of {connects} lost a SYN and {lost_twice} lost a second one: the next SYN mostly \
             gets an entry of its own.",
            connects = Quantity::of(of, "connect"),
            lost_once = Quantity::count(once).rows(rows.take(SHOWN_ROWS)),
            lost_twice = Quantity::count(twice)
        )
    })
}

/// A full range drops the next SYN as well; a race is lost again only by chance.
fn by_chance(tracking: &Tracking) -> Option<Check> {
    let (once, twice) = tracking.lost_again;
    (once > 0).then(|| Check {
        formula: "connects that lost a second SYN < half of those that lost one (with a full range, more)"
            .into(),
        expected: once as f64 * limits::MOST.share(),
        measured: twice as f64,
        unit: "connects".into(),
        agrees: !limits::MOST.exceeded(twice, once),
        tolerance: "at most".into(),
    })
}

fn advice(at: Endpoint, netns: &Netns) -> [Advice; 2] {
    [
        Advice::to(format!(
            "Add `fully-random` to the rule that translates connections to {at} (iptables: \
             `--random-fully`), so that two connections that start at the same moment do not try the same \
             port."
        ))
        .by(command_in(netns, shell!("nft -a list ruleset")))
        .at(format!("the NAT rules of {}", namespace(netns)))
        .risk("None for TCP; source ports are no longer preserved, which some UDP peers rely on.")
        .effect("SYNs get an entry at the first attempt, unless the range is full.")
        .change(Change::PassPackets {
            netns: Some(netns.inode),
            at: at.to_string(),
        }),
        Advice::to(format!(
            "Do not track or translate traffic that does not need it: exempt port {} where the path allows \
             it.",
            at.port
        ))
        .at(format!("{}, table raw (`notrack`)", namespace(netns)))
        .risk("Rules that match `ct state` and NAT no longer see these connections.")
        .effect("There is no entry to race for.")
        .change(Change::Untrack {
            netns: netns.inode,
            at: at.to_string(),
        }),
    ]
}

#[cfg(test)]
mod tests;
