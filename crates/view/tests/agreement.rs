//! Who counts the same thing counts the same: explain, the report, the live screen and the traces, on
//! connections drawn at random.

use std::collections::BTreeMap;

use analysis::Activity;
use proptest::prelude::*;
use recording::{Recording, Rows};
use synth::{CLIENT, Dial, Fate, Fixture, SERVER};
use view::report::Report;
use view::{How, Reader, Screen, trace};

use crate::report::unpack;
use crate::top::Desk;

/// How often what happened, by whoever counts.
type Counts = BTreeMap<&'static str, u64>;

const NAMES: [(&str, Activity); 6] = [
    ("opened", Activity::Opened),
    ("accepted", Activity::Accepted),
    ("failed", Activity::Failed),
    ("syn", Activity::SynRetransmitted),
    ("data", Activity::Retransmitted),
    ("connected", Activity::Connected),
];

fn dial() -> impl Strategy<Value = Dial> {
    let fate = prop_oneof![
        4 => Just(Fate::Established),
        1 => Just(Fate::Refused),
        1 => Just(Fate::Unanswered),
        1 => Just(Fate::Ghost),
    ];
    let here = prop_oneof![3 => Just(true), 1 => Just(false)];
    (
        fate,
        (here.clone(), here),
        0u32..3,
        0u32..3,
        0u32..4_000,
        1u32..900,
        prop::option::of(8_000u32..9_900),
        20_000u16..60_000,
    )
        .prop_map(
            |(fate, (client, server), retries, resends, at, took, ends, port)| Dial {
                client: client.then_some(CLIENT),
                server: server.then_some(SERVER),
                from: format!("10.79.0.2:{port}"),
                at_ms: f64::from(at),
                took_ms: f64::from(took) + 1_000.0 * f64::from(retries),
                fate,
                retries,
                resends,
                ends_ms: ends.map(f64::from),
                ..Dial::default()
            },
        )
}

/// What the events themselves say.
fn of_events(recording: &Recording) -> Counts {
    // Nothing happened of what no event tells.
    let mut counts = Counts::from(NAMES.map(|(name, _)| (name, 0)));
    for event in recording.events().unwrap() {
        let activity = Activity::of(&event.unwrap().1);
        for (name, of) in NAMES {
            *counts.entry(name).or_default() += u64::from(activity == Some(of));
        }
    }
    counts
}

fn of_explain(recording: &Recording) -> Counts {
    let c = explain::explain(recording).unwrap().summary.connections;
    let connected = c.opened - c.failed - c.pending;
    Counts::from([
        ("opened", c.opened),
        ("accepted", c.accepted),
        ("failed", c.failed),
        ("connected", connected),
    ])
}

fn of_report(recording: Recording) -> Counts {
    let length_s = recording.manifest.length().as_secs_f64();
    let report = Report::of(&[("r".to_string(), recording)]).unwrap();
    let mut counts = Counts::new();
    for chart in &report.page.runs[0].timelines.charts {
        for line in &chart.lines {
            let name = match (chart.id.as_str(), line.name.as_str()) {
                ("connections", "opened") => "opened",
                ("connections", "accepted") => "accepted",
                ("connections", "failed") => "failed",
                ("retransmits", "SYN") => "syn",
                ("retransmits", "rto") => "data",
                _ => continue,
            };
            let values = unpack(&line.values);
            let bin_s = length_s / values.len() as f64;
            counts.insert(name, (values.iter().sum::<f64>() * bin_s).round() as u64);
        }
    }
    counts
}

/// As the screen shows them, whose window holds the whole recording.
fn of_top(recording: &Recording) -> Counts {
    let screen = Desk::of(recording).press(&[]);
    let count = |name: &str| -> u64 {
        let line = screen
            .lines()
            .map(str::trim_start)
            .find(|l| l.starts_with(name));
        let columns = line.unwrap_or_else(|| panic!("no {name} in\n{screen}"));
        // NOW, WINDOW, COUNT.
        let count = columns[name.len()..]
            .split_whitespace()
            .nth(2)
            .expect("a count");
        count.replace(',', "").parse().expect("a number")
    };
    Counts::from([
        ("opened", count("opened")),
        ("accepted", count("accepted")),
        ("failed", count("failed")),
        ("syn", count("SYN retrans")),
        ("data", count("data retrans")),
    ])
}

