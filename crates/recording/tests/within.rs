//! A part of a recording: the rows of its time, at the places they have in the whole.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use recording::tables::{Event, Setting, Socket};
use recording::{EventKind, FORMAT, Manifest, Recording, RowRef, Table, TcpState, Writer};

/// Writes segments of a table.
fn written<T: Table + Clone>(dir: &std::path::Path, segments: &[Vec<T>]) -> Recording {
    let path = dir.join("r.tcpwhy");
    let manifest = Manifest {
        format: FORMAT,
        end_ns: 1_000,
        ..Manifest::default()
    };
    let writer = Writer::create(&path, &manifest).unwrap();
    let mut table = writer.table::<T>().unwrap();
    for segment in segments {
        for row in segment {
            table.push(row.clone()).unwrap();
        }
        table.seal().unwrap();
    }
    Recording::open(&path).unwrap()
}

fn rows<T: Table>(recording: &Recording) -> Vec<(RowRef, T)> {
    let batches = recording.scan::<T>().unwrap().map(Result::unwrap);
    let rows = batches.map(|batch| batch.rows().collect::<Vec<_>>());
    rows.flatten().collect()
}

prop_compose! {
    /// A change of state, or a whole life.
    fn event()(
        time_ns in 0..1_000u64, lasted in option::of((0..500u64, option::of(0..500u64))),
    ) -> Event {
        let established_ns = lasted.map(|(ns, _)| time_ns.saturating_sub(ns));
        let connect_ns = lasted.and_then(|(_, took)| Some(established_ns?.saturating_sub(took?)));
        Event {
            time_ns,
            kind: EventKind::State,
            sock: Some(time_ns),
            state: Some(TcpState::Close),
            old_state: Some(TcpState::LastAck),
            connect_ns,
            established_ns,
            ..Event::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn events_are_those_of_its_time(
        segments in vec(vec(event(), 0..20), 0..4), from in 0..1_000u64, length in 0..1_000u64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let whole = written(dir.path(), &segments);
        let part = whole.within(from, from + length);
        let is_within = |e: &(RowRef, Event)| (from..=from + length).contains(&e.1.time_ns);
        let expected: Vec<_> = whole.events().unwrap().map(Result::unwrap).filter(is_within).collect();
        let events: Vec<_> = part.events().unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(events, expected);
        prop_assert_eq!(part.manifest.start_ns, from);
        prop_assert_eq!(part.manifest.end_ns, 1_000.min(from + length));
    }

    #[test]
    fn samples_are_those_of_its_time(
        times in vec(vec(0..1_000u64, 0..20), 0..4), from in 0..1_000u64, length in 0..1_000u64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let of_time = |time_ns: &u64| Socket { time_ns: *time_ns, ..Socket::default() };
        let segments: Vec<Vec<Socket>> = times.iter().map(|t| t.iter().map(of_time).collect()).collect();
        let whole = written(dir.path(), &segments);
        let part = whole.within(from, from + length);
        let mut expected = rows::<Socket>(&whole);
        expected.retain(|(_, row)| (from..=from + length).contains(&row.time_ns));
        prop_assert_eq!(rows::<Socket>(&part), expected);
    }
}

#[test]
fn what_is_said_once_was_said_before() {
    let dir = tempfile::tempdir().unwrap();
    let of_time = |time_ns| Setting {
        time_ns,
        ..Setting::default()
    };
    let whole = written(
        dir.path(),
        &[vec![of_time(1), of_time(500)], vec![of_time(900)]],
    );
    let part = whole.within(400, 600);
    let times: Vec<u64> = rows::<Setting>(&part)
        .iter()
        .map(|(_, s)| s.time_ns)
        .collect();
    assert_eq!(times, [1, 500]);
}
