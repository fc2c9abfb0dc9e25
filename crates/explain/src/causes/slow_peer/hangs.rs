//! A server on another host that owes everybody here an answer, as the clients' sockets tell it.

use analysis::words::duration;

use super::CAUSE;
use crate::places::hanging::Hanging;
use crate::places::path::{End, senders};
use crate::vocabulary::*;

/// `None` where the server is on this host.
pub(super) fn judge(hangs: &Hanging) -> Option<Finding> {
    let story = hangs.story;
    let (netns, _, at) = hangs.service;
    let ids = hangs.ids();
    let ends: Vec<End> = ids.iter().filter_map(|id| End::of(story, *id)).collect();
    // Where the server is on this host, it is asked itself.
    let away = |end: &End| end.conn.peer.is_none() && end.conn.listener.is_none();
    if ends.is_empty() || !ends.iter().all(away) {
        return None;
    }
    let scope = Scope {
        listener: at.to_string(),
        role: Role::Client,
        ..senders(story, netns, &ends, None)
    };
    let waits = Quantity::of(hangs.count(), "request");
    let rest = format!(
        "has answered nothing for {}: {waits} of",
        duration(hangs.longest_ns())
    );
    let (who, comm) = (process(&scope), application(&scope));
    Some(
        Case::new(story, CAUSE, scope.clone())
            .rests_on(&[SourceName::Sockets])
            .placed(hangs.place(None, scope.pids.clone()))
            .noted(hangs.note())
            .if_asked(ids, hangs.is_alone())
            .since(hangs.since())
            .title([
                format!("{at} {rest} {who} wait."),
                format!("{at} {rest} {comm} wait."),
            ])
            .fix([
                format!("Look at {at}: its kernel has acknowledged every request, and the network is not involved."),
                format!("Look at {at}: its kernel has acknowledged every request."),
            ])
            .affects(
                Impact::of(
                    hangs.count(),
                    hangs.count(),
                    "requests",
                    format!("All {waits} wait, the first for {}.", duration(hangs.longest_ns())),
                ),
                hangs.lost(),
            )
            .because("the requests were acknowledged, as the sockets show")
            .at_most(
                Level::Medium,
                "the peer is another host: only it knows whether it answers when an event occurs (long polling)",
            )
            .steps([hangs.step()])
            .advise([Advice::to(format!(
                "Find out what {at} waits for: record there."
            ))
            .by(shell!("tcpwhy explain --for 10s --port {port}", port = at.port))
            .at(format!("the host of {}", at.addr))
            .risk("None: it only reads.")
            .effect("These requests wait for the peer, not for TCP.")
            .change(Change::AnswerFaster { at: at.to_string() })])
            .verify(sentence!(
                "`tcpwhy stat requests` shows that → {at} answers again.",
                at
            )),
    )
}
