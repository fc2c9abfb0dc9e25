//! C47 is named when SYNs were dropped for lack of a translated port: at the maximum number of connections.

use recording::EventKind;
use recording::tables::{Event, Resource, TableSize};

use crate::Level;
use crate::causes::testing::{number, only, ruled_out};
use crate::{Change, Number};
use synth::{Dial, End, Fixture, SERVER, START_NS, SYN, place};

const ID: &str = "snat-ports-exhausted";
const AT: &str = "192.0.2.9:443";

/// This many connects, 50 ms apart, some of which lose a SYN in the namespace that translates; the others stay.
pub(crate) fn translated(connects: u32, loses: impl Fn(u32) -> bool, through: bool) -> Fixture {
    let mut f = Fixture::new();
    let (addr, port, family) = place(AT);
    let mut dropped = 0.0;
    for i in 0..connects {
        let at_ms = 200.0 + f64::from(i) * 50.0;
        let from = format!("10.79.0.2:{}", 30_000 + i);
        let dial = Dial {
            server: None,
            from: from.clone(),
            to: AT,
            at_ms,
            took_ms: 1.0,
            ..Dial::default()
        };
        if !loses(i) {
            f.dial(dial);
            continue;
        }
        f.dial(Dial {
            retries: 1,
            took_ms: 1_001.0,
            fate: if through {
                synth::Fate::Established
            } else {
                synth::Fate::Unanswered
            },
            ..dial
        });
        let here = End {
            netns: SERVER,
            sock: 0,
            family,
            local: (addr, port),
            remote: (place(&from).0, place(&from).1),
        };
        for n in 0..if through { 1 } else { 2 } {
            dropped += 1.0;
            f.events.push(Event {
                reason: Some("NETFILTER_DROP".into()),
                location: Some("nf_hook_slow".into()),
                ..here.stray(
                    START_NS + (at_ms * 1e6) as u64 + n * 1_000_000_000 + 1_000,
                    EventKind::Drop,
                    SYN,
                )
            });
        }
    }
    for metric in ["dropped", "insert_failed"] {
        for (second, value) in [(0, 3.0), (9, 3.0 + dropped)] {
            f.resources.push(Resource {
                time_ns: START_NS + second * 1_000_000_000,
                netns: SERVER,
                resource: "network".into(),
                instance: "conntrack".into(),
                aspect: "errors".into(),
                metric: metric.into(),
                value,
                unit: "count".into(),
                cumulative: true,
                limit: None,
            });
        }
    }
    f.table_sizes.push(TableSize {
        time_ns: START_NS + 5_000_000_000,
        netns: SERVER,
        structure: "conntrack".into(),
        entries: 300,
        limit: Some(262_144),
        ..TableSize::default()
    });
    f
}

#[test]
fn a_range_that_is_full() {
    let f = only(&translated(100, |i| i >= 64, false), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.scope.resource.as_deref(), Some("conntrack"));
    assert_eq!((f.scope.pid, f.scope.netns.inode), (Some(77), SERVER));
    assert_eq!(number(&f, "held_most"), &Number::Count(64));
    assert!(f.arithmetic.iter().all(|c| c.agrees), "{:?}", f.arithmetic);
    assert!(
        ruled_out(&f, "conntrack-insert-failed")
            .contains("dropped SYNs were from clients on this host")
    );
    assert!(ruled_out(&f, "conntrack-full").contains("held 300 of 262,144"));
    let more = Change::MoreAddresses {
        to: AT.into(),
        value: 2,
    };
    assert_eq!(f.advice[0].change, Some(more));
}

#[test]
fn what_a_rule_drops_is_no_want_of_ports() {
    let mut f = translated(100, |i| i >= 64, false);
    f.resources.clear();
    only(&f, "local-firewall-drop");
}
