//! What the corpus is recorded of. Pure.

use crate::Error;
use crate::exam::{Grade, Sittings, Situation};
use crate::scenario::{Scenario, list};

/// One thing that is planted for the corpus.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A scenario, by its name.
    Scenario(String),
    /// A situation of the exam to which a wrong answer was given.
    Situation(Box<Situation>),
}

impl Subject {
    /// By which it is asked for: a scenario's name, a situation's seed.
    pub fn name(&self) -> String {
        match self {
            Subject::Scenario(name) => name.clone(),
            Subject::Situation(situation) => situation.seed.to_string(),
        }
    }

    /// Whether a recording of the corpus is of it.
    pub(super) fn holds(&self, recording: &str) -> bool {
        match self {
            Subject::Scenario(name) => recording.split('.').next() == Some(name),
            Subject::Situation(situation) => recording == format!("exam-{}", situation.seed),
        }
    }
}

/// Every scenario, and the situations that the sittings of an exam say were told wrongly.
pub fn subjects(sittings: &Sittings) -> Result<Vec<Subject>, Error> {
    let scenarios = list()?
        .into_iter()
        .map(|s| Subject::Scenario(s.name.into()));
    let mut subjects: Vec<Subject> = scenarios.collect();
    for (seed, _) in Grade::of(&sittings.all).wrong {
        subjects.push(Subject::Situation(Box::new(Situation::draw(seed)?)));
    }
    Ok(subjects)
}

/// From where a scenario is recorded, and what is right from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// Behind the name of what is recorded: empty of what its file says.
    pub(super) side: &'static str,
    /// The nodes that are recorded.
    pub(super) nodes: Vec<String>,
    /// Ids of causes of which one has to be told; none when nothing can be told from there.
    pub(super) right: Vec<String>,
    /// Those that may be told too.
    pub(super) may: Vec<String>,
}

/// The views of a scenario: as its file has it, and from each side of which the file knows what can be told.
pub(super) fn views(scenario: &Scenario) -> Vec<View> {
    let truth = &scenario.truth;
    let severity = scenario.severity.as_ref();
    let mut may = truth.may.clone();
    may.extend(severity.iter().flat_map(|s| s.may.clone()));
    may.extend(truth.beside.iter().chain(&truth.notes).cloned());
    let view = |side, of, right| View {
        side,
        nodes: crate::exam::recorded_nodes(scenario, of),
        right,
        may: may.clone(),
    };
    let tells = severity.map(|s| s.tells.clone()).unwrap_or_default();
    let written = match truth.is_healthy() {
        true => Vec::new(),
        false if tells.is_empty() => vec![truth.cause.clone()],
        false => tells,
    };
    let mut views = vec![view("", crate::Side::AsWritten, written)];
    let sides = [
        (
            "client",
            crate::Side::Client,
            severity.and_then(|s| s.client_tells.clone()),
        ),
        (
            "server",
            crate::Side::Server,
            severity.and_then(|s| s.server_tells.clone()),
        ),
    ];
    for (side, of, tells) in sides {
        views.extend(tells.map(|tells| view(side, of, tells)));
    }
    views
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_seen_from_where_its_file_knows_what_is_right() {
        let of = |name: &str| {
            let views = views(&Scenario::load(name, 1).unwrap());
            let views = views.into_iter().map(|v| (v.side, v.right.join("|")));
            views.collect::<Vec<_>>()
        };
        let told = |side, right: &str| (side, right.to_string());
        assert_eq!(of("healthy-churn"), [told("", "")]);
        assert_eq!(
            of("accept-queue-overflow"),
            [
                told("", "accept-queue-overflow"),
                told("client", "path-drops-syn|slow-peer"),
                told("server", "accept-queue-overflow"),
            ]
        );
        let silent = of("slow-application");
        assert_eq!(silent[1], told("client", ""));
    }

    #[test]
    fn every_scenario_is_a_subject_and_so_is_what_was_told_wrongly() {
        let none = Sittings::open(&std::env::temp_dir().join("no-such-exam")).unwrap();
        let subjects = subjects(&none).unwrap();
        assert_eq!(subjects.len(), list().unwrap().len());
    }
}
