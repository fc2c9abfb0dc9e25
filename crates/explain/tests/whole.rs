//! What explain promises as a whole: the same words each time, the causes asked for, its book.

use explain::{Explanation, Options, State, explain, explain_with};
use synth::cases;

#[test]
fn the_same_recording_gives_the_same_words() {
    let written = cases::syn_cookies().write().expect("writes");
    let once = explain(&written.recording).expect("reads");
    let again = explain(&written.recording).expect("reads");
    let json = |e: &Explanation| serde_json::to_string(e).expect("serialises");
    assert_eq!(json(&once), json(&again));
}

#[test]
fn only_the_cause_that_is_asked_for_is_tested() {
    let written = cases::syn_cookies().write().expect("writes");
    let options = Options::only("connection-refused").expect("it is known");
    let e = explain_with(&written.recording, &options).expect("reads");
    assert_eq!((e.findings.len(), e.summary.causes.len()), (0, 1));
    let unknown = Options::only("gremlins").expect_err("it is not known");
    let says = unknown.to_string();
    assert!(
        says.contains("gremlins") && says.contains("syn-queue-overflow"),
        "{says}"
    );
}

#[test]
fn the_book_has_each_state_of_the_account() {
    let page = include_str!("../../../docs/account.md");
    for state in State::ALL {
        let row = format!("| `{}` | {} |", state.name(), state.says());
        assert!(page.contains(&row), "docs/account.md lacks {row}");
    }
}

#[test]
fn the_book_has_a_page_for_each_cause() {
    let page = explain::causes_page(|_| Vec::new(), |_| None);
    for cause in explain::causes() {
        assert!(page.contains(&format!("## {} `{}`", cause.number, cause.id)));
        for part in ["**Symptom.**", "**Mechanism.**", "**Distinguish.**"] {
            assert!(cause.page.contains(part), "{} lacks {part}", cause.id);
        }
        assert!(
            cause.page.lines().all(|l| l.chars().count() <= 100),
            "{}",
            cause.id
        );
    }
}

#[test]
fn every_cause_says_what_people_see_of_it() {
    let all = explain::signatures();
    let page = explain::symptoms_page();
    for cause in explain::causes() {
        let its = all.iter().filter(|(_, of)| of.id == cause.id);
        assert!(its.count() >= 1, "{} has no signature", cause.id);
        assert!(page.contains(&format!("(causes.md#{}-", cause.number.to_lowercase())));
    }
    for (seen, cause) in &all {
        let twice = all
            .iter()
            .filter(|(other, of)| other == seen && of.id == cause.id);
        assert_eq!(twice.count(), 1, "{seen}");
        assert!(seen.chars().count() <= 90 && !seen.ends_with('.'), "{seen}");
    }
}

#[test]
fn every_number_is_told_or_has_a_reason() {
    let page = explain::causes_page(|_| Vec::new(), |_| None);
    for number in 1..=53 {
        let number = format!("C{number:02}");
        let told = explain::causes().iter().any(|c| c.number == number);
        let reason = page.contains(&format!("| {number} | "));
        assert!(told != reason, "{number}");
    }
}
