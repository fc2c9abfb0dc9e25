//! C06 is named when cookies cost options, and not when they do not.

use crate::finding::{Change, Level, Number};
use crate::fixture::{self, CLIENT, Dial, Fixture, Listen, SERVER};
use crate::{Explanation, Finding};

fn explained(f: &Fixture) -> Explanation {
    let e = f.explain().expect("a recording of our own reads");
    let errors = e.summary.health.iter().filter(|n| n.says.contains("internal error"));
    assert_eq!(errors.count(), 0, "{:?}", e.summary.health);
    e
}

fn only(e: &Explanation) -> &Finding {
    let ids: Vec<_> = e.findings.iter().map(|f| f.cause).collect();
    assert_eq!(ids, ["syn-cookie-options-lost"]);
    &e.findings[0]
}

#[test]
fn both_ends_here() {
    let e = explained(&fixture::syn_cookies());
    let f = only(&e);
    println!("{}", serde_json::to_string_pretty(f).expect("serialises"));
    assert_eq!((f.impact.affected, f.impact.of), (92, 98));
    assert_eq!((f.scope.pid, f.scope.backlog), (Some(812), Some(5)));
    assert_eq!(f.confidence.level, Level::High);
    assert_eq!(f.impact.throughput_ratio, Some(0.0504));
}
