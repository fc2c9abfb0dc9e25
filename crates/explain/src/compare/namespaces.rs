//! Which counters and settings differ between slow recordings and fast ones.

use std::collections::{BTreeMap, BTreeSet};

use analysis::words::rounded;
use recording::counter;
use serde::Serialize;

use super::run::Run;

/// Counters told.
const TOLD: usize = 12;
/// A counter that rises more slowly than this on both sides is not worth a line, per second.
const MIN_RATE: f64 = 0.5;
/// Unless so many recordings are all on the right side.
const MANY: usize = 4;
/// Nor unless it stands still in every fast recording and each rise is one client in trouble.
const ONE_TELLS: &[&str] = &[
    counter::SYNCOOKIES_SENT,
    counter::SYNCOOKIES_RECV,
    counter::SYNCOOKIES_FAILED,
    counter::TCP_REQ_Q_FULL_DO_COOKIES,
    counter::TCP_REQ_Q_FULL_DROP,
    counter::LISTEN_OVERFLOWS,
    counter::LISTEN_DROPS,
    counter::ATTEMPT_FAILS,
];
/// Both sides within this factor are alike.
const MIN_FACTOR: f64 = 1.5;

/// A counter that rises at another pace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterDiff {
    /// Its name, with its group.
    pub counter: String,
    /// Rise per second in the fast recordings, on average.
    pub fast_per_s: f64,
    /// The same in the slow.
    pub slow_per_s: f64,
    /// Every slow recording is on the same side of every fast one.
    pub separates: bool,
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingDiff {
    /// Its name.
    pub setting: String,
    /// Its values in the fast recordings, over all namespaces.
    pub fast: Vec<String>,
    /// The same in the slow.
    pub slow: Vec<String>,
}

/// The counters that differ, those that separate all recordings first, then by factor.
pub(super) fn counters(fast: &[&Run], slow: &[&Run]) -> Vec<CounterDiff> {
    let names: BTreeSet<&String> = fast
        .iter()
        .chain(slow)
        .flat_map(|run| run.counters.keys())
        .collect();
    let rates = |runs: &[&Run], name: &str| -> Vec<f64> {
        let rate = |run: &&Run| run.counters.get(name).copied().unwrap_or(0.0);
        runs.iter().map(rate).collect()
    };
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let mut diffs: Vec<CounterDiff> = names
        .into_iter()
        .filter_map(|name| {
            let (f, s) = (rates(fast, name), rates(slow, name));
            let (fast_per_s, slow_per_s) = (mean(&f), mean(&s));
            let [low, high] = [fast_per_s.min(slow_per_s), fast_per_s.max(slow_per_s)];
            let max = |of: &[f64]| of.iter().copied().fold(f64::MIN, f64::max);
            let min = |of: &[f64]| of.iter().copied().fold(f64::MAX, f64::min);
            let separates = min(&s) > max(&f) || max(&s) < min(&f);
            let one_tells = max(&f) == 0.0 && ONE_TELLS.contains(&name.as_str());
            let few = f.len() + s.len() < MANY && !one_tells;
            let tells = high >= MIN_RATE || (separates && !few);
            (tells && high > low * MIN_FACTOR).then(|| CounterDiff {
                counter: name.clone(),
                fast_per_s: rounded(fast_per_s),
                slow_per_s: rounded(slow_per_s),
                separates,
            })
        })
        .collect();
    diffs.sort_by(|a, b| {
        let by_factor = b.factor().total_cmp(&a.factor());
        b.separates.cmp(&a.separates).then(by_factor)
    });
    diffs.truncate(TOLD);
    diffs
}

impl CounterDiff {
    /// How far apart the two paces are, whichever is the greater.
    fn factor(&self) -> f64 {
        let (a, b) = (
            self.fast_per_s + MIN_RATE / 10.0,
            self.slow_per_s + MIN_RATE / 10.0,
        );
        (a / b).max(b / a)
    }
}

/// Values by name.
type Values = BTreeMap<String, BTreeSet<String>>;

/// The settings whose values differ, by name; then the backlogs of listeners that are on both sides:
/// a port that was drawn is another one in every recording.
pub(super) fn settings(fast: &[&Run], slow: &[&Run]) -> Vec<SettingDiff> {
    let mut diffs = differing(fast, slow, |run| &run.settings);
    let backlogs = differing(fast, slow, |run| &run.backlogs);
    let on_both = |d: &SettingDiff| !d.fast.is_empty() && !d.slow.is_empty();
    diffs.extend(backlogs.into_iter().filter(on_both));
    diffs
}

fn differing(fast: &[&Run], slow: &[&Run], of: fn(&Run) -> &Values) -> Vec<SettingDiff> {
    let runs = fast.iter().chain(slow);
    let names: BTreeSet<&String> = runs.flat_map(|run| of(run).keys()).collect();
    let values = |runs: &[&Run], name: &String| -> BTreeSet<String> {
        let of_run = runs.iter().filter_map(|run| of(run).get(name));
        of_run.flatten().cloned().collect()
    };
    let diffs = names.into_iter().filter_map(|name| {
        let (f, s) = (values(fast, name), values(slow, name));
        (f != s).then(|| SettingDiff {
            setting: name.clone(),
            fast: f.into_iter().collect(),
            slow: s.into_iter().collect(),
        })
    });
    diffs.collect()
}
