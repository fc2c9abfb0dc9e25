//! C08: a firewall of this host drops SYNs, the answers to them, or packets of established connections.

mod answers;
mod established;
mod hung;

use std::collections::BTreeSet;

use ahash::AHashMap;
use analysis::words::{count, percent, plural};
use recording::Addr;

use crate::limits;
use crate::places::ecn_offer::EcnOffer;
use crate::places::losses::Losses;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::LOCAL_FIREWALL_DROP,
    number: "C08",
    title: "a firewall of this host drops packets",
    page: include_str!("local_firewall_drop.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[&[SourceName::States], &[SourceName::Drops]],
    seen_from: || {
        "3 dropped SYNs or answers to them; 20 packets of established connections, 0.1 %; each packet of one that hangs"
            .into()
    },
    signature: &[
        "connection timed out, and tcpdump sees the SYN come in",
        "works from the host itself, not from others",
    ],
    rivals: &[
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::SYN_QUEUE_OVERFLOW,
        Id::PATH_DROPS_SYN,
        Id::TIME_WAIT_COLLISION,
        Id::CONNTRACK_FULL,
    ],
    explains: &[Id::PEER_GONE, Id::PATH_OUTAGE],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |whole| {
        let story = whole.story;
        let connects = whole.silent().iter();
        let mut found: Vec<Finding> = connects.filter_map(|p| judge(p)).collect();
        found.extend(whole.silent().iter().filter_map(|p| answers::judge(p)));
        let hung = hung::findings(story);
        // What makes a connection hang is one case with all else that the rule drops of these.
        let told = |f: &Finding| {
            let same = |h: &Finding| {
                h.scope.resource == f.scope.resource && h.scope.listener == f.scope.listener
            };
            hung.iter().any(same)
        };
        found.extend(
            established::findings(story)
                .into_iter()
                .filter(|f| !told(f)),
        );
        found.extend(hung);
        found.into()
    },
};

/// Whether the table of tracked connections counts most of what a firewall dropped.
fn is_tracking(place: &UnansweredSyns) -> bool {
    let Some(netns) = place.firewall_netns() else {
        return false;
    };
    let (untracked, _) = place.untracked(netns);
    untracked > 0 && limits::MOST.reached(untracked, place.firewall_drops())
}

fn no(asked: &Asked) -> Option<Step> {
    if !asked.story.health.has(&SourceName::Drops) {
        return None;
    }
    match asked.losses() {
        Some(losses) => no_data_dropped(asked.story, losses),
        None => match asked.silent() {
            Some(place) => no_syn_dropped(place),
            None => asked.answered(),
        },
    }
}

fn rule_out(whole: &Whole) -> Verdict {
    let says = |dropped: Quantity, of: u64| {
        say!(
            "firewalls of this host dropped {dropped} of {opened} opened or tried",
            dropped,
            opened = Quantity::of(of, "connection")
        )
    };
    let syns = whole.silent().iter().filter(|p| p.firewall_drops() > 0).map(|place| {
        let lost = place.firewall_drops();
        let of = place.times.total().max(place.passed()).saturating_add(lost);
        let refused = whole.story.all(&place.clients);
        let refused = refused.filter(|(_, c)| c.refused.is_some()).count() as u64;
        let dropped = Quantity::of(lost, "SYN").rows(place.firewall_rows());
        let answered = say!(
            "{refused} of {dropped} that a firewall of this host dropped were answered by a reset",
            refused = Quantity::count(refused),
            dropped = &dropped
        );
        every([
            Test::events(lost, of, &limits::FIREWALL_SEEN, says(dropped.clone(), of)),
            Test::share(refused, lost, &limits::MOST, answered).below(),
        ])
    });
    let syns: Vec<_> = syns.collect();
    let of = whole.opened();
    let none = || {
        every([Test::events(
            0,
            of,
            &limits::FIREWALL_SEEN,
            says(whole.firewalled(), of),
        )])
    };
    let none = if syns.is_empty() { none() } else { None };
    Verdict::nearest(
        syns.into_iter()
            .chain([none])
            .chain(answers::refuted(whole))
            .chain(established::refuted(whole)),
        NO_CONNECTION,
    )
}

/// For ends that send.
fn no_data_dropped(story: &Story, losses: &Losses) -> Option<Step> {
    let of = losses.ends.iter();
    let of = of.filter_map(|e| story.drops.leaving(e.conn));
    let otherwise: u64 = of.map(|d| d.otherwise).sum();
    // Where nothing was sent meanwhile, nothing could have been dropped.
    let sent = losses.segments.saturating_add(losses.retransmitted());
    (otherwise < limits::FAILED_AGAIN.count() && sent > otherwise).then(|| {
        say!(
            "{dropped_otherwise} of these connections were dropped on this host other than by a \
             queueing discipline",
            dropped_otherwise = Quantity::of(otherwise, "packet")
        )
    })
}

