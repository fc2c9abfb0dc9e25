//! Counts of the same thing from two sources, held against each other.

use crate::finding::Check;
use crate::limits;

/// Two counts of the same thing from different sources, read at different moments.
pub(crate) fn same_count(formula: &str, expected: u64, measured: u64, unit: &'static str) -> Check {
    let (a, b) = (expected as f64, measured as f64);
    Check {
        formula: formula.into(),
        expected: a,
        measured: b,
        unit: unit.into(),
        agrees: (a - b).abs()
            <= (a * limits::SAME_COUNT.share()).max(limits::SAME_COUNT_SLACK.number()),
        tolerance: "± 10 %, at least 2: read at different moments".into(),
    }
}

/// A count that includes another one, from different sources, read at different moments.
pub(crate) fn at_least(formula: &str, expected: u64, measured: u64, unit: &'static str) -> Check {
    let (a, b) = (expected as f64, measured as f64);
    Check {
        formula: formula.into(),
        expected: a,
        measured: b,
        unit: unit.into(),
        agrees: b * (1.0 + limits::SAME_COUNT.share()) + limits::SAME_COUNT_SLACK.number() >= a,
        tolerance: "not below it by more than 10 %".into(),
    }
}
