//! What is written is what is read: every table, any values, any order, any number of segments.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use recording::tables::{Counter, Event, Holder, Listener, Socket};
use recording::{
    Addr, EventKind, FORMAT, Feed, Manifest, Next, Recording, RowRef, Table, TcpState, Text, Writer,
};

fn manifest() -> Manifest {
    Manifest {
        format: FORMAT,
        ..Manifest::default()
    }
}

/// Writes `rows`, sealing after each chunk, and reads them back.
fn there_and_back<T: Table + Clone>(chunks: &[Vec<T>]) -> Vec<(RowRef, T)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let writer = Writer::create(&path, &manifest()).unwrap();
    let mut table = writer.table::<T>().unwrap();
    for chunk in chunks {
        for row in chunk {
            table.push(row.clone()).unwrap();
        }
        table.seal().unwrap();
    }
    let recording = Recording::open(&path).unwrap();
    let mut back = Vec::new();
    for batch in recording.scan::<T>().unwrap() {
        back.extend(batch.unwrap().rows());
    }
    for (at, _) in &back {
        let rows = recording.segment_rows(at.table, at.segment).unwrap();
        assert!(u64::from(at.row) < rows.unwrap());
    }
    back
}

#[test]
fn a_slow_producer_seals_before_the_next_turn_would_be_too_late() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let writer = Writer::create(&path, &manifest()).unwrap();
    let mut table = writer.table::<Counter>().unwrap();
    table.push(Counter::default()).unwrap();
    table.seal_if_due().unwrap();
    let sealed = || {
        Recording::open(&path)
            .unwrap()
            .scan::<Counter>()
            .unwrap()
            .count()
    };
    assert_eq!(sealed(), 0, "a new segment stays open");
    // Half of the 3 s that a crash may lose: another turn like this one ends beyond them.
    std::thread::sleep(std::time::Duration::from_millis(1600));
    table.seal_if_due().unwrap();
    assert_eq!(sealed(), 1);
}

/// What reading must give: each segment sorted by time, equal times in the order written.
fn expected<T: Table + Clone>(chunks: &[Vec<T>]) -> Vec<T> {
    let mut all = Vec::new();
    for chunk in chunks {
        let mut chunk = chunk.clone();
        chunk.sort_by_key(T::time_ns);
        all.extend(chunk);
    }
    all
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        Just(Text::from("ESTABLISHED")),
        "\\PC{0,12}".prop_map(Text::from)
    ]
}

fn addr() -> impl Strategy<Value = Addr> {
    any::<[u8; 16]>().prop_map(Addr)
}

