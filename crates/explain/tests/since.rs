//! Since when: the moment that each kind of finding names.

use explain::{Began, Explanation, Since, explain};
use synth::{Fixture, cases};

fn explained(f: &Fixture) -> Explanation {
    explain(&f.write().unwrap()).expect("a recording of our own reads")
}

fn since(f: &Fixture) -> Since {
    let finding = explained(f).findings.remove(0);
    finding.since.expect("it names a moment")
}

#[test]
fn every_finding_of_the_fixtures_names_a_moment_within_the_recording() {
    let all = [
        cases::accept_queue(),
        cases::stopped_worker(),
        cases::syn_queue(),
        cases::syn_cookies(),
        cases::stripped(),
        cases::refused(),
    ];
    for f in all {
        let e = explained(&f);
        assert!(!e.findings.is_empty());
        for finding in e.findings {
            let since = finding
                .since
                .unwrap_or_else(|| panic!("{} has no moment", finding.cause));
            assert!(
                (0.0..=e.summary.duration_s).contains(&since.after_start_s),
                "{}: {since:?}",
                finding.cause
            );
            assert!(!since.says.is_empty());
        }
    }
}

#[test]
fn the_first_connect_in_trouble_is_the_beginning() {
    let since = since(&cases::refused());
    assert_eq!(since.began, Began::Seen);
    assert!(since.says.ends_with("after the start"), "{}", since.says);
}
