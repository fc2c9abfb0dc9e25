//! Asks the causes: what holds, what follows from what, which rivals are ruled out, and what matters most.

use analysis::Story;

use crate::asked::Asked;
use crate::cause::{Cause, MOST_PER_CAUSE};
use crate::causes::ALL;
use crate::correlated_counters;
use crate::finding::{Finding, Level, RuledOut};
use crate::id::Id;
use crate::lost;
use crate::place::Place;

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
    lost::settle(all.iter_mut().map(|f| &mut f.lost_s));
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
