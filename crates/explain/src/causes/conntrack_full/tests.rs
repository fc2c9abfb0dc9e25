//! C33 is named when the table itself reports that it is full, otherwise the rule is to blame.

use recording::tables::{Resource, TableSize};

use crate::causes::local_firewall_drop::tests::dropped;
use crate::causes::testing::only;
use crate::{Change, Level};
use synth::{Fixture, SERVER, START_NS};

const ID: &str = "conntrack-full";
/// The function that drops when no rule does, or when the kernel does not report which.
const HOOK: &str = "nf_hook_slow";

/// The same drops, with a table of this many entries that itself counts this many drops.
fn tracked(entries: u64, counted: f64, location: &str) -> Fixture {
    let mut f = dropped("NETFILTER_DROP");
    for event in f.events.iter_mut().filter(|e| e.location.is_some()) {
        event.location = Some(location.into());
    }
    f.table_sizes.push(TableSize {
        time_ns: START_NS + 5_000_000_000,
        netns: SERVER,
        structure: "conntrack".into(),
        entries,
        limit: Some(262_144),
        ..TableSize::default()
    });
    for (second, value) in [(0, 7.0), (9, 7.0 + counted)] {
        f.resources.push(Resource {
            time_ns: START_NS + second * 1_000_000_000,
            netns: SERVER,
            resource: "network".into(),
            instance: "conntrack".into(),
            aspect: "errors".into(),
            metric: "dropped".into(),
            value,
            unit: "count".into(),
            cumulative: true,
            limit: None,
        });
    }
    f
}

#[test]
fn a_full_table() {
    let f = only(&tracked(262_144, 30.0, HOOK), ID);
    assert_eq!(f.scope.resource.as_deref(), Some("conntrack"));
    assert_eq!((f.impact.affected, f.impact.of), (30, 90));
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    let raise = Change::Sysctl {
        netns: 0,
        name: "net.netfilter.nf_conntrack_max".into(),
        value: "524288".into(),
    };
    assert_eq!(f.advice[0].change, Some(raise));
}

#[test]
fn a_table_with_room_is_not_to_blame() {
    only(&tracked(1_000, 0.0, HOOK), "local-firewall-drop");
}

#[test]
fn a_full_table_beside_a_rule_that_drops() {
    // By its own count it dropped only a few of them.
    only(&tracked(262_144, 5.0, HOOK), "local-firewall-drop");
    // It dropped many, but these were dropped while walking a chain.
    only(
        &tracked(262_144, 900.0, "nft_do_chain"),
        "local-firewall-drop",
    );
}

#[test]
fn the_advice_knows_what_is_set() {
    let timeout = "net.netfilter.nf_conntrack_tcp_timeout_established";
    let sooner = |seconds| {
        let mut full = tracked(262_144, 30.0, HOOK);
        full.set(SERVER, timeout, seconds);
        let f = only(&full, ID);
        let advice = f.advice.iter().find(|a| a.action.contains("Expire silent"));
        advice.map(|a| {
            let undo = a.undo.as_deref().unwrap_or_default();
            (a.action.clone(), undo.to_string())
        })
    };
    let (action, undo) = sooner("86400").expect("a day is long");
    assert!(action.contains("from 24 hours to an hour"), "{action}");
    assert!(undo.ends_with(&format!("{timeout}=86400")), "{undo}");
    assert_eq!(sooner("1800"), None, "it is shorter already");
    let f = only(&tracked(262_144, 30.0, HOOK), ID);
    let flush = f.advice.last().expect("advice");
    assert!(flush.risk.starts_with("Disruptive"), "{flush:?}");
}
