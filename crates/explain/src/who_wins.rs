//! Who wins: which findings are told under another one. Two relations between causes decide it, and nothing else.
//!
//! A cause [`explains`](crate::Cause::explains) another: the other's finding at the same place is its consequence.
//! Findings are [`told_with`](crate::Cause::told_with) each other: one event shows as several.

mod page;

use std::cell::OnceCell;

use analysis::{Conn, ProcessState, Story};

use crate::cause::{Cause, ToldWith};
use crate::causes::ALL;
use crate::correlated_counters::Symptom;
use crate::finding::{Finding, Step};
use crate::id::Id;
use crate::inquiry::Inquiry;
use crate::limits;
use crate::matters;
use crate::moment::Began;
use crate::place::Place;
use crate::rank::{rank, weight};
use crate::scope::culprit;

pub use page::page;

/// How many consequences a finding names. One listener may have hundreds of slow clients.
const SHOWN_CONSEQUENCES: usize = 3;

/// The findings that stand on their own, the most time lost first. Each carries what is told under it.
pub(crate) fn told_once(story: &Story, inquiry: &Inquiry, mut all: Vec<Finding>) -> Vec<Finding> {
    rank(&mut all);
    let all = stops_once(all);
    consequences_under(story, inquiry, all)
}

/// Why one finding follows from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// It is about the same place.
    Here,
    /// Its process answers late because its own connects meet the other's trouble: a proxy's clients wait for its
    /// backend.
    ThroughItsConnects,
}

/// The cause's declaration; `None` for a cause that is not built in.
fn declared(id: Id) -> Option<&'static Cause> {
    ALL.iter().find(|cause| cause.id == id)
}

/// The causes whose findings at the same place are consequences of this one.
pub(crate) fn explains(finding: &Finding) -> &'static [Id] {
    declared(finding.cause).map_or(&[], |cause| cause.explains)
}

/// Whether a rival's symptoms at the place of a cause's finding are told with it.
pub(crate) fn takes_in(cause: &Cause, finding: &Finding, rival: Id) -> bool {
    let of_its_stop = || is_of_a_stop(rival) && stopped(finding).is_some();
    cause.explains.contains(&rival) || of_its_stop()
}

fn is_of_a_stop(id: Id) -> bool {
    declared(id).is_some_and(|cause| cause.told_with == Some(ToldWith::Stop))
}

/// The stopped process that a finding is about.
fn stopped(finding: &Finding) -> Option<u32> {
    let culprit = culprit(&finding.scope).filter(|_| is_of_a_stop(finding.cause))?;
    let is = matches!(
        culprit.state,
        ProcessState::Stopped | ProcessState::WasStopped
    );
    is.then_some(culprit.pid)
}

/// Tells a stop once, whatever waited for the process: requests, or connections in its accept queue. The finding that
/// lost most time stays.
fn stops_once(ranked: Vec<Finding>) -> Vec<Finding> {
    let mut told: Vec<Finding> = Vec::new();
    for finding in ranked {
        let pid = stopped(&finding);
        let first = told.iter_mut().find(|f| pid.is_some() && stopped(f) == pid);
        let Some(first) = first else {
            told.push(finding);
            continue;
        };
        first.evidence.push(under("Of the same stop", &finding));
        for sentence in finding.impact.says.split_inclusive(". ") {
            if !first.impact.says.contains(sentence.trim_end()) {
                first.impact.says = format!("{} {}", first.impact.says, sentence.trim_end());
            }
        }
        // A queue may have overflowed earlier, whereas what hung dates the stop.
        let seen = finding.since.filter(|since| since.began == Began::Seen);
        if first.since.as_ref().is_none_or(|s| s.began != Began::Seen) {
            first.since = seen.or(first.since.take());
        }
        // Both report the same waits: as requests, and as the connections that carried them.
        let outage_ns = finding.lost_s.outage_ns();
        first.lost_s = std::mem::take(&mut first.lost_s).in_outage(Some(outage_ns));
    }
    told
}

