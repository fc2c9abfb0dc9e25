//! What is forgotten, and what is not.

use proptest::prelude::*;
use recording::tables::Event;
use recording::{EventKind, FORMAT, Manifest, Recording, RetransmitKind, RowRef, TcpState, Writer};

use super::*;
use crate::{Activity, Outcome, Side, Story, account};

/// Between the beginnings of two connections, ns.
const STEP_NS: u64 = 100_000_000;

fn change(nth: u64, after_ns: u64, from: TcpState, to: TcpState) -> Event {
    Event {
        time_ns: nth * STEP_NS + after_ns,
        kind: EventKind::State,
        sock: Some(nth + 1),
        pid: Some(7),
        local_port: 10_000 + (nth % 50_000) as u16,
        remote_port: 80,
        old_state: Some(from),
        state: Some(to),
        ..Event::default()
    }
}

fn connects(nth: u64) -> Event {
    change(nth, 0, TcpState::Close, TcpState::SynSent)
}

/// A connection without trouble.
fn well(nth: u64) -> [Event; 3] {
    use TcpState::{Close, Established, LastAck, SynSent};
    [
        connects(nth),
        change(nth, 1_000, SynSent, Established),
        change(nth, 2_000, LastAck, Close),
    ]
}

fn again(nth: u64, after_ns: u64, state: TcpState) -> Event {
    Event {
        kind: EventKind::Retransmit,
        retransmit_kind: Some(RetransmitKind::Rto),
        ..change(nth, after_ns, state.clone(), state)
    }
}

#[test]
fn a_trouble_after_more_connections_than_are_kept_is_still_found() {
    use TcpState::{Close, Established, SynSent};
    const ALL: u64 = 1_000;
    const KEPT: usize = 64;
    let mut rows = Vec::new();
    for nth in 0..ALL {
        match nth {
            700 => rows.extend([
                connects(nth),
                again(nth, 1_000, SynSent),
                change(nth, 2_000, SynSent, Close),
            ]),
            800 => rows.extend([
                connects(nth),
                change(nth, 1_000, SynSent, Established),
                again(nth, 2_000, Established),
                Event {
                    kind: EventKind::ResetReceived,
                    ..change(nth, 3_000, Established, Established)
                },
                change(nth, 4_000, Established, Close),
            ]),
            900 => rows.extend([connects(nth), change(nth, 1_000, SynSent, Established)]),
            _ => rows.extend(well(nth)),
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host.tcpwhy");
    let end_ns = ALL * STEP_NS;
    let manifest = Manifest {
        format: FORMAT,
        end_ns,
        ..Manifest::default()
    };
    let writer = Writer::create(&path, &manifest).unwrap();
    let mut events = writer.table::<Event>().unwrap();
    for row in rows {
        events.push(row).unwrap();
    }
    events.seal().unwrap();
    let recording = Recording::open(&path).unwrap();
    let story = Story::keeping(KEPT, &recording).unwrap();

    assert!(story.conns.len() <= KEPT);
    assert_eq!(story.conns.len() as u64 + story.tally.folded, ALL);
    let at = |nth: u64| {
        let mut ids = story.conns.iter().zip(0..);
        ids.find(|(c, _)| c.start_ns == nth * STEP_NS).unwrap()
    };
    let (failed, _) = at(700);
    assert_eq!((failed.outcome, failed.syn_retries), (Outcome::Failed, 1));
    let (broken, id) = at(800);
    assert_eq!((broken.outcome, broken.retransmits), (Outcome::Closed, 1));
    assert_eq!(story.transfers.of(id).unwrap().resends.timeouts, 1);
    assert!(story.resets.received.contains_key(&id));
    assert_eq!(at(900).0.outcome, Outcome::Open);

    // What is forgotten still counts in shares, and its time in the account.
    let (services, untold) = account::account(&story);
    let ends: u64 = services.iter().map(|s| s.ends).sum();
    assert_eq!((ends, untold), (ALL, 0));
    let whole = Story::read(&recording).unwrap();
    assert_eq!(whole.tally.folded, 0);
    let total = |services: Vec<account::Service>| services.iter().map(|s| s.total_s).sum::<f64>();
    assert_eq!(total(services), total(account::account(&whole).0));
    let says = story.folded();
    assert!(says.iter().any(|(n, _)| *n == story.tally.folded));
}

#[test]
fn where_all_last_the_latest_are_counted() {
    let mut conns = Connections::since(0, 16);
    for nth in 0..20 {
        conns.state(
            at(nth),
            &connects(nth),
            Some(Activity::Opened),
            &TcpState::Close,
        );
        assert!(!conns.wants_room());
    }
    assert_eq!((conns.all.len(), conns.folded), (16, 4));
}

fn at(nth: u64) -> crate::place::EventRow {
    let row = RowRef {
        table: "event",
        segment: 0,
        row: nth as u32,
    };
    row.into()
}

/// Feeds connections that end as given, making room as a story does.
fn fed(ends: &[Option<bool>], most: usize) -> (Connections, u64) {
    let mut conns = Connections::since(0, most);
    let mut told = 0;
    for (end, nth) in ends.iter().zip(0..) {
        let [opens, stands, closes] = well(nth);
        if conns.wants_room() {
            let room = conns.make_room(opens.time_ns, &AHashSet::new(), |_, _| told += 1);
            assert!(room.is_none() || conns.all.len() < most);
        }
        let mut tell = |row: &Event| {
            let old = row.old_state.clone().unwrap_or_default();
            conns.state(at(nth), row, Activity::of(row), &old);
        };
        tell(&opens);
        match end {
            Some(true) => [stands, closes].iter().for_each(tell),
            Some(false) => tell(&change(nth, 2_000, TcpState::SynSent, TcpState::Close)),
            None => tell(&stands),
        }
    }
    (conns, told)
}

proptest! {
    #[test]
    fn what_is_kept_and_what_is_folded_is_all_that_was_seen(
        ends in prop::collection::vec(prop::option::weighted(0.8, prop::bool::weighted(0.9)), 0..400),
        most in 1usize..64,
    ) {
        let (conns, told) = fed(&ends, most);
        prop_assert_eq!(conns.all.len() as u64 + conns.folded, ends.len() as u64);
        prop_assert!(conns.all.len() <= most && told <= conns.folded);
        prop_assert!(conns.all.iter().all(|c| c.side == Side::Opened));
        for (sock, id) in &conns.of_sock {
            let conn = &conns.all[*id as usize];
            prop_assert_eq!(conn.start_ns, (sock - 1) * STEP_NS);
        }
    }
}
