//! What one window of time after the other says, as findings that are raised and resolved.

use std::collections::BTreeMap;

use explain::{Explanation, Finding, Holds, Id, Level};
use serde::{Deserialize, Serialize};

use crate::alert::{Alert, State, Told, fingerprint};

const S: i64 = 1_000_000_000;

/// A finding that is not certain has to hold in all windows for so long, ns: by chance one of few samples may.
const SURE_NS: i64 = 5 * S;
/// It is resolved when all windows have ruled it out for so long, ns.
const GONE_NS: i64 = 5 * S;
/// What comes back within this time is the same trouble, ns; and where windows cannot tell, it is over after it.
const CALM_NS: i64 = 600 * S;
/// What came so often within that time flaps: it is over when there has been calm.
const FLAPS: u32 = 3;
/// Alerts that are remembered; the oldest resolved ones go.
const MAX_ALERTS: usize = 1_000;
/// Alerts that hold at a time; what comes on top is counted.
const MAX_RAISED: usize = 100;

/// What a window changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is raised, for the first time or again.
    Raised(Alert),
    /// It is resolved.
    Resolved(Alert),
}

impl Change {
    /// What was raised or resolved.
    pub fn alert(&self) -> &Alert {
        match self {
            Change::Raised(alert) | Change::Resolved(alert) => alert,
        }
    }
}

/// All that was raised, the first one first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alerts {
    alerts: Vec<Alert>,
    /// Findings that were not raised, as too many held.
    #[serde(default)]
    too_many: u64,
    /// Findings that are not certain, and since when they have held; and of raised ones, since when they have not, ns since
    /// 1970.
    #[serde(skip)]
    waiting: BTreeMap<String, i64>,
}

impl Alerts {
    /// All of them, the one that was raised first the first.
    pub fn all(&self) -> &[Alert] {
        &self.alerts
    }

    /// Those that hold.
    pub fn raised(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.is_raised())
    }

    /// Findings that were not raised, as too many held at a time.
    pub fn too_many(&self) -> u64 {
        self.too_many
    }

    /// Takes in the next window; what it changed.
    pub fn take(&mut self, told: Told) -> Vec<Change> {
        let host = told.explanation.summary.recording.host.as_str();
        let mut changes = Vec::new();
        let mut waiting = BTreeMap::new();
        let mut held = Vec::new();
        for finding in &told.explanation.findings {
            let fingerprint = fingerprint(finding, host);
            if held.contains(&fingerprint) {
                continue;
            }
            if let Some(at) = self.find(&fingerprint, State::Raised) {
                self.alerts[at].holds(finding, told.to_ns);
            } else {
                let since = self.waiting.get(&fingerprint).copied();
                let since = since.unwrap_or(told.to_ns);
                if finding.confidence.level == Level::High
                    || told.to_ns.saturating_sub(since) >= SURE_NS
                {
                    changes.extend(self.raise(finding, &fingerprint, told));
                } else {
                    waiting.insert(fingerprint.clone(), since);
                }
            }
            held.push(fingerprint);
        }
        for alert in self.alerts.iter_mut().filter(|alert| alert.is_raised()) {
            if held.contains(&alert.fingerprint) {
                continue;
            }
            let calm = told.to_ns.saturating_sub(alert.last_unix_ns) >= CALM_NS;
            let refuted = refutes(told.explanation, alert.cause) && alert.times < FLAPS;
            let since = self.waiting.get(&alert.fingerprint).copied();
            let since = since.or(refuted.then_some(told.to_ns));
            let gone =
                refuted && since.is_some_and(|since| told.to_ns.saturating_sub(since) >= GONE_NS);
            if calm || gone {
                alert.state = State::Resolved;
                alert.resolved_unix_ns = Some(told.now_ns);
                changes.push(Change::Resolved(alert.clone()));
            } else if let Some(since) = since {
                waiting.insert(alert.fingerprint.clone(), since);
            }
        }
        self.waiting = waiting;
        self.forget();
        changes
    }

    /// Raises it, or raises again what was resolved a short time ago.
    fn raise(&mut self, finding: &Finding, fingerprint: &str, told: Told) -> Option<Change> {
        if self.raised().count() >= MAX_RAISED {
            self.too_many += 1;
            return None;
        }
        let before = self.find(fingerprint, State::Resolved);
        let before =
            before.filter(|at| told.to_ns.saturating_sub(self.alerts[*at].last_unix_ns) < CALM_NS);
        let alert = match before {
            Some(at) => {
                // It is the newest now.
                let mut alert = self.alerts.remove(at);
                alert.holds(finding, told.to_ns);
                alert.state = State::Raised;
                alert.raised_unix_ns = told.now_ns;
                alert.resolved_unix_ns = None;
                alert.times += 1;
                alert
            }
            None => Alert::new(finding, told),
        };
        self.alerts.push(alert.clone());
        Some(Change::Raised(alert))
    }

    /// The last one of these.
    fn find(&self, fingerprint: &str, state: State) -> Option<usize> {
        let is_it = |alert: &Alert| alert.state == state && alert.fingerprint == fingerprint;
        self.alerts.iter().rposition(is_it)
    }

    pub(crate) fn forget(&mut self) {
        let mut most = self.alerts.len().saturating_sub(MAX_ALERTS);
        self.alerts.retain(|alert| {
            let goes = most > 0 && !alert.is_raised();
            most -= usize::from(goes);
            !goes
        });
    }
}

