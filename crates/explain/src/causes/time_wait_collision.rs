//! C01: SYNs meet TIME_WAIT sockets of the same addresses and ports, and are refused.

mod advice;
mod case;
mod chain;
mod illumos;

use analysis::stats::quantile;
use analysis::words::{count, duration, figure, fitting, percent, plural};

use crate::finding::{Confidence, RuledOut};
use crate::lost::SYN_TIMEOUT_NS;
use crate::moment::{Began, Since};
use crate::places::listener::doubts;
use crate::vocabulary::*;
use case::Case;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::TIME_WAIT_COLLISION,
    number: "C01",
    title: "SYNs are refused by TIME_WAIT sockets",
    page: include_str!("time_wait_collision.md"),
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[SourceName::Drops, SourceName::Counters],
    ],
    seen_from: "10 refused SYNs, 0.5 % of the connects",
    rivals: &[],
    explains: &[],
    no: Some(no),
    symptom: Some(Symptom::Connects),
    find,
};

/// Fewer refusals than this, in a recording of seconds, happen on any busy host that uses its ports
/// again: two ends of a million in the same millisecond.
const MIN_REFUSED: u64 = 10;
/// Below this share of connects only their 99.5th percentile shows it.
const MIN_SHARE: f64 = 0.005;

fn no(asked: &Asked) -> Option<Step> {
    let strays = asked.silent()?.strays;
    let refused = Quantity::of(strays, "SYN");
    (strays < MIN_REFUSED)
        .then(|| say!("{refused} met a TIME_WAIT socket that refused it", refused))
}

fn find(story: &Story) -> Vec<Finding> {
    let cases = Case::all(story).into_iter();
    let cases = cases.filter(|case| {
        let (affected, of) = case.impact();
        affected >= MIN_REFUSED && affected as f64 >= MIN_SHARE * of as f64
    });
    cases.map(|case| finding(&case)).collect()
}

fn finding(case: &Case) -> Finding {
    let checks = case.arithmetic();
    Finding {
        episodes: Vec::new(),
        cause: CAUSE.id,
        number: CAUSE.number.into(),
        place: None,
        lost_s: Lost::connects(case.story, case.hit())
            .or(|| Lost::elsewhere(case.impact().0.saturating_mul(SYN_TIMEOUT_NS))),
        since: Some(match case.broke {
            Some(broke) => Since::at(case.story, broke.time_ns, Began::Broke),
            None => Since::at(case.story, case.first_ns, Began::Seen),
        }),
        title: title(case),
        fix: case.fix(),
        scope: scope(case),
        impact: impact(case),
        confidence: confidence(case, &checks),
        evidence: case.evidence(),
        arithmetic: checks,
        ruled_out: ruled_out(case),
        advice: case.advice(),
        verify: format!(
            "`tcpwhy trace timewait` shows no SYN refused at {}; {} no longer rises with the \
             connects.",
            case.at,
            match case.paws() {
                true => "PAWSTimewait",
                false => "OutRsts",
            }
        ),
    }
}

fn title(case: &Case) -> String {
    let (n, of) = case.impact();
    let refused = format!("{} of {} connects", count(n), count(of));
    let at = case.at;
    match case.broke {
        Some(b) => fitting([
            format!(
                "TIME_WAIT sockets of {at} refuse SYNs: the rate fell from {} to {} connects/s.",
                figure(b.before),
                figure(b.after)
            ),
            format!("TIME_WAIT sockets of {at} refuse SYNs: {refused}."),
        ]),
        None => format!("TIME_WAIT sockets of {at} refuse SYNs: {refused} had to try again."),
    }
}

