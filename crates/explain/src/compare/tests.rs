//! Recordings are told apart by what differs, and not when nothing does.

use super::*;
use recording::counter;
use synth::{CLIENT, Dial, Fixture, Flow, Listen, SERVER};

fn read(name: String, recording: &Recording) -> Run {
    let reading = crate::Reading::of(recording).unwrap();
    let explanation = reading.explain(recording, &Options::default()).unwrap();
    reading.run(name, recording, &explanation).unwrap()
}

/// Twelve uploads, the first `slow` of them without options.
fn mesh(name: &str, slow: u16) -> Run {
    let mut f = Fixture::new();
    f.set(SERVER, "net.ipv4.tcp_timestamps", "0");
    f.listen(Listen {
        backlog: 5,
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.SyncookiesRecv", 0, slow.into());
    f.count(CLIENT, "Tcp.OutSegs", 10, 50_000);
    for i in 0..12u16 {
        let bad = i < slow;
        let rate = if bad {
            6_300_000
        } else {
            12_000_000 + u64::from(i) * 20_000
        };
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            cookie: Some(bad),
            options: [!bad, !bad, false],
            sends: rate * 8,
            rate,
            cwnd: if bad { 90 } else { 300 },
            ..Dial::default()
        });
    }
    let written = f.write().unwrap();
    read(name.to_string(), &written.recording)
}

#[test]
fn runs_have_two_modes_and_sack_separates_the_sockets() {
    let runs: Vec<Run> = (0..20)
        .map(|i| mesh(&i.to_string(), if i % 5 == 0 { 3 } else { 0 }))
        .collect();
    let c = of(&runs);
    assert_eq!(c.by, By::Modes);
    assert_eq!(c.slow.map(|m| m.count), Some(4));
    let slow: Vec<_> = c.runs.iter().filter(|r| r.slow).map(|r| &*r.name).collect();
    assert_eq!(slow, ["0", "5", "10", "15"]);
    assert!(
        c.runs
            .iter()
            .all(|r| r.slow_sockets == if r.slow { 3 } else { 0 })
    );
    let sockets = c.sockets.unwrap();
    assert_eq!((sockets.slow, sockets.compared), (12, 240));
    let perfect = sockets.attributes.iter().filter(|a| a.fit() == 1.0);
    let perfect: Vec<_> = perfect.map(|a| (a.attribute, &*a.value)).collect();
    assert!(perfect.contains(&("SACK", "no")) && perfect.contains(&("window scaling", "no")));
    assert_eq!(perfect.len(), 3, "and the cookie: {perfect:?}");
    let cookies = &c.counters[0];
    assert!(cookies.counter == "TcpExt.SyncookiesRecv" && cookies.separates);
    assert!(c.settings.is_empty());
}

#[test]
fn two_are_compared_as_given() {
    let mut runs = vec![mesh("fast", 0), mesh("slow", 3)];
    let c = of(&runs);
    assert_eq!(
        (c.by, c.runs[0].slow, c.runs[1].slow),
        (By::Order, false, true)
    );
    let values = std::collections::BTreeSet::from(["0".to_string()]);
    let sack = "net.ipv4.tcp_sack".to_string();
    runs[1].settings.insert(sack.clone(), values);
    let c = of(&runs);
    assert_eq!((&c.settings[0].setting, c.settings.len()), (&sack, 1));
}

#[test]
fn equal_runs_are_equal() {
    let runs: Vec<Run> = (0..5).map(|i| mesh(&i.to_string(), 0)).collect();
    let c = of(&runs);
    assert_eq!(c.by, By::Nothing);
    assert!(c.sockets.is_none() && c.counters.is_empty() && c.settings.is_empty());
    assert!(of(&[]).runs.is_empty());
}

/// A recording of a day, with so many connections tracked of 1,000.
fn day(day: u64, entries: u64) -> Run {
    let mut f = Fixture::new();
    f.manifest.start_ns += day * 86_400 * 1_000_000_000;
    let time_ns = f.manifest.start_ns;
    f.table_sizes.push(recording::tables::TableSize {
        time_ns,
        structure: "conntrack".into(),
        entries,
        limit: Some(1_000),
        ..recording::tables::TableSize::default()
    });
    let written = f.write().unwrap();
    read(day.to_string(), &written.recording)
}

#[test]
fn what_grows_from_day_to_day_is_a_trend_with_the_day_of_its_limit() {
    // In whatever order they are given.
    let runs = [(4, 500), (0, 100), (2, 300)].map(|(at, n)| day(at, n));
    let trends = of(&runs).trends;
    let [t] = &trends[..] else {
        panic!("{trends:?}")
    };
    assert_eq!(
        (t.what.as_str(), t.first, t.last),
        ("entries of conntrack", 100.0, 500.0)
    );
    assert_eq!((t.per_day, t.tau, t.limit_in_days), (100.0, 1.0, Some(5.0)));
}

