//! A comparison as text: what separates slow from fast is read first.

use explain::compare::{
    Attribute, By, Comparison, CounterDiff, CpuCost, Felt, Function, LoadLoss, Mode, Point,
    RunSummary, SettingDiff, Sockets, Split, Trend, Unit,
};
use view::Style;

fn mode(count: usize, mean: f64) -> Mode {
    Mode {
        count,
        mean,
        min: mean - 10.0,
        max: mean + 10.0,
    }
}

fn run(name: &str, mbit_per_s: f64, slow_sockets: usize) -> RunSummary {
    RunSummary {
        labels: vec!["kernel 6.18".into()],
        name: name.into(),
        mbit_per_s,
        slow: slow_sockets > 0,
        sockets: 30,
        slow_sockets,
        felt: Felt::default(),
    }
}

fn point(run: usize, load: f64, lost: u64) -> Point {
    Point {
        run,
        load,
        lost,
        sent: 10_000,
        share: lost as f64 / 10_000.0,
    }
}

fn mesh() -> Comparison {
    let attribute = |attribute, value: &str, precision| Attribute {
        attribute,
        value: value.into(),
        precision,
        recall: 1.0,
        slow: 4,
        of: 8,
    };
    Comparison {
        runs: vec![run("good.tcpwhy", 640.0, 0), run("bad.tcpwhy", 570.0, 4)],
        by: By::Modes,
        fast: Some(mode(16, 640.0)),
        slow: Some(mode(4, 570.0)),
        sockets: Some(Sockets {
            by: "rate",
            compared: 600,
            slow: 16,
            split: Split {
                low: mode(16, 0.4),
                high: mode(584, 1.0),
                distance: 12.0,
            },
            slow_mbit_per_s: 41.7,
            fast_mbit_per_s: 108.0,
            attributes: vec![
                attribute("SACK", "no", 1.0),
                attribute("port", "7004", 0.9999),
            ],
        }),
        cpus: vec![CpuCost {
            cpu: 23,
            fast_us_per_packet: None,
            slow_us_per_packet: None,
            fast_us_per_interrupt: Some(12.5),
            slow_us_per_interrupt: Some(450.0),
            ratio: 36.0,
        }],
        functions: vec![Function {
            function: "__inet_lookup_established".into(),
            fast_share: 0.01,
            slow_share: 0.6,
        }],
        counters: vec![CounterDiff {
            counter: "TcpExt.SyncookiesRecv".into(),
            fast_per_s: 0.0,
            slow_per_s: 0.44,
            separates: true,
        }],
        settings: vec![SettingDiff {
            setting: "net.ipv4.tcp_sack".into(),
            fast: vec!["1".into()],
            slow: vec!["0".into(), "1".into()],
        }],
        trends: vec![Trend {
            what: "entries of conntrack".into(),
            first: 100.0,
            last: 500.0,
            unit: "count".into(),
            per_day: 100.0,
            tau: 1.0,
            limit: Some(1_000.0),
            limit_in_days: Some(5.0),
        }],
        loss_over_load: vec![LoadLoss {
            what: "packets dropped at the door",
            of: "packets that came",
            unit: Unit::Connects,
            points: vec![point(1, 500.0, 32), point(0, 2_000.0, 2_620)],
            tau: 1.0,
            begins: [500.0, 2_000.0],
        }],
    }
}