/// Moves each finding that follows from another one under it: of several, the one that cost most. A case that is too
/// small to be a finding takes in none that matters, and none takes in what cost several times as much. A cause explains
/// no cause that explains it (a test), so a chain of consequences ends.
fn consequences_under(story: &Story, inquiry: &Inquiry, all: Vec<Finding>) -> Vec<Finding> {
    // What a case cost its service is worked out only for those that meet another one.
    let known: Vec<OnceCell<bool>> = all.iter().map(|_| OnceCell::new()).collect();
    let matters = |i: usize| {
        let matters = || matters::too_little(story, &all[i], inquiry.asks(&all[i])).is_none();
        *known[i].get_or_init(matters)
    };
    let explained: Vec<&[Id]> = all.iter().map(explains).collect();
    let causes: Vec<usize> = (0..all.len())
        .filter(|i| !explained[*i].is_empty())
        .collect();
    let here = |i: usize| {
        let mut causes = causes.iter().copied();
        causes.find(|at| {
            explained[*at].contains(&all[i].cause)
                && meets(&all[*at], &all[i])
                && ((matters(*at) && accounts_for(&all[*at], &all[i])) || !matters(i))
        })
    };
    let under: Vec<Option<(usize, Follows)>> = (0..all.len())
        .map(|i| {
            let through = || Some((backend(story, &all, i)?, Follows::ThroughItsConnects));
            here(i).map(|at| (at, Follows::Here)).or_else(through)
        })
        .collect();
    let root = |i: usize| {
        let mut at = i;
        while let Some((next, _)) = under[at] {
            at = next;
        }
        at
    };
    let mut told: Vec<Option<Finding>> = Vec::new();
    let mut below: Vec<(usize, Follows, Finding)> = Vec::new();
    for (i, finding) in all.into_iter().enumerate() {
        match under[i] {
            Some((_, follows)) => {
                below.push((root(i), follows, finding));
                told.push(None);
            }
            None => told.push(Some(finding)),
        }
    }
    let mut named = vec![0; told.len()];
    for (at, follows, finding) in below {
        if let Some(cause) = &mut told[at] {
            take_in(cause, follows, finding, named[at] < SHOWN_CONSEQUENCES);
            named[at] += 1;
        }
    }
    told.into_iter().flatten().collect()
}

/// Whether a finding is about the place of another one, or about its process.
fn meets(by: &Finding, finding: &Finding) -> bool {
    let (Some(there), Some(place)) = (&by.place, &finding.place) else {
        return false;
    };
    there.meets(place) || matches!(there, Place::Process(pid) if finding.scope.pid == Some(*pid))
}

/// Whether a cause may account for the cost of its consequence. It is not the reason for something that cost several
/// times as much.
fn accounts_for(by: &Finding, consequence: &Finding) -> bool {
    let (cost, of) = (weight(by), weight(consequence));
    cost == 0 || of <= cost.saturating_mul(limits::SEVERAL_TIMES.count())
}

/// For a process that waits for others before it answers: the finding about most of its own connects that fail or are
/// retried, if there is at least one of these per late answer, or per second one.
fn backend(story: &Story, all: &[Finding], i: usize) -> Option<usize> {
    let late = &all[i];
    let pid = late.scope.pid.filter(|_| late.waits_for_others)?;
    let of_connects = |f: &Finding| {
        let cause = declared(f.cause);
        cause.is_some_and(|cause| cause.symptom == Some(Symptom::Connects))
    };
    // A note does not displace a finding.
    let causes =
        (0..all.len()).filter(|at| *at != i && all[*at].note.is_none() && of_connects(&all[*at]));
    let (at, failed) = causes
        .map(|at| (at, failing(story, &all[at], pid)))
        .max_by_key(|(_, failed)| *failed)?;
    limits::MOST
        .reached(failed, late.impact.affected.max(1))
        .then_some(at)
}

/// How many of the connects in a finding belong to a process and failed or were retried.
fn failing(story: &Story, finding: &Finding, pid: u32) -> u64 {
    let own = |conn: &&Conn| {
        let late = conn.failed() || conn.syn_retries > 0 || conn.established_ns.is_none();
        conn.connects() && conn.pid == Some(pid) && late
    };
    let count = match &finding.place {
        Some(Place::At(netns, at)) => {
            let there = story.to(*at).map(|(_, c)| c);
            let there = there.filter(|c| netns.is_none_or(|n| n == c.netns));
            there.filter(own).count()
        }
        Some(Place::Listener(index)) => {
            let listener = story.listeners.all.get(*index as usize);
            let clients = listener.map_or(&[][..], |l| &l.clients);
            story.all(clients).map(|(_, c)| c).filter(own).count()
        }
        Some(place) => story.all(place.ids()).map(|(_, c)| c).filter(own).count(),
        None => 0,
    };
    count as u64
}

/// Tells a consequence under its cause. A cause that measured what it cost keeps its claim; the clients of a proxy
/// have lost what they waited, however little its connects did.
fn take_in(cause: &mut Finding, follows: Follows, consequence: Finding, named: bool) {
    let says = match follows {
        Follows::Here => "A consequence of it",
        Follows::ThroughItsConnects => "Its own clients wait for it",
    };
    if named {
        cause.evidence.push(under(says, &consequence));
    }
    if follows == Follows::ThroughItsConnects {
        let who = consequence.scope.comm.as_deref().unwrap_or("its process");
        cause.impact.says = format!(
            "{} Clients of {who}: {}",
            cause.impact.says, consequence.impact.says
        );
        if weight(&consequence) > weight(cause) {
            cause.lost_s = consequence.lost_s;
        }
    } else if weight(cause) == 0 {
        cause.lost_s = consequence.lost_s;
    }
}

/// The step of a finding that is told under another one.
fn under(says: &str, finding: &Finding) -> Step {
    let rows = finding.evidence.iter().flat_map(|step| step.rows.clone());
    Step::new(format!("{says}: {}", finding.title)).rows(rows)
}

#[cfg(test)]
mod tests;
