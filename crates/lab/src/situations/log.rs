//! What a caller wrote down, and what the fault cost it: what it waited beyond what is usual while nothing was wrong.
//! Pure.

use serde::{Deserialize, Serialize};

use crate::exam::Felt;

/// One operation, as its caller wrote it down.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Operation {
    /// When it began, s of the kernel's clock.
    pub(super) t: f64,
    /// What it took, s.
    pub(super) s: f64,
    /// Bytes of the answer, or that flowed in the window.
    #[serde(default)]
    pub(super) n: u64,
    /// What went wrong; `open` of one that was under way at the end.
    pub(super) e: Option<String>,
    /// It is no operation but a window of a transfer, s long.
    pub(super) w: Option<f64>,
}

/// What a caller met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Met {
    /// What is usual of an operation, ms; of transfers, Mbit/s.
    pub usual: Option<f64>,
    /// Operations while nothing was wrong.
    pub before: u64,
    /// Those since.
    pub since: u64,
    /// What the fault cost.
    pub felt: Felt,
    /// The share of the callers' time that the fault took, 0..1.
    #[serde(default)]
    pub share: f64,
    /// The failures since, the commonest first, in words.
    pub failures: Vec<(String, u64)>,
}

/// A wait is slow when it takes so many times as long as is usual …
const SLOW: f64 = 2.0;
/// … and so much longer, s: on a host of two CPUs whoever runs beside it is felt by less.
const FLOOR_S: f64 = 0.02;

/// A user notices, too, when so much of all time is lost.
const SHARE: f64 = 0.2;

impl Met {
    /// How severe it is: 1 is where a user begins to notice.
    pub fn severity(&self) -> f64 {
        self.felt.significance().max(self.share / SHARE)
    }
}

/// Reads a log; a line that was torn is left out.
pub(super) fn read(text: &str) -> Vec<Operation> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The moments of a situation, s of the kernel's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    /// From here on something is wrong.
    pub(super) wrong: f64,
    /// From here on it is recorded; what ended before costs nothing that could be seen.
    pub(super) from: f64,
    /// The recording ends.
    pub(super) until: f64,
    /// So many wait at once.
    pub(super) threads: u32,
}

/// What a caller met.
pub(super) fn met(operations: &[Operation], at: Moments) -> Met {
    let Moments {
        wrong: wrong_s,
        from: from_s,
        until,
        threads,
    } = at;
    let operations = || operations.iter().filter(|o| o.t < until);
    let windows = || operations().filter(|o| o.w.is_some());
    let asks = || operations().filter(|o| o.w.is_none());
    let is_since = |o: &&Operation| o.t + o.s >= wrong_s && o.t + o.s >= from_s;
    let mut before: Vec<f64> = asks()
        .filter(|o| o.t + o.s < wrong_s && o.e.is_none())
        .map(|o| o.s)
        .collect();
    let usual = median(&mut before);
    let mut met = Met {
        before: before.len() as u64,
        usual: usual.map(|s| 1e3 * s),
        ..Met::default()
    };
    met.felt.client = "caller".into();
    asked(&mut met, asks().filter(is_since).collect(), usual, at);
    // The first window holds the start of the transfer.
    let mut rates: Vec<f64> = windows()
        .filter(|o| o.t + o.s < wrong_s)
        .skip(1)
        .map(rate)
        .collect();
    if let Some(usual) = median(&mut rates).filter(|rate| *rate > 0.0) {
        met.usual = Some(8.0 * usual / 1e6);
        met.before = rates.len() as u64;
        let since: Vec<&Operation> = windows().filter(is_since).collect();
        met.since += since.len() as u64;
        let took: f64 = since.iter().map(|o| o.s).sum();
        let lost: f64 = since.iter().map(|o| o.s * (1.0 - rate(o) / usual)).sum();
        met.felt.streaming_s = (lost.max(0.0), took);
    }
    let span = (until - wrong_s.max(from_s)).max(0.1) * f64::from(threads);
    met.share = (met.felt.lost_s() / span).min(1.0);
    met
}