/// For connects.
fn no_syn_dropped(place: &UnansweredSyns) -> Option<Step> {
    let dropped = place.firewall_drops();
    let firewall_dropped = Quantity::of(dropped, "SYN").rows(place.firewall_rows());
    if is_tracking(place) {
        let counted = place.firewall_netns().map(|netns| place.untracked(netns))?;
        let conntrack_dropped = Quantity::count(counted.0).rows(counted.1);
        return Some(say!(
            "the table of tracked connections counts its own drops: {conntrack_dropped} of \
             {firewall_dropped}",
            conntrack_dropped,
            firewall_dropped
        ));
    }
    (dropped < limits::FIREWALL_SEEN.count()).then(|| {
        say!(
            "a firewall of this host dropped {firewall_dropped} to it",
            firewall_dropped
        )
    })
}

/// Whether remote clients that were dropped gave up, as clients do that a rule answers (`reject`).
fn is_let_be(place: &UnansweredSyns) -> bool {
    let story = place.story;
    let before_ns = story.end_ns.saturating_sub(limits::COMES_AGAIN.ns());
    let listener = place.listener();
    let accepted = listener.map(|(_, l)| story.all(&l.accepted).map(|(_, c)| c.remote));
    let accepted: BTreeSet<Endpoint> = accepted.into_iter().flatten().collect();
    let (mut once, mut of) = (0, 0_u64);
    for (from, again) in story.resets.rejected_at(place.at, before_ns) {
        of += 1;
        once += u64::from(!again && !accepted.contains(&from));
    }
    let few = once < limits::FAILED_AGAIN.count() || !limits::NEARLY_ALL.reached(once, of);
    place.times.delayed.is_empty() && !few
}

/// What those lost: each host of them, for as long as it was turned away.
fn turned_away(place: &UnansweredSyns, lost: u64) -> Lost {
    let from_ns = place.firewalled().map(|g| g.first_ns).min();
    let to_ns = place.firewalled().map(|g| g.last_ns).max();
    let over_ns = to_ns
        .zip(from_ns)
        .map_or(0, |(to, from)| to.saturating_sub(from));
    let hosts = place.firewalled().map(|g| g.remotes.len() as u64).max();
    let outage_ns = over_ns.saturating_add(limits::SYN_TIMEOUT.ns());
    let each_ns = lost.saturating_mul(limits::SYN_TIMEOUT.ns());
    Lost::elsewhere(each_ns.min(outage_ns.saturating_mul(hosts.unwrap_or(1))))
}

/// Remote clients were intermittently dropped and let in, as by a rate limit: no rule intends that. A ban lets no
/// client in while it lasts.
fn by_turns(place: &UnansweredSyns) -> bool {
    let Some((_, listener)) = place.listener() else {
        return false;
    };
    let slots = place.story.slots();
    let mut let_in: AHashMap<Addr, (u64, u32)> = AHashMap::new();
    for (_, conn) in place.story.all(&listener.accepted) {
        let (n, when) = let_in.entry(conn.remote.addr).or_default();
        *n += 1;
        *when |= slots.bit(conn.start_ns);
    }
    let remotes = place.firewalled().flat_map(|g| &g.remotes);
    let both = remotes.filter_map(|from| {
        let (n, when) = let_in.get(&from.addr)?;
        let meanwhile =
            limits::MOST.reached((when & from.slots).count_ones(), from.slots.count_ones());
        meanwhile.then_some((from.count, *n))
    });
    let (dropped, accepted) = both.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    dropped >= limits::FAILED_AGAIN.count() && accepted >= limits::FAILED_AGAIN.count()
}

