//! C40: resets come from a server on another host, always in the same phase of a connection: before it has answered,
//! before it has taken the request, or instead of an answer.

use analysis::words::{count, percent, plural};

use crate::limits;
use crate::places::peer_resets::{self, PeerResets, Phase, is_foreign, places, reset_of};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RESET_BY_PEER,
    number: "C40",
    title: "the peer resets connections",
    page: include_str!("reset_by_peer.md"),
    layer: Layer::Peer,
    ground: Ground::Connections,
    needs: &[&[SourceName::States], &[SourceName::ResetsReceived]],
    seen_from: || {
        "5 reset connections, 2 % of those to a server; 3 of one caller over 2 s, 5 % of its own; one that was asked about"
            .into()
    },
    signature: &[
        "connection reset by peer (ECONNRESET)",
        "upstream prematurely closed connection while reading response header",
    ],
    rivals: &[
        Id::IDLE_TIMEOUT_MISMATCH,
        Id::RESET_UNREAD_DATA,
        Id::RESET_BY_APPLICATION,
        Id::INJECTED_RESET,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find,
};

/// Whether a client waited for an answer that did not come.
fn waited(phase: Phase) -> bool {
    matches!(
        phase,
        Phase::Unanswered | Phase::Asking | Phase::RequestSent
    )
}