fn scope(case: &Case) -> Scope {
    let client = case.hit().next();
    let netns = case.server.or(client.map(|c| c.netns)).unwrap_or(0);
    let mut pids: Vec<u32> = case.hit().filter_map(|c| c.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    // The last one: the first may have come to its end with the trouble's beginning.
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

fn impact(case: &Case) -> Impact {
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
        says += &format!(
            ", and took {} longer in the median, {} at p99",
            time(p50),
            time(p99)
        );
    }
    let waiting = case.waiting();
    if waiting > 0 {
        says += &format!("; {} were still waiting at the end", count(waiting));
    }
    if case.clients.is_empty() {
        says += "; the clients are not on this host";
    }
    let counted = match case.clients.is_empty() {
        true => "SYNs",
        false => "connections",
    };
    Impact {
        added_latency_ms: added.map(|(p50, p99)| Latency { p50, p99 }),
        ..Impact::of(affected, of, counted, says + ".")
    }
}

impl Case<'_> {
    /// By how much the refused connects took longer than the median of the others, ms: median
    /// and 99th percentile.
    fn added(&self) -> Option<(f64, f64)> {
        let usual = self.usual_ns();
        let mut took: Vec<u64> = self.hit().filter_map(|c| c.connect_ns()).collect();
        let mut at = |share| {
            let ns = quantile(&mut took, share)?.saturating_sub(usual);
            Some(analysis::words::rounded(ns as f64 / 1e6))
        };
        Some((at(0.5)?, at(0.99)?))
    }
}

fn confidence(case: &Case, checks: &[Check]) -> Confidence {
    let mut c = Confidence::high();
    match (case.server, case.strays.is_empty()) {
        (Some(_), false) => c.because(format!(
            "{} were seen at the TIME_WAIT sockets, and {} that answered them",
            plural(case.refused.len() as u64, "refused SYN"),
            plural(case.strays.len() as u64, "reset")
        )),
        (Some(_), true) => c.because(format!(
            "{} were seen at the TIME_WAIT sockets",
            plural(case.refused.len() as u64, "refused SYN")
        )),
        (None, _) => c.at_most(
            Level::Medium,
            "the server is not on this host: its TIME_WAIT sockets were not seen, but nothing else \
             answers a SYN with an ACK that does not fit",
        ),
    }
    c.weigh_checks(checks);
    let needs: &[SourceName] = match case.server {
        Some(_) => &[SourceName::Drops, SourceName::States],
        None => &[SourceName::ResetsSent, SourceName::States],
    };
    doubts(case.story, &mut c, needs);
    c
}

fn ruled_out(case: &Case) -> Vec<RuledOut> {
    let story = case.story;
    let mut out = Vec::new();
    let mut rule = |cause, because| out.push(RuledOut::new(cause, because));
    if let Some(netns) = case.server.filter(|n| story.counters.covers(*n)) {
        let rise = |name: &str| story.counters.rise(netns, name).by;
        rule(
            Id::ACCEPT_QUEUE_OVERFLOW,
            format!(
                "ListenOverflows rose by {} and ListenDrops by {}",
                count(rise(counter::LISTEN_OVERFLOWS)),
                count(rise(counter::LISTEN_DROPS))
            ),
        );
        rule(
            Id::SYN_QUEUE_OVERFLOW,
            format!(
                "TCPReqQFullDrop rose by {}",
                count(rise(counter::TCP_REQ_Q_FULL_DROP))
            ),
        );
    }
    if let Some(used) = case.ports() {
        rule(
            Id::PORTS_EXHAUSTED,
            format!(
                "{} of {} local ports to {} were in use at most, and {} failed for want of a port",
                count(used.most.used),
                count(used.capacity),
                case.at,
                plural(case.portless(), "connect")
            ),
        );
    }
    if story.health.sees(&SourceName::Drops) {
        rule(
            Id::LOCAL_FIREWALL_DROP,
            format!("netfilter dropped {}", plural(case.firewalled(), "SYN")),
        );
    }
    rule(
        Id::PATH_DROPS_SYN,
        match case.strays.len() as u64 {
            0 => format!(
                "{} came as far as the TIME_WAIT sockets",
                plural(case.refused.len() as u64, "refused SYN")
            ),
            strays => format!(
                "of {} that retransmitted a SYN, {} had been refused; {} came back to clients",
                plural(case.retried(), "connect"),
                count(case.retried_after_refusal()),
                plural(strays, "answer")
            ),
        },
    );
    let tracked = case
        .server
        .and_then(|n| story.structures.get(n, "conntrack").map(|s| s.fullest));
    if let Some(tracked) = tracked {
        let of = tracked
            .limit
            .map_or(String::new(), |l| format!(" of {}", count(l)));
        rule(
            Id::CONNTRACK_FULL,
            format!("{}{of} connections tracked at most", count(tracked.entries)),
        );
    }
    out
}

#[cfg(test)]
mod tests;
