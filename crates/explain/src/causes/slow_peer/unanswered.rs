//! Connections that the peer's kernel has accepted and on which nothing was ever answered, while others to the same
//! address are: one of its workers hangs.

use std::collections::BTreeMap;

use ahash::AHashSet;
use analysis::Conn;
use analysis::account::{self, Role as Account, ServiceKey, State};
use analysis::words::{duration, percent};

use super::CAUSE;
use crate::limits;
use crate::places::path::{End, senders};
use crate::vocabulary::*;

/// The connections made to one address during the recording, by what became of them.
#[derive(Default)]
struct Connections<'a> {
    unanswered: Vec<(End<'a>, u64)>,
    answered: u64,
}

/// How long a connection that was opened here has waited for a first byte, ns; `None` if it got one, or if its request
/// is not known to have arrived. One that goes on sending does not wait.
fn waited_ns(story: &Story, conn: &Conn) -> Option<u64> {
    let last = story.samples(conn)?.last;
    let none = last.bytes_received == 0 && conn.bytes_received == 0;
    // The SYN counts among the acknowledged bytes.
    let asked = last.bytes_acked > 1;
    (none && asked).then(|| account::of_end(story, conn).of(State::Awaiting))
}

/// A finding for each address that `known` does not already name.
pub(super) fn findings(story: &Story, known: &AHashSet<ServiceKey>) -> Vec<Finding> {
    let mut places: BTreeMap<(u32, Endpoint), Connections> = BTreeMap::new();
    for (conn, id) in story.conns.iter().zip(0..) {
        let elsewhere = conn.peer.is_none() && conn.listener.is_none() && conn.connects();
        let key = (conn.netns, conn.remote);
        if !elsewhere
            || conn.established_ns.is_none()
            || known.contains(&(key.0, Account::Client, key.1))
        {
            continue;
        }
        let place = places.entry(key).or_default();
        match waited_ns(story, conn).filter(|ns| *ns >= limits::STALL.ns()) {
            Some(ns) => place
                .unanswered
                .extend(End::of(story, id).map(|end| (end, ns))),
            None => place.answered += u64::from(conn.bytes_received > 0),
        }
    }
    let judged = places.into_iter();
    let judged = judged.filter_map(|((netns, at), asked)| judge(story, netns, at, &asked));
    judged.collect()
}

fn judge(story: &Story, netns: u32, at: Endpoint, asked: &Connections) -> Option<Finding> {
    let n = asked.unanswered.len() as u64;
    let of = n + asked.answered;
    if n < limits::OFTEN.count()
        || asked.answered < limits::OFTEN.count()
        || !limits::FAILED_SHARE.reached(n, of)
    {
        return None;
    }
    let (ends, waits): (Vec<End>, Vec<u64>) = asked.unanswered.iter().copied().unzip();
    let longest = waits.iter().copied().max()?;
    let mut lost = Lost::default();
    for (end, ns) in &asked.unanswered {
        lost.add(end.conn, State::Awaiting, *ns);
    }
    let scope = Scope {
        listener: at.to_string(),
        role: Role::Client,
        ..senders(story, netns, &ends, None)
    };
    let who = application(&scope).to_string();
    let (of_conns, long) = (Quantity::of(of, "connection"), duration(limits::STALL.ns()));
    let title = format!("{at} has answered nothing on {n} of {of_conns} for at least {long}");
    let rows = ends
        .iter()
        .filter_map(|e| Some(story.samples(e.conn)?.last.row));
    let says = format!(
        "{n} of {of_conns} established in that time received no byte for up to {}; the others were answered.",
        duration(longest)
    );
    let share = percent(n as f64 / of as f64);
    Some(
        Case::new(story, CAUSE, scope)
            .placed(Place::ends(&ends))
            .title([format!("{title}; the others were answered."), format!("{title}.")])
            .fix([
                format!("Look at {at}: one of its workers or backends hangs; the network is not involved."),
                format!("Look at {at}: one of its workers or backends hangs."),
            ])
            .affects(Impact::of(n, of, "connections", says), lost)
            .because("the requests were acknowledged, and others to the same address were answered")
            .at_most(
                Level::Medium,
                "the peer is another host: only it knows whether it answers when an event occurs (long polling)",
            )
            .steps([say!(
                "{unanswered} of {connections} were established, the requests of {who} were acknowledged, and no \
                 byte came back within {least_ms}.",
                unanswered = Quantity::count(n).rows(rows.take(SHOWN_ROWS)),
                connections = of_conns,
                least_ms = Quantity::ns(limits::STALL.ns())
            )])
            .advise([Advice::to(format!(
                "Find which of the workers or backends of {at} accepts but does not answer: it gets about {share} of \
                 the requests."
            ))
            .by(shell!("tcpwhy explain --for 10s --port {port}", port = at.port))
            .at(format!("the host of {}", at.addr))
            .risk("None: it only reads.")
            .effect("Connections go to workers or backends that answer.")
            .change(Change::AnswerFaster { at: at.to_string() })])
            .verify(sentence!("New connections to {at} get a first byte as soon as the others do.", at)),
    )
}

/// Connections to other hosts that sent a request and got not one byte for long.
pub(super) fn refuted(story: &Story) -> Option<Answered> {
    let away = story.conns.iter().filter(|c| {
        let elsewhere = c.peer.is_none() && c.listener.is_none() && c.connects();
        elsewhere && c.established_ns.is_some()
    });
    let of = away.clone().count() as u64;
    let silent = away.filter(|c| waited_ns(story, c).is_some_and(|ns| ns >= limits::STALL.ns()));
    let rows = silent.clone().filter_map(Conn::row).take(SHOWN_ROWS);
    let n = silent.count() as u64;
    let step = say!(
        "{unanswered} of {connections} to other hosts had sent a request and received no byte for 3 s",
        unanswered = Quantity::count(n).rows(rows),
        connections = Quantity::of(of, "connection")
    );
    every([Test::events(n, of, &limits::OFTEN, step)])
}