#[test]
fn the_tables_of_namespaces_are_summed_whatever_their_number() {
    // Of 200 entries each, in one namespace more every day.
    let run = |namespaces: u64| {
        let mut f = Fixture::new();
        f.manifest.start_ns += namespaces * 86_400 * 1_000_000_000;
        let time_ns = f.manifest.start_ns;
        for netns in 1..=namespaces as u32 {
            f.table_sizes.push(recording::tables::TableSize {
                time_ns,
                netns,
                structure: "neighbours".into(),
                entries: 200,
                limit: Some(1_024),
                ..recording::tables::TableSize::default()
            });
        }
        let written = f.write().unwrap();
        read(namespaces.to_string(), &written.recording)
    };
    let trends = of(&[1, 2, 3].map(run)).trends;
    let [t] = &trends[..] else {
        panic!("{trends:?}")
    };
    assert_eq!((t.first, t.last, t.per_day), (200.0, 600.0, 200.0));
    assert_eq!(t.limit, None, "it is of each namespace");
}

#[test]
fn what_goes_up_and_down_or_is_of_one_moment_is_no_trend() {
    assert_eq!(
        of(&[(0, 100), (2, 900), (4, 200)].map(|(at, n)| day(at, n)))
            .trends
            .len(),
        0
    );
    assert_eq!(
        of(&[(0, 100), (0, 300), (0, 900)].map(|(at, n)| day(at, n)))
            .trends
            .len(),
        0
    );
    assert_eq!(
        of(&[(0, 100), (4, 900)].map(|(at, n)| day(at, n)))
            .trends
            .len(),
        0
    );
}

/// A recording with so many connects a second, and so many of 100,000 packets dropped.
fn loaded(connects: i64, dropped: i64) -> Run {
    let mut f = Fixture::new();
    f.count(CLIENT, counter::ACTIVE_OPENS, 7, connects * 10);
    f.count(SERVER, counter::IN_SEGS, 7, 100_000 - dropped);
    f.count(SERVER, counter::INTR_QUEUE_DROPS, 7, dropped);
    let written = f.write().unwrap();
    read(connects.to_string(), &written.recording)
}

fn losses<const N: usize>(runs: [(i64, i64); N]) -> Vec<LoadLoss> {
    of(&runs.map(|(connects, dropped)| loaded(connects, dropped))).loss_over_load
}

#[test]
fn loss_that_rises_with_the_load_is_told_with_where_it_begins() {
    // In whatever order they are given.
    let found = losses([(2_000, 26_200), (500, 320), (1_000, 3_380)]);
    let [loss] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(loss.what.contains("IP interrupt") && loss.unit == Unit::Connects);
    let points = loss.points.iter().map(|p| (p.run, p.load, p.share));
    let points: Vec<_> = points.collect();
    let expected = [
        (1, 500.0, 0.0032),
        (2, 1_000.0, 0.0338),
        (0, 2_000.0, 0.262),
    ];
    assert_eq!(points, expected);
    assert_eq!((loss.tau, loss.begins), (1.0, [500.0, 1_000.0]));
    // Of two as well.
    assert_eq!(losses([(500, 0), (1_000, 40)]).len(), 1);
}

#[test]
fn loss_begins_behind_the_loads_that_lose_nothing() {
    let runs = [(100, 0), (200, 1), (400, 0), (800, 900), (1_600, 8_000)];
    assert_eq!(losses(runs)[0].begins, [400.0, 800.0]);
}

#[test]
fn runs_of_one_load_do_not_hide_that_loss_depends_on_it() {
    let runs = [
        (100, 10),
        (101, 30),
        (100, 20),
        (800, 900),
        (801, 300),
        (802, 600),
    ];
    assert_eq!(losses(runs)[0].tau, 1.0);
}

#[test]
fn loss_that_does_not_follow_the_load_is_not_told() {
    let none = |told: Vec<LoadLoss>| assert!(told.is_empty(), "{told:?}");
    // A path that loses one of a hundred at any load.
    none(losses([(500, 1_000), (1_000, 1_020), (2_000, 990)]));
    // The other way, up and down, and at one load.
    none(losses([(500, 3_000), (1_000, 1_000), (2_000, 10)]));
    none(losses([(250, 10), (500, 3_000), (1_000, 20), (2_000, 400)]));
    none(losses([(500, 10), (505, 300), (510, 3_000)]));
    // Three packets are luck; one connect a second is no load.
    none(losses([(500, 0), (1_000, 0), (2_000, 3)]));
    none(losses([(0, 0), (0, 500)]));
    none(losses([(7, 9)]));
}

