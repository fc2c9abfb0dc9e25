use super::*;
use crate::exam::harm::Felt;
use crate::exam::sitting::tests::empty;
use crate::exam::{Part, Side};

fn part(scenario: &str, times: Option<f64>) -> Part {
    Part {
        scenario: scenario.into(),
        prefix: "a".into(),
        seed: 1,
        times,
        side: Side::Both,
        ipv6: false,
        nat: false,
        sysctls: Vec::new(),
    }
}

/// A fault whose client lost so many seconds, so many times what it notices.
fn fault(part: usize, cause: &str, lost_s: f64, severity: f64) -> Fault {
    Fault {
        part,
        cause: cause.into(),
        right: vec![cause.into()],
        may: Vec::new(),
        felt: vec![Felt {
            outage_s: lost_s,
            longest_s: severity * 3.0,
            ..Felt::default()
        }],
        answer: Some("ruled-out".into()),
    }
}

fn found(part: usize, cause: &str, confidence: &str) -> Found {
    Found {
        cause: cause.into(),
        confidence: confidence.into(),
        lost_s: Some(8.0),
        part: Some(part),
        title: "so it is".into(),
        wrong_owner: Vec::new(),
    }
}

fn sitting(seed: u64, faults: Vec<Fault>, findings: Vec<Found>) -> Sitting {
    let mut sitting = empty(seed);
    let parts = faults.iter().map(|f| part(&f.cause, Some(1.0)));
    sitting.situation.parts = parts.collect();
    sitting.without = (!faults.is_empty()).then(Vec::new);
    (sitting.faults, sitting.findings) = (faults, findings);
    sitting
}

fn score<'g>(grade: &'g Grade, what: &str) -> &'g Score {
    let mut of_name = grade.scores.iter().filter(|s| s.what.starts_with(what));
    of_name
        .next()
        .unwrap_or_else(|| panic!("{what}: {:#?}", grade.scores))
}

#[test]
fn a_fault_is_found_by_a_right_cause_in_its_own_nodes() {
    let loss = || fault(0, "path-loss", 9.0, 5.0);
    let right = sitting(1, vec![loss()], vec![found(0, "path-loss", "high")]);
    assert!(wrongs(&right).is_empty());
    let elsewhere = sitting(2, vec![loss()], vec![found(1, "path-loss", "high")]);
    let other = sitting(3, vec![loss()], vec![found(0, "tail-loss", "low")]);
    let silent = sitting(4, vec![loss()], vec![]);
    let grade = Grade::of(&[right, elsewhere.clone(), other.clone(), silent]);
    let recall = score(&grade, "faults of 3 times");
    assert_eq!((recall.right, recall.of, recall.met), (1, 4, false));
    let precision = score(&grade, "findings of what was planted");
    assert_eq!((precision.right, precision.of), (1, 3));
    assert_eq!(grade.calibration["high"], (1, 2));
    let row = &grade.confusion["path-loss"];
    assert_eq!((row.planted, row.named, row.silent), (4, 1, 2));
    assert_eq!(row.others["tail-loss"], 1);
    assert!(wrongs(&other)[0].contains("answered: ruled-out"));
    assert_eq!(
        wrongs(&elsewhere).len(),
        3,
        "missed, found elsewhere, and that first"
    );
}

#[test]
fn what_cannot_be_told_from_there_is_not_counted_as_silence() {
    let mut untold = fault(0, "cpu-saturated", 9.0, 5.0);
    untold.right = Vec::new();
    let grade = Grade::of(&[sitting(1, vec![untold], vec![])]);
    let row = &grade.confusion["cpu-saturated"];
    assert_eq!((row.planted, row.untold, row.silent), (1, 1, 0));
}

#[test]
fn what_nobody_notices_is_not_to_be_found() {
    let faint = |findings| sitting(1, vec![fault(0, "path-loss", 0.1, 0.2)], findings);
    let grade = Grade::of(&[faint(vec![]), faint(vec![found(0, "path-loss", "low")])]);
    let score = score(&grade, "faults of 0.3 times");
    assert_eq!((score.right, score.of, score.met), (1, 2, false));
    assert_eq!(
        grade.curve[0],
        Bin {
            from: 0.1,
            to: 0.3,
            found: 1,
            of: 2
        }
    );
}

#[test]
fn what_cost_most_comes_first() {
    let faults = || {
        vec![
            fault(0, "path-loss", 2.0, 2.0),
            fault(1, "refused", 9.0, 3.0),
        ]
    };
    let both = |first, second| {
        let findings = vec![
            found(first, "path-loss", "high"),
            found(second, "refused", "high"),
        ];
        sitting(1, faults(), findings)
    };
    assert_eq!(first_is_heaviest(&both(0, 1)), Some(false));
    let mut right = both(0, 1);
    right.findings.reverse();
    assert_eq!(first_is_heaviest(&right), Some(true));
    // Of two that cost about the same either may be first.
    let mut equals = both(0, 1);
    equals.faults[0] = fault(0, "path-loss", 7.0, 2.0);
    assert_eq!(first_is_heaviest(&equals), Some(true));
    assert_eq!(first_is_heaviest(&sitting(1, faults(), vec![])), None);
}

