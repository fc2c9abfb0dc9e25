//! C51: the other end is slow to answer some requests, seen from here.

mod greeting;
mod hangs;
mod unanswered;

use analysis::account::Role as Account;
use analysis::words::{duration, percent, rounded};

use crate::limits;
use crate::places::hanging;
use crate::places::path::sample_rows;
use crate::places::slow_exchanges::{self, Rule, SlowService};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::SLOW_PEER,
    number: "C51",
    title: "the peer is slow to answer",
    page: include_str!("slow_peer.md"),
    layer: Layer::Peer,
    ground: Ground::Requests,
    needs: &[&[SourceName::Requests]],
    seen_from: || {
        "1 % of the requests, or 8 % of their time, ten times as slow as the median and slower by 200 ms (1 s where \
                segments were lost), answered or given up; 3 s without any answer while more requests are sent; or 5 \
                requests given up after 200 ms and none answered; or 3 given up by one caller over 2 s, 5 % of the \
                requests; or 5 asked while nobody was answered; or 3 connections closed unused after the same wait"
            .into()
    },
    signature: &[
        "the database or upstream is slow, seen from its client",
        "waiting (TTFB) is long",
        "upstream timed out (110: Connection timed out) while reading response header",
        "504 Gateway Timeout",
        "context deadline exceeded, read timed out, SocketTimeoutException",
    ],
    rivals: &[
        Id::SLOW_APPLICATION,
        Id::PATH_LOSS,
        Id::TAIL_LOSS,
        Id::BUFFERBLOAT,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| find(whole.story).into(),
};

const WAITING: &str = "these requests used connections of their own, which carry nothing else: used for waiting (a \
                       pop from a queue, long polling), or to a backend that is always slow";

const TOGETHER: &str = "the few requests that were under way may have waited for an event, as those of a pool whose \
                        queue is empty: only a recording there shows whether it was stopped";

