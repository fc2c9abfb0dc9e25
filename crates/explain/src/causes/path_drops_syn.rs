//! C09: SYNs get lost on the path, or at a host that is not this one.

use analysis::words::{count, duration, fitting, list, percent, plural};
use analysis::{Conn, Story};
use recording::{SourceName, sysctl};

use super::scene::{doubts, namespace, weigh_checks};
use super::silent::{MIN_LOST, Silent, places};
use super::{Cause, Ground};
use crate::finding::{Advice, Change, Check, Confidence, Finding, Level, RuledOut, Step};
use crate::id::Id;
use crate::modes::{modes, step, syn_schedule};
use crate::moved::Symptom;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PATH_DROPS_SYN,
    number: "C09",
    title: "the path drops SYNs",
    page: PAGE,
    ground: Ground::Connections,
    needs: &[
        &[SourceName::States],
        &[SourceName::Retransmits],
        &[SourceName::Drops],
    ],
    seen_from: "10 unanswered SYNs, 5 % of the connects",
    symptom: Some(Symptom::Connects),
    find,
};

const PAGE: &str = "
**Symptom.** Connects to one place take 1, 2, 3 … s longer (1, 3, 7 s before Linux 6.5), or time
out. Connections that stand are as fast as ever.

**Mechanism.** A firewall, load balancer or router between client and server, or the server's host,
throws SYNs away: all of them (a closed port behind a firewall), those of some clients, or those
above a rate. Packets of connections that it knows pass.

**Distinguish.** This host sent the SYN and did not drop it (`local-firewall-drop` would show an
event); nothing answered, neither a reset (`connection-refused`) nor a TIME_WAIT socket
(`time-wait-collision`). If the server is on this host too, its listener counts no drops
(`accept-queue-overflow`, `syn-queue-overflow`), and its SYN-ACKs were not sent again: what got lost
is the SYN and not the answer. When data is lost as often as SYNs, the path loses packets of every
kind (`path-loss`).
";

/// A path that loses every twentieth packet loses data, too; and one below is no outage.
const MIN_SHARE: f64 = 0.05;
/// Of connections so many times fewer lose data than lose SYNs.
const DATA_FACTOR: u64 = 2;

fn find(story: &Story) -> Vec<Finding> {
    // Without drops nobody knows whether it was this host.
    if !story.health.sees(&SourceName::Drops) || !story.health.sees(&SourceName::Retransmits) {
        return Vec::new();
    }
    let places = places(story).into_iter();
    let silent = places.filter(is_lost_elsewhere);
    silent.map(|s| finding(&s)).collect()
}

fn is_lost_elsewhere(silent: &Silent) -> bool {
    let retried = silent.times.retried;
    let (resent, established) = silent.data_resent();
    let many = retried >= MIN_LOST && retried as f64 >= MIN_SHARE * silent.times.total() as f64;
    // As shares: resent ÷ established against retried ÷ all.
    let data_too = resent * silent.times.total() * DATA_FACTOR > retried * established;
    let refused = silent.story.all(&silent.clients);
    let refused = refused.filter(|(_, c)| c.refused.is_some()).count() as u64;
    // A server that ends while SYNs are under way refuses a few.
    many && !data_too
        && refused * 2 < retried
        && silent.drops_here() == 0
        && silent.listener_drops() == 0
        && silent.strays == 0
        && silent.synacks_repeated * 2 < silent.times.retries
}

fn finding(silent: &Silent) -> Finding {
    let at = silent.at;
    let retried = silent.times.retried;
    let of = silent.times.total();
    let checks: Vec<Check> = [silent.times.retry_check(), accepted_check(silent)]
        .into_iter()
        .flatten()
        .collect();
    let netns = silent.client_netns().unwrap_or(0);
    let where_lost = match silent.listener() {
        Some(_) => "on the path",
        None => "beyond this host",
    };
    Finding {
        cause: CAUSE.id,
        number: CAUSE.number,
        lost_s: silent.times.lost(silent.story, 0),
        since: None,
        title: fitting([
            format!(
                "SYNs to {at} get lost {where_lost}: {} of {} connects tried again.",
                count(retried),
                count(of)
            ),
            format!(
                "SYNs to {at} get lost {where_lost}: {} connects had to try again.",
                count(retried)
            ),
        ]),
        fix: match silent.listener() {
            Some(_) => {
                format!("Find the firewall or load balancer on the path to {at} that drops SYNs.")
            }
            None => fitting([
                format!(
                    "Record on the host of {at}, too; then look for a firewall or load balancer \
                     before it."
                ),
                "Record on the server's host, too; then look for a firewall before it.".into(),
            ]),
        },
        scope: silent.scope(netns),
        impact: silent.times.impact(silent.times.retries, of),
        confidence: confidence(silent, &checks),
        evidence: evidence(silent),
        arithmetic: checks,
        ruled_out: ruled_out(silent),
        advice: advice(silent),
        verify: format!(
            "`tcpwhy trace connects` shows connects to {at} with one SYN each; TCPSynRetrans stays."
        ),
    }
}