#[test]
fn it_reads_well() {
    let text = view::compare::comparison(&mesh(), &Style::default());
    let expected = "\
Throughput has two modes: 16 of 2 runs at 640 Mbit/s (630 to 650), 4 at 570 Mbit/s (560 to 580)
(10.9 % less).

RECORDINGS
  fast        640 Mbit/s, 30 sockets that sent a lot: good.tcpwhy (kernel 6.18)
  slow        570 Mbit/s, 30 sockets that sent a lot, 4 slow: bad.tcpwhy (kernel 6.18)

SLOW SOCKETS
  16 of 600 sockets fall behind their peers (same service) by their best rate: 41.7 Mbit/s in the
  median, the others 108.
  What sets them apart from the others:
  - SACK no: precision 1.0, recall 1.0 (4 of the 8 that have it are slow)
  - port 7004: precision 0.999, recall 1.0 (4 of the 8 that have it are slow)

TRENDS
  - entries of conntrack: 100 to 500, each time more: 100 a day; at its limit of 1,000 in 5.00 days

LOSS OVER LOAD
  - packets dropped at the door, of packets that came: loss rises from 0.32 % at 500 connects/s to
    26.2 % at 2,000 connects/s

KERNEL TIME BY CPU
  - CPU 23: 450 µs per interrupt, 12.5 in the fast (36.0×)

FUNCTIONS THAT GREW
  - __inet_lookup_established: 60.0 % of all samples, 1.0 % in the fast

COUNTERS PER SECOND
  - TcpExtSyncookiesRecv: 0.44 in the slow, 0 in the fast

SETTINGS
  - net.ipv4.tcp_sack: 0 or 1 in the slow, 1 in the fast

NEXT
  $ tcpwhy explain bad.tcpwhy
";
    assert_eq!(text, expected);
}

#[test]
fn what_is_alike_is_said_to_be() {
    let alike = Comparison {
        by: By::Nothing,
        slow: None,
        sockets: None,
        cpus: vec![],
        functions: vec![],
        counters: vec![],
        settings: vec![],
        runs: vec![run("a.tcpwhy", 640.0, 0), run("b.tcpwhy", 642.0, 0)],
        ..mesh()
    };
    let text = view::compare::comparison(&alike, &Style::default());
    assert!(text.starts_with("Throughput has one mode: 2 runs at 640 Mbit/s"));
    assert!(!text.contains("SLOW") && !text.contains("NEXT"));
}

#[test]
fn loss_of_three_is_told_point_by_point_with_where_it_begins() {
    let mut three = mesh();
    let loss = &mut three.loss_over_load[0];
    loss.points.insert(1, point(1, 1_000.0, 338));
    (loss.tau, loss.begins) = (0.9, [500.0, 1_000.0]);
    let text = view::compare::comparison(&three, &Style::default());
    let expected = "\
LOSS OVER LOAD
  - packets dropped at the door, of packets that came: loss rises from 0.32 % at 500 connects/s to
    26.2 % at 2,000 connects/s, mostly (Kendall's tau 0.90); the rise begins between 500 and 1,000
        500 connects/s 0.32 % (32 of 10,000): bad.tcpwhy (kernel 6.18)
      1,000 connects/s 3.38 % (338 of 10,000): bad.tcpwhy (kernel 6.18)
      2,000 connects/s 26.2 % (2,620 of 10,000): good.tcpwhy (kernel 6.18)
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn of_two_what_one_has_and_the_other_has_not_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, f: &synth::Fixture| {
        let path = dir.path().join(name);
        f.write_to(&path).unwrap();
        path
    };
    let healthy = write("healthy.tcpwhy", &synth::cases::churn());
    let full = write("full.tcpwhy", &synth::cases::accept_queue());
    let told = |paths: &[std::path::PathBuf]| {
        let open = |path: &std::path::PathBuf| {
            Ok::<_, recording::Error>((
                path.display().to_string(),
                recording::Recording::open(path)?,
            ))
        };
        let comparison = explain::compare::compare(paths.iter().map(open)).unwrap();
        view::compare::comparison(&comparison, &Style::default())
    };
    let text = told(&[healthy.clone(), full.clone()]);
    let first = "full has what healthy has not: accept-queue-overflow.\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("only in full: APPLICATION · "), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(" 1,000 pending in full"), "{text}");
    // In the wrong order nothing is called slow that is not.
    let text = told(&[full, healthy]);
    assert!(
        text.starts_with(first) && !text.contains("the slow"),
        "{text}"
    );
}
