//! Which finding comes first.

use crate::finding::Finding;

/// What it cost, ns.
pub(crate) fn weight(finding: &Finding) -> u64 {
    finding.lost_s.claimed()
}

/// The most time lost first; findings whose cost is not known come last.
pub(crate) fn rank(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let by_weight = weight(b).cmp(&weight(a));
        let by_confidence = || b.confidence.level.cmp(&a.confidence.level);
        let by_impact = || b.impact.affected.cmp(&a.impact.affected);
        let by_name = || (&a.number, a.scope.place()).cmp(&(&b.number, b.scope.place()));
        by_weight
            .then_with(by_confidence)
            .then_with(by_impact)
            .then_with(by_name)
    });
}