fn confidence(silent: &Silent, checks: &[Check]) -> Confidence {
    let mut c = Confidence::high();
    c.because(format!(
        "{} left this host and no drop of them was seen on it",
        plural(silent.times.retries + silent.times.total(), "SYN")
    ));
    match silent.listener() {
        Some(_) => c.because("the server is on this host too, and never saw those that got lost"),
        None => c.at_most(
            Level::Low,
            "the server is not on this host: a full queue or a firewall there looks the same",
        ),
    }
    weigh_checks(&mut c, checks);
    let needs = [
        SourceName::Drops,
        SourceName::States,
        SourceName::Retransmits,
    ];
    doubts(silent.story, &mut c, &needs);
    c
}

fn evidence(silent: &Silent) -> Vec<Step> {
    let mut steps: Vec<Step> = silent.times.step().into_iter().collect();
    steps.extend(clusters_step(silent));
    steps.extend(data_step(silent));
    steps
}

/// When the late ones came through.
fn clusters_step(silent: &Silent) -> Option<Step> {
    let netns = silent.client_netns()?;
    let settings = &silent.story.settings;
    let schedule = syn_schedule(
        settings
            .number(netns, sysctl::TCP_SYN_LINEAR_TIMEOUTS)
            .unwrap_or(0),
        None,
    );
    let late = silent.story.all(&silent.clients).map(|(_, c)| c);
    let late = late.filter(|c| c.syn_retries > 0);
    let mut took: Vec<u64> = late.clone().filter_map(Conn::connect_ns).collect();
    let of = silent.times.total() as f64;
    let told: Vec<String> = modes(&mut took)
        .iter()
        .filter_map(|m| {
            let i = step(&schedule, m.median_ns)?;
            Some(format!(
                "{} at {} (SYN {})",
                count(m.count),
                duration(m.median_ns),
                i + 2
            ))
        })
        .collect();
    if told.is_empty() {
        return None;
    }
    let twice = late.clone().filter(|c| c.syn_retries > 1).count() as f64 / of;
    let once = silent.times.retried as f64 / of;
    let row = late.filter_map(Conn::row).next();
    let step = Step::new(format!(
        "Late connects came through when Linux sends SYNs again: {}; {} lost one SYN or more, {} two \
         or more ({} if each were lost by chance).",
        list(&told),
        percent(once),
        percent(twice),
        percent(once * once)
    ))
    .number("lost_once", once)
    .number("lost_twice", twice)
    .rows(row);
    Some(step)
}

/// Packets of connections that stand are not lost.
fn data_step(silent: &Silent) -> Option<Step> {
    let (resent, established) = silent.data_resent();
    let clients = silent.story.all(&silent.clients).map(|(_, c)| c);
    let row = clients
        .filter(|c| c.established_ns.is_some())
        .filter_map(Conn::row)
        .next();
    let says = match resent {
        0 => "none sent data again: only SYNs get lost".to_string(),
        n => format!(
            "{} sent data again, in share far fewer than lost SYNs",
            count(n)
        ),
    };
    let step = Step::new(format!(
        "Of {} that were established {says}.",
        plural(established, "connection")
    ))
    .number("established", established)
    .number("data_resent", resent)
    .rows(row);
    (established > 0).then_some(step)
}

/// What the server on this host accepted is what came through.
fn accepted_check(silent: &Silent) -> Option<Check> {
    silent.listener()?;
    let clients = silent.story.all(&silent.clients).map(|(_, c)| c);
    let through = clients.filter(|c| c.established_ns.is_some());
    let seen = through.clone().filter(|c| c.peer.is_some()).count() as u64;
    let formula = "connects that succeeded = handshakes that the server saw";
    let through = through.count() as u64;
    Some(super::scene::same_count(
        formula,
        through,
        seen,
        "handshakes",
    ))
}

fn ruled_out(silent: &Silent) -> Vec<RuledOut> {
    let mut out = vec![RuledOut::new(
        Id::LOCAL_FIREWALL_DROP,
        format!(
            "{} dropped on this host",
            plural(silent.drops_here(), "such SYN")
        ),
    )];
    out.extend(silent.queues_ruled_out());
    out.push(silent.time_wait_ruled_out());
    let (resent, established) = silent.data_resent();
    out.push(RuledOut::new(
        Id::PATH_LOSS,
        format!(
            "{} of {} sent data again, {} of {} SYNs",
            count(resent),
            plural(established, "established connection"),
            count(silent.times.retried),
            plural(silent.times.total(), "connect")
        ),
    ));
    out
}

fn advice(silent: &Silent) -> Vec<Advice> {
    let at = silent.at;
    let netns = silent.story.netns(silent.client_netns().unwrap_or(0));
    let trace = format!("traceroute -n -T -p {} {}", at.port, at.addr);
    vec![Advice {
        action: format!(
            "Look for the hop that does not pass SYNs to port {}, and let it pass them (a rule, a \
             limit of new connections per second, SYN-flood protection).",
            at.port
        ),
        command: super::scene::command_in(&netns, &trace),
        r#where: format!(
            "the boxes on the path from {}; the last hop that answers is in front of it",
            namespace(&netns)
        ),
        risk:
            "SYN-flood protection is there for a reason: raise its limit above the real rate, do \
               not remove it."
                .into(),
        expected: format!(
            "The {} of connects that lost a SYN take a round trip instead of 1 s or more.",
            percent(silent.times.retried as f64 / silent.times.total().max(1) as f64)
        ),
        change: Some(Change::PassSyns { at: at.to_string() }),
    }]
}

#[cfg(test)]
mod tests;
