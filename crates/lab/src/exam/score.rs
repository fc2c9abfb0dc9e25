//! How often the first finding was right, and all of them, against what is asked of tcpwhy.

use serde::Serialize;

use super::Sitting;
use crate::scenario::Truth;

/// Share of all faults whose cause must be named first.
const ALL: f64 = 0.95;
/// The same among causes that are easily taken for each other.
const LOOK_ALIKES: f64 = 0.90;

/// Share of all findings, not the first of each run only, that must be of the planted cause.
const PRECISION: f64 = 0.95;

/// Causes that are easily taken for each other.
const GROUPS: &[&[&str]] = &[
    &["time-wait-collision", "conntrack-full"],
    &[
        "accept-queue-overflow",
        "syn-queue-overflow",
        "local-firewall-drop",
        "path-drops-syn",
    ],
    &["connection-refused", "injected-reset"],
    &["syn-cookie-options-lost", "middlebox-strips-options"],
    &["path-loss", "qdisc-drop"],
    &["path-loss", "pmtu-black-hole"],
    &["path-loss", "tail-loss"],
    &["nagle-delayed-ack", "tail-loss"],
    &["port-search-cost", "lookup-table-growth"],
    &["softirq-starvation", "cpu-contention"],
    &["cpu-contention", "slow-application"],
    &["bufferbloat", "slow-reader"],
];

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// What was counted.
    pub what: String,
    /// Runs in which the first finding was right; of all findings, those that were.
    pub right: u64,
    /// Of so many.
    pub of: u64,
    /// The least share that is asked.
    pub bar: f64,
    /// Whether it was reached.
    pub met: bool,
}

impl Score {
    fn of<'s>(
        what: impl Into<String>,
        bar: f64,
        sittings: impl Iterator<Item = &'s Sitting>,
    ) -> Option<Score> {
        let (mut right, mut of) = (0, 0);
        for sitting in sittings {
            of += 1;
            right += u64::from(sitting.is_right());
        }
        Score::counted(what, bar, right, of)
    }

    fn counted(what: impl Into<String>, bar: f64, right: u64, of: u64) -> Option<Score> {
        (of > 0).then(|| Score {
            what: what.into(),
            right,
            of,
            bar,
            met: right as f64 >= bar * of as f64,
        })
    }
}

/// The scores for which there were runs.
pub(super) fn scores(sittings: &[Sitting]) -> Vec<Score> {
    let healthy = |s: &&Sitting| s.truth == Truth::HEALTHY;
    let faults = sittings.iter().filter(|s| !healthy(s));
    let mut scores = Vec::new();
    scores.extend(Score::of("planted cause named first", ALL, faults));
    for group in GROUPS {
        let among = sittings.iter().filter(|s| group.contains(&&*s.truth));
        scores.extend(Score::of(group.join(" / "), LOOK_ALIKES, among));
    }
    let well = sittings.iter().filter(healthy);
    scores.extend(Score::of("nothing found where nothing is wrong", 1.0, well));
    let found: Vec<_> = sittings.iter().map(Sitting::graded).collect();
    let right = found.iter().map(|(right, _)| right).sum();
    let all = found.iter().map(|(_, all)| all).sum();
    let precision = "findings, the first and all others, of the planted cause";
    scores.extend(Score::counted(precision, PRECISION, right, all));
    // A cause that is right about the wrong server is not right.
    let passed = sittings.iter().filter(|s| s.passed).count() as u64;
    scores.extend(Score::counted(
        "and everything else the truth asks for",
        ALL,
        passed,
        sittings.len() as u64,
    ));
    scores
}
