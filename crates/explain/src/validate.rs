//! No evidence, no finding: what a finding must have before anyone sees it.

use std::collections::BTreeMap;

use recording::{Recording, RowRef, tables};

use crate::finding::{Finding, Level, Number};

/// Checks findings against the recording they came from.
pub(crate) struct Validator<'a> {
    recording: &'a Recording,
    rows: BTreeMap<(&'static str, u32), Option<u64>>,
}

impl<'a> Validator<'a> {
    pub(crate) fn new(recording: &'a Recording) -> Validator<'a> {
        Validator {
            recording,
            rows: BTreeMap::new(),
        }
    }

    /// Why the finding must not be reported; `Ok` when it may.
    pub(crate) fn check(&mut self, finding: &Finding) -> Result<(), String> {
        said(finding)?;
        measured(finding)?;
        if finding.evidence.is_empty() {
            return Err("it has no evidence".into());
        }
        let evidence = || finding.evidence.iter().flat_map(|s| &s.rows);
        if evidence().next().is_none() {
            return Err("its evidence points to no row".into());
        }
        // What rules out others is held to the same.
        let rivals = finding.ruled_out.iter().flat_map(|r| &r.rows);
        for row in evidence().chain(rivals) {
            self.resolve(*row)?;
        }
        if finding.confidence.because.is_empty() {
            return Err("its confidence has no reason".into());
        }
        let agreeing = finding.arithmetic.iter().any(|c| c.agrees);
        if finding.confidence.level == Level::High && !agreeing {
            return Err("its confidence is high although no arithmetic agrees".into());
        }
        Ok(())
    }

    fn resolve(&mut self, row: RowRef) -> Result<(), String> {
        if tables::ALL.iter().all(|t| t.name != row.table) {
            return Err(format!("its evidence {row} is in no table"));
        }
        let recording = self.recording;
        let known = self.rows.entry((row.table, row.segment));
        // A segment that cannot be read resolves nothing.
        let known = known.or_insert_with(|| {
            let rows = recording.segment_rows(row.table, row.segment);
            rows.unwrap_or(None)
        });
        match *known {
            Some(rows) if u64::from(row.row) < rows => Ok(()),
            Some(rows) => Err(format!(
                "its evidence {row} is beyond the {rows} rows there"
            )),
            None => Err(format!(
                "its evidence {row} is in no segment of the recording"
            )),
        }
    }
}

/// Everything that a reader must be told is there.
fn said(finding: &Finding) -> Result<(), String> {
    let blank = |s: &str| s.trim().is_empty();
    // A finding that is less sure says which look-alike could not be ruled out.
    let sure = finding.confidence.level == Level::High;
    let missing = if blank(&finding.title) {
        "a title"
    } else if blank(&finding.fix) {
        "a fix"
    } else if blank(finding.scope.place()) {
        "a scope"
    } else if blank(&finding.impact.says) {
        "an impact"
    } else if finding.evidence.iter().any(|s| blank(&s.says)) {
        "words for a step of its evidence"
    } else if sure && finding.ruled_out.iter().all(|r| blank(&r.because)) {
        "a look-alike that is ruled out"
    } else if finding.advice.iter().all(|a| blank(&a.action)) {
        "advice"
    } else if blank(&finding.verify) {
        "a way to verify it"
    } else {
        return Ok(());
    };
    Err(format!("it lacks {missing}"))
}

/// Its numbers are numbers, and its share is one.
fn measured(finding: &Finding) -> Result<(), String> {
    let impact = &finding.impact;
    if impact.affected == 0 || impact.affected > impact.of {
        let (affected, of) = (impact.affected, impact.of);
        return Err(format!("its impact counts {affected} of {of}"));
    }
    let latency = impact.added_latency_ms.iter().flat_map(|l| [l.p50, l.p99]);
    let ratios = impact.throughput_ratio.into_iter().chain(impact.cwnd_ratio);
    let checks = finding.arithmetic.iter();
    let checks = checks.flat_map(|c| [c.expected, c.measured]);
    let steps = finding.evidence.iter().flat_map(|s| &s.numbers.0);
    let ruled_out = finding.ruled_out.iter().flat_map(|r| &r.numbers.0);
    let steps = steps.chain(ruled_out).filter_map(|(_, n)| match n {
        Number::Real(v) => Some(*v),
        _ => None,
    });
    let all = [impact.share].into_iter().chain(latency).chain(ratios);
    if !all.chain(checks).chain(steps).all(f64::is_finite) {
        return Err("one of its numbers is none".into());
    }
    if !(0.0..=1.0).contains(&impact.share) {
        return Err(format!("its share is {}", impact.share));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::Explanation;
    use crate::finding::Step;
    use synth::{Written, cases};

    fn a_finding() -> (Written, Finding) {
        let written = cases::syn_cookies().write().expect("writes");
        let Explanation { mut findings, .. } = crate::explain(&written.recording).expect("reads");
        (written, findings.remove(0))
    }

    /// The reason for which a finding that was spoilt is rejected.
    fn rejected(spoil: impl FnOnce(&mut Finding)) -> String {
        let (written, mut finding) = a_finding();
        let mut validator = Validator::new(&written.recording);
        assert_eq!(validator.check(&finding), Ok(()), "it is sound before");
        spoil(&mut finding);
        validator
            .check(&finding)
            .expect_err("a spoilt finding must not be reported")
    }

    #[test]
    fn no_evidence_no_finding() {
        assert!(rejected(|f| f.evidence.clear()).contains("no evidence"));
        assert!(
            rejected(|f| f.evidence.iter_mut().for_each(|s| s.rows.clear())).contains("no row")
        );
        let blank = |f: &mut Finding| f.evidence.push(Step::new(" "));
        assert!(rejected(blank).contains("words"));
    }

    #[test]
    fn rows_must_be_there() {
        let first = |f: &mut Finding, change: fn(&mut RowRef)| change(&mut f.evidence[0].rows[0]);
        assert!(rejected(|f| first(f, |r| r.row = 10_000)).contains("beyond"));
        assert!(rejected(|f| first(f, |r| r.segment = 99)).contains("no segment"));
        assert!(rejected(|f| first(f, |r| r.table = "elsewhere")).contains("no table"));
    }

    #[test]
    fn high_confidence_needs_arithmetic_that_agrees() {
        assert!(rejected(|f| f.arithmetic.clear()).contains("arithmetic"));
        let disagree = |f: &mut Finding| f.arithmetic.iter_mut().for_each(|c| c.agrees = false);
        assert!(rejected(disagree).contains("arithmetic"));
        assert!(rejected(|f| f.confidence.because.clear()).contains("reason"));
    }

    #[test]
    fn a_reader_is_told_everything() {
        assert!(rejected(|f| f.title.clear()).contains("title"));
        assert!(rejected(|f| f.fix.clear()).contains("fix"));
        assert!(rejected(|f| f.scope.listener.clear()).contains("scope"));
        assert!(rejected(|f| f.impact.says.clear()).contains("impact"));
        assert!(rejected(|f| f.ruled_out.clear()).contains("ruled out"));
        assert!(rejected(|f| f.advice.clear()).contains("advice"));
        assert!(rejected(|f| f.verify.clear()).contains("verify"));
    }

    #[test]
    fn numbers_are_numbers() {
        assert!(rejected(|f| f.impact.affected = 0).contains("counts 0"));
        assert!(rejected(|f| f.impact.affected = f.impact.of + 1).contains("counts"));
        assert!(rejected(|f| f.impact.share = 1.5).contains("share"));
        assert!(rejected(|f| f.impact.cwnd_ratio = Some(f64::NAN)).contains("numbers"));
        assert!(rejected(|f| f.arithmetic[0].expected = f64::INFINITY).contains("numbers"));
    }
}