/// Whether this window says that the cause does not hold, or that there is nothing it could hold for. One that lacks what
/// would show it says nothing.
fn refutes(explanation: &Explanation, cause: Id) -> bool {
    let answers = &explanation.summary.causes;
    let answer = answers.iter().find(|answer| answer.cause == cause);
    answer.is_some_and(|answer| answer.answer != Holds::CannotTell || answer.record.is_empty())
}

#[cfg(test)]
mod tests {
    use explain::explain;
    use synth::cases;

    use super::*;

    /// What windows of five seconds say, one after the other.
    struct Windows {
        alerts: Alerts,
        at_s: i64,
        found: Explanation,
    }

    impl Windows {
        fn new() -> Windows {
            Windows {
                alerts: Alerts::default(),
                at_s: 1_000,
                found: explain(&cases::syn_cookies().write().unwrap()).unwrap(),
            }
        }

        /// The next one: `R` or `r` for each alert that is raised or resolved.
        fn next(&mut self, explanation: &Explanation) -> String {
            self.at_s += 5;
            let told = Told {
                explanation,
                to_ns: self.at_s * S,
                now_ns: self.at_s * S,
            };
            let changes = self.alerts.take(told);
            let letter = |change: &Change| match change {
                Change::Raised(_) => 'R',
                Change::Resolved(_) => 'r',
            };
            changes.iter().map(letter).collect()
        }

        /// So many of them, as certain as that; `None` where the cause is ruled out.
        fn run(&mut self, windows: usize, level: Option<Level>) -> String {
            let mut explanation = self.found.clone();
            explanation.findings.truncate(1);
            let cause = explanation.findings[0].cause;
            match level {
                Some(level) => explanation.findings[0].confidence.level = level,
                None => {
                    explanation.findings.clear();
                    answer(&mut explanation, cause, Holds::No);
                }
            }
            (0..windows).map(|_| self.next(&explanation)).collect()
        }
    }

    fn answer(explanation: &mut Explanation, cause: Id, answer: Holds) {
        let answers = explanation.summary.causes.iter_mut();
        let own = answers.filter(|a| a.cause == cause);
        own.for_each(|a| {
            a.answer = answer;
            a.record = match answer {
                Holds::CannotTell => vec!["requests".into()],
                _ => Vec::new(),
            };
        });
    }

    #[test]
    fn what_is_certain_is_raised_at_once_and_other_findings_when_they_hold_again() {
        let mut windows = Windows::new();
        assert_eq!(windows.run(3, Some(Level::High)), "R");
        let mut windows = Windows::new();
        assert_eq!(windows.run(1, Some(Level::Medium)), "");
        assert_eq!(windows.run(1, None), "");
        assert_eq!(
            windows.run(1, Some(Level::Medium)),
            "",
            "not one after the other"
        );
        assert_eq!(windows.run(1, Some(Level::Medium)), "R");
        assert_eq!(windows.alerts.raised().count(), 1);
    }

    #[test]
    fn it_is_resolved_when_it_is_ruled_out_and_not_when_nobody_can_tell() {
        let mut windows = Windows::new();
        windows.run(1, Some(Level::High));
        let mut dark = windows.found.clone();
        let cause = dark.findings[0].cause;
        dark.findings.clear();
        answer(&mut dark, cause, Holds::CannotTell);
        let told: String = (0..119).map(|_| windows.next(&dark)).collect();
        assert_eq!(told, "");
        assert_eq!(
            windows.next(&dark),
            "r",
            "after ten minutes nothing is left of it"
        );
        let mut windows = Windows::new();
        windows.run(1, Some(Level::High));
        assert_eq!(windows.run(1, None), "");
        assert_eq!(windows.run(1, None), "r");
        assert!(windows.alerts.all()[0].resolved_unix_ns.is_some());
    }

    #[test]
    fn where_nobody_asks_any_more_it_is_over() {
        let mut windows = Windows::new();
        windows.run(1, Some(Level::High));
        let mut silent = windows.found.clone();
        let cause = silent.findings[0].cause;
        silent.findings.clear();
        let own = silent.summary.causes.iter_mut();
        for answer in own.filter(|a| a.cause == cause) {
            (answer.answer, answer.record) = (Holds::CannotTell, Vec::new());
        }
        assert_eq!(windows.next(&silent) + &windows.next(&silent), "r");
    }

    #[test]
    fn what_comes_back_is_the_same_and_flapping_is_one_with_a_count() {
        let mut windows = Windows::new();
        let told: String = (0..20)
            .map(|_| windows.run(1, Some(Level::High)) + &windows.run(3, None))
            .collect();
        assert_eq!(told, "RrRrR", "then it is not told any more");
        assert_eq!(windows.alerts.all().len(), 1);
        assert_eq!(windows.alerts.all()[0].times, 3);
        assert_eq!(windows.run(200, None), "r", "after ten minutes of calm");
        assert_eq!(
            windows.run(1, Some(Level::High)),
            "R",
            "an hour later it is another"
        );
        assert_eq!(windows.alerts.all().len(), 2);
    }

    #[test]
    fn no_more_are_kept_than_may_be() {
        let mut windows = Windows::new();
        let mut many = windows.found.clone();
        many.findings.truncate(1);
        for n in 0..MAX_RAISED + 20 {
            let mut one = many.findings[0].clone();
            one.confidence.level = Level::High;
            one.scope.listener = format!("10.0.0.1:{n}");
            many.findings.push(one);
        }
        many.findings.remove(0);
        windows.next(&many);
        assert_eq!(windows.alerts.raised().count(), MAX_RAISED);
        assert_eq!(windows.alerts.too_many(), 20);
    }
}