fn no(asked: &Asked) -> Option<Step> {
    let resets = asked.resets()?;
    let here = resets.all().filter(|(_, c)| !is_foreign(asked.story, c));
    let here = here.count() as u64;
    if limits::MOST.exceeded(here, resets.count()) {
        return Some(say!(
            "the other end of {here} of {connections} is on this host",
            here = Quantity::count(here),
            connections = Quantity::of(resets.count(), "connection").rows(resets.server_rows())
        ));
    }
    let phases = resets.all().filter_map(|(id, _)| reset_of(asked.story, id));
    let waited = phases.filter(|r| waited(r.phase)).count();
    (waited < limits::OFTEN.as_usize()).then(|| {
        say!(
            "{waited} of {resets} came before an answer, instead of one, or before the whole request was received",
            waited = Quantity::count(waited as u64),
            resets = Quantity::of(resets.count(), "reset").rows(resets.received_rows())
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    peer_resets::rule_out(whole, |reset| is_foreign(whole.story, reset.conn), [])
}

fn find(whole: &Whole) -> Found {
    let story = whole.story;
    let places = places(story, |r| is_foreign(story, r.conn) && waited(r.phase));
    // One event is enough: those who waited for an answer lost it.
    let told = |p: &&PeerResets| p.are_many() || p.met_one_again() || p.are_asked(&whole.inquiry);
    places.iter().filter(told).map(judge).collect()
}

/// When most of them came.
fn when(resets: &PeerResets) -> &'static str {
    let says = [
        (Phase::Unanswered, "before it answers"),
        (Phase::Asking, "before it has the request"),
        (Phase::RequestSent, "instead of an answer"),
    ];
    // On a tie, the first.
    let most = says
        .iter()
        .rev()
        .max_by_key(|(phase, _)| resets.of_phase(*phase));
    most.map_or("", |(_, says)| says)
}

fn judge(resets: &PeerResets) -> Finding {
    let (story, at) = (resets.story, resets.at);
    let (n, of) = (count(resets.count()), plural(resets.of, "connection"));
    let when = when(resets);
    let says = format!(
        "{n} of {of} ({}) got a reset {when}.",
        percent(resets.share())
    );
    let once = resets.at_one_moment() && resets.count() > 1;
    let fix = if once {
        format!(
            "See what ended or changed at {at} then: a restart, a crash, a failover, a firewall."
        )
    } else if in_bursts(resets) {
        format!(
            "See which workers or listeners of {at} ended then: that resets what waits for accept()."
        )
    } else {
        format!(
            "Record on the host of {at}, too: its program, or a device in front of it, resets them."
        )
    };
    let what = if resets.count() == 1 {
        "a connection"
    } else {
        "connections"
    };
    let at_once = if once { " all at once," } else { "" };
    Case::new(story, CAUSE, resets.scope())
        .placed(resets.place())
        .title([
            format!("{at} resets {what}{at_once} {when}: {n} of {of}."),
            format!("{at} resets {what} {when}."),
        ])
        .fix([fix, "See why the server, or a middlebox, resets.".into()])
        .affects(
            Impact::of(resets.count(), resets.of, "connections", says),
            Lost::outages(story, resets.conns()),
        )
        .because(if once {
            "the resets came from another host, all within a moment"
        } else if resets.count() == 1 {
            "the reset came from another host"
        } else {
            "the resets came from another host, always at the same phase of a connection"
        })
        .at_most(
            Level::Medium,
            "the server is not on this host: its program, its kernel or a middlebox sent them",
        )
        .steps(steps(resets))
        .steps(bursts_step(resets))
        .checks(resets.counted())
        .advise([advice(resets)])
        .verify(sentence!(
            "`tcpwhy trace resets --addr {addr}` shows none received.",
            addr = at.addr
        ))
}

fn steps(place: &PeerResets) -> [Step; 2] {
    let at = place.at;
    let came = say!(
        "{resets} of {connections} came from {at}, which is not on this host: {unanswered} before it had sent a \
         byte, {asking} before it had acknowledged the whole request, {asked} instead of an answer on a connection \
         with earlier answers.",
        resets = Quantity::count(place.count()).rows(place.rows()),
        connections = Quantity::of(place.of, "connection"),
        unanswered = Quantity::count(place.of_phase(Phase::Unanswered)),
        asking = Quantity::count(place.of_phase(Phase::Asking)),
        asked = Quantity::count(place.of_phase(Phase::RequestSent))
    );
    let sent = place.conns().filter(|c| c.bytes_acked > 1);
    let rows: Vec<RowRef> = sent
        .clone()
        .filter_map(|c| Some(c.close_row?.into()))
        .collect();
    let taken = say!(
        "On {taken} of these connections it had acknowledged the request: it received the request, and did not \
         answer it.",
        taken = Quantity::count(sent.count() as u64).rows(rows.into_iter().take(SHOWN_ROWS))
    );
    [came, taken]
}

/// Resets of what waits in an accept queue come together, before an answer.
fn in_bursts(place: &PeerResets) -> bool {
    let unanswered = place.of_phase(Phase::Unanswered);
    limits::NEARLY_ALL.reached(unanswered, place.count())
        && place.bursts() > 1
        && place.count() >= limits::FAILED_AGAIN.count() * place.bursts()
}

fn bursts_step(place: &PeerResets) -> Option<Step> {
    in_bursts(place).then(|| {
        say!(
            "They came in {bursts}, {each} at once on average: a listener that ends resets what waits in its \
             accept queue so (a worker that is recycled, a reload).",
            bursts = Quantity::of(place.bursts(), "burst").rows(place.rows()),
            each = Quantity::count(place.count() / place.bursts().max(1))
        )
    })
}

fn advice(resets: &PeerResets) -> Advice {
    let at = resets.at;
    if in_bursts(resets) {
        return Advice::to(format!(
            "See which processes of {at} ended at those moments (workers that are recycled, a reload), and have \
             them accept what waits first, hand the listening socket on, or set net.ipv4.tcp_migrate_req=1 there."
        ))
        .by(shell!("tcpwhy trace resets --addr {addr}", addr = at.addr))
        .at("the server; the command shows the moments")
        .risk("None.")
        .effect(format!(
            "The {} of connections that are now reset get an answer.",
            percent(resets.share())
        ))
        .change(Change::HandListenerOn {
            listener: at.to_string(),
        });
    }
    Advice::to(format!(
        "Check the logs of {at} for why it aborts: overload, a connection limit, a certificate or protocol that it \
         refuses, a backend that is down."
    ))
    .by(shell!("tcpwhy trace resets --addr {addr}", addr = at.addr))
    .at("the server, or the load balancer in front of it")
    .risk("None.")
    .effect(format!(
        "The {} of connections that are now reset get an answer.",
        percent(resets.share())
    ))
    .change(Change::PassPackets {
        netns: None,
        at: at.to_string(),
    })
}

#[cfg(test)]
mod tests;