fn asked(met: &mut Met, since: Vec<&Operation>, usual: Option<f64>, at: Moments) {
    met.since = since.len() as u64;
    let felt = &mut met.felt;
    let mut failures = std::collections::BTreeMap::<String, u64>::new();
    let (mut first, mut last) = (None, 0.0);
    for o in &since {
        // What was waited before the recording began is not in it.
        let took = ((o.t + o.s).min(at.until) - o.t.max(at.from)).max(0.0);
        felt.slow_s.1 += took;
        felt.slow.1 += 1;
        let usual = usual.unwrap_or(0.0);
        let beyond = took - usual;
        let failed = o.e.as_ref().filter(|e| *e != "open");
        if let Some(why) = failed {
            *failures.entry(why.clone()).or_default() += 1;
            felt.failed.0 += 1;
            first = first.or(Some(o.t));
            last = o.t + o.s;
        }
        felt.failed.1 += 1;
        if took > (SLOW * usual).max(usual + FLOOR_S) {
            felt.slow.0 += 1;
            felt.slow_s.0 += beyond;
            felt.longest_s = felt.longest_s.max(beyond);
        }
    }
    felt.failing_s = first.map_or(0.0, |first| last - first);
    met.failures = failures.into_iter().collect();
    met.failures.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
}

fn rate(window: &Operation) -> f64 {
    window.n as f64 / window.w.unwrap_or(window.s).max(1e-3)
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wrong: f64, from: f64, until: f64) -> Moments {
        Moments {
            wrong,
            from,
            until,
            threads: 1,
        }
    }

    fn line(t: f64, s: f64, error: Option<&str>) -> String {
        let error = error.map_or(String::new(), |e| format!(", \"e\": \"{e}\""));
        format!("{{\"t\": {t}, \"s\": {s}, \"n\": 9{error}}}\n")
    }

    #[test]
    fn what_takes_longer_than_before_is_lost_to_the_fault() {
        let mut text: String = (0..20)
            .map(|i| line(f64::from(i) / 10.0, 0.01, None))
            .collect();
        text += &line(2.0, 1.01, None);
        text += &line(3.1, 0.01, None);
        text += &line(3.2, 3.0, Some("timeout"));
        text += "{\"t\": 9";
        let met = met(&read(&text), at(2.0, 0.0, 10.0));
        assert_eq!((met.before, met.since), (20, 3));
        assert!((met.usual.unwrap() - 10.0).abs() < 1e-6);
        assert_eq!(met.felt.slow.0, 2);
        assert!((met.felt.slow_s.0 - 3.99).abs() < 1e-6, "{met:?}");
        assert_eq!(met.failures, [("timeout".to_string(), 1)]);
        assert!(met.severity() >= 1.0);
    }

    #[test]
    fn what_was_waited_before_the_recording_is_not_counted() {
        let text = line(0.0, 0.01, None) + &line(1.0, 5.0, Some("open"));
        let met = met(&read(&text), at(0.5, 4.0, 5.5));
        assert!((met.felt.slow_s.0 - 1.49).abs() < 1e-6, "{met:?}");
        assert_eq!(met.felt.failed, (0, 1));
    }

    #[test]
    fn a_transfer_loses_what_its_rate_falls() {
        let window =
            |t: f64, n: u64| format!("{{\"t\": {t}, \"s\": 0.25, \"w\": 0.25, \"n\": {n}}}\n");
        let before: String = (0..8).map(|i| window(f64::from(i) * 0.25, 1000)).collect();
        let since: String = (8..16).map(|i| window(f64::from(i) * 0.25, 100)).collect();
        let met = met(&read(&(before + &since)), at(2.1, 0.0, 99.0));
        assert!((met.felt.streaming_s.0 - 1.8).abs() < 0.01, "{met:?}");
        assert!(met.felt.significance() > 5.0);
    }
}
