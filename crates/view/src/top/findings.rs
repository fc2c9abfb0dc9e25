//! What explain found so far, and how fresh that is.

use explain::{Advice, Explanation, Finding, HealthNote, NoteKind};

/// A finding that is no longer found stays on the screen for this long, ns.
const KEPT_NS: u64 = 120_000_000_000;

/// The source of what explain says of itself.
pub(super) const EXPLAIN: &str = "explain";

/// The findings on the screen.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The greatest impact first; those that are no longer found come last.
    pub cases: Vec<Case>,
    /// How far explaining has come.
    pub progress: Progress,
    /// What explain says of gaps: in the recording, or what it left out itself.
    pub notes: Vec<HealthNote>,
}

/// A finding, and since when.
#[derive(Clone, Debug)]
pub struct Case {
    /// What was found, as it was found last.
    pub finding: Finding,
    /// End of the first time in which it was found, ns of CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// End of the last time in which it was found, ns.
    pub last_ns: u64,
    /// It was found the last time we looked.
    pub holds: bool,
    /// When what was explained then began, ns since 1970.
    pub start_unix_ns: i64,
}

/// How far explaining has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was explained yet.
    #[default]
    Waiting,
    /// The time between these was explained, ns of CLOCK_MONOTONIC.
    Explained {
        /// Its start.
        from_ns: u64,
        /// Its end.
        to_ns: u64,
        /// Explaining costs so much that it is done less often than it could be.
        paced: bool,
    },
    /// It could not be explained.
    Failed,
}

impl Case {
    /// What it is known by while it lasts.
    pub(super) fn key(&self) -> String {
        self.finding.key()
    }

    /// The first of its advice that has a command, which is shown and copied, and its place.
    pub(super) fn command(&self) -> Option<(usize, &Advice, &str)> {
        let mut advice = self.finding.advice.iter().enumerate();
        advice.find_map(|(i, advice)| Some((i, advice, advice.command.as_deref()?)))
    }
}

impl Findings {
    /// Takes in what explain said of the time between two, ns of CLOCK_MONOTONIC.
    pub fn explained(&mut self, explanation: Explanation, from_ns: u64, to_ns: u64, paced: bool) {
        let old = std::mem::take(&mut self.cases);
        let since = |finding: &Finding| {
            let known = old.iter().find(|c| c.key() == finding.key());
            known.map_or(to_ns, |c| c.first_ns)
        };
        let start_unix_ns = explanation.summary.recording.start_unix_ns;
        let found = explanation.findings.into_iter().map(|finding| Case {
            start_unix_ns,
            first_ns: since(&finding),
            last_ns: to_ns,
            holds: true,
            finding,
        });
        self.cases = found.collect();
        for case in old {
            let again = self.cases.iter().any(|c| c.key() == case.key());
            if !again && to_ns.saturating_sub(case.last_ns) < KEPT_NS {
                let holds = false;
                self.cases.push(Case { holds, ..case });
            }
        }
        self.notes = explanation.summary.health;
        self.progress = Progress::Explained {
            from_ns,
            to_ns,
            paced,
        };
    }

    /// It could not be explained.
    pub fn failed(&mut self, says: String) {
        self.progress = Progress::Failed;
        let (source, kind) = (EXPLAIN.into(), NoteKind::LeftOut);
        self.notes = vec![HealthNote { source, kind, says }];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use explain::explain;
    use synth::cases;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_finding_has_a_beginning_and_an_end() {
        let found = explain(&cases::syn_cookies().write().unwrap()).unwrap();
        let mut nothing = found.clone();
        nothing.findings.clear();
        let mut findings = Findings::default();
        findings.explained(found.clone(), 0, 10 * S, false);
        findings.explained(found.clone(), 5 * S, 15 * S, false);
        let case = &findings.cases[0];
        assert_eq!(
            (case.first_ns, case.last_ns, case.holds),
            (10 * S, 15 * S, true)
        );
        findings.explained(nothing.clone(), 10 * S, 20 * S, false);
        let case = &findings.cases[0];
        assert_eq!(
            (case.first_ns, case.last_ns, case.holds),
            (10 * S, 15 * S, false)
        );
        findings.explained(found, 15 * S, 25 * S, false);
        assert!(findings.cases[0].holds && findings.cases.len() == 1);
        findings.explained(nothing, 15 * S, 400 * S, true);
        assert!(findings.cases.is_empty());
    }
}