/// For ends that lost something; and if the answering end is on this host, that end is asked itself.
fn no(asked: &Asked) -> Option<Step> {
    if let (Place::Ends(_), Some(losses)) = (asked.place, asked.losses()) {
        let rows = sample_rows(&losses.ends);
        let lost = Quantity::of(losses.lost, "segment").rows(rows);
        return (losses.lost > 0)
            .then(|| say!("a slow peer loses nothing: {lost} were lost", lost));
    }
    let all = slow_exchanges::at(asked.story, asked.place)?;
    (all.role() == Account::Server).then(|| {
        say!(
            "the server is on this host: {think_ms} of service time were measured at its own socket",
            think_ms = Quantity::ns(all.all.think_ns).rows(all.busiest)
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let all = story
        .exchanges()
        .iter()
        .filter(|e| e.role() == Account::Client);
    // If the other end is here, it is the one to report.
    let away = all.filter(|e| !slow_exchanges::is_answered_here(story, e));
    let services = away.flat_map(slow_exchanges::refuted);
    let nothing = "no request went to another host: slow-application covers servers on this host";
    Verdict::nearest(services.chain([unanswered::refuted(story)]), nothing)
}

fn find(story: &Story) -> Vec<Finding> {
    let services = slow_exchanges::services(story, Account::Client);
    let hanging = hanging::all(story, Account::Client, &services);
    let told = services.iter().filter(|s| s.rule != Rule::OnlyIfAsked);
    let told = told.map(|s| s.exchanges.service).collect();
    let slow = services.iter().filter(|s| !hanging::tells(&hanging, s));
    let mut found: Vec<Finding> = slow.map(judge).collect();
    found.extend(unanswered::findings(story, &told));
    found.extend(hanging.iter().filter_map(hangs::judge));
    found.extend(greeting::findings(story));
    found
}

fn judge(slow: &SlowService) -> Finding {
    let scope = scope(slow);
    let at = slow.exchanges.service.2;
    let waits = matches!(slow.rule, Rule::Excess(_)) && slow.went_over_waiting_ones();
    Case::new(slow.story, CAUSE, scope.clone())
        .placed(slow.place())
        .noted(if waits {
            Some(WAITING)
        } else {
            slow.may_wait.then_some(TOGETHER)
        })
        .if_asked(slow.if_asked.clone(), slow.rule == Rule::OnlyIfAsked)
        .since(slow.since())
        .title(title(slow, &scope))
        .fix(if slow.may_be_lost() { [
            format!("Look at {at}: it was slow, or its answers were lost on the way back."),
            format!("Look at {at}: it was slow, or its answers were lost."),
        ] } else { [
            format!("Look at {at}: it had the request, and the network is not part of the wait."),
            format!("Look at {at}: the network is not part of the wait."),
        ] })
        .affects(impact(slow), slow.lost())
        .because("most had no retransmission, and the round trip is a small part of the wait")
        .at_most(
            Level::Medium,
            "the peer is another host: only a recording there shows whether it delays answers on purpose (long \
             polling), or retransmitted them",
        )
        .at_most_if(
            Level::Low,
            slow.may_be_lost(),
            "an answer lost on the way back is retransmitted after 200 ms or 600 ms: only the other host can \
             distinguish that from a slow answer",
        )
        .steps([slow.requests(), slowest(slow), innocent(slow)])
        .checks(round_trip(slow))
        .advise([advice(slow, &scope)])
        .verify(sentence!("`tcpwhy stat requests` shows the p99 of → {at} near its p50.", at))
}

/// The process that asks, and its destination.
fn scope(slow: &SlowService) -> Scope {
    let (netns, _, at) = slow.exchanges.service;
    let asks = slow
        .slow
        .iter()
        .find_map(|t| Some((t.x.pid?, t.x.comm.as_ref()?)));
    // Whoever asked may have ended before anybody looked; the connection knows who opened it.
    let opened = || {
        let mut ends = slow.slow.iter().filter_map(|t| slow.story.conn(t.end?));
        ends.find_map(|c| Some((c.pid?, c.comm.as_ref()?)))
    };
    let asks = asks.or_else(opened);
    let seen = asks.and_then(|(pid, _)| slow.story.processes.get(pid));
    Scope {
        netns: slow.story.netns(netns),
        listener: at.to_string(),
        role: Role::Client,
        pid: asks.map(|(pid, _)| pid),
        pids: asks.iter().map(|(pid, _)| *pid).collect(),
        comm: asks.map(|(_, thread)| seen.map_or(thread, |s| &s.comm).to_string()),
        ..Scope::default()
    }
}

fn title(slow: &SlowService, scope: &Scope) -> [String; 2] {
    let (at, who) = (slow.exchanges.service.2, process(scope));
    let each = duration(slow.each_ns());
    match slow.rule {
        Rule::Excess(_) if slow.silence().is_some() => {
            let silent = slow.silence().map_or(0, |s| s.ns());
            let (silent, count) = (duration(silent), slow.count);
            let rest = format!("answered nothing for at least {silent}: {count} requests of");
            [
                format!("{at} {rest} {who} took {each}."),
                format!("{at} {rest} {} took {each}.", application(scope)),
            ]
        }
        Rule::Excess(_) => {
            let share = percent(slow.count as f64 / slow.exchanges.all.exchanges.max(1) as f64);
            let usual = duration(slow.usual_ns.unwrap_or(0));
            let rest = format!("{each} to answer {share} of the requests of");
            [
                format!("{at} takes {rest} {who} (median {usual})."),
                format!("{at} takes {rest} {}.", application(scope)),
            ]
        }
        Rule::Silent => {
            let waiting = Quantity::of(slow.count, "request");
            let rest = format!("has answered nothing for {each}: {waiting} of");
            [
                format!("{at} {rest} {who} wait."),
                format!("{at} {rest} {} wait.", application(scope)),
            ]
        }
        Rule::GivenUp => {
            let share = percent(slow.count as f64 / slow.asked() as f64);
            [
                format!(
                    "{who} gives up on {share} of its requests to {at}, unanswered after {each}."
                ),
                format!(
                    "{} gives up on {share} of its requests to {at}.",
                    application(scope)
                ),
            ]
        }
        _ => {
            let round_trip = slow.round_trip_ns.map(duration).unwrap_or_default();
            let rest = if slow.is_answered() {
                format!("took {each} to answer {who}")
            } else {
                format!("has not answered {who} for {each}")
            };
            [
                format!("{at} {rest}; a round trip takes {round_trip}."),
                format!("{at} {rest}."),
            ]
        }
    }
}

fn impact(slow: &SlowService) -> Impact {
    Impact::of(slow.count, slow.asked(), "requests", slow.cost())
}

fn slowest(slow: &SlowService) -> Step {
    let first = slow.slow.first();
    let part = |ns: Option<u64>| Quantity::ns(ns.unwrap_or(0));
    let verb = slow.verb();
    let step = say!(
        "{took_ms}: {await_ms} until the answer began, {round_trip_ms} of it the round trip.",
        took_ms = part(first.map(|t| t.took_ns())).rows(slow.rows().take(SHOWN_ROWS)),
        await_ms = part(first.map(|t| t.x.await_ns)),
        round_trip_ms = part(slow.round_trip_ns)
    );
    Step {
        says: format!("The slowest {verb} {}", step.says),
        ..step
    }
}

/// That TCP was not involved, as far as it shows here.
fn innocent(slow: &SlowService) -> Step {
    let sum = |of: fn(&recording::tables::Exchange) -> u64| {
        let each = slow.slow.iter().map(|t| of(&t.x));
        each.fold(0, u64::saturating_add)
    };
    say!(
        "In the slow requests {retransmitted} were retransmitted from here; windows and buffers delayed them for \
         {send_ms}.",
        retransmitted = Quantity::of(sum(|x| x.retransmits.into()), "segment"),
        send_ms = Quantity::ns(sum(|x| x.send_ns))
    )
}

/// The round trip, from the handshake or bare acknowledgements, against the wait.
fn round_trip(slow: &SlowService) -> Option<Check> {
    let awaited = slow.slow.iter().map(|t| t.x.await_ns).min()?;
    let most = awaited as f64 * limits::SMALL_PART.share();
    let ms = |ns: f64| rounded(ns / 1e6);
    let round_trip = slow.round_trip_ns? as f64;
    Some(Check {
        formula:
            "round trip ÷ shortest wait for an answer among the slow requests: less than a tenth"
                .into(),
        expected: ms(most),
        measured: ms(round_trip),
        unit: "ms".into(),
        agrees: round_trip <= most,
        tolerance: "at most".into(),
    })
}

fn advice(slow: &SlowService, scope: &Scope) -> Advice {
    let at = slow.exchanges.service.2;
    let (own, all) = slow.own_and_all_ns();
    Advice::to(format!(
        "Find out why {at} is slow to answer {}: record there.",
        application(scope)
    ))
    .by(shell!(
        "tcpwhy explain --for 10s --port {port}",
        port = at.port
    ))
    .at(format!("the host of {}", at.addr))
    .risk("None: it only reads.")
    .effect(format!(
        "{} of the time of these requests was spent there.",
        percent(own as f64 / all.max(1) as f64)
    ))
    .change(Change::AnswerFaster { at: at.to_string() })
}

#[cfg(test)]
mod tests;