/// The lines of a trace that `is` takes.
fn traced(
    recording: &Recording,
    what: trace::What,
    is: impl Fn(&serde_json::Value) -> bool,
) -> u64 {
    let mut how = How::of(&recording.manifest);
    how.json = true;
    let mut view = trace::view(what);
    let mut out = Vec::new();
    let mut screen = Screen::new(&mut out, &how);
    let mut reader = Reader::new(&mut *view);
    let mut rows = Rows::of(recording, &reader.tables()).unwrap();
    reader.show(&mut rows, u64::MAX, &mut screen).unwrap();
    reader.end(&mut screen).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
    lines.filter(|l| is(l)).count() as u64
}

fn of_traces(recording: &Recording) -> Counts {
    let of = |what, key: &'static str, value: &'static str| {
        traced(recording, what, |line| line[key] == value)
    };
    Counts::from([
        (
            "connected",
            of(trace::What::Connects, "result", "established"),
        ),
        (
            "accepted",
            of(trace::What::Accepts(false), "type", "accept"),
        ),
        ("syn", of(trace::What::Retransmits, "kind", "syn")),
        ("data", of(trace::What::Retransmits, "kind", "rto")),
    ])
}

/// Whoever says something of a name says this.
fn assert_agreed(truth: &Counts, who: &str, counts: &Counts) -> Result<(), TestCaseError> {
    for (name, n) in counts {
        prop_assert_eq!(truth[name], *n, "{} of {}", name, who);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_who_count_count_the_same(dials in prop::collection::vec(dial(), 1..40)) {
        let mut fixture = Fixture::new();
        dials.into_iter().for_each(|d| fixture.dial(d));
        let written = fixture.write().unwrap();
        let open = || Recording::open(written.recording.dir()).unwrap();
        let recording = open();
        let truth = of_events(&recording);
        assert_agreed(&truth, "explain", &of_explain(&recording))?;
        assert_agreed(&truth, "the report", &of_report(open()))?;
        assert_agreed(&truth, "top", &of_top(&recording))?;
        assert_agreed(&truth, "trace", &of_traces(&recording))?;
    }
}

/// A server whose master holds the listener and hands connections to workers, and a client with a pool, all
/// older than the recording.
fn older() -> Fixture {
    let mut f = Fixture::new();
    f.listen(synth::Listen {
        held_by: vec![(100, 1, "nginx", "S"), (101, 100, "nginx", "S")],
        ..synth::Listen::default()
    });
    for i in 0..4u32 {
        f.dial(Dial {
            from: format!("10.79.0.2:{}", 40_000 + i),
            older: true,
            ..Dial::default()
        });
    }
    let ends: Vec<_> = f.sockets.iter().map(|s| (s.netns, s.inode)).collect();
    for (nth, (netns, inode)) in (0u32..).zip(ends) {
        let (pid, comm) = match netns {
            SERVER => (101 + nth % 2, "worker"),
            _ => (700, "pool"),
        };
        let held = synth::Task::new(pid, comm);
        f.holders
            .push(held.holds(synth::START_NS, inode.expect("a file"), 9));
    }
    f
}

#[test]
fn explain_and_the_views_name_the_same_owner_of_what_is_older() {
    let written = older().write().unwrap();
    let story = analysis::Story::read(&written).unwrap();
    let mut owners = analysis::owners::Owners::default();
    let mut rows = Rows::of(&written, analysis::owners::TABLES).unwrap();
    while let Some(row) = rows.next(u64::MAX).unwrap() {
        owners.learn(&row);
    }
    let mut told = 0;
    for batch in written.scan::<recording::tables::Socket>().unwrap() {
        for (_, row) in batch.unwrap().rows() {
            let by_view = owners.of_socket(&row);
            let local = analysis::Endpoint::new(row.local_addr, row.local_port);
            let is = |c: &&analysis::Conn| c.netns == row.netns && c.local == local;
            // All of a server's have its address: told apart by the other end.
            let remote = analysis::Endpoint::new(row.remote_addr, row.remote_port);
            let conn = story.conns.iter().filter(is).find(|c| c.remote == remote);
            let by_explain = story.owner(conn.unwrap()).map(|(pid, _)| pid);
            assert_eq!(by_explain, by_view.pid, "{row:?}");
            told += u32::from(by_explain.is_some());
        }
    }
    assert_eq!(told, 8);
}
