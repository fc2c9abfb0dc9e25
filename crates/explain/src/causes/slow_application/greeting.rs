//! A server that does not greet its clients in time.

use analysis::account::Role as Account;

use super::CAUSE;
use crate::places::listener::ListenerPlace;
use crate::places::unspoken::{self, Unspoken};
use crate::vocabulary::*;

pub(super) fn findings(story: &Story) -> impl Iterator<Item = Finding> {
    let all = unspoken::all(story, Account::Server).into_iter();
    all.filter_map(|told| judge(&told))
}

fn judge(told: &Unspoken) -> Option<Finding> {
    let story = told.story;
    let (netns, _, at) = told.service;
    let index = story.listeners.place(netns, at)?;
    let scope = Scope {
        listener: at.to_string(),
        ..ListenerPlace::at(story, index)?.scope()
    };
    let (who, comm, says) = (process(&scope), application(&scope), told.says());
    let wakeups = scope
        .pid
        .and_then(|pid| shell!("tcpwhy trace wakeups 100ms --pid {pid}", pid));
    Some(
        Case::new(story, CAUSE, scope.clone())
            .rests_on(&[SourceName::States])
            .placed(told.place())
            .since(told.since())
            .title([
                format!("{who} at {at} {says}"),
                format!("{who} {says}"),
                format!("{comm} {says}"),
            ])
            .fix([
                format!("See what {comm} does before its first word (a name lookup, a full pool): clients wait for it."),
                format!("See what {comm} does before its first word."),
            ])
            .affects(told.impact(), told.lost())
            .because("the clients closed after the same wait each time, and nothing had been said")
            .at_most(
                Level::Medium,
                "no byte tells which side should have spoken first",
            )
            .steps([told.step()])
            .advise([Advice::to(format!(
                "See what the threads of {comm} wait for between accept() and their first word."
            ))
            .by(wakeups)
            .at(format!("{comm}, on this host"))
            .risk("None: it only reads.")
            .effect("Clients get their greeting before they give up.")
            .change(Change::AnswerFaster { at: at.to_string() })])
            .verify(sentence!(
                "New connections to {at} carry data, and their clients close none of them unused.",
                at
            )),
    )
}
