//! Reports a stopped process as one finding, whatever waited for it: requests, or connections in its accept queue.

use analysis::ProcessState;

use crate::finding::{Finding, Step};
use crate::id::Id;
use crate::moment::Began;
use crate::scope::culprit;

/// Causes that a stopped process shows at the same time.
const OF_A_STOP: &[Id] = &[
    Id::SLOW_APPLICATION,
    Id::SLOW_ACCEPT,
    Id::ACCEPT_QUEUE_OVERFLOW,
];

/// The process whose stop the finding reports.
fn stopped(finding: &Finding) -> Option<u32> {
    let culprit = culprit(&finding.scope).filter(|_| OF_A_STOP.contains(&finding.cause))?;
    let is = matches!(
        culprit.state,
        ProcessState::Stopped | ProcessState::WasStopped
    );
    is.then_some(culprit.pid)
}

/// Whether another cause's symptoms belong to the stop that this finding reports.
pub(crate) fn is_of(finding: &Finding, rival: Id) -> bool {
    OF_A_STOP.contains(&rival) && stopped(finding).is_some()
}

/// Merges findings about the same stop. The first, which lost most time, stays and also says what the others cost.
pub(crate) fn told_once(ranked: Vec<Finding>) -> Vec<Finding> {
    let mut told: Vec<Finding> = Vec::new();
    for finding in ranked {
        let pid = stopped(&finding);
        let first = told.iter_mut().find(|f| pid.is_some() && stopped(f) == pid);
        let Some(first) = first else {
            told.push(finding);
            continue;
        };
        let rows = finding.evidence.iter().flat_map(|step| step.rows.clone());
        let step = Step::new(format!("Of the same stop: {}", finding.title));
        first.evidence.push(step.rows(rows));
        for sentence in finding.impact.says.split_inclusive(". ") {
            if !first.impact.says.contains(sentence.trim_end()) {
                first.impact.says = format!("{} {}", first.impact.says, sentence.trim_end());
            }
        }
        // A queue may have overflowed earlier, whereas what hung dates the stop.
        let seen = finding.since.filter(|since| since.began == Began::Seen);
        if first.since.as_ref().is_none_or(|s| s.began != Began::Seen) {
            first.since = seen.or(first.since.take());
        }
        // Both report the same waits: as requests, and as the connections that carried them.
        let outage_ns = finding.lost_s.outage_ns();
        first.lost_s = std::mem::take(&mut first.lost_s).in_outage(Some(outage_ns));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::late_to_accept::six_wait;
    use crate::causes::testing::found;
    use synth::{Fixture, Listen, RequestMix};

    /// 30 requests lie unread for 4 s, and six connections are in the accept queue all the time.
    fn kept_by(state: &'static str) -> Fixture {
        let mut f = Fixture::new();
        f.listen(Listen {
            backlog: 4_096,
            accept_queue: vec![6; 11],
            held_by: vec![(812, 1, "iperf3", state)],
            cpu: 0.0,
            ..Listen::default()
        });
        f.ask(RequestMix {
            slow: (30, 4_000.0),
            unread_ms: 3_990.0,
            ..RequestMix::default()
        });
        six_wait(&mut f);
        f
    }

    #[test]
    fn what_waits_for_a_stopped_process_is_one_finding() {
        let causes = |f: &Fixture| found(f).iter().map(|f| f.cause).collect::<Vec<_>>();
        let both = [Id::SLOW_APPLICATION, Id::SLOW_ACCEPT];
        assert_eq!(causes(&kept_by("S")), both);
        let all = found(&kept_by("T"));
        let [one] = &all[..] else {
            panic!("{all:#?}");
        };
        assert_eq!(one.cause, Id::SLOW_APPLICATION);
        let says = |says: &str| one.evidence.iter().any(|s| s.says.starts_with(says));
        assert!(says("Of the same stop: "), "{:?}", one.evidence);
        assert!(
            one.impact.says.contains("6 connections"),
            "{}",
            one.impact.says
        );
        let since = one.since.as_ref().expect("of the stop");
        assert_eq!(since.began, Began::Seen, "{since:?}");
        let ruled_out = one.ruled_out.iter().find(|r| r.cause == Id::SLOW_ACCEPT);
        assert!(ruled_out.is_some(), "{:?}", one.ruled_out);
    }
}
