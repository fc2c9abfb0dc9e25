//! Recordings are told apart by what differs, and not when nothing does.

use super::*;
use synth::{CLIENT, Dial, Fixture, Listen, SERVER};

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
    let story = Story::read(&written.recording).unwrap();
    Run::of(name.into(), &written.recording, &story).unwrap()
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
    f.table_sizes.push(recording::tables::TableSize {
        time_ns: f.manifest.start_ns,
        structure: "conntrack".into(),
        entries,
        limit: Some(1_000),
        ..recording::tables::TableSize::default()
    });
    let written = f.write().unwrap();
    let story = Story::read(&written.recording).unwrap();
    Run::of(day.to_string(), &written.recording, &story).unwrap()
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
        for netns in 1..=namespaces as u32 {
            f.table_sizes.push(recording::tables::TableSize {
                time_ns: f.manifest.start_ns,
                netns,
                structure: "neighbours".into(),
                entries: 200,
                limit: Some(1_024),
                ..recording::tables::TableSize::default()
            });
        }
        let written = f.write().unwrap();
        let story = Story::read(&written.recording).unwrap();
        Run::of(namespaces.to_string(), &written.recording, &story).unwrap()
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
