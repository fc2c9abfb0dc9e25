//! C36 is named by the kernel's reasons for what it drops.

use crate::causes::local_firewall_drop::tests::dropped;
use crate::causes::testing::{found, only, sysctls};
use crate::{Change, Level};
use recording::counter;
use synth::SERVER;

const ID: &str = "route-or-neighbour-failure";

#[test]
fn the_reverse_path() {
    let mut strict = dropped("IP_RPFILTER");
    strict.raise(SERVER, counter::IP_REVERSE_PATH_FILTER, 30);
    let all = found(&strict);
    let f = all.iter().find(|f| f.cause == ID).expect("found");
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert_eq!(f.impact.affected, 30);
    assert_eq!(
        sysctls(f),
        [(SERVER, "net.ipv4.conf.all.rp_filter=2".to_string())]
    );
    assert_eq!(all.len(), 1, "{:?}", all[1].cause);
    // The counter does not say so.
    let f = only(&dropped("IP_RPFILTER"), ID);
    assert_ne!(f.confidence.level, Level::High);
}

#[test]
fn no_route_and_no_neighbour() {
    for reason in ["IP_INNOROUTES", "NEIGH_FAILED"] {
        let f = only(&dropped(reason), ID);
        assert!(matches!(
            f.advice[0].change,
            Some(Change::RepairPath { .. })
        ));
    }
}

#[test]
fn a_rule_is_not_it() {
    only(&dropped("NETFILTER_DROP"), "local-firewall-drop");
    let mut share = dropped("NEIGH_FAILED");
    share.raise(SERVER, counter::OUT_SEGS, 50_000);
    assert!(found(&share).iter().all(|f| f.cause != ID));
    let mut few = dropped("IP_RPFILTER");
    let mut kept = 0;
    few.events.retain(|e| {
        kept += u32::from(e.reason.is_some());
        e.reason.is_none() || kept < 10
    });
    assert!(found(&few).iter().all(|f| f.cause != ID));
}