#[test]
fn where_it_cannot_be_told_silence_is_right() {
    let mut blind = fault(0, "path-drops-syn", 9.0, 9.0);
    blind.right = Vec::new();
    let silent = sitting(1, vec![blind.clone()], vec![]);
    assert!(wrongs(&silent).is_empty());
    let said = sitting(2, vec![blind], vec![found(0, "path-drops-syn", "medium")]);
    assert_eq!(wrongs(&said).len(), 1);
    let grade = Grade::of(&[silent, said]);
    let score = score(&grade, "faults not visible");
    assert_eq!((score.right, score.of), (1, 2));
}

#[test]
fn a_finding_where_nothing_is_wrong_fails_the_exam() {
    let mut healthy = sitting(1, vec![], vec![]);
    healthy.situation.parts = vec![part("healthy-pool", None)];
    let grade = Grade::of(&[healthy.clone()]);
    assert!(score(&grade, "healthy situations").met);
    healthy
        .findings
        .push(found(0, "slow-application", "medium"));
    let mut taken_away = sitting(2, vec![fault(0, "path-loss", 9.0, 5.0)], vec![]);
    taken_away.without = Some(vec![found(0, "slow-application", "medium")]);
    let grade = Grade::of(&[healthy, taken_away]);
    assert!(!score(&grade, "healthy situations").met);
    assert!(!score(&grade, "situations with their faults taken away").met);
}

#[test]
fn another_way_of_telling_is_neither_right_nor_wrong() {
    let mut both = fault(0, "slow-accept", 9.0, 5.0);
    both.may = vec!["slow-application".into()];
    let findings = vec![
        found(0, "slow-application", "low"),
        found(0, "slow-accept", "high"),
    ];
    let sitting = sitting(1, vec![both], findings);
    assert!(wrongs(&sitting).is_empty());
    let grade = Grade::of(&[sitting]);
    let precision = score(&grade, "findings of what was planted");
    assert_eq!((precision.right, precision.of), (1, 1));
    assert_eq!(grade.claimed, Some([8.0 / 9.0; 3]));
}

#[test]
fn too_few_situations_do_not_pass() {
    let right = |seed| {
        let findings = vec![found(0, "path-loss", "high")];
        sitting(seed, vec![fault(0, "path-loss", 9.0, 5.0)], findings)
    };
    let grade = Grade::of(&[right(1), right(2)]);
    assert!(!grade.passed() && !grade.grading);
    assert!(!score(&grade, "situations seen").met);
    let grade = Grade::of(&[right(GRADING)]);
    assert!(grade.grading);
    assert!(!score(&grade, "groups of causes").met);
}

#[test]
fn a_run_that_failed_is_told_and_not_graded() {
    let mut failed = sitting(7, vec![fault(0, "path-loss", 9.0, 5.0)], vec![]);
    failed.failed = Some("no namespace".into());
    let grade = Grade::of(&[failed]);
    assert_eq!(grade.situations, 0);
    assert_eq!(
        grade.wrong,
        [(7, vec!["the run failed: no namespace".to_string()])]
    );
}

#[test]
fn causes_that_are_taken_for_each_other_are_counted_together() {
    let loss = |findings| sitting(1, vec![fault(0, "path-loss", 9.0, 5.0)], findings);
    let mut faint = loss(vec![]);
    faint.faults = vec![fault(0, "path-loss", 0.1, 0.2)];
    let mut sittings = vec![faint, loss(vec![found(0, "tail-loss", "low")])];
    sittings.extend((0..18).map(|_| loss(vec![found(0, "path-loss", "high")])));
    let with_tail_loss = |grade: &Grade| {
        let mut groups = grade.groups.iter();
        groups
            .find(|g| g.causes == ["path-loss", "tail-loss"])
            .unwrap()
            .clone()
    };
    let group = with_tail_loss(&Grade::of(&sittings));
    let counts = (group.faults, group.clear, group.found, group.mistaken);
    assert_eq!(counts, (20, 19, 18, 1));
    assert!(group.met());
    sittings.pop();
    assert!(!with_tail_loss(&Grade::of(&sittings)).met(), "too few");
    sittings.extend((0..2).map(|_| loss(vec![])));
    assert!(
        !with_tail_loss(&Grade::of(&sittings)).met(),
        "too few found"
    );
}
