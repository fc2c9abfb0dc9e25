//! Trouble of a small part of a long recording: found, dated, and not what a day brings by itself.

use explain::{Explanation, explain};
use recording::{EventKind, RetransmitKind, counter};
use synth::{Counters, Dial, Fixture, Flow, Listen, SERVER, START_NS};

const S: u64 = 1_000_000_000;
/// Ten minutes.
const LONG_S: u32 = 600;

/// Six uploads of ten minutes that lose four segments a second in the seconds that `loses` says.
fn uploads(loses: impl Fn(u64) -> bool) -> Explanation {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    let again = [20_500, 20_300, 20_900, 20_600].map(|rtt_us| (RetransmitKind::Fast, rtt_us));
    for i in 0..6 {
        f.flow(Flow {
            from: format!("10.79.0.2:{}", 40_000 + i),
            samples: LONG_S,
            rate: 620_000,
            again: again.to_vec(),
            ..Flow::default()
        });
    }
    f.manifest.end_ns = START_NS + u64::from(LONG_S) * S;
    let second = |time_ns: u64| (time_ns - START_NS) / S;
    f.events
        .retain(|e| e.kind != EventKind::Retransmit || loses(second(e.time_ns)));
    explain(&f.write().expect("it can be written")).expect("a recording of our own reads")
}

#[test]
fn half_a_minute_of_loss_in_ten_is_found_and_dated() {
    let e = uploads(|second| (300..330).contains(&second));
    let [finding] = &e.findings[..] else {
        panic!("{:?}", e.findings);
    };
    assert_eq!(finding.cause, "path-loss");
    let [episode] = finding.episodes[..] else {
        panic!("{:?}", finding.episodes);
    };
    assert!((285.0..=300.0).contains(&episode.from_s), "{episode:?}");
    assert!((330.0..=345.0).contains(&episode.to_s), "{episode:?}");
    let since = finding.since.as_ref().expect("it has a moment");
    assert!((299.0..=301.0).contains(&since.after_start_s), "{since:?}");
    // Its numbers are those of the episode, not of ten minutes.
    assert!(finding.title.contains("loses 0.79 %"), "{}", finding.title);
}

#[test]
fn what_goes_on_all_the_time_is_judged_whole() {
    let e = uploads(|_| true);
    assert_eq!(e.findings.len(), 1);
    assert!(e.findings[0].episodes.is_empty());
}

#[test]
fn a_loss_now_and_then_is_none() {
    let e = uploads(|second| second.is_multiple_of(60));
    assert!(e.findings.is_empty(), "{:?}", e.findings);
}

/// An hour of a service that gets ten connections a second. In four minutes of it, from the fortieth on, its
/// accept queue is full, and half of its clients wait a second.
fn an_hour() -> Fixture {
    const HOUR_S: u32 = 3_600;
    let trouble = 2_400..2_640;
    let mut f = Fixture::new();
    f.listen(Listen {
        backlog: 8,
        accept_queue: (0..HOUR_S)
            .map(|second| if trouble.contains(&second) { 9 } else { 0 })
            .collect(),
        ..Listen::default()
    });
    let mut counters = Counters::default();
    for second in 0..HOUR_S {
        let is_full = trouble.contains(&second);
        for i in 0..10u32 {
            let at_ms = f64::from(second) * 1e3 + f64::from(i) * 90.0;
            let retries = u32::from(is_full && i % 2 == 0);
            let took_ms = 0.06 + 1_000.0 * f64::from(retries);
            f.dial(Dial {
                from: format!("10.79.0.2:{}", 10_000 + (second * 10 + i) % 50_000),
                at_ms,
                took_ms,
                retries,
                rtt_us: 60,
                ends_ms: Some(at_ms + took_ms + 5.0),
                ..Dial::default()
            });
        }
        if is_full {
            let time_ns = START_NS + u64::from(second) * S;
            for name in [counter::LISTEN_OVERFLOWS, counter::LISTEN_DROPS] {
                f.counters.push(counters.rise(time_ns, SERVER, name, 5));
            }
        }
    }
    for row in &mut f.listeners {
        let second = ((row.time_ns - START_NS) / S) as u32;
        row.drops = 5 * second.clamp(trouble.start, trouble.end) - 5 * trouble.start;
    }
    f.manifest.end_ns = START_NS + u64::from(HOUR_S) * S;
    f
}

#[test]
fn four_minutes_of_a_full_accept_queue_in_an_hour_are_found_and_dated() {
    let written = an_hour().write().expect("it can be written");
    let e = explain(&written).expect("a recording of our own reads");
    let [finding] = &e.findings[..] else {
        panic!("{:?}", e.findings);
    };
    assert_eq!(finding.cause, "accept-queue-overflow");
    let [episode] = finding.episodes[..] else {
        panic!("{:?}", finding.episodes);
    };
    assert!((2_340.0..=2_400.0).contains(&episode.from_s), "{episode:?}");
    assert!((2_640.0..=2_700.0).contains(&episode.to_s), "{episode:?}");
    assert_eq!(
        (finding.impact.affected, finding.scope.pid),
        (1_200, Some(812))
    );
    let since = finding.since.as_ref().expect("it has a moment");
    assert!(
        (2_398.0..=2_402.0).contains(&since.after_start_s),
        "{since:?}"
    );
}
