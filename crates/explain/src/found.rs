//! What a cause found: the worst, where it is more than anyone reads, and how many more there were.

use crate::finding::Finding;
use crate::rank::rank;

/// Findings reported per cause; a host with more listeners in trouble has one problem, not many.
pub(crate) const MAX_PER_CAUSE: usize = 100;
/// A finding takes some kilobytes, and a host may have 65,536 listeners that are all in trouble. This many are kept,
/// so that what is reported of a cause ([`MAX_PER_CAUSE`]) is the same as if all had been: findings that are reported
/// only when asked for come after all others.
const MAX_KEPT: usize = 10 * MAX_PER_CAUSE;

/// What a cause found in a story.
#[derive(Debug, Default)]
pub struct Found {
    /// The findings that are kept.
    pub(crate) kept: Vec<Finding>,
    /// How many more there were, none of which cost more.
    pub(crate) more: usize,
}

impl Found {
    fn fold(&mut self) {
        rank(&mut self.kept);
        self.kept.sort_by_key(|finding| finding.only_if_asked);
        self.more += self.kept.len().saturating_sub(MAX_KEPT);
        self.kept.truncate(MAX_KEPT);
    }
}

/// The worst of them.
impl FromIterator<Finding> for Found {
    fn from_iter<I: IntoIterator<Item = Finding>>(all: I) -> Found {
        let mut found = Found::default();
        for finding in all {
            // Half at once, so that each is looked at a few times.
            if found.kept.len() >= 2 * MAX_KEPT {
                found.fold();
            }
            found.kept.push(finding);
        }
        found
    }
}

/// All of them.
impl From<Vec<Finding>> for Found {
    fn from(kept: Vec<Finding>) -> Found {
        Found { kept, more: 0 }
    }
}

#[cfg(test)]
mod tests {
    use synth::cases;

    use super::*;
    use crate::lost::Lost;

    #[test]
    fn the_worst_are_kept_in_their_order_and_the_others_counted() {
        let written = cases::syn_cookies().write().expect("writes");
        let explanation = crate::explain(&written.recording).expect("reads");
        let one = explanation.findings.first().expect("a finding");
        let costing = |ms: u64| Finding {
            lost_s: Lost::elsewhere(ms * 1_000_000),
            ..one.clone()
        };
        let n = 5 * MAX_KEPT as u64;
        // What costs most comes neither first nor last.
        let costs = |i: u64| (i * 7_919) % n;
        let all = || (0..n).map(|i| costing(costs(i)));
        let Found { mut kept, more } = all().collect();
        assert_eq!(kept.len() + more, n as usize);
        assert!(kept.len() <= 2 * MAX_KEPT);
        rank(&mut kept);
        let mut whole: Vec<Finding> = all().collect();
        rank(&mut whole);
        let cost = |f: &Finding| f.lost_s.claimed();
        let told = |all: &[Finding]| all.iter().take(MAX_KEPT).map(cost).collect::<Vec<_>>();
        assert_eq!(told(&kept), told(&whole));
        let few: Found = all().take(3).collect();
        assert_eq!((few.kept.len(), few.more), (3, 0));
    }
}
