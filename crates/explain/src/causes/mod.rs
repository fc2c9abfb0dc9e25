//! The causes that tcpwhy knows: this list is the only one.

mod losses;
mod lost_syn;
mod options;
mod path;
pub(crate) mod places;
mod port_search;
mod runqueue;
mod scene;
mod server_resets;
mod unanswered_syns;

mod accept_queue_overflow;
mod bufferbloat;
mod connection_refused;
mod conntrack_full;
mod cpu_contention;
mod injected_reset;
mod local_firewall_drop;
mod lookup_table_growth;
mod middlebox_strips_options;
mod nagle_delayed_ack;
mod path_drops_syn;
mod path_loss;
mod pmtu_black_hole;
mod port_search_cost;
mod ports_exhausted;
mod qdisc_drop;
mod reset_by_application;
mod reset_unread_data;
mod slow_reader;
mod softirq_starvation;
mod syn_cookie_options_lost;
mod syn_queue_overflow;
mod tail_loss;
mod time_wait_collision;

use analysis::Story;
use recording::SourceName;

pub(crate) use crate::answers::Ground;
use crate::correlated_counters::{self, Symptom};
use crate::finding::{Finding, Level, RuledOut};
use crate::id::Id;
use crate::lost;
use places::{Asked, No, Place};
pub(crate) use scene::scenes as scenes_of;

/// A class of reasons for which TCP is slow or fails.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// Stable name in commands, JSON and docs.
    pub id: Id,
    /// Its number in the book.
    pub number: &'static str,
    /// What it is, as a heading.
    pub title: &'static str,
    /// Its page of the book, Markdown without the heading.
    pub page: &'static str,
    /// Where it shows.
    pub ground: Ground,
    /// What must have been recorded: of each of these lists one source at least.
    pub needs: &'static [&'static [SourceName]],
    /// From which severity on it is a finding, in words.
    pub seen_from: &'static str,
    /// Its look-alikes: each must say why it does not hold where this one does.
    pub rivals: &'static [Id],
    /// Causes whose findings at its places are its consequences: told under it, never beside it.
    pub explains: &'static [Id],
    /// Why it does not hold at a place, when it is asked; `None` as long as others answer for it.
    pub(crate) no: Option<No>,
    /// What counters are looked at that moved with it; `None` when its symptom is not an event.
    pub(crate) symptom: Option<Symptom>,
    pub(crate) find: fn(&Story) -> Vec<Finding>,
}

impl Cause {
    /// A cause of one's own, that looks at the host as a whole and needs nothing in particular: set what
    /// is otherwise.
    pub fn new(id: Id, title: &'static str, find: fn(&Story) -> Vec<Finding>) -> Cause {
        Cause {
            id,
            number: "",
            title,
            page: "",
            ground: Ground::Host,
            needs: &[],
            seen_from: "",
            rivals: &[],
            explains: &[],
            no: None,
            symptom: None,
            find,
        }
    }
}

/// All causes, by number.
pub(crate) const ALL: &[Cause] = &[
    time_wait_collision::CAUSE,
    ports_exhausted::CAUSE,
    port_search_cost::CAUSE,
    accept_queue_overflow::CAUSE,
    syn_queue_overflow::CAUSE,
    syn_cookie_options_lost::CAUSE,
    middlebox_strips_options::CAUSE,
    local_firewall_drop::CAUSE,
    path_drops_syn::CAUSE,
    connection_refused::CAUSE,
    reset_unread_data::CAUSE,
    reset_by_application::CAUSE,
    injected_reset::CAUSE,
    qdisc_drop::CAUSE,
    softirq_starvation::CAUSE,
    path_loss::CAUSE,
    tail_loss::CAUSE,
    bufferbloat::CAUSE,
    nagle_delayed_ack::CAUSE,
    slow_reader::CAUSE,
    pmtu_black_hole::CAUSE,
    conntrack_full::CAUSE,
    lookup_table_growth::CAUSE,
    cpu_contention::CAUSE,
];

/// Findings reported per cause; a host with more listeners in trouble has one problem, not many.
pub(crate) const MOST_PER_CAUSE: usize = 100;

/// The findings of some causes, the greatest impact first.
pub(crate) fn find(story: &Story, causes: &[Cause]) -> (Vec<Finding>, Vec<(Id, usize)>) {
    let mut all = Vec::new();
    let mut cut = Vec::new();
    for cause in causes {
        let mut found = (cause.find)(story);
        rank(&mut found);
        if found.len() > MOST_PER_CAUSE {
            cut.push((cause.id, found.len() - MOST_PER_CAUSE));
            found.truncate(MOST_PER_CAUSE);
        }
        for finding in &mut found {
            ask_rivals(story, cause, finding);
        }
        if let Some(symptom) = cause.symptom {
            for finding in &mut found {
                let moved = correlated_counters::step(story, symptom, &finding.scope);
                finding.evidence.extend(moved);
            }
        }
        all.append(&mut found);
    }
    drop_consequences(&mut all);
    lost::settle(&mut all);
    rank(&mut all);
    (all, cut)
}

