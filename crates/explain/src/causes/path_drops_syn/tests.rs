//! C09 is named when SYNs vanish between here and there, and not when anything here explains it.

use recording::SourceName;

use crate::causes::testing::{found, only, ruled_out};
use crate::fixture::{self, CLIENT, Dial, Fixture, Listen};
use crate::{Change, Level};

const ID: &str = "path-drops-syn";

/// A third of 90 connects lose their first SYN; `resends` of the others' segments get lost.
fn lost(resends: u32) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for i in 0..90u16 {
        let at_ms = 100.0 + f64::from(i) * 50.0;
        let lost = i % 3 == 0;
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            at_ms,
            took_ms: if lost { 1_014.0 } else { 10.4 },
            retries: lost.into(),
            resends: if lost { 0 } else { resends },
            ends_ms: Some(at_ms + 1_100.0),
            ..Dial::default()
        });
    }
    f
}

#[test]
fn both_ends_here() {
    let f = only(&lost(0), ID);
    assert_eq!((f.impact.affected, f.impact.of), (30, 90));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.arithmetic.iter().all(|c| c.agrees) && f.arithmetic.len() == 2);
    let pass = Change::PassSyns {
        at: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(pass));
    assert!(ruled_out(&f, "local-firewall-drop").contains("dropped 0 SYNs"));
}

#[test]
fn only_the_client_here() {
    let mut recording = lost(0);
    recording.seen_from(CLIENT);
    let f = only(&recording, ID);
    assert_eq!(f.confidence.level, Level::Low);
    assert!(f.title.contains("beyond this host"), "{}", f.title);
}

#[test]
fn a_path_that_loses_everything_is_another_cause() {
    assert!(found(&lost(2)).iter().all(|f| f.cause != ID));
}

#[test]
fn without_drops_nobody_knows() {
    for source in [SourceName::Drops, SourceName::Retransmits] {
        let mut recording = lost(0);
        recording.without(source.clone());
        assert!(found(&recording).is_empty(), "{source}");
    }
}

#[test]
fn what_explains_it_here_is_named_instead() {
    for other in [
        fixture::accept_queue(),
        fixture::syn_queue(),
        fixture::refused(),
    ] {
        assert!(found(&other).iter().all(|f| f.cause != ID));
    }
    assert!(found(&fixture::churn()).is_empty());
}
