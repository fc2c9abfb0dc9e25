//! C59 is named where the receiver's kernel drops packets as damaged, by whichever side is here.

use recording::counter;

use crate::Level;
use crate::causes::local_firewall_drop::tests::{dropped, upload_with_drops};
use crate::causes::testing::{found, only};
use synth::{Fixture, SERVER};

const ID: &str = "damaged-packets";

fn damaged(mut f: Fixture, reason: &str) -> Fixture {
    for event in &mut f.events {
        if event.kind == recording::EventKind::Drop {
            (event.netns, event.reason) = (SERVER, Some(reason.into()));
        }
    }
    f
}

#[test]
fn data_that_arrives_damaged_is_not_lost_on_the_path() {
    for reason in ["TCP_CSUM", "SKB_CSUM", "IP_CSUM", "IP_INHDR"] {
        let mut f = damaged(upload_with_drops(), reason);
        // Each of its samples finds it in repair.
        f.sockets
            .iter_mut()
            .for_each(|row| row.ca_state = Some("Loss".into()));
        let f = only(&f, ID);
        assert!(f.title.contains("arrive damaged"), "{}", f.title);
        assert!(f.lost_s.seconds() > Some(0.0), "{:?}", f.lost_s.seconds());
    }
}

#[test]
fn the_counters_of_the_receiver_confirm_it() {
    let mut f = damaged(upload_with_drops(), "TCP_CSUM");
    f.raise(SERVER, counter::IN_CSUM_ERRORS, 10_000);
    let counted = only(&f, ID);
    let check = counted.arithmetic.first().expect("a cross-check");
    assert!(check.agrees, "{check:?}");
}

#[test]
fn damaged_syns_are_not_lost_beyond_this_host() {
    let f = only(&damaged(dropped("TCP_CSUM"), "TCP_CSUM"), ID);
    assert!(f.lost_s.seconds() >= Some(30.0), "{:?}", f.lost_s.seconds());
}

#[test]
fn senders_elsewhere_are_told_with_what_is_not_known() {
    let mut f = damaged(dropped("TCP_CSUM"), "TCP_CSUM");
    f.seen_from(SERVER);
    let f = only(&f, ID);
    assert_ne!(f.confidence.level, Level::High);
    assert!(f.lost_s.seconds().is_none(), "{:?}", f.lost_s.seconds());
}

#[test]
fn a_few_damaged_ones_are_none() {
    let mut f = damaged(dropped("TCP_CSUM"), "TCP_CSUM");
    let mut kept = 0;
    f.events.retain(|e| {
        kept += u32::from(e.reason.is_some());
        e.reason.is_none() || kept < 5
    });
    assert!(found(&f).iter().all(|f| f.cause != ID));
}
