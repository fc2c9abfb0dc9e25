//! A server on another host that does not greet in time.

use analysis::account::Role as Account;

use super::CAUSE;
use crate::places::unspoken::{self, Unspoken};
use crate::vocabulary::*;

pub(super) fn findings(story: &Story) -> impl Iterator<Item = Finding> {
    let all = unspoken::all(story, Account::Client).into_iter();
    all.filter(|told| !told.is_both()).map(|told| judge(&told))
}

fn judge(told: &Unspoken) -> Finding {
    let story = told.story;
    let (netns, _, at) = told.service;
    let owner = told.conns().find_map(|c| story.owner(c));
    let scope = Scope {
        netns: story.netns(netns),
        listener: at.to_string(),
        role: Role::Client,
        pid: owner.as_ref().map(|(pid, _)| *pid),
        pids: owner.iter().map(|(pid, _)| *pid).collect(),
        comm: owner.map(|(_, comm)| comm),
        ..Scope::default()
    };
    let (who, says) = (application(&scope), told.says());
    Case::new(story, CAUSE, scope.clone())
        .rests_on(&[SourceName::States])
        .placed(told.place())
        .since(told.since())
        .title([format!("{at} {says}")])
        .fix([
            format!("Look at {at}: it accepts, and sends no first word before {who} gives up."),
            format!("Look at {at}: it accepts, and sends no first word."),
        ])
        .affects(told.impact(), told.lost())
        .because("the connections were closed here after the same wait each time, and nothing had been said")
        .at_most(
            Level::Medium,
            "no byte tells which side should have spoken first",
        )
        .steps([told.step()])
        .advise([Advice::to(format!(
            "Find out what {at} does before its first word (a name lookup, a full pool): record there."
        ))
        .by(shell!("tcpwhy explain --for 10s --port {port}", port = at.port))
        .at(format!("the host of {}", at.addr))
        .risk("None: it only reads.")
        .effect("Its greeting comes before its clients give up.")
        .change(Change::AnswerFaster { at: at.to_string() })])
        .verify(sentence!(
            "New connections to {at} carry data, and none is closed unused.",
            at
        ))
}
