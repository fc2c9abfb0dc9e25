//! C01: SYNs meet TIME_WAIT sockets of the same addresses and ports, and are refused.

mod advice;
mod case;
mod chain;
mod illumos;

use analysis::stats::quantile;
use analysis::words::{count, duration, figure, percent, plural, rounded};

use crate::limits;
use crate::moment::{Began, Since};
use crate::vocabulary::*;
use case::Collision;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::TIME_WAIT_COLLISION,
    number: "C01",
    title: "SYNs are refused by TIME_WAIT sockets",
    page: include_str!("time_wait_collision.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[SourceName::Drops, SourceName::Counters],
    ],
    seen_from: || "5 refused SYNs, 0.5 % of the connects".into(),
    signature: &[
        "connect sometimes takes 2 to 16 ms, or exactly 1, 2 or 3 s",
        "connects to a busy server hang for 1 s, only from behind one NAT address",
    ],
    rivals: &[
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::SYN_QUEUE_OVERFLOW,
        Id::PORTS_EXHAUSTED,
        Id::LOCAL_FIREWALL_DROP,
        Id::PATH_DROPS_SYN,
        Id::PATH_LOSS,
        Id::CONNTRACK_FULL,
        Id::HALF_OPEN,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |whole| find(whole.story).into(),
};

fn no(asked: &Asked) -> Option<Step> {
    let strays = asked.silent()?.strays;
    let refused = Quantity::of(strays, "SYN");
    (strays < limits::OFTEN.count())
        .then(|| say!("{refused} met a TIME_WAIT socket that refused it", refused))
}

/// Connects that a TIME_WAIT socket refused, at the server that refused most.
fn rule_out(whole: &Whole) -> Verdict {
    let says = |refused: u64, of: u64| {
        say!(
            "{refused} of {connects} met a TIME_WAIT socket that refused it",
            refused = Quantity::count(refused),
            connects = Quantity::of(of, "connect")
        )
    };
    let places = Collision::all(whole.story).into_iter().map(|place| {
        let (n, of) = place.impact();
        let share = Test::share(n, of, &limits::COLLISIONS_SHARE, says(n, of));
        every([Test::events(n, of, &limits::OFTEN, says(n, of)), share])
    });
    let of = whole.opened();
    let none = || every([Test::events(0, of, &limits::OFTEN, says(0, of))]);
    Verdict::nearest_or(places, none, NO_CONNECT)
}

fn find(story: &Story) -> Vec<Finding> {
    let all = Collision::all(story).into_iter();
    all.filter_map(|collision| judge(&collision)).collect()
}

fn judge(case: &Collision) -> Option<Finding> {
    let (affected, of) = case.impact();
    if affected < limits::OFTEN.count() || !limits::COLLISIONS_SHARE.reached(affected, of) {
        return None;
    }
    if case.is_told_by_clients() && !case.server_closes_first() {
        return None;
    }
    let scope = scope(case);
    let netns = scope.netns.inode;
    let (refused, strays) = (
        Quantity::of(case.refused.len() as u64, "refused SYN"),
        Quantity::of(case.strays.len() as u64, "reset"),
    );
    let rests_on: &[SourceName] = match case.server {
        Some(_) => &[SourceName::Drops],
        None => &[SourceName::ResetsSent],
    };
    let mut finding = Case::new(case.story, CAUSE, scope)
        .placed(Place::At(case.at.is_loopback().then_some(netns), case.at))
        .rests_on(rests_on)
        .title(title(case))
        .fix([case.fix()])
        .since(match case.broke {
            Some(broke) => Since::at(case.story, broke.time_ns, Began::Broke),
            None => Since::at(case.story, case.first_ns, Began::Seen),
        })
        .affects(
            impact(case),
            Lost::connects(case.story, case.hit())
                .or(|| Lost::elsewhere(affected.saturating_mul(limits::SYN_TIMEOUT.ns()))),
        )
        .at_most_if(
            Level::Medium,
            case.server.is_none(),
            "the server is not on this host: its TIME_WAIT sockets were not seen",
        );
    if case.server.is_some() {
        finding = finding.because(if case.strays.is_empty() {
            format!("{refused} were seen at the TIME_WAIT sockets")
        } else {
            format!(
                "{refused} were seen at the TIME_WAIT sockets, and {strays} in response to them"
            )
        });
    }
    let counter = if case.paws() {
        counter::PAWS_TIMEWAIT
    } else {
        counter::OUT_RSTS
    };
    let (_, counter) = counter.split_once('.').unwrap_or(("", counter));
    let finding = finding
        .steps(case.evidence())
        .checks(case.arithmetic())
        .advise(case.advice());
    Some(finding.verify(sentence!(
        "`tcpwhy trace timewait` shows no SYN refused at {at}; {counter} no longer rises \
                                   with the connects.",
        at = case.at,
        counter
    )))
}

fn title(case: &Collision) -> [String; 2] {
    let (n, of) = case.impact();
    let refused = format!("{} of {} connects", count(n), count(of));
    let at = case.at;
    let short = format!("TIME_WAIT sockets of {at} refuse SYNs: {refused}.");
    match case.broke {
        Some(b) => [
            format!(
                "TIME_WAIT sockets of {at} refuse SYNs: the rate fell from {} to {} connects/s.",
                figure(b.before),
                figure(b.after)
            ),
            short,
        ],
        None => [
            format!("TIME_WAIT sockets of {at} refuse SYNs: {refused} had to retransmit."),
            short,
        ],
    }
}

fn scope(case: &Collision) -> Scope {
    let client = case.hit().next();
    let netns = case.server.or(client.map(|c| c.netns)).unwrap_or(0);
    let mut pids: Vec<u32> = case.hit().filter_map(|c| c.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    // The last one: the first may have ended when the trouble began.
    let last = case.hit().filter(|c| c.pid.is_some()).last();
    Scope {
        netns: case.story.netns(netns),
        listener: case.at.to_string(),
        role: Role::Client,
        pid: last.and_then(|c| c.pid),
        pids,
        comm: last.and_then(|c| Some(c.comm.as_deref()?.to_string())),
        ..Scope::default()
    }
}

fn impact(case: &Collision) -> Impact {
    let (affected, of) = case.impact();
    let added = case.added();
    let mut says = format!(
        "{} of {} ({}) were refused at first",
        count(affected),
        plural(of, "connect"),
        percent(affected as f64 / of as f64)
    );
    if let Some((p50, p99)) = added {
        let time = |ms: f64| duration((ms * 1e6) as u64);
        says += &format!(": connect time +{} p50, +{} p99", time(p50), time(p99));
    }
    let waiting = case.waiting();
    if waiting > 0 {
        says += &format!("; {} still pending at the end", count(waiting));
    }
    if case.clients.is_empty() {
        says += "; the clients are not on this host";
    }
    let counted = if case.clients.is_empty() {
        "SYNs"
    } else {
        "connections"
    };
    Impact {
        added_latency_ms: added.map(|(p50, p99)| Latency { p50, p99 }),
        ..Impact::of(affected, of, counted, says + ".")
    }
}

impl Collision<'_> {
    /// How much longer the refused connects took than the median of the others, ms: median and 99th percentile.
    fn added(&self) -> Option<(f64, f64)> {
        let usual = self.usual_ns();
        let mut took: Vec<u64> = self.hit().filter_map(|c| c.connect_ns()).collect();
        let mut at = |share| {
            let ns = quantile(&mut took, share)?.saturating_sub(usual);
            Some(rounded(ns as f64 / 1e6))
        };
        Some((at(0.5)?, at(0.99)?))
    }
}

#[cfg(test)]
mod tests;