/// Leaves out what follows from another finding at the same place.
fn drop_consequences(all: &mut Vec<Finding>) {
    let explains = |f: &Finding| {
        let cause = ALL.iter().find(|c| c.id == f.cause);
        cause.map_or(&[][..], |c| c.explains)
    };
    let causes: Vec<(&[Id], Option<Place>)> = all
        .iter()
        .map(|f| (explains(f), f.place.clone()))
        .filter(|(explains, _)| !explains.is_empty())
        .collect();
    all.retain(|f| {
        let Some(place) = &f.place else { return true };
        let mut told = causes.iter().filter(|(ids, _)| ids.contains(&f.cause));
        !told.any(|(_, at)| at.as_ref().is_some_and(|at| at.meets(place)))
    });
}

/// Has each rival say why it does not hold where the finding does. One that does not say so lowers the
/// confidence.
fn ask_rivals(story: &Story, cause: &Cause, finding: &mut Finding) {
    let Some(place) = finding.place.clone() else {
        return;
    };
    let asked = Asked::about(story, &place);
    for id in cause.rivals {
        let rival = ALL.iter().find(|c| c.id == *id);
        match rival.and_then(|c| c.no).and_then(|no| no(&asked)) {
            Some(no) => finding.ruled_out.push(RuledOut::by(*id, no)),
            None if cause.explains.contains(id) => {
                let follows = "what shows of it is a consequence of this".to_string();
                finding.ruled_out.push(RuledOut::new(*id, follows));
            }
            None => {
                let why = format!("{id} could not be ruled out");
                finding.confidence.at_most(Level::Medium, why);
            }
        }
    }
}

/// The findings of one cause: of the places it looks at, those where it has a case.
fn findings<T, C>(
    places: impl IntoIterator<Item = T>,
    case: impl Fn(T) -> Option<C>,
    finding: impl Fn(&C) -> Finding,
) -> Vec<Finding> {
    let cases = places.into_iter().filter_map(case);
    cases.map(|case| finding(&case)).collect()
}

/// The most time lost first; what it was cannot be told of some, which come last.
fn rank(findings: &mut [Finding]) {
    let weight = |f: &Finding| f.lost_s.claimed();
    findings.sort_by(|a, b| {
        let by_weight = weight(b).cmp(&weight(a));
        let by_confidence = || b.confidence.level.cmp(&a.confidence.level);
        let by_impact = || b.impact.affected.cmp(&a.impact.affected);
        let by_name = || (a.number, a.scope.place()).cmp(&(b.number, b.scope.place()));
        by_weight
            .then_with(by_confidence)
            .then_with(by_impact)
            .then_with(by_name)
    });
}

#[cfg(test)]
mod testing {
    //! What the tests of several causes share.

    use crate::{Change, Finding, Number, explain};
    use synth::Fixture;

    /// The findings of a recording; none may have been withheld.
    pub(crate) fn found(f: &Fixture) -> Vec<Finding> {
        let explanation = explain(&f.write().unwrap()).expect("a recording of our own reads");
        let notes = explanation.summary.health.iter();
        let withheld: Vec<_> = notes
            .filter(|n| n.says.contains("internal error"))
            .collect();
        assert!(withheld.is_empty(), "{withheld:?}");
        for finding in &explanation.findings {
            assert!(finding.title.ends_with('.') && finding.fix.ends_with('.'));
            let first = finding.advice.first().expect("there is advice");
            assert!(
                first.change.is_some(),
                "the best advice can be applied: {first:?}"
            );
        }
        explanation.findings
    }

    /// The only finding of a recording, which must be of this cause.
    pub(crate) fn only(f: &Fixture, cause: &str) -> Finding {
        let mut found = found(f);
        let ids: Vec<_> = found.iter().map(|f| f.cause).collect();
        assert_eq!(ids, [cause]);
        found.remove(0)
    }

    /// A number of the evidence.
    pub(crate) fn number<'a>(finding: &'a Finding, name: &str) -> &'a Number {
        let mut numbers = finding.evidence.iter().flat_map(|s| &s.numbers.0);
        let (_, number) = numbers.find(|(n, _)| *n == name).expect(name);
        number
    }

    /// The sysctls that the advice sets, as `name=value` in a namespace.
    pub(crate) fn sysctls(finding: &Finding) -> Vec<(u32, String)> {
        let changes = finding.advice.iter().filter_map(|a| a.change.as_ref());
        let sysctls = changes.filter_map(|c| match c {
            Change::Sysctl { netns, name, value } => Some((*netns, format!("{name}={value}"))),
            _ => None,
        });
        sysctls.collect()
    }

    /// Why a look-alike is ruled out.
    pub(crate) fn ruled_out<'a>(finding: &'a Finding, cause: &str) -> &'a str {
        let out = finding.ruled_out.iter().find(|r| r.cause == cause);
        &out.expect(cause).because
    }
}
