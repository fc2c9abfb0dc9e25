//! A firewall of this host drops what servers answer to SYNs: their clients get nothing.

use analysis::words::{count, plural};

use super::CAUSE;
use crate::limits;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::vocabulary::*;

/// The namespace whose rules dropped most.
fn rules_of(place: &UnansweredSyns) -> Option<u32> {
    let most = place.answers.iter().max_by_key(|a| a.count);
    most.map(|a| a.netns)
}

pub(super) fn judge(place: &UnansweredSyns) -> Option<Finding> {
    let (story, at) = (place.story, place.at);
    let rules = story.netns(rules_of(place)?);
    let dropped = place.answers_dropped();
    let missed = place.times.unanswered_syns().max(place.synacks_repeated);
    if dropped < limits::FIREWALL_SEEN.count() || !limits::MOST.reached(dropped, missed) {
        return None;
    }
    let clients_here = place.times.total() > 0;
    let (n, of) = (place.times.silent(), place.times.total());
    let here = namespace(&rules);
    let packets = Quantity::of(dropped, "packet").rows(place.answer_rows());
    let reason = place
        .answers
        .iter()
        .find_map(|a| a.dropped.reason.as_deref());
    let location = place
        .answers
        .iter()
        .find_map(|a| a.dropped.location.as_deref());
    let location = location.map_or(String::new(), |l| format!(" in {l}"));
    let reason = reason.unwrap_or("a rule");
    // Each client is a way of its own.
    let ends = place.answers.len() as u64;
    let lost = if clients_here {
        place.times.lost(story, 0)
    } else {
        Lost::elsewhere(ends.saturating_mul(limits::SYN_TIMEOUT.ns()))
    };
    let passed = place.passed();
    let says = format!(
        "{} got no answer while {} completed; each waits 1 s or more.",
        plural(ends, "client"),
        plural(passed, "handshake")
    );
    let impact = if clients_here {
        place.times.impact(dropped, of)
    } else {
        Impact::of(ends, ends.saturating_add(passed), "connections", says)
    };
    let scope = Scope {
        resource: Some(format!("firewall of {here}")),
        ..place.scope(rules.inode)
    };
    let case = Case::new(story, CAUSE, scope)
        .placed(place.place())
        .title([
            if clients_here {
                format!(
                    "A firewall here drops the answers of {at} to SYNs: {packets}, {} of {} connects got none.",
                    count(n),
                    count(of)
                )
            } else {
                format!("A firewall here drops the answers of {at} to SYNs: {packets}.")
            },
            format!("A firewall here drops the answers of {at} to SYNs: {packets}."),
        ])
        .fix([
            format!("Let the rules of {here} pass what {at} answers (established connections)."),
            format!("Let the firewall pass what {at} answers."),
        ])
        .affects(impact, lost)
        .if_asked(place.times.delayed_ids().to_vec(), false)
        .because("the kernel reports that its firewall dropped the answers, and where")
        .at_most_if(
            Level::Medium,
            !clients_here,
            "the clients are not on this host: the cost to them was not seen",
        )
        .steps(place.times.step())
        .steps([say!(
            "{dropped} from {at} were dropped in {here}, reason {reason}{location}.",
            dropped = Quantity::of(dropped, "packet").rows(place.answer_rows()),
            at = Quantity::new(at.to_string(), at.to_string())
        )])
        .checks(clients_here.then(|| {
            let formula = "answers that the firewall dropped ≥ SYNs that clients retransmitted";
            at_least(formula, place.times.retries, dropped, "packets")
        }))
        .advise([advice(place, &rules)]);
    Some(case.verify(sentence!(
        "`tcpwhy trace drops` shows no packet from {at}, and connects to it take a round trip.",
        at
    )))
}

fn advice(place: &UnansweredSyns, rules: &Netns) -> Advice {
    let at = place.at;
    Advice::to(format!(
        "Find the rule that drops packets from port {}; let established connections pass before it.",
        at.port
    ))
    .by(command_in(rules, shell!("nft -a list ruleset")))
    .at(format!(
        "{}; `iptables-save -c` where rules were made by iptables, whose counters show which one drops",
        namespace(rules)
    ))
    .risk("Answers to connects of this host get in; whatever else the rule kept out stays out.")
    .effect("connect() takes a round trip instead of 1 s or more.")
    .change(Change::PassPackets {
        netns: Some(rules.inode),
        at: at.to_string(),
    })
}

/// Of each server some of whose answers were dropped, how many.
pub(super) fn refuted(whole: &Whole) -> Vec<Option<Answered>> {
    let places = whole.silent().iter().filter(|p| p.answers_dropped() > 0);
    let tests = places.map(|place| {
        let (n, missed) = (place.answers_dropped(), place.times.unanswered_syns());
        let missed = missed.max(place.synacks_repeated);
        let says = || {
            say!(
                "firewalls of this host dropped {dropped} from {at}; {missed} of connects to it got no answer",
                dropped = Quantity::of(n, "packet").rows(place.answer_rows()),
                at = Quantity::new(place.at.to_string(), place.at.to_string()),
                missed = Quantity::of(missed, "SYN")
            )
        };
        every([
            Test::events(n, missed, &limits::FIREWALL_SEEN, says()),
            Test::share(n, missed, &limits::MOST, says()),
        ])
    });
    tests.collect()
}
