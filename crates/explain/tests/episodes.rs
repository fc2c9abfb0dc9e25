//! Trouble of a small part of a long recording: found, dated, and not what a day brings by itself.

use explain::{Explanation, explain};
use recording::{EventKind, RetransmitKind};
use synth::{Fixture, Flow, Listen, START_NS};

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
