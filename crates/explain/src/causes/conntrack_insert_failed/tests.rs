//! C46 is named when SYNs were dropped because another packet had taken their entry, at any number of connections.

use crate::Level;
use crate::causes::snat_ports_exhausted::tests::translated;
use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Number};
use synth::SERVER;

const ID: &str = "conntrack-insert-failed";

#[test]
fn a_race_now_and_then() {
    let f = only(&translated(120, |i| i % 8 == 3, true), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(number(&f, "insert_failed"), &Number::Count(15));
    assert_eq!(number(&f, "lost_twice"), &Number::Count(0));
    assert!(f.arithmetic.iter().all(|c| c.agrees), "{:?}", f.arithmetic);
    assert!(ruled_out(&f, "snat-ports-exhausted").contains("had an entry; reported from 90 %"));
    assert!(ruled_out(&f, "conntrack-full").contains("held 300"));
    let pass = Change::PassPackets {
        netns: Some(SERVER),
        at: "192.0.2.9:443".into(),
    };
    assert_eq!(f.advice[0].change, Some(pass));
}

#[test]
fn what_was_not_counted_is_a_rules() {
    let mut f = translated(120, |i| i % 8 == 3, true);
    f.resources.retain(|r| &*r.metric != "insert_failed");
    // The table dropped them, for an unknown reason.
    f.resources.retain(|r| &*r.metric != "dropped");
    only(&f, "local-firewall-drop");
}

#[test]
fn what_most_connects_waited_for_is_not_claimed() {
    let mut f = translated(240, |i| i % 4 == 1, true);
    // 12 of 60 unanswered SYNs were dropped here.
    let mut left = 12;
    f.events.retain(|e| {
        let dropped = e.reason.as_deref() == Some("NETFILTER_DROP");
        left -= i32::from(dropped);
        !dropped || left >= 0
    });
    for resource in f.resources.iter_mut().filter(|r| r.value > 3.0) {
        resource.value = 15.0;
    }
    let findings = found(&f);
    let f = findings
        .iter()
        .find(|f| f.cause == ID)
        .expect("12 are told");
    // What is lost on the path accounts for its part of each wait.
    assert_eq!(f.lost_s.seconds().map(f64::round), Some(10.0));
    let said = &f.impact.says;
    assert!(said.starts_with("12 of 240"), "{said}");
    assert!(
        said.contains("48 SYNs were unanswered for another reason"),
        "{said}"
    );
}