#[test]
fn handshakes_and_data_are_lost_apart_and_counters_that_lie_do_no_harm() {
    let run = |connects: i64, [syns, segments]: [i64; 2]| {
        let mut f = Fixture::new();
        f.count(CLIENT, counter::ACTIVE_OPENS, 7, connects * 10);
        f.count(CLIENT, counter::OUT_SEGS, 7, connects * 100);
        f.count(CLIENT, counter::TCP_SYN_RETRANS, 7, syns);
        f.count(CLIENT, counter::RETRANS_SEGS, 7, segments);
        let written = f.write().unwrap();
        read(String::new(), &written.recording)
    };
    let told = of(&[run(100, [0, 0]), run(200, [200, 200])]).loss_over_load;
    let [syns] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(syns.what.starts_with("SYNs") && syns.points[1].share == rounded(200.0 / 2_200.0));
    let told = of(&[run(100, [0, 0]), run(200, [0, 500])]).loss_over_load;
    assert!(
        told.len() == 1 && told[0].what.starts_with("segments"),
        "{told:?}"
    );
    let hostile = [i64::MAX / 4, i64::MAX / 2];
    let told = of(&[run(1, [0, 0]), run(1_000, hostile), run(2_000, hostile)]).loss_over_load;
    assert!(
        told.iter()
            .all(|loss| loss.points.iter().all(|p| p.share <= 1.0))
    );
}

/// Which of these transfers are slow among their like, by place.
fn marked(flows: Vec<Flow>) -> Vec<usize> {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    let first = 40_000;
    for (i, flow) in flows.into_iter().enumerate() {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", first + i),
            ..flow
        });
    }
    let written = f.write().unwrap();
    let (ends, _) = crate::Reading::of(&written.recording).unwrap().ends();
    let slow = ends.iter().filter(|end| end.slow);
    let mut slow: Vec<usize> = slow
        .map(|end| usize::from(end.local.1.max(end.remote.1)) - first)
        .collect();
    slow.sort_unstable();
    slow
}

/// So many that wait for nothing but the path, at so many kB/s, give or take 5 %.
fn pressed(count: usize, kb_per_s: u64) -> Vec<Flow> {
    let flow = |i: u64| Flow {
        rate: kb_per_s * (1_000 + 10 * (i % 6)),
        cwnd: (kb_per_s / 70) as u32,
        unacked: (kb_per_s / 70) as u32,
        ..Flow::default()
    };
    (0..count as u64).map(flow).collect()
}

const NONE: [usize; 0] = [];

fn all(flows: [Vec<Flow>; 2]) -> Vec<Flow> {
    flows.concat()
}

#[test]
fn slow_sockets_are_marked_whether_they_are_few_or_most() {
    let places = |of: std::ops::Range<usize>| of.collect::<Vec<_>>();
    assert_eq!(marked(all([pressed(1, 300), pressed(11, 3_000)])), [0]);
    let half = all([pressed(6, 300), pressed(6, 3_000)]);
    assert_eq!(marked(half), places(0..6));
    let most = all([pressed(10, 300), pressed(2, 3_000)]);
    assert_eq!(marked(most), places(0..10));
    // Beside a service all of whose sockets are fast.
    let elsewhere = pressed(6, 5_000).into_iter().map(|flow| Flow {
        to: "10.79.0.1:6000",
        ..flow
    });
    let beside = elsewhere.chain(pressed(10, 300)).chain(pressed(5, 3_000));
    assert_eq!(marked(beside.collect()), places(6..16));
}

#[test]
fn none_is_slow_where_all_are_alike_or_one_is_lucky() {
    assert_eq!(marked(pressed(12, 300)), NONE);
    assert_eq!(marked(all([pressed(11, 300), pressed(1, 3_000)])), NONE);
    assert_eq!(marked(all([pressed(1, 300), pressed(1, 3_000)])), NONE);
}

#[test]
fn what_the_application_holds_or_what_is_short_is_not_slow() {
    let held = |count| {
        let flows = pressed(count, 300).into_iter();
        let held = flows.map(|flow| Flow {
            unsent: 0,
            unacked: 2,
            cwnd: 10,
            ..flow
        });
        held.collect::<Vec<_>>()
    };
    assert_eq!(marked(all([held(2), pressed(10, 3_000)])), NONE);
    assert_eq!(marked(all([held(10), pressed(4, 3_000)])), NONE);
    // 160 kB of each in 8 s.
    assert_eq!(marked(all([pressed(6, 20), pressed(6, 3_000)])), NONE);
}

#[test]
fn who_is_farther_away_is_not_slow_for_that() {
    let far = |flows: Vec<Flow>| {
        let far = flows.into_iter().map(|flow| Flow {
            rtt_us: [200_400, 300, 200_000],
            ..flow
        });
        far.collect::<Vec<_>>()
    };
    assert_eq!(marked(all([far(pressed(9, 300)), pressed(3, 3_000)])), NONE);
    let near = all([pressed(9, 300), far(pressed(3, 3_000))]);
    assert_eq!(marked(near), (0..9).collect::<Vec<_>>());
}