prop_compose! {
    fn event()(
        time_ns in prop_oneof![any::<u64>(), 0..3u64], kind in text().prop_map(EventKind::from), sock in option::of(any::<u64>()),
        addrs in (addr(), addr()), ports in any::<(u16, u16)>(), reason in option::of(text()),
        flags in option::of(any::<u8>()), seq in option::of(any::<u32>()),
        cookie in option::of(any::<bool>()), bytes_acked in option::of(any::<u64>()),
    ) -> Event {
        Event {
            time_ns, kind, sock, reason, flags, seq, cookie, bytes_acked,
            local_addr: addrs.0, remote_addr: addrs.1, local_port: ports.0, remote_port: ports.1,
            ..Event::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn events(chunks in vec(vec(event(), 0..40), 0..4)) {
        let back: Vec<Event> = there_and_back(&chunks).into_iter().map(|(_, row)| row).collect();
        prop_assert_eq!(back, expected(&chunks));
    }

    #[test]
    fn counters(values in vec((any::<i64>(), option::of(any::<i64>()), text()), 0..50)) {
        let rows: Vec<Counter> = values.into_iter().enumerate().map(|(i, (value, delta, name))| {
            Counter { time_ns: i as u64, value, delta, name, ..Counter::default() }
        }).collect();
        let back: Vec<Counter> =
            there_and_back(std::slice::from_ref(&rows)).into_iter().map(|(_, row)| row).collect();
        prop_assert_eq!(back, rows);
    }
}

#[test]
fn every_kind_of_cell_survives_null_and_extremes() {
    let empty = Socket::default();
    let full = Socket {
        time_ns: 1,
        netns: u32::MAX,
        sock: u64::MAX,
        inode: Some(0),
        state: TcpState::TimeWait,
        ecn: Some(true),
        snd_wscale: Some(14),
        min_rtt_us: Some(u32::MAX),
        pacing_rate: Some(u64::MAX),
        congestion: Some("bbr".into()),
        ..Socket::default()
    };
    let rows = vec![empty, full];
    let back: Vec<Socket> = there_and_back(std::slice::from_ref(&rows))
        .into_iter()
        .map(|(_, r)| r)
        .collect();
    assert_eq!(back, rows);
}

#[test]
fn many_rows_make_several_groups_and_stay_in_place() {
    // More than a row group and more than a batch of the reader.
    let row = |i: u64| Holder {
        time_ns: i,
        inode: i * 7,
        pid: i as u32,
        comm: Text::from(format!("c{}", i % 300)),
        fd: 3,
    };
    let rows: Vec<Holder> = (0..150_000).map(row).collect();
    let back = there_and_back(std::slice::from_ref(&rows));
    assert_eq!(back.len(), rows.len());
    for (i, (at, got)) in back.iter().enumerate() {
        assert_eq!((at.segment, at.row), (1, i as u32));
        assert_eq!(*got, rows[i]);
    }
}

#[test]
fn a_table_never_written_reads_as_empty() {
    assert!(there_and_back::<Listener>(&[]).is_empty());
}

#[test]
fn addresses_print_as_people_write_them() {
    let v4 = Addr::from(std::net::Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(v4.to_string(), "10.0.0.1");
    assert!(Addr::from(std::net::Ipv4Addr::UNSPECIFIED).is_any());
    assert!(Addr::default().is_any());
    let v6: std::net::IpAddr = "fe80::1".parse().unwrap();
    assert_eq!(Addr::from(v6).to_string(), "fe80::1");
}

#[test]
fn a_feed_gives_what_was_pushed_table_by_table_and_then_ends() {
    let (writer, feed) = Feed::new();
    let (mut events, mut counters) = (writer.table().unwrap(), writer.table().unwrap());
    let event = Event {
        time_ns: 7,
        kind: EventKind::State,
        ..Event::default()
    };
    let counter = Counter {
        name: "TCPSynRetrans".into(),
        ..Counter::default()
    };
    events.push(event.clone()).unwrap();
    counters.push(counter.clone()).unwrap();
    events.seal().unwrap();
    counters.seal().unwrap();
    drop((writer, events, counters));

    let wait = std::time::Duration::from_secs(60);
    let Next::Segment(first) = feed.next(wait) else {
        panic!("a segment was sent");
    };
    assert!(first.rows::<Counter>().is_none());
    let batch = first.rows::<Event>().unwrap().unwrap();
    assert_eq!(batch.rows().map(|(_, e)| e).collect::<Vec<_>>(), [event]);
    let Next::Segment(second) = feed.next(wait) else {
        panic!("a second segment was sent");
    };
    let batch = second.rows::<Counter>().unwrap().unwrap();
    assert_eq!(batch.rows().map(|(_, c)| c).collect::<Vec<_>>(), [counter]);
    assert!(matches!(feed.next(wait), Next::End));
}

#[test]
fn writing_to_a_feed_that_nobody_reads_is_an_error() {
    let (writer, feed) = Feed::new();
    let mut table = writer.table::<Event>().unwrap();
    drop(feed);
    table.push(Event::default()).unwrap();
    assert!(table.seal().is_err());
}

#[test]
fn a_whole_life_comes_apart_in_order_among_the_other_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let writer = Writer::create(&path, &manifest()).unwrap();
    let mut table = writer.table::<Event>().unwrap();
    let life = Event {
        time_ns: 90,
        kind: EventKind::State,
        sock: Some(1),
        state: Some(TcpState::Close),
        old_state: Some(TcpState::LastAck),
        pid: Some(7),
        mss: Some(1460),
        bytes_acked: Some(100),
        connect_ns: Some(10),
        established_ns: Some(30),
        ..Event::default()
    };
    let drop = |time_ns| Event {
        time_ns,
        kind: EventKind::Drop,
        ..Event::default()
    };
    for row in [drop(20), drop(40), life, drop(95)] {
        table.push(row).unwrap();
    }
    table.seal().unwrap();
    // A segment of its own: nothing of it comes before the end of the first.
    table.push(drop(5)).unwrap();
    table.seal().unwrap();

    let events = Recording::open(&path).unwrap().events().unwrap();
    let events: Vec<_> = events.map(Result::unwrap).collect();
    let times: Vec<_> = events.iter().map(|(_, e)| e.time_ns).collect();
    assert_eq!(times, [10, 20, 30, 40, 90, 95, 5]);
    let (connect, established, end) = (&events[0].1, &events[2].1, &events[4].1);
    assert_eq!(connect.state, Some(TcpState::SynSent));
    assert_eq!((connect.pid, connect.mss), (Some(7), None));
    assert_eq!(established.old_state, Some(TcpState::SynSent));
    assert_eq!((established.pid, established.mss), (None, Some(1460)));
    assert_eq!(end.old_state, Some(TcpState::LastAck));
    assert_eq!((end.pid, end.bytes_acked), (None, Some(100)));
    assert_eq!(end.established_ns, None);
    let places = [0, 2, 4].map(|i: usize| events[i].0.row);
    assert_eq!(places, [2, 2, 2], "each step is in the row of the life");
}
