//! C46: connection tracking drops SYNs because another packet had taken their entry.

use crate::limits;
use crate::places::unanswered_syns::places;
use crate::places::untracked_syns::{self, UntrackedSyns, none_failed};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::CONNTRACK_INSERT_FAILED,
    number: "C46",
    title: "connections race for an entry of connection tracking",
    page: include_str!("conntrack_insert_failed.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: CONNTRACK_DROPS,
    seen_from: "10 dropped SYNs that connection tracking could not insert",
    signature: &[
        "1 s delay of some connects on Kubernetes nodes",
        "insert_failed rises in conntrack -S",
    ],
    rivals: &[
        Id::SNAT_PORTS_EXHAUSTED,
        Id::CONNTRACK_FULL,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
    ],
    explains: &[],
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |story| {
        let places = places(story);
        let all = places.iter().filter_map(UntrackedSyns::of);
        all.filter(|u| !u.is_exhausted())
            .map(|u| judge(&u))
            .collect()
    },
};

fn no(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    none_failed(place).or_else(|| {
        let untracked = UntrackedSyns::of(place).filter(UntrackedSyns::is_exhausted)?;
        let (least, most) = untracked.held?;
        Some(say!(
            "each SYN was dropped when at least {held} of the {most} connections that there were at most had \
             an entry, and {lost_twice} lost a second one: a race does not wait for that",
            held = Quantity::count(least).rows(untracked.rows()),
            most = Quantity::count(most),
            lost_twice = Quantity::of(untracked.lost_again.1, "connect")
        ))
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    untracked_syns::rule_out(whole)
}

fn judge(untracked: &UntrackedSyns) -> Finding {
    let (at, scope) = (untracked.place.at, untracked.scope());
    let host = namespace(&scope.netns);
    let syns = Quantity::of(untracked.lost, "SYN");
    let advice = advice(untracked, &scope.netns);
    untracked
        .case(CAUSE, scope)
        .title([
            format!("Connection tracking dropped {syns} to {at}: another had taken their entry."),
            format!("Connection tracking dropped {syns} to {at}."),
        ])
        .fix([
            format!("Let {host} translate with ports chosen at random (fully-random)."),
            "Let NAT choose ports at random (fully-random).".into(),
        ])
        .because("the table has room, and counts what it could not insert")
        .at_most_if(
            Level::Medium,
            untracked.held.is_none(),
            "no client is on this host: whether the translated ports were exhausted is not known",
        )
        .steps(again(untracked))
        .checks(by_chance(untracked))
        .advise(advice)
        .verify("The `insert_failed` column of /proc/net/stat/nf_conntrack no longer rises.")
}

/// What came of those that were dropped.
fn again(untracked: &UntrackedSyns) -> Option<Step> {
    let (once, twice) = untracked.lost_again;
    let place = untracked.place;
    let of = place.times.total();
    let retried = place.story.all(&place.clients).map(|(_, c)| c);
    let rows = retried.filter_map(|c| c.first_retry).map(RowRef::from);
    (of > 0).then(|| {
        say!(
            "Of {connects} {lost_once} lost a SYN and {lost_twice} a second one: the next one mostly has an \
             entry of its own.",
            connects = Quantity::of(of, "connect"),
            lost_once = Quantity::count(once).rows(rows.take(SHOWN_ROWS)),
            lost_twice = Quantity::count(twice)
        )
    })
}

/// A range that is full drops the next SYN as well; a race is lost again by chance only.
fn by_chance(untracked: &UntrackedSyns) -> Option<Check> {
    let (once, twice) = untracked.lost_again;
    (once > 0).then(|| Check {
        formula: "connects that lost a second SYN < half of those that lost one, as a full range would have it"
            .into(),
        expected: once as f64 * limits::MOST.share(),
        measured: twice as f64,
        unit: "connects".into(),
        agrees: !limits::MOST.exceeded(twice, once),
        tolerance: "at most".into(),
    })
}

fn advice(untracked: &UntrackedSyns, netns: &Netns) -> [Advice; 2] {
    let at = untracked.place.at;
    [
        Advice::to(format!(
            "Add `fully-random` to the rule that translates connections to {at} (iptables: `--random-fully`), \
             so that two connections that begin at once do not try the same port."
        ))
        .by(command_in(netns, shell!("nft -a list ruleset")))
        .at(format!("the NAT rules of {}", namespace(netns)))
        .risk("None for TCP; ports are no longer kept, which some peers of UDP go by.")
        .effect("SYNs get an entry at the first attempt, unless the range is full.")
        .change(Change::PassPackets {
            netns: Some(netns.inode),
            at: at.to_string(),
        }),
        Advice::to(format!(
            "Do not track or translate what need not be: exempt port {} where the path allows it.",
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
