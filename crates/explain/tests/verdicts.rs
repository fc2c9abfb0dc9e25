//! What causes answer that were not found: a number, or why it cannot be told.

use explain::{Answer, Explanation, Holds, Told, explain};
use recording::SourceName;
use synth::{Fixture, cases};

const ALL: &[fn() -> Fixture] = &[
    cases::syn_cookies,
    cases::accept_queue,
    cases::churn,
    cases::bulk,
    cases::syn_queue,
    cases::stripped,
    cases::refused,
    cases::unread,
    cases::stopped_worker,
    cases::black_hole,
    cases::silent,
    cases::tails,
    cases::lossy,
    cases::shaped,
    cases::bloated,
    cases::nagle,
    cases::slow_reader,
    cases::used_to_the_full,
];

fn explained(fixture: &Fixture) -> Explanation {
    let written = fixture.write().expect("writes");
    explain(&written.recording).expect("a recording of our own reads")
}

fn answer(explanation: &Explanation, cause: &str) -> Answer {
    let all = &explanation.summary.causes;
    all.iter().find(|a| a.cause == cause).expect(cause).clone()
}

#[test]
fn what_is_ruled_out_is_so_by_a_number_on_its_side_of_the_limit() {
    for case in ALL {
        let explanation = explained(&case());
        for answer in &explanation.summary.causes {
            let ruled_out = answer.answer == Holds::No;
            assert_eq!(answer.refuted.is_some(), ruled_out, "{answer:?}");
            assert!(answer.because.is_some() || answer.answer == Holds::Yes);
            let Some(refuted) = &answer.refuted else {
                continue;
            };
            assert!(
                refuted.is_refuting() && !refuted.numbers.0.is_empty(),
                "{answer:?}"
            );
            let unsure = format!("{} could not be ruled out", answer.cause);
            let mut findings = explanation.findings.iter();
            assert!(
                !findings.any(|f| f.confidence.because.contains(&unsure)),
                "{unsure}"
            );
        }
    }
}

#[test]
fn where_nothing_was_to_be_seen_nothing_is_ruled_out() {
    let mut fixture = cases::churn();
    fixture.events.clear();
    fixture.sockets.clear();
    fixture.listeners.clear();
    fixture.counters.clear();
    let explanation = explained(&fixture);
    let ruled_out = explanation
        .summary
        .causes
        .iter()
        .filter(|a| a.answer == Holds::No);
    let by_packets: Vec<_> = ruled_out
        .filter(|a| a.cause != "descriptors-exhausted")
        .collect();
    assert!(by_packets.is_empty(), "{by_packets:?}");
}

#[test]
fn of_one_connect_without_an_answer_the_path_is_not_ruled_out() {
    let mut fixture = cases::churn();
    let churn = answer(&explained(&fixture), "path-drops-syn");
    assert_eq!(churn.answer, Holds::No);
    assert!(
        churn
            .refuted
            .is_some_and(|r| r.told == Told::From && r.value < r.limit)
    );
    fixture.without(SourceName::States);
    fixture.events.clear();
    let path = answer(&explained(&fixture), "path-drops-syn");
    assert_eq!(path.answer, Holds::CannotTell, "{path:?}");
}
