//! How severe a fault has to be to be told: a scenario is planted up and down its ladder, and what is just told and
//! just not is kept, of each side.

use super::look::{Looked, look, right};
use super::subject::{View, views};
use super::{CorpusShelf, Kept, RecordedTruth};
use crate::judge::cause;
use crate::scenario::{Dose, LADDER, Scenario, list};
use crate::{Error, Programs, Stop};

/// Of each scenario's counts and times.
const SEED: u64 = 1;
/// Where on the ladder the search begins: three times what a user notices is told of nearly all.
const FIRST: f64 = 3.0;
/// Of each cause one recording is kept whatever its size. More bytes than this of another are not: the tree holds
/// 30 MB of recordings.
const MOST: u64 = 195_000;
/// The same of a healthy one, and of what has no ladder.
const MOST_AS_WRITTEN: u64 = 270_000;
/// By how much a step goes up or down: the square root of ten, as the rungs of the exam's page.
const STEP: f64 = 3.162;

/// Records a scenario: as severe as is just told and just not where it has a ladder, else as its file has it.
pub(super) fn record(
    name: &str,
    programs: &Programs,
    shelf: &mut CorpusShelf,
    stop: &Stop,
) -> Result<Kept, Error> {
    let written = Scenario::load(name, SEED)?;
    if written.severity.is_none() {
        let mut kept = Kept::default();
        let rung = Rung::look(name, Dose::AsWritten, programs, stop)?;
        kept.looks = 1;
        for (at, view) in rung.views.iter().enumerate() {
            rung.keep(at, view, "", false, shelf, &mut kept)?;
        }
        return Ok(kept);
    }
    let mut rungs = climb(name, programs, stop)?;
    rungs.sort_by(|a, b| a.times.total_cmp(&b.times));
    let mut kept = Kept {
        looks: rungs.len(),
        ..Kept::default()
    };
    // Of several scenarios of a cause one is kept from every side, and as it is just not told.
    let is_first = first_of(&written.truth.cause)?.as_deref() == Some(name);
    let views = views(&written);
    let views = &views[..if is_first { views.len() } else { 1 }];
    for (at, view) in views.iter().enumerate() {
        // From where nothing can be told, silence is right at whatever severity: where the others tell.
        let told = if view.right.is_empty() {
            rungs.iter().position(|r| r.is_told(0))
        } else {
            rungs.iter().position(|r| r.is_told(at))
        };
        if let Some(rung) = told {
            rungs[rung].keep(at, view, "above", is_first, shelf, &mut kept)?;
        }
        let below = &rungs[..told.unwrap_or(rungs.len())];
        let wanted = view.side.is_empty() && (is_first || told.is_none());
        if let Some(rung) = below.last().filter(|_| wanted) {
            rung.keep(at, view, "below", is_first, shelf, &mut kept)?;
        }
    }
    // The same without its fault, where something of it is a note: the healthy ones nearest to an alarm.
    let without = Rung::look(name, Dose::Without(FIRST), programs, stop)?;
    kept.looks += 1;
    if !without.looked.seen[0].diagnosis.notes.is_empty() {
        let healthy = View {
            right: Vec::new(),
            ..without.views[0].clone()
        };
        without.keep(0, &healthy, "without", is_first, shelf, &mut kept)?;
    }
    Ok(kept)
}

/// The first scenario of a cause that has a ladder, and no program of the distribution.
fn first_of(cause: &str) -> Result<Option<String>, Error> {
    for summary in list()? {
        let scenario = Scenario::load(summary.name, SEED)?;
        let plain = scenario.severity.is_some() && scenario.programs.is_empty();
        if plain && scenario.truth.cause == cause {
            return Ok(Some(scenario.name));
        }
    }
    Ok(None)
}

/// Looks at rungs until one is told and one is not, as far as the ladder goes, and at one between them.
fn climb(name: &str, programs: &Programs, stop: &Stop) -> Result<Vec<Rung>, Error> {
    let look = |times| Rung::look(name, Dose::Times(times), programs, stop);
    let [least, most] = LADDER;
    let mut rungs = vec![look(FIRST)?];
    let up = !rungs[0].is_told(0);
    while let Some(last) = rungs.last() {
        let next = if up {
            last.times * STEP
        } else {
            last.times / STEP
        };
        if last.is_told(0) == up || next < least * 0.99 || next > most * 1.01 {
            break;
        }
        rungs.push(look(next)?);
    }
    if let [.., before, last] = &rungs[..]
        && before.is_told(0) != last.is_told(0)
    {
        let between = (before.times * last.times).sqrt();
        rungs.push(look(between)?);
    }
    Ok(rungs)
}

/// A scenario at one severity.
struct Rung {
    times: f64,
    scenario: Scenario,
    views: Vec<View>,
    looked: Looked,
}

impl Rung {
    fn look(name: &str, dose: Dose, programs: &Programs, stop: &Stop) -> Result<Rung, Error> {
        let scenario = Scenario::load_dosed(name, SEED, dose)?;
        let views = views(&scenario);
        let looked = look(&scenario, SEED, &views, programs, stop)?;
        Ok(Rung {
            times: match dose {
                Dose::Times(times) => times,
                Dose::AsWritten | Dose::Without(_) => 0.0,
            },
            scenario,
            views,
            looked,
        })
    }

    /// Whether what is right of a view is found in it.
    fn is_told(&self, view: usize) -> bool {
        let right = &self.views[view].right;
        let mut findings = self.looked.seen[view].diagnosis.findings.iter();
        findings.any(|f| right.iter().any(|id| id == cause(f)))
    }

    fn keep(
        &self,
        at: usize,
        view: &View,
        which: &str,
        is_first: bool,
        shelf: &mut CorpusShelf,
        kept: &mut Kept,
    ) -> Result<(), Error> {
        let name = &self.scenario.name;
        let parts = [name.as_str(), view.side, which].into_iter();
        let recording: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let severity = (self.times > 0.0).then(|| format!(" ×{:.2}", self.times));
        let side = (!view.side.is_empty()).then(|| format!(", {}s' side", view.side));
        let without = (which == "without").then_some(", without its fault");
        let truth = RecordedTruth {
            recording: recording.join("."),
            kind: match which {
                _ if self.scenario.truth.is_healthy() => "healthy".into(),
                "without" => "healthy".into(),
                _ => "planted".into(),
            },
            what: [
                Some(name.as_str()),
                severity.as_deref(),
                side.as_deref(),
                without,
            ]
            .into_iter()
            .flatten()
            .collect(),
            right: right(&self.scenario, view, &self.looked),
            may: view.may.clone(),
        };
        let most = match which {
            "above" if view.side.is_empty() && is_first => u64::MAX,
            "" | "without" => MOST_AS_WRITTEN,
            _ => MOST,
        };
        if shelf.keep(&self.looked.seen[at].recording, &truth, most)? {
            kept.truths.push(truth);
        }
        Ok(())
    }
}