fn judge(place: &UnansweredSyns) -> Option<Finding> {
    let (story, at) = (place.story, place.at);
    let netns = place.firewall_netns()?;
    let lost = place.firewall_drops();
    // A firewall that also answers is `injected-reset`: its clients do not wait.
    let clients = story.all(&place.clients);
    let refused = clients.filter(|(_, c)| c.refused.is_some()).count() as u64;
    let answered = place.is_rejected() || limits::MOST.reached(refused, lost);
    // One that hangs is enough.
    let hangs = !place.hanging(limits::STALL.ns()).is_empty() && lost > 0;
    if lost < limits::FIREWALL_SEEN.count() && !hangs || is_tracking(place) || answered {
        return None;
    }
    let clients_here = hangs || place.times.delayed.len() as u64 >= limits::FIREWALL_SEEN.count();
    if !clients_here && !by_turns(place) {
        return None;
    }
    let (passed, let_be) = (place.passed(), is_let_be(place));
    let scope = place.scope(netns);
    let does = if let_be { "turns away" } else { "drops" };
    let rules_of = namespace(&scope.netns);
    let advice = advice(place, &scope.netns, lost, passed);
    let ecn = EcnOffer::of(place).filter(EcnOffer::is_seen);
    let what = if ecn.is_some() {
        "SYNs that offer ECN"
    } else {
        "SYNs"
    };
    let fix = if ecn.is_some() {
        "pass SYNs with ECE and CWR set (ECN)".to_string()
    } else {
        format!("pass SYNs to {at}, or raise their limit")
    };
    let clients = place.client_netns().map(|netns| story.netns(netns));
    let until_then = ecn
        .iter()
        .zip(&clients)
        .map(|(ecn, netns)| ecn.advice(netns));
    let case = Case::new(story, CAUSE, scope)
        .placed(place.place())
        .title([
            format!(
                "A firewall here {does} {what} to {at}: {}, while {} passed.",
                count(lost),
                count(passed)
            ),
            format!("A firewall here {does} {what} to {at}: {}.", count(lost)),
        ])
        .fix([
            format!("Let the rules of {rules_of} {fix}."),
            format!("Let the firewall {fix}."),
        ])
        .affects(
            if let_be {
                turned_away_says(lost, passed)
            } else {
                place.impact(lost, passed)
            },
            if let_be {
                turned_away(place, lost)
            } else {
                place.times.lost(story, lost)
            },
        )
        .if_asked(place.times.delayed_ids().to_vec(), false)
        .because("the kernel reports that its firewall dropped the SYNs, and where")
        .at_most_if(
            Level::Medium,
            place.times.delayed.is_empty(),
            "the clients are not on this host: the cost to them was not seen",
        )
        .steps(place.firewall_steps())
        .steps(rules_step(place, netns))
        .steps(ecn.iter().flat_map(EcnOffer::steps))
        .checks(place.drops_check(lost))
        .advise([advice])
        .advise(until_then);
    Some(case.verify(sentence!(
        "`tcpwhy trace drops` shows no SYN to {at}, and connects to it take a round trip.",
        at
    )))
}

fn turned_away_says(lost: u64, passed: u64) -> Impact {
    let of = lost.saturating_add(passed);
    let share = percent(lost as f64 / of.max(1) as f64);
    let says = format!(
        "{} were turned away while {} completed ({share} of what arrived). Almost none was retransmitted, \
         as dropped ones are after 1 s: the rule answers them (`reject`: a reset, ICMP), or their clients \
         do not wait.",
        plural(lost, "SYN"),
        plural(passed, "handshake")
    );
    Impact::of(lost, of, "SYNs", says)
}

/// The rules that exist.
fn rules_step(place: &UnansweredSyns, netns: u32) -> Option<Step> {
    let size = place.story.structures.get(netns, "nft-rules")?.last;
    let of = namespace(&place.story.netns(netns));
    let nft_rules = Quantity::of(size.entries, "nftables rule").rows([size.row]);
    (size.entries > 0).then(|| say!("{of} has {nft_rules}.", nft_rules))
}

fn advice(place: &UnansweredSyns, netns: &Netns, lost: u64, passed: u64) -> Advice {
    let at = place.at;
    let all = lost.saturating_add(passed).max(1);
    let per_second = (all as f64 / place.story.seconds()) as u64;
    Advice::to(format!(
        "Find the rule that drops SYNs to port {} and let them pass, or raise its limit above {} \
         connects per second.",
        at.port,
        count(per_second)
    ))
    .by(command_in(netns, shell!("nft -a list ruleset")))
    .at(format!(
        "{}; `iptables-save -c` where rules were made by iptables, whose counters show which one \
         drops",
        namespace(netns)
    ))
    .risk("Everything that the rule kept out gets in: allow the port for the clients' addresses only.")
    .effect(format!(
        "The {} of SYNs that are dropped now are answered at once, and connect() takes a round trip \
         instead of 1 s or more.",
        percent(lost as f64 / all as f64)
    ))
    .change(Change::AllowSyns {
        netns: netns.inode,
        at: at.to_string(),
    })
}

#[cfg(test)]
pub(super) mod tests;
