//! A server that owes everybody an answer, as its sockets tell it.

use analysis::words::duration;

use super::CAUSE;
use crate::places::hanging::Hanging;
use crate::places::listener::ListenerPlace;
use crate::vocabulary::*;

/// `None` where its listener is not known.
pub(super) fn judge(hangs: &Hanging) -> Option<Finding> {
    let story = hangs.story;
    let (netns, _, at) = hangs.service;
    let index = story.listeners.place(netns, at)?;
    let here = ListenerPlace::at(story, index)?;
    let ids = hangs.ids();
    let owners = ids.iter().filter_map(|id| story.owner(story.conn(*id)?));
    let mut pids: Vec<u32> = owners.map(|(pid, _)| pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let scope = Scope {
        listener: at.to_string(),
        ..here.scope()
    };
    let (who, comm) = (process(&scope), application(&scope));
    let waits = Quantity::of(hangs.count(), "request");
    let rest = format!(
        "has answered nothing for {}: {waits} wait.",
        duration(hangs.longest_ns())
    );
    let look = match pids.first() {
        Some(pid) => shell!("tcpwhy trace wakeups 100ms --pid {pid}", pid = *pid),
        None => None,
    };
    Some(
        Case::new(story, CAUSE, scope.clone())
            .rests_on(&[SourceName::Sockets])
            .placed(hangs.place(Some(index), pids))
            .noted(hangs.note())
            .if_asked(ids, hangs.is_alone())
            .since(hangs.since())
            .title([
                format!("{who} at {at} {rest}"),
                format!("{who} {rest}"),
                format!("{comm} {rest}"),
            ])
            .fix([
                format!(
                    "See what {comm} waits for (a lock, a long query): it has read every request."
                ),
                format!("See what {comm} waits for: it has read every request."),
            ])
            .affects(
                Impact::of(
                    hangs.count(),
                    hangs.count(),
                    "requests",
                    format!(
                        "All {waits} wait, the first for {}.",
                        duration(hangs.longest_ns())
                    ),
                ),
                hangs.lost(),
            )
            .because("the requests arrived and were read, as the sockets show")
            .at_most(
                Level::Medium,
                "what its threads do for these requests is unknown: it may wait for an event",
            )
            .steps([hangs.step()])
            .advise([Advice::to(format!(
                "See what the threads of {comm} wait for, and what wakes them."
            ))
            .by(look)
            .at(format!("{comm}, on this host"))
            .risk("None: it only reads.")
            .effect("These requests wait for the application, not for TCP.")
            .change(Change::AnswerFaster { at: at.to_string() })])
            .verify(sentence!(
                "`tcpwhy stat requests` shows that {at} answers again.",
                at
            )),
    )
}
