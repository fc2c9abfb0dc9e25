//! One planting, recorded from several sides at once.

use std::path::PathBuf;
use std::time::Duration;

use super::subject::View;
use super::{CorpusShelf, Kept, RecordedTruth};
use crate::exam::{Situation, situation_scenario};
use crate::look::Bench;
use crate::plant::Plant;
use crate::recorder::{Diagnosis, Recorded, Recorder, Shelf, diagnose};
use crate::scenario::Scenario;
use crate::shield::Shield;
use crate::{Error, Programs, Stop};

/// How long a recorder stays that nobody ends.
const AT_MOST: Duration = Duration::from_secs(120);

/// A situation is several scenarios at once. More bytes than this are not kept: the tree holds 30 MB of recordings.
const MOST_OF_EXAM: u64 = 300_000;

/// What a view came to.
pub(super) struct Seen {
    /// What was recorded: in a directory that goes with [`Looked`].
    pub(super) recording: PathBuf,
    /// What tcpwhy says of it.
    pub(super) diagnosis: Diagnosis,
}

/// A scenario as its views have it, in their order.
pub(super) struct Looked {
    pub(super) seen: Vec<Seen>,
    /// Of a fault that shows in some runs only: whether in this one.
    pub(super) counted: bool,
    _shelf: Shelf,
}

/// Plants a scenario, and records it from all of the views at once.
pub(super) fn look(
    scenario: &Scenario,
    seed: u64,
    views: &[View],
    programs: &Programs,
    stop: &Stop,
) -> Result<Looked, Error> {
    // Left when everything that ran in it has ended.
    let _shield = Shield::raise();
    let shelf = Shelf::new(None)?;
    let mut bench = Bench::new(std::slice::from_ref(scenario), seed, programs, None, stop)?;
    let mut recordings = Vec::new();
    for view in views {
        recordings.push(shelf.recording(&format!("view-{}", view.side))?);
    }
    let loaded =
        bench.load(|bench| record(&bench.plants[0], views, &recordings, programs, stop))?;
    let mut servers = loaded.each.iter().flat_map(|(_, servers)| servers);
    let counted = servers.any(|server| server.counted);
    drop(bench);
    let mut seen = Vec::new();
    for recording in recordings {
        let diagnosis = diagnose(&programs.tcpwhy, &recording, stop)?;
        seen.push(Seen {
            recording,
            diagnosis,
        });
    }
    Ok(Looked {
        seen,
        counted,
        _shelf: shelf,
    })
}

/// Starts a recorder per view, all of them before the first is waited for.
fn record(
    plant: &Plant,
    views: &[View],
    recordings: &[PathBuf],
    programs: &Programs,
    stop: &Stop,
) -> Result<Vec<Recorder>, Error> {
    let scenario = &plant.scenario;
    let mut starting = Vec::new();
    for (view, recording) in views.iter().zip(recordings) {
        let nodes = plant.nodes().iter();
        let asked = |node: &String| view.nodes.is_empty() || view.nodes.contains(node);
        let named = nodes.filter(|(node, _)| asked(node));
        let mut namespaces: Vec<&str> = named.map(|(_, netns)| netns.name()).collect();
        if scenario.neighbours > 0 {
            namespaces.clear();
        }
        let what = Recorded {
            recording,
            namespaces: &namespaces,
            parts: &scenario.record,
            options: &[],
            at_most: AT_MOST,
        };
        starting.push(Recorder::begin(&programs.tcpwhy, &what)?);
    }
    let begun = starting.into_iter().map(|recorder| recorder.begun(stop));
    begun.collect()
}

/// A situation of the exam, as it was drawn.
pub(super) fn record_situation(
    situation: &Situation,
    programs: &Programs,
    shelf: &mut CorpusShelf,
    stop: &Stop,
) -> Result<Kept, Error> {
    let (scenario, faults) = situation_scenario(situation)?;
    let view = View {
        side: "",
        nodes: scenario.recorded.clone(),
        right: Vec::new(),
        may: faults.iter().flat_map(|f| f.may.clone()).collect(),
    };
    let looked = look(&scenario, situation.seed, &[view], programs, stop)?;
    let words: Vec<String> = faults.iter().map(|f| f.what.clone()).collect();
    let truth = RecordedTruth {
        recording: format!("exam-{}", situation.seed),
        kind: "exam".into(),
        what: if words.is_empty() {
            "healthy".into()
        } else {
            words.join("; ")
        },
        right: faults
            .iter()
            .filter(|f| !f.right.is_empty())
            .map(|f| f.right.join("|"))
            .collect(),
        may: faults.into_iter().flat_map(|f| f.may).collect(),
    };
    let kept = shelf.keep(&looked.seen[0].recording, &truth, MOST_OF_EXAM)?;
    Ok(Kept {
        truths: kept.then_some(truth).into_iter().collect(),
        looks: 1,
    })
}

/// What is right of a run: nothing where a fault that shows in some did not show in this one.
pub(super) fn right(scenario: &Scenario, view: &View, looked: &Looked) -> Vec<String> {
    let missed = scenario.truth.counter.is_some() && !looked.counted;
    if view.right.is_empty() || missed {
        return Vec::new();
    }
    vec![view.right.join("|")]
}
